"""``x[key]`` and ``x[key] = value``.

A key is taken apart in two steps. Its ints, slices, None and Ellipsis are one view of the tensor, which
shares memory. What remains are integer and bool tensors, which pick rows of that view by number, and copy.
"""

from __future__ import annotations

import operator
import warnings
from math import prod
from typing import Any

import numpy as np

from .. import dtypes, kernels
from ..modes import modes
from ..op import Rule, check_inplace, view_op
from ..tape import Value
from .inplace import kernel_inplace
from .numbers import element, is_number
from .rows import fill_where, places, put_rows, put_rows_adding, take_rows
from .shape import as_permuted, as_selected, as_view, place

__all__ = ["index_put"]

_FULL = slice(None)

# -- views: the same window under PyTorch's names of its last step ------------------------------------


def _window(name: str) -> Any:
    def rule(g: Any, x_shape: Any, key: Any) -> Any:
        return place(g, shape=x_shape, steps=((_WINDOWS[name], {"key": key}),))

    def forward(x: np.ndarray, *, key: tuple[Any, ...]) -> np.ndarray:
        """Ints, slices, None and one Ellipsis."""
        return x[key]  # the Ellipsis makes NumPy give a 0-d view instead of a number

    forward.__name__ = name
    return view_op(Rule(rule, ("g", "x_shape", "key")), node_name=f"{name.capitalize()}Backward0")(forward)


_WINDOWS: dict[str, Any] = {name: _window(name) for name in ("slice", "select", "unsqueeze", "alias")}


def _view(x: Any, key: list[Any]) -> Any:
    """The view that a basic key describes."""
    last = "alias"
    for item in key:
        if item is None:
            last = "unsqueeze"
        elif item is not Ellipsis and item is not _FULL:
            last = "select" if type(item) is int else "slice"
    return _WINDOWS[last](x, key=(*key, Ellipsis) if Ellipsis not in key else tuple(key))


# -- taking a key apart -------------------------------------------------------------------------------


class _Picks:
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
                    f"The shape of the mask {list(array.shape)} at index {j} does not match the shape of the indexed tensor "
                    f"{list(self.shape)} at index {at + j}"
                )
        return places(array)


def _bad_key(item: Any) -> Exception:
    if isinstance(item, (str, bytes)):
        return TypeError(f"new(): invalid data type {type(item).__name__!r}: a tensor cannot be indexed by {item!r:.40}")
    return IndexError(
        "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid indices "
        f"(got {type(item).__name__})"
    )


def _items(key: Any) -> tuple[Any, ...]:
    """The key as a tuple."""
    if type(key) is tuple:
        return key
    if isinstance(key, list) and len(key) < 32:
        # An old convention that PyTorch keeps (and warns about): such a list stands for a tuple.
        if any(isinstance(k, (slice, list, tuple, Value)) or k is None or k is Ellipsis for k in key):
            warnings.warn(
                "Using a non-tuple sequence for multidimensional indexing is deprecated; use x[tuple(seq)], or "
                "x[tapegrad.tensor(seq)] to index by a tensor.",
                UserWarning,
                stacklevel=4,
            )
            return tuple(key)
    return (key,)


def _array(item: Any) -> np.ndarray | None:
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
            array = _array(item)
            if array is None:
                count += 1
            else:
                mask = array.dtype.char == "?" or (array.dtype.char == "B" and isinstance(item, Value))
                count += array.ndim if mask else 1
                if mask and array.dtype.char == "B":
                    warnings.warn(
                        "indexing with dtype tapegrad.uint8 is now deprecated, please use a dtype tapegrad.bool instead.",
                        UserWarning,
                        stacklevel=5,
                    )
                item = array != 0 if mask else array if array.ndim else int(array)
        made.append(item)
    return made, count


