"""Weighted sums along the middle of an (outer, n, inner) array, with a few taps per output.

``index`` and ``weight`` are (m, taps): output j is the sum over k of weight[j, k] * x[index[j, k]].
"""

from __future__ import annotations

from .jit import kernel


@kernel
def gather_taps(x, out, index, weight, n, m, inner, taps, start, stop):
    """out[o, j, i] = sum over k of weight[j, k] * x[o, index[j, k], i]; the range counts (o, j)"""
    for row in range(start, stop):
        o = row // m
        j = row - o * m
        to = row * inner
        if inner == 1:
            total = weight[j * taps] * x[o * n + index[j * taps]]
            for k in range(1, taps):
                total += weight[j * taps + k] * x[o * n + index[j * taps + k]]
            out[to] = total
            continue
        at = (o * n + index[j * taps]) * inner
        v = weight[j * taps]
        for i in range(inner):
            out[to + i] = v * x[at + i]
        for k in range(1, taps):
            at = (o * n + index[j * taps + k]) * inner
            v = weight[j * taps + k]
            for i in range(inner):
                out[to + i] += v * x[at + i]


@kernel
def scatter_taps(g, out, index, weight, n, m, inner, taps, start, stop):
    """out[o, index[j, k], i] += weight[j, k] * g[o, j, i]: the transpose; the range counts o"""
    for o in range(start, stop):
        for j in range(m):
            at = (o * m + j) * inner
            for k in range(taps):
                to = (o * n + index[j * taps + k]) * inner
                v = weight[j * taps + k]
                for i in range(inner):
                    out[to + i] += v * g[at + i]
