"""lgamma, digamma and trigamma of one number.

Positive numbers go through three branch-free pieces: near 0 the pole is taken off, from 1/2 to 4 a
polynomial in log(x) (in which the poles of gamma are far away) is multiplied by the known zeros, and
beyond comes the expansion of Stirling. Negative numbers are reflected; that is called rarely.
Near the zeros of lgamma and digamma at negative numbers only the absolute error is small.
"""

# ruff: noqa: D103 (names say what they are)

from __future__ import annotations

import numpy as np
from numpy import float32 as f4
from numpy import float64 as f8

from .jit import device
from .scalar_bits import copysign, fabs, floor, fma, polynomial, product_f8, rarely, rint
from .scalar_log import log_middle, log_sum_f8
from .scalar_trig import tangent_f8, turn_f8

# lgamma(1 + x) / x in x <= 1/2.
_LG_SMALL_F4 = polynomial(
    float, -0.5772146051706035, 0.8224211133166212, -0.399964720968207, 0.2649151805714759,
    -0.18210839313868837, 0.10172620611936173, -0.03077220285889522,
)  # fmt: skip
_LG_SMALL_F8 = polynomial(
    float, -0.5772156649015041, 0.8224670334190647, -0.40068563406064117, 0.2705807974421312,
    -0.20738532560420692, 0.16955410966954412, -0.14402071008760398, 0.12530861229045126,
    -0.1103084315761553, 0.0961652302132192, -0.07950709344011268, 0.057921398365382265,
    -0.03343055370094693, 0.013073049743452903, -0.0025235489119352235,
)  # fmt: skip
# lgamma(x) / ((x - 1) (x - 2)) in log(x), 1/2 <= x <= 4.
_LG_MIDDLE_F4 = polynomial(
    float, 0.5772156651444433, -0.24525136814832477, 0.032808568292566356, -0.0005875030293368836,
    -2.950851956799818e-05, 4.138907507181528e-05, -2.8730703487408322e-05, -1.5643073392451881e-06,
    2.8852210043311593e-06, -4.3054555923353274e-07,
)  # fmt: skip
_LG_FIRST = 0.5772156649015329
_LG_MIDDLE_F8 = polynomial(
    float, -0.24525136852258037, 0.032808581602660376, -0.0005875047869803404, -2.9623982030139784e-05,
    4.1475253992116725e-05, -2.8424573534250522e-05, -1.9530050419631257e-06, 2.734679933640454e-06,
    2.6408116970112063e-08, -2.3077267832605357e-07, 8.40275070730529e-09, 2.0018372649074052e-08,
    -1.5324311238859668e-09, -1.8419808510509058e-09, 2.2155427432217886e-10, 1.720030149943914e-10,
    -4.0985044543715227e-11, -4.671182723257129e-12, 1.757810322000951e-12,
)  # fmt: skip
# x (lgamma(x) - ((x - 1/2) log(x) - x + log(2 pi)/2)) in 1/x^2, x >= 4.
_LG_LARGE_F4 = polynomial(float, 0.08333330216583522, -0.0027751419487109306, 0.0007253065768566303)
_LG_LARGE_F8 = polynomial(
    float, 0.08333333333332059, -0.0027777777720895194, 0.0007936498732181944, -0.0005951629924572209,
    0.0008382244717365067, -0.0018161098651976824, 0.004569830463129316, -0.007933110971625903,
)  # fmt: skip
# digamma(1 + x) in x <= 1/2.
_DG_SMALL_F4 = polynomial(
    float, -0.5772152962376542, 1.6449080088716757, -1.2014274983503619, 1.0749115970648728,
    -0.9876718084766257, 0.8185830230908148, -0.5013321065239523, 0.1569636084142245,
)  # fmt: skip
_DG_SMALL_F8 = polynomial(
    float, -0.5772156649015198, 1.644934066845016, -1.2020569028835397, 1.0823232216566383,
    -1.0369274404141198, 1.0173376758309705, -1.008285267147868, 1.003528456243557, -0.9985225653304799,
    0.9843094243368637, -0.9395910947164205, 0.8293829921891243, -0.62920916142212, 0.37059634531158014,
    -0.14584363818593357, 0.028093596325435965,
)  # fmt: skip
# digamma(x) / (x - x0) in log(x), for float64 in log(x) - 3/8, 1/2 <= x <= 4, and the zero x0.
_DG_MIDDLE_F4 = polynomial(
    float, 1.2503801376168002, -0.8546933631547564, 0.3251215864647972, -0.10452127108537704,
    0.029880055598974355, -0.006436776602298693, 0.0008584602496423657, -6.887691759785136e-05,
    2.1092565911293586e-05, -8.761905681149661e-06, 1.2606007097282073e-06,
)  # fmt: skip
_DG_FIRST = 0.9706239641417285
_DG_MIDDLE_F8 = polynomial(
    float, -0.6492437077903829, 0.22959732186277762, -0.06788826865451954, 0.019516454092453814,
    -0.004665987055200362, 0.0007274563457129547, -4.1658487805003666e-05, -1.0851338428408193e-06,
    -4.314093308761899e-06, 1.756942043946564e-06, 7.662746390427743e-08, -1.7905660870916374e-07,
    1.230808589205727e-08, 1.8036320233059034e-08, -3.22335594622563e-09, -1.6473892572089692e-09,
    4.530605567674355e-10, 1.3283507189335202e-10, -3.601530245657117e-11, -7.651138599788321e-12,
)  # fmt: skip
_ZERO, _ZERO_LOW = 1.4616321449683622, 9.549995429965697e-17
# x^2 (log(x) - 1/(2x) - digamma(x)) in 1/x^2, x >= 4.
_DG_LARGE_F4 = polynomial(float, 0.0833331506596832, -0.008316798029490861, 0.0035167802252492053)
_DG_LARGE_F8 = polynomial(
    float, 0.08333333333331919, -0.008333333324931346, 0.003968252179603119, -0.004166474379872144,
    0.007563716019317308, -0.02061992927450066, 0.0711894394616342, -0.23265801018246718,
    0.44908624881833464,
)  # fmt: skip
# (x + c) trigamma(1 + x) in (x - c) / (x + c), x >= 0; c = 5/4 and, less its value at the centre, 3/2.
_TG_F4 = polynomial(
    float, 1.3933228854039883, -0.50505172960696, 0.13207378480395893, -0.022570408110120514,
    0.0026047636636967126, -0.00046575431413819785, 8.016273582279494e-05, 5.129785234127141e-06,
    2.1963574345911826e-06, -1.0299435928500476e-06,
)  # fmt: skip
_TG_CENTRE = 1.4710732683007046
_TG_F8 = polynomial(
    float, -2.4973337858216593e-17, -0.6547631964748422, 0.2421292977825147, -0.07395524226809073,
    0.01929012302514468, -0.004701837059765819, 0.0011457938051799156, -0.00026576053009791205,
    5.890202557585706e-05, -1.3869254770724247e-05, 2.993183321461611e-06, -6.165797031417216e-07,
    1.6583216042009454e-07, -2.519811400505596e-08, 6.630152241362422e-09, -2.384068683062687e-09,
    -4.989205900183937e-10, -5.03167341842943e-10, 2.3386223884808502e-11, 1.2496732543755247e-10,
    2.6950314284148636e-11, -8.516639832467699e-12,
)  # fmt: skip

