"""Gathering and scattering by integer indices.

Indices are int64 and in range when they come here: the callers check them first, so that a kernel
never reads or writes outside its arrays. A *row* is what one index stands for: ``inner`` elements.

What only moves elements does not care what they are, so those kernels are compiled per element
width: callers pass float32 arrays where the signature says uint32.
"""

from __future__ import annotations

from .jit import kernel


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
