"""The innermost pieces of a matrix product: a tile that grows in vector registers, and what packs its operands.

They are written down as vector instructions, since numba's loops never keep a whole tile in registers.
Each has a twin in plain Python for ``NUMBA_DISABLE_JIT=1``.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from .jit import PLAIN
from .tile import FEATURES, MANY, Emitter, lanes

# Rows of the largest tile; with three vectors per row, its sums, one row of vectors and a factor fill the
# registers. Fewer rows are done by the smallest tile that holds them.
HEIGHT = 8 if MANY else 4
WIDTH = 3
# Less where rows lie anywhere: LLVM then reads all factors first, and three vectors of sums each leave no room.
WINDOW_WIDTH = 2
HEIGHTS = (HEIGHT, HEIGHT // 2, 1)
# Without instructions for a part of a vector, reading one is slow: operands are padded when they are packed.
PARTIAL = bool(FEATURES.get("avx"))

_I32, _I64 = ir.IntType(32), ir.IntType(64)


def _number(n):
    return ir.Constant(_I64, n)


class _Emitter(Emitter):
    """With parts of vectors."""

    def below(self, count):
        """A mask of the first ``count`` lanes."""
        numbers = ir.VectorType(_I32, self.lanes)
        ramp = ir.Constant(numbers, [ir.Constant(_I32, j) for j in range(self.lanes)])
        nothing = ir.Constant(numbers, ir.Undefined)
        one = self.builder.insert_element(nothing, self.builder.trunc(count, _I32), ir.Constant(_I32, 0))
        spread = self.builder.shuffle_vector(one, nothing, ir.Constant(numbers, None))
        return self.builder.icmp_signed("<", ramp, spread)

    def load_part(self, pointer, index, mask):
        """A vector with zeros where the mask is off; nothing is read there."""
        name = f"llvm.masked.load.v{self.lanes}f{8 * self.kind_bytes}.p0"
        place = self.place(pointer, index)
        kinds = [place.type, _I32, mask.type, self.vector]
        fn = cgutils.get_or_insert_function(self.builder.module, ir.FunctionType(self.vector, kinds), name)
        return self.builder.call(fn, [place, ir.Constant(_I32, self.kind_bytes), mask, self.zero])

    def fetch(self, pointer, index):
        """Ask for the cache line of an element, which need not exist."""
        byte = ir.IntType(8).as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [byte, _I32, _I32, _I32])
        fn = cgutils.get_or_insert_function(self.builder.module, kind, "llvm.prefetch.p0")
        place = self.builder.bitcast(self.builder.gep(pointer, [index]), byte)
        self.builder.call(fn, [place, *(ir.Constant(_I32, n) for n in (1, 3, 1))])

    def repeat(self, count, starts, step):
        """``step(values) -> values``, ``count`` times, maybe none; the values after it."""
        b = self.builder
        before = b.block
        head, body, after = (b.append_basic_block(f"repeat.{name}") for name in ("head", "body", "end"))
        b.branch(head)
        b.position_at_end(head)
        phis = [b.phi(start.type) for start in (count, *starts)]
        for phi, start in zip(phis, (count, *starts), strict=True):
            phi.add_incoming(start, before)
        b.cbranch(b.icmp_signed(">", phis[0], _number(0)), body, after)
        b.position_at_end(body)
        values = [b.sub(phis[0], _number(1)), *step(phis[1:])]
        for phi, value in zip(phis, values, strict=True):
            phi.add_incoming(value, b.block)
        b.branch(head)
        b.position_at_end(after)
        return phis[1:]

    def clamped(self, rows, height, step):
        """``step`` times the row, for each of ``height`` rows; the last one again for rows beyond ``rows``."""
        b = self.builder
        top = b.sub(rows, _number(1))
        made = [_number(0)]
        for r in range(1, height):
            row = b.select(b.icmp_signed("<", _number(r), rows), _number(r), top)
            made.append(b.mul(row, step))
        return made


# -- a tile ------------------------------------------------------------------------------------------


def _tile_twin(
    a, a_at, a_row, a_col, b, b_at, b_vector, b_row, k,
    c, c_at, c_row, d, d_at, d_row, given, rows, width, last,
):  # fmt: skip
    lane = lanes(c.itemsize)
    for r in range(rows):
        for v in range(width):
            n = lane if v < width - 1 else last
            total = np.zeros(n, c.dtype)
            if given:
                total += d[d_at + r * d_row + v * lane :][:n]
            for j in range(k):
                total += a[a_at + r * a_row + j * a_col] * b[b_at + v * b_vector + j * b_row :][:n]
            c[c_at + r * c_row + v * lane :][:n] = total


def _emit_tile(e, height, width, args, tops, factor_at, onward):
    """The code for one size of tile: rows begin at ``tops``, ``factor_at`` says where their elements are."""
    b, b_at, b_vector, b_row, k, c, c_at, c_row, d, d_at, d_row, given, rows, _, last = args
    builder = e.builder
    mask = e.below(last)
    columns = [builder.gep(b, [builder.add(b_at, builder.mul(b_vector, _number(v)))]) for v in range(width)]

    before = builder.block
    start, ready = builder.append_basic_block("start"), builder.append_basic_block("ready")
    builder.cbranch(builder.icmp_signed("!=", given, _number(0)), start, ready)
    builder.position_at_end(start)
    found = []
    for n in e.clamped(rows, height, d_row):
        for v in range(width):
            at = builder.add(builder.add(d_at, n), _number(v * e.lanes))
            found.append(e.load(d, at) if v < width - 1 else e.load_part(d, at, mask))
    if height == HEIGHT and width == WIDTH:
        # The next tile's start has to come from far when products are large.
        for n in e.clamped(rows, height, c_row):
            for v in range(width, 2 * width):
                e.fetch(c, builder.add(builder.add(c_at, n), _number(v * e.lanes)))
    builder.branch(ready)
    builder.position_at_end(ready)
    starts = []
    for value in found:
        phi = builder.phi(e.vector)
        phi.add_incoming(e.zero, before)
        phi.add_incoming(value, start)
        starts.append(phi)

    def step(values):
        left, right, *sums = values
        vectors = [e.load(p, right) for p in columns[:-1]]
        if PARTIAL:
            vectors.append(e.load_part(columns[-1], right, mask))
        else:
            vectors.append(e.load(columns[-1], right))
        made = []
        at = factor_at(left)
        for r in range(height):
            factor = e.spread(e.number(tops[r], at))
            made += [e.add_product(sums[r * width + v], factor, vectors[v]) for v in range(width)]
        return [builder.add(left, onward), builder.add(right, b_row), *made]

    sums = e.repeat(k, [_number(0), _number(0), *starts], step)[2:]
    for r in range(height):
        with builder.if_then(builder.icmp_signed("<", _number(r), rows), likely=True):
            at = builder.add(c_at, builder.mul(c_row, _number(r)))
            for v in range(width):
                place = builder.add(at, _number(v * e.lanes))
                if v == width - 1:
                    e.store_part(sums[r * width + v], c, place, mask)
                else:
                    e.store(sums[r * width + v], c, place)


def _emit_choice(e, heights, widest, rows, width, emit):
    """``emit(height, width)`` for the smallest of the heights that holds the rows."""
    builder = e.builder
    after = builder.append_basic_block("after")
    for height, lower in zip(heights, (*heights[1:], 0), strict=True):
        low = builder.icmp_signed("<=", rows, _number(lower))
        fitting, shorter = builder.append_basic_block("fitting"), builder.append_basic_block("shorter")
        builder.cbranch(low, shorter, fitting)
        builder.position_at_end(fitting)
        choice = builder.switch(width, after)
        for w in range(1, widest + 1):
            block = builder.append_basic_block(f"tile{height}.{w}")
            choice.add_case(_number(w), block)
            builder.position_at_end(block)
            emit(height, w)
            builder.branch(after)
        builder.position_at_end(shorter)
    builder.branch(after)
    builder.position_at_end(after)


def _tile_code(context, builder, sig, args):
    a, a_at, a_row, a_col, *rest = args
    rows, width = rest[-3], rest[-2]
    e = _Emitter(builder, context.get_value_type(sig.args[0].dtype))

    def emit(height, w):
        tops = [builder.gep(a, [builder.add(a_at, n)]) for n in e.clamped(rows, height, a_row)]
        _emit_tile(e, height, w, rest, tops, lambda left: left, a_col)

    _emit_choice(e, HEIGHTS, WIDTH, rows, width, emit)
    return context.get_dummy_value()


def _tile():
    if PLAIN:
        return _tile_twin

    @intrinsic
    def tile(
        typing, a, a_at, a_row, a_col, b, b_at, b_vector, b_row, k,
        c, c_at, c_row, d, d_at, d_row, given, rows, width, last,
    ):  # fmt: skip
        """A tile of ``rows`` rows and ``width`` vectors of a product, started with ``d`` or zeros:

        c[r, v, lane] = (d[r, v, lane] if given) + sum over j < k of a[r, j] * b[v, j, lane]

        The strides of rows, columns and vectors are named after them; vectors of c and d are neighbours. Only
        the first ``last`` lanes of the last vector exist.
        """
        i = types.int64
        return types.void(a, i, i, i, b, i, i, i, i, c, i, i, d, i, i, i, i, i, i), _tile_code

    return tile


tile = _tile()


# -- a tile over windows -----------------------------------------------------------------------------


def _window_tile_twin(
    a, a_at, places, place_at, shifts, b, b_at, b_vector, b_row, k,
    c, c_at, c_row, d, d_at, d_row, given, rows, width, last,
):  # fmt: skip
    lane = lanes(c.itemsize)
    for r in range(rows):
        for v in range(width):
            n = lane if v < width - 1 else last
            total = np.zeros(n, c.dtype)
            if given:
                total += d[d_at + r * d_row + v * lane :][:n]
            for j in range(k):
                factor = a[a_at + places[place_at + r] + shifts[j]]
                total += factor * b[b_at + v * b_vector + j * b_row :][:n]
            c[c_at + r * c_row + v * lane :][:n] = total


def _window_tile_code(context, builder, sig, args):
    a, a_at, places, place_at, shifts, *rest = args
    rows, width = rest[-3], rest[-2]
    e = _Emitter(builder, context.get_value_type(sig.args[0].dtype))

    def emit(height, w):
        numbers = [builder.add(place_at, n) for n in e.clamped(rows, height, _number(1))]
        tops = [builder.gep(a, [builder.add(a_at, e.number(places, n))]) for n in numbers]
        _emit_tile(e, height, w, rest, tops, lambda left: e.number(shifts, left), _number(1))

    _emit_choice(e, (HEIGHT,), WINDOW_WIDTH, rows, width, emit)
    return context.get_dummy_value()


def _window_tile():
    if PLAIN:
        return _window_tile_twin

    @intrinsic
    def window_tile(
        typing, a, a_at, places, place_at, shifts, b, b_at, b_vector, b_row, k,
        c, c_at, c_row, d, d_at, d_row, given, rows, width, last,
    ):  # fmt: skip
        """Like ``tile``, with row r and column j of a at a_at + places[place_at + r] + shifts[j]"""
        i = types.int64
        kinds = (a, i, places, i, shifts, b, i, i, i, i, c, i, i, d, i, i, i, i, i, i)
        return types.void(*kinds), _window_tile_code

    return window_tile


window_tile = _window_tile()


# -- packing -----------------------------------------------------------------------------------------


def _pack_twin(x, at, across, along, n, k, out, to, step):
    lane = lanes(x.itemsize)
    for j in range(k):
        out[to + j * step : to + j * step + lane] = 0
        for r in range(n):
            out[to + j * step + r] = x[at + j * along + r * across]


def _emit_copies(e, x, at, along, n, k, out, to, step):
    """Lines that are neighbours in x: one vector each."""
    mask = e.below(n)

    def line(values):
        place, target = values
        e.store(e.load_part(x, place, mask), out, target)
        return [e.builder.add(place, along), e.builder.add(target, step)]

    e.repeat(k, [at, to], line)


def _transposed(e, lines):
    """A square of vectors, columns for rows."""
    size = e.lanes
    lines = list(lines)
    kind = ir.VectorType(_I32, size)
    width = 1  # of the squares that change places across the diagonal
    while width < size:
        lower = [j if not j & width else size + j - width for j in range(size)]
        upper = [j + width if not j & width else size + j for j in range(size)]
        masks = [ir.Constant(kind, [ir.Constant(_I32, j) for j in m]) for m in (lower, upper)]
        for i in range(size):
            if not i & width:
                pair = lines[i], lines[i + width]
                lines[i], lines[i + width] = (e.builder.shuffle_vector(*pair, m) for m in masks)
        width *= 2
    return lines


def _emit_squares(e, x, at, across, n, k, out, to, step):
    """Columns that are neighbours in x: squares of LANES by LANES are transposed in registers."""
    b, size = e.builder, e.lanes
    rows = e.clamped(n, size, across)

    def square(values):
        place, target, left = values
        mask = e.below(left)
        lines = [e.load_part(x, b.add(place, shift), mask) for shift in rows]
        for line in _transposed(e, lines):
            e.store(line, out, target)
            target = b.add(target, step)
        return [b.add(place, _number(size)), target, b.sub(left, _number(size))]

    count = b.sdiv(b.add(k, _number(size - 1)), _number(size))
    e.repeat(count, [at, to, k], square)


def _emit_singly(e, x, at, across, along, n, k, out, to, step):
    b = e.builder

    def line(values):
        place, target = values
        e.store(e.zero, out, target)

        def element(inner):
            source, position = inner
            b.store(e.number(x, source), b.gep(out, [position]))
            return [b.add(source, across), b.add(position, _number(1))]

        e.repeat(n, [place, target], element)
        return [b.add(place, along), b.add(target, step)]

    e.repeat(k, [at, to], line)


def _pack_code(context, builder, sig, args):
    """A call of one function per element type, so that its code is there once."""
    kind = context.get_value_type(sig.args[0].dtype)
    words = [a.type for a in args]
    function = cgutils.get_or_insert_function(
        builder.module, ir.FunctionType(ir.VoidType(), words), f"tapegrad_pack_{kind}"
    )
    if function.is_declaration:
        function.linkage = "internal"
        function.attributes.add("noinline")
        b = ir.IRBuilder(function.append_basic_block("entry"))
        e = _Emitter(b, kind)
        x, at, across, along, n, k, out, to, step = function.args
        done = b.append_basic_block("done")
        with b.if_then(b.icmp_signed("==", across, _number(1))):
            _emit_copies(e, x, at, along, n, k, out, to, step)
            b.branch(done)
        with b.if_then(b.icmp_signed("==", along, _number(1))):
            _emit_squares(e, x, at, across, n, k, out, to, step)
            b.branch(done)
        _emit_singly(e, x, at, across, along, n, k, out, to, step)
        b.branch(done)
        b.position_at_end(done)
        b.ret_void()
    builder.call(function, args)
    return context.get_dummy_value()


def _pack():
    if PLAIN:
        return _pack_twin

    @intrinsic
    def pack(typing, x, at, across, along, n, k, out, to, step):
        """out[j, r] = x[j * along + r * across] for j < k and r < n <= LANES, lines ``step`` apart

        Whole vectors and squares of them are written, the first line first: up to LANES lines and LANES
        elements beyond what was asked for.
        """
        i = types.int64
        return types.void(x, i, i, i, i, i, out, i, i), _pack_code

    return pack


pack = _pack()


def _unpack_twin(x, at, row, rows, columns, out, to, step, least):
    for j in range(columns):
        for r in range(rows):
            value = x[at + r * row + j]
            out[to + j * step + r] = max(value, least)  # NaN and -0.0 stay, as there


def _unpack_code(context, builder, sig, args):
    x, at, row, rows, columns, out, to, step, least = args
    e = _Emitter(builder, context.get_value_type(sig.args[0].dtype))
    mask = e.below(rows)
    least = e.spread_float64(least)
    lines = [e.load(x, builder.add(at, shift)) for shift in e.clamped(rows, e.lanes, row)]
    for j, line in enumerate(_transposed(e, lines)):
        with builder.if_then(builder.icmp_signed("<", _number(j), columns), likely=True):
            place = builder.add(to, builder.mul(step, _number(j)))
            e.store_part(e.at_least(line, least), out, place, mask)
    return context.get_dummy_value()


def _unpack():
    if PLAIN:
        return _unpack_twin

    @intrinsic
    def unpack(typing, x, at, row, rows, columns, out, to, step, least):
        """out[j, r] = max(x[r, j], least) for r < rows and j < columns, both at most LANES; x has whole vectors"""
        i = types.int64
        return types.void(x, i, i, i, i, out, i, i, types.float64), _unpack_code

    return unpack


unpack = _unpack()
