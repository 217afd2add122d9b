"""One index per element along a dimension: the primitives below gather and scatter.

The index has as many dimensions as the tensor and is nowhere larger than it, except along the dimension.
It is int64 and in range: the callers check it. What :func:`take_along` reads, :func:`add_along` puts back.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import buffers
from ..kernels.arrays import contiguous, copied, copy, duplicate, zeros
from ..op import kernel_op
from .arithmetic import div, eq, mul, where
from .direct import direct_op
from .rows import mover, run

_TILE = 64


def _cropped(x: np.ndarray, index: np.ndarray, dim: int) -> np.ndarray:
    """The part of x that the index speaks of; all of the dimension itself."""
    if all(n == m for d, (n, m) in enumerate(zip(x.shape, index.shape, strict=True)) if d != dim):
        return x
    return x[tuple(slice(None) if d == dim else slice(n) for d, n in enumerate(index.shape))]


def _blocks(shape: tuple[int, ...], dim: int) -> tuple[int, int]:
    return math.prod(shape[:dim]), math.prod(shape[dim + 1 :])


def taken_along(x: np.ndarray, index: np.ndarray, dim: int) -> np.ndarray:
    """x[i, index[i, j, k], k] for dim 1"""
    out = buffers.empty(index.shape, x.dtype)
    if not out.size:
        return out
    if not x.ndim:
        copy(out, x)
        return out
    x = contiguous(_cropped(x, index, dim))
    index = contiguous(index)
    outer, inner = _blocks(index.shape, dim)
    n = index.shape[dim]
    run("take_along", mover(x), (x, index, out, x.shape[dim], n, inner), outer * n, out.size)
    return out


def _write(out: np.ndarray, index: np.ndarray, values: np.ndarray, dim: int, name: str) -> None:
    """Combine values into out where the index says."""
    if not index.size:
        return
    if not out.ndim:
        _write(out.reshape(1), index.reshape(-1), np.broadcast_to(values, index.shape).reshape(-1), 0, name)
        return
    target = _cropped(out, index, dim)
    char: str = out.dtype.char
    work = "f" if char == "e" else "B" if char == "?" else char
    if name == "put":
        work = char
    whole = target
    if not target.flags.c_contiguous or work != char:
        whole = copied(target, np.dtype(work))
    values = contiguous(np.broadcast_to(values, index.shape), np.dtype(work))
    outer, inner = _blocks(index.shape, dim)
    kind = mover(out) if name == "put" else work
    args = (whole, contiguous(index), values, out.shape[dim], index.shape[dim], inner, _TILE)
    run(f"{name}_along", kind, args, outer * -(-inner // _TILE), index.size)
    if whole is not target:
        copy(target, whole)


def _put(out: np.ndarray, index: np.ndarray, values: np.ndarray, *, dim: int) -> None:
    _write(out, index, values, dim, "put")


def _add(out: np.ndarray, index: np.ndarray, values: np.ndarray, *, dim: int) -> None:
    _write(out, index, values, dim, "add")


# -- ops ---------------------------------------------------------------------------------------------


@direct_op(
    x=lambda g, index, x_shape, dim: add_along(g, index, shape=x_shape, dim=dim),
    name="gather",
    node_name="GatherBackward0",
    native=True,
)
def take_along(x: np.ndarray, index: np.ndarray, *, dim: int) -> np.ndarray:
    """The elements that the index names, one per element of the index."""
    return taken_along(x, index, dim)


@direct_op(g=lambda g, index, dim: take_along(g, index, dim=dim), name="add_along", native=True)
def add_along(g: np.ndarray, index: np.ndarray, *, shape: tuple[int, ...], dim: int) -> np.ndarray:
    """Zeros of a shape, with the elements of ``g`` added where the index says."""
    out = zeros(shape, g.dtype)
    _add(out, index, g, dim=dim)
    return out


@direct_op(x=lambda g, index, dim: clear_along(g, index, dim=dim), name="clear_along", native=True)
def clear_along(x: np.ndarray, index: np.ndarray, *, dim: int) -> np.ndarray:
    """x with zeros where the index says."""
    out = duplicate(x)
    _put(out, index, np.zeros((), x.dtype), dim=dim)
    return out


@direct_op(
    x=lambda g, index, dim: clear_along(g, index, dim=dim),
    values=lambda g, index, dim: take_along(g, index, dim=dim),
    name="scatter",
    node_name="ScatterBackward0",
    native=True,
)
def put_along(x: np.ndarray, index: np.ndarray, values: np.ndarray, *, dim: int) -> np.ndarray:
    """x with ``values`` (broadcast to the index) where the index says; the last one wins."""
    out = duplicate(x)
    _put(out, index, values, dim=dim)
    return out


@direct_op(
    x=lambda g: g,
    values=lambda g, index, dim: take_along(g, index, dim=dim),
    name="scatter_add",
    node_name="ScatterAddBackward0",
    native=True,
)
def put_along_adding(x: np.ndarray, index: np.ndarray, values: np.ndarray, *, dim: int) -> np.ndarray:
    """x with ``values`` (broadcast to the index) added where the index says."""
    out = duplicate(x)
    _add(out, index, values, dim=dim)
    return out


put_along.update = _put
put_along_adding.update = _add


def _extreme_rule(g: Any, x: Any, index: Any, values: Any, out: Any, dim: Any) -> tuple[Any, None, Any]:
    """Equal shares for all that attain the extreme."""
    mine = eq(x, out).to(g.dtype)
    theirs = eq(values, take_along(out, index, dim=dim)).to(g.dtype)
    share = div(g, put_along_adding(mine, index, theirs, dim=dim))
    return mul(mine, share), None, mul(theirs, take_along(share, index, dim=dim))


@kernel_op(all=_extreme_rule, name="scatter_reduce", node_name="ScatterReduceBackward0", native=True)
def extreme_along(
    x: np.ndarray, index: np.ndarray, values: np.ndarray, *, dim: int, largest: bool
) -> np.ndarray:
    """The largest (or smallest) of each element and of the values that the index sends there."""
    out = duplicate(x)
    _write(out, index, values, dim, "max" if largest else "min")
    return out


def _product_rule(g: Any, x: Any, index: Any, values: Any, out: Any, dim: Any) -> tuple[Any, None, Any]:
    """The product of the others, also where factors are zero, and right to the second order there."""
    x_zero, v_zero = eq(x, 0), eq(values, 0)
    count = put_along_adding(
        x_zero.to(g.dtype), index, v_zero.to(g.dtype), dim=dim
    )  # zeros among the factors
    x_safe, v_safe = where(x_zero, 1.0, x), where(v_zero, 1.0, values)
    rest = mul(g, product_along(x_safe, index, v_safe, dim=dim))
    # The factors that are zero, added up: of two, the other one is the sum less this one.
    zeros = put_along_adding(where(x_zero, x, 0.0), index, where(v_zero, values, 0.0), dim=dim)
    one, two = where(eq(count, 1), rest, 0.0), where(eq(count, 2), rest, 0.0)
    v_zeros, v_one, v_two = (take_along(t, index, dim=dim) for t in (zeros, one, two))
    full = mul(g, out)
    gx = where(x_zero, one + two * (zeros - x), div(full, x_safe))
    gv = where(v_zero, v_one + v_two * (v_zeros - values), div(take_along(full, index, dim=dim), v_safe))
    return gx, None, gv


@kernel_op(all=_product_rule, name="scatter_reduce_prod", node_name="ScatterReduceBackward0", native=True)
def product_along(x: np.ndarray, index: np.ndarray, values: np.ndarray, *, dim: int) -> np.ndarray:
    """Each element times the values that the index sends there."""
    out = duplicate(x)
    _write(out, index, values, dim, "multiply")
    return out
