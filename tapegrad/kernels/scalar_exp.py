"""Exponential functions of one number: exp, exp2, expm1, sigmoid, tanh, sinh, cosh.

All start from ``exp(x) = 2^n (1 + q)`` with a whole n and ``|q| < 0.42``. Rounding to a whole number is
the addition of a number so large that its last bit counts ones; the same bits, shifted into the
place of the exponent, are the power of two.
"""

# ruff: noqa: D103, FURB136 (NAME_f4 and NAME_f8 say what they are; min and max would change what NaN does)

from __future__ import annotations

from numpy import float32 as f4
from numpy import int32 as i4

from .jit import device
from .scalar_bits import bits_f4, bits_f8, copysign, fabs, float_f4, float_f8, fma, polynomial

# 1.5 * 2^23 and 1.5 * 2^52: adding one rounds to a whole number, kept in the lowest bits.
WHOLE_F4 = f4(12582912.0)
WHOLE_F8 = 6755399441055744.0
# 2^-63: results that may be subnormal are computed 2^64 times as large, with half of a power of two.
_SMALL_F4 = f4(1.0842021724855044e-19)
_SMALL_F8 = 1.0842021724855044e-19

# (exp(r) - 1 - r) / r^2 for |r| <= log(2)/2, and (2^r - 1) / r for |r| <= 1/2.
EXPM1_F4 = polynomial(
    f4, 0.5, 0.1666654497385025, 0.04166640341281891, 0.008366405963897705, 0.0013940650969743729
)
EXPM1_F8 = polynomial(
    float, 0.5000000000000006, 0.16666666666666685, 0.041666666666573524, 0.008333333333315015,
    0.0013888888932430427, 0.00019841269902247754, 2.4801504368766688e-05, 2.7557228576003265e-06,
    2.7626362743980766e-07, 2.5114293696314336e-08,
)  # fmt: skip
EXP2_F4 = polynomial(
    f4, 0.6931471824645996, 0.24022650718688965, 0.05550359562039375, 0.009618062525987625,
    0.001339100068435073, 0.00015462878218386322,
)  # fmt: skip
EXP2_F8 = polynomial(
    float, 0.6931471805599453, 0.2402265069591012, 0.05550410866482261, 0.00961812910759762,
    0.001333355814625542, 0.0001540353045362885, 1.5252733948786328e-05, 1.3215436713764211e-06,
    1.0178021312177177e-07, 7.073574564948544e-09, 4.460359570802567e-10,
)  # fmt: skip
# (sinh(x) - x) / x^3 in x^2 <= 1.
_SINH_F4 = polynomial(f4, 0.166667178273201, 0.00833022128790617, 0.00020376882457640022)
_SINH_F8 = polynomial(
    float, 0.16666666666666669, 0.008333333333332915, 0.00019841269841589274, 2.755731910846459e-06,
    2.5052130680575776e-08, 1.6056686591205776e-10, 7.775710127566095e-13,
)  # fmt: skip
# (tanh(x) - x) / x^3 in x^2 <= 0.36.
_TANH_F4 = polynomial(
    f4, -0.33333298563957214, 0.13331936299800873, -0.05378471687436104, 0.02079862542450428,
    -0.005897966213524342,
)  # fmt: skip
_TANH_F8 = polynomial(
    float, -0.33333333333333126, 0.13333333333299766, -0.05396825394933388, 0.021869488003303614,
    -0.008863226785996648, 0.003592037441703275, -0.00145521565959664, 0.0005871893199417875,
    -0.00023039857476241286, 7.931588529153975e-05, -1.7179646379359243e-05,
)  # fmt: skip

_LOG2E_F4, _LOG2E_F8 = f4(1.4426950408889634), 1.4426950408889634
_LN2_HIGH_F4, _LN2_LOW_F4 = f4(0.6931471824645996), f4(-1.9046542121259336e-09)
_LN2_HIGH_F8, _LN2_LOW_F8 = 0.6931471805599453, 2.3190468138462996e-17