_PI, _PI_LOW = 3.141592653589793, 1.2246467991473532e-16
_LOG_PI = 1.1447298858494002


@device
def _line(start, t, t_low, slope):
    """(high, low) of start + (t + t_low) slope, where the start is the largest part."""
    change = product_f8(t, slope)
    high = start + change
    return high, ((start - high) + change) + fma(t_low, slope, fma(t, slope, -change))


@device
def _lgamma_sum(x):
    """(high, low) with high + low = lgamma(x), for positive finite x."""
    log, log_low = log_sum_f8(x)
    small_low = fma(x, _LG_SMALL_F8(x), -log_low)
    one, two = x - 1.0, x - 2.0
    zeros = product_f8(one, two)
    f, f_low = _line(_LG_FIRST, log, log_low, _LG_MIDDLE_F8(log))
    middle = product_f8(zeros, f)
    two_low = x - (two + 2.0)  # not 0 below 1
    zeros_low = fma(one, two_low, fma(one, two, -zeros))
    middle_low = fma(zeros, f, -middle) + fma(zeros_low, f, zeros * f_low)
    # (x - 1/2) (log(x) - 1) + (log(2 pi) - 1)/2 + ...
    r = 1.0 / x
    h, m = x - 0.5, log - 1.0
    large = product_f8(h, m)
    large_low = fma(h, m, -large) + (fma(h, log_low, 0.4189385332046727) + r * _LG_LARGE_F8(r * r))
    large_low = large_low if large < np.inf else 0.0
    high = -log if x < 0.5 else (middle if x < 4.0 else large)
    return high, small_low if x < 0.5 else (middle_low if x < 4.0 else large_low)


