"""Logarithms of one number, softplus, and the inverse hyperbolic functions.

All start from ``x = 2^k (1 + f)`` with ``sqrt(1/2) <= 1 + f < sqrt(2)``, read off the bits of x.
"""

# ruff: noqa: D103, FURB136 (NAME_f4 and NAME_f8 say what they are; min and max would change what NaN does)

from __future__ import annotations

import numpy as np
from numpy import float32 as f4
from numpy import float64 as f8
from numpy import int32 as i4

from .jit import device
from .scalar_bits import bits_f4, bits_f8, copysign, fabs, float_f4, float_f8, fma, polynomial, sqrt
from .scalar_exp import exp_parts_f4, exp_parts_f8

# (log(1 + f) - f + f^2/2) / f^3.
_LOG_F4 = polynomial(
    f4, 0.3333333134651184, -0.2500081956386566, 0.2000124305486679, -0.1662341058254242,
    0.14201536774635315, -0.13159552216529846, 0.1276252716779709, -0.07636985927820206,
)  # fmt: skip
# (log(1 + f) - 2s) / s^3 in z = s^2, where s = f / (2 + f).
_LOG_F8 = polynomial(
    float, 0.6666666666666734, 0.3999999999941651, 0.2857142874207981, 0.22222198598001597,
    0.1818356329339257, 0.15314071847117883, 0.1479577856315879,
)  # fmt: skip
# The same, good to 38 bits: what float32 results are computed with in float64.
_LOG_MIDDLE = polynomial(
    float, 0.6666666564488568, 0.4000033534186765, 0.28537297858402283, 0.23582370661628327
)

LN2_HIGH, LN2_LOW = 0.6931471805599453, 2.3190468138462996e-17
LOG2E, LOG2E_LOW = 1.4426950408889634, 2.0355273740931033e-17
_LOG10E, _LOG10E_LOW = 0.4342944819032518, 1.098319650216765e-17
_LN2_HIGH_F4, _LN2_LOW_F4 = f4(0.6931471824645996), f4(-1.9046542121259336e-09)
_LOG2E_F4, _LOG2E_LOW_F4 = f4(1.4426950216293335), f4(1.925963033500011e-08)
_LOG10E_F4, _LOG10E_LOW_F4 = f4(0.4342944920063019), f4(-1.0103049952192578e-08)
# log10(2) with so few bits that its products with exponents are exact, and the rest.
_LG2_HIGH_F4, _LG2_LOW_F4 = f4(0.301025390625), f4(4.605039066518657e-06)
_LG2_HIGH_F8, _LG2_LOW_F8 = 0.30102999566395283, 2.8363394551044964e-14


@device
def _split_f4(x):
    """(k, f) with x = 2^k (1 + f), for positive x, also subnormal."""
    small = x < f4(1.1754943508222875e-38)
    i = bits_f4(x * f4(8388608) if small else x)
    k = i4(i4(i - i4(0x3F3504F3)) >> i4(23))
    return f4(k) - (f4(23) if small else f4(0)), float_f4(i - i4(k << i4(23))) - f4(1)


@device
def split_f8(x):
    small = x < 2.2250738585072014e-308
    i = bits_f8(x * 18014398509481984.0 if small else x)
    k = (i - 0x3FE6A09E667F3BCD) >> 52
    return f8(k) - (54.0 if small else 0.0), float_f8(i - (k << 52)) - 1.0


@device
def _special_f4(x, y):
    """y, a logarithm of x, unless x is no positive finite number."""
    special = x if x > f4(0) else f4(np.nan)
    special = f4(-np.inf) if x == f4(0) else special
    return y if f4(0) < x < f4(np.inf) else special


@device
def _special_f8(x, y):
    special = x if x > 0.0 else np.nan
    special = -np.inf if x == 0.0 else special
    return y if 0.0 < x < np.inf else special


@device
def _rest_f4(f):
    """log(1 + f) - f."""
    return f * f * fma(f, _LOG_F4(f), f4(-0.5))


@device
def rest_f8(f):
    half = 0.5 * f * f
    s = f / (2.0 + f)
    z = s * s
    return fma(s, fma(z, _LOG_F8(z), half), -half)


