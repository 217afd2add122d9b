"""Gathering and scattering by integer indices.

Indices are int64 and in range when they come here: the callers check them first, so that a kernel
never reads or writes outside its arrays. A *row* is what one index stands for: ``inner`` elements.

What only moves elements does not care what they are, so those kernels are compiled per element
width: callers pass float32 arrays where the signature says uint32.
"""

from __future__ import annotations

from .jit import device, kernel
from .parts import added, multiplied


@kernel
def bounds(index, out, n, start, stop):
    """out[0], out[1] = least and largest of index[:n]"""
    low = index[0]
    high = low
    for i in range(n):
        v = index[i]
        low = min(low, v)
        high = max(high, v)
    out[0] = low
    out[1] = high


@kernel
def within(index, out, n, start, stop):
    """out = index with negative ones counted from the end of n, and what lies outside moved inside"""
    for i in range(start, stop):
        v = index[i]
        out[i] = min(max(v + n if v < 0 else v, 0), n - 1)


@kernel
def counted(index, out, n, start, stop):
    """out = index with what lies in [-n, 0) counted from the end of n"""
    for i in range(start, stop):
        v = index[i]
        out[i] = v + n if v < 0 and v >= -n else v


@kernel
def row_factors(index, counts, out, n, rows, padding, by_frequency, start, stop):
    """out[i] = 1, or 1 / how often index[i] occurs, and 0 where it is ``padding``; not to be split"""
    if by_frequency:
        for r in range(rows):
            counts[r] = 0
        for i in range(n):
            counts[index[i]] += 1
    for i in range(n):
        r = index[i]
        out[i] = 0.0 if r == padding else 1.0 / counts[r] if by_frequency else 1.0


@kernel
def scale_rows(x, factors, out, inner, start, stop):
    """out[i, :] = x[i, :] * factors[i]"""
    for i in range(start, stop):
        f = factors[i]
        for j in range(i * inner, (i + 1) * inner):
            out[j] = x[j] * f


@kernel(writes=("out",))
def unit_rows(index, out, n, start, stop):
    """out[i, index[i]] = 1"""
    for i in range(start, stop):
        out[i * n + index[i]] = 1


@kernel
def take_rows(x, index, out, size, n, inner, start, stop):
    """out[o, i, :] = x[o, index[i], :]; x is (outer, size, inner); the range counts (o, i)"""
    for r in range(start, stop):
        o = r // n
        at = (o * size + index[r - o * n]) * inner
        to = r * inner
        for j in range(inner):
            out[to + j] = x[at + j]


@kernel
def take_elements(x, index, out, size, n, start, stop):
    """out[o, i] = x[o, index[i]]; the range counts (o, i)"""
    o = start // n
    first = start - o * n
    at = start
    while at < stop:
        last = min(n, first + stop - at)
        base = o * size
        shift = at - first
        for i in range(first, last):
            out[shift + i] = x[base + index[i]]
        at = shift + last
        first = 0
        o += 1


@kernel(writes=("out",))
def put_rows(out, index, values, size, n, inner, outer, start, stop):
    """out[o, index[i], :] = values[o, i, :], the last one wins; the range counts columns of ``inner``"""
    for o in range(outer):
        for i in range(n):
            to = (o * size + index[i]) * inner
            at = (o * n + i) * inner
            for j in range(start, stop):
                out[to + j] = values[at + j]


@kernel(writes=("out",))
def fill_rows(out, index, value, size, n, inner, outer, start, stop):
    """out[o, index[i], :] = value[0]; the range counts columns of ``inner``"""
    v = value[0]
    for o in range(outer):
        for i in range(n):
            to = (o * size + index[i]) * inner
            for j in range(start, stop):
                out[to + j] = v


@kernel
def add_rows(out, index, values, size, n, inner, outer, width, start, stop):
    """out[o, index[i], :] += values[o, i, :] in order of i

    The range counts pairs of o and a tile of ``width`` columns, so that no two threads meet.
    """
    tiles = (inner + width - 1) // width
    for tile in range(start, stop):
        o = tile // tiles
        left = (tile - o * tiles) * width
        right = min(left + width, inner)
        if inner == 1:
            for i in range(n):
                out[o * size + index[i]] += values[o * n + i]
        else:
            for i in range(n):
                to = (o * size + index[i]) * inner
                at = (o * n + i) * inner
                for j in range(left, right):
                    out[to + j] += values[at + j]


