"""Masks: filling, selecting and placing where they hold; where and nonzero."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from .. import dtypes, kernels
from ..elementwise import broadcast_text
from ..fastpath import elementwise
from ..kernels.formula import select
from ..kernels.recording import hosted, refuse
from ..tape import Value
from . import arithmetic
from .dims import shape_args
from .gather import check_tensor
from .inplace import elementwise_inplace, kernel_inplace
from .numbers import element, is_number
from .rows import places, put_rows, take_rows
from .shape import expand, reshape

__all__ = ["argwhere", "masked_fill", "masked_scatter", "masked_select", "nonzero", "unravel_index", "where"]


@elementwise(
    masks=("mask",),
    name="masked_fill",
    input=lambda g, mask: arithmetic.where(mask, 0.0, g),
    value=lambda g, mask: arithmetic.where(mask, g, 0.0),
)
def filled_where(input: Any, mask: Any, value: Any) -> Any:
    """value where the mask holds, else input."""
    if isinstance(mask, (bool, int)):
        return value if mask else input
    return select(mask, value, input)


def _fill_value(input: Any, mask: Any, value: Any) -> Any:
    """The value of a masked_fill in the dtype of the input."""
    check_tensor(mask, "masked_fill_", "mask")
    check_tensor(input, "masked_fill_", "input")
    if mask._array.dtype.char != "?":
        raise RuntimeError(
            f"masked_fill_ only supports boolean masks, but got mask with dtype {dtypes.of(mask._array)}"
        )
    if isinstance(value, Value):
        if value._array.ndim:
            raise RuntimeError(
                "masked_fill_ only supports a 0-dimensional value tensor, but got tensor with "
                f"{value._array.ndim} dimension(s)."
            )
        return value.to(dtypes.of(input._array))  # type: ignore[attr-defined]
    if not is_number(value):
        raise TypeError(
            f"masked_fill(): argument 'value' must be a number or a tensor, not {type(value).__name__}"
        )
    return element(value, input._array.dtype).item()


def masked_fill(input: Any, mask: Any, value: Any) -> Any:
    """A copy with ``value`` (a number or a 0-d tensor) where the bool mask holds."""
    return filled_where(input, mask, _fill_value(input, mask, value))


_masked_fill_ = elementwise_inplace(filled_where)


def masked_fill_(input: Any, mask: Any, value: Any) -> Any:
    """In place: ``value`` (a number or a 0-d tensor) where the bool mask holds."""
    return _masked_fill_(input, mask, _fill_value(input, mask, value))


def _common(input: Any, mask: Any, name: str) -> tuple[Any, np.ndarray]:
    """Both broadcast: the tensor, and where in its flattened elements the mask holds."""
    a, b = input._array.shape, mask._array.shape
    if a == b:
        return input, places(mask._array)
    try:
        shape = np.broadcast_shapes(a, b)
    except ValueError:
        raise RuntimeError(broadcast_text(name, (a, b))) from None
    held = places(np.broadcast_to(mask._array, shape))
    return (input if a == shape else expand(input, shape)), held


def masked_select(input: Any, mask: Any, *, out: Any = None) -> Any:
    """The elements where the bool mask holds, as a 1-d tensor."""
    check_tensor(mask, "masked_select", "mask")
    if mask._array.dtype.char != "?":
        raise RuntimeError(f"masked_select: expected BoolTensor for mask, got {dtypes.of(mask._array)}")
    x, held = _common(input, mask, "masked_select")
    result = take_rows(x, x._make(held), dim=0, span=x._array.ndim)
    return result if out is None else out.copy_(result)


def _scatter_parts(input: Any, mask: Any, source: Any) -> tuple[Any, np.ndarray, Any]:
    check_tensor(mask, "masked_scatter", "mask")
    check_tensor(source, "masked_scatter", "source")
    if mask._array.dtype.char != "?":
        raise RuntimeError(
            "masked_scatter_ only supports boolean masks, but got mask with dtype "
            f"{dtypes.of(mask._array).short}"
        )
    if source._array.dtype != input._array.dtype:
        raise RuntimeError(
            "masked_scatter: expected self and source to have same dtypes but got "
            f"{dtypes.of(input._array).short} and "
            f"{dtypes.of(source._array).short}"
        )
    x, held = _common(input, mask, "masked_scatter")
    if source._array.size < held.size:
        raise RuntimeError(
            f"masked_scatter: Number of elements of source ({source._array.size}) < number of ones in mask "
            f"({held.size})"
        )
    values = reshape(source, (source._array.size,))
    if held.size != source._array.size:
        values = values[: held.size]
    return x, held, values


def masked_scatter(input: Any, mask: Any, source: Any) -> Any:
    """A copy with the elements where the bool mask holds replaced by those of source, in order."""
    x, held, values = _scatter_parts(input, mask, source)
    return put_rows(x, x._make(held), values, dim=0, span=x._array.ndim)


def masked_scatter_(input: Any, mask: Any, source: Any) -> Any:
    """In place: the elements where the bool mask holds replaced by those of source, in order."""
    x, held, values = _scatter_parts(input, mask, source)
    if x is not input:
        raise RuntimeError(
            f"masked_scatter_: output with shape {list(input._array.shape)} doesn't match the broadcast "
            f"shape {list(x._array.shape)}"
        )
    return kernel_inplace(put_rows, input, held, values, dim=0, span=input._array.ndim)


# -- where ---------------------------------------------------------------------------------------------


def where(condition: Any, input: Any = None, other: Any = None, *, out: Any = None) -> Any:
    """``input`` where the bool condition holds, else ``other``; numbers or tensors, broadcast.

    With the condition alone: the indices where it is nonzero, one tensor per dimension.
    """
    if not isinstance(condition, Value):
        if isinstance(condition, (bool, int, float)):
            raise TypeError(
                f"where(): argument 'condition' (position 1) must be Tensor, not {type(condition).__name__}"
            )
        return arithmetic.where(condition, input, other)  # a formula for one number
    if input is None and other is None:
        return nonzero(condition, as_tuple=True)
    if input is None or other is None:
        raise TypeError("where() takes the condition alone, or the condition, input and other")
    char = condition._array.dtype.char
    if char == "B":
        warnings.warn(
            "where received a uint8 condition tensor. This behavior is deprecated and will be removed in a "
            "future version of "
            "PyTorch. Use a boolean condition instead.",
            UserWarning,
            stacklevel=2,
        )
    elif char != "?":
        raise RuntimeError(
            "where expected condition to be a boolean tensor, but got a tensor with dtype "
            f"{dtypes.of(condition._array).short}"
        )
    return arithmetic.select_where(condition, input, other, out=out)


def _where_method(self: Any, condition: Any, other: Any) -> Any:
    """The tensor where the condition holds, else ``other``."""
    return where(condition, self, other)


# -- nonzero -------------------------------------------------------------------------------------------


def nonzero(input: Any, *, as_tuple: bool = False, out: Any = None) -> Any:
    """Indices of the nonzero elements: one row each, or with ``as_tuple`` one tensor per dimension."""
    check_tensor(input, "nonzero", "input")
    array = input._array
    if as_tuple:
        return tuple(input._make(i) for i in _coordinates(array if array.ndim else array.reshape(1)).T.copy())
    found = _coordinates(array) if array.ndim else np.empty((int(bool(array)), 0), np.int64)
    result = input._make(found)
    return result if out is None else out.copy_(result)


def _coordinates(array: np.ndarray) -> np.ndarray:
    """One row of indices per nonzero element."""
    refuse("nonzero(), whose result's shape depends on values,")
    mask = array if array.dtype.char == "?" else array != 0
    rank, columns = array.ndim, array.shape[-1]
    if rank == 1:
        return places(mask)[:, None]
    found = np.empty((np.count_nonzero(mask) + 1, rank), np.int64)
    if array.size:
        shape = np.array(array.shape, np.int64)
        mask = np.ascontiguousarray(mask).view(np.uint8)
        kernels.index.coordinates(mask, found, shape, rank, array.size // columns, columns, 0, 1)
    return found[:-1]


def argwhere(input: Any) -> Any:
    """Indices of the nonzero elements, one row each."""
    return nonzero(input)


def unravel_index(indices: Any, shape: Any) -> tuple[Any, ...]:
    """Indices into a flattened tensor as one index tensor per dimension."""
    check_tensor(indices, "unravel_index", "indices")
    if indices._array.dtype.kind not in "iu":
        raise ValueError(
            f"unravel_index(): expected 'indices' to be integer dtype, but got {dtypes.of(indices._array)}"
        )
    sizes = shape_args((shape,) if isinstance(shape, int) else shape)
    if any(n < 0 for n in sizes):
        raise ValueError("unravel_index(): 'shape' cannot have negative values")
    return tuple(indices._make(part) for part in _unravelled(indices._array, tuple(sizes)))


@hosted
def _unravelled(indices: np.ndarray, sizes: tuple[int, ...]) -> list[np.ndarray]:
    rest, made = indices.astype(np.int64), []
    for n in reversed(sizes):
        made.append(np.asarray(rest % n))
        rest = rest // n
    return made[::-1]


class MaskMethods:
    """a.masked_fill_(mask, value), a.nonzero(), ..."""

    __slots__ = ()

    masked_fill, masked_fill_ = masked_fill, masked_fill_
    masked_select, masked_scatter, masked_scatter_ = masked_select, masked_scatter, masked_scatter_
    where, nonzero, argwhere = _where_method, nonzero, argwhere