def _taken_apart(shape: tuple[int, ...], items: tuple[Any, ...]) -> tuple[list[Any], _Picks | None]:
    """The basic key and the picks of what it leaves."""
    made, count = _specified(items)
    rank = len(shape)
    if count > rank:
        if not rank and any(type(item) is int for item in made):
            raise _zero_dim()
        raise IndexError(f"too many indices for tensor of dimension {rank}")
    key: list[Any] = []
    picks = _Picks(shape)
    at = out = 0  # dimension of the tensor, and of the view
    skipped = rank - count
    for j, item in enumerate(made):
        if item is Ellipsis:
            if rank > count and any(k is Ellipsis for k in made[:j]) and any(k is not Ellipsis for k in made[j:]):
                raise IndexError("only the first Ellipsis of a key stands for dimensions; nothing may follow a second one")
            key += [_FULL] * skipped
            at, out, skipped = at + skipped, out + skipped, 0
        elif item is None:
            key.append(None)
            out += 1
        elif isinstance(item, bool) or (isinstance(item, np.ndarray) and item.dtype.char == "?" and not item.ndim):
            key.append(None)
            picks.add(out, at, np.asarray(item))
            out += 1
        elif isinstance(item, slice):
            key.append(_slice(item))
            at, out = at + 1, out + 1
        elif isinstance(item, np.ndarray) and item.ndim:
            span = picks.add(out, at, item)
            key += [_FULL] * span
            at, out = at + span, out + span
        else:
            key.append(_int(item, shape[at], at))
            at += 1
    return key, (picks if picks.dims else None)


def _zero_dim() -> IndexError:
    return IndexError("invalid index of a 0-dim tensor. Use `tensor.item()` to convert a 0-dim tensor to a number")


def _slice(item: slice) -> slice:
    start, stop, step = item.start, item.stop, item.step
    try:
        start = None if start is None else operator.index(start)
        stop = None if stop is None else operator.index(stop)
        step = None if step is None else operator.index(step)
    except TypeError:
        raise TypeError("slice indices must be integers or None or have an __index__ method") from None
    if step is not None and step <= 0:
        raise ValueError("step must be greater than zero")
    return slice(start, stop, step) if start or stop is not None or step not in (None, 1) else _FULL


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
    if index.dtype.num != _INT64:
        index = index.astype(np.int64)
    if not index.size:
        return index
    low, high = extent(index)
    if low < -n or high >= n:
        if not n:
            raise IndexError("index is out of bounds for dimension with size 0")
        raise IndexError(f"index {low if low < -n else high} is out of bounds for dimension {dim} with size {n}")
    return np.where(index < 0, index + n, index) if low < 0 else index


_INT64 = dtypes.int64.numpy.num


_bounds: Any = None


def extent(index: np.ndarray) -> tuple[int, int]:
    """The least and the largest of a nonempty int64 array."""
    if not index.flags.c_contiguous:
        index = np.ascontiguousarray(index)
    global _bounds
    if _bounds is None:
        _bounds = kernels.index.bounds.entry(("l", "l", "int", "int", "int"))
    found = np.empty(2, np.int64)
    _bounds(index, found, index.size, 0, 1)
    low, high = found.tolist()
    return low, high


def _joined(x: Any, picks: _Picks) -> tuple[Any, np.ndarray, int, int]:
    """The view with all picked dimensions adjacent, and one flat index into them: (x, index, dim, span)."""
    dims, spans, indices = picks.dims, picks.spans, picks.indices
    if len(indices) == 1:
        return x, indices[0], dims[0], spans[0]
    shape = x._array.shape
    try:
        common = np.broadcast_shapes(*[i.shape for i in indices])
    except ValueError:
        shapes = ", ".join(str(list(i.shape)) for i in indices)
        raise IndexError(f"shape mismatch: indexing tensors could not be broadcast together with shapes {shapes}") from None
    axes = [d + j for d, s in zip(dims, spans, strict=True) for j in range(s)]
    dim = axes[0]
    if axes != list(range(dim, dim + len(axes))):
        # Picks with something between them: their dimensions go to the front.
        dim = 0
        x = as_permuted(x, dims=(*axes, *[d for d in range(len(shape)) if d not in axes]))
        shape = x._array.shape
    flat, at = indices[0], dim + spans[0]
    for span, index in zip(spans[1:], indices[1:], strict=True):
        flat = flat * prod(shape[at : at + span]) + index
        at += span
    return x, flat if flat.shape == common else np.broadcast_to(flat, common), dim, len(axes)


def _plain(shape: tuple[int, ...], key: tuple[Any, ...]) -> list[Any] | None:
    """The basic key of ints, slices, None and Ellipsis in one go; None for any other, and for one with an error."""
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
            made.append(item if item.start or item.stop is not None or item.step is not None else _FULL)
            at += 1
        elif item is None:
            made.append(None)
        elif item is Ellipsis:
            rest = key[j + 1 :]
            skipped = rank - at - sum([type(k) is int or type(k) is slice for k in rest])
            if skipped < 0 or any([k is Ellipsis for k in rest]):
                return None
            made += [_FULL] * skipped
            at += skipped
        else:
            return None
    return made


