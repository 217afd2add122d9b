"""Index keys taken apart.

A key is made of two kinds of items. Its ints, slices, None and Ellipsis are one view of the tensor,
which shares memory: the *basic key*. Integer and bool tensors, lists and arrays pick rows of that view:
the *picks*.
"""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from .. import dtypes, kernels
from ..kernels import launch_lazily as launch
from ..kernels.arrays import cast, contiguous
from ..kernels.recording import active, now, refuse
from ..tape import Value
from .rows import places
from .shape import as_permuted

FULL = slice(None)
_INT64 = dtypes.int64.numpy.num


class Picks:
    """The tensors of a key: at which dimensions of the view they stand, and which numbers they are."""

    __slots__ = ("_arrays", "_indices", "ats", "dims", "shape", "spans")

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = shape
        self.dims: list[int] = []  # of the view
        self.ats: list[int] = []  # of the tensor
        self.spans: list[int] = []  # how many dimensions each speaks of
        self._arrays: list[np.ndarray] = []
        self._indices: list[np.ndarray] | None = None

    def add(self, dim: int, at: int, array: np.ndarray) -> int:
        """Note a mask or an integer array; how many dimensions it spans."""
        span = array.ndim if array.dtype.char == "?" and array.ndim else 1
        self.dims.append(dim)
        self.ats.append(at)
        self.spans.append(span)
        self._arrays.append(array)
        return span

    @property
    def mask(self) -> np.ndarray | None:
        """The mask that the key consists of, if it does."""
        only = self._arrays[0]
        return only if len(self._arrays) == 1 and only.dtype.char == "?" else None

    @property
    def indices(self) -> list[np.ndarray]:
        """Per tensor: checked numbers, flat over the dimensions that it spans."""
        if self._indices is None:
            self._indices = [self._index(a, at) for a, at in zip(self._arrays, self.ats, strict=True)]
        return self._indices

    def _index(self, array: np.ndarray, at: int) -> np.ndarray:
        if array.dtype.char != "?":
            return wrapped(array, self.shape[at], at)
        if not array.ndim:
            return np.zeros(1 if array else 0, np.int64)
        for j, n in enumerate(array.shape):
            if n != self.shape[at + j]:
                raise IndexError(
                    f"The shape of the mask {list(array.shape)} at index {j} does not match the shape of the "
                    "indexed tensor "
                    f"{list(self.shape)} at index {at + j}"
                )
        return places(array)


def _bad_key(item: Any) -> Exception:
    if isinstance(item, (str, bytes)):
        return TypeError(
            f"new(): invalid data type {type(item).__name__!r}: a tensor cannot be indexed by {item!r:.40}"
        )
    return IndexError(
        "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid indices "
        f"(got {type(item).__name__})"
    )


def as_items(key: Any) -> tuple[Any, ...]:
    """The key as a tuple."""
    if type(key) is tuple:
        return key
    if isinstance(key, list) and len(key) < 32 and any(_structured(k) for k in key):
        # An old convention that PyTorch keeps (and warns about): such a list stands for a tuple.
        warnings.warn(
            "Using a non-tuple sequence for multidimensional indexing is deprecated; use x[tuple(seq)], or "
            "x[tapegrad.tensor(seq)] to index by a tensor.",
            UserWarning,
            stacklevel=4,
        )
        return tuple(key)
    return (key,)


def _structured(item: Any) -> bool:
    return isinstance(item, (slice, list, tuple, Value)) or item is None or item is Ellipsis


def index_array(item: Any) -> np.ndarray | None:
    """The index tensor that an item of a key stands for: bool or integer; None if it is none."""
    if isinstance(item, Value):
        array = item._array
    elif isinstance(item, np.ndarray):
        array = item
    elif isinstance(item, (list, tuple, range)):
        array = _from_list(item)
    else:
        return None
    kind = array.dtype.kind
    allowed = "?Blqi" if isinstance(item, Value) else "?Bbhilqfd"
    if array.dtype.char not in allowed:
        raise IndexError("tensors used as indices must be long, int, byte or bool tensors")
    return array.astype(np.int64) if kind == "f" else array


def _from_list(item: Any) -> np.ndarray:
    plain = [x._array if isinstance(x, Value) else x for x in item]
    try:
        array = np.array(plain)
    except ValueError:
        raise ValueError(f"an index list must not be ragged: {item!r:.80}") from None
    if array.dtype.kind not in "bif":
        raise TypeError(f"new(): invalid data type: a tensor cannot be indexed by {item!r:.80}")
    return array if array.size else array.astype(np.int64)


