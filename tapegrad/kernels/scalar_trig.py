"""Trigonometric functions of one number and their inverses.

An angle is reduced to ``|r| <= pi/4`` by subtracting a whole number of quarter turns, with pi/2 as the
sum of three floats. That is good enough up to the limits below. Beyond, where one unit in the last
place may be many turns, a slow exact reduction takes over; it is called rarely.
"""

# ruff: noqa: D103, FURB136, I001 (names say what they are; min and max would change what NaN does)

from __future__ import annotations

import numpy as np
from numpy import float32 as f4
from numpy import float64 as f8
from numpy import int32 as i4
from numpy import int64 as i8
from numpy import uint64 as u8

from .scalar_bits import (
    bits_f4, bits_f8, copysign, device, fabs, float_f4, float_f8, fma, polynomial, product_f8, rarely,
    sqrt,
)  # fmt: skip
from .scalar_exp import WHOLE_F4, WHOLE_F8

# (sin(r) - r) / r^3 and (cos(r) - 1 + r^2/2) / r^4 in r^2.
_SIN_F4 = polynomial(f4, -0.16666655242443085, 0.008332191035151482, -0.00019518598855938762)
_COS_F4 = polynomial(f4, 0.04166664555668831, -0.0013887309469282627, 2.4432327336398885e-05)
_SIN_F8 = polynomial(
    float, -0.16666666666666632, 0.008333333333322472, -0.00019841269829835677, 2.7557313697335097e-06,
    -2.5050758487985785e-08, 1.5896796219616435e-10,
)  # fmt: skip
_COS_F8 = polynomial(
    float, 0.041666666666666595, -0.0013888888888873325, 2.4801587288983695e-05, -2.755731421008287e-07,
    2.0875704272361254e-09, -1.1358683411548979e-11,
)  # fmt: skip
# (asin(x) - x) / x^3 in x^2 <= 1/4.
_ASIN_F4 = polynomial(
    f4, 0.16666753590106964, 0.07495249062776566, 0.04547666758298874, 0.02414805069565773,
    0.04221999645233154,
)  # fmt: skip
_ASIN_F8 = polynomial(
    float, 0.16666666666666763, 0.07499999999970113, 0.044642857175277606, 0.030381942675558975,
    0.02237221590042006, 0.01735159556623577, 0.013981018056044675, 0.011397294809294705,
    0.010789321815438287, 0.0036721473430851802, 0.021790815683665216, -0.02111705548134909,
    0.032702427357418115,
)  # fmt: skip
# (atan(x) - x) / x^3 in x^2, up to 1 for float32 and up to tan(pi/8)^2 for float64.
_ATAN_F4 = polynomial(
    f4, -0.33333298563957214, 0.1999852955341339, -0.14264015853405, 0.10950878262519836,
    -0.0839928537607193, 0.057880647480487823, -0.031095728278160095, 0.010867662727832794,
    -0.0017824999522417784,
)  # fmt: skip
_ATAN_F8 = polynomial(
    float, -0.333333333333332, 0.19999999999953802, -0.1428571428021804, 0.11111110784532381,
    -0.09090897788469035, 0.07692060757872668, -0.06663110149781556, 0.05847933006061654,
    -0.050394980713674514, 0.038069380337226046, -0.017912387462860994,
)  # fmt: skip

_2_PI = 0.6366197723675814
_A4, _B4, _C4 = f4(1.5707963705062866), f4(-4.371138828673793e-08), f4(-1.7151245100058819e-15)
_A8, _B8, _C8 = 1.5707963267948966, 6.123233995736766e-17, -1.4973849048591698e-33
_LIMIT_F4 = f4(1e5)
_LIMIT_F8 = 1e9


@device
def _reduce_f4(a):
    """(q, r): a = q pi/2 + r, for 0 <= a <= 1e5; the quadrant is the last two bits of q."""
    t = fma(a, f4(_2_PI), WHOLE_F4)
    n = t - WHOLE_F4
    return bits_f4(t), fma(-n, _C4, fma(-n, _B4, fma(-n, _A4, a)))


@device
def _reduce_low_f4(a):
    """(q, r, low): a = q pi/2 + r + low, where low is below the last bit of r."""
    t = fma(a, f4(_2_PI), WHOLE_F4)
    n = t - WHOLE_F4
    exact = fma(-n, _A4, a)
    p = fma(n, _B4, f4(0))
    r = exact - p
    back = r - exact
    lost = ((exact - (r - back)) - (p + back)) - fma(n, _B4, -p)
    return bits_f4(t), r, fma(-n, _C4, lost)


