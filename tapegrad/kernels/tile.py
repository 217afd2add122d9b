"""Two tiles of a matrix product that stay in vector registers while they grow.

numba's loops are vectorised by LLVM, which never keeps a whole tile of sums in registers; so the two inner
loops of a convolution are written down as vector instructions. Their operands are read where they lie: a
vector is any run of LANES neighbouring elements, its place comes from a table.

Each tile has a twin in plain Python for ``NUMBA_DISABLE_JIT=1``.
"""

from __future__ import annotations

import llvmlite.binding
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from .jit import PLAIN

FEATURES = llvmlite.binding.get_host_cpu_features()
_BYTES = 64 if FEATURES.get("avx512f") else 32 if FEATURES.get("avx") else 16
# 32 vector registers hold larger tiles than 16 do.
MANY = bool(FEATURES.get("avx512f") or FEATURES.get("neon"))
# Tiles of a product: rows, and how many vectors wide.
PRODUCTS = {1: 8, 2: 8, 4: 4, 8: 2} if MANY else {1: 8, 2: 4, 3: 4, 6: 2}
# Tiles of sums over whole lines: rows, and columns.
GRAMS = {1: 9, 2: 9, 4: 6} if MANY else {1: 9, 2: 4}


def fitting(rows: int, tiles: dict[int, int]) -> int:
    """The tile for so many rows: the smallest that holds them, or the largest there is."""
    return min((r for r in tiles if r >= rows), default=max(tiles))


def lanes(itemsize: int) -> int:
    """Elements of a vector."""
    return _BYTES // itemsize


# -- what both are made of ---------------------------------------------------------------------------


class Emitter:
    """Vector instructions over one element type."""

    def __init__(self, builder, kind):
        self.builder = builder
        self.kind = kind
        self.lanes = _BYTES // (4 if isinstance(kind, ir.FloatType) else 8)
        self.vector = ir.VectorType(kind, self.lanes)
        self.zero = ir.Constant(self.vector, None)

    def number(self, pointer, index):
        return self.builder.load(self.builder.gep(pointer, [index]))

    def spread(self, number):
        """A number in all lanes."""
        b = self.builder
        one = b.insert_element(ir.Constant(self.vector, ir.Undefined), number, ir.Constant(ir.IntType(32), 0))
        mask = ir.Constant(ir.VectorType(ir.IntType(32), self.lanes), None)
        return b.shuffle_vector(one, ir.Constant(self.vector, ir.Undefined), mask)

    def place(self, pointer, index):
        return self.builder.bitcast(self.builder.gep(pointer, [index]), self.vector.as_pointer())

    def load(self, pointer, index):
        made = self.builder.load(self.place(pointer, index))
        made.align = self.kind_bytes
        return made

    @property
    def kind_bytes(self):
        return _BYTES // self.lanes

    def store(self, value, pointer, index):
        self.builder.store(value, self.place(pointer, index)).align = self.kind_bytes

    def store_part(self, value, pointer, index, mask):
        name = f"llvm.masked.store.v{self.lanes}f{8 * self.kind_bytes}.p0"
        place = self.place(pointer, index)
        kinds = [self.vector, place.type, ir.IntType(32), mask.type]
        fn = cgutils.get_or_insert_function(self.builder.module, ir.FunctionType(ir.VoidType(), kinds), name)
        self.builder.call(fn, [value, place, ir.Constant(ir.IntType(32), self.kind_bytes), mask])

    def between(self, low, high):
        """A mask of the lanes from low to high."""
        i64 = ir.IntType(64)
        numbers = ir.VectorType(i64, self.lanes)
        ramp = ir.Constant(numbers, [ir.Constant(i64, j) for j in range(self.lanes)])
        first, zero = (
            ir.Constant(ir.IntType(32), 0),
            ir.Constant(ir.VectorType(ir.IntType(32), self.lanes), None),
        )
        nothing = ir.Constant(numbers, ir.Undefined)
        low, high = (
            self.builder.shuffle_vector(self.builder.insert_element(nothing, n, first), nothing, zero)
            for n in (low, high)
        )
        above = self.builder.icmp_signed(">=", ramp, low)
        return self.builder.and_(above, self.builder.icmp_signed("<", ramp, high))

    def add_product(self, total, a, b):
        """total + a * b, one instruction where the machine has it."""
        product = self.builder.fmul(a, b, flags=("contract",))
        return self.builder.fadd(total, product, flags=("contract",))

    def at_least(self, value, least):
        """Where a lane is below ``least``, that; NaN and -0.0 stay, and everything if it is -inf."""
        return self.builder.select(self.builder.fcmp_ordered("<", value, least), least, value)

    def spread_float64(self, number):
        """A float64 in all lanes, rounded to their type."""
        if not isinstance(self.kind, ir.DoubleType):
            number = self.builder.fptrunc(number, self.kind)
        return self.spread(number)

    def total(self, value):
        """The sum over lanes."""
        name = f"llvm.vector.reduce.fadd.v{self.lanes}f{8 * self.kind_bytes}"
        kind = ir.FunctionType(self.kind, [self.kind, self.vector])
        fn = cgutils.get_or_insert_function(self.builder.module, kind, name)
        return self.builder.call(fn, [ir.Constant(self.kind, 0.0), value], fastmath=("reassoc",))

    def loop(self, count, starts, step):
        """``step(i, values) -> values`` for i below count (at least once); the values after it."""
        b = self.builder
        before = b.block
        body, after = b.append_basic_block("tile"), b.append_basic_block("tile.end")
        b.branch(body)
        b.position_at_end(body)
        i64 = ir.IntType(64)
        i = b.phi(i64)
        i.add_incoming(ir.Constant(i64, 0), before)
        phis = []
        for start in starts:
            phi = b.phi(start.type)
            phi.add_incoming(start, before)
            phis.append(phi)
        values = step(i, phis)
        following = b.add(i, ir.Constant(i64, 1))
        i.add_incoming(following, b.block)
        for phi, value in zip(phis, values, strict=True):
            phi.add_incoming(value, b.block)
        b.cbranch(b.icmp_signed("<", following, count), body, after)
        b.position_at_end(after)
        return values