# -- reading ------------------------------------------------------------------------------------------


def getitem(self: Any, key: Any) -> Any:
    """x[key]: a view for ints, slices, None and Ellipsis; a copy once tensors or lists take part."""
    kind = type(key)
    shape = self._array.shape
    if kind is int:
        if not shape:
            raise _zero_dim()
        n = shape[0]
        if not -n <= key < n:
            raise IndexError(f"index {key} is out of bounds for dimension 0 with size {n}")
        return as_selected(self, dim=0, index=key + n if key < 0 else key)
    if kind is slice and shape:
        return _WINDOWS["slice"](self, key=(_slice(key), Ellipsis))
    if kind is tuple:
        plain = _plain(shape, key)
        if plain is not None:
            return _view(self, plain)
    elif isinstance(key, Value) and shape and key._array.ndim and key._array.dtype.num == _INT64:
        index = key._array
        rows = wrapped(index, shape[0], 0)
        return take_rows(self, key if rows is index else key._make(rows), dim=0, span=1)
    basic, picks = _taken_apart(shape, _items(key))
    if picks is None:
        return _view(self, basic)
    if any(item is not _FULL for item in basic):
        self = _view(self, basic)
    x, index, dim, span = _joined(self, picks)
    return take_rows(x, x._make(index), dim=dim, span=span)


# -- writing ------------------------------------------------------------------------------------------


def setitem(self: Any, key: Any, value: Any) -> None:
    """x[key] = value, with the value broadcast; through a view, or into the picked rows."""
    if _assigned_at_once(self, key, value):
        return
    value = _assigned(self, value)
    shape = self._array.shape
    basic, picks = _taken_apart(shape, key if type(key) is tuple else _items(key))
    if not (modes.grad and (self._source() is not None or (isinstance(value, Value) and value._source() is not None))):
        _write(self, basic, picks, value)
        return
    target = _view(self, basic) if basic and any(item is not _FULL for item in basic) else self
    if picks is None:
        if not isinstance(value, Value):
            target.fill_(value.item())
        else:
            target.copy_(_without_ones(value, target._array.shape))
        return
    x, index, dim, span = _joined(target, picks)
    if isinstance(value, Value):
        value = _checked(x, value, _rows_shape(x, index, dim, span), picks)
    kernel_inplace(put_rows, x, index, value, dim=dim, span=span)


def _assigned_at_once(self: Any, key: Any, value: Any) -> bool:
    """The short way: ints and slices of a tensor that nothing is recorded for; False if it does not apply."""
    array = self._array
    if not self._char or self._view is not None or (self._node is not None and modes.grad) or not array.flags.writeable:
        return False
    for item in key if type(key) is tuple else (key,):
        if type(item) is not int and not (type(item) is slice and item.step is None):
            return False
    kind = type(value)
    if kind is float or kind is int:
        # What does not fit is an error that the long way finds.
        if array.dtype.char not in "fd" or not -1e38 < value < 1e38:
            return False
    elif not isinstance(value, Value) or (value._node is not None and modes.grad) or value._array.dtype != array.dtype:
        return False
    else:
        value = value._array
    try:
        array[key] = value
    except (IndexError, ValueError, TypeError):
        return False  # the long way words the error
    self._bump("__setitem__")
    return True


def _assigned(self: Any, value: Any) -> Any:
    """The value to assign: a tensor, or the array of a number."""
    if isinstance(value, Value):
        return value
    if is_number(value):
        return element(value, self._array.dtype)
    if isinstance(value, np.ndarray):
        dtypes.as_dtype(value.dtype)
        return self._make(value.astype(self._array.dtype, copy=False))
    raise TypeError(
        f"can't assign a {type(value).__name__} to a tensor of {dtypes.of(self._array)}: assign a number, a tensor or an array"
    )


def _write(self: Any, basic: list[Any], picks: _Picks | None, value: Any) -> None:
    """Assignment that nothing needs to record."""
    array = self._array[(*basic, Ellipsis)] if basic else self._array
    window = self._make(array)
    window._view = self._view
    check_inplace(window, "index_put_" if picks else "copy_")
    given = value._array if isinstance(value, Value) else value
    if picks is None:
        _copy_in(array, given)
    elif picks.mask is not None and picks.mask.shape == array.shape and not given.ndim:
        fill_where(array, picks.mask, given)
    else:
        x, index, dim, span = _joined(self._make(array), picks)
        if isinstance(value, Value):
            given = _checked(x, value, _rows_shape(x, index, dim, span), picks)._array
        if np.may_share_memory(given, array):
            given = given.copy()
        put_rows.update(x._array, index, given, dim=dim, span=span)
    self._bump("__setitem__")


