"""The normal distribution function P, as gelu needs it: x P(x) and its derivative, of one number.

With a = |x|, ``P(-a) = 2^(-1 - a q(a))``, and the density is ``P(-a) h(a)``, where q and h are smooth, so that polynomials
do: half of what an error function and an exponential would take. P is right to 4e-8, as PyTorch's gelu has it, and unlike
there keeps some digits where it is small. float64 has the plain formulas.
"""

# ruff: noqa: D103, FURB136 (NAME_f4 and NAME_f8 say what they are; min and max would change what NaN does)

from __future__ import annotations

import math

from numpy import float32 as f4

from .jit import device
from .scalar_bits import fabs, fma, polynomial
from .scalar_exp import EXP2_F4, WHOLE_F4, exp_f8, power_f4
from .scalar_special import erf_f8

# -q(a) and h(a) for a up to 5.6, weighted with P(-a). Beyond, P(-a) goes to 0 faster than it should, and is 0 before 10.
_EXPONENT = polynomial(
    f4, -1.1511052053031479, -0.45920819665694423, -0.052496178366475764, 0.007063420160714196,
    -0.00013693639833277805, -0.00018618022835461753, 3.937768845621911e-05, -2.8349125747801138e-06,
)  # fmt: skip
_DENSITY = polynomial(
    f4, 0.7978856239109543, 0.6366022247914471, 0.10910106002401614, -0.0193624709726552,
    0.00011810254539331572, 0.001070780304103912, -0.00032258280446740027, 4.5110804271496536e-05,
    -2.5878898853047284e-06,
)  # fmt: skip
_END = f4(10)
_ROOT_HALF, _BELL = math.sqrt(0.5), 1 / math.sqrt(2 * math.pi)


@device
def _below(a):
    """P(-a) for a from 0 to 10."""
    y = a * _EXPONENT(a)
    y = f4(-126) if y < f4(-126) else y  # whose power below is 0
    n = y + WHOLE_F4
    r = y - (n - WHOLE_F4)
    return power_f4(n, -1) * fma(r, EXP2_F4(r), f4(1))


@device
def gelu_f4(x):
    a = fabs(x)
    p = _below(_END if a > _END else a)
    return x * (p if x < f4(0) else f4(1) - p)


@device
def gelu_f8(x):
    return x * (erf_f8(x * _ROOT_HALF) * 0.5 + 0.5)


@device
def gelu_slope_f4(x):
    a = fabs(x)
    a = _END if a > _END else a
    p = _below(a)
    return x * (p * _DENSITY(a)) + (p if x < f4(0) else f4(1) - p)


@device
def gelu_slope_f8(x):
    return (erf_f8(x * _ROOT_HALF) * 0.5 + 0.5) + x * (exp_f8(x * x * -0.5) * _BELL)