@device
def _reduce_f8(a):
    t = fma(a, _2_PI, WHOLE_F8)
    n = t - WHOLE_F8
    exact = fma(-n, _A8, a)
    r = fma(-n, _B8, exact)
    # What r lost by rounding. The difference is exact if n B is less than half of exact.
    lost = fma(-n, _B8, exact - r) if fabs(exact) > n * 1.3e-16 else 0.0
    return bits_f8(t), r, fma(-n, _C8, lost)


# 2/pi in words of 64 bits, the first for what is before the point.
_WORDS = np.array(
    [
        0x0000000000000000, 0xA2F9836E4E441529, 0xFC2757D1F534DDC0, 0xDB6295993C439041, 0xFE5163ABDEBBC561,
        0xB7246E3A424DD2E0, 0x06492EEA09D1921C, 0xFE1DEB1CB129A73E, 0xE88235F52EBB4484, 0xE99C7026B45F7E41,
        0x3991D639835339F4, 0x9C845F8BBDF9283B, 0x1FF897FFDE05980F, 0xEF2F118B5A0A6D1F, 0x6D367ECF27CB09B7,
        0x4F463F669E5FEA2D, 0x7527BAC7EBE5F17B, 0x3D0739F78A5292EA, 0x6BFB5FB11F8D5D08, 0x56033046FC7B6BAB,
    ],
    dtype=np.uint64,
)  # fmt: skip


@device
def _high_product(a, b):
    """Upper 64 bits of the product of two words."""
    half, mask = u8(32), u8(0xFFFFFFFF)
    low = (a & mask) * (b & mask)
    one = (a >> half) * (b & mask) + (low >> half)
    two = (a & mask) * (b >> half) + (one & mask)
    return (a >> half) * (b >> half) + (one >> half) + (two >> half)


@device
def _window(start):
    """64 bits of 2/pi from bit ``start``."""
    k, shift = start >> 6, u8(start & 63)
    return (_WORDS[k] << shift) | ((_WORDS[k + 1] >> u8(1)) >> (u8(63) - shift))


@device
def _reduce_large(a):
    """(q, r, low) as above, for any finite a >= 2^16.

    a = m 2^e with a whole m. Bits of 2/pi that give multiples of 4 are skipped; m times the
    next 192 bits, modulo 2^192, has the quadrant in its first two bits.
    """
    bits = bits_f8(a)
    m = u8((bits & 0xFFFFFFFFFFFFF) | 0x10000000000000)
    start = ((bits >> 52) - 1075) - 2 + 64
    w0, w1, w2 = _window(start), _window(start + 64), _window(start + 128)
    low = m * w1
    one = low + _high_product(m, w2)
    two = m * w0 + _high_product(m, w1) + u8(one < low)
    q = i8((two + u8(0x2000000000000000)) >> u8(62))
    two = two - (u8(q) << u8(62))
    # The signed fraction in pieces that are exact, and their sum as two floats.
    p3 = f8(i8(two) >> 32) * 4294967296.0
    p2 = f8(two & u8(0xFFFFFFFF))
    p1 = f8(one >> u8(32)) * 2.3283064365386963e-10
    p0 = f8(one & u8(0xFFFFFFFF)) * 5.421010862427522e-20
    s = p3 + p2
    e = p2 - (s - p3)
    t = s + p1
    back = t - s
    e = e + ((s - (t - back)) + (p1 - back)) + p0
    high = t + e
    rest = e - (high - t)
    unit = 2.168404344971009e-19  # 2^-62
    high, rest = high * unit, rest * unit
    r = product_f8(high, _A8)
    left = fma(high, _A8, -r) + fma(high, _B8, rest * _A8)
    final = r + left
    return q, final, left - (final - r)


@device
def _sine_f4(r, z):
    return fma(r * z, _SIN_F4(z), r)


@device
def _cosine_f4(z):
    return fma(z * z, _COS_F4(z), fma(f4(-0.5), z, f4(1)))


@device
def _sine_f8(r, low, z):
    return r + fma(r * z, _SIN_F8(z), low * fma(-0.5, z, 1.0))


@device
def _cosine_f8(r, low, z):
    half = 0.5 * z
    w = 1.0 - half
    return w + (fma(z * z, _COS_F8(z), -r * low) + ((1.0 - w) - half))


@device
def _turn_f4(q, r):
    """sin(q pi/2 + r)."""
    z = r * r
    y = _cosine_f4(z) if q & i4(1) else _sine_f4(r, z)
    return float_f4(bits_f4(y) ^ i4(i4(q & i4(2)) << i4(30)))