@device
def log_f4(x):
    k, f = _split_f4(x)
    return _special_f4(x, fma(k, _LN2_HIGH_F4, f + fma(k, _LN2_LOW_F4, _rest_f4(f))))


@device
def log_f8(x):
    k, f = split_f8(x)
    return _special_f8(x, fma(k, LN2_HIGH, f + fma(k, LN2_LOW, rest_f8(f))))


@device
def log_sum_f8(x):
    """(high, low) with high + low = log(x) to about 57 bits after the point, for positive finite x."""
    k, f = split_f8(x)
    first = fma(k, LN2_HIGH, f)
    lost = f - fma(-k, LN2_HIGH, first)
    rest = rest_f8(f) + fma(k, LN2_LOW, lost)
    high = first + rest
    return high, rest - (high - first)


@device
def log2_f4(x):
    # high is k + f log2(e), rounded; lost is what the rounding cut off.
    k, f = _split_f4(x)
    high = fma(f, _LOG2E_F4, k)
    lost = fma(f, _LOG2E_F4, k - high)
    return _special_f4(x, high + (lost + fma(f, _LOG2E_LOW_F4, _rest_f4(f) * _LOG2E_F4)))


@device
def log2_f8(x):
    k, f = split_f8(x)
    high = fma(f, LOG2E, k)
    lost = fma(f, LOG2E, k - high)
    return _special_f8(x, high + (lost + fma(f, LOG2E_LOW, rest_f8(f) * LOG2E)))


@device
def log10_f4(x):
    k, f = _split_f4(x)
    whole = k * _LG2_HIGH_F4
    high = fma(f, _LOG10E_F4, whole)
    lost = fma(f, _LOG10E_F4, whole - high) + k * _LG2_LOW_F4
    return _special_f4(x, high + (lost + fma(f, _LOG10E_LOW_F4, _rest_f4(f) * _LOG10E_F4)))


@device
def log10_f8(x):
    k, f = split_f8(x)
    whole = k * _LG2_HIGH_F8
    high = fma(f, _LOG10E, whole)
    lost = fma(f, _LOG10E, whole - high) + k * _LG2_LOW_F8
    return _special_f8(x, high + (lost + fma(f, _LOG10E_LOW, rest_f8(f) * _LOG10E)))


@device
def _log1p_sum_f4(u):
    """log(1 + u) for 0 < 1 + u < inf, but +0 for -0."""
    i = bits_f4(f4(1) + u)
    k = i4(i4(i - i4(0x3F3504F3)) >> i4(23))
    scale = float_f4(i4(0x3F800000) - i4(k << i4(23)))
    f = float_f4(i - i4(k << i4(23))) - f4(1) if u > f4(1e20) else fma(scale, u, scale - f4(1))
    n = f4(k)
    return fma(n, _LN2_HIGH_F4, f + fma(n, _LN2_LOW_F4, _rest_f4(f)))


@device
def _log1p_sum_f8(u, low):
    """log(1 + u + low), where low is below the last bit of u."""
    i = bits_f8(1.0 + u)
    k = (i - 0x3FE6A09E667F3BCD) >> 52
    scale = float_f8(0x3FF0000000000000 - (k << 52))
    f = float_f8(i - (k << 52)) - 1.0 if u > 1e40 else fma(scale, u, scale - 1.0)
    # 1 - f + f^2 stands for 1 / (1 + f).
    small = scale * low * fma(f, f - 1.0, 1.0) if u < 1e40 else 0.0
    n = f8(k)
    return fma(n, LN2_HIGH, f + fma(n, LN2_LOW, rest_f8(f) + small))


@device
def log1p_f4(x):
    y = _log1p_sum_f4(x)
    y = x if x == f4(0) else y
    special = x if x > f4(-1) else f4(np.nan)
    special = f4(-np.inf) if x == f4(-1) else special
    return y if f4(-1) < x < f4(np.inf) else special


