"""Reductions: sums, products, extrema, moments, and truth over any dimensions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import dtypes, kernels
from ..kernels import launch_lazily as launch
from ..op import kernel_op
from ..tape import Value
from .arithmetic import div, eq, mul, where
from .dims import wrap_dim, wrap_dims
from .maths import exp, log, sqrt
from .shape import as_expanded, reshape

__all__ = [
    "sum", "nansum", "mean", "nanmean",
]  # fmt: skip

# -- layout ------------------------------------------------------------------------------------------


def kept_shape(shape: tuple[int, ...], dims: tuple[int, ...]) -> tuple[int, ...]:
    """The shape with the reduced dimensions as ones."""
    return tuple(1 if d in dims else n for d, n in enumerate(shape))


def final_shape(shape: tuple[int, ...], dims: tuple[int, ...], keepdim: bool) -> tuple[int, ...]:
    """The shape of a reduction's result."""
    return kept_shape(shape, dims) if keepdim else tuple(n for d, n in enumerate(shape) if d not in dims)


def spread(g: Any, x_shape: tuple[int, ...], dims: tuple[int, ...]) -> Any:
    """A reduction's cotangent, seen once more by every element that was reduced."""
    return as_expanded(reshape(g, kept_shape(x_shape, dims)), shape=x_shape)


def blocked(x: np.ndarray, dims: tuple[int, ...]) -> tuple[np.ndarray, int, int, int]:
    """The array in C order with the reduced dimensions adjacent: (array, outer, n, inner)."""
    shape = x.shape
    span = [d for d in dims if shape[d] != 1]
    if span and span[-1] - span[0] + 1 != len(span) and all(
        shape[d] == 1 for d in range(span[0], span[-1]) if d not in span
    ):
        pass  # only unit dimensions lie between: already adjacent
    elif span and span[-1] - span[0] + 1 != len(span):
        rest = [d for d in range(x.ndim) if d not in dims]
        x = x.transpose([*rest, *dims])
        span = list(range(len(rest), x.ndim))
        shape = x.shape
    if not x.flags.c_contiguous:
        x = np.ascontiguousarray(x)
    if not span:
        return x, x.size, 1, 1
    first, last = span[0], span[-1]
    return x, math.prod(shape[:first]), math.prod(shape[first : last + 1]), math.prod(shape[last + 1 :])


def _sums(x: np.ndarray, dims: tuple[int, ...]) -> np.ndarray:
    """Sums over dims in float64, flat."""
    reduce = kernels.reduce
    x, outer, n, inner = blocked(x, dims)
    if inner == 1:
        if outer < 8 and n > 4 * reduce.CHUNK:
            return np.array([_long_sum(row) for row in x.reshape(outer, n)], dtype=np.float64)
        out = np.empty(outer, np.float64)
        launch(reduce.sum_rows, (x, out, n), outer, x.size)
        return out
    out = np.empty(outer * inner, np.float64)
    width = 512
    launch(reduce.sum_columns, (x, out, n, inner, width), outer * -(-inner // width), x.size)
    return out


def _long_sum(x: np.ndarray) -> float:
    reduce = kernels.reduce
    chunks = -(-x.size // reduce.CHUNK)
    parts = np.empty(chunks, np.float64)
    launch(reduce.sum_chunks, (x, parts, x.size, reduce.CHUNK), chunks, x.size)
    out = np.empty(1, np.float64)
    reduce.sum_rows(parts, out, chunks, 0, 1)
    return float(out[0])


# -- sum, mean, prod ---------------------------------------------------------------------------------


@kernel_op(x=lambda g, x_shape, dims: spread(g, x_shape, dims), node_name="SumBackward0", name="sum")
def summed(x, *, dims, shape, dtype):
    """Sum over dims."""
    if x.dtype.kind != "f" or x.dtype.char == "e" or not x.size:
        total = np.sum(x, axis=dims, dtype=np.float32 if x.dtype.char == "e" else dtype)
        return np.asarray(total).astype(dtype, copy=False).reshape(shape)
    return _sums(x, dims).astype(dtype).reshape(shape)


def _sum_type(input: Any, dtype: Any) -> dtypes.dtype:
    if dtype is not None:
        return dtypes.as_dtype(dtype)
    have = dtypes.of(input._array)
    return have if have.is_floating_point else dtypes.int64


def _converted(input: Any, to: dtypes.dtype) -> Any:
    return input if dtypes.of(input._array) is to else input.to(to)


def sum(input: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None, out: Any = None) -> Any:
    """Sum over all or some dimensions; integers and bools add up in int64."""
    to = _sum_type(input, dtype)
    if to.is_floating_point:
        input = _converted(input, to)
    shape = input._array.shape
    dims = wrap_dims(dim, len(shape))
    result = summed(input, dims=dims, shape=final_shape(shape, dims, keepdim), dtype=to.numpy)
    return result if out is None else out.copy_(result)


def nansum(input: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """Sum with NaN counted as zero."""
    return sum(where(eq(input, input), input, 0), dim, keepdim, dtype=dtype)


def mean(input: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None, out: Any = None) -> Any:
    """Mean over all or some dimensions; needs a floating type."""
    to = dtypes.of(input._array) if dtype is None else dtypes.as_dtype(dtype)
    if not to.is_floating_point:
        raise RuntimeError(
            f"mean(): could not infer output dtype. Input dtype must be a floating point dtype, got: {to.short}. "
            "Convert with .float() first."
        )
    input = _converted(input, to)
    shape = input._array.shape
    dims = wrap_dims(dim, len(shape))
    n = math.prod(shape[d] for d in dims)
    total = summed(input, dims=dims, shape=final_shape(shape, dims, keepdim), dtype=to.numpy)
    result = div(total, n) if n else mul(total, math.nan)
    return result if out is None else out.copy_(result)


def nanmean(input: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """Mean of what is not NaN."""
    there = eq(input, input)
    return div(nansum(input, dim, keepdim, dtype=dtype), sum(there, dim, keepdim))


class ReduceMethods:
    """a.sum(), a.mean(dim), ..."""

    __slots__ = ()

    sum, nansum, mean, nanmean = sum, nansum, mean, nanmean
