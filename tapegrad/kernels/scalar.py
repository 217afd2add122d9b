"""exp, log, sin, erf, ... of one number; NAME_f4 for float32, NAME_f8 for float64."""

from __future__ import annotations

import math

import numpy as np

from . import scalar_bits as bits
from .jit import device

_fma, _sqrt, _fabs, _floor, _ceil, _trunc, _rint = bits.fma, bits.sqrt, bits.fabs, bits.floor, bits.ceil, bits.trunc, bits.rint
_copysign = bits.copysign


def _both(name, fn8, arity=1):
    f8 = device(fn8)
    if arity == 1:
        f4 = device(lambda x: np.float32(f8(np.float64(x))))
    else:
        f4 = device(lambda x, y: np.float32(f8(np.float64(x), np.float64(y))))
    globals()[f"{name}_f8"] = f8
    globals()[f"{name}_f4"] = f4


def _same(name, fn, arity=1):
    globals()[f"{name}_f4"] = device(fn)
    globals()[f"{name}_f8"] = device(fn)


_both("exp", lambda x: math.exp(x))
_both("exp2", lambda x: math.pow(2.0, x))
_both("expm1", lambda x: math.expm1(x))
_both("log", lambda x: math.log(x))
_both("log2", lambda x: math.log2(x))
_both("log10", lambda x: math.log10(x))
_both("log1p", lambda x: math.log1p(x))
_both("sin", lambda x: math.sin(x))
_both("cos", lambda x: math.cos(x))
_both("tan", lambda x: math.tan(x))
_both("asin", lambda x: math.asin(x))
_both("acos", lambda x: math.acos(x))
_both("atan", lambda x: math.atan(x))
_both("atan2", lambda y, x: math.atan2(y, x), 2)
_both("sinh", lambda x: math.sinh(x))
_both("cosh", lambda x: math.cosh(x))
_both("tanh", lambda x: math.tanh(x))
_both("asinh", lambda x: math.asinh(x))
_both("acosh", lambda x: math.acosh(x))
_both("atanh", lambda x: math.atanh(x))
_both("sigmoid", lambda x: 1.0 / (1.0 + math.exp(-x)))
_both("softplus", lambda x: (x if x > 0.0 else 0.0) + math.log1p(math.exp(-abs(x))) if x == x else x)
_both("erf", lambda x: math.erf(x))
_both("erfc", lambda x: math.erfc(x))
_both("pow", lambda x, y: math.pow(x, y), 2)
_both("lgamma", lambda x: math.lgamma(x) if x > -math.inf else math.inf)
_both("fmod", lambda x, y: np.fmod(x, y), 2)


@device
def remainder_f8(x, y):
    r = np.fmod(x, y)
    return r + y if r != 0.0 and (r < 0.0) != (y < 0.0) else r


@device
def remainder_f4(x, y):
    return np.float32(remainder_f8(np.float64(x), np.float64(y)))


_same("sqrt", lambda x: _sqrt(x))
_same("floor", lambda x: _floor(x))
_same("ceil", lambda x: _ceil(x))
_same("trunc", lambda x: _trunc(x))
_same("round", lambda x: _rint(x))
_same("copysign", lambda x, y: _copysign(x, y))
_same("maximum", lambda x, y: x if x > y or x != x else y)
_same("minimum", lambda x, y: x if x < y or x != x else y)
_same("fmax", lambda x, y: x if x > y or y != y else y)
_same("fmin", lambda x, y: x if x < y or y != y else y)
_same("isnan", lambda x: x != x)
_same("isinf", lambda x: _fabs(x) == math.inf)
_same("isfinite", lambda x: _fabs(x) < math.inf)
_both("rsqrt", lambda x: 1.0 / _sqrt(x))


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
