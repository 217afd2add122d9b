"""The reductions that ops use: sums of what, extrema, and moments; see reduction.py for how they run.

Moments are taken block by block while the block is in the first cache: its mean, then the squares of the
deviations from it; blocks are merged in float64. So the variance is as accurate as the data allow, and
memory is read once.
"""

from __future__ import annotations

import math

import numpy as np

from . import formula, launch
from .jit import device, fast, kernel
from .reduction import CHUNK, Reduction

_exp = formula.function("exp")


def _truth(x):
    """1 for what is not zero, in the type of x"""
    return formula.select(x == 0, formula.constant(0, x), formula.constant(1, x))


SUM = Reduction("sums")
NANSUM = Reduction("nan_sums", lambda x: formula.select(x == x, x, 0))
SQUARES = Reduction("squares", lambda x: x * x)
MAGNITUDES = Reduction("magnitudes", abs)
POWERS = Reduction("powers", lambda x, p: formula.power(abs(x), p), numbers=("p",))
EXPONENTIALS = Reduction("exponentials", lambda x, top: _exp(x - top), kept=("top",))
PRODUCT = Reduction("products", combine="mul")
NONZEROS = Reduction("nonzeros", _truth)
EVERY = Reduction("every", _truth, combine="min")
SOME = Reduction("some", _truth, combine="max")
LARGEST = Reduction("largest", combine="max")
SMALLEST = Reduction("smallest", combine="min")
PLAIN = {"add": SUM, "mul": PRODUCT, "max": LARGEST, "min": SMALLEST}
LARGEST_MAGNITUDE = Reduction("largest_magnitude", abs, combine="max")
SMALLEST_MAGNITUDE = Reduction("smallest_magnitude", abs, combine="min")

for _name, _value in list(globals().items()):
    if isinstance(_value, Reduction):
        _value.place = _name

_TILE = 128  # columns whose moments are taken side by side


@fast("contract", "reassoc")
def _block_sum(x, first, last):
    total = type(x[first])(0)  # not x[first]: vectors would begin one element behind where cache lines do
    for i in range(first, last):
        total += x[i]
    return total


@fast("contract", "reassoc")
def _block_deviations(x, shift, first, last):
    total = shift - shift
    squares = total
    for i in range(first, last):
        d = x[i] - shift
        total += d
        squares += d * d
    return total, squares


@kernel(rows=("x", "mean", "m2"))
def moments_rows(x, mean, m2, n, chunk, start, stop):
    """mean of x[o, c*chunk:(c+1)*chunk] and the sum of squared deviations from it; the range counts (o, c)"""
    chunks = (n + chunk - 1) // chunk
    o = start // chunks
    c = start - o * chunks
    for r in range(start, stop):
        at = o * n + c * chunk
        last = min(at + chunk, (o + 1) * n)
        c += 1
        if c == chunks:
            c = 0
            o += 1
        count, average, squares = 0, 0.0, 0.0
        while at < last:
            end = min(at + 2048, last)
            size = end - at
            total = _block_sum(x, at, end)
            # In the type of x, or the loop over x would run in float64.
            shift = type(total)(total / size)
            # x - shift is small and nearly exact, so its sum is what the rounded mean lacks.
            lack, q = _block_deviations(x, shift, at, end)
            here = np.float64(shift) + (np.float64(lack) / size if lack - lack == 0.0 else 0.0)
            inside = np.float64(q) - np.float64(lack) * np.float64(lack) / size
            delta = here - average
            count += size
            # Next to an infinite mean the difference means nothing; the mean stays infinite (or becomes NaN).
            average += delta * size / count if delta - delta == 0.0 else here
            squares += inside + delta * delta * (np.float64(count - size) * size / count)
            at = end
        mean[r] = average
        m2[r] = squares


@kernel
def moments_columns(x, mean, m2, scratch, n, inner, width, start, stop):
    """mean of x[o, :, j] and the sum of squared deviations from it; the range counts tiles of columns

    ``scratch`` holds 3 * width float64 per tile: the shift, the lack and the squares of a block.
    """
    tiles = (inner + width - 1) // width
    for tile in range(start, stop):
        o = tile // tiles
        left = (tile - o * tiles) * width
        m = min(width, inner - left)
        to = o * inner + left
        base = o * n * inner + left
        shift = tile * 3 * width
        lack = shift + width
        squares = lack + width
        for j in range(m):
            mean[to + j] = 0.0
            m2[to + j] = 0.0
        k = 0
        while k < n:
            end = min(k + 32, n)
            size = np.float64(end - k)
            _sum_rows(x, scratch, shift, base, inner, m, k, end)
            for j in range(m):
                first = x[base + j]
                scratch[shift + j] = type(first)(scratch[shift + j] / size)  # what is subtracted below
                scratch[lack + j] = 0.0
                scratch[squares + j] = 0.0
            _deviate_rows(x, scratch, shift, lack, squares, base, inner, m, k, end)
            count = np.float64(k) + size
            weight = size / count
            both = np.float64(k) * size / count
            for j in range(m):
                rest = scratch[lack + j]
                here = scratch[shift + j] + (rest / size if rest - rest == 0.0 else 0.0)
                delta = here - mean[to + j]
                mean[to + j] += delta * weight if delta - delta == 0.0 else here
                m2[to + j] += scratch[squares + j] - rest * rest / size + delta * delta * both
            k = end


