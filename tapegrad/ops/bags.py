"""Embedding bags: sums, means or maxima of looked-up rows, bag by bag."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..kernels.recording import refuse
from ..tape import Value
from .along import take_along
from .arithmetic import div, mul, where
from .embed import embedding, embedding_renorm_
from .gather import check_tensor
from .rows import add_rows
from .shape import reshape, unsqueeze


def _starts(input: Any, offsets: Any, include_last_offset: bool) -> tuple[np.ndarray, int]:
    """Where each bag begins in the flattened input, and how many bags there are."""
    shape = input._array.shape
    if len(shape) == 2:
        if offsets is not None:
            raise ValueError(
                "if input is 2D, then offsets has to be None, as input is treated is a mini-batch of fixed "
                "length sequences"
            )
        return np.arange(shape[0], dtype=np.int64) * shape[1], shape[0]
    if len(shape) != 1:
        raise ValueError(f"input has to be 1D or 2D Tensor, but got Tensor of dimension {len(shape)}")
    if offsets is None:
        raise ValueError("offsets has to be a 1D Tensor but got None")
    check_tensor(offsets, "embedding_bag", "offsets")
    starts = offsets._array
    if starts.ndim != 1:
        raise ValueError("offsets has to be a 1D Tensor")
    if starts.dtype.char not in "li":
        raise RuntimeError("embedding_bag: offsets must be of dtype int64 or int32")
    starts = starts.astype(np.int64, copy=False)
    bags = starts.size - int(include_last_offset)
    if bags < 0:
        raise RuntimeError("include_last_offset: number of offsets should be at least 1")
    if starts.size:
        if starts[0] != 0:
            raise RuntimeError(
                "offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start from "
                "position 0. However, got "
                f"{starts[0]}"
            )
        if starts[-1] > shape[0] or (np.diff(starts) < 0).any():
            raise RuntimeError(
                f"embedding_bag: offsets must not decrease, and the last one ({starts[-1]}) not exceed the "
                f"input's length {shape[0]}"
            )
    return starts[:bags], bags


def _check_mode(mode: str, weights: Any, input: Any, scale_grad_by_freq: bool, sparse: bool) -> None:
    if mode not in ("sum", "mean", "max"):
        raise ValueError("mode has to be one of sum or mean or max")
    if mode == "max" and scale_grad_by_freq:
        raise ValueError("max mode does not support scaling the gradient by the frequency")
    if mode == "max" and sparse:
        raise ValueError("max mode does not support sparse weights")
    if weights is None:
        return
    if weights._array.shape != input._array.shape:
        raise ValueError(
            f"embedding_bag: If per_sample_weights ({list(weights._array.shape)}) is not None, then it must "
            "have the same shape as "
            f"the input ({list(input._array.shape)})"
        )
    if mode != "sum":
        raise NotImplementedError(
            "embedding_bag: per_sample_weights was not None. per_sample_weights is only supported for "
            f"mode='sum' (got mode='{mode}')."
        )


def embedding_bag(
    input: Any,
    weight: Any,
    offsets: Any = None,
    max_norm: float | None = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Any = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Any:
    """Rows of ``weight`` looked up and reduced bag by bag: (bags, dim).

    ``input`` is (bags, length), or 1-d with ``offsets`` where bags begin. ``mode`` is "sum", "mean" or
    "max"; an empty bag gives zeros; ``padding_idx`` does not count.
    """
    refuse("embedding_bag()")
    check_tensor(input, "embedding_bag", "input")
    check_tensor(weight, "embedding_bag", "weight")
    if input._array.dtype.char == "f" and isinstance(weight, Value) and weight._array.dtype.char in "li":
        raise ValueError("embedding_bag: the arguments are (input, weight), in this order")
    starts, bags = _starts(input, offsets, include_last_offset)
    _check_mode(mode, per_sample_weights, input, scale_grad_by_freq, sparse)
    if weight._array.ndim != 2:
        raise RuntimeError("'weight' must be 2-D")
    rows, width = weight._array.shape
    padding = -1
    if padding_idx is not None:
        if not -rows <= padding_idx < rows:
            raise AssertionError("padding_idx must be within the number of embeddings")
        padding = padding_idx % rows
    flat = reshape(input, (input._array.size,))
    if max_norm is not None:
        embedding_renorm_(weight, flat, max_norm, norm_type)
    found = embedding(weight, flat, padding, scale_grad_by_freq, sparse)
    n = flat._array.size
    bag = np.searchsorted(starts, np.arange(n), side="right") - 1  # the bag of each looked-up row
    counts = flat._array != padding
    if mode == "max":
        return _maxima(found, bag, counts, bags, width)
    if per_sample_weights is not None:
        found = mul(found, unsqueeze(reshape(per_sample_weights, (n,)), 1))
    if not counts.all():
        found = where(found._make(counts[:, None]), found, 0)
    total = add_rows(found, found._make(bag), shape=(bags, width), dim=0, span=1)
    if mode == "sum":
        return total
    sizes = np.bincount(bag[counts], minlength=bags).astype(total._array.dtype)
    return div(total, total._make(np.maximum(sizes, 1)[:, None]))


def _maxima(found: Any, bag: np.ndarray, counts: np.ndarray, bags: int, width: int) -> Any:
    """The largest of each bag and column; the first of equal ones gets the gradient."""
    array = found._array
    best = np.zeros((bags, width), np.int64)
    filled = np.zeros((bags, 1), bool)
    places = np.flatnonzero(counts)
    for b in np.unique(bag[places]):
        inside = places[bag[places] == b]
        best[b] = inside[array[inside].argmax(0)]
        filled[b] = True
    if not array.size:
        return found._make(np.zeros((bags, width), array.dtype))
    largest = take_along(found, found._make(best), dim=0)
    return largest if filled.all() else where(found._make(filled), largest, 0)
