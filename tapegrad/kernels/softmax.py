"""Softmax, its logarithm and cross entropy, with their derivatives.

A row is read several times while it lies in the cache, and memory once. Exponentials are taken of differences
from the row's largest element. Sums run in blocks: within a block in the row's type with reordering allowed,
across blocks in float64. Rows of an inner dimension are handled side by side, a tile of columns at a time.

``FAMILY["f"]`` holds the kernels for float32, ``FAMILY["d"]`` those for float64.
"""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

from . import scalar
from .jit import Kernel, fast
from .scalar_bits import maximum
from .vectors import one_by_one

BLOCK = 512  # of a row
WIDTH = 128  # columns of a tile
# Reordering is allowed in the sums themselves; the exponentials are compiled with their own flags.
_summing = fast("contract", "reassoc")
_largest = fast("contract", "nsz")


@_largest
def _top(x, first, last):
    """The largest of x[first:last], NaN if there is one"""
    top = x[first]
    for i in range(
        first, last
    ):  # again the first, or vectors would begin one element behind where cache lines do
        top = maximum(top, x[i])
    return top


@_summing
def _sum_block(x, first, last):
    total = type(x[first])(0)
    for i in range(first, last):
        total += x[i]
    return total


@_summing
def _dot_block(x, y, first, last):
    total = type(x[first])(0)
    for i in range(first, last):
        total += x[i] * y[i]
    return total


@_summing
def _sum(x, first, last):
    """The sum of x[first:last] in float64"""
    total = 0.0
    while first < last:
        end = min(first + BLOCK, last)
        total += np.float64(_sum_block(x, first, end))
        first = end
    return total


@_summing
def _dot(x, y, first, last):
    """The sum of x * y over [first:last] in float64"""
    total = 0.0
    while first < last:
        end = min(first + BLOCK, last)
        total += np.float64(_dot_block(x, y, first, end))
        first = end
    return total


def _rows(exp, log, tag):
    """The kernels for the last dimension."""

    @_summing
    def exp_block(x, y, top, first, last):
        # In two loops: one that stores would be another loop, with another order of the sum, where x and y lie close together.
        for i in range(first, last):
            y[i] = exp(x[i] - top)
        total = top - top
        for i in range(first, last):
            total += y[i]
        return total

    @_summing
    def exp_sum_block(x, top, first, last):
        total = top - top
        for i in range(first, last):
            total += exp(x[i] - top)
        return total

    @_summing
    def exp_sum(x, top, first, last):
        total = 0.0
        while first < last:
            end = min(first + BLOCK, last)
            total += np.float64(exp_sum_block(x, top, first, end))
            first = end
        return total

    def softmax_rows(x, y, n, safe, start, stop):
        """y[r] = exp(x[r]) / sum of exp(x[r]), and 0 for a row of -inf if ``safe``; the range counts rows"""
        for r in range(start, stop):
            first = r * n
            last = first + n
            top = _top(x, first, last)
            if safe and top == -np.inf:
                for i in range(first, last):
                    y[i] = 0.0
                continue
            total = 0.0
            at = first
            while at < last:
                end = min(at + BLOCK, last)
                total += np.float64(exp_block(x, y, top, at, end))
                at = end
            scale = type(top)(1.0 / total)
            for i in range(first, last):
                y[i] *= scale

    def log_softmax_rows(x, y, n, start, stop):
        """y[r] = x[r] - log(sum of exp(x[r]))"""
        for r in range(start, stop):
            first = r * n
            last = first + n
            top = _top(x, first, last)
            shift = type(top)(log(exp_sum(x, top, first, last)))
            for i in range(first, last):
                y[i] = (x[i] - top) - shift

    def softmax_grad_rows(g, y, out, n, start, stop):
        """out[r] = (g[r] - sum of g[r] * y[r]) * y[r]"""
        for r in range(start, stop):
            first = r * n
            last = first + n
            shift = type(g[first])(_dot(g, y, first, last))
            for i in range(first, last):
                out[i] = (g[i] - shift) * y[i]
            one_by_one()

    def log_softmax_grad_rows(g, y, out, n, start, stop):
        """out[r] = g[r] - exp(y[r]) * sum of g[r]"""
        for r in range(start, stop):
            first = r * n
            last = first + n
            total = type(g[first])(_sum(g, first, last))
            for i in range(first, last):
                out[i] = g[i] - exp(y[i]) * total

    def cross_entropy_rows(x, target, weight, loss, lse, bad, n, ignore, weighted, start, stop):
        """loss[r] = weight[t] * (lse[r] - x[r, t]) for t = target[r], 0 where t is ignored

        lse[r] = log(sum of exp(x[r])) in float64; ``bad[0]`` becomes a target that is out of range.
        """
        # Logarithms are taken of all rows side by side, in vectors: a row of few classes takes no longer than one of them.
        for r in range(start, stop):
            first = r * n
            last = first + n
            top = _top(x, first, last)
            loss[r] = top
            lse[r] = exp_sum(x, top, first, last)
        for r in range(start, stop):
            lse[r] = log(lse[r])
        for r in range(start, stop):
            t = target[r]
            top, shift = loss[r], lse[r]
            lse[r] = top + shift
            if t == ignore:
                loss[r] = 0.0
            elif t < 0 or t >= n:
                bad[0] = t
                loss[r] = 0.0
            else:
                here = shift - (np.float64(x[r * n + t]) - top)
                loss[r] = np.float64(weight[t]) * here if weighted else here

    def cross_entropy_grad_rows(
        x, target, weight, lse, g, count, out, n, ignore, weighted, step, mean, start, stop
    ):
        """out[r] = (exp(x[r] - lse[r]) - onehot(t)) * weight[t] * g[r * step] (/ count), 0 if t is ignored"""
        scale = 1.0 / count[0] if mean and count[0] != 0 else np.nan if mean else 1.0
        for r in range(start, stop):
            t = target[r]
            first = r * n
            zero = x[first] - x[first]
            if t == ignore or t < 0 or t >= n:  # out of range: the forward kernel has noted it
                for i in range(first, first + n):
                    out[i] = 0.0
                continue
            share = np.float64(g[r * step]) * scale
            if weighted:
                share *= np.float64(weight[t])
            factor = type(zero)(share)
            # In two parts, since float32 alone would lose digits of a large lse.
            high = type(zero)(lse[r])
            low = type(zero)(lse[r] - np.float64(high))
            for i in range(first, first + n):
                out[i] = exp((x[i] - high) - low) * factor
            out[first + t] -= factor

    return _kernels(
        tag, softmax_rows, log_softmax_rows, softmax_grad_rows, log_softmax_grad_rows, cross_entropy_rows,
        cross_entropy_grad_rows,
    )  # fmt: skip


