"""Matrix products: C = D + A @ B for stacks of matrices, with any strides of A and B.

C is cut into slivers of HEIGHT rows and blocks of columns. A unit of work is a run of slivers; all of K is summed
in one unit and in one order, so the partition never changes a bit of the result. Large operands are packed
block by block into the caller's scratch memory: a block of B that stays in the second cache, and of A the
sliver at hand; small ones are read where they lie.
"""

from __future__ import annotations

import threading
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from .. import config
from . import launch
from .gemm_tile import HEIGHT, PARTIAL, WIDTH, pack, tile
from .jit import kernel
from .tile import lanes


@kernel
def gemm(a, b, c, d, scratch, table, start, stop):
    """c = a @ b, or c = d + a @ b; ``table`` comes from :func:`plan`, and the range counts its units"""
    m, n, k = table[0], table[1], table[2]
    a_row, a_col, b_row, b_col, c_row, d_row = table[3], table[4], table[5], table[6], table[7], table[8]
    given, inner = table[9], table[10]
    total, count, depth, broad = table[19], table[20], table[21], table[22]
    pack_a, pack_b, region, lane = table[23], table[24], table[25], table[26]
    slivers = (m + HEIGHT - 1) // HEIGHT
    blocks = (n + broad - 1) // broad
    at = total * start // count
    end = total * stop // count
    own = start * region
    b_room = own + pack_a * (HEIGHT * depth + lane * (HEIGHT + lane))
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
        a_base = outer * table[11] + batch * table[12]
        b_base = outer * table[13] + batch * table[14] + left * b_col
        c_base = outer * table[15] + batch * table[16] + left
        d_base = outer * table[17] + batch * table[18] + left
        p = 0
        while True:
            deep = min(depth, k - p)
            b_from, b_at, b_vector, b_line = b, b_base + p * b_row, lane, b_row
            if pack_b:
                for v in range(vectors):
                    pack(
                        b, b_at + v * lane * b_col, b_col, b_row, min(lane, cols - v * lane), deep,
                        scratch, b_room + v * lane * deep, lane,
                    )  # fmt: skip
                b_from, b_at, b_vector, b_line = scratch, b_room, lane * deep, lane
            for s in range(first, until):
                top = s * HEIGHT
                rows = min(HEIGHT, m - top)
                a_from, a_at, a_up, a_on = a, a_base + top * a_row + p * a_col, a_row, a_col
                if pack_a:
                    pack(a, a_at, a_row, a_col, rows, deep, scratch, own, HEIGHT)
                    a_from, a_at, a_up, a_on = scratch, own, 1, HEIGHT
                v = 0
                while v < vectors:
                    tiles = (vectors - v + 2) // 3
                    width = (vectors - v + tiles - 1) // tiles
                    last = lane if v + width < vectors else cols - (vectors - 1) * lane
                    c_at = c_base + top * c_row + v * lane
                    if p:
                        d_from, d_at, d_up, begun = c, c_at, c_row, 1
                    else:
                        d_from, d_at, d_up, begun = d, d_base + top * d_row + v * lane, d_row, given
                    tile(
                        a_from, a_at, a_up, a_on, b_from, b_at + v * b_vector, b_vector, b_line, deep,
                        c, c_at, c_row, d_from, d_at, d_up, begun, rows, width, last,
                    )  # fmt: skip
                    v += width
            p += deep
            if p >= k:
                break


# -- the plan ----------------------------------------------------------------------------------------

# Measured: operands smaller than this, in bytes, are read where they lie if that is possible at all. A block of
# packed B takes half of a usual second cache.
_SMALL = 1 << 21
_BLOCK = 1 << 19
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
    region = depth * HEIGHT + lane * (HEIGHT + lane) if pack_a else 0
    region += depth * broad + lane * lane if pack_b else 0
    table = [
        m, n, k, a_row, a_col, b_row, b_col, c_row, d_row or 0, d_row is not None, batch[1],
        *a_batch, *b_batch, *c_batch, *d_batch,
        total, max(count, 1), depth, broad, pack_a, pack_b, region, lane,
    ]  # fmt: skip
    return Plan(np.array(table, dtype=np.int64), count, region * count)


class _Scratch(threading.local):
    """Memory for packed operands, kept per Python thread: fresh pages would cost more than the packing."""

    def __init__(self) -> None:
        self.room = np.empty(0, np.uint8)

    def take(self, size: int, dtype: np.dtype) -> np.ndarray:
        need = size * dtype.itemsize
        if self.room.size < need:
            self.room = np.empty(need, np.uint8)
        return self.room[:need].view(dtype)


_scratch = _Scratch()


def _pair(x: np.ndarray, shape: tuple[int, int]) -> tuple[int, int]:
    """Strides along two leading dimensions, in elements; 0 where x is repeated."""
    have = (1, 1, *x.shape)[-4:-2]
    strides = (0, 0, *x.strides)[-4:-2]
    return tuple([s // x.itemsize if h > 1 else 0 for s, h in zip(strides, have, strict=True)])


def multiply(a: np.ndarray, b: np.ndarray, out: np.ndarray, d: np.ndarray | None = None) -> None:
    """out = a @ b, or d + a @ b: (..., m, k) and (..., k, n) with at most two leading dimensions, which broadcast.

    float32 or float64, one dtype for all. The last dimension of out and of d (n,), (m, n) or (..., m, n) has to be
    contiguous; out may be d, but overlaps with nothing else.
    """
    m, n = out.shape[-2:]
    k = a.shape[-1]
    item = out.itemsize
    batch = (1, 1, *out.shape)[-4:-2]
    d_row = None
    d_batch = (0, 0)
    if d is not None:
        d_row = d.strides[-2] // item if d.ndim > 1 and d.shape[-2] > 1 else 0
        d_batch = _pair(d, batch) if d.ndim > 2 else (0, 0)
    made = plan(
        m, n, k,
        (a.strides[-2] // item, a.strides[-1] // item), (b.strides[-2] // item, b.strides[-1] // item),
        out.strides[-2] // item, item, d_row,
        batch, _pair(a, batch), _pair(b, batch), _pair(out, batch), d_batch,
    )  # fmt: skip
    args = (a, b, out, out if d is None else d, _scratch.take(made.scratch, out.dtype), made.table)
    launch.start(gemm, args, made.count, m * n * k * batch[0] * batch[1] // 8)