@device
def _half_turns(x):
    """(q, r, low) with pi x = q pi/2 + r + low, q modulo 4, for finite x."""
    n = rint(x + x)
    t = fma(-0.5, n, x)
    r = product_f8(t, _PI)
    n = n - 4.0 * floor(0.25 * n)
    return np.int64(n), r, fma(t, _PI, -r) + t * _PI_LOW


@device
def _lgamma_negative(x):
    """log(pi / |x sin(pi x)|) - lgamma(|x|)."""
    if x == floor(x):
        return np.inf
    a = -x
    high, low = _lgamma_sum(a)
    if a < 1e-20:
        return high + low
    q, r, rest = _half_turns(x)
    s = fabs(turn_f8(q, r, rest))
    p = product_f8(s, a)
    log, log_low = log_sum_f8(p)
    log_low += fma(s, a, -p) / p
    # Three numbers of about the same size: what their sums lose is kept.
    first = _LOG_PI - log
    lost = (_LOG_PI - first) - log if fabs(log) < _LOG_PI else -log - (first - _LOG_PI)
    total = first - high
    back = total - first
    lost += (first - (total - back)) - (high + back)
    return total + (lost - log_low - low + 1.0265951162707826e-17)


@device
def _digamma_positive(x):
    log, log_low = log_sum_f8(x)
    small = -1.0 / x + _DG_SMALL_F8(x)
    d = x - _ZERO
    d_low = ((x - d) - _ZERO) - _ZERO_LOW
    t = log - 0.375
    f, f_low = _line(_DG_FIRST, t, ((log - t) - 0.375) + log_low, _DG_MIDDLE_F8(t))
    middle = fma(d, f, fma(d_low, f, d * f_low))
    r = 1.0 / x
    z = r * r
    large = log + (log_low - fma(0.5, r, z * _DG_LARGE_F8(z)))
    return small if x < 0.5 else (middle if x < 4.0 else large)


@device
def _digamma_negative(x):
    """digamma(1 - x) - pi / tan(pi x)."""
    if x == floor(x):
        return np.nan
    q, r, low = _half_turns(x)
    return _digamma_positive(1.0 - x) - _PI / tangent_f8(q, r, low)


@device
def _trigamma_positive(x):
    """1 / x^2 + trigamma(1 + x), both with what their rounding lost."""
    d = x + 1.5
    d_low = 1.5 - (d - x) if x > 1.5 else x - (d - 1.5)
    w = 1.0 / d
    p = _TG_CENTRE + _TG_F8(fma(-3.0, w, 1.0))
    y = product_f8(w, p)
    y_low = fma(w, p, -y) + y * (fma(-w, d, 1.0) - w * d_low)
    r = 1.0 / x
    q = product_f8(r, r)
    q_low = fma(r, r, -q) + 2.0 * q * fma(-r, x, 1.0)
    total = q + y
    lost = y - (total - q) if q > y else q - (total - y)
    total = total + (lost + (q_low + y_low))
    return np.inf if x < 7.45e-155 else total