@device
def turn_f8(q, r, low):
    z = r * r
    y = _cosine_f8(r, low, z) if q & 1 else _sine_f8(r, low, z)
    return float_f8(bits_f8(y) ^ ((q & 2) << 62))


@device
def _quotient(q, s, s_low, c, c_low, one):
    """(s + s_low) / (c + c_low), or for odd q minus the reciprocal; the lows are below the last bits."""
    odd = q & 1
    top, top_low = -c if odd else s, -c_low if odd else s_low
    base, base_low = s if odd else c, s_low if odd else c_low
    inverse = one / base
    y = top * inverse
    return fma(fma(-y, base, top) + (top_low - y * base_low), inverse, y)


@device
def tangent_f8(q, r, low):
    """tan(q pi/2 + r + low)."""
    z = r * r
    half = 0.5 * z
    w = 1.0 - half
    u = fma(r * z, _SIN_F8(z), low * w)
    v = fma(z * z, _COS_F8(z), -r * low) + ((1.0 - w) - half)
    s, c = r + u, w + v
    return _quotient(q, s, (r - s) + u, c, (w - c) + v, 1.0)


@device
def _sin_large(x):
    q, r, low = _reduce_large(fabs(x))
    y = turn_f8(q, r, low)
    return -y if x < 0.0 else y


@device
def _cos_large(x):
    q, r, low = _reduce_large(fabs(x))
    return turn_f8(q + 1, r, low)


@device
def _tan_large(x):
    q, r, low = _reduce_large(fabs(x))
    y = tangent_f8(q, r, low)
    return -y if x < 0.0 else y


_rare_sin_f8 = rarely("sin_f8", lambda x: _sin_large(x), "d")
_rare_cos_f8 = rarely("cos_f8", lambda x: _cos_large(x), "d")
_rare_tan_f8 = rarely("tan_f8", lambda x: _tan_large(x), "d")
_rare_sin_f4 = rarely("sin_f4", lambda x: f4(_sin_large(f8(x))), "f")
_rare_cos_f4 = rarely("cos_f4", lambda x: f4(_cos_large(f8(x))), "f")
_rare_tan_f4 = rarely("tan_f4", lambda x: f4(_tan_large(f8(x))), "f")


@device
def _usual_f4(x):
    """(|x|, but NaN for infinity; x if the slow reduction is needed, else 0)."""
    a = fabs(x)
    return x - x + a if a > _LIMIT_F4 else a, x if _LIMIT_F4 < a < f4(np.inf) else f4(0)


@device
def _usual_f8(x):
    a = fabs(x)
    return x - x + a if a > _LIMIT_F8 else a, x if _LIMIT_F8 < a < np.inf else 0.0


@device
def _with_sign_f4(y, x):
    """y, negated if x has a minus sign."""
    return float_f4(bits_f4(y) ^ (bits_f4(x) & i4(-0x80000000)))


@device
def _with_sign_f8(y, x):
    return float_f8(bits_f8(y) ^ (bits_f8(x) & -0x8000000000000000))


@device
def sin_f4(x):
    a, large = _usual_f4(x)
    q, r = _reduce_f4(a)
    return _rare_sin_f4(large, _with_sign_f4(_turn_f4(q, r), x))


@device
def sin_f8(x):
    a, large = _usual_f8(x)
    q, r, low = _reduce_f8(a)
    return _rare_sin_f8(large, _with_sign_f8(turn_f8(q, r, low), x))


@device
def cos_f4(x):
    a, large = _usual_f4(x)
    q, r = _reduce_f4(a)
    return _rare_cos_f4(large, _turn_f4(i4(q + i4(1)), r))


@device
def cos_f8(x):
    a, large = _usual_f8(x)
    q, r, low = _reduce_f8(a)
    return _rare_cos_f8(large, turn_f8(q + 1, r, low))


@device
def tan_f4(x):
    a, large = _usual_f4(x)
    q, r, low = _reduce_low_f4(a)
    z = r * r
    half = f4(0.5) * z
    w = f4(1) - half
    u = fma(r * z, _SIN_F4(z), low * w)
    v = fma(z * z, _COS_F4(z), -r * low) + ((f4(1) - w) - half)
    s, c = r + u, w + v
    y = _quotient(q, s, (r - s) + u, c, (w - c) + v, f4(1))
    return _rare_tan_f4(large, _with_sign_f4(y, x))


