"""Pooling over windows of planes (depth, height, width); the ranges count planes.

Regular windows are described by ``geo``, as in columns.py. They are taken tap by tap for a whole line of outputs
at once, which vectorises. Windows of any size and place come as ``table``: input sizes, output sizes; then, for
depth, height and width, three rows per dimension over its outputs: where the window starts, where it ends, and
by how many it is divided.
"""

from __future__ import annotations

import numpy as np

from .columns import _end, _first
from .jit import device, fast, kernel


@device
def _larger(x, out, index, at, to, place, low, high, step):
    """Keep the larger of out[to + j] and x[at + j * step], and where it was; NaN wins, and the first of equals"""
    for j in range(low, high):
        v = x[at + j * step]
        best = out[to + j]
        known = index[to + j]
        take = v > best or v != v or known < 0
        out[to + j] = v if take else best
        index[to + j] = np.int32(place + j * step) if take else known


@kernel
def max_taps(x, out, index, geo, start, stop):
    """out[p, t] = the largest of x[p] in window t, index[p, t] its place there; NaN wins, else the first"""
    d, h, w, od, oh, ow = geo[0], geo[1], geo[2], geo[3], geo[4], geo[5]
    kd, kh, kw, sd, sh, sw = geo[6], geo[7], geo[8], geo[9], geo[10], geo[11]
    pd, ph, pw, dd, dh, dw = geo[12], geo[13], geo[14], geo[15], geo[16], geo[17]
    for p in range(start, stop):
        plane = p * d * h * w
        to = p * od * oh * ow
        for z in range(od):
            for y in range(oh):
                for j in range(ow):
                    out[to + j] = x[plane]
                    index[to + j] = -1
                for a in range(kd):
                    iz = z * sd - pd + a * dd
                    if iz < 0 or iz >= d:
                        continue
                    for b in range(kh):
                        iy = y * sh - ph + b * dh
                        if iy < 0 or iy >= h:
                            continue
                        for c in range(kw):
                            low = _first(pw, c, dw, sw, ow)
                            high = _end(w, pw, c, dw, sw, low, ow)
                            place = (iz * h + iy) * w - pw + c * dw
                            # Strides that are known let the loop be vectorised without gathers.
                            if sw == 1:
                                _larger(x, out, index, plane + place, to, place, low, high, 1)
                            elif sw == 2:
                                _larger(x, out, index, plane + place, to, place, low, high, 2)
                            else:
                                _larger(x, out, index, plane + place, to, place, low, high, sw)
                to += ow


@device
def _add(x, out, at, to, low, high, step):
    for j in range(low, high):
        out[to + j] += x[at + j * step]


@kernel
def mean_taps(x, out, geo, counts, divisor, start, stop):
    """out[p, t] = the sum of x[p] over window t / its divisor (the given one, unless that is 0)

    ``counts``: over depth, height and width of the outputs in turn, how many elements of a dimension count.
    """
    d, h, w, od, oh, ow = geo[0], geo[1], geo[2], geo[3], geo[4], geo[5]
    kd, kh, kw, sd, sh, sw = geo[6], geo[7], geo[8], geo[9], geo[10], geo[11]
    pd, ph, pw = geo[12], geo[13], geo[14]
    for p in range(start, stop):
        plane = p * d * h * w
        to = p * od * oh * ow
        for z in range(od):
            for y in range(oh):
                for j in range(ow):
                    out[to + j] = 0
                for a in range(max(0, pd - z * sd), min(kd, d + pd - z * sd)):
                    for b in range(max(0, ph - y * sh), min(kh, h + ph - y * sh)):
                        line = plane + ((z * sd - pd + a) * h + y * sh - ph + b) * w - pw
                        for c in range(kw):
                            low = _first(pw, c, 1, sw, ow)
                            high = _end(w, pw, c, 1, sw, low, ow)
                            if sw == 1:
                                _add(x, out, line + c, to, low, high, 1)
                            elif sw == 2:
                                _add(x, out, line + c, to, low, high, 2)
                            else:
                                _add(x, out, line + c, to, low, high, sw)
                rows = counts[z] * counts[od + y]
                for j in range(ow):
                    by = divisor if divisor != 0 else rows * counts[od + oh + j]
                    if by != 0:
                        out[to + j] = out[to + j] / by
                to += ow


