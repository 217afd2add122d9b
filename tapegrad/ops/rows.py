"""Rows picked by an index: the primitives below every kind of advanced indexing.

All of them see a tensor as (lead, d1...dk, rest) and an int64 *index* into the flattened d1...dk,
where k is ``span`` and d1 stands at ``dim``. Indices are checked by the callers. The family is closed:
what :func:`take_rows` reads, :func:`add_rows` puts back, and the other way round.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from .. import buffers, config, kernels
from ..kernels.arrays import cast, contiguous, copied, copy, duplicate, zeros
from ..kernels.recording import active, now, refuse
from .direct import direct_op

_TILE = 64  # columns that one thread adds up
_MOVERS = {1: "B", 2: "H", 4: "I", 8: "Q"}  # moving elements needs their width alone
_entries: dict[tuple[str, str], Any] = {}
# What the kernels take besides: the types of their arrays ("x" stands for the element) and how many numbers.
_SIGNATURES = {
    "take_elements": ("xlx", 4),
    "take_rows": ("xlx", 5),
    "take_along": ("xlx", 5),
    "put_rows": ("xlx", 6),
    "fill_rows": ("xlx", 6),
    "add_rows": ("xlx", 7),
    "put_along": ("xlx", 6),
    "add_along": ("xlx", 6),
    "multiply_along": ("xlx", 6),
    "lower_triangle": ("xx", 5),
    "upper_triangle": ("xx", 5),
    "fill_where": ("xBx", 2),
    "places": ("Bl", 3),
    "max_along": ("xlx", 6),
    "min_along": ("xlx", 6),
}


def run(name: str, char: str, args: tuple[Any, ...], count: int, work: int) -> None:
    """Run a kernel of kernels/index.py for one element type, on several threads if ``work`` is worth it."""
    if work < config.grain and not active:
        entry = _entries.get((name, char))
        if entry is None:
            entry = _entries[name, char] = getattr(kernels.index, name).entry(_chars(name, char))
        entry(*args, 0, count)
    else:
        kernels.launch.run(getattr(kernels.index, name), _chars(name, char), args, count, work)


def _chars(name: str, char: str) -> tuple[str, ...]:
    arrays, numbers = _SIGNATURES[name]
    return (*[char if a == "x" else a for a in arrays], *["int"] * numbers)


def mover(array: np.ndarray) -> str:
    """The type under which elements of an array are moved."""
    return _MOVERS[array.itemsize]


def _key(index: np.ndarray, shape: tuple[int, ...], dim: int, span: int) -> tuple[Any, ...]:
    """NumPy's key for a flat index, for arrays that are not contiguous."""
    return (*[slice(None)] * dim, *np.unravel_index(index, shape[dim : dim + span]))


# -- arrays ------------------------------------------------------------------------------------------


def taken(x: np.ndarray, index: np.ndarray, dim: int, span: int) -> np.ndarray:
    """x[..., index, ...]"""
    have = x.shape
    lead, rest = have[:dim], have[dim + span :]
    shape = (*lead, *index.shape, *rest)
    if not x.flags.c_contiguous and index.size and now() is None:
        return np.ascontiguousarray(x[_key(index, have, dim, span)]).reshape(shape)
    out = buffers.empty(shape, x.dtype)
    work = out.size
    if not work:
        return out
    if not x.flags.c_contiguous:
        x = contiguous(x)
    if not index.flags.c_contiguous:
        index = contiguous(index)
    n = index.size
    outer, size, inner = prod(lead), prod(have[dim : dim + span]), prod(rest)
    if inner == 1:
        run("take_elements", _MOVERS[x.itemsize], (x, index, out, size, n), outer * n, work)
    else:
        run("take_rows", _MOVERS[x.itemsize], (x, index, out, size, n, inner), outer * n, work)
    return out


def put(out: np.ndarray, index: np.ndarray, values: np.ndarray, *, dim: int, span: int) -> None:
    """out[..., index, ...] = values, broadcast and converted; the last of equal indices wins"""
    have = out.shape
    shape = (*have[:dim], *index.shape, *have[dim + span :])
    work = prod(shape)
    if not work:
        return
    if not out.flags.c_contiguous:
        if now() is None:
            out[_key(index, have, dim, span)] = np.broadcast_to(values, shape)
        else:
            whole = duplicate(out)
            put(whole, index, values, dim=dim, span=span)
            copy(out, whole)
        return
    name = "put_rows"
    if values.size == 1:
        name, values = "fill_rows", contiguous(values, out.dtype)
    else:
        values = contiguous(np.broadcast_to(values, shape), out.dtype)
    outer, size, inner = prod(have[:dim]), prod(have[dim : dim + span]), prod(have[dim + span :])
    args = (out, contiguous(index), values, size, index.size, inner, outer)
    run(name, _MOVERS[out.itemsize], args, inner, work)