@device
def reduce_f4(x, whole):
    """(t, exact, r) with x = n log(2) + r, where n = t - whole; exact is r before its last rounding."""
    t = fma(x, _LOG2E_F4, whole)
    n = t - whole
    exact = fma(-n, _LN2_HIGH_F4, x)
    return t, exact, fma(-n, _LN2_LOW_F4, exact)


@device
def reduce_f8(x, whole):
    t = fma(x, _LOG2E_F8, whole)
    n = t - whole
    exact = fma(-n, _LN2_HIGH_F8, x)
    return t, exact, fma(-n, _LN2_LOW_F8, exact)


@device
def _split_f4(x, whole):
    """(t, q) with exp(x) = 2^n (1 + q), where n = t - whole."""
    t, _, r = reduce_f4(x, whole)
    return t, fma(r * r, EXPM1_F4(r), r)


@device
def _split_f8(x, whole):
    t, _, r = reduce_f8(x, whole)
    return t, fma(r * r, EXPM1_F8(r), r)


@device
def power_f4(t, shift):
    """2^(n + shift) for t = n + WHOLE_F4, where the result is a normal number."""
    return float_f4(i4(bits_f4(t) << i4(23)) + i4((127 + shift) << 23))


@device
def power_f8(t, shift):
    return float_f8((bits_f8(t) << 52) + ((1023 + shift) << 52))


@device
def exp_parts_f4(x):
    """(p, h, c) with exp(x) = p h c; only the last product may overflow or be subnormal."""
    small = x < f4(-86.0)
    x = f4(-104.0) if x < f4(-104.0) else x
    x = f4(89.0) if x > f4(89.0) else x
    t, q = _split_f4(x, WHOLE_F4 + f4(64) if small else WHOLE_F4)
    return f4(1) + q, power_f4(t, -1), _SMALL_F4 if small else f4(2)


@device
def exp_parts_f8(x):
    small = x < -707.0
    x = -746.0 if x < -746.0 else x
    x = 710.0 if x > 710.0 else x
    t, q = _split_f8(x, WHOLE_F8 + 64.0 if small else WHOLE_F8)
    return 1.0 + q, power_f8(t, -1), _SMALL_F8 if small else 2.0


@device
def exp_f4(x):
    p, half, scale = exp_parts_f4(x)
    return p * half * scale


@device
def exp_f8(x):
    p, half, scale = exp_parts_f8(x)
    return p * half * scale


@device
def exp2_f4(x):
    small = x < f4(-124.0)
    whole = WHOLE_F4 + f4(64) if small else WHOLE_F4
    x = f4(-151.0) if x < f4(-151.0) else x
    x = f4(128.0) if x > f4(128.0) else x
    t = x + whole
    r = x - (t - whole)
    return fma(r, EXP2_F4(r), f4(1)) * power_f4(t, -1) * (_SMALL_F4 if small else f4(2))


@device
def exp2_f8(x):
    small = x < -1020.0
    whole = WHOLE_F8 + 64.0 if small else WHOLE_F8
    x = -1076.0 if x < -1076.0 else x
    x = 1024.0 if x > 1024.0 else x
    t = x + whole
    r = x - (t - whole)
    return fma(r, EXP2_F8(r), 1.0) * power_f8(t, -1) * (_SMALL_F8 if small else 2.0)


@device
def expm1_f4(x):
    """2^n q + (2^n - 1), with q to a little more than its last bit."""
    low = f4(-20.0) if x < f4(-20.0) else x
    t, exact, r = reduce_f4(low, WHOLE_F4)
    lost = fma(-(t - WHOLE_F4), _LN2_LOW_F4, exact - r)
    q = r + fma(r * r, EXPM1_F4(r), lost)
    # Half of 2^n: the power itself may overflow where the result does not.
    half = power_f4(t, -1)
    y = f4(2) * fma(half, q, half - f4(0.5))
    y = x if fabs(x) < f4(1e-30) else y
    return x * f4(3e38) if x > f4(88.72283935546875) else y


