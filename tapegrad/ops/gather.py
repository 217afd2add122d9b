"""gather, scatter and their relatives: one index per element along a dimension."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import dtypes, kernels
from ..kernels import launch_lazily as launch
from ..kernels.arrays import contiguous
from ..kernels.recording import active, hosted
from ..tape import Value
from .along import extreme_along, product_along, put_along, put_along_adding, take_along
from .arithmetic import div, floor_divide
from .dims import wrap_dim
from .inplace import kernel_inplace
from .keys import checked
from .numbers import element, is_number
from .out import into
from .rows import take_rows
from .shape import as_expanded, as_indexed, broadcast_shapes, clone, reshape

__all__ = ["gather", "scatter", "scatter_add", "scatter_reduce", "take_along_dim"]


def check_tensor(value: Any, name: str, argument: str) -> None:
    """TypeError unless the value is a tensor."""
    if not isinstance(value, Value):
        raise TypeError(f"{name}(): argument '{argument}' must be Tensor, not {type(value).__name__}")


def check_range(index: np.ndarray, n: int, dim: int, error: type[Exception] = RuntimeError) -> np.ndarray:
    """The index; an error if one of it lies outside [0, n)."""
    return checked(
        index, n, 0, lambda value: error(f"index {value} is out of bounds for dimension {dim} with size {n}")
    )


def _index(
    input: Any, dim: int, index: Any, name: str, largest: tuple[int, ...] | None = None
) -> tuple[int, Any]:
    """The dimension, and the checked index as int64: a tensor (kept as it is) or an array."""
    check_tensor(input, name, "input")
    check_tensor(index, name, "index")
    shape, array = input._array.shape, index._array
    d = wrap_dim(dim, len(shape))
    if array.dtype.char not in "li" and array.size:
        raise RuntimeError(f"{name}(): Expected dtype int32/int64 for index")
    if not array.size:
        return d, index._make(np.zeros(array.shape, np.int64))
    if max(array.ndim, 1) != max(len(shape), 1):
        raise RuntimeError(
            "Index tensor must have the same number of dimensions as "
            f"{'input' if largest is None else 'self'} tensor"
        )
    if shape and array.ndim:
        bad = any(n > m for k, (n, m) in enumerate(zip(array.shape, shape, strict=True)) if k != d)
        if largest is None and bad:
            raise RuntimeError(
                f"Size does not match at dimension {_first_larger(array.shape, shape, d)} expected index "
                f"{list(array.shape)} to be no "
                f"larger than self {list(shape)} apart from dimension {d}"
            )
        if bad or (largest is not None and any(n > m for n, m in zip(array.shape, largest, strict=False))):
            raise RuntimeError(
                f"Expected index {list(array.shape)} to be no larger than self {list(shape)} apart from "
                f"dimension {d} and to be no "
                f"larger size than src {list(largest or ())}"
            )
    array = check_range(contiguous(array, np.int64), shape[d] if shape else 1, d)
    return d, (index if index._array is array else index._make(array))


def _first_larger(a: tuple[int, ...], b: tuple[int, ...], dim: int) -> int:
    return next(k for k, (n, m) in enumerate(zip(a, b, strict=True)) if k != dim and n > m)


def gather(input: Any, dim: int, index: Any, *, sparse_grad: bool = False, out: Any = None) -> Any:
    """out[i][j][k] = input[index[i][j][k]][j][k] for dim 0, and so on; index has the rank of input and int64.

    RuntimeError for an index out of range.
    """
    d, at = _index(input, dim, index, "gather")
    if sparse_grad:
        raise RuntimeError("gather: sparse gradients are not supported, leave sparse_grad=False")
    if not index._array.size and index._array.ndim != input._array.ndim:
        result = take_rows(input, at, dim=0, span=input._array.ndim)
    else:
        result = take_along(input, at, dim=d)
    return into(result, out, "gather", exact=True, inputs=(input, index))


def take_along_dim(input: Any, indices: Any, dim: int | None = None, *, out: Any = None) -> Any:
    """gather with broadcasting; without a dimension from the flattened tensor."""
    check_tensor(input, "take_along_dim", "input")
    check_tensor(indices, "take_along_dim", "indices")
    if indices._array.dtype.char != "l":
        raise RuntimeError(
            "torch.take_along_dim(): dtype of indices should be Long but got "
            f"{dtypes.of(indices._array).short}"
        )
    if dim is None:
        return gather(reshape(input, (-1,)), 0, _wrapped(reshape(indices, (-1,)), input._array.size), out=out)
    rank = input._array.ndim
    if rank != indices._array.ndim:
        raise RuntimeError(
            "torch.take_along_dim(): input and indices should have the same number of dimensions, but got "
            f"{rank} dimensions for "
            f"input, and {indices._array.ndim} dimensions for indices"
        )
    d = wrap_dim(dim, rank)
    common = list(broadcast_shapes(_without(input, d), _without(indices, d)))
    n = input._array.shape[d] if rank else 1
    source = as_expanded(input, shape=_with(common, d, n, rank))
    wanted = as_expanded(indices, shape=_with(common, d, indices._array.shape[d] if rank else 1, rank))
    return gather(source, d, _wrapped(wanted, n), out=out)


def _without(x: Any, dim: int) -> tuple[int, ...]:
    shape = x._array.shape
    return tuple(n for k, n in enumerate(shape) if k != dim)


def _with(common: list[int], dim: int, n: int, rank: int) -> tuple[int, ...]:
    return (*common[:dim], n, *common[dim:]) if rank else ()


def _wrapped(index: Any, n: int) -> Any:
    """Negative indices counted from the end."""
    return index._make(counted(index._array, n))


def counted(array: np.ndarray, n: int) -> np.ndarray:
    """An int64 index with what lies in [-n, 0) counted from the end."""
    if active:
        array = contiguous(array)
        out = np.empty(array.shape, np.int64)
        launch(kernels.index.counted, (array, out, n), array.size, array.size)
        return out
    return np.where((array < 0) & (array >= -n), array + n, array)


# -- scatter -----------------------------------------------------------------------------------------


def _fitted(src: Any, index: Any) -> Any:
    """The part of src that the index speaks of."""
    have, want = src._array.shape, index._array.shape
    if len(have) != len(want):
        return reshape(src, want)
    return src if have == want else as_indexed(src, key=tuple(slice(n) for n in want))


def _parts(input: Any, dim: int, index: Any, src: Any, name: str) -> tuple[int, Any, Any]:
    """Dimension, index and values of a scatter; None for the index if there is nothing to do."""
    if is_number(src):
        check_tensor(index, name, "index")
        d, at = _index(input, dim, index, name, index._array.shape)
        return d, at, input._make(element(src, input._array.dtype))
    check_tensor(src, name, "src")
    check_tensor(index, name, "index")
    if index._array.size and max(src._array.ndim, 1) != max(index._array.ndim, 1):
        raise RuntimeError("Index tensor must have the same number of dimensions as src tensor")
    d, at = _index(input, dim, index, name, src._array.shape or (1,))
    if src._array.dtype != input._array.dtype:
        raise RuntimeError(f"{name}(): Expected self.dtype to be equal to src.dtype")
    return d, at, (_fitted(src, index) if index._array.size else src)


def _source(src: Any, named: dict[str, Any], name: str) -> Any:
    """The values, which may be called ``value``."""
    if "value" in named and src is None:
        src = named.pop("value")
    if named:
        raise TypeError(f"{name}() got an unexpected keyword argument {next(iter(named))!r}")
    if src is None:
        raise TypeError(f"{name}() is missing the argument 'src' (or 'value')")
    return src


def scatter(
    input: Any,
    dim: int,
    index: Any,
    src: Any = None,
    *,
    reduce: str | None = None,
    out: Any = None,
    **value: Any,
) -> Any:
    """A copy with out[index[i][j]][j] = src[i][j] for dim 0, and so on; src is a tensor or a number.

    Of equal indices the last one wins. ``reduce`` "add" or "multiply" combines with what is there.
    """
    src = _source(src, value, "scatter")
    result = _scattered(input, dim, index, src, reduce, "scatter", False)
    return result if out is None else out.copy_(result)


def scatter_(
    input: Any, dim: int, index: Any, src: Any = None, *, reduce: str | None = None, **value: Any
) -> Any:
    """In place: input[index[i][j]][j] = src[i][j] for dim 0, and so on; src is a tensor or a number."""
    return _scattered(input, dim, index, _source(src, value, "scatter_"), reduce, "scatter", True)


def _scattered(
    input: Any, dim: int, index: Any, src: Any, reduce: str | None, name: str, inplace: bool
) -> Any:
    if reduce not in (None, "add", "multiply"):
        raise RuntimeError("reduce argument must be either add or multiply.")
    d, at, values = _parts(input, dim, index, src, name)
    if not index._array.size:
        return input if inplace else clone(input)
    op = put_along if reduce is None else put_along_adding if reduce == "add" else product_along
    return kernel_inplace(op, input, at, values, dim=d) if inplace else op(input, at, values, dim=d)


def scatter_add(input: Any, dim: int, index: Any, src: Any) -> Any:
    """A copy with out[index[i][j]][j] += src[i][j] for dim 0, and so on; equal indices add up in order."""
    check_tensor(src, "scatter_add", "src")
    return _scattered(input, dim, index, src, "add", "scatter", False)


def scatter_add_(input: Any, dim: int, index: Any, src: Any) -> Any:
    """In place: input[index[i][j]][j] += src[i][j] for dim 0, and so on."""
    check_tensor(src, "scatter_add_", "src")
    return _scattered(input, dim, index, src, "add", "scatter", True)


# -- scatter_reduce ------------------------------------------------------------------------------------


def reduced(input: Any, dim: int, index: Any, values: Any, reduce: str, include_self: bool) -> Any:
    """input with values combined into it along a checked index."""
    x = input
    if not include_self:
        dtype = input._array.dtype
        x = put_along(input, index, input._make(element(_neutral(reduce, dtype), dtype)), dim=dim)
    if reduce == "sum":
        return put_along_adding(x, index, values, dim=dim)
    if reduce == "prod":
        return product_along(x, index, values, dim=dim)
    if reduce in ("amax", "amin"):
        return extreme_along(x, index, values, dim=dim, largest=reduce == "amax")
    total = put_along_adding(x, index, values, dim=dim)
    shape = values._array.shape
    dtype = input._array.dtype
    ones = input._make(np.ones(shape, dtype))
    start = np.ones(input._array.shape, dtype) if include_self else np.zeros(input._array.shape, dtype)
    count = put_along_adding(input._make(start), index, ones, dim=dim)._array
    divisor = input._make(_at_least_one(count))
    return div(total, divisor) if dtype.kind == "f" else floor_divide(total, divisor)


@hosted
def _at_least_one(count: np.ndarray) -> np.ndarray:
    return np.where(count == 0, count.dtype.type(1), count)


def _neutral(reduce: str, dtype: np.dtype) -> Any:
    """What changes nothing when combined with a value."""
    if reduce in ("sum", "mean"):
        return 0
    if reduce == "prod":
        return 1
    if dtype.kind == "b":
        return reduce == "amin"
    if dtype.kind == "f":
        return -np.inf if reduce == "amax" else np.inf
    info = np.iinfo(dtype)
    return int(info.min if reduce == "amax" else info.max)


def scatter_reduce(
    input: Any, dim: int, index: Any, src: Any, reduce: str, *, include_self: bool = True
) -> Any:
    """A copy whose elements are combined with those that the index sends there.

    ``reduce`` is "sum", "prod", "mean", "amax" or "amin"; without ``include_self`` what was there does
    not count.
    """
    if reduce not in ("sum", "prod", "mean", "amax", "amin"):
        raise RuntimeError(f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce}")
    check_tensor(src, "scatter_reduce", "src")
    d, at, values = _parts(input, dim, index, src, "scatter_reduce")
    if not index._array.size:
        return clone(input)
    return reduced(input, d, at, values, reduce, include_self)


def scatter_reduce_(
    input: Any, dim: int, index: Any, src: Any, reduce: str, *, include_self: bool = True
) -> Any:
    """scatter_reduce in place."""
    return input.copy_(scatter_reduce(clone(input), dim, index, src, reduce, include_self=include_self))


class GatherMethods:
    """a.gather(dim, index), a.scatter_(dim, index, src), ..."""

    __slots__ = ()

    gather, take_along_dim = gather, take_along_dim
    scatter, scatter_, scatter_add, scatter_add_ = scatter, scatter_, scatter_add, scatter_add_
    scatter_reduce, scatter_reduce_ = scatter_reduce, scatter_reduce_