@device
def _sum_rows(x, out, to, base, inner, m, k, end):
    """out[to + j] = sum of x[k:end, j]"""
    for j in range(m):
        out[to + j] = 0.0
    while k + 4 <= end:
        row = base + k * inner
        for j in range(m):
            a = x[row + j] + x[row + inner + j]
            b = x[row + 2 * inner + j] + x[row + 3 * inner + j]
            out[to + j] += a + b
        k += 4
    while k < end:
        row = base + k * inner
        for j in range(m):
            out[to + j] += x[row + j]
        k += 1


@device
def _deviate_rows(x, out, shift, lack, squares, base, inner, m, k, end):
    """sums of x[k:end, j] - shift[j] and of its square"""
    while k + 4 <= end:
        row = base + k * inner
        for j in range(m):
            v = x[row + j]
            c = type(v)(out[shift + j])
            a, b = v - c, x[row + inner + j] - c
            d, e = x[row + 2 * inner + j] - c, x[row + 3 * inner + j] - c
            out[lack + j] += (a + b) + (d + e)
            out[squares + j] += (a * a + b * b) + (d * d + e * e)
        k += 4
    while k < end:
        row = base + k * inner
        for j in range(m):
            v = x[row + j]
            d = v - type(v)(out[shift + j])
            out[lack + j] += d
            out[squares + j] += d * d
        k += 1


def moments(x: np.ndarray, sizes: tuple[int, int, int]) -> tuple[np.ndarray, np.ndarray]:
    """Flat float64 means and sums of squared deviations of a contiguous (outer, n, inner) array, n > 0."""
    outer, n, inner = sizes
    if inner == 1:
        chunk = n if n <= 2 * CHUNK else CHUNK
        chunks = -(-n // chunk)
        mean, m2 = np.empty(outer * chunks), np.empty(outer * chunks)
        launch.start(moments_rows, (x, mean, m2, n, chunk), outer * chunks, x.size)
        if chunks == 1:
            return mean, m2
        return merged(mean, m2, chunks, chunk, n - chunk * (chunks - 1))
    mean, m2 = np.empty(outer * inner), np.empty(outer * inner)
    width = min(inner, _TILE)
    tiles = outer * -(-inner // width)
    scratch = np.empty(tiles * 3 * width)
    launch.start(moments_columns, (x, mean, m2, scratch, n, inner, width), tiles, x.size)
    return mean, m2


@kernel(rows=("mean", "m2", "whole", "squares"))
def merge_rows(mean, m2, whole, squares, parts, size, last, start, stop):
    """Moments of rows from those of their ``parts``, which have ``size`` elements, and ``last`` the last one"""
    for r in range(start, stop):
        total, end = 0.0, (r + 1) * parts - 1
        for k in range(r * parts, end):
            total += mean[k] * size
        average = (total + mean[end] * last) / ((parts - 1) * size + last)
        total = 0.0
        for k in range(r * parts, end + 1):
            d = mean[k] - average
            total += m2[k] + (last if k == end else size) * (d * d)
        whole[r] = average
        squares[r] = total


def merged(
    mean: np.ndarray, m2: np.ndarray, parts: int, size: int, last: int
) -> tuple[np.ndarray, np.ndarray]:
    """Flat moments of rows from flat moments of their parts: of ``size`` elements each, of ``last`` the last one."""
    rows = mean.size // parts
    whole, squares = np.empty(rows), np.empty(rows)
    launch.start(merge_rows, (mean, m2, whole, squares, parts, size, last), rows, mean.size)
    return whole, squares


@kernel(rows=("mean", "m2", "result", "average"))
def finish_moments(mean, m2, result, average, freedom, root, start, stop):
    """result = m2 / freedom, or its root; average = mean"""
    for i in range(start, stop):
        variance = m2[i] / freedom
        result[i] = math.sqrt(variance) if root else variance
        average[i] = mean[i]
