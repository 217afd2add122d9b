"""Sums, means and maxima over bags of table rows."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...modes import no_grad
from ...ops.arithmetic import where
from ...tensor import Tensor


def _ints(values: Any) -> Tensor:
    made: Tensor = Tensor._make(np.ascontiguousarray(values, np.int64))
    return made


def embedding_bag(
    input: Tensor,
    weight: Tensor,
    offsets: Tensor | None = None,
    max_norm: float | None = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:
    """Rows of ``weight`` reduced per bag by "sum", "mean" or "max".

    ``input`` holds indices (B, N), one bag per row, or (N,) with ``offsets`` (B,), where the bags start.
    ``per_sample_weights`` weighs the rows (mode "sum"); rows ``padding_idx`` do not count. An empty bag
    gives zeros.
    """
    if sparse:
        raise RuntimeError("embedding_bag: sparse=True is not supported: gradients are dense tensors here")
    if scale_grad_by_freq:
        raise RuntimeError("embedding_bag: scale_grad_by_freq=True is not supported; scale the gradient of the rows instead")
    if mode not in ("sum", "mean", "max"):
        raise ValueError("mode has to be one of sum, mean or max")
    if per_sample_weights is not None and mode != "sum":
        raise NotImplementedError(
            f"embedding_bag: per_sample_weights was not None. per_sample_weights is only supported for mode='sum' (got "
            f"mode='{mode}')."
        )
    if per_sample_weights is not None and per_sample_weights.shape != input.shape:
        raise ValueError(
            f"embedding_bag: If per_sample_weights ({tuple(per_sample_weights.shape)}) is not None, then it must have the "
            f"same shape as the input ({tuple(input.shape)})"
        )
    index = input._array.reshape(-1)
    starts = _starts(input, offsets, include_last_offset)
    rows = weight.shape[0]
    if index.size and (index.min() < 0 or index.max() >= rows):
        raise IndexError(f"embedding_bag: indices must lie within [0, {rows}), got {index.min()} to {index.max()}")
    if max_norm is not None:
        _renormalise(weight, index, max_norm, norm_type)
    counted = np.ones(index.shape, bool) if padding_idx is None else index != padding_idx % rows
    bags = np.repeat(np.arange(len(starts)), np.diff([*starts, index.size]))
    flat_weights = None if per_sample_weights is None else per_sample_weights.reshape(-1)
    if not counted.all():
        chosen = np.flatnonzero(counted)
        index, bags = index[chosen], bags[chosen]
        flat_weights = None if flat_weights is None else flat_weights.index_select(0, _ints(chosen))
    taken: Tensor = weight.index_select(0, _ints(index))
    if mode == "max":
        return _largest(taken, bags, len(starts))
    if flat_weights is not None:
        taken = taken * flat_weights.unsqueeze(1)
    total: Tensor = taken.new_zeros((len(starts), weight.shape[1])).index_add(0, _ints(bags), taken)
    if mode == "sum":
        return total
    sizes = np.maximum(np.bincount(bags, minlength=len(starts)), 1).astype(weight._array.dtype)
    return total / Tensor._make(sizes[:, None])


def _starts(input: Tensor, offsets: Tensor | None, include_last_offset: bool) -> np.ndarray:
    """The position where each bag starts."""
    if input.dim() == 2:
        if offsets is not None:
            raise ValueError("if input is 2D, then offsets has to be None, as input is treated is a mini-batch of fixed length sequences.")
        return np.arange(input.shape[0]) * input.shape[1]
    if input.dim() != 1:
        raise ValueError(f"input has to be 1D or 2D Tensor, but got Tensor of dimension {input.dim()}")
    if offsets is None:
        raise ValueError("offsets has to be a 1D Tensor but got None")
    if offsets.dim() != 1:
        raise ValueError("offsets has to be a 1D Tensor")
    starts = offsets._array
    if len(starts) and starts[0] != 0:
        raise RuntimeError(f"offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start from position 0. However, got {starts[0]}")
    if include_last_offset:
        if not len(starts):
            raise RuntimeError("include_last_offset: number of offset should be at least 1")
        starts = starts[:-1]
    if len(starts) and (starts[-1] > input.shape[0] or (np.diff(starts) < 0).any()):
        raise RuntimeError(f"offsets must not decrease, nor exceed the {input.shape[0]} indices; got {starts.tolist()}")
    return starts


def _renormalise(weight: Tensor, index: np.ndarray, max_norm: float, norm_type: float) -> None:
    """Scale the rows that are used down to ``max_norm``, in place."""
    used = np.unique(index)
    rows = weight._array[used].astype(np.float64)
    size = np.linalg.norm(rows, ord=norm_type, axis=1)
    long = size > max_norm
    if long.any():
        scaled = rows[long] * (max_norm / (size[long] + 1e-7))[:, None]
        with no_grad():
            weight[_ints(used[long])] = Tensor._make(scaled.astype(weight._array.dtype))


def _largest(taken: Tensor, bags: np.ndarray, count: int) -> Tensor:
    """The largest element per bag and column."""
    sizes = np.bincount(bags, minlength=count)
    longest = int(sizes.max()) if count and bags.size else 0
    if not longest:
        empty: Tensor = taken.new_zeros((count, taken.shape[1]))
        return empty
    # One row of places per bag, filled up with its first element, which cannot change the maximum.
    starts = np.cumsum(sizes) - sizes
    places = starts[:, None] + np.minimum(np.arange(longest)[None, :], np.maximum(sizes - 1, 0)[:, None])
    places = np.minimum(places, len(bags) - 1)
    spread = taken.index_select(0, _ints(places.reshape(-1))).reshape(count, longest, taken.shape[1])
    real = np.arange(longest)[None, :] < sizes[:, None]
    best: Tensor = where(Tensor._make(real[:, :, None]), spread, -math.inf).max(1).values
    return best if sizes.all() else where(Tensor._make((sizes > 0)[:, None]), best, 0.0)
