"""exp, log, sin, erf, pow, ... of one number: NAME_f4 for float32, NAME_f8 for float64.

Branch-free, so that LLVM turns a loop over them into vector instructions: selections instead of
branches, polynomials instead of tables. NaN gives NaN; infinities, signed zeros and subnormal
numbers are exact. docs/accuracy.md lists the largest errors.
"""

# ruff: noqa: D103, F401, FURB136, I001 (re-exports in compact lists; min and max would change what NaN does)

from __future__ import annotations

import numpy as np
from numpy import float32 as f4
from numpy import float64 as f8

from .jit import device
from .scalar_bits import ceil, copysign, fabs, floor, fma, maximum, minimum, rarely, rint, sqrt, trunc
from .scalar_exp import (
    cosh_f4, cosh_f8, exp_f4, exp_f8, exp2_f4, exp2_f8, expm1_f4, expm1_f8, sigmoid_f4, sigmoid_f8,
    sinh_f4, sinh_f8, tanh_f4, tanh_f8,
)  # fmt: skip
from .scalar_log import (
    acosh_f4, acosh_f8, asinh_f4, asinh_f8, atanh_f4, atanh_f8, log_f4, log_f8, log10_f4, log10_f8,
    log1p_f4, log1p_f8, log2_f4, log2_f8, softplus_f4, softplus_f8,
)  # fmt: skip
from .scalar_normal import gelu_f4, gelu_f8, gelu_slope_f4, gelu_slope_f8
from .scalar_pow import pow_f4, pow_f8
from .scalar_gamma import digamma_f4, digamma_f8, lgamma_f4, lgamma_f8, trigamma_f4, trigamma_f8
from .scalar_special import (
    erf_f4, erf_f8, erfc_f4, erfc_f8, erfinv_f4, erfinv_f8, i0_f4, i0_f8, i1_f4, i1_f8,
)  # fmt: skip
from .scalar_trig import (
    acos_f4, acos_f8, asin_f4, asin_f8, atan_f4, atan_f8, atan2_f4, atan2_f8, cos_f4, cos_f8, sin_f4,
    sin_f8, tan_f4, tan_f8,
)  # fmt: skip


def _both(fn):
    """The same text for both dtypes."""
    return device(fn), device(fn)


floor_f4, floor_f8 = _both(lambda x: floor(x))
ceil_f4, ceil_f8 = _both(lambda x: ceil(x))
trunc_f4, trunc_f8 = _both(lambda x: trunc(x))
round_f4, round_f8 = _both(lambda x: rint(x))  # half to even
sqrt_f4, sqrt_f8 = _both(lambda x: sqrt(x))
copysign_f4, copysign_f8 = _both(lambda x, y: copysign(x, y))
isnan_f4, isnan_f8 = _both(lambda x: x != x)
isinf_f4, isinf_f8 = _both(lambda x: fabs(x) == np.inf)
isfinite_f4, isfinite_f8 = _both(lambda x: fabs(x) < np.inf)
# NaN wins.
maximum_f4, maximum_f8 = _both(lambda x, y: maximum(x, y))
minimum_f4, minimum_f8 = _both(lambda x, y: minimum(x, y))
# NaN loses.
fmax_f4, fmax_f8 = _both(lambda x, y: (x if x > y else y) if y == y else x)
fmin_f4, fmin_f8 = _both(lambda x, y: (x if x < y else y) if y == y else x)


@device
def rsqrt_f4(x):
    return f4(1) / sqrt(x)


@device
def rsqrt_f8(x):
    return 1.0 / sqrt(x)


@device
def _fmod_long(x, y):
    """fmod where the quotient has more bits than a float: exact steps by multiples of 2^k y."""
    rest, divisor = fabs(x), fabs(y)
    while rest >= divisor:
        scaled = divisor
        while scaled * 1099511627776.0 <= rest:  # 2^40
            scaled *= 1099511627776.0
        left = fma(-floor(rest / scaled), scaled, rest)
        rest = left + scaled if left < 0.0 else left
    return copysign(rest, x)


_rare_fmod_f8 = rarely("fmod_f8", lambda x, y: _fmod_long(x, y), "d", 2)
_rare_fmod_f4 = rarely("fmod_f4", lambda x, y: f4(_fmod_long(f8(x), f8(y))), "f", 2)


@device
def fmod_f4(x, y):
    """x - trunc(x / y) y without rounding, with the sign of x."""
    a, b = fabs(x), fabs(y)
    q = trunc(a / b)
    r = fma(-q, b, a)
    r = r + b if r < f4(0) else r  # the quotient was rounded up to a whole number
    r = a if a < b else r
    long = (q > f4(8388608)) & (a < f4(np.inf)) & (b > f4(0))
    return _rare_fmod_f4(x if long else f4(0), y, copysign(r, x))


@device
def fmod_f8(x, y):
    a, b = fabs(x), fabs(y)
    q = trunc(a / b)
    r = fma(-q, b, a)
    r = r + b if r < 0.0 else r
    r = a if a < b else r
    long = (q > 4503599627370496.0) & (a < np.inf) & (b > 0.0)
    return _rare_fmod_f8(x if long else 0.0, y, copysign(r, x))


@device
def remainder_f4(x, y):
    """x - floor(x / y) y: the sign is that of y."""
    r = fmod_f4(x, y)
    return r + y if ((r < f4(0)) != (y < f4(0))) & (r != f4(0)) else r


@device
def remainder_f8(x, y):
    r = fmod_f8(x, y)
    return r + y if ((r < 0.0) != (y < 0.0)) & (r != 0.0) else r
