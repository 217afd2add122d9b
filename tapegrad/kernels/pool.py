"""Pooling over windows of planes (depth, height, width); the ranges count planes.

``table`` starts with the input sizes, the output sizes and the dilations (3 numbers each). Then come, for
depth, height and width, three rows per dimension over its outputs: where the window starts, where it
ends, and by how many it is divided. Starts and ends lie within the input.
"""

from __future__ import annotations

import numpy as np

from .jit import kernel


@kernel
def max_windows(x, out, index, table, start, stop):
    """out[p, t] = the largest of x[p] in window t, index[p, t] its place there; NaN wins, else the first"""
    d, h, w, od, oh, ow = table[0], table[1], table[2], table[3], table[4], table[5]
    dd, dh, dw = table[6], table[7], table[8]
    zs = 9
    ys = zs + 3 * od
    xs = ys + 3 * oh
    for p in range(start, stop):
        plane = p * d * h * w
        to = p * od * oh * ow
        for z in range(od):
            z0, z1 = table[zs + z], table[zs + od + z]
            for y in range(oh):
                y0, y1 = table[ys + y], table[ys + oh + y]
                for j in range(ow):
                    x0, x1 = table[xs + j], table[xs + ow + j]
                    place = (z0 * h + y0) * w + x0
                    best = x[plane + place]
                    for a in range(z0, z1, dd):
                        for b in range(y0, y1, dh):
                            line = (a * h + b) * w
                            for c in range(x0, x1, dw):
                                v = x[plane + line + c]
                                if v > best or v != v:
                                    best = v
                                    place = line + c
                    out[to] = best
                    index[to] = place
                    to += 1


@kernel
def mean_windows(x, out, table, divisor, start, stop):
    """out[p, t] = the sum of x[p] over window t / its divisor (the given one, unless that is 0)"""
    d, h, w, od, oh, ow = table[0], table[1], table[2], table[3], table[4], table[5]
    zs = 9
    ys = zs + 3 * od
    xs = ys + 3 * oh
    for p in range(start, stop):
        plane = p * d * h * w
        to = p * od * oh * ow
        for z in range(od):
            z0, z1 = table[zs + z], table[zs + od + z]
            for y in range(oh):
                y0, y1 = table[ys + y], table[ys + oh + y]
                count = table[zs + 2 * od + z] * table[ys + 2 * oh + y]
                for j in range(ow):
                    x0, x1 = table[xs + j], table[xs + ow + j]
                    total = np.float64(0)
                    for a in range(z0, z1):
                        for b in range(y0, y1):
                            line = plane + (a * h + b) * w
                            for c in range(x0, x1):
                                total += np.float64(x[line + c])
                    by = divisor if divisor != 0 else count * table[xs + 2 * ow + j]
                    out[to] = total / by if by != 0 else np.float64(0)
                    to += 1


@kernel
def spread_windows(g, x, table, divisor, start, stop):
    """x[p, i] += g[p, t] / divisor for all i in window t: the transpose of mean_windows"""
    d, h, w, od, oh, ow = table[0], table[1], table[2], table[3], table[4], table[5]
    zs = 9
    ys = zs + 3 * od
    xs = ys + 3 * oh
    for p in range(start, stop):
        plane = p * d * h * w
        at = p * od * oh * ow
        for z in range(od):
            z0, z1 = table[zs + z], table[zs + od + z]
            for y in range(oh):
                y0, y1 = table[ys + y], table[ys + oh + y]
                count = table[zs + 2 * od + z] * table[ys + 2 * oh + y]
                for j in range(ow):
                    x0, x1 = table[xs + j], table[xs + ow + j]
                    by = divisor if divisor != 0 else count * table[xs + 2 * ow + j]
                    part = g[at] / by
                    at += 1
                    for a in range(z0, z1):
                        for b in range(y0, y1):
                            line = plane + (a * h + b) * w
                            for c in range(x0, x1):
                                x[line + c] += part


@kernel
def add_at(g, index, out, n, size, start, stop):
    """out[p, index[p, t]] += g[p, t] for t below n; a plane of out has ``size`` elements"""
    for p in range(start, stop):
        for t in range(p * n, (p + 1) * n):
            out[p * size + index[t]] += g[t]


@kernel
def put_at(g, index, out, n, size, start, stop):
    """out[p, index[p, t]] = g[p, t] for t below n, the last one wins"""
    for p in range(start, stop):
        for t in range(p * n, (p + 1) * n):
            out[p * size + index[t]] = g[t]


@kernel
def take_at(x, index, out, n, size, start, stop):
    """out[p, t] = x[p, index[p, t]] for t below n"""
    for p in range(start, stop):
        for t in range(p * n, (p + 1) * n):
            out[t] = x[p * size + index[t]]
