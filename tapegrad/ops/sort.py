"""Order: sort, argsort, topk, and the order statistics median, kthvalue, mode and quantile.

NaN counts as larger than every number. Sorting is always stable.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import buffers, config, kernels
from ..kernels import launch_lazily as launch
from ..kernels.arrays import cast, contiguous, duplicate, zeros
from ..kernels.recording import active, now
from ..op import KernelOp, kernel_op
from .along import add_along, taken_along
from .axes import final_shape, lane, numpy_names
from .dims import refuse_bools, wrap_dim
from .extrema import back_to_place, dim_with_elements, into_pair, shared
from .out import into

__all__ = ["argsort", "kthvalue", "median", "mode", "msort", "nanmedian", "sort", "topk"]


# Lanes up to this length are sorted to find a rank, so that of equal elements the first is named.
_SHORT = 128
# Kinds of elements, as kernels/order.py numbers them.
_UNSIGNED, _SIGNED, _FLOATING = range(3)

# Elements below which NumPy is faster, as it always is for small integers.
_FEW = 1 << 10
# Units that threads share: lanes, or pieces of a lane so long that it is worth cutting it.
_UNITS = 16
_LONG = 1 << 18


def _order(x: np.ndarray, dim: int, descending: bool) -> np.ndarray:
    """Indices that sort along dim; equal elements stay in order."""
    if not x.ndim:
        return zeros((), np.dtype(np.int64))
    if now() is None and (x.size < _FEW or (x.itemsize <= 2 and x.dtype.kind != "f")):
        return _order_of_few(x, dim, descending)
    kind = {"f": _FLOATING, "i": _SIGNED}.get(x.dtype.kind, _UNSIGNED)
    wide = x if x.itemsize >= 4 else cast(x, np.float32 if kind == _FLOATING else np.int32)
    y, (outer, n, inner) = lane(wide, dim)
    empty = np.empty if active else buffers.empty
    out = empty(x.shape, np.dtype(np.int64))
    if not out.size:
        return out
    words = y.view(f"u{y.itemsize}")
    lanes = outer * inner
    if now() is None and _cut(lanes, n):
        for o, j in np.ndindex(outer, inner):
            base = o * n * inner + j
            out.reshape(outer, n, inner)[o, :, j] = _order_in_pieces(words, base, n, inner, kind, descending)
        return out
    units = min(lanes, _UNITS)
    scratch = (
        empty((units * 2 * n,), words.dtype),
        empty((units * 2 * n,), out.dtype),
        empty((units * 256 * y.itemsize,), out.dtype),
    )
    numbers = (n, inner, lanes, units, 8 * y.itemsize, kind, int(descending))
    launch(kernels.order.order_lanes, (words, out, *scratch, *numbers), units, 8 * out.size)
    return out


def _cut(lanes: int, n: int) -> bool:
    """Whether long lanes are too few for all threads, and so are sorted in pieces; the order is the same."""
    return lanes < config.threads and n >= _LONG


def _order_in_pieces(
    words: np.ndarray, base: int, n: int, inner: int, kind: int, descending: bool
) -> np.ndarray:
    """The order of one long lane, of which threads share the pieces."""
    order, size = kernels.order, words.itemsize
    keys, to_keys = buffers.empty((n,), words.dtype), buffers.empty((n,), words.dtype)
    places, to_places = buffers.empty((n,), np.int64), buffers.empty((n,), np.int64)
    counts, own = np.empty((2, _UNITS, order.DIGITS), np.int64)
    least = np.empty(_UNITS, words.dtype)
    numbers = (base, n, inner, _UNITS, 8 * size, kind, int(descending))
    launch(order.piece_keys, (words, keys, places, least, *numbers), _UNITS, n)
    low = least.min(keepdims=True)
    for digit in range(size):
        launch(order.piece_counts, (keys, counts, low, n, _UNITS, digit), _UNITS, n)
        if counts.sum(0).max() == n:
            continue
        arrays = (keys, places, counts, low, to_keys, to_places, own)
        launch(order.piece_deal, (*arrays, n, _UNITS, digit), _UNITS, 2 * n)
        keys, to_keys, places, to_places = to_keys, keys, to_places, places
    return places


def _order_of_few(x: np.ndarray, dim: int, descending: bool) -> np.ndarray:
    if not descending:
        return np.argsort(x, axis=dim, kind="stable")
    backwards = np.argsort(np.flip(x, dim), axis=dim, kind="stable")
    return np.ascontiguousarray(x.shape[dim] - 1 - np.flip(backwards, dim))


# -- sort and topk -------------------------------------------------------------------------------------


def _places_rule(gs: Any, indices: Any, x_shape: Any, dim: int) -> Any:
    return add_along(gs[0], indices, shape=x_shape, dim=dim)


@kernel_op(x=_places_rule, outputs=("values", "indices"), name="sort", native=True)
def sorted_along(x: Any, *, dim: Any, descending: Any) -> Any:
    """The elements in order along a dimension, and where they were."""
    indices = _order(x, dim, descending)
    return taken_along(x, indices, dim), indices


@kernel_op(name="argsort", native=True)
def order_along(x: Any, *, dim: Any, descending: Any) -> Any:
    """The indices that sort along a dimension."""
    return _order(x, dim, descending)


FEW = 32  # of the last dimension are picked in one pass


def first_of_rows(x: np.ndarray, k: int, largest: bool) -> tuple[np.ndarray, np.ndarray]:
    """The few largest or smallest elements along the last dimension, and where they were."""
    x = contiguous(x)
    n = x.shape[-1]
    values = np.empty((*x.shape[:-1], k), x.dtype)
    places = np.empty(values.shape, np.int64)
    kernel = kernels.select.largest if largest else kernels.select.smallest
    launch(kernel, (x, values, places, n, k), x.size // n, 2 * x.size)
    return values, places


@kernel_op(x=_places_rule, outputs=("values", "indices"), name="topk", native=True)
def top_along(x: Any, *, k: Any, dim: Any, largest: Any) -> Any:
    """The k largest (or smallest) elements along a dimension in order, and where they were."""
    if not x.ndim:
        return duplicate(x), np.zeros((), np.int64)
    n = x.shape[dim]
    if 0 < k < n and k <= FEW and dim == x.ndim - 1 and x.dtype.char in "fd" and x.size:
        return first_of_rows(x, k, largest)
    if now() is not None:
        indices = contiguous(_order(x, dim, largest)[(*[slice(None)] * dim, slice(k))])
        return taken_along(x, indices, dim), indices
    if 0 < k < n:
        chosen = np.argpartition(x, n - k if largest else k - 1, axis=dim)
        chosen = chosen[(*[slice(None)] * dim, slice(n - k, None) if largest else slice(k))]
        chosen = np.sort(chosen, axis=dim)  # so that equal elements come out in order
    else:
        chosen = np.broadcast_to(np.arange(n).reshape(n, *[1] * (x.ndim - dim - 1)), x.shape)
        chosen = chosen[(*[slice(None)] * dim, slice(k))]
    chosen = np.ascontiguousarray(chosen)
    order = _order(taken_along(x, chosen, dim), dim, largest)
    indices = taken_along(chosen, order, dim)
    return taken_along(x, indices, dim), indices


def sort(
    input: Any, dim: int = -1, descending: bool = False, stable: bool = False, *, out: Any = None
) -> Any:
    """The elements in order along a dimension and their indices, as (values, indices)."""
    d = wrap_dim(dim, input._array.ndim)
    return into_pair(sorted_along(input, dim=d, descending=bool(descending)), out, "sort")


def argsort(input: Any, dim: int = -1, descending: bool = False, *, stable: bool = False) -> Any:
    """The indices that sort along a dimension."""
    return order_along(input, dim=wrap_dim(dim, input._array.ndim), descending=bool(descending))


def msort(input: Any, *, out: Any = None) -> Any:
    """Sorted along the first dimension."""
    return into(sort(input, 0)[0], out, "msort")


def topk(
    input: Any, k: int, dim: int = -1, largest: bool = True, sorted: bool = True, *, out: Any = None
) -> Any:
    """The k largest (or smallest) elements along a dimension and their indices, as (values, indices)."""
    x = input._array
    d = wrap_dim(dim, x.ndim)
    refuse_bools(x, "topk")
    if not 0 <= k <= (x.shape[d] if x.ndim else 1):
        raise RuntimeError(
            f"selected index k out of range: k is {k}, dimension {d} has {x.shape[d] if x.ndim else 1}"
        )
    return into_pair(top_along(input, k=int(k), dim=d, largest=bool(largest)), out, "topk")


# -- order statistics ----------------------------------------------------------------------------------


def _ranked(x: np.ndarray, dim: int, rank: Any, shape: Any) -> tuple[np.ndarray, np.ndarray]:
    """The element of a rank (a number, or one per lane) along dim, and its index."""
    if not x.ndim:
        return x.copy(), np.zeros((), np.int64)
    if isinstance(rank, int) and x.shape[dim] > _SHORT:
        order = np.argpartition(x, rank, axis=dim)
    else:
        order = _order(x, dim, False)
    kept = tuple(1 if d == dim else n for d, n in enumerate(x.shape))
    indices = taken_along(order, np.ascontiguousarray(np.broadcast_to(rank, kept)), dim)
    return taken_along(x, indices, dim).reshape(shape), indices.reshape(shape)


def _median(x: np.ndarray, dim: int, shape: Any, skip_nan: bool) -> tuple[np.ndarray, np.ndarray]:
    """The lower median; a NaN is the median of its lane, unless NaN are skipped."""
    n = x.shape[dim] if x.ndim else 1
    rank: Any = (n - 1) // 2
    if x.dtype.kind == "f" and x.ndim:
        bad = np.isnan(x)
        if skip_nan:
            rank = np.maximum(n - bad.sum(axis=dim, keepdims=True) - 1, 0) // 2
        elif bad.any():
            # Sorted to the end, the first NaN first.
            missing = bad.sum(axis=dim, keepdims=True)
            rank = np.where(missing > 0, n - missing, rank)
    return _ranked(x, dim, rank, shape)


_PLACED = {"x": back_to_place}
_PAIR = ("values", "indices")


@kernel_op(x=back_to_place, outputs=_PAIR, name="kthvalue")
def ranked_along(x: Any, *, k: Any, dim: Any, shape: Any) -> Any:
    """The k-th smallest element along a dimension, and its index."""
    return _ranked(x, dim, k - 1, shape)


def _median_along(skip_nan: bool) -> Any:
    def forward(x: np.ndarray, *, dim: int, shape: Any) -> tuple[np.ndarray, np.ndarray]:
        """The lower median along a dimension, and its index."""
        return _median(x, dim, shape, skip_nan)

    return forward


def _median_of(skip_nan: bool) -> Any:
    def forward(x: np.ndarray, *, dims: Any) -> np.ndarray:
        """The lower median of all elements."""
        if not x.size:
            return np.full((), np.nan, x.dtype)
        return _median(x.reshape(-1), 0, (), skip_nan)[0]

    return forward


_SHARED = {"x": shared}
median_along = KernelOp(_median_along(False), _PLACED, _PAIR, {}, "MedianBackward1", "median")
nanmedian_along = KernelOp(_median_along(True), _PLACED, _PAIR, {}, "NanmedianBackward1", "nanmedian")
median_of = KernelOp(_median_of(False), _SHARED, ("out",), {}, "MedianBackward0", "median")
nanmedian_of = KernelOp(_median_of(True), _SHARED, ("out",), {}, "NanmedianBackward0", "nanmedian")


@kernel_op(x=back_to_place, outputs=_PAIR, name="mode")
def mode_along(x: Any, *, dim: Any, shape: Any) -> Any:
    """The smallest of the most frequent elements along a dimension, and the last place where it is."""
    if not x.ndim:
        return x.copy(), np.zeros((), np.int64)
    n = x.shape[dim]
    order = np.moveaxis(_order(x, dim, False), dim, -1)
    lanes = np.take_along_axis(np.moveaxis(x, dim, -1), order, -1)
    # The length of the run of equal elements that ends at each place.
    at = np.arange(n)
    starts = np.where(
        np.concatenate([np.ones((*lanes.shape[:-1], 1), bool), lanes[..., 1:] != lanes[..., :-1]], -1), at, 0
    )
    length = at - np.maximum.accumulate(starts, -1)
    place = np.argmax(length, -1)[..., None]
    values, indices = np.take_along_axis(lanes, place, -1), np.take_along_axis(order, place, -1)
    return np.ascontiguousarray(values).reshape(shape), np.ascontiguousarray(indices).reshape(shape)


def _lane_shape(x: np.ndarray, dim: int, keepdim: bool) -> tuple[int, ...]:
    return final_shape(x.shape, (dim,) if x.ndim else (), keepdim)


@numpy_names
def kthvalue(input: Any, k: int, dim: int = -1, keepdim: bool = False, *, out: Any = None) -> Any:
    """The k-th smallest element along a dimension and its index, as (values, indices); k counts from 1."""
    x = input._array
    d = dim_with_elements(x, dim, "kthvalue")
    refuse_bools(x, "kthvalue")
    if not 1 <= k <= (x.shape[d] if x.ndim else 1):
        raise RuntimeError(f"kthvalue(): selected number k out of range for dimension {d}: {k}")
    return into_pair(ranked_along(input, k=int(k), dim=d, shape=_lane_shape(x, d, keepdim)), out, "kthvalue")


def _median_face(whole: Any, along: Any, input: Any, dim: Any, keepdim: bool, out: Any, name: str) -> Any:
    x = input._array
    if dim is None:
        if x.size:
            refuse_bools(x, name)
        return into(whole(input, dims=tuple(range(x.ndim))), out, name)
    d = dim_with_elements(x, dim, name)
    refuse_bools(x, name)
    return into_pair(along(input, dim=d, shape=_lane_shape(x, d, keepdim)), out, name)


@numpy_names
def median(input: Any, dim: int | None = None, keepdim: bool = False, *, out: Any = None) -> Any:
    """The (lower) median, or along a dimension (values, indices); NaN if there is one."""
    return _median_face(median_of, median_along, input, dim, keepdim, out, "median")


@numpy_names
def nanmedian(input: Any, dim: int | None = None, keepdim: bool = False, *, out: Any = None) -> Any:
    """The median of what is not NaN, or along a dimension (values, indices)."""
    return _median_face(nanmedian_of, nanmedian_along, input, dim, keepdim, out, "nanmedian")


@numpy_names
def mode(input: Any, dim: int = -1, keepdim: bool = False, *, out: Any = None) -> Any:
    """The most frequent (of several the smallest) element along a dimension, as (values, indices)."""
    x = input._array
    d = dim_with_elements(x, dim, "mode")
    return into_pair(mode_along(input, dim=d, shape=_lane_shape(x, d, keepdim)), out, "mode")


class SortMethods:
    """a.sort(), a.topk(3), a.median(), ..."""

    __slots__ = ()

    sort, argsort, msort, topk = sort, argsort, msort, topk
    kthvalue, median, nanmedian, mode = kthvalue, median, nanmedian, mode