def _copy_in(array: np.ndarray, given: np.ndarray) -> None:
    while given.ndim > array.ndim and given.shape[0] == 1:
        given = given[0]
    try:
        np.copyto(array, given, casting="unsafe")
    except ValueError:
        raise _does_not_fit(given.shape, array.shape) from None


def _rows_shape(x: Any, index: np.ndarray, dim: int, span: int) -> tuple[int, ...]:
    shape = x._array.shape
    return (*shape[:dim], *index.shape, *shape[dim + span :])


def _does_not_fit(have: tuple[int, ...], want: tuple[int, ...]) -> RuntimeError:
    return RuntimeError(
        f"shape mismatch: value tensor of shape {list(have)} cannot be broadcast to indexing result of shape {list(want)}"
    )


def _without_ones(value: Any, shape: tuple[int, ...]) -> Any:
    """The value without leading dimensions of size 1 that the target does not have."""
    have = value._array.shape
    extra = len(have) - len(shape)
    if extra > 0 and all(n == 1 for n in have[:extra]):
        value = as_view(value, shape=have[extra:])
    try:
        np.broadcast_to(value._array, shape)
    except ValueError:
        raise _does_not_fit(have, shape) from None
    return value


def _checked(x: Any, value: Any, shape: tuple[int, ...], picks: _Picks) -> Any:
    """The value if it has the target's dtype and fits the picked rows."""
    if value._array.dtype != x._array.dtype:
        if picks.mask is None or value._array.ndim:
            raise RuntimeError(
                f"Index put requires the source and destination dtypes match, got {dtypes.of(x._array).short} for the destination "
                f"and {dtypes.of(value._array).short} for the source. Convert the value with .to({dtypes.of(x._array)}) first."
            )
        value = value.to(dtypes.of(x._array))
    return _without_ones(value, shape)


# -- index_put ----------------------------------------------------------------------------------------


def _put_parts(input: Any, indices: Any, values: Any, name: str) -> tuple[np.ndarray, Any, int]:
    """What index_put needs: the flat index, the values, and how many dimensions the index spans."""
    if not isinstance(indices, (tuple, list)):
        raise TypeError(f"{name}(): argument 'indices' must be tuple of Tensors, not {type(indices).__name__}")
    if not isinstance(values, Value):
        raise TypeError(f"{name}(): argument 'values' must be Tensor, not {type(values).__name__}")
    shape, at = input._array.shape, 0
    picks = _Picks(shape)
    for item in indices:
        if not isinstance(item, Value):
            raise TypeError(f"{name}(): argument 'indices' must be tuple of Tensors, got {type(item).__name__} in it")
        array = _array(item)
        assert array is not None
        array = array != 0 if array.dtype.char == "B" else array
        if at + (array.ndim if array.dtype.char == "?" else 1) > len(shape):
            raise IndexError(f"too many indices for tensor of dimension {len(shape)}")
        at += picks.add(at, at, array)
    if not picks.dims:
        raise RuntimeError(f"{name}(): at least one index tensor is needed")
    x, index, dim, span = _joined(input, picks)
    return index, _checked(x, values, _rows_shape(x, index, dim, span), picks), span


def index_put_(input: Any, indices: Any, values: Any, accumulate: bool = False) -> Any:
    """In place: input[indices] = values, or += with ``accumulate`` (equal indices add up)."""
    index, values, span = _put_parts(input, indices, values, "index_put_")
    return kernel_inplace(put_rows_adding if accumulate else put_rows, input, index, values, dim=0, span=span)


def index_put(input: Any, indices: Any, values: Any, accumulate: bool = False) -> Any:
    """A copy of input with input[indices] = values, or += with ``accumulate`` (equal indices add up)."""
    index, values, span = _put_parts(input, indices, values, "index_put")
    return (put_rows_adding if accumulate else put_rows)(input, input._make(index), values, dim=0, span=span)


class IndexMethods:
    """a[key], a[key] = value, a.index_put_(...)"""

    __slots__ = ()

    __getitem__ = getitem
    __setitem__ = setitem
    index_put, index_put_ = index_put, index_put_

    def __delitem__(self, key: Any) -> None:
        raise TypeError("Tensor does not support deleting items; use tapegrad.cat of what shall remain")
