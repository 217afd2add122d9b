"""Sliding windows laid out as columns, and columns added back.

``geo`` holds, for depth, height and width: input size, output size, kernel size, stride, padding in front and
dilation (18 numbers). Output t and tap k meet input t * stride - padding + k * dilation; outside the input
are zeros.
"""

from __future__ import annotations

from .jit import device, kernel


@device
def _first(pad, tap, dilation, stride, size):
    """The first output whose tap does not lie before the input"""
    ahead = pad - tap * dilation
    return min(max((ahead + stride - 1) // stride, 0), size)


@device
def _end(length, pad, tap, dilation, stride, first, size):
    """One past the last output whose tap does not lie behind the input"""
    ahead = length + pad - tap * dilation
    return min(max((ahead + stride - 1) // stride, first), size)


@kernel
def columns(x, cols, geo, start, stop):
    """cols[p, k, t] = x[p, t * stride - pad + k * dilation]; the range counts planes p"""
    d, h, w, od, oh, ow = geo[0], geo[1], geo[2], geo[3], geo[4], geo[5]
    kd, kh, kw, sd, sh, sw = geo[6], geo[7], geo[8], geo[9], geo[10], geo[11]
    pd, ph, pw, dd, dh, dw = geo[12], geo[13], geo[14], geo[15], geo[16], geo[17]
    to = start * kd * kh * kw * od * oh * ow
    for plane in range(start, stop):
        for a in range(kd):
            for b in range(kh):
                for c in range(kw):
                    low = _first(pw, c, dw, sw, ow)
                    high = _end(w, pw, c, dw, sw, low, ow)
                    for r in range(od * oh):
                        z = r // oh
                        iz = z * sd - pd + a * dd
                        iy = (r - z * oh) * sh - ph + b * dh
                        if iz < 0 or iz >= d or iy < 0 or iy >= h:
                            for j in range(ow):
                                cols[to + j] = 0
                        else:
                            at = ((plane * d + iz) * h + iy) * w - pw + c * dw
                            for j in range(low):
                                cols[to + j] = 0
                            for j in range(low, high):
                                cols[to + j] = x[at + j * sw]
                            for j in range(high, ow):
                                cols[to + j] = 0
                        to += ow


@kernel
def add_columns(cols, x, geo, start, stop):
    """x[p, t * stride - pad + k * dilation] += cols[p, k, t]: the transpose of ``columns``"""
    d, h, w, od, oh, ow = geo[0], geo[1], geo[2], geo[3], geo[4], geo[5]
    kd, kh, kw, sd, sh, sw = geo[6], geo[7], geo[8], geo[9], geo[10], geo[11]
    pd, ph, pw, dd, dh, dw = geo[12], geo[13], geo[14], geo[15], geo[16], geo[17]
    at = start * kd * kh * kw * od * oh * ow
    for plane in range(start, stop):
        for a in range(kd):
            for b in range(kh):
                for c in range(kw):
                    low = _first(pw, c, dw, sw, ow)
                    high = _end(w, pw, c, dw, sw, low, ow)
                    for r in range(od * oh):
                        z = r // oh
                        iz = z * sd - pd + a * dd
                        iy = (r - z * oh) * sh - ph + b * dh
                        if iz >= 0 and iz < d and iy >= 0 and iy < h:
                            to = ((plane * d + iz) * h + iy) * w - pw + c * dw
                            for j in range(low, high):
                                x[to + j * sw] += cols[at + j]
                        at += ow


@kernel
def fold_windows(g, out, n, count, inner, size, step, start, stop):
    """out[o, w * step + k, i] += g[o, w, i, k]: windows along the middle of (outer, n, inner), added up in order"""
    for o in range(start, stop):
        for w in range(count):
            for k in range(size):
                to = (o * n + w * step + k) * inner
                at = (o * count + w) * inner * size + k
                for i in range(inner):
                    out[to + i] += g[at + i * size]
