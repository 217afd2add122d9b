"""Gathering and scattering by integer indices.

Indices are int64 and in range when they come here: the callers check them first, so that a kernel
never reads or writes outside its arrays. A *row* is what one index stands for: ``inner`` elements.

What only moves elements does not care what they are, so those kernels are compiled per element
width: callers pass float32 arrays where the signature says uint32.
"""

from __future__ import annotations

import numba

from .jit import FLAGS, kernel


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
    for r in range(start, stop):
        o = r // n
        out[r] = x[o * size + index[r - o * n]]


@kernel
def put_rows(out, index, values, size, n, inner, outer, start, stop):
    """out[o, index[i], :] = values[o, i, :], the last one wins; the range counts columns of ``inner``"""
    for o in range(outer):
        for i in range(n):
            to = (o * size + index[i]) * inner
            at = (o * n + i) * inner
            for j in range(start, stop):
                out[to + j] = values[at + j]


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
        for i in range(n):
            to = (o * size + index[i]) * inner
            at = (o * n + i) * inner
            for j in range(left, right):
                out[to + j] += values[at + j]


# -- one index per element --------------------------------------------------------------------------------


@kernel
def take_along(x, index, out, size, n, inner, start, stop):
    """out[o, i, j] = x[o, index[o, i, j], j]; x is (outer, size, inner); the range counts (o, i)"""
    o = start // n
    i = start - o * n
    for r in range(start, stop):
        at = o * size * inner
        to = r * inner
        for j in range(inner):
            out[to + j] = x[at + index[to + j] * inner + j]
        i += 1
        if i == n:
            i = 0
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
            for i in range(n):
                at = (o * n + i) * inner
                for j in range(left, right):
                    k = to + index[at + j] * inner + j
                    out[k] = combine(out[k], values[at + j])

    run.__name__ = name
    run.__doc__ = f"out[o, index[o, i, j], j] = {combine.__doc__}, a = that and b = values[o, i, j], in order of i"
    return kernel(run)


_inline = numba.njit(forceinline=True, **FLAGS)


@_inline
def _last(a, b):
    """b"""
    return b


@_inline
def _sum(a, b):
    """a + b"""
    return a + b


@_inline
def _product(a, b):
    """a * b"""
    return a * b


@_inline
def _larger(a, b):
    """the larger of a and b, NaN if either is"""
    return a if a > b or a != a else b


@_inline
def _smaller(a, b):
    """the smaller of a and b, NaN if either is"""
    return a if a < b or a != a else b


put_along = _along("put_along", _last)
add_along = _along("add_along", _sum)
multiply_along = _along("multiply_along", _product)
max_along = _along("max_along", _larger)
min_along = _along("min_along", _smaller)
