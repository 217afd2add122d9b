"""Reductions over the middle of an (outer, n, inner) array.

Sums are taken in blocks: within a block in the array's own type with as many partial sums as the
machine has vector lanes, across blocks in float64. Block sizes are constants, so the result
depends on the sizes alone, not on the number of threads.
"""

from __future__ import annotations

import numba
import numpy as np

from .jit import FLAGS, kernel

BLOCK = 256  # summed with reordering allowed; its rounding error grows with the 16 terms of a lane
CHUNK = 16_384  # of a single long row: one unit of work for one thread


@numba.njit(**{**FLAGS, "fastmath": {"contract", "reassoc"}})
def block_sum(x, start, stop):
    """sum of x[start:stop]"""
    total = x[start]
    for i in range(start + 1, stop):
        total += x[i]
    return total


@kernel
def sum_rows(x, out, n, start, stop):
    """out[r] = sum of x[r, :n] in float64"""
    for r in range(start, stop):
        base = r * n
        total = np.float64(0)
        at = 0
        while at < n:
            end = min(at + 256, n)
            total += np.float64(block_sum(x, base + at, base + end))
            at = end
        out[r] = total


@kernel
def sum_chunks(x, out, n, chunk, start, stop):
    """out[c] = sum of x[c*chunk : min((c+1)*chunk, n)] in float64: a long row, cut up"""
    for c in range(start, stop):
        base = c * chunk
        last = min(base + chunk, n)
        total = np.float64(0)
        at = base
        while at < last:
            end = min(at + 256, last)
            total += np.float64(block_sum(x, at, end))
            at = end
        out[c] = total


@kernel
def sum_columns(x, out, n, inner, width, start, stop):
    """out[o, j] = sum over k of x[o, k, j] in float64; the range counts tiles of ``width`` columns"""
    tiles = (inner + width - 1) // width
    for tile in range(start, stop):
        o = tile // tiles
        left = (tile - o * tiles) * width
        right = min(left + width, inner)
        to = o * inner
        for j in range(left, right):
            out[to + j] = 0.0
        for k in range(n):
            row = (o * n + k) * inner
            for j in range(left, right):
                out[to + j] += x[row + j]


@kernel
def max_middle(x, out, n, inner, start, stop):
    """out[o, j] = max over k of x[o, k, j]; NaN wins; the range counts the outer index"""
    for o in range(start, stop):
        to = o * inner
        for j in range(inner):
            out[to + j] = x[o * n * inner + j]
        for k in range(1, n):
            row = (o * n + k) * inner
            for j in range(inner):
                v = x[row + j]
                m = out[to + j]
                out[to + j] = v if (v > m or v != v) else m


@kernel
def min_middle(x, out, n, inner, start, stop):
    """out[o, j] = min over k of x[o, k, j]; NaN wins; the range counts the outer index"""
    for o in range(start, stop):
        to = o * inner
        for j in range(inner):
            out[to + j] = x[o * n * inner + j]
        for k in range(1, n):
            row = (o * n + k) * inner
            for j in range(inner):
                v = x[row + j]
                m = out[to + j]
                out[to + j] = v if (v < m or v != v) else m


@kernel
def arg_middle(x, out, n, inner, sign, start, stop):
    """out[o, j] = first k with the largest sign * x[o, k, j]; the first NaN wins"""
    for o in range(start, stop):
        to = o * inner
        for j in range(inner):
            best = x[o * n * inner + j]
            place = 0
            for k in range(1, n):
                v = x[(o * n + k) * inner + j]
                if best != best:
                    break
                if v != v or (v > best if sign > 0 else v < best):
                    best = v
                    place = k
            out[to + j] = place


@kernel
def moments_rows(x, mean, m2, n, start, stop):
    """mean[r] and the sum of squared deviations from it, in two passes, float64"""
    for r in range(start, stop):
        base = r * n
        total = np.float64(0)
        at = 0
        while at < n:
            end = min(at + 256, n)
            total += np.float64(block_sum(x, base + at, base + end))
            at = end
        average = total / n
        mean[r] = average
        squares = np.float64(0)
        for i in range(base, base + n):
            d = np.float64(x[i]) - average
            squares += d * d
        m2[r] = squares
