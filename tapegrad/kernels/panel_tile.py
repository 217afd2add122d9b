"""The innermost pieces of a convolution over panels: a tile that goes through segments, and what lays panels out.

A panel is rows of whole vectors. A segment is a run of rows in two panels that are multiplied row by row; a tile stays
in vector registers over all its segments. Each piece has a twin in plain Python for ``NUMBA_DISABLE_JIT=1``.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from .gemm_tile import HEIGHT, WIDTH, _emit_choice, _Emitter, _transposed
from .jit import PLAIN
from .tile import lanes

_I64 = ir.IntType(64)


def _number(n):
    return ir.Constant(_I64, n)


# -- a tile over segments ----------------------------------------------------------------------------


def _panel_tile_twin(a, a_at, b, b_at, segments, first, count, c, c_at, c_row, d, d_at, given, rows, width):
    lane = lanes(c.itemsize)
    size = width * lane
    total = np.zeros((rows, size), c.dtype)
    if given:
        total += d[d_at : d_at + size]
    for a_from, b_from, n in segments[3 * first : 3 * (first + count)].reshape(-1, 3):
        left = a[a_at + a_from * lane :]
        right = b[b_at + b_from * size :]
        for j in range(n):
            total += left[j * lane : j * lane + rows, None] * right[j * size : (j + 1) * size]
    for r in range(rows):
        c[c_at + r * c_row : c_at + r * c_row + size] = total[r]


def _emit_panel_tile(e, height, width, args):
    a, a_at, b, b_at, segments, first, count, c, c_at, c_row, d, d_at, given, rows, _ = args
    builder = e.builder

    def start(v):
        place = builder.gep(d, [builder.add(d_at, _number(v * e.lanes))])
        with builder.if_else(builder.icmp_signed("!=", given, _number(0))) as (then, otherwise):
            with then:
                found = e.load(place, _number(0))
                there = builder.block
            with otherwise:
                other = builder.block
        phi = builder.phi(e.vector)
        phi.add_incoming(found, there)
        phi.add_incoming(e.zero, other)
        return phi

    def segment(values):
        entry, *sums = values
        a_from, b_from, n = (e.number(segments, builder.add(entry, _number(j))) for j in range(3))
        left = builder.gep(a, [builder.add(a_at, builder.mul(a_from, _number(e.lanes)))])
        right = builder.gep(b, [builder.add(b_at, builder.mul(b_from, _number(width * e.lanes)))])

        def row(inner):
            left, right, *sums = inner
            vectors = [e.load(right, _number(v * e.lanes)) for v in range(width)]
            made = []
            for r in range(height):
                factor = e.spread(e.number(left, _number(r)))
                made += [e.add_product(sums[r * width + v], factor, vectors[v]) for v in range(width)]
            onward = builder.gep(left, [_number(e.lanes)]), builder.gep(right, [_number(width * e.lanes)])
            return [*onward, *made]

        return [builder.add(entry, _number(3)), *e.repeat(n, [left, right, *sums], row)[2:]]

    starts = [start(v) for v in range(width)] * height
    sums = e.repeat(count, [builder.mul(first, _number(3)), *starts], segment)[1:]
    for r in range(height):
        with builder.if_then(builder.icmp_signed("<", _number(r), rows), likely=True):
            at = builder.add(c_at, builder.mul(c_row, _number(r)))
            for v in range(width):
                e.store(sums[r * width + v], c, builder.add(at, _number(v * e.lanes)))


def _panel_tile_code(context, builder, sig, args):
    rows, width = args[-2:]
    e = _Emitter(builder, context.get_value_type(sig.args[0].dtype))
    heights = (HEIGHT, HEIGHT // 2)
    _emit_choice(e, heights, WIDTH, rows, width, lambda height, w: _emit_panel_tile(e, height, w, args))
    return context.get_dummy_value()


def _panel_tile():
    if PLAIN:
        return _panel_tile_twin

    @intrinsic
    def panel_tile(
        typing, a, a_at, b, b_at, segments, first, count, c, c_at, c_row, d, d_at, given, rows, width
    ):
        """A tile of ``rows`` rows and ``width`` vectors of sums over segments, started with ``d`` or zeros:

        c[r, j] = (d[j] if given) + sum over segments s and i < n[s] of a[a_from[s] + i, r] * b[b_from[s] + i, j]

        A row of ``a`` is one vector, of which the tile's rows are a part; a row of ``b`` is ``width`` vectors.
        ``segments`` has three numbers for each: a_from, b_from, n, counted in rows.
        """
        i = types.int64
        return types.void(a, i, b, i, segments, i, i, c, i, i, d, i, i, i, i), _panel_tile_code

    return panel_tile


panel_tile = _panel_tile()


# -- laying out --------------------------------------------------------------------------------------


def _turn_twin(x, at, across, n, k, out, to, step, rows, first):
    lane = lanes(x.itemsize)
    for j in range(k):
        start = to + rows[first + j] * step
        for r in range(lane):
            out[start + r] = x[at + min(r, n - 1) * across + j]


def _turn_code(context, builder, sig, args):
    x, at, across, n, k, out, to, step, rows, first = args
    e = _Emitter(builder, context.get_value_type(sig.args[0].dtype))
    mask = e.below(k)
    lines = [e.load_part(x, builder.add(at, shift), mask) for shift in e.clamped(n, e.lanes, across)]
    for j, line in enumerate(_transposed(e, lines)):
        with builder.if_then(builder.icmp_signed("<", _number(j), k), likely=True):
            row = e.number(rows, builder.add(first, _number(j)))
            e.store(line, out, builder.add(to, builder.mul(row, step)))
    return context.get_dummy_value()


def _turn():
    if PLAIN:
        return _turn_twin

    @intrinsic
    def turn(typing, x, at, across, n, k, out, to, step, rows, first):
        """out[rows[first + j] * step + r] = x[r * across + j] for j < k and r < LANES, both k and n at most LANES

        Lines beyond the first ``n`` repeat the last of them.
        """
        i = types.int64
        return types.void(x, i, i, i, i, out, i, i, rows, i), _turn_code

    return turn


turn = _turn()
