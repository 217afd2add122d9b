"""The dimensions that a reduction runs over: shapes before and after, and how they lie in memory.

Kernels reduce the middle of contiguous (outer, n, inner) arrays. Whatever a tensor's layout, it is
brought to that form with as little copying as possible: dimensions that a view has permuted are taken in the
order of memory, broadcast ones are visited once, and those that are not neighbours are reduced in stages.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from .. import buffers, kernels
from ..kernels.arrays import cast, contiguous, duplicate
from .shape import as_expanded, reshape


def kept_shape(shape: tuple[int, ...], dims: tuple[int, ...]) -> tuple[int, ...]:
    """The shape with the reduced dimensions as ones."""
    return tuple([1 if d in dims else n for d, n in enumerate(shape)])


def final_shape(shape: tuple[int, ...], dims: tuple[int, ...], keepdim: bool) -> tuple[int, ...]:
    """The shape of a reduction's result."""
    return kept_shape(shape, dims) if keepdim else tuple([n for d, n in enumerate(shape) if d not in dims])


def count_of(shape: tuple[int, ...], dims: Sequence[int]) -> int:
    """How many elements are reduced to one."""
    return math.prod([shape[d] for d in dims])


def kept(x: Any, x_shape: tuple[int, ...], dims: tuple[int, ...]) -> Any:
    """A reduction's result (or its cotangent) with the reduced dimensions as ones."""
    shape = kept_shape(x_shape, dims)
    return x if x._array.shape == shape else reshape(x, shape)


def spread(g: Any, x_shape: tuple[int, ...], dims: tuple[int, ...]) -> Any:
    """A reduction's cotangent, seen once more by every element that was reduced."""
    return as_expanded(kept(g, x_shape, dims), shape=x_shape)


def numpy_names(function: Callable[..., Any]) -> Callable[..., Any]:
    """Let ``axis`` and ``keepdims`` stand for ``dim`` and ``keepdim``, as PyTorch does."""

    @functools.wraps(function)
    def call(*args: Any, **given: Any) -> Any:
        if given:
            for theirs, ours in (("axis", "dim"), ("keepdims", "keepdim")):
                if theirs in given and ours not in given:
                    given[ours] = given.pop(theirs)
        return function(*args, **given)

    return call


# -- layout ------------------------------------------------------------------------------------------


def middle(x: np.ndarray, dims: Sequence[int]) -> tuple[np.ndarray, tuple[int, int, int]]:
    """x as a contiguous array whose ``dims`` are one run of neighbours, and its (outer, n, inner).

    The dimensions that are left keep their order.
    """
    runs = _runs(x.shape, dims)
    if len(runs) > 1:
        rest = [d for d in range(x.ndim) if d not in dims]
        x = x.transpose([*rest, *sorted(dims)])
        runs = [(len(rest), x.ndim)]
    x = contiguous(x)
    return x, _sizes(x.shape, runs[0] if runs else (x.ndim, x.ndim))


def lane(x: np.ndarray, dim: int) -> tuple[np.ndarray, tuple[int, int, int]]:
    """A contiguous array and its (outer, n, inner) about one dimension; a 0-d array is a lane of one."""
    x = contiguous(x)
    return x, _lane_sizes(x.shape, dim)


@lru_cache(8192)
def _lane_sizes(shape: tuple[int, ...], dim: int) -> tuple[int, int, int]:
    return _sizes(shape, (dim, dim + 1)) if shape else (1, 1, 1)


def widened(x: np.ndarray) -> np.ndarray:
    """float16 as float32, everything else as it is: what kernels compute with."""
    return cast(x, np.float32) if x.dtype.char == "e" else x


def _sizes(shape: tuple[int, ...], run: tuple[int, int]) -> tuple[int, int, int]:
    first, last = run
    return math.prod(shape[:first]), math.prod(shape[first:last]), math.prod(shape[last:])