@kernel
def spread_taps(g, x, geo, counts, divisor, start, stop):
    """x[p, i] += g[p, t] / divisor for all i in window t: the transpose of mean_taps"""
    d, h, w, od, oh, ow = geo[0], geo[1], geo[2], geo[3], geo[4], geo[5]
    kd, kh, kw, sd, sh, sw = geo[6], geo[7], geo[8], geo[9], geo[10], geo[11]
    pd, ph, pw = geo[12], geo[13], geo[14]
    for p in range(start, stop):
        plane = p * d * h * w
        at = p * od * oh * ow
        for z in range(od):
            for y in range(oh):
                rows = counts[z] * counts[od + y]
                for a in range(max(0, pd - z * sd), min(kd, d + pd - z * sd)):
                    for b in range(max(0, ph - y * sh), min(kh, h + ph - y * sh)):
                        line = plane + ((z * sd - pd + a) * h + y * sh - ph + b) * w - pw
                        for c in range(kw):
                            low = _first(pw, c, 1, sw, ow)
                            high = _end(w, pw, c, 1, sw, low, ow)
                            for j in range(low, high):
                                by = divisor if divisor != 0 else rows * counts[od + oh + j]
                                x[line + c + j * sw] += g[at + j] / by
                at += ow


# -- windows of any size and place -------------------------------------------------------------------


@kernel
def max_windows(x, out, index, table, start, stop):
    """out[p, t] = the largest of x[p] in window t, index[p, t] its place there; NaN wins, else the first"""
    d, h, w, od, oh, ow = table[0], table[1], table[2], table[3], table[4], table[5]
    zs = 6
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
                    for a in range(z0, z1):
                        for b in range(y0, y1):
                            line = (a * h + b) * w
                            for c in range(x0, x1):
                                v = x[plane + line + c]
                                if v > best or v != v:
                                    best = v
                                    place = line + c
                    out[to] = best
                    index[to] = place
                    to += 1


@fast("contract", "reassoc")
def _run_sum(x, first, last):
    total = x[first]
    for i in range(first + 1, last):
        total += x[i]
    return total


@kernel
def mean_windows(x, out, table, start, stop):
    """out[p, t] = the mean of x[p] over window t; lines are added up in float64"""
    d, h, w, od, oh, ow = table[0], table[1], table[2], table[3], table[4], table[5]
    zs = 6
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
                    total = np.float64(0)
                    if y1 - y0 == h and x1 - x0 == w:  # whole planes are runs
                        for a in range(z0, z1):
                            total += np.float64(_run_sum(x, plane + a * h * w, plane + (a + 1) * h * w))
                    else:
                        for a in range(z0, z1):
                            for b in range(y0, y1):
                                line = plane + (a * h + b) * w
                                total += np.float64(_run_sum(x, line + x0, line + x1))
                    out[to] = total / (
                        table[zs + 2 * od + z] * table[ys + 2 * oh + y] * table[xs + 2 * ow + j]
                    )
                    to += 1


@kernel
def spread_windows(g, x, table, start, stop):
    """x[p, i] += g[p, t] / size of window t for all i in it: the transpose of mean_windows"""
    d, h, w, od, oh, ow = table[0], table[1], table[2], table[3], table[4], table[5]
    zs = 6
    ys = zs + 3 * od
    xs = ys + 3 * oh
    for p in range(start, stop):
        plane = p * d * h * w
        at = p * od * oh * ow
        for z in range(od):
            z0, z1 = table[zs + z], table[zs + od + z]
            for y in range(oh):
                y0, y1 = table[ys + y], table[ys + oh + y]
                for j in range(ow):
                    x0, x1 = table[xs + j], table[xs + ow + j]
                    part = g[at] / (table[zs + 2 * od + z] * table[ys + 2 * oh + y] * table[xs + 2 * ow + j])
                    at += 1
                    for a in range(z0, z1):
                        for b in range(y0, y1):
                            line = plane + (a * h + b) * w
                            for c in range(x0, x1):
                                x[line + c] += part


# -- places that were remembered ---------------------------------------------------------------------


@kernel
def add_at(g, index, out, n, size, start, stop):
    """out[p, index[p, t]] += g[p, t] for t below n where index is not -1; a plane of out has ``size`` elements"""
    for p in range(start, stop):
        for t in range(p * n, (p + 1) * n):
            if index[t] >= 0:
                out[p * size + index[t]] += g[t]


@kernel(writes=("out",))
def fill_absent(index, value, out, start, stop):
    """out[t] = value[0] where index is -1"""
    for t in range(start, stop):
        if index[t] < 0:
            out[t] = value[0]


@kernel(writes=("out",))
def put_at(g, index, out, n, size, start, stop):
    """out[p, index[p, t]] = g[p, t] for t below n, the last one wins"""
    for p in range(start, stop):
        for t in range(p * n, (p + 1) * n):
            out[p * size + index[t]] = g[t]


@kernel
def take_at(x, index, out, n, size, start, stop):
    """out[p, t] = x[p, index[p, t]] for t below n, and 0 where index is -1"""
    for p in range(start, stop):
        for t in range(p * n, (p + 1) * n):
            if index[t] >= 0:
                out[t] = x[p * size + index[t]]
            else:
                out[t] = 0
