"""Values picked by class index along the middle of (outer, n, inner) arrays, for losses over classes."""

from __future__ import annotations

from .jit import kernel


@kernel
def class_values(x, target, weight, out, bad, n, inner, ignore, weighted, start, stop):
    """out[o, j] = -weight[t] * x[o, t, j] for t = target[o, j], 0 where t is ignored

    The range counts (o, j); ``bad[0]`` becomes a target that is out of range.
    """
    for r in range(start, stop):
        t = target[r]
        out[r] = 0.0
        if t == ignore:
            continue
        if t < 0 or t >= n:
            bad[0] = t
            continue
        o = r // inner
        value = -x[(o * n + t) * inner + r - o * inner]
        out[r] = value * weight[t] if weighted else value


@kernel
def class_places(g, target, weight, out, n, inner, ignore, weighted, start, stop):
    """out[o, t, j] = -weight[t] * g[o, j] for t = target[o, j]; other elements are left as they are"""
    for r in range(start, stop):
        t = target[r]
        if t == ignore or t < 0 or t >= n:  # out of range: the forward kernel has noted it
            continue
        o = r // inner
        value = -g[r]
        out[(o * n + t) * inner + r - o * inner] = value * weight[t] if weighted else value


@kernel
def class_weights(target, weight, out, n, ignore, weighted, start, stop):
    """out[r] = weight[target[r]], 0 where the target is ignored or out of range"""
    for r in range(start, stop):
        t = target[r]
        out[r] = 0.0
        if t != ignore and 0 <= t < n:
            out[r] = weight[t] if weighted else 1.0


@kernel
def class_totals(loss, target, weight, count, out, classes, ignore, weighted, mean, start, stop):
    """count = sum of weight[target[r]] over the targets that are not ignored; out = sum of loss[r] (/ count)"""
    total, weights = 0.0, 0.0
    for r in range(start, stop):
        total += loss[r]
        t = target[r]
        if t != ignore and (not weighted or (t >= 0 and t < classes)):
            weights += weight[t] if weighted else 1.0
    count[0] = weights
    out[0] = total / weights if mean else total  # no target that counts: 0 / 0