@device
def _trigamma_negative(x):
    """(pi / sin(pi x))^2 - trigamma(1 - x)."""
    if x == floor(x):
        return np.inf
    if x > -1e-8:
        return 1.0 / (x * x)
    q, r, low = _half_turns(x)
    t = turn_f8(q, r, low)
    s = _PI / t
    s_low = (fma(-s, t, _PI) + _PI_LOW) / t
    return fma(s, s, 2.0 * s * s_low - _trigamma_positive(1.0 - x))


_rare_lgamma_f8 = rarely("lgamma_f8", lambda x: _lgamma_negative(x), "d")
_rare_lgamma_f4 = rarely("lgamma_f4", lambda x: f4(_lgamma_negative(f8(x))), "f")
_rare_digamma_f8 = rarely("digamma_f8", lambda x: _digamma_negative(x), "d")
_rare_digamma_f4 = rarely("digamma_f4", lambda x: f4(_digamma_negative(f8(x))), "f")
_rare_trigamma_f8 = rarely("trigamma_f8", lambda x: _trigamma_negative(x), "d")
_rare_trigamma_f4 = rarely("trigamma_f4", lambda x: f4(_trigamma_negative(f8(x))), "f")


@device
def lgamma_f4(x):
    a = f8(x)
    log = log_middle(a)
    r = 1.0 / a
    small = fma(a, _LG_SMALL_F4(a), -log)
    middle = fma((a - 1.0) * (a - 2.0), _LG_MIDDLE_F4(log), 0.0)  # +0 at 1
    large = fma(a - 0.5, log - 1.0, fma(r, _LG_LARGE_F4(r * r), 0.4189385332046727))
    y = f4(small if a < 0.5 else (middle if a < 4.0 else large))
    special = f4(np.inf) if x == x else x  # at 0 and both infinities
    y = y if f4(0) < x < f4(np.inf) else special
    return _rare_lgamma_f4(x if f4(-np.inf) < x < f4(0) else f4(0), y)


@device
def lgamma_f8(x):
    high, low = _lgamma_sum(x)
    special = np.inf if x == x else x
    y = high + low if 0.0 < x < np.inf else special
    return _rare_lgamma_f8(x if -np.inf < x < 0.0 else 0.0, y)


@device
def digamma_f4(x):
    a = f8(x)
    log = log_middle(a)
    r = 1.0 / a
    z = r * r
    small = _DG_SMALL_F4(a) - r
    middle = (a - _ZERO) * _DG_MIDDLE_F4(log)
    large = log - fma(0.5, r, z * _DG_LARGE_F4(z))
    y = f4(small if a < 0.5 else (middle if a < 4.0 else large))
    special = x if x > f4(0) else f4(np.nan)
    special = copysign(f4(np.inf), -x) if x == f4(0) else special
    y = y if f4(0) < x < f4(np.inf) else special
    return _rare_digamma_f4(x if f4(-np.inf) < x < f4(0) else f4(0), y)


@device
def digamma_f8(x):
    special = x if x > 0.0 else np.nan
    special = copysign(np.inf, -x) if x == 0.0 else special
    y = _digamma_positive(x) if 0.0 < x < np.inf else special
    return _rare_digamma_f8(x if -np.inf < x < 0.0 else 0.0, y)


@device
def trigamma_f4(x):
    a = f8(x)
    w = 1.0 / (a + 1.25)
    r = 1.0 / a
    y = f4(fma(r, r, w * _TG_F4(fma(-2.5, w, 1.0))))
    y = y if x > f4(0) else (f4(np.inf) if x == f4(0) else f4(np.nan))
    return _rare_trigamma_f4(x if f4(-np.inf) < x < f4(0) else f4(0), y)


@device
def trigamma_f8(x):
    y = _trigamma_positive(x)
    y = y if 0.0 < x < np.inf else (np.inf if x == 0.0 else (0.0 if x > 0.0 else np.nan))
    return _rare_trigamma_f8(x if -np.inf < x < 0.0 else 0.0, y)