@kernel
def lower_triangle(x, out, rows, columns, diagonal, start, stop):
    """out[b, r, c] = x[b, r, c] if c - r <= diagonal else 0; the range counts (b, r)"""
    for row in range(start, stop):
        at = row * columns
        end = min(max(row % rows + diagonal + 1, 0), columns)
        for c in range(end):
            out[at + c] = x[at + c]
        for c in range(end, columns):
            out[at + c] = 0


@kernel
def upper_triangle(x, out, rows, columns, diagonal, start, stop):
    """out[b, r, c] = x[b, r, c] if c - r >= diagonal else 0; the range counts (b, r)"""
    for row in range(start, stop):
        at = row * columns
        begin = min(max(row % rows + diagonal, 0), columns)
        for c in range(begin):
            out[at + c] = 0
        for c in range(begin, columns):
            out[at + c] = x[at + c]


# -- masks ------------------------------------------------------------------------------------------------


@kernel
def fill_where(out, mask, value, start, stop):
    """out[i] = value[0] where the mask holds"""
    v = value[0]
    for i in range(start, stop):
        out[i] = v if mask[i] != 0 else out[i]


@kernel
def places(mask, out, n, start, stop):
    """out = the i with mask[i], in order; out has one element more than there are; not to be split"""
    k = 0
    for i in range(n):
        out[k] = i
        k += 1 if mask[i] != 0 else 0


@kernel
def coordinates(mask, out, shape, rank, rows, columns, start, stop):
    """out[k, :] = where the k-th true element lies; out has one row more than there are; not to be split"""
    k = 0
    for row in range(rows):
        at = row * columns
        for c in range(columns):
            if mask[at + c] != 0:
                rest = row
                to = k * rank
                out[to + rank - 1] = c
                for d in range(rank - 2, -1, -1):
                    out[to + d] = rest % shape[d]
                    rest //= shape[d]
                k += 1


# -- one index per element --------------------------------------------------------------------------------


@kernel
def take_along(x, index, out, size, n, inner, start, stop):
    """out[o, i, j] = x[o, index[o, i, j], j]; x is (outer, size, inner); the range counts (o, i)"""
    o = start // n
    first = start - o * n
    r = start
    while r < stop:
        last = min(n, first + stop - r)
        base = o * size * inner
        if inner == 1:
            for k in range(o * n + first, o * n + last):
                out[k] = x[base + index[k]]
        else:
            for i in range(first, last):
                to = (o * n + i) * inner
                for j in range(inner):
                    out[to + j] = x[base + index[to + j] * inner + j]
        r += last - first
        first = 0
        o += 1


def _along(name, combine):
    """A kernel for out[o, index[o, i, j], j] = combine(that, values[o, i, j]), in order of i.

    The range counts pairs of o and a tile of ``width`` columns, so that no two threads meet.
    """

    def run(out, index, values, size, n, inner, width, start, stop):
        tiles = (inner + width - 1) // width
        for tile in range(start, stop):
            o = tile // tiles
            left = (tile - o * tiles) * width
            right = min(left + width, inner)
            to = o * size * inner
            if inner == 1:
                for i in range(o * n, o * n + n):
                    k = to + index[i]
                    out[k] = combine(out[k], values[i])
            else:
                for i in range(n):
                    at = (o * n + i) * inner
                    for j in range(left, right):
                        k = to + index[at + j] * inner + j
                        out[k] = combine(out[k], values[at + j])

    run.__name__ = name
    run.__doc__ = (
        f"out[o, index[o, i, j], j] = {combine.__doc__}, a = that and b = values[o, i, j], in order of i"
    )
    return kernel(run)


@device
def _last(a, b):
    """b"""
    return b


@device
def _larger(a, b):
    """the larger of a and b, NaN if either is"""
    return a if a > b or a != a else b


@device
def _smaller(a, b):
    """the smaller of a and b, NaN if either is"""
    return a if a < b or a != a else b


put_along = _along("put_along", _last)
add_along = _along("add_along", added)
multiply_along = _along("multiply_along", multiplied)
max_along = _along("max_along", _larger)
min_along = _along("min_along", _smaller)
