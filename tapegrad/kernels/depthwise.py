"""Depthwise convolution: each channel has its own few kernels, so there is no matrix product in it.

``geo`` is that of columns.py. Output channel o reads input channel o // multiple.
"""

from __future__ import annotations

import numba
import numpy as np

from .columns import _end, _first
from .jit import FLAGS, kernel


@kernel
def forward(x, weight, out, geo, channels, multiple, start, stop):
    """out[n, o, t] = sum over k of weight[o, k] * x[n, o // multiple, t * stride - pad + k * dilation]

    The range counts (n, o).
    """
    d, h, w, od, oh, ow = geo[0], geo[1], geo[2], geo[3], geo[4], geo[5]
    kd, kh, kw, sd, sh, sw = geo[6], geo[7], geo[8], geo[9], geo[10], geo[11]
    pd, ph, pw, dd, dh, dw = geo[12], geo[13], geo[14], geo[15], geo[16], geo[17]
    width = channels * multiple
    for plane in range(start, stop):
        n = plane // width
        o = plane - n * width
        source = n * channels + o // multiple
        for r in range(od * oh):
            z = r // oh
            y = r - z * oh
            line = (plane * od * oh + r) * ow
            for j in range(ow):
                out[line + j] = 0
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
                        at = ((source * d + iz) * h + iy) * w - pw + c * dw
                        v = weight[((o * kd + a) * kh + b) * kw + c]
                        if sw == 1:
                            for j in range(low, high):
                                out[line + j] += v * x[at + j]
                        else:
                            for j in range(low, high):
                                out[line + j] += v * x[at + j * sw]


@kernel
def input_adjoint(g, weight, x, geo, channels, multiple, start, stop):
    """x[n, c, t * stride - pad + k * dilation] += weight[o, k] * g[n, o, t] for all o of channel c

    x starts as zeros. The range counts (n, c).
    """
    d, h, w, od, oh, ow = geo[0], geo[1], geo[2], geo[3], geo[4], geo[5]
    kd, kh, kw, sd, sh, sw = geo[6], geo[7], geo[8], geo[9], geo[10], geo[11]
    pd, ph, pw, dd, dh, dw = geo[12], geo[13], geo[14], geo[15], geo[16], geo[17]
    for plane in range(start, stop):
        n = plane // channels
        c0 = plane - n * channels
        for m in range(multiple):
            o = c0 * multiple + m
            for r in range(od * oh):
                z = r // oh
                y = r - z * oh
                line = ((plane * multiple + m) * od * oh + r) * ow
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
                            to = ((plane * d + iz) * h + iy) * w - pw + c * dw
                            v = weight[((o * kd + a) * kh + b) * kw + c]
                            if sw == 1:
                                for j in range(low, high):
                                    x[to + j] += v * g[line + j]
                            else:
                                for j in range(low, high):
                                    x[to + j * sw] += v * g[line + j]


@numba.njit(forceinline=True, **{**FLAGS, "fastmath": {"contract", "reassoc"}})
def _dot(g, line, x, at, step, low, high):
    total = g[line] - g[line]  # a zero of the right type
    if step == 1:
        for j in range(low, high):
            total += g[line + j] * x[at + j]
    else:
        for j in range(low, high):
            total += g[line + j] * x[at + j * step]
    return total


@kernel
def weight_adjoint(x, g, weight, geo, images, channels, multiple, start, stop):
    """weight[o, k] = sum over n and t of g[n, o, t] * x[n, o // multiple, t * stride - pad + k * dilation]

    Products are added up line by line in their own type, lines in float64. The range counts o.
    """
    d, h, w, od, oh, ow = geo[0], geo[1], geo[2], geo[3], geo[4], geo[5]
    kd, kh, kw, sd, sh, sw = geo[6], geo[7], geo[8], geo[9], geo[10], geo[11]
    pd, ph, pw, dd, dh, dw = geo[12], geo[13], geo[14], geo[15], geo[16], geo[17]
    for o in range(start, stop):
        for a in range(kd):
            for b in range(kh):
                for c in range(kw):
                    low = _first(pw, c, dw, sw, ow)
                    high = _end(w, pw, c, dw, sw, low, ow)
                    total = np.float64(0)
                    for n in range(images):
                        source = n * channels + o // multiple
                        plane = n * channels * multiple + o
                        for r in range(od * oh):
                            z = r // oh
                            iz = z * sd - pd + a * dd
                            iy = (r - z * oh) * sh - ph + b * dh
                            if iz < 0 or iz >= d or iy < 0 or iy >= h or low >= high:
                                continue
                            line = (plane * od * oh + r) * ow
                            at = ((source * d + iz) * h + iy) * w - pw + c * dw
                            total += np.float64(_dot(g, line, x, at, sw, low, high))
                    weight[((o * kd + a) * kh + b) * kw + c] = total
