"""pow of two numbers: 2^(y log2|x|), the logarithm and the product with more digits than the result.

Special cases are those of C and IEEE 754: x^0 = 1^y = 1 even for NaN, (-1)^(+-inf) = 1, a
negative x gives NaN unless y is whole, and the signs of -0 and -inf count for odd y.
"""

# ruff: noqa: D103, FURB136 (NAME_f4 and NAME_f8 say what they are; min and max would change what NaN does)

from __future__ import annotations

import numpy as np
from numpy import float32 as f4
from numpy import float64 as f8

from .jit import device
from .scalar_bits import bits_f4, bits_f8, fabs, floor, fma, polynomial, product_f8
from .scalar_exp import EXP2_F8, WHOLE_F8, power_f8
from .scalar_log import LOG2E, LOG2E_LOW, log_parts_middle, split_f8

# (log(1 + f) - 2s - 2/3 s^3) / s^5 in z = s^2, where s = f / (2 + f).
_LOG_TAIL = polynomial(
    float, 0.3999999999999998, 0.28571428571443847, 0.22222222217787516, 0.18181818844340694,
    0.15384558401006765, 0.1333626567243844, 0.1167575501905328, 0.11981980335223376,
)  # fmt: skip
_2_3, _2_3_LOW = 0.6666666666666666, 3.700743415417188e-17
# (2^r - 1) / r, good to 29 bits.
_EXP2_MIDDLE = polynomial(
    float, 0.6931472063379381, 0.24022651346484492, 0.05550327592435524, 0.009618003686440996,
    0.001340035011436097, 0.00015476377088974628,
)  # fmt: skip


@device
def _log2_sum(x):
    """(high, low) with high + low = log2(x) to 65 bits, for positive finite x."""
    k, f = split_f8(x)
    d = 2.0 + f
    d_low = f - (d - 2.0)
    s = f / d
    s_low = fma(-s, d_low, fma(-s, d, f)) / d
    z = s * s
    z_low = fma(s, s, -z) + 2.0 * s * s_low
    # log(1 + f) = 2s + s z w.
    tail = _LOG_TAIL(z)
    w = fma(z, tail, _2_3)
    w_low = fma(z, tail, _2_3 - w) + _2_3_LOW
    v = z * w
    v_low = fma(z, w, -v) + fma(z, w_low, z_low * w)
    u = product_f8(s, v)
    u_low = fma(s, v, -u) + fma(s, v_low, s_low * v)
    high = 2.0 * s + u
    low = ((2.0 * s - high) + u) + fma(2.0, s_low, u_low)
    p = product_f8(high, LOG2E)
    p_low = fma(high, LOG2E, -p) + fma(high, LOG2E_LOW, low * LOG2E)
    y = k + p
    return y, ((k - y) + p) + p_low


@device
def pow_f8(x, y):
    a = fabs(x)
    high, low = _log2_sum(a)
    special = -np.inf if a == 0.0 else a
    high = high if 0.0 < a < np.inf else special
    t = y * high
    t_low = fma(y, high, -t) + y * low
    exponent = -1080.0 if t < -1080.0 else t
    exponent = 1025.0 if t > 1025.0 else exponent
    t_low = t_low if exponent == t else 0.0
    exponent = 0.0 if a == 1.0 else exponent
    small = exponent < -1020.0
    offset = WHOLE_F8 + 64.0 if small else WHOLE_F8
    n = exponent + offset
    r = (exponent - (n - offset)) + t_low
    p = fma(r, EXP2_F8(r), 1.0) * power_f8(n, -1) * (1.0842021724855044e-19 if small else 2.0)
    whole = floor(y) == y
    half = 0.5 * y
    odd = whole & (floor(half) != half)
    p = -p if odd & (bits_f8(x) < 0) else p
    p = np.nan if (not whole) & (x < 0.0) & (x > -np.inf) else p
    return 1.0 if (x == 1.0) | (y == 0.0) else p


@device
def pow_f4(x, y):
    a = f8(fabs(x))
    b = f8(y)
    k, rest = log_parts_middle(a)
    log = fma(rest, LOG2E, k)
    special = -np.inf if a == 0.0 else a
    log = log if 0.0 < a < np.inf else special
    t = b * log
    t = -200.0 if t < -200.0 else t
    t = 200.0 if t > 200.0 else t
    t = 0.0 if a == 1.0 else t
    n = t + WHOLE_F8
    r = t - (n - WHOLE_F8)
    p = f4(fma(r, _EXP2_MIDDLE(r), 1.0) * power_f8(n, 0))
    whole = floor(y) == y
    half = f4(0.5) * y
    odd = whole & (floor(half) != half)
    p = -p if odd & (bits_f4(x) < 0) else p
    p = f4(np.nan) if (not whole) & (x < f4(0)) & (x > f4(-np.inf)) else p
    return f4(1) if (x == f4(1)) | (y == f4(0)) else p