@device
def log1p_f8(x):
    y = _log1p_sum_f8(x, 0.0)
    y = x if x == 0.0 else y
    special = x if x > -1.0 else np.nan
    special = -np.inf if x == -1.0 else special
    return y if -1.0 < x < np.inf else special


@device
def softplus_f4(x):
    """log(1 + exp(x)) = max(x, 0) + log(1 + z) with z = exp(-|x|) <= 1."""
    p, half, scale = exp_parts_f4(-fabs(x))
    z = p * half * scale
    # 1 + z is 1 + f, or 2 (1 + f).
    large = z > f4(0.41421357)
    f = fma(f4(0.5), z, f4(-0.5)) if large else z
    y = f + (_rest_f4(f) + (_LN2_LOW_F4 if large else f4(0)))
    return y + (_LN2_HIGH_F4 if large else f4(0)) + (f4(0) if x < f4(0) else x)


@device
def softplus_f8(x):
    p, half, scale = exp_parts_f8(-fabs(x))
    z = p * half * scale
    large = z > 0.41421356237309503
    f = fma(0.5, z, -0.5) if large else z
    y = f + (rest_f8(f) + (LN2_LOW if large else 0.0))
    return y + (LN2_HIGH if large else 0.0) + (0.0 if x < 0.0 else x)


@device
def log_parts_middle(x):
    """(k, l) with log(x) = k log(2) + l, l good to 38 bits, for positive normal finite float64 x."""
    i = bits_f8(x)
    k = (i - 0x3FE6A09E667F3BCD) >> 52
    f = float_f8(i - (k << 52)) - 1.0
    s = f / (2.0 + f)
    z = s * s
    return f8(k), s * fma(z, _LOG_MIDDLE(z), 2.0)


@device
def log_middle(x):
    k, rest = log_parts_middle(x)
    return fma(k, LN2_HIGH, rest)


@device
def asinh_f4(x):
    a = f8(fabs(x))
    y = log_middle(a + sqrt(fma(a, a, 1.0)))
    y = y if a > 2e-4 else a
    return copysign(f4(y) if a < np.inf else f4(a), x)


@device
def asinh_f8(x):
    """log(1 + u) with u = a + (sqrt(a^2 + 1) - 1), the sum kept with what its rounding lost."""
    a = fabs(x)
    large = a > 1e18
    t = a * a / (1.0 + sqrt(fma(a, a, 1.0)))
    t = 0.0 if large else t
    u = a + t
    y = _log1p_sum_f8(u, t - (u - a)) + (LN2_HIGH if large else 0.0)
    return copysign(y if a < np.inf else a, x)


@device
def acosh_f4(x):
    a = f8(x)
    y = f4(log_middle(a + sqrt(fma(a, a, -1.0))))
    y = y if x < f4(np.inf) else x
    return y if x >= f4(1) else f4(np.nan)


@device
def acosh_f8(x):
    """log(1 + u) with u = d + sqrt(d^2 + 2d), d = x - 1."""
    large = x > 1e18
    d = x - 1.0
    t = sqrt(fma(d, d, d + d))
    t = 0.0 if large else t
    u = d + t
    y = _log1p_sum_f8(u, t - (u - d) if t < d else d - (u - t)) + (LN2_HIGH if large else 0.0)
    y = y if x < np.inf else x
    return y if x >= 1.0 else np.nan


@device
def atanh_f4(x):
    a = f8(fabs(x))
    y = 0.5 * log_middle((1.0 + a) / (1.0 - a))
    y = y if a > 2e-4 else fma(a * a, a * 0.3333333333333333, a)
    one = np.inf if a == 1.0 else np.nan
    return copysign(f4(y if a < 1.0 else one), x)


@device
def atanh_f8(x):
    """log(1 + u) / 2 with u = 2a / (1 - a), the quotient kept with what its rounding lost."""
    a = fabs(x)
    d = 1.0 - a
    d_low = (1.0 - d) - a
    u = (a + a) / d
    low = (fma(-u, d, a + a) - u * d_low) / d
    y = 0.5 * _log1p_sum_f8(u, low)
    one = np.inf if a == 1.0 else np.nan
    return copysign(y if a < 1.0 else one, x)
