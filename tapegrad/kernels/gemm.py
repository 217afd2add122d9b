"""Matrix products: C = D + A @ B for stacks of matrices, with any strides of A and B.

C is cut into slivers of HEIGHT rows and blocks of columns. A unit of work is a run of slivers; all of K is summed
in one unit and in one order, so the partition never changes a bit of the result. Large operands are packed
block by block into the caller's scratch memory: a block of B that stays in the second cache, and of A the
sliver at hand; small ones are read where they lie.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from .. import buffers, config
from . import launch
from .arrays import copy
from .gemm_tile import HEIGHT, PARTIAL, WIDTH, pack, tile
from .jit import kernel
from .recording import active
from .tile import lanes

# What the table says, in this order: sizes; strides of rows and columns; whether there is a D; the size of the inner
# leading dimension and the strides along the outer and the inner one; the number of tiles of C (a sliver
# by a block) and of units that they are shared out to; length and width of a block of B; what to pack, and the
# scratch for that; elements of a vector.
(
    M, N, K, A_ROW, A_COL, B_ROW, B_COL, C_ROW, D_ROW, GIVEN, INNER, A_OUTER, A_INNER, B_OUTER, B_INNER,
    C_OUTER, C_INNER, D_OUTER, D_INNER, TILES, UNITS, DEPTH, BROAD, PACK_A, PACK_B, REGION, LANES, WORDS,
) = range(28)  # fmt: skip


@kernel(writes=("c", "scratch"))
def gemm(a, b, c, d, scratch, table, start, stop):
    """c = a @ b, or c = d + a @ b; ``table`` comes from :func:`plan`, and the range counts its units"""
    m, n, k = table[M], table[N], table[K]
    a_row, a_col, b_row, b_col = table[A_ROW], table[A_COL], table[B_ROW], table[B_COL]
    c_row, d_row, given, inner = table[C_ROW], table[D_ROW], table[GIVEN], table[INNER]
    depth, broad, pack_a, pack_b = table[DEPTH], table[BROAD], table[PACK_A], table[PACK_B]
    lane = table[LANES]
    slivers = (m + HEIGHT - 1) // HEIGHT
    blocks = (n + broad - 1) // broad
    at = table[TILES] * start // table[UNITS]
    end = table[TILES] * stop // table[UNITS]
    own = start * table[REGION]
    b_room = own + pack_a * ((HEIGHT * depth + lane - 1) // lane + HEIGHT + lane) * lane
    while at < end:
        batch = at // (slivers * blocks)
        block = at // slivers - batch * blocks
        first = at - (batch * blocks + block) * slivers
        until = min(slivers, first + end - at)
        at += until - first
        outer = batch // inner
        batch -= outer * inner
        left = block * broad
        cols = min(broad, n - left)
        vectors = (cols + lane - 1) // lane
        a_base = outer * table[A_OUTER] + batch * table[A_INNER]
        b_base = outer * table[B_OUTER] + batch * table[B_INNER] + left * b_col
        c_base = outer * table[C_OUTER] + batch * table[C_INNER] + left
        d_base = outer * table[D_OUTER] + batch * table[D_INNER] + left
        p = 0
        while True:
            deep = min(depth, k - p)
            b_from, b_at, b_line = b, b_base + p * b_row, b_row
            if pack_b:  # tile by tile, the vectors of a tile side by side
                for v in range(vectors):
                    inside = v % WIDTH
                    step = min(WIDTH, vectors - v + inside) * lane
                    pack(
                        b, b_at + v * lane * b_col, b_col, b_row, min(lane, cols - v * lane), deep,
                        scratch, b_room + (v - inside) * lane * deep + inside * lane, step,
                    )  # fmt: skip
                b_from, b_at = scratch, b_room
            for s in range(first, until):
                top = s * HEIGHT
                rows = min(HEIGHT, m - top)
                a_from, a_at, a_up, a_on = a, a_base + top * a_row + p * a_col, a_row, a_col
                if pack_a:
                    for r in range(0, rows, lane):  # a sliver may be taller than a vector is long
                        most = min(lane, rows - r)
                        pack(a, a_at + r * a_row, a_row, a_col, most, deep, scratch, own + r, HEIGHT)
                    a_from, a_at, a_up, a_on = scratch, own, 1, HEIGHT
                v = 0
                while v < vectors:
                    if pack_b:
                        width = min(WIDTH, vectors - v)
                        right, b_line = b_at + v * lane * deep, width * lane
                    else:
                        tiles = (vectors - v + WIDTH - 1) // WIDTH
                        width = (vectors - v + tiles - 1) // tiles
                        right = b_at + v * lane
                    last = lane if v + width < vectors else cols - (vectors - 1) * lane
                    c_at = c_base + top * c_row + v * lane
                    if p:
                        d_from, d_at, d_up, begun = c, c_at, c_row, 1
                    else:
                        d_from, d_at, d_up, begun = d, d_base + top * d_row + v * lane, d_row, given
                    tile(
                        a_from, a_at, a_up, a_on, b_from, right, lane, b_line, deep,
                        c, c_at, c_row, d_from, d_at, d_up, begun, rows, width, last,
                    )  # fmt: skip
                    v += width
            p += deep
            if p >= k:
                break


# -- the plan ----------------------------------------------------------------------------------------

# Measured: operands smaller than this, in bytes, are read where they lie if that is possible at all. A block of
# packed B stays in the second cache, or nearly so.
_SMALL = 1 << 21
_BLOCK = 3 << 18
_DEPTH = 256
_UNITS = 16


class Plan(NamedTuple):
    """What :data:`gemm` needs besides its arrays: a table, the number of units, and elements of scratch."""

    table: np.ndarray
    count: int
    scratch: int


def _even(size: int, most: int, step: int) -> int:
    """The length of equal pieces of at most ``most``, in whole steps."""
    pieces = -(-size // most)
    return -(-size // (pieces * step)) * step if pieces else step


@lru_cache(maxsize=4096)
def plan(
    m: int,
    n: int,
    k: int,
    a: tuple[int, int],
    b: tuple[int, int],
    c_row: int,
    itemsize: int,
    d_row: int | None = None,
    batch: tuple[int, int] = (1, 1),
    a_batch: tuple[int, int] = (0, 0),
    b_batch: tuple[int, int] = (0, 0),
    c_batch: tuple[int, int] = (0, 0),
    d_batch: tuple[int, int] = (0, 0),
) -> Plan:
    """How to compute C (m, n) = [D +] A (m, k) @ B (k, n).

    ``a`` and ``b`` are strides of rows and columns in elements, of any value; columns of C and D are neighbours,
    ``c_row`` and ``d_row`` apart from row to row (0: one row for all), ``d_row`` None without D. ``batch``
    are the sizes of two leading dimensions and the other pairs the strides along them. The order in which an element
    of C is summed depends on k and ``itemsize`` alone.
    """
    lane = lanes(itemsize)
    (a_row, a_col), (b_row, b_col) = a, b
    if n == 1:
        b_col = 1
    slivers = -(-m // HEIGHT)
    vectors = -(-n // lane)
    batches = batch[0] * batch[1]
    pack_b = b_col != 1 or (not PARTIAL and n % lane != 0) or (k * n * itemsize > _SMALL and slivers > 8)
    pack_a = m * k * itemsize > _SMALL and vectors > 8 * WIDTH
    depth = _even(k, _DEPTH, 1) if pack_a or pack_b else k
    broad = _BLOCK // (depth * itemsize) if pack_b and depth else vectors * lane
    if m * n * k > config.grain and slivers * batches < _UNITS:
        broad = min(broad, n * slivers * batches // _UNITS)
    broad = _even(n, max(broad, WIDTH * lane), WIDTH * lane if vectors > WIDTH else lane)
    total = batches * slivers * (-(-n // broad))
    count = min(total, max(_UNITS, config.threads)) if pack_a or pack_b else total
    # Packing writes whole squares of vectors beyond the end of a piece.
    region = (-(-depth * HEIGHT // lane) + HEIGHT + lane) * lane if pack_a else 0
    region += depth * broad + WIDTH * lane * lane if pack_b else 0
    table = [
        m, n, k, a_row, a_col, b_row, b_col, c_row, d_row or 0, d_row is not None, batch[1],
        *a_batch, *b_batch, *c_batch, *d_batch,
        total, max(count, 1), depth, broad, pack_a, pack_b, region, lane,
    ]  # fmt: skip
    return Plan(np.array(table, dtype=np.int64), count, region * count)


class _Scratch(threading.local):
    """Memory for packed operands, kept per Python thread: fresh pages would cost more than the packing."""

    def __init__(self) -> None:
        self.f, self.d = np.empty(0, np.float32), np.empty(0, np.float64)


_scratch = _Scratch()


def scratch(size: int, char: str) -> np.ndarray:
    """At least ``size`` elements that the calling thread may use until its next product."""
    room: np.ndarray = getattr(_scratch, char)
    if room.size < size:
        room = buffers.aligned(size, char)
        setattr(_scratch, char, room)
    return room


# -- on arrays ---------------------------------------------------------------------------------------

# Multiply-adds that count as one element for the launcher: below some hundred microseconds one thread is enough.
_PER_ELEMENT = 64


def _stacks(a: np.ndarray, b: np.ndarray, lead: tuple[int, ...]) -> list[tuple[int, int, int, int]]:
    """Leading dimensions as (size, stride in a, in b, in a contiguous result of matrices); as few as possible."""
    item = a.itemsize
    step = a.shape[-2] * b.shape[-1]
    found: list[tuple[int, int, int, int]] = []
    for back in range(-1, -1 - len(lead), -1):
        size = lead[back]
        if size == 1:
            continue
        over = [
            x.strides[back - 2] // item if x.ndim >= 2 - back and x.shape[back - 2] > 1 else 0 for x in (a, b)
        ]
        if found and all(s == t * found[0][0] for s, t in zip(over, found[0][1:3], strict=True)):
            found[0] = (found[0][0] * size, *found[0][1:])
        else:
            found.insert(0, (size, *over, step))
        step *= size
    return found


class _Call(NamedTuple):
    """A product of arrays with known sizes and strides."""

    shape: tuple[int, ...]
    plan: Plan | None  # None: more leading dimensions than a kernel goes through
    work: int
    empty: Callable[[tuple[int, ...], Any], np.ndarray]  # what makes its result


def _prepare(a: np.ndarray, b: np.ndarray, row: bool) -> _Call:
    lead = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    m, n, k = a.shape[-2], b.shape[-1], a.shape[-1]
    shape = (*lead, m, n)
    stacks = _stacks(a, b, lead)
    if len(stacks) > 2:
        return _Call(shape, None, 0, buffers.empty)
    item = a.itemsize
    empty = np.empty if math.prod(shape) * item < buffers.LARGE else buffers.empty
    stacks = [(1, 0, 0, 0)] * (2 - len(stacks)) + stacks
    sizes, over_a, over_b, over_c = zip(*stacks, strict=True)
    made = plan(
        m, n, k,
        (a.strides[-2] // item, a.strides[-1] // item), (b.strides[-2] // item, b.strides[-1] // item),
        n, item, 0 if row else None, sizes, over_a, over_b, over_c,
    )  # fmt: skip
    return _Call(shape, made, m * n * k * sizes[0] * sizes[1] // _PER_ELEMENT, empty)


_calls: dict[tuple[Any, ...], _Call] = {}
_entries: dict[str, Any] = {}


def product(a: np.ndarray, b: np.ndarray, row: np.ndarray | None = None) -> np.ndarray:
    """a @ b, or row + a @ b: (..., m, k) and (..., k, n) whose leading dimensions broadcast; float32 or float64."""
    dtype = a.dtype
    char = dtype.char
    key = (a.shape, b.shape, a.strides, b.strides, char, row is None)
    call = _calls.get(key)
    if call is None:
        if len(_calls) > 4096:
            _calls.clear()
        call = _calls[key] = _prepare(a, b, row is not None)
    shape, found, work, empty = call
    out = empty(shape, dtype)
    if found is None:
        lead = shape[:-2]
        a, b = (np.broadcast_to(x, (*lead, *x.shape[-2:])) for x in (a, b))
        for at in np.ndindex(lead[:-2]):
            copy(out[at], product(a[at], b[at], row))
        return out
    table, count, room = found
    own = out if not room else scratch(room, char) if not active else np.empty(room, dtype)
    args = (a, b, out, out if row is None else row, own, table)
    if work >= config.grain or active:
        launch.start(gemm, args, count, work)
    elif count:
        entry = _entries.get(char)
        if entry is None:
            entry = _entries[char] = gemm.entry((*(char,) * 5, "l", "int", "int"))
        entry(*args, 0, count)
    return out