# -- a tile of a product -----------------------------------------------------------------------------


def _product_twin(height, width):
    def product(w, w_at, bias, bias_at, x, x_at, table, n, out, at, step, rows, runs, run, parts, least):
        lane = lanes(out.itemsize)
        for r in range(rows):
            for place, first, last in runs[3 * run : 3 * (run + width)].reshape(-1, 3):
                total = np.full(lane, bias[bias_at + r])
                for k in range(n if first < last else 0):
                    found = x[x_at + place + table[k] : x_at + place + table[k] + lane]
                    total[: len(found)] += w[w_at + k * height + r] * found
                total[total < least] = least
                for low, high, to in parts[3 * first : 3 * last].reshape(-1, 3):
                    start = at + r * step + to
                    out[start + low : start + high] = total[low:high]

    return product


def _product_code(height, width):
    i64 = ir.IntType(64)

    def number(n):
        return ir.Constant(i64, n)

    def emit(context, builder, sig, args):
        w, w_at, bias, bias_at, x, x_at, table, n, out, at, step, rows, runs, run, parts, least = args
        e = Emitter(builder, context.get_value_type(sig.args[4].dtype))
        entry = builder.mul(run, number(3))
        given = [e.number(runs, builder.add(entry, number(j))) for j in range(3 * width)]
        places = [builder.add(x_at, given[3 * v]) for v in range(width)]
        starts = []
        for r in range(height):
            starts += [e.spread(e.number(bias, builder.add(bias_at, number(r))))] * width

        def step_over(k, sums):
            shift = e.number(table, k)
            vectors = [e.load(x, builder.add(place, shift)) for place in places]
            column = builder.add(w_at, builder.mul(k, number(height)))
            made = []
            for r in range(height):
                a = e.spread(e.number(w, builder.add(column, number(r))))
                made += [e.add_product(sums[r * width + v], a, vectors[v]) for v in range(width)]
            return made

        sums = e.loop(n, starts, step_over)
        least = e.spread_float64(least)
        sums = [e.at_least(s, least) for s in sums]
        for v in range(width):
            with cgutils.for_range_slice(builder, given[3 * v + 1], given[3 * v + 2], number(1)) as (part, _):
                entry = builder.mul(part, number(3))
                low, high, to = (e.number(parts, builder.add(entry, number(j))) for j in range(3))
                mask = e.between(low, high)
                whole = builder.icmp_signed("==", builder.sub(high, low), number(e.lanes))
                to = builder.add(to, at)
                for r in range(height):
                    place = builder.add(to, builder.mul(step, number(r)))
                    there = builder.icmp_signed("<", number(r), rows)
                    with builder.if_then(there, likely=True), builder.if_else(whole) as (then, otherwise):
                        with then:
                            e.store(sums[r * width + v], out, place)
                        with otherwise:
                            e.store_part(sums[r * width + v], out, place, mask)
        return context.get_dummy_value()

    return emit