@device
def tan_f8(x):
    a, large = _usual_f8(x)
    q, r, low = _reduce_f8(a)
    return _rare_tan_f8(large, _with_sign_f8(tangent_f8(q, r, low), x))


@device
def asin_f4(x):
    """A polynomial up to 1/2; beyond, asin(a) = pi/2 - 2 asin(sqrt((1 - a) / 2))."""
    a = fabs(x)
    large = a > f4(0.5)
    z = fma(f4(-0.5), a, f4(0.5)) if large else a * a
    s = sqrt(z) if large else a
    rest = s * z * _ASIN_F4(z)
    y = _A4 - (f4(2) * s + (f4(2) * rest - _B4)) if large else s + rest
    return copysign(y, x)


@device
def asin_f8(x):
    a = fabs(x)
    large = a > 0.5
    z = fma(-0.5, a, 0.5) if large else a * a
    s = sqrt(z) if large else a
    rest = s * z * _ASIN_F8(z)
    y = _A8 - (2.0 * s + (2.0 * rest - _B8)) if large else s + rest
    return copysign(y, x)


@device
def acos_f4(x):
    a = fabs(x)
    large = a > f4(0.5)
    z = fma(f4(-0.5), a, f4(0.5)) if large else a * a
    s = sqrt(z) if large else x
    rest = s * z * _ASIN_F4(z)
    near = f4(2) * (s + rest)
    far = f4(2) * _A4 - (f4(2) * s + (f4(2) * rest - f4(2) * _B4))
    return (near if x > f4(0) else far) if large else _A4 - (s + (rest - _B4))


@device
def acos_f8(x):
    a = fabs(x)
    large = a > 0.5
    z = fma(-0.5, a, 0.5) if large else a * a
    s = sqrt(z) if large else x
    rest = s * z * _ASIN_F8(z)
    near = 2.0 * (s + rest)
    far = 2.0 * _A8 - (2.0 * s + (2.0 * rest - 2.0 * _B8))
    return (near if x > 0.0 else far) if large else _A8 - (s + (rest - _B8))


@device
def atan_f4(x):
    a = fabs(x)
    large = a > f4(1)
    t = f4(-1) / a if large else a
    z = t * t
    rest = t * z * _ATAN_F4(z)
    return copysign(_A4 + (t + (rest + _B4)) if large else t + rest, x)


@device
def _arc_f8(above, below):
    """The angle in [0, pi/2] of a point in the first quadrant: atan(above / below)."""
    # Turned by 0, pi/4 or pi/2 so that the tangent is at most tan(pi/8).
    small = above <= below * 0.41421356237309503
    large = above * 0.41421356237309503 > below
    top = above if small else (-below if large else above - below)
    base = below if small else (above if large else above + below)
    t = top / base
    z = t * t
    rest = t * z * _ATAN_F8(z)
    turn = 0.0 if small else (_A8 if large else 0.5 * _A8)
    turn_low = 0.0 if small else (_B8 if large else 0.5 * _B8)
    return turn + (t + (rest + turn_low))


@device
def atan_f8(x):
    return copysign(_arc_f8(fabs(x), 1.0), x)


@device
def atan2_f4(y, x):
    """The angle of the point (x, y), in [-pi, pi]; signs of zero count."""
    a, b = fabs(x), fabs(y)
    steep = b > a
    t = (a if steep else b) / (b if steep else a)
    t = f4(0) if b == f4(0) else t  # also at the origin
    t = t if t == t else f4(1)  # infinity by infinity; NaN is put back below
    z = t * t
    rest = t * z * _ATAN_F4(z)
    # The angle in the first quadrant is t or pi/2 - t; left of the y axis it is pi - angle.
    left = bits_f4(x) < i4(0)
    turn = f4(1) if steep else (f4(2) if left else f4(0))
    sign = f4(-1) if steep != left else f4(1)
    angle = turn * _A4 + (sign * t + (sign * rest + turn * _B4))
    angle = angle if x == x else x
    return copysign(angle if y == y else y, y)


@device
def atan2_f8(y, x):
    a, b = fabs(x), fabs(y)
    # Scaled so that sums are finite and comparisons precise.
    most = a if a > b else b
    scale = 0.25 if most > 1e300 else (1.6069380442589903e60 if most < 1e-200 else 1.0)
    same = 1.0 if most > 0.0 else 0.0
    equal = a == b
    angle = _arc_f8(same if equal else b * scale, 1.0 if equal else a * scale)
    angle = 2.0 * _A8 - (angle - 2.0 * _B8) if bits_f8(x) < 0 else angle
    angle = angle if x == x else x
    return copysign(angle if y == y else y, y)
