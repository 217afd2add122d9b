"""``x[key]`` and ``x[key] = value``.

A key is taken apart in two steps. Its ints, slices, None and Ellipsis are one view of the tensor, which
shares memory. What remains are integer and bool tensors, which pick rows of that view by number, and copy.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import dtypes
from ..kernels.recording import active, now
from ..modes import modes
from ..op import check_inplace, view_op
from ..tape import Value
from .inplace import kernel_inplace
from .keys import (
    FULL,
    Picks,
    as_items,
    checked_slice,
    index_array,
    joined,
    plain_key,
    taken_apart,
    wrapped,
    zero_dim,
)
from .numbers import element, is_number
from .rows import fill_where, put, put_rows, put_rows_adding, take_rows
from .shape import as_selected, as_view, place

__all__ = ["index_put"]

# -- views: the same window under PyTorch's names of its last step ------------------------------------


def _window(name: str) -> Any:
    def rule(g: Any, x_shape: Any, key: Any) -> Any:
        return place(g, shape=x_shape, steps=((_WINDOWS[name], {"key": key}),))

    def forward(x: np.ndarray, *, key: tuple[Any, ...]) -> np.ndarray:
        """Ints, slices, None and one Ellipsis, which makes NumPy give a 0-d view instead of a number."""
        return x[key]  # type: ignore[no-any-return]

    forward.__name__ = name
    return view_op(rule, node_name=f"{name.capitalize()}Backward0")(forward)


_WINDOWS: dict[str, Any] = {name: _window(name) for name in ("slice", "select", "unsqueeze", "alias")}


def _view(x: Any, key: list[Any]) -> Any:
    """The view that a basic key describes."""
    last = "alias"
    for item in key:
        if item is None:
            last = "unsqueeze"
        elif item is not Ellipsis and item is not FULL:
            last = "select" if type(item) is int else "slice"
    return _WINDOWS[last](x, key=(*key, Ellipsis) if Ellipsis not in key else tuple(key))


# -- reading ------------------------------------------------------------------------------------------


def getitem(self: Any, key: Any) -> Any:
    """x[key]: a view for ints, slices, None and Ellipsis; a copy once tensors or lists take part."""
    kind = type(key)
    shape = self._array.shape
    if kind is int:
        if not shape:
            raise zero_dim()
        n = shape[0]
        if not -n <= key < n:
            raise IndexError(f"index {key} is out of bounds for dimension 0 with size {n}")
        return as_selected(self, dim=0, index=key + n if key < 0 else key)
    if kind is slice and shape:
        return _WINDOWS["slice"](self, key=(checked_slice(key), Ellipsis))
    if kind is tuple:
        basic = plain_key(shape, key)
        if basic is not None:
            return _view(self, basic)
    elif isinstance(key, Value) and shape and key._array.ndim and key._array.dtype.char == "l":
        index = key._array
        rows = wrapped(index, shape[0], 0)
        return take_rows(self, key if rows is index else key._make(rows), dim=0, span=1)
    basic, picks = taken_apart(shape, as_items(key))
    if picks is None:
        return _view(self, basic)
    if any(item is not FULL for item in basic):
        self = _view(self, basic)
    x, index, dim, span = joined(self, picks)
    return take_rows(x, x._make(index), dim=dim, span=span)


# -- writing ------------------------------------------------------------------------------------------


def setitem(self: Any, key: Any, value: Any) -> None:
    """x[key] = value, with the value broadcast; through a view, or into the picked rows."""
    if _assigned_at_once(self, key, value):
        return
    value = _assigned(self, value)
    shape = self._array.shape
    recording = active and now() is not None
    if recording and isinstance(key, Value) and key._array.dtype == bool and not value.ndim:
        mask = key._array.shape
        if mask and mask == shape[: len(mask)]:
            # How many elements a mask picks is not known to a recorded step, nor does it matter for one number.
            key = as_view(key, shape=(*mask, *[1] * (len(shape) - len(mask))))
            self.masked_fill_(key, value if isinstance(value, Value) else value.item())
            return
    basic, picks = taken_apart(shape, key if type(key) is tuple else as_items(key))
    recorded = modes.grad and (
        self._source() is not None or (isinstance(value, Value) and value._source() is not None)
    )
    if not recorded and not recording:
        _write(self, basic, picks, value)
        return
    target = _view(self, basic) if basic and any(item is not FULL for item in basic) else self
    if picks is None:
        if not isinstance(value, Value):
            check_inplace(target, "copy_")  # fill_ would write twice to one place
            target.fill_(value.item())
        else:
            target.copy_(_without_ones(value, target._array.shape))
        return
    x, index, dim, span = joined(target, picks)
    if isinstance(value, Value):
        value = _checked(x, value, _rows_shape(x, index, dim, span), picks)
    kernel_inplace(put_rows, x, index, value, dim=dim, span=span)


def _assigned_at_once(self: Any, key: Any, value: Any) -> bool:
    """The short way: ints and slices of a tensor that nothing is recorded for; False if it does not apply."""
    array = self._array
    if (
        not self._char
        or self._view is not None
        or (self._node is not None and modes.grad)
        or not array.flags.writeable
        or (active and now() is not None)
    ):
        return False
    for item in key if type(key) is tuple else (key,):
        if type(item) is not int and not (type(item) is slice and item.step is None):
            return False
    kind = type(value)
    if kind is float or kind is int:
        # What does not fit is an error that the long way finds.
        if array.dtype.char not in "fd" or not -1e38 < value < 1e38:
            return False
    elif (
        not isinstance(value, Value)
        or (value._node is not None and modes.grad)
        or value._array.dtype != array.dtype
    ):
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
        f"can't assign a {type(value).__name__} to a tensor of {dtypes.of(self._array)}: assign a number, a "
        "tensor or an array"
    )


def _write(self: Any, basic: list[Any], picks: Picks | None, value: Any) -> None:
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
        x, index, dim, span = joined(self._make(array), picks)
        if isinstance(value, Value):
            given = _checked(x, value, _rows_shape(x, index, dim, span), picks)._array
        if np.may_share_memory(given, array):
            given = given.copy()
        put(x._array, index, given, dim=dim, span=span)
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
        f"shape mismatch: value tensor of shape {list(have)} cannot be broadcast to indexing result of shape "
        f"{list(want)}"
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


def _checked(x: Any, value: Any, shape: tuple[int, ...], picks: Picks) -> Any:
    """The value if it has the target's dtype and fits the picked rows."""
    if value._array.dtype != x._array.dtype:
        if picks.mask is None or value._array.ndim:
            raise RuntimeError(
                "Index put requires the source and destination dtypes match, got "
                f"{dtypes.of(x._array).short} for the destination "
                f"and {dtypes.of(value._array).short} for the source. Convert the value with "
                f".to({dtypes.of(x._array)}) first."
            )
        value = value.to(dtypes.of(x._array))
    return _without_ones(value, shape)


# -- index_put ----------------------------------------------------------------------------------------


def _put_parts(input: Any, indices: Any, values: Any, name: str) -> tuple[np.ndarray, Any, int]:
    """What index_put needs: the flat index, the values, and how many dimensions the index spans."""
    if not isinstance(indices, (tuple, list)):
        raise TypeError(
            f"{name}(): argument 'indices' must be tuple of Tensors, not {type(indices).__name__}"
        )
    if not isinstance(values, Value):
        raise TypeError(f"{name}(): argument 'values' must be Tensor, not {type(values).__name__}")
    shape, at = input._array.shape, 0
    picks = Picks(shape)
    for item in indices:
        if not isinstance(item, Value):
            raise TypeError(
                f"{name}(): argument 'indices' must be tuple of Tensors, got {type(item).__name__} in it"
            )
        array = index_array(item)
        assert array is not None
        array = array != 0 if array.dtype.char == "B" else array
        if at + (array.ndim if array.dtype.char == "?" else 1) > len(shape):
            raise IndexError(f"too many indices for tensor of dimension {len(shape)}")
        at += picks.add(at, at, array)
    if not picks.dims:
        raise RuntimeError(f"{name}(): at least one index tensor is needed")
    x, index, dim, span = joined(input, picks)
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
