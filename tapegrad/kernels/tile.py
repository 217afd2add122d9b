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

_FEATURES = llvmlite.binding.get_host_cpu_features()
_BYTES = 64 if _FEATURES.get("avx512f") else 32 if _FEATURES.get("avx") else 16
# 32 vector registers hold larger tiles than 16 do.
_MANY = bool(_FEATURES.get("avx512f") or _FEATURES.get("neon"))
ROWS = 8 if _MANY else 6  # of a tile of a product; it is two vectors wide
TALL, BROAD = (4, 6) if _MANY else (2, 4)  # a tile of sums over whole lines


def lanes(itemsize: int) -> int:
    """Elements of a vector."""
    return _BYTES // itemsize


# -- what both are made of ---------------------------------------------------------------------------


class _Emitter:
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


def _product_twin(w, w_at, bias, bias_at, x, x0, x1, table, n, out, at, step, rows, parts, p0, p1, p2, p3):
    lane = lanes(out.itemsize)
    for r in range(rows):
        for place, first, last in ((x0, p0, p1), (x1, p2, p3)):
            total = np.full(lane, bias[bias_at + r])
            for k in range(n if first < last else 0):
                run = x[place + table[k] : place + table[k] + lane]
                total[: len(run)] += w[w_at + k * ROWS + r] * run
            for p in range(first, last):
                low, high, to = parts[3 * p : 3 * p + 3]
                out[at + r * step + to + low : at + r * step + to + high] = total[low:high]


def _product_code(context, builder, sig, args):
    w, w_at, bias, bias_at, x, x0, x1, table, n, out, at, step, rows, parts, p0, p1, p2, p3 = args
    kind = context.get_value_type(sig.args[4].dtype)
    e = _Emitter(builder, kind)
    i64 = ir.IntType(64)
    starts = []
    for r in range(ROWS):
        one = e.spread(e.number(bias, builder.add(bias_at, ir.Constant(i64, r))))
        starts += [one, one]

    def step_over(k, sums):
        shift = e.number(table, k)
        left, right = e.load(x, builder.add(x0, shift)), e.load(x, builder.add(x1, shift))
        column = builder.add(w_at, builder.mul(k, ir.Constant(i64, ROWS)))
        made = []
        for r in range(ROWS):
            a = e.spread(e.number(w, builder.add(column, ir.Constant(i64, r))))
            made += [e.add_product(sums[2 * r], a, left), e.add_product(sums[2 * r + 1], a, right)]
        return made

    sums = e.loop(n, starts, step_over)
    for side, (first, last) in enumerate(((p0, p1), (p2, p3))):
        with cgutils.for_range_slice(builder, first, last, ir.Constant(i64, 1)) as (part, _):
            entry = builder.mul(part, ir.Constant(i64, 3))
            low, high, to = (e.number(parts, builder.add(entry, ir.Constant(i64, j))) for j in range(3))
            mask = e.between(low, high)
            whole = builder.icmp_signed("==", builder.sub(high, low), ir.Constant(i64, e.lanes))
            to = builder.add(to, at)
            for r in range(ROWS):
                value, place = sums[2 * r + side], builder.add(to, builder.mul(step, ir.Constant(i64, r)))
                there = builder.icmp_signed("<", ir.Constant(i64, r), rows)
                with builder.if_then(there, likely=True), builder.if_else(whole) as (then, otherwise):
                    with then:
                        e.store(value, out, place)
                    with otherwise:
                        e.store_part(value, out, place, mask)
    return context.get_dummy_value()


@intrinsic
def _product(typing, w, w_at, bias, bias_at, x, x0, x1, table, n, out, at, step, rows, parts, p0, p1, p2, p3):
    i = types.int64
    return types.void(w, i, bias, i, x, i, i, table, i, out, i, i, i, parts, i, i, i, i), _product_code


product = _product_twin if PLAIN else _product
"""out[at + r * step + lane] = bias[r] + sum over k of w[k, r] * x[x0 + table[k] + lane], and so for x1

``rows`` rows are stored. Of the first vector the parts p0 to p1 are, of the second p2 to p3: a part is three
numbers, from which lane, up to which, and by how much more ``at`` is shifted for it.
"""

# -- a tile of sums over whole lines -----------------------------------------------------------------


def _gram_twin(g, g_at, g_step, x, x_at, table, table_at, lines, n, out, at, step):
    lane = lanes(g.itemsize)
    for a in range(TALL):
        for b in range(BROAD):
            shift = x_at + table[table_at + b]
            for k in range(n):
                left = g[g_at + a * g_step + k * lane : g_at + a * g_step + (k + 1) * lane]
                right = x[shift + lines[k] : shift + lines[k] + lane]
                out[at + a * step + b] += (left[: len(right)] * right).sum()


def _gram_code(context, builder, sig, args):
    g, g_at, g_step, x, x_at, table, table_at, lines, n, out, at, step = args
    kind = context.get_value_type(sig.args[0].dtype)
    e = _Emitter(builder, kind)
    i64 = ir.IntType(64)
    shifts = [
        builder.add(x_at, e.number(table, builder.add(table_at, ir.Constant(i64, b)))) for b in range(BROAD)
    ]
    tops = [builder.add(g_at, builder.mul(g_step, ir.Constant(i64, a))) for a in range(TALL)]

    def step_over(k, sums):
        across = builder.mul(k, ir.Constant(i64, e.lanes))
        line = e.number(lines, k)
        left = [e.load(g, builder.add(top, across)) for top in tops]
        right = [e.load(x, builder.add(shift, line)) for shift in shifts]
        return [
            e.add_product(sums[a * BROAD + b], left[a], right[b]) for a in range(TALL) for b in range(BROAD)
        ]

    sums = e.loop(n, [e.zero] * (TALL * BROAD), step_over)
    for a in range(TALL):
        for b in range(BROAD):
            place = builder.add(builder.add(at, builder.mul(step, ir.Constant(i64, a))), ir.Constant(i64, b))
            pointer = builder.gep(out, [place])
            total = e.total(sums[a * BROAD + b])
            if not isinstance(kind, ir.DoubleType):
                total = builder.fpext(total, ir.DoubleType())
            builder.store(builder.fadd(builder.load(pointer), total), pointer)
    return context.get_dummy_value()


@intrinsic
def _gram(typing, g, g_at, g_step, x, x_at, table, table_at, lines, n, out, at, step):
    i = types.int64
    return types.void(g, i, i, x, i, table, i, lines, i, out, i, i), _gram_code


gram = _gram_twin if PLAIN else _gram
"""out[a * step + b] += sum over k, lanes of g[a * g_step + k * LANES + lane] * x[table[b] + lines[k] + lane]

``out`` is float64.
"""