def product(height, width):
    """A tile of ``height`` rows and ``width`` vectors:

    out[at + r * step + lane] = max(bias[r] + sum over k of w[k, r] * x[place + table[k] + lane], least)

    ``rows`` rows are stored. ``runs`` has three numbers per vector: its place in x, and from which to which of
    the ``parts`` are stored; a part has three: from which lane, up to which, and by how much more to shift it.
    """
    if PLAIN:
        return _product_twin(height, width)
    code = _product_code(height, width)

    @intrinsic
    def tile(typing, w, w_at, bias, bias_at, x, x_at, table, n, out, at, step, rows, runs, run, parts, least):
        i = types.int64
        return types.void(w, i, bias, i, x, i, table, i, out, i, i, i, runs, i, parts, types.float64), code

    return tile


# -- a tile of sums over whole lines -----------------------------------------------------------------


def _gram_twin(height, width):
    def gram(g, g_at, g_step, x, x_at, table, table_at, lines, first, n, out, at, step):
        lane = lanes(g.itemsize)
        for a in range(height):
            for b in range(width):
                shift = x_at + table[table_at + b]
                for k in range(n):
                    left = g[g_at + a * g_step + k * lane : g_at + a * g_step + (k + 1) * lane]
                    right = x[shift + lines[first + k] : shift + lines[first + k] + lane]
                    out[at + a * step + b] += (left[: len(right)] * right).sum()

    return gram


def _gram_code(height, width):
    i64 = ir.IntType(64)

    def number(n):
        return ir.Constant(i64, n)

    def emit(context, builder, sig, args):
        g, g_at, g_step, x, x_at, table, table_at, lines, first, n, out, at, step = args
        kind = context.get_value_type(sig.args[0].dtype)
        e = Emitter(builder, kind)
        shifts = [builder.add(x_at, e.number(table, builder.add(table_at, number(b)))) for b in range(width)]
        tops = [builder.add(g_at, builder.mul(g_step, number(a))) for a in range(height)]

        def step_over(k, sums):
            across = builder.mul(k, number(e.lanes))
            line = e.number(lines, builder.add(first, k))
            left = [e.load(g, builder.add(top, across)) for top in tops]
            right = [e.load(x, builder.add(shift, line)) for shift in shifts]
            return [
                e.add_product(sums[a * width + b], left[a], right[b])
                for a in range(height)
                for b in range(width)
            ]

        sums = e.loop(n, [e.zero] * (height * width), step_over)
        for a in range(height):
            for b in range(width):
                place = builder.add(builder.add(at, builder.mul(step, number(a))), number(b))
                pointer = builder.gep(out, [place])
                total = e.total(sums[a * width + b])
                if not isinstance(kind, ir.DoubleType):
                    total = builder.fpext(total, ir.DoubleType())
                builder.store(builder.fadd(builder.load(pointer), total), pointer)
        return context.get_dummy_value()

    return emit


def gram(height, width):
    """A tile of ``height`` by ``width`` sums, added to ``out`` in float64:

    out[a * step + b] += sum over k, lanes of g[a * g_step + k * LANES + lane] * x[table[b] + lines[first + k] + lane]
    """
    if PLAIN:
        return _gram_twin(height, width)
    code = _gram_code(height, width)

    @intrinsic
    def tile(typing, g, g_at, g_step, x, x_at, table, table_at, lines, first, n, out, at, step):
        i = types.int64
        return types.void(g, i, i, x, i, table, i, lines, i, i, out, i, i), code

    return tile