@device
def expm1_f8(x):
    low = -40.0 if x < -40.0 else x
    t, exact, r = reduce_f8(low, WHOLE_F8)
    lost = fma(-(t - WHOLE_F8), _LN2_LOW_F8, exact - r)
    q = r + fma(r * r, EXPM1_F8(r), lost)
    half = power_f8(t, -1)
    y = 2.0 * fma(half, q, half - 0.5)
    y = x if fabs(x) < 1e-30 else y
    return x * 1e308 if x > 709.782712893384 else y


@device
def sigmoid_f4(x):
    """1 / (1 + e) with e = exp(-x), the sum rounded once.

    Where 1 is lost beside e, it is y - y^2 with y = 1 / e; e is scaled where it would overflow.
    """
    large = x < f4(-87.0)
    lost = x < f4(-16.2)
    x = f4(-104.0) if x < f4(-104.0) else x
    x = f4(87.0) if x > f4(87.0) else x
    t, q = _split_f4(-x, WHOLE_F4 - f4(64) if large else WHOLE_F4)
    s = power_f4(t, 0)
    y = f4(1) / fma(s, q, s + (f4(0) if lost else f4(1))) * (f4(5.421010862427522e-20) if large else f4(1))
    return fma(-y, y if lost else f4(0), y)


@device
def sigmoid_f8(x):
    large = x < -708.0
    lost = x < -36.3
    x = -746.0 if x < -746.0 else x
    x = 708.0 if x > 708.0 else x
    t, q = _split_f8(-x, WHOLE_F8 - 64.0 if large else WHOLE_F8)
    s = power_f8(t, 0)
    y = 1.0 / fma(s, q, s + (0.0 if lost else 1.0)) * (5.421010862427522e-20 if large else 1.0)
    return fma(-y, y if lost else 0.0, y)


@device
def tanh_f4(x):
    """A polynomial up to 0.6, then 1 - 2 / (exp(2x) + 1)."""
    a = fabs(x)
    z = a * a
    low = fma(a * z, _TANH_F4(z), a)
    a = f4(10.0) if a > f4(10.0) else a
    t, q = _split_f4(a + a, WHOLE_F4)
    s = power_f4(t, 0)
    high = f4(1) - f4(2) / fma(s, q, s + f4(1))
    return copysign(low if a < f4(0.6) else high, x)


@device
def tanh_f8(x):
    a = fabs(x)
    z = a * a
    low = fma(a * z, _TANH_F8(z), a)
    a = 20.0 if a > 20.0 else a
    t, q = _split_f8(a + a, WHOLE_F8)
    s = power_f8(t, 0)
    high = 1.0 - 2.0 / fma(s, q, s + 1.0)
    return copysign(low if a < 0.6 else high, x)


@device
def _quarter_exp_f4(a):
    """exp(a)/4 for a >= 0, up to where exp(a)/2 overflows."""
    t, q = _split_f4(f4(89.7) if a > f4(89.7) else a, WHOLE_F4)
    quarter = power_f4(t, -2)
    return fma(quarter, q, quarter)


@device
def _quarter_exp_f8(a):
    t, q = _split_f8(710.8 if a > 710.8 else a, WHOLE_F8)
    quarter = power_f8(t, -2)
    return fma(quarter, q, quarter)


@device
def sinh_f4(x):
    a = fabs(x)
    z = a * a
    low = fma(a * z, _SINH_F4(z), a)
    e = _quarter_exp_f4(a)
    high = fma(f4(2), e, f4(-0.125) / e)
    return copysign(low if a < f4(1) else high, x)


@device
def sinh_f8(x):
    a = fabs(x)
    z = a * a
    low = fma(a * z, _SINH_F8(z), a)
    e = _quarter_exp_f8(a)
    high = fma(2.0, e, -0.125 / e)
    return copysign(low if a < 1.0 else high, x)


@device
def cosh_f4(x):
    e = _quarter_exp_f4(fabs(x))
    return fma(f4(2), e, f4(0.125) / e)


@device
def cosh_f8(x):
    e = _quarter_exp_f8(fabs(x))
    return fma(2.0, e, 0.125 / e)