def add(out: np.ndarray, index: np.ndarray, values: np.ndarray, *, dim: int, span: int) -> None:
    """out[..., index, ...] += values, broadcast; equal indices add up in order"""
    have = out.shape
    shape = (*have[:dim], *index.shape, *have[dim + span :])
    work = prod(shape)
    if not work:
        return
    char = out.dtype.char
    if not out.flags.c_contiguous or char in "e?":
        whole = copied(out, np.dtype("f" if char == "e" else "B" if char == "?" else char))
        add(whole, index, values, dim=dim, span=span)
        copy(out, whole)
        return
    values = contiguous(np.broadcast_to(values, shape), out.dtype)
    outer, size, inner = prod(have[:dim]), prod(have[dim : dim + span]), prod(have[dim + span :])
    args = (out, contiguous(index), values, size, index.size, inner, outer, _TILE)
    run("add_rows", char, args, outer * -(-inner // _TILE), work)


def places(mask: np.ndarray) -> np.ndarray:
    """The numbers of the true elements of a mask, in order."""
    refuse("an operation whose result's shape depends on a mask")
    found = np.empty(np.count_nonzero(mask) + 1, np.int64)
    if mask.size:
        run("places", "B", (np.ascontiguousarray(mask), found, mask.size), 1, 0)
    return found[:-1]


def fill_where(out: np.ndarray, mask: np.ndarray, value: np.ndarray) -> None:
    """out = value where a mask of the same shape holds"""
    if out.flags.c_contiguous:
        args = (out, contiguous(mask), cast(value, out.dtype))
        run("fill_where", mover(out), args, out.size, out.size)
    elif now() is not None:
        whole = duplicate(out)
        fill_where(whole, mask, value)
        copy(out, whole)
    else:
        np.copyto(out, value, where=mask, casting="unsafe")


# -- ops ---------------------------------------------------------------------------------------------


@direct_op(
    x=lambda g, index, x_shape, dim, span: add_rows(g, index, shape=x_shape, dim=dim, span=span),
    name="index",
    node_name="IndexBackward0",
    native=True,
)
def take_rows(x: np.ndarray, index: np.ndarray, *, dim: int, span: int) -> np.ndarray:
    """x[..., index, ...]: the rows that the index names."""
    return taken(x, index, dim, span)


@direct_op(
    g=lambda g, index, dim, span: take_rows(g, index, dim=dim, span=span), name="add_rows", native=True
)
def add_rows(g: np.ndarray, index: np.ndarray, *, shape: tuple[int, ...], dim: int, span: int) -> np.ndarray:
    """Zeros of a shape, with the rows of ``g`` added where the index says."""
    out = zeros(shape, g.dtype)
    add(out, index, g, dim=dim, span=span)
    return out


@direct_op(
    x=lambda g, index, dim, span: clear_rows(g, index, dim=dim, span=span), name="clear_rows", native=True
)
def clear_rows(x: np.ndarray, index: np.ndarray, *, dim: int, span: int) -> np.ndarray:
    """x with zeros in the indexed rows."""
    out = duplicate(x)
    put(out, index, np.zeros((), x.dtype), dim=dim, span=span)
    return out


@direct_op(
    x=lambda g, index, dim, span: clear_rows(g, index, dim=dim, span=span),
    values=lambda g, index, dim, span: take_rows(g, index, dim=dim, span=span),
    name="index_put",
    node_name="IndexPutBackward0",
    native=True,
)
def put_rows(x: np.ndarray, index: np.ndarray, values: np.ndarray, *, dim: int, span: int) -> np.ndarray:
    """x with the indexed rows replaced by ``values`` (broadcast)."""
    out = duplicate(x)
    put(out, index, values, dim=dim, span=span)
    return out


@direct_op(
    x=lambda g: g,
    values=lambda g, index, dim, span: take_rows(g, index, dim=dim, span=span),
    name="index_put_accumulate",
    node_name="IndexPutBackward0",
    native=True,
)
def put_rows_adding(
    x: np.ndarray, index: np.ndarray, values: np.ndarray, *, dim: int, span: int
) -> np.ndarray:
    """x with ``values`` (broadcast) added to the indexed rows."""
    out = duplicate(x)
    add(out, index, values, dim=dim, span=span)
    return out


put_rows.update = put
put_rows_adding.update = add
