"""Copies between memory in two orders, by squares that are transposed in vector registers.

Where neighbours in the copy lie far apart in the source, a loop along either of them touches a cache line per element and
has lost the line when it comes to the next element in it. A square uses whole lines on both sides at once. Elements are
copied as whole numbers of their size, since only their bits count.
"""

from __future__ import annotations

import math

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from . import launch
from .gemm_tile import _transposed
from .jit import PLAIN, kernel
from .loop import plan
from .tile import lanes

# Whole numbers by the size of an element.
_WORDS = {1: "B", 2: "H", 4: "I", 8: "L"}
# Rows and columns of a square: with more than 16 vectors its lines would not stay in registers.
SIDES = {size: min(16, max(4, lanes(size))) for size in _WORDS}
# Rows and columns of the blocks that are shared out among threads.
BLOCK = 64


def _square_twin(x, at, across, out, to, step):
    side = SIDES[x.itemsize]
    for r in range(side):
        out[to + r * step : to + r * step + side] = x[at + r : at + r + (side - 1) * across + 1 : across]


class _Vectors:
    """What _transposed asks for: how long vectors are, and where instructions go."""

    def __init__(self, builder, lanes):
        self.builder = builder
        self.lanes = lanes


def _square_code(context, builder, sig, args):
    x, at, across, out, to, step = args
    kind = context.get_value_type(sig.args[0].dtype)
    size = kind.width // 8
    e = _Vectors(builder, SIDES[size])
    pointer = ir.VectorType(kind, e.lanes).as_pointer()

    def place(base, first, stride, j):
        index = builder.add(first, builder.mul(stride, ir.Constant(ir.IntType(64), j)))
        return builder.bitcast(builder.gep(base, [index]), pointer)

    lines = []
    for j in range(e.lanes):
        lines.append(builder.load(place(x, at, across, j)))
        lines[-1].align = size
    for j, line in enumerate(_transposed(e, lines)):
        builder.store(line, place(out, to, step, j)).align = size
    return context.get_dummy_value()


def _square():
    if PLAIN:
        return _square_twin

    @intrinsic
    def square(typing, x, at, across, out, to, step):
        """out[to + r * step + c] = x[at + r + c * across] for r and c below SIDE"""
        i = types.int64
        return types.void(x, i, i, out, i, i), _square_code

    return square


square = _square()


@kernel(writes=("out",))
def transposed(x, out, dims, side, outer, across, step, start, stop):
    """out[o, r, c] = x[o, r, c], neighbours along r in x and along c in out; the range counts blocks of (r, c) in each o

    ``dims`` has the numbers of rows and columns and of blocks of both, then the sizes of o, then strides in x and in out.
    The last square of a row or column is moved back until it fits: some elements are copied twice.
    """
    rows, columns, high, wide = dims[0], dims[1], dims[2], dims[3]
    for block in range(start, stop):
        o = block // (high * wide)
        left = block - o * high * wide
        first_row = (left // wide) * BLOCK
        first_column = (left - left // wide * wide) * BLOCK
        at = 0
        to = 0
        for d in range(outer - 1, -1, -1):
            i = o % dims[4 + d]
            o //= dims[4 + d]
            at += i * dims[4 + outer + d]
            to += i * dims[4 + 2 * outer + d]
        for c in range(first_column, min(first_column + BLOCK, columns), side):
            c = min(c, columns - side)
            for r in range(first_row, min(first_row + BLOCK, rows), side):
                r = min(r, rows - side)
                square(x, at + r + c * across, across, out, to + r * step + c, step)


def copied_by_squares(to: np.ndarray, source: np.ndarray) -> bool:
    """Copy an array to memory in another order, if it is of the kind for which squares are made."""
    if to.itemsize not in _WORDS:
        return False
    made = plan((source, to), (-1,))
    if made.dims is None:
        return False
    shape, near, far = made.dims.reshape(3, -1).tolist()
    # Columns that are repeated or lie backwards are left to the loop, and all other things that lie backwards.
    if 1 not in near or far[-1] != 1 or near[-1] < 2 or min(*near, *far) < 0:
        return False
    row = near.index(1)
    side = SIDES[to.itemsize]
    if shape[row] < side or shape[-1] < side:
        return False
    outer = [d for d in range(len(shape) - 1) if d != row]
    high, wide = -(-shape[row] // BLOCK), -(-shape[-1] // BLOCK)
    dims = [shape[row], shape[-1], high, wide, *[a[d] for a in (shape, near, far) for d in outer]]
    count = math.prod(shape[d] for d in outer) * high * wide
    word = _WORDS[to.itemsize]
    args = (source.view(word), to.view(word), np.array(dims, np.int64), side, len(outer), near[-1], far[row])
    launch.start(transposed, args, count, to.size)
    return True