def _specified(items: tuple[Any, ...]) -> tuple[list[Any], int]:
    """Items with sequences made arrays, and how many dimensions they speak of."""
    made: list[Any] = []
    count = 0
    for item in items:
        if type(item) is int or isinstance(item, slice):
            count += 1
        elif item is not None and item is not Ellipsis and not isinstance(item, bool):
            array = index_array(item)
            if array is None:
                count += 1
            else:
                mask = array.dtype.char == "?" or (array.dtype.char == "B" and isinstance(item, Value))
                count += array.ndim if mask else 1
                if mask and array.dtype.char == "B":
                    warnings.warn(
                        "indexing with dtype tapegrad.uint8 is now deprecated, please use a dtype "
                        "tapegrad.bool instead.",
                        UserWarning,
                        stacklevel=5,
                    )
                if mask:
                    item = cast(array, np.bool_)
                elif array.ndim:
                    item = array
                else:
                    if isinstance(item, Value):
                        refuse("indexing by a 0-d tensor, which gives a view of that place,")
                    item = int(array)
        made.append(item)
    return made, count


def taken_apart(shape: tuple[int, ...], items: tuple[Any, ...]) -> tuple[list[Any], Picks | None]:
    """The basic key and the picks of what it leaves."""
    made, count = _specified(items)
    rank = len(shape)
    if count > rank:
        if not rank and any(type(item) is int for item in made):
            raise zero_dim()
        raise IndexError(f"too many indices for tensor of dimension {rank}")
    key: list[Any] = []
    picks = Picks(shape)
    at = out = 0  # dimension of the tensor, and of the view
    skipped = rank - count
    for j, item in enumerate(made):
        if item is Ellipsis:
            if (
                rank > count
                and any(k is Ellipsis for k in made[:j])
                and any(k is not Ellipsis for k in made[j:])
            ):
                raise IndexError(
                    "only the first Ellipsis of a key stands for dimensions; nothing may follow a second one"
                )
            key += [FULL] * skipped
            at, out, skipped = at + skipped, out + skipped, 0
        elif item is None:
            key.append(None)
            out += 1
        elif isinstance(item, bool) or (
            isinstance(item, np.ndarray) and item.dtype.char == "?" and not item.ndim
        ):
            if not isinstance(item, bool):
                refuse("indexing by a bool that is a tensor")
            key.append(None)
            picks.add(out, at, np.asarray(item))
            out += 1
        elif isinstance(item, slice):
            key.append(checked_slice(item))
            at, out = at + 1, out + 1
        elif isinstance(item, np.ndarray) and item.ndim:
            span = picks.add(out, at, item)
            key += [FULL] * span
            at, out = at + span, out + span
        else:
            key.append(_int(item, shape[at], at))
            at += 1
    return key, (picks if picks.dims else None)


def zero_dim() -> IndexError:
    """The error for an index into a number."""
    return IndexError(
        "invalid index of a 0-dim tensor. Use `tensor.item()` to convert a 0-dim tensor to a number"
    )


def checked_slice(item: slice) -> slice:
    """A slice with int bounds and a positive step; FULL if it takes everything."""
    start, stop, step = item.start, item.stop, item.step
    try:
        start = None if start is None else operator.index(start)
        stop = None if stop is None else operator.index(stop)
        step = None if step is None else operator.index(step)
    except TypeError:
        raise TypeError("slice indices must be integers or None or have an __index__ method") from None
    if step is not None and step <= 0:
        raise ValueError("step must be greater than zero")
    return slice(start, stop, step) if start or stop is not None or step not in (None, 1) else FULL


def _int(item: Any, n: int, dim: int) -> int:
    try:
        index = item if type(item) is int else operator.index(item)
    except TypeError:
        raise _bad_key(item) from None
    if isinstance(item, np.bool_):
        raise _bad_key(item)
    if not -n <= index < n:
        raise IndexError(f"index {index} is out of bounds for dimension {dim} with size {n}")
    return index + n if index < 0 else index


def wrapped(index: np.ndarray, n: int, dim: int) -> np.ndarray:
    """An index array as int64 with negative ones counted from the end; IndexError if one is out of range."""

    def outside(value: int) -> Exception:
        if not n:
            return IndexError("index is out of bounds for dimension with size 0")
        return IndexError(f"index {value} is out of bounds for dimension {dim} with size {n}")

    return checked(index, n, -n, outside)