def _runs(shape: tuple[int, ...], dims: Sequence[int]) -> list[tuple[int, int]]:
    """The reduced dimensions as runs of neighbours [first, last); those of size 1 join any."""
    runs: list[tuple[int, int]] = []
    for d in sorted(dims):
        if shape[d] == 1:
            continue
        if runs and all(shape[k] == 1 for k in range(runs[-1][1], d)):
            runs[-1] = (runs[-1][0], d + 1)
        else:
            runs.append((d, d + 1))
    return runs


@lru_cache(8192)
def run_sizes(shape: tuple[int, ...], dims: tuple[int, ...]) -> tuple[tuple[int, int, int], tuple[int, ...]]:
    """(outer, n, inner) about the last run of neighbours among dims, and the dims outside of it."""
    runs = _runs(shape, dims) or [(len(shape), len(shape))]
    first, last = runs.pop()
    return _sizes(shape, (first, last)), tuple(d for a, b in runs for d in range(a, b) if d in dims)


def reduced(
    reduction: Any, x: np.ndarray, dims: Sequence[int], dtype: Any, numbers: tuple[float, ...] = ()
) -> np.ndarray:
    """A reduction of kernels/reduction.py over dims of a non-empty array of numbers, in the shape left."""
    if not x.flags.c_contiguous:
        return _reduced_strided(reduction, x, dims, dtype, numbers)
    left = tuple([n for d, n in enumerate(x.shape) if d not in dims])
    return _staged(reduction, x, dims, dtype, numbers).reshape(left)


def _staged(
    reduction: Any, x: np.ndarray, dims: Sequence[int], dtype: Any, numbers: tuple[float, ...]
) -> np.ndarray:
    """Run by run, the last one first; flat."""
    shape = x.shape
    runs = _runs(shape, dims) or [(x.ndim, x.ndim)]
    while True:
        first, last = run = runs.pop()
        sizes = _sizes(shape, run)
        out = buffers.empty((sizes[0] * sizes[2],), dtype if not runs else reduction.wide(x.dtype.char))
        reduction.run([x], out, sizes, numbers=numbers)
        if not runs:
            return out
        x, shape = out, (*shape[:first], *[1] * (last - first), *shape[last:])
        reduction, numbers = kernels.reduce.PLAIN[reduction.combine], ()


def _reduced_strided(
    reduction: Any, x: np.ndarray, dims: Sequence[int], dtype: Any, numbers: tuple[float, ...]
) -> np.ndarray:
    repeated = [d for d in range(x.ndim) if x.strides[d] == 0 and x.shape[d] > 1]
    if repeated and (x.dtype.kind == "f" or not reduction.folds):
        once = x[tuple([slice(0, 1) if d in repeated else slice(None) for d in range(x.ndim)])]
        result = reduced(reduction, once, dims, np.float64 if reduction.folds else dtype, numbers)
        if reduction.folds:
            times = count_of(x.shape, [d for d in dims if d in repeated])
            scale = kernels.loop.SCALE if reduction.combine == "add" else kernels.loop.RAISE
            scale.run("d", [result], [result], [times], (0,))
            result = cast(result, dtype)
        return duplicate(np.broadcast_to(result, [n for d, n in enumerate(x.shape) if d not in dims]))
    y, inner_dims, restore = in_memory_order(x, dims)
    return restore(reduced(reduction, y, inner_dims, dtype, numbers))


def in_memory_order(
    x: np.ndarray, dims: Sequence[int]
) -> tuple[np.ndarray, tuple[int, ...], Callable[[np.ndarray], np.ndarray]]:
    """A contiguous array of the elements of x, the place of dims in it, and what undoes the order."""
    order = sorted(range(x.ndim), key=lambda d: -abs(x.strides[d]))
    y = x.transpose(order)
    if not y.flags.c_contiguous:
        return contiguous(x), tuple(dims), lambda result: result
    back = np.argsort([d for d in order if d not in dims])
    return (
        y,
        tuple(order.index(d) for d in dims),
        lambda result: contiguous(result.transpose(back)),
    )
