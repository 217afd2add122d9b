"""Searching sorted sequences, membership, distinct elements, and histograms."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import dtypes, kernels
from ..kernels import launch_lazily as launch
from ..kernels.arrays import cast, contiguous
from ..kernels.recording import now, refuse
from ..op import kernel_op
from ..tape import Value
from .axes import widened
from .convert import to_dtype
from .dims import refuse_bools, wrap_dim
from .gather import gather
from .out import into

__all__ = [
    "bincount",
    "bucketize",
    "histc",
    "isin",
    "searchsorted",
    "unique",
    "unique_consecutive",
]  # fmt: skip


# -- searching -----------------------------------------------------------------------------------------


@kernel_op(name="searchsorted", native=True)
def _searched(rows: Any, values: Any, *, right: Any, dtype: Any) -> Any:
    """The places in sorted rows where values belong."""
    out = np.empty(values.shape, np.int64)
    if out.size:
        r = contiguous(widened(rows))
        v = contiguous(widened(values), r.dtype)
        n, m = r.shape[-1], values.shape[-1] if values.ndim else 1
        launch(kernels.search.search_rows, (r, v, out, n, m, int(r.ndim == 1), int(right)), v.size, v.size)
    return cast(out, dtype)


def _value_tensor(value: Any, like: Any, name: str) -> Any:
    if isinstance(value, Value):
        return value
    if isinstance(value, (int, float)):
        return like._make(np.asarray(value, like._array.dtype))
    raise TypeError(f"{name}(): argument 'input' must be a tensor or a number, not {type(value).__name__}")


def searchsorted(
    sorted_sequence: Any,
    input: Any,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    out: Any = None,
    sorter: Any = None,
) -> Any:
    """Where the elements of ``input`` belong in the sorted last dimension of ``sorted_sequence``.

    At equal elements the index before them, or behind them with ``right`` (``side="right"``).
    """
    values = _value_tensor(input, sorted_sequence, "searchsorted")
    s, v = sorted_sequence._array, values._array
    refuse_bools(s, "searchsorted")
    if side not in (None, "left", "right"):
        raise RuntimeError(f"searchsorted(): side can only be 'left' or 'right' but got {side}")
    if side == "left" and right:
        raise RuntimeError(
            "searchsorted(): side and right can't be set to opposites, got side of left while right was True"
        )
    if not s.ndim:
        raise RuntimeError(
            "searchsorted(): boundaries tensor should have positive dimension, but got 0 dimension"
        )
    if s.ndim > 1 and (v.ndim != s.ndim or v.shape[:-1] != s.shape[:-1]):
        raise RuntimeError(
            "searchsorted(): boundaries tensor should be 1 dimension or the first N-1 dimensions of "
            f"boundaries tensor and input value tensor must match, but we got boundaries tensor "
            f"{list(s.shape)} and input value tensor {list(v.shape)}"
        )
    if s.dtype != v.dtype:
        to = dtypes.promote_types(dtypes.of(s), dtypes.of(v))
        sorted_sequence, values = to_dtype(sorted_sequence, to), to_dtype(values, to)
    if sorter is not None:
        order = sorter._array
        if order.dtype != np.int64 or order.shape != s.shape:
            raise RuntimeError(
                f"searchsorted(): sorter must be int64 and have the shape of the boundaries {list(s.shape)}, "
                f"got {order.dtype} {list(order.shape)}"
            )
        # A recorded step cannot look at the order here; gather checks it in each run.
        if now() is None and order.size and not (order.min() >= 0 and order.max() < s.shape[-1]):
            raise RuntimeError("searchsorted(): sorter index out of range")
        sorted_sequence = gather(sorted_sequence.detach(), -1, sorter)
    dtype = np.dtype(np.int32 if out_int32 else np.int64)
    return into(
        _searched(sorted_sequence, values, right=right or side == "right", dtype=dtype), out, "searchsorted"
    )


def bucketize(
    input: Any, boundaries: Any, *, out_int32: bool = False, right: bool = False, out: Any = None
) -> Any:
    """The index of the bucket between sorted ``boundaries`` that each element falls into."""
    if boundaries._array.ndim != 1:
        raise RuntimeError(
            f"bucketize(): boundaries tensor must be 1 dimension, but got dim({boundaries._array.ndim})"
        )
    return searchsorted(boundaries, input, out_int32=out_int32, right=right, out=out)


# -- membership and distinct elements --------------------------------------------------------------------


@kernel_op(name="isin")
def _member(elements: Any, tests: Any, *, invert: Any) -> Any:
    """Whether each element is among the tests."""
    return np.asarray(np.isin(elements, tests, invert=invert))


def isin(
    elements: Any, test_elements: Any, *, assume_unique: bool = False, invert: bool = False, out: Any = None
) -> Any:
    """Whether each of ``elements`` is among ``test_elements`` (``invert``: is not); one may be a number."""
    if not isinstance(elements, Value) and not isinstance(test_elements, Value):
        raise TypeError("isin(): one of elements and test_elements must be a tensor")
    a = elements if isinstance(elements, Value) else test_elements._make(np.asarray(elements))
    b = test_elements if isinstance(test_elements, Value) else elements._make(np.asarray(test_elements))
    to = dtypes.promote_types(dtypes.of(a._array), dtypes.of(b._array))
    if "?" in (a._array.dtype.char, b._array.dtype.char):
        raise RuntimeError("Unsupported input type encountered for isin(): Bool")
    return into(_member(to_dtype(a, to), to_dtype(b, to), invert=bool(invert)), out, "isin")


def _results(
    input: Any, values: Any, inverse: Any, counts: Any, return_inverse: bool, return_counts: bool
) -> Any:
    made = [input._make(np.asarray(values, order="C"))]
    if return_inverse:
        made.append(input._make(np.asarray(inverse, np.int64, order="C")))
    if return_counts:
        made.append(input._make(np.asarray(counts, np.int64, order="C")))
    return tuple(made) if len(made) > 1 else made[0]


def unique(
    input: Any,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Any:
    """The distinct elements in order (or the distinct slices along a dimension), with what is asked for.

    ``return_inverse`` adds where each element went, ``return_counts`` how often each is met.
    """
    refuse("unique(), whose result's shape depends on values,")
    x = input._array
    if dim is None:
        values, inverse, counts = np.unique(x, return_inverse=True, return_counts=True, equal_nan=False)
        return _results(input, values, inverse.reshape(x.shape), counts, return_inverse, return_counts)
    d = wrap_dim(dim, x.ndim)
    if not x.size:
        _refuse_empty(x, d, "unique")
        return _results(input, x, np.zeros(0), np.zeros(0), return_inverse, return_counts)
    values, inverse, counts = np.unique(x, return_inverse=True, return_counts=True, axis=d, equal_nan=False)
    return _results(input, values, inverse.reshape(-1), counts, return_inverse, return_counts)


def _refuse_empty(x: np.ndarray, dim: int, name: str) -> None:
    if any(not n for d, n in enumerate(x.shape) if d != dim):
        raise RuntimeError(
            f"{name}: There are 0 sized dimensions, and they aren't selected, so unique cannot be applied"
        )


def unique_consecutive(
    input: Any, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    """The first of each run of equal elements (or equal slices along a dimension), with what is asked for."""
    refuse("unique_consecutive(), whose result's shape depends on values,")
    x = input._array
    d = 0 if dim is None else wrap_dim(dim, x.ndim)
    lanes = x.reshape(-1) if dim is None or not x.ndim else np.moveaxis(x, d, 0)
    n = lanes.shape[0]
    if dim is not None and x.ndim:
        _refuse_empty(x, d, "unique_consecutive")
    first = np.ones(n, bool)
    if n > 1:
        differs = lanes[1:] != lanes[:-1]
        first[1:] = differs.reshape(n - 1, -1).any(1)
    at = np.flatnonzero(first)
    values = lanes[at] if dim is None or not x.ndim else np.moveaxis(lanes[at], 0, d)
    inverse = np.cumsum(first) - 1
    counts = np.diff(np.append(at, n))
    shape = x.shape if dim is None else (n,)
    return _results(input, values, inverse.reshape(shape), counts, return_inverse, return_counts)


# -- histograms ----------------------------------------------------------------------------------------


@kernel_op(name="bincount")
def _bins(x: Any, weights: Any, *, minlength: Any) -> Any:
    """How often each whole number is met, or the sum of its weights."""
    counts = np.bincount(x, None if weights is None else weights.astype(np.float64), minlength)
    return counts.astype(
        np.int64 if weights is None else weights.dtype if weights.dtype.char == "f" else np.float64
    )


def bincount(input: Any, weights: Any = None, minlength: int = 0) -> Any:
    """How often each number 0, 1, 2, ... is met in a 1-d tensor of integers, or the sum of its weights."""
    refuse("bincount(), whose result's shape depends on values,")
    x = input._array
    refuse_bools(x, "bincount")
    if minlength < 0:
        raise RuntimeError(f"minlength should be >= 0, got {minlength}")
    if x.ndim != 1 or x.dtype.kind not in "iu" or (x.size and x.min() < 0):
        raise RuntimeError("bincount only supports 1-d non-negative integral inputs.")
    if weights is not None and weights._array.shape != x.shape:
        raise RuntimeError(
            "weights should be 1-d and have the same length as input: "
            f"{list(weights._array.shape)} and {list(x.shape)}"
        )
    return _bins(input, weights, minlength=int(minlength))


@kernel_op(name="histc")
def _histogram(x: Any, *, bins: Any, low: Any, high: Any) -> Any:
    """How many elements fall into each of equal bins."""
    inside = x[(x >= low) & (x <= high)].astype(np.float64)
    places = np.minimum(((inside - low) / (high - low) * bins).astype(np.int64), bins - 1)
    return np.bincount(places, minlength=bins).astype(x.dtype)


def histc(input: Any, bins: int = 100, min: float = 0, max: float = 0, *, out: Any = None) -> Any:
    """How many elements fall into each of ``bins`` equal bins from min to max (of the data, if equal)."""
    refuse("histc()")
    x = input._array
    if x.dtype.kind != "f":
        raise NotImplementedError(f"\"histogram_cpu\" not implemented for '{dtypes.of(x).short}'")
    if bins <= 0:
        raise RuntimeError(f"histc(): bins must be > 0, but got {bins}")
    low, high = float(min), float(max)
    if low == high and x.size:
        low, high = float(x.min()), float(x.max())
    if not (math.isfinite(low) and math.isfinite(high)):
        raise RuntimeError(f"histc(): range of [{low}, {high}] is not finite")
    if low > high:
        raise RuntimeError("histc(): max must be larger than min")
    if low == high:
        low, high = low - 1, high + 1
    return into(_histogram(input, bins=int(bins), low=low, high=high), out, "histc")


class CountingMethods:
    """a.unique(), a.bincount(), ..."""

    __slots__ = ()

    unique, unique_consecutive, bincount, histc = unique, unique_consecutive, bincount, histc
    isin = isin