def checked(index: np.ndarray, n: int, least: int, outside: Callable[[int], Exception]) -> np.ndarray:
    """The index as int64, negative ones counted from the end of n; an error if one is not in [least, n).

    A recorded step looks at the index when it is done. So that its kernels meet nothing outside of their arrays, they are
    given a copy that lies inside.
    """
    if index.dtype.num != _INT64:
        index = contiguous(index, np.int64)
    if not index.size:
        return index

    def check(found: np.ndarray) -> int:
        low, high = found.tolist()
        if low < least or high >= n:
            raise outside(low if low < least else high)
        return low  # type: ignore[no-any-return]

    if active and (recorder := now()) is not None:
        index = contiguous(index)
        found = np.empty(2, np.int64)
        kernels.index.bounds(index, found, index.size, 0, 1)
        check(found)
        recorder.check(found, check)
        inside = np.empty(index.shape, np.int64)
        launch(kernels.index.within, (index, inside, n), index.size, index.size)
        return inside
    return np.where(index < 0, index + n, index) if check(_extent(index)) < 0 else index


_bounds: Any = None


def extent(index: np.ndarray) -> tuple[int, int]:
    """The least and the largest of a nonempty int64 array."""
    low, high = _extent(index).tolist()
    return low, high


def _extent(index: np.ndarray) -> np.ndarray:
    if not index.flags.c_contiguous:
        index = np.ascontiguousarray(index)
    global _bounds
    if _bounds is None:
        _bounds = kernels.index.bounds.entry(("l", "l", "int", "int", "int"))
    found = np.empty(2, np.int64)
    _bounds(index, found, index.size, 0, 1)
    return found


def joined(x: Any, picks: Picks) -> tuple[Any, np.ndarray, int, int]:
    """The view with all picked dimensions adjacent, and one flat index into them: (x, index, dim, span)."""
    dims, spans, indices = picks.dims, picks.spans, picks.indices
    if len(indices) == 1:
        return x, indices[0], dims[0], spans[0]
    shape = x._array.shape
    try:
        common = np.broadcast_shapes(*[i.shape for i in indices])
    except ValueError:
        shapes = ", ".join(str(list(i.shape)) for i in indices)
        raise IndexError(
            f"shape mismatch: indexing tensors could not be broadcast together with shapes {shapes}"
        ) from None
    axes = [d + j for d, s in zip(dims, spans, strict=True) for j in range(s)]
    dim = axes[0]
    if axes != list(range(dim, dim + len(axes))):
        # Picks with something between them: their dimensions go to the front.
        dim = 0
        x = as_permuted(x, dims=(*axes, *[d for d in range(len(shape)) if d not in axes]))
        shape = x._array.shape
    return x, _flattened(indices, spans, shape, dim, common), dim, len(axes)


def _flattened(
    indices: list[np.ndarray], spans: list[int], shape: tuple[int, ...], dim: int, common: tuple[int, ...]
) -> np.ndarray:
    """Several indices as one into their dimensions flattened."""
    flat, at = indices[0], dim + spans[0]
    for span, index in zip(spans[1:], indices[1:], strict=True):
        size = prod(shape[at : at + span])
        if active:
            made = np.empty(np.broadcast_shapes(flat.shape, index.shape), np.int64)
            parts = [np.broadcast_to(i, made.shape) for i in (flat, index)]
            kernels.loop.JOIN.run("l", parts, [made], [size])
            flat = made
        else:
            flat = flat * size + index
        at += span
    return flat if flat.shape == common else np.broadcast_to(flat, common)


def plain_key(shape: tuple[int, ...], key: tuple[Any, ...]) -> list[Any] | None:
    """The basic key of ints, slices, None and Ellipsis in one go; None for others and for errors."""
    rank = len(shape)
    made: list[Any] = []
    at = 0
    for j, item in enumerate(key):
        kind = type(item)
        if kind is int:
            if at >= rank:
                return None
            n = shape[at]
            if not -n <= item < n:
                return None
            made.append(item + n if item < 0 else item)
            at += 1
        elif kind is slice:
            if at >= rank or not (item.step is None or (type(item.step) is int and item.step > 0)):
                return None
            made.append(item if item.start or item.stop is not None or item.step is not None else FULL)
            at += 1
        elif item is None:
            made.append(None)
        elif item is Ellipsis:
            rest = key[j + 1 :]
            skipped = rank - at - sum(1 for k in rest if type(k) is int or type(k) is slice)
            if skipped < 0 or any(k is Ellipsis for k in rest):
                return None
            made += [FULL] * skipped
            at += skipped
        else:
            return None
    return made
