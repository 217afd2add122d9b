"""Sequences of different lengths: padded to one tensor, or packed without padding."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...kernels.recording import refuse
from ...ops import shape as shapes
from ...tensor import Tensor


def _whole(values: Any) -> Tensor:
    made: Tensor = Tensor._make(np.asarray(values, np.int64))
    return made


class _Packed(NamedTuple):
    data: Tensor
    batch_sizes: Tensor
    sorted_indices: Tensor | None
    unsorted_indices: Tensor | None


class PackedSequence(_Packed):
    """Sequences of different lengths, step by step: ``pack_padded_sequence`` makes one.

    ``data`` (sum of lengths, ...) holds the first step of all sequences, then the second, and so on;
    ``batch_sizes`` says how many sequences are still running at each step. Sequences go by
    decreasing length; ``sorted_indices`` and ``unsorted_indices`` are the way there and back.
    """

    __slots__ = ()

    def __new__(
        cls,
        data: Tensor,
        batch_sizes: Tensor | None = None,
        sorted_indices: Tensor | None = None,
        unsorted_indices: Tensor | None = None,
    ) -> PackedSequence:
        if batch_sizes is None:
            raise ValueError("PackedSequence needs batch_sizes; use pack_padded_sequence or pack_sequence")
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def to(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """The same with its data converted."""
        return PackedSequence(
            self.data.to(*args, **kwargs), self.batch_sizes, self.sorted_indices, self.unsorted_indices
        )

    def double(self) -> PackedSequence:
        """The same in float64."""
        return self._with(self.data.double())

    def float(self) -> PackedSequence:
        """The same in float32."""
        return self._with(self.data.float())

    def cpu(self) -> PackedSequence:
        """Itself: everything is on the CPU."""
        return self

    def _with(self, data: Tensor) -> PackedSequence:
        return PackedSequence(data, self.batch_sizes, self.sorted_indices, self.unsorted_indices)


def invert_permutation(permutation: Tensor | None) -> Tensor | None:
    """The permutation that undoes another one."""
    refuse("a packed sequence")
    return None if permutation is None else _whole(np.argsort(permutation._array, kind="stable"))


def pack_padded_sequence(
    input: Tensor, lengths: Any, batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """Pack a padded batch (T, B, ...), or (B, T, ...) if ``batch_first``.

    With ``enforce_sorted`` the lengths must not increase; else the sequences are sorted here and
    brought back in order when unpacked.
    """
    refuse("a packed sequence")
    sizes = np.asarray(lengths._array if isinstance(lengths, Tensor) else list(lengths), np.int64)
    if batch_first:
        input = input.transpose(0, 1)
    steps, batch = int(input.shape[0]), int(input.shape[1])
    if sizes.shape != (batch,):
        raise RuntimeError(
            f"pack_padded_sequence: expected {batch} lengths, one per sequence, got shape {list(sizes.shape)}"
        )
    if sizes.size and sizes.min() <= 0:
        raise RuntimeError("pack_padded_sequence: the length of all samples has to be greater than 0")
    if sizes.size and sizes.max() > steps:
        raise RuntimeError(
            f"pack_padded_sequence: a length of {sizes.max()} is more than the {steps} steps of the input"
        )
    order: Tensor | None = None
    if enforce_sorted:
        if (np.diff(sizes) > 0).any():
            raise RuntimeError(
                "pack_padded_sequence: `lengths` must be sorted in decreasing order when `enforce_sorted` "
                "is True; "
                "pass enforce_sorted=False to have the sequences sorted"
            )
    else:
        order = _whole(np.argsort(-sizes, kind="stable"))
        sizes = sizes[order._array]
        input = input.index_select(1, order)
    running = np.arange(int(sizes.max()))[:, None] < sizes[None, :]
    step, sample = np.nonzero(running)
    data = input.flatten(0, 1).index_select(0, _whole(step * batch + sample))
    return PackedSequence(data, _whole(running.sum(1)), order)


def pad_packed_sequence(
    sequence: PackedSequence,
    batch_first: bool = False,
    padding_value: float = 0.0,
    total_length: int | None = None,
) -> tuple[Tensor, Tensor]:
    """The padded batch and the lengths of a packed one."""
    counts = sequence.batch_sizes._array
    steps, batch = len(counts), int(counts[0])
    if total_length is not None and total_length < steps:
        raise ValueError(
            f"Expected total_length to be at least the length of the longest sequence in input, but got "
            f"total_length={total_length} and max sequence length being {steps}"
        )
    total = steps if total_length is None else total_length
    data = sequence.data
    # A row of padding goes behind the data; places without a step point to it.
    where = np.full((total, batch), len(data), np.int64)
    running = np.arange(batch)[None, :] < counts[:, None]
    where[:steps][running] = np.arange(len(data))
    filler = data.new_full((1, *data.shape[1:]), padding_value)
    padded = shapes.cat([data, filler]).index_select(0, _whole(where.reshape(-1)))
    padded = padded.reshape(total, batch, *data.shape[1:])
    lengths = _whole(running.sum(0))
    if sequence.unsorted_indices is not None:
        padded = padded.index_select(1, sequence.unsorted_indices)
        lengths = lengths[sequence.unsorted_indices]
    return (padded.transpose(0, 1) if batch_first else padded), lengths


def pad_sequence(
    sequences: Iterable[Tensor],
    batch_first: bool = False,
    padding_value: float = 0.0,
    padding_side: str = "right",
) -> Any:
    """One batch (T, B, ...), or (B, T, ...) if ``batch_first``, from sequences (L_i, ...)."""
    items = list(sequences)
    if not items:
        raise RuntimeError("pad_sequence: received an empty list of sequences")
    if padding_side not in ("left", "right"):
        raise RuntimeError(
            f"pad_sequence: padding_side should be either 'left' or 'right', got {padding_side!r}"
        )
    longest = max(int(s.shape[0]) for s in items)
    padded = []
    for s in items:
        missing = longest - int(s.shape[0])
        if missing:
            filler = s.new_full((missing, *s.shape[1:]), padding_value)
            s = shapes.cat([s, filler] if padding_side == "right" else [filler, s])
        padded.append(s)
    return shapes.stack(padded, 0 if batch_first else 1)


def unpad_sequence(padded_sequences: Tensor, lengths: Tensor, batch_first: bool = False) -> list[Tensor]:
    """The sequences of a padded batch, without their padding."""
    if not batch_first:
        padded_sequences = padded_sequences.transpose(0, 1)
    return [row[: int(n)] for row, n in zip(padded_sequences, lengths, strict=True)]


def pack_sequence(sequences: Sequence[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """Pack sequences (L_i, ...)."""
    return pack_padded_sequence(
        pad_sequence(sequences), [int(s.shape[0]) for s in sequences], enforce_sorted=enforce_sorted
    )


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """The sequences of a packed batch."""
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)
