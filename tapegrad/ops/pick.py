"""Rows along a dimension, or elements of the whole tensor, by a list of indices."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import dtypes
from ..kernels.arrays import cast
from ..kernels.recording import refuse
from ..tape import Value
from .arithmetic import mul
from .dims import wrap_dim
from .gather import check_range, check_tensor, counted, reduced
from .inplace import kernel_inplace
from .keys import checked
from .numbers import element, is_number
from .out import into
from .rows import put_rows, put_rows_adding, take_rows
from .shape import clone, flatten, reshape

__all__ = [
    "index_add",
    "index_copy",
    "index_fill",
    "index_reduce",
    "index_select",
    "put",
    "repeat_interleave",
    "take",
]  # fmt: skip


def _list(index: Any, name: str, error: type[Exception] = RuntimeError) -> np.ndarray:
    """The index as an int64 array of at most one dimension."""
    check_tensor(index, name, "index")
    array = index._array
    if array.dtype.char not in "li":
        raise error(f"{name}(): Expected dtype int32/int64 for index but got: {dtypes.of(array).short}")
    return cast(array, np.int64)


def _vector(index: np.ndarray, name: str) -> np.ndarray:
    if index.ndim > 1:
        raise IndexError(f"{name}(): Index is supposed to be a vector, but got dim: {index.ndim}")
    return index.reshape(-1)


def _kept(index: Any, array: np.ndarray) -> Any:
    """The index tensor itself where it could be used as it is, so that a change of it is noticed."""
    return index if index._array is array else index._make(array)


def index_select(input: Any, dim: int, index: Any, *, out: Any = None) -> Any:
    """The rows that a 1-d index names along a dimension; a copy. IndexError for an index out of range."""
    check_tensor(input, "index_select", "input")
    shape = input._array.shape
    d = wrap_dim(dim, len(shape))
    array = _list(index, "index_select")
    rows = _vector(array, "index_select")
    n = shape[d] if shape else 1
    rows = checked(
        rows,
        n,
        0,
        lambda value: IndexError(f"index out of range in self: index {value}, dimension {d} has size {n}"),
    )
    if not shape:
        if rows.size != 1:
            raise RuntimeError("index_select(): Index to scalar can have only 1 value")
        result = clone(input)
    else:
        result = take_rows(input, _kept(index, rows), dim=d, span=1)
    return result if out is None else out.copy_(result)


# -- writing rows ----------------------------------------------------------------------------------------


def _add_parts(
    input: Any, dim: int, index: Any, source: Any, alpha: Any, name: str
) -> tuple[int, np.ndarray, Any]:
    check_tensor(source, name, "source")
    shape, given = input._array.shape, source._array.shape
    d = wrap_dim(dim, len(shape))
    rows = _vector(_list(index, name), name)
    if source._array.dtype != input._array.dtype:
        raise RuntimeError(
            f"{name}(): self ({dtypes.of(input._array).short}) and source ({dtypes.of(source._array).short}) "
            "must have the same "
            "scalar type"
        )
    if len(shape) != len(given) or any(
        n != m for k, (n, m) in enumerate(zip(shape, given, strict=True)) if k != d
    ):
        raise RuntimeError(
            "source tensor shape must match self tensor shape, excluding the specified dimension. "
            f"Got self.shape = {list(shape)} source.shape = {list(given)}"
        )
    if rows.size != (given[d] if given else 1):
        raise RuntimeError(
            f"{name}(): Number of indices ({rows.size}) should be equal to source.size(dim): ({given[d]}), "
            f"for dim: {d}"
        )
    rows = check_range(rows, shape[d] if shape else 1, d)
    return d, rows, source if alpha == 1 else mul(source, alpha)


def _applied(op: Any, input: Any, rows: np.ndarray, values: Any, d: int, inplace: bool) -> Any:
    """Run a row-writing op on a tensor, of which a 0-d one counts as one row."""
    run = kernel_inplace if inplace else _out_of_place
    if input._array.ndim:
        return run(op, input, rows, values, dim=d, span=1)
    if isinstance(values, Value) and values._array.ndim:
        values = reshape(values, ())
    return run(op, input, rows.reshape(rows.shape[1:]) if rows.size else rows, values, dim=0, span=0)


def _out_of_place(op: Any, input: Any, *values: Any, **params: Any) -> Any:
    return op(input, *[v if isinstance(v, Value) else input._make(v) for v in values], **params)


def index_add(input: Any, dim: int, index: Any, source: Any, *, alpha: Any = 1, out: Any = None) -> Any:
    """A copy with alpha * source added to the rows that the index names; equal indices add up in order."""
    d, rows, values = _add_parts(input, dim, index, source, alpha, "index_add_")
    result = _applied(put_rows_adding, input, rows, values, d, False)
    return result if out is None else out.copy_(result)


def index_add_(input: Any, dim: int, index: Any, source: Any, *, alpha: Any = 1) -> Any:
    """In place: alpha * source added to the rows that the index names."""
    d, rows, values = _add_parts(input, dim, index, source, alpha, "index_add_")
    return _applied(put_rows_adding, input, rows, values, d, True)


def _copy_parts(input: Any, dim: int, index: Any, source: Any) -> tuple[int, np.ndarray, Any]:
    name = "index_copy_"
    check_tensor(source, name, "source")
    shape, given = input._array.shape, source._array.shape
    d = wrap_dim(dim, len(shape))
    rows = _vector(_list(index, name), name)
    if given and shape and len(given) != len(shape):
        raise IndexError(
            f"{name}(): When source and destination are not scalars, their dimensionality must match. Source "
            "dimensionality "
            f"({len(given)}), destination dimensionality ({len(shape)})"
        )
    if source._array.dtype != input._array.dtype:
        raise RuntimeError(
            f"{name}(): self and source expected to have the same dtype, but got (self) "
            f"{dtypes.of(input._array).short} and (source) "
            f"{dtypes.of(source._array).short}"
        )
    if not given and rows.size != 1:
        raise IndexError(f"{name}(): When source is scalar, index should have one element (got {rows.size})")
    if given and rows.size != (given[d] if shape else given[0]):
        raise IndexError(
            f"{name}(): Number of indices ({rows.size}) should be equal to source.size(dim) "
            f"({given[d] if shape else given[0]})"
        )
    if given and shape and any(n != m for k, (n, m) in enumerate(zip(shape, given, strict=True)) if k != d):
        raise RuntimeError(
            f"{name}(): Source/destination tensor must have same slice shapes. Destination slice shape: "
            f"{list(shape)} at dimension {d} "
            f"and source slice shape: {list(given)} at dimension 0."
        )
    n = shape[d] if shape else 1

    def outside(value: int) -> Exception:
        return IndexError(f"{name}(): index {value} is out of bounds for dimension {d} with size {n}")

    return d, checked(rows, n, 0, outside), source


def index_copy(input: Any, dim: int, index: Any, source: Any, *, out: Any = None) -> Any:
    """A copy with the rows that the index names replaced by those of source; the last of equal ones wins."""
    d, rows, values = _copy_parts(input, dim, index, source)
    result = _applied(put_rows, input, rows, values, d, False)
    return result if out is None else out.copy_(result)


def index_copy_(input: Any, dim: int, index: Any, source: Any) -> Any:
    """In place: the rows that the index names replaced by those of source."""
    d, rows, values = _copy_parts(input, dim, index, source)
    return _applied(put_rows, input, rows, values, d, True)


def _fill_parts(input: Any, dim: int, index: Any, value: Any) -> tuple[int, np.ndarray, Any]:
    shape = input._array.shape
    d = wrap_dim(dim, len(shape))
    check_tensor(index, "index_fill_", "index")
    if index._array.dtype.char != "l":
        raise IndexError("index_fill_(): Expected dtype int64 for index.")
    if index._array.ndim > 1:
        raise RuntimeError("Index has to be a vector/scalar")
    rows = index._array.reshape(-1)
    n = shape[d] if shape else 1
    rows = check_range(counted(rows, n), n, d, IndexError)
    if isinstance(value, Value):
        if value._array.ndim:
            raise RuntimeError(
                "index_fill_ only supports a 0-dimensional value tensor, but got tensor with "
                f"{value._array.ndim} dimension(s)."
            )
        refuse("index_fill with a tensor as the value")
        # Once each, since the gradient of the value is a sum over the rows.
        return d, np.unique(rows), value.to(dtypes.of(input._array))  # type: ignore[attr-defined]
    if not is_number(value):
        raise RuntimeError(
            f"index_fill_(): the value must be a number or a 0-d tensor, not {type(value).__name__}"
        )
    return d, rows, element(value, input._array.dtype)


def index_fill(input: Any, dim: int, index: Any, value: Any) -> Any:
    """A copy with one value in the rows that the index names."""
    d, rows, given = _fill_parts(input, dim, index, value)
    return _applied(put_rows, input, rows, given, d, False)


def index_fill_(input: Any, dim: int, index: Any, value: Any) -> Any:
    """In place: one value in the rows that the index names."""
    d, rows, given = _fill_parts(input, dim, index, value)
    return _applied(put_rows, input, rows, given, d, True)


def index_reduce(
    input: Any, dim: int, index: Any, source: Any, reduce: str, *, include_self: bool = True, out: Any = None
) -> Any:
    """A copy whose rows are combined with those of source; ``reduce`` is "prod", "mean", "amax" or "amin"."""
    if reduce not in ("prod", "mean", "amax", "amin"):
        raise RuntimeError(
            f"index_reduce(): Expected reduce to be one of prod, mean, amax or amin but got {reduce}."
        )
    d, rows, values = _add_parts(input, dim, index, source, 1, "index_reduce_")
    shape = values._array.shape
    if not values._array.size:
        result = clone(input)
    else:
        where = np.broadcast_to(rows.reshape([-1 if k == d else 1 for k in range(len(shape))]), shape)
        result = reduced(input, d, input._make(where), values, reduce, include_self)
    return result if out is None else out.copy_(result)


def index_reduce_(
    input: Any, dim: int, index: Any, source: Any, reduce: str, *, include_self: bool = True
) -> Any:
    """index_reduce in place."""
    return input.copy_(index_reduce(clone(input), dim, index, source, reduce, include_self=include_self))


# -- elements of the whole tensor --------------------------------------------------------------------------


def _flat(input: Any, index: Any, name: str) -> np.ndarray:
    """The checked index into the flattened tensor."""
    check_tensor(index, name, "index")
    array = index._array
    if array.dtype.char != "l":
        raise RuntimeError(f"{name}(): Expected a long tensor for index, but got {dtypes.of(array).short}")
    n = input._array.size
    if array.size and not n:
        raise IndexError(f"{name}(): tried to take from an empty tensor")

    def outside(value: int) -> Exception:
        return IndexError(f"out of range: tried to access index {value} on a tensor of {n} elements.")

    return checked(array, n, -n, outside)


def take(input: Any, index: Any, *, out: Any = None) -> Any:
    """Elements of the flattened tensor, in the shape of the index."""
    result = take_rows(input, _kept(index, _flat(input, index, "take")), dim=0, span=input._array.ndim)
    return into(result, out, "take", exact=True, inputs=(input, index))


def _put_parts(input: Any, index: Any, source: Any) -> tuple[np.ndarray, Any]:
    check_tensor(source, "put_", "source")
    check_tensor(index, "put_", "index")
    if source._array.dtype != input._array.dtype:
        raise RuntimeError(
            "put_(): self and source expected to have the same dtype, but got self.dtype = "
            f"{dtypes.of(input._array).short} and "
            f"source.dtype = {dtypes.of(source._array).short}"
        )
    if source._array.size != index._array.size:
        raise IndexError(
            "put_(): Expected source and index to have the same number of elements, but got "
            f"source.numel() = {source._array.size}, index.numel() = {index._array.size}"
        )
    flat = _flat(input, index, "put_").reshape(-1)
    return flat, reshape(source, (flat.size,))


def put(input: Any, index: Any, source: Any, accumulate: bool = False) -> Any:
    """A copy with elements of the flattened tensor replaced by (or increased by) those of source."""
    flat, values = _put_parts(input, index, source)
    op = put_rows_adding if accumulate else put_rows
    return op(input, input._make(flat), values, dim=0, span=input._array.ndim)


def put_(input: Any, index: Any, source: Any, accumulate: bool = False) -> Any:
    """In place: elements of the flattened tensor replaced by (or increased by) those of source."""
    flat, values = _put_parts(input, index, source)
    op = put_rows_adding if accumulate else put_rows
    return kernel_inplace(op, input, flat, values, dim=0, span=input._array.ndim)


# -- repeat_interleave -------------------------------------------------------------------------------------


def _repeats(repeats: Any) -> np.ndarray:
    refuse("repeat_interleave() by a tensor, whose result's shape depends on values,")
    array = repeats._array
    if array.ndim > 1:
        raise RuntimeError("repeats must be 0-dim or 1-dim tensor")
    if array.dtype.char not in "li":
        raise NotImplementedError(
            f"repeat_interleave: repeats must be int32 or int64, not {dtypes.of(array).short}"
        )
    if array.size and array.min() < 0:
        raise RuntimeError("repeats can not be negative")
    return array.reshape(-1)  # type: ignore[no-any-return]


def repeat_interleave(
    input: Any, repeats: Any = None, dim: int | None = None, *, output_size: int | None = None
) -> Any:
    """Each element (or each row along a dimension) several times in a row.

    Without ``repeats``, input holds the numbers of repeats and the result the indices.
    """
    if repeats is None:
        times = _repeats(input)
        if input._array.ndim != 1:
            raise RuntimeError("repeat_interleave only accept 1D vector as repeat")
        return _sized(input._make(np.repeat(np.arange(times.size), times)), output_size, 0)
    x = flatten(input) if dim is None else input if input._array.ndim else reshape(input, (1,))
    d = wrap_dim(0 if dim is None else dim, x._array.ndim)
    n = x._array.shape[d]
    if isinstance(repeats, Value):
        times = _repeats(repeats)
        if times.size == 1:
            times = np.broadcast_to(times, n)
        if times.size != n:
            raise RuntimeError(
                f"repeats must have the same size as input along dim, but got repeats.size(0) = {times.size} "
                f"and input.size({d}) = {n}"
            )
        rows = np.repeat(np.arange(n), times)
    else:
        if repeats < 0:
            raise RuntimeError("Repeats must be non-negative")
        rows = np.repeat(np.arange(n), int(repeats))
    return _sized(take_rows(x, x._make(rows), dim=d, span=1), output_size, d)


def _sized(result: Any, output_size: int | None, dim: int) -> Any:
    if output_size is not None and result._array.shape[dim] != output_size:
        raise RuntimeError(
            f"repeat_interleave: allocated size does not match required size: output_size={output_size}, but "
            "the repeats add up to "
            f"{result._array.shape[dim]}"
        )
    return result


class PickMethods:
    """a.index_select(dim, index), a.index_add_(dim, index, source), a.take(index), ..."""

    __slots__ = ()

    index_select, index_add, index_add_ = index_select, index_add, index_add_
    index_copy, index_copy_, index_fill, index_fill_ = index_copy, index_copy_, index_fill, index_fill_
    index_reduce, index_reduce_ = index_reduce, index_reduce_
    take, put, put_, repeat_interleave = take, put, put_, repeat_interleave