def _columns(exp, log, tag):
    """The kernels for an inner dimension: arrays are (outer, n, inner), the range counts tiles of columns."""

    def softmax_columns(x, y, scratch, n, inner, logarithm, start, stop):
        """softmax (or its logarithm) along the middle; ``scratch`` holds 2 * WIDTH numbers per tile"""
        tiles = (inner + WIDTH - 1) // WIDTH
        for tile in range(start, stop):
            left = (tile % tiles) * WIDTH
            m = min(WIDTH, inner - left)
            base = (tile // tiles) * n * inner + left
            top = tile * 2 * WIDTH
            total = top + WIDTH
            for j in range(m):
                scratch[top + j] = x[base + j]
                scratch[total + j] = 0.0
            for k in range(1, n):
                row = base + k * inner
                for j in range(m):
                    scratch[top + j] = maximum(scratch[top + j], x[row + j])
            for k in range(n):
                row = base + k * inner
                for j in range(m):
                    e = exp(x[row + j] - scratch[top + j])
                    y[row + j] = e
                    scratch[total + j] += e
            if logarithm:
                for j in range(m):
                    scratch[total + j] = log(np.float64(scratch[total + j]))
                for k in range(n):
                    row = base + k * inner
                    for j in range(m):
                        y[row + j] = (x[row + j] - scratch[top + j]) - scratch[total + j]
            else:
                for k in range(n):
                    row = base + k * inner
                    for j in range(m):
                        y[row + j] /= scratch[total + j]

    def softmax_grad_columns(g, y, out, scratch, n, inner, logarithm, start, stop):
        """the derivative of softmax_columns; ``scratch`` holds WIDTH numbers per tile"""
        tiles = (inner + WIDTH - 1) // WIDTH
        for tile in range(start, stop):
            left = (tile % tiles) * WIDTH
            m = min(WIDTH, inner - left)
            base = (tile // tiles) * n * inner + left
            total = tile * WIDTH
            for j in range(m):
                scratch[total + j] = 0.0
            if logarithm:
                for k in range(n):
                    row = base + k * inner
                    for j in range(m):
                        scratch[total + j] += g[row + j]
                for k in range(n):
                    row = base + k * inner
                    for j in range(m):
                        out[row + j] = g[row + j] - exp(y[row + j]) * scratch[total + j]
            else:
                for k in range(n):
                    row = base + k * inner
                    for j in range(m):
                        scratch[total + j] += g[row + j] * y[row + j]
                for k in range(n):
                    row = base + k * inner
                    for j in range(m):
                        out[row + j] = (g[row + j] - scratch[total + j]) * y[row + j]

    return _kernels(tag, softmax_columns, softmax_grad_columns)


# Of these, a row of the range is a row.
_ROWS = ("x", "y", "g", "out", "target", "loss", "lse")


def _kernels(tag, *functions):
    made = {}
    for fn in functions:
        rows = _ROWS if fn.__name__.endswith("_rows") else ()
        made[fn.__name__] = Kernel(fn, f"softmax.{fn.__name__}_{tag}", rows=rows)
    return made


def _family(exp, tag):
    log = scalar.log_f8
    return SimpleNamespace(**_rows(exp, log, tag), **_columns(exp, log, tag))


FAMILY = {"f": _family(scalar.exp_f4, "f4"), "d": _family(scalar.exp_f8, "f8")}
