"""Rows picked by an index: the primitives below every kind of advanced indexing.

All of them see a tensor as (lead, d1...dk, rest) and an int64 *index* into the flattened d1...dk,
where k is ``span`` and d1 stands at ``dim``. Indices are checked by the callers. The family is closed: what
:func:`take_rows` reads, :func:`add_rows` puts back, and the other way round.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import kernels
from ..op import kernel_op

_MOVERS = {1: "B", 2: "H", 4: "I", 8: "Q"}  # moving elements needs their width alone
_TILE = 64  # columns that one thread adds up


def _sizes(shape: tuple[int, ...], dim: int, span: int) -> tuple[int, int, int]:
    """Elements before, in and after the indexed dimensions."""
    return math.prod(shape[:dim]), math.prod(shape[dim : dim + span]), math.prod(shape[dim + span :])


def _key(index: np.ndarray, shape: tuple[int, ...], dim: int, span: int) -> tuple[Any, ...]:
    """NumPy's key for a flat index, for arrays that are not contiguous."""
    return (*[slice(None)] * dim, *np.unravel_index(index, shape[dim : dim + span]))


def _rows_shape(shape: tuple[int, ...], index: np.ndarray, dim: int, span: int) -> tuple[int, ...]:
    return (*shape[:dim], *index.shape, *shape[dim + span :])


# -- arrays ------------------------------------------------------------------------------------------


def taken(x: np.ndarray, index: np.ndarray, dim: int, span: int) -> np.ndarray:
    """x[..., index, ...]"""
    shape = _rows_shape(x.shape, index, dim, span)
    if not x.flags.c_contiguous and index.size:
        return np.ascontiguousarray(x[_key(index, x.shape, dim, span)]).reshape(shape)
    out = np.empty(shape, x.dtype)
    if not out.size:
        return out
    index = np.ascontiguousarray(index)
    outer, size, inner = _sizes(x.shape, dim, span)
    n = index.size
    char = _MOVERS[x.itemsize]
    if inner == 1:
        chars = (char, "l", char, "int", "int", "int", "int")
        kernels.launch.run(kernels.index.take_elements, chars, (x, index, out, size, n), outer * n, out.size)
    else:
        chars = (char, "l", char, "int", "int", "int", "int", "int")
        kernels.launch.run(kernels.index.take_rows, chars, (x, index, out, size, n, inner), outer * n, out.size)
    return out


def put(out: np.ndarray, index: np.ndarray, values: np.ndarray, *, dim: int, span: int) -> None:
    """out[..., index, ...] = values, broadcast and converted; the last of equal indices wins"""
    shape = _rows_shape(out.shape, index, dim, span)
    if not math.prod(shape):
        return
    if not out.flags.c_contiguous or values.size == 1:
        values = np.broadcast_to(values, shape)
        out[_key(index, out.shape, dim, span)] = values
        return
    values = np.ascontiguousarray(np.broadcast_to(values, shape), out.dtype)
    outer, size, inner = _sizes(out.shape, dim, span)
    char = _MOVERS[out.itemsize]
    chars = (char, "l", char, *["int"] * 6)
    args = (out, np.ascontiguousarray(index), values, size, index.size, inner, outer)
    kernels.launch.run(kernels.index.put_rows, chars, args, inner, values.size)


def add(out: np.ndarray, index: np.ndarray, values: np.ndarray, *, dim: int, span: int) -> None:
    """out[..., index, ...] += values, broadcast; equal indices add up in order"""
    shape = _rows_shape(out.shape, index, dim, span)
    if not math.prod(shape):
        return
    char = out.dtype.char
    if not out.flags.c_contiguous or char in "e?":
        whole = out.astype("f" if char == "e" else "B" if char == "?" else char, order="C")
        add(whole, index, values, dim=dim, span=span)
        with np.errstate(over="ignore"):
            out[...] = whole
        return
    values = np.ascontiguousarray(np.broadcast_to(values, shape), out.dtype)
    outer, size, inner = _sizes(out.shape, dim, span)
    args = (out, np.ascontiguousarray(index), values, size, index.size, inner, outer, _TILE)
    chars = (char, "l", char, *["int"] * 7)
    kernels.launch.run(kernels.index.add_rows, chars, args, outer * -(-inner // _TILE), values.size)


# -- ops ---------------------------------------------------------------------------------------------


@kernel_op(
    x=lambda g, index, x_shape, dim, span: add_rows(g, index, shape=x_shape, dim=dim, span=span),
    name="index",
    node_name="IndexBackward0",
)
def take_rows(x, index, *, dim, span):
    """x[..., index, ...]: the rows that the index names."""
    return taken(x, index, dim, span)


@kernel_op(g=lambda g, index, dim, span: take_rows(g, index, dim=dim, span=span), name="add_rows")
def add_rows(g, index, *, shape, dim, span):
    """Zeros of a shape, with the rows of ``g`` added where the index says."""
    out = np.zeros(shape, g.dtype)
    add(out, index, g, dim=dim, span=span)
    return out


@kernel_op(
    x=lambda g, index, dim, span: put_rows(g, index, g.new_zeros(()), dim=dim, span=span),
    values=lambda g, index, dim, span: take_rows(g, index, dim=dim, span=span),
    name="index_put",
    node_name="IndexPutBackward0",
)
def put_rows(x, index, values, *, dim, span):
    """x with the indexed rows replaced by ``values`` (broadcast)."""
    out = x.copy(order="C")
    put(out, index, values, dim=dim, span=span)
    return out


@kernel_op(
    x=lambda g: g,
    values=lambda g, index, dim, span: take_rows(g, index, dim=dim, span=span),
    name="index_put",
    node_name="IndexPutBackward0",
)
def put_rows_adding(x, index, values, *, dim, span):
    """x with ``values`` (broadcast) added to the indexed rows."""
    out = x.copy(order="C")
    add(out, index, values, dim=dim, span=span)
    return out


put_rows.update = put
put_rows_adding.update = add
