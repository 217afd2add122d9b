"""erf, erfc, erfinv, lgamma, digamma, trigamma, i0 and i1 of one number."""

# ruff: noqa: D103, FURB136, I001 (NAME_f4 and NAME_f8 say what they are; min and max would change NaN)

from __future__ import annotations

import math

import numpy as np

from .scalar_bits import device


@device
def erf_f8(x):
    return math.erf(x)


@device
def erfc_f8(x):
    return math.erfc(x)


@device
def erf_f4(x):
    return np.float32(math.erf(np.float64(x)))


@device
def erfc_f4(x):
    return np.float32(math.erfc(np.float64(x)))


@device
def lgamma_f8(x):
    return math.lgamma(x) if x > -math.inf else math.inf


@device
def lgamma_f4(x):
    return np.float32(lgamma_f8(np.float64(x)))


@device
def erfinv_f8(x):
    w = math.log((1.0 - x) * (1.0 + x))
    t = 4.330746750799873 + 0.5 * w
    y = math.copysign(math.sqrt(math.sqrt(t * t - w / 0.147) - t), x)
    if abs(x) >= 1.0 or x != x:
        return math.copysign(math.inf, x) if abs(x) == 1.0 else math.nan
    for _ in range(8):
        e = (math.erf(y) - x) if abs(x) < 0.5 else (math.erfc(abs(y)) - (1.0 - abs(x))) * (1.0 if x < 0.0 else -1.0)
        step = e / (1.1283791670955126 * math.exp(-y * y))
        y -= step / (1.0 + y * step)
    return y


@device
def erfinv_f4(x):
    return np.float32(erfinv_f8(np.float64(x)))


@device
def digamma_f8(x):
    if x == 0.0:
        return math.copysign(math.inf, -x)
    if x < 0.0 and x == math.floor(x):
        return math.nan
    add = 0.0
    if x < 0.0:
        add = -math.pi / math.tan(math.pi * (x - math.floor(x)))
        x = 1.0 - x
    while x < 10.0:
        add -= 1.0 / x
        x += 1.0
    z = 1.0 / (x * x)
    s = z * (1 / 12 - z * (1 / 120 - z * (1 / 252 - z * (1 / 240 - z * (1 / 132 - z * 691 / 32760)))))
    return add + math.log(x) - 0.5 / x - s


@device
def digamma_f4(x):
    return np.float32(digamma_f8(np.float64(x)))


@device
def trigamma_f8(x):
    sign, add = 1.0, 0.0
    if x < 0.5:
        s = math.sin(math.pi * (x - math.floor(x)))
        add = (math.pi / s) ** 2
        x = 1.0 - x
        sign = -1.0
    t = 0.0
    while x < 10.0:
        t += 1.0 / (x * x)
        x += 1.0
    z = 1.0 / (x * x)
    t += 1 / x + z / 2 + z / x * (1 / 6 - z * (1 / 30 - z * (1 / 42 - z * (1 / 30 - z * 5 / 66))))
    return add + sign * t


@device
def trigamma_f4(x):
    return np.float32(trigamma_f8(np.float64(x)))


@device
def _bessel(x, order):
    x = abs(x)
    if x < 30.0:
        term, total, k = (0.5 * x if order else 1.0), 0.0, 1.0
        while term > total * 1e-18:
            total += term
            term *= 0.25 * x * x / (k * (k + order))
            k += 1.0
        return total
    mu, term, total, k = 4.0 * order * order, 1.0, 0.0, 1.0
    while abs(term) > 1e-17 and k < 40.0:
        total += term
        term *= -(mu - (2.0 * k - 1.0) ** 2) / (k * 8.0 * x)
        k += 1.0
    half = math.exp(0.5 * x)
    return half / math.sqrt(2.0 * math.pi * x) * total * half if x < math.inf else x


@device
def i0_f8(x):
    return _bessel(x, 0.0) if x == x else x


@device
def i1_f8(x):
    return math.copysign(_bessel(x, 1.0), x) if x == x else x


@device
def i0_f4(x):
    return np.float32(i0_f8(np.float64(x)))


@device
def i1_f4(x):
    return np.float32(i1_f8(np.float64(x)))
