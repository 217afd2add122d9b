"""Convolution by way of matrix products: windows laid out as columns, and columns added back.

``geo`` holds, for depth, height and width: input size, output size, kernel size, stride, padding in front and
dilation (18 numbers). Output t and tap k meet input t * stride - padding + k * dilation; outside the input
are zeros. A block of output rows (rows count depth * height) is handled at a time.
"""

from __future__ import annotations

import numba
import numpy as np

from .jit import FLAGS, kernel


@numba.njit(forceinline=True, **FLAGS)
def _first(pad, tap, dilation, stride, size):
    """The first output whose tap does not lie before the input"""
    ahead = pad - tap * dilation
    return min(max((ahead + stride - 1) // stride, 0), size)


@numba.njit(forceinline=True, **FLAGS)
def _end(length, pad, tap, dilation, stride, first, size):
    """One past the last output whose tap does not lie behind the input"""
    ahead = length + pad - tap * dilation
    return min(max((ahead + stride - 1) // stride, first), size)


@kernel
def columns(x, cols, geo, channels, top, rows, image_step, tap_step, start, stop):
    """cols[n, c, k, t] = x[n, c, t * stride - pad + k * dilation] for output rows top .. top+rows

    x (images, channels, D, H, W); cols has rows (c, k), ``tap_step`` apart, of each image, ``image_step``
    apart. The range counts (n, c).
    """
    d, h, w, oh, ow = geo[0], geo[1], geo[2], geo[4], geo[5]
    kd, kh, kw, sd, sh, sw = geo[6], geo[7], geo[8], geo[9], geo[10], geo[11]
    pd, ph, pw, dd, dh, dw = geo[12], geo[13], geo[14], geo[15], geo[16], geo[17]
    for plane in range(start, stop):
        n = plane // channels
        to = n * image_step + (plane - n * channels) * kd * kh * kw * tap_step
        for a in range(kd):
            for b in range(kh):
                for c in range(kw):
                    low = _first(pw, c, dw, sw, ow)
                    high = _end(w, pw, c, dw, sw, low, ow)
                    for r in range(rows):
                        z = (top + r) // oh
                        iz = z * sd - pd + a * dd
                        iy = (top + r - z * oh) * sh - ph + b * dh
                        line = to + r * ow
                        if iz < 0 or iz >= d or iy < 0 or iy >= h:
                            for j in range(ow):
                                cols[line + j] = 0
                            continue
                        at = ((plane * d + iz) * h + iy) * w - pw + c * dw
                        for j in range(low):
                            cols[line + j] = 0
                        if sw == 1:
                            for j in range(low, high):
                                cols[line + j] = x[at + j]
                        else:
                            for j in range(low, high):
                                cols[line + j] = x[at + j * sw]
                        for j in range(high, ow):
                            cols[line + j] = 0
                    to += tap_step


@kernel
def add_columns(cols, x, geo, channels, top, rows, image_step, tap_step, start, stop):
    """x[n, c, t * stride - pad + k * dilation] += cols[n, c, k, t]: the transpose of ``columns``"""
    d, h, w, oh, ow = geo[0], geo[1], geo[2], geo[4], geo[5]
    kd, kh, kw, sd, sh, sw = geo[6], geo[7], geo[8], geo[9], geo[10], geo[11]
    pd, ph, pw, dd, dh, dw = geo[12], geo[13], geo[14], geo[15], geo[16], geo[17]
    for plane in range(start, stop):
        n = plane // channels
        source = n * image_step + (plane - n * channels) * kd * kh * kw * tap_step
        for a in range(kd):
            for b in range(kh):
                for c in range(kw):
                    low = _first(pw, c, dw, sw, ow)
                    high = _end(w, pw, c, dw, sw, low, ow)
                    for r in range(rows):
                        z = (top + r) // oh
                        iz = z * sd - pd + a * dd
                        iy = (top + r - z * oh) * sh - ph + b * dh
                        if iz < 0 or iz >= d or iy < 0 or iy >= h:
                            continue
                        line = source + r * ow
                        to = ((plane * d + iz) * h + iy) * w - pw + c * dw
                        if sw == 1:
                            for j in range(low, high):
                                x[to + j] += cols[line + j]
                        else:
                            for j in range(low, high):
                                x[to + j * sw] += cols[line + j]
                    source += tap_step


@kernel
def add_channels(out, bias, channels, n, start, stop):
    """out[image, c, :n] += bias[c]; the range counts (image, c)"""
    for r in range(start, stop):
        b = bias[r % channels]
        base = r * n
        for j in range(n):
            out[base + j] += b


@numba.njit(forceinline=True, **{**FLAGS, "fastmath": {"contract", "reassoc"}})
def _line_sum(x, first, last):
    total = x[first]
    for i in range(first + 1, last):
        total += x[i]
    return total


@kernel
def sum_channels(x, out, images, channels, n, start, stop):
    """out[c] = sum over images and positions of x[image, c, :n], blocks of 256 added up in float64"""
    for c in range(start, stop):
        total = np.float64(0)
        for i in range(images):
            base = (i * channels + c) * n
            at = 0
            while at < n:
                end = min(at + 256, n)
                total += np.float64(_line_sum(x, base + at, base + end))
                at = end
        out[c] = total
