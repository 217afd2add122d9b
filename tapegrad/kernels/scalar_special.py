"""The error function and relatives, and the modified Bessel functions i0 and i1, of one number."""

# ruff: noqa: D103, FURB136 (names say what they are; min and max would change what NaN does)

from __future__ import annotations

import numpy as np
from numpy import float32 as f4
from numpy import float64 as f8

from .jit import device
from .scalar_bits import copysign, fabs, fma, polynomial, product_f8, sqrt
from .scalar_exp import EXP2_F4, EXP2_F8, EXPM1_F8, WHOLE_F4, WHOLE_F8, power_f4, power_f8, reduce_f8
from .scalar_log import LN2_LOW, log_f4, log_f8

# erf(x) / x - 1 in x^2 <= 1.
_ERF_F4 = polynomial(
    f4, 0.12837916612625122, -0.3761262595653534, 0.11283578723669052, -0.026853347197175026,
    0.005187162198126316, -0.0007997853099368513, 7.806903886375949e-05,
)  # fmt: skip
_ERF_F8 = polynomial(
    float, 0.12837916709551256, -0.37612638903183754, 0.11283791670955141, -0.026866170644813284,
    0.00522397761926561, -0.0008548326518160155, 0.00012055310026975472, -1.4925008169479015e-05,
    1.645056019808777e-06, -1.6231057865264967e-07, 1.3812171101090664e-08, -7.958604163812333e-10,
)  # fmt: skip
# -log2(erfc(x)) in x, from 1 to where erf(x) rounds to 1.
_TAIL_F4 = polynomial(
    f4, 0.0005104268784634769, 1.6259745359420776, 0.9207659959793091, 0.14865058660507202,
    -0.03145796060562134, 0.004240835085511208, -0.0002677135926205665,
)  # fmt: skip
_TAIL_F8 = polynomial(
    float, 7.423001206527351e-07, 1.6278995446642748, 0.918483297516772, 0.14816787782800883,
    -0.027393569354608186, -0.0005971326245477427, 0.0027689977100987823, -0.0011157023111330656,
    0.00019728102877766577, 2.803041061043094e-05, -3.245518733716668e-05, 1.2360333743884044e-05,
    -3.0471512755870038e-06, 5.324740214796173e-07, -6.617564909740086e-08, 5.603718202061973e-09,
    -2.910028324051472e-10, 7.0065805102863315e-12,
)  # fmt: skip
# (1 + 2x) exp(x^2) erfc(x) in (x - 3) / (x + 3) from 0 to 10 for float32, and less its value at 4 in
# (x - 4) / (x + 4) from 1/2 to 28 for float64.
_ERFC_F4 = polynomial(
    float, 1.2530080589756327, -0.13562111246615224, -0.04756238744530048, 0.12964540221704632,
    -0.11927157303737178, 0.06830612619019674, -0.023787899840091446, 0.0025288694866599294,
    0.001949974556496954, -0.000740181855877018, -0.00018124175299232603, 3.5828525635652554e-05,
)  # fmt: skip
_ERFC_CENTRE = 1.2329951186255526
_ERFC_F8 = polynomial(
    float, -4.3498494571288966e-17, -0.1396211168405625, 0.0153796521026189, 0.06809705425469023,
    -0.1010390660362453, 0.09373283499845703, -0.06633036581382105, 0.03716751553532044,
    -0.01619773403557601, 0.005031970002256261, -0.0007577734677974218, -0.0001992568622400304,
    0.00015062257689231638, -2.4398462463607217e-05, -1.1224946681490973e-05, 5.707487761258507e-06,
    2.998952335797024e-07, -8.209881734661715e-07, 6.673250266693479e-08, 1.0448178963838436e-07,
    -1.2117138989840278e-08, -1.008431676779522e-08,
)  # fmt: skip
# erfinv(x) / x - 1 in w = -log(1 - x^2) <= 5; beyond, erfinv(x) / x less its value at the centre,
# in sqrt(w).
_INV_F4 = polynomial(
    f4, 0.5014093518257141, 0.24664027988910675, -0.004177367780357599, -0.001252732123248279,
    0.00021833271603100002, -4.968128905602498e-06, -3.460111202002736e-06, 4.6709610046491434e-07,
    2.3044126606919235e-08, -8.852790500668561e-09,
)  # fmt: skip
_INV_TAIL_F4 = f4(2.958320140838623)
_INV_FAR_F4 = polynomial(
    f4, -1.8461413731074572e-08, 1.003718614578247, 0.007049540989100933, -0.005299008917063475,
    0.003778081387281418, -0.0025320888962596655, 0.0013187031727284193, -0.0003017648123204708,
    -0.00017926510190591216, 0.00011590387293836102,
)  # fmt: skip
_INV_F8 = polynomial(
    float, 0.5014093511107919, 0.24664027674416697, -0.004177317724381989, -0.0012527079078105065,
    0.00021825026433440969, -4.996079601212765e-06, -3.416619574336077e-06, 4.78725223024747e-07,
    1.3416777498772982e-08, -1.0861173437869086e-08, 9.07321740184884e-10, 1.1960961163569965e-10,
    -3.1110555358342364e-11, 9.106273039331717e-13, 5.377758589699037e-13, -7.59178335622224e-14,
    -3.2600997139382294e-15, 1.868569009084687e-15, -9.50097301329497e-17, -2.4722790199176656e-17,
    2.3307483509247162e-18, 1.0308353513224263e-19,
)  # fmt: skip
_INV_MIDDLE_F8 = 2.8329767987282706
_INV_FAR_F8 = polynomial(
    float, 1.2714041571798792e-16, 1.0016752766933992, 0.009445522011994311, -0.007643805569971256,
    0.005685182417588633, -0.00355879401952168, 0.0014837373519725715, -0.0001488980368940091,
    -0.0002831245324317283, 0.0002055159338606241, -4.645952031775854e-05, -2.28691957201253e-05,
    2.1930138193464157e-05, -5.961939111144839e-06, -1.6392865215219915e-06, 2.032455632286365e-06,
    -6.681959369487503e-07, -1.2475602479178775e-07, 1.938197399823498e-07, -2.931714286345492e-08,
    -1.8086438826808052e-08,
)  # fmt: skip
_INV_TAIL_F8 = 4.7236171149637975
_INV_FARTHEST_F8 = polynomial(
    float, -3.851979705118004e-16, 1.010324446562391, -5.055681952943194e-05, -0.0002562887347974702,
    8.942926140685703e-05, -2.342953123825662e-05, 5.50798005763362e-06, -1.2683319912362533e-06,
    3.314768061438072e-07, -1.2097639760729697e-07, 6.034151525770845e-08, -3.234476659477422e-08,
    1.5792656495677732e-08, -6.496010609228756e-09, 2.1292591761695067e-09, -4.713670264839338e-10,
    -2.3364478280284568e-11, 8.457220680103721e-11, -3.4328953164510555e-11, 4.639267841855873e-12,
)  # fmt: skip
# i0(x) and i1(x) / x in x^2, the first six coefficients of float64 apart; and i0(x) and i1(x) times
# exp(-x) sqrt(x), in 1/x - 5/64 and 1/x - 1/16, for float64 less the value at the centre.
_I0_F4 = polynomial(
    float, 0.9999999990558838, 0.250000006964558, 0.01562499246686157, 0.0004340306666662573,
    6.781159423729568e-06, 6.786859389556329e-08, 4.679822027087662e-10, 2.5039128115489353e-12,
    7.39209083341208e-15, 4.94016096827344e-17,
)  # fmt: skip
_I1_F4 = polynomial(
    float, 0.4999999999002063, 0.06250000060490832, 0.002604166104205674, 5.425366377172048e-05,
    6.781367564876032e-07, 5.6542958362388005e-09, 3.348346005505838e-11, 1.5521801943990116e-13,
    4.26121920238166e-16, 2.3930385756784653e-18,
)  # fmt: skip
_I0_LARGE_F4 = polynomial(
    float, 0.40302534186367156, 0.054893595007913215, 0.037162321045497174, 0.05256865603008323,
    0.1330749187579548, 0.5743200914467048, 2.0290585798029173,
)  # fmt: skip
_I1_LARGE_F4 = polynomial(
    float, 0.3869471191858577, -0.1577942214322858, -0.05919870193299834, -0.07008943676069865,
    -0.1615323251955797, -0.6640632570130538, -2.3284870368369157,
)  # fmt: skip
_I0_FIRST = (
    1.0, 0.25, 0.015624999999999993,
    0.0004340277777777865, 6.7816840277736236e-06, 6.78168402788204e-08,
)  # fmt: skip
_I1_FIRST = (
    0.5, 0.0625, 0.0026041666666666665,
    5.425347222222245e-05, 6.781684027776592e-07, 5.65140335651237e-09,
)  # fmt: skip
_I0_F8 = polynomial(
    float, 4.709502795485347e-10, 2.402807565222927e-12, 9.385965923777863e-15, 2.8969084968694126e-17,
    7.242083826971242e-20, 1.4967626545866357e-22, 2.5903546108202317e-25, 3.932239485961059e-28,
    4.2046411923376275e-31, 8.557331532935689e-34,
)  # fmt: skip
_I1_F8 = polynomial(
    float, 3.363930568858494e-11, 1.5017547231883123e-13, 5.214425784654628e-16, 1.4484532256831197e-18,
    3.2918836382716926e-21, 6.23599499795996e-24, 9.969613472451678e-27, 1.3986490284992917e-29,
    1.430329386284731e-32, 2.6094511554218354e-35,
)  # fmt: skip
_I0_CENTRE, _I1_CENTRE = 0.4021765094450081, 0.38939845902587233
_I0_LARGE_F8 = polynomial(
    float, -1.811573798648029e-17, 0.05376883173868559, 0.03487131504388238, 0.04564186641194998,
    0.09724543975022953, 0.31180438393197346, 1.4884836753352755, 10.556531188537917, 92.61961461162312,
    519.0238363543953, -7522.926607464874, -235763.27176610226, -1424030.8451599895, 33932545.297092944,
    475530932.17279154, -4008705714.052298, -85267557642.05208, 439754033009.2995, 10538548226626.016,
    -41710431768192.11, -819523313003306.8, 2816684323594716.5, 2.9799921415892976e+16,
    -9.471277647276925e+16,
)  # fmt: skip
_I1_LARGE_F8 = polynomial(
    float, -1.211839279477758e-17, -0.15599323509177165, -0.0561243555410047, -0.06159788933594493,
    -0.12025267637049536, -0.36530873957325677, -1.677908793281274, -11.577439045720302,
    -100.46316944141805, -579.0943491275381, 7512.646729336447, 246842.1862160203, 1580446.8479525633,
    -34390346.94245974, -506121046.42168283, 3940578145.9025264, 89621725817.3757, -422652487247.1846,
    -11014861448903.578, 39793519803281.9, 854220871999855.2, -2701904467698657.5,
    -3.1016944014530376e+16, 9.194009217317373e+16,
)  # fmt: skip
# (exp(r) - 1 - r) / r^2, good to 34 bits.
_EXPM1_MIDDLE = polynomial(
    float, 0.5000000067866, 0.16666665867708164, 0.041666294303111244, 0.008333497236354273,
    0.0013944707186624927, 0.0001979033974676659,
)  # fmt: skip


@device
def erf_f4(x):
    """A polynomial up to 1, then 1 - 2^-y."""
    a = fabs(x)
    z = a * a
    near = fma(a, _ERF_F4(z), a)
    b = f4(4.1) if a > f4(4.1) else a
    y = -_TAIL_F4(b)
    n = y + WHOLE_F4
    r = y - (n - WHOLE_F4)
    far = fma(-power_f4(n, 0), fma(r, EXP2_F4(r), f4(1)), f4(1))
    return copysign(near if a < f4(1) else far, x)


@device
def erf_f8(x):
    a = fabs(x)
    z = a * a
    near = fma(a, _ERF_F8(z), a)
    b = 6.1 if a > 6.1 else a
    y = -_TAIL_F8(b)
    n = y + WHOLE_F8
    r = y - (n - WHOLE_F8)
    far = fma(-power_f8(n, 0), fma(r, EXP2_F8(r), 1.0), 1.0)
    return copysign(near if a < 1.0 else far, x)


@device
def erfc_f4(x):
    a = f8(fabs(x))
    a = 10.3 if a > 10.3 else a
    n, _, r = reduce_f8(-a * a, WHOLE_F8)
    e = fma(r * r, _EXPM1_MIDDLE(r), 1.0 + r) * power_f8(n, 0)
    y = e * _ERFC_F4((a - 3.0) / (a + 3.0)) / fma(2.0, a, 1.0)
    return f4(2.0 - y if x < f4(0) else y)


@device
def erfc_f8(x):
    """1 - erf(x) up to 1/2; then exp(-x^2) w with w = g(x) / (1 + 2x).

    Both w and x^2 are kept with what their rounding lost.
    """
    a = fabs(x)
    near = 1.0 - fma(x, _ERF_F8(a * a), x)
    a = 27.3 if a > 27.3 else a
    square = product_f8(a, a)
    small = a > 26.0
    offset = WHOLE_F8 + 64.0 if small else WHOLE_F8
    n, exact, r = reduce_f8(-square, offset)
    lost = fma(-(n - offset), LN2_LOW, exact - r) - fma(a, a, -square)
    p = EXPM1_F8(r)
    q = r + fma(r * r, p, fma(lost, fma(r * r, p, r), lost))
    change = _ERFC_F8((a - 4.0) / (a + 4.0))
    g = _ERFC_CENTRE + change
    g_low = (_ERFC_CENTRE - g) + change
    d = fma(2.0, a, 1.0)
    d_low = fma(2.0, a, 1.0 - d)
    inverse = 1.0 / d
    w = product_f8(g, inverse)
    w_low = ((fma(-w, d, g) + g_low) - w * d_low) * inverse
    y = (w + fma(w, q, w_low)) * power_f8(n, -1) * (1.0842021724855044e-19 if small else 2.0)
    far = 2.0 - y if x < 0.0 else y
    return near if fabs(x) < 0.5 else far


@device
def erfinv_f4(x):
    w = -log_f4(fma(-x, x, f4(1)))
    far = w > f4(5)
    t = sqrt(w) - f4(3.125) if far else w - f4(2.5)
    rest = x * (_INV_FAR_F4(t) if far else _INV_F4(t))
    y = fma(x, _INV_TAIL_F4 if far else f4(1), rest)
    return copysign(f4(np.inf) if fabs(x) == f4(1) else y, x)


@device
def erfinv_f8(x):
    w = -log_f8(fma(-x, x, 1.0))
    s = sqrt(w)
    near = _INV_F8(w - 2.5)
    middle = _INV_FAR_F8(s - 3.0)
    far = _INV_FARTHEST_F8(s - 4.875)
    rest = x * (near if w < 5.0 else (middle if w < 14.0 else far))
    y = fma(x, 1.0 if w < 5.0 else (_INV_MIDDLE_F8 if w < 14.0 else _INV_TAIL_F8), rest)
    return copysign(np.inf if fabs(x) == 1.0 else y, x)


@device
def _large_bessel_f4(a, series):
    """exp(a) g(1/a) / sqrt(a) in float64, for a >= 7."""
    b = 100.0 if a > 100.0 else a
    n, _, r = reduce_f8(b, WHOLE_F8)
    e = fma(r * r, _EXPM1_MIDDLE(r), 1.0 + r) * power_f8(n, 0)
    return e * series / sqrt(b)


@device
def _large_bessel_f8(a, g):
    """exp(a) w, w = g / sqrt(a) with what its rounding lost; only the last product may overflow."""
    b = 714.5 if a > 714.5 else a
    n, _, r = reduce_f8(b, WHOLE_F8)
    q = fma(r * r, EXPM1_F8(r), r)
    s = sqrt(b)
    inverse = 1.0 / s
    s_low = 0.5 * fma(-s, s, b) * inverse
    w = product_f8(g, inverse)
    w_low = (fma(-w, s, g) - w * s_low) * inverse
    return (w + fma(w, q, w_low)) * power_f8(n, -8) * 256.0


@device
def _step(z, z_low, high, low, c):
    """c + (z + z_low) (high + low), with what its rounding lost."""
    p = product_f8(z, high)
    total = p + c
    back = total - p
    return total, (p - (total - back)) + (c - back) + fma(z, low, fma(z_low, high, fma(z, high, -p)))


@device
def _series(a, rest, c0, c1, c2, c3, c4, c5):
    """c0 + z (c1 + ... z (c5 + z rest)) with z = a^2, rounded once.

    All terms are positive, so that the errors of plain arithmetic would add up.
    """
    z = product_f8(a, a)
    z_low = fma(a, a, -z)
    high, low = _step(z, z_low, rest, 0.0, c5)
    high, low = _step(z, z_low, high, low, c4)
    high, low = _step(z, z_low, high, low, c3)
    high, low = _step(z, z_low, high, low, c2)
    high, low = _step(z, z_low, high, low, c1)
    high, low = _step(z, z_low, high, low, c0)
    return high + low


@device
def i0_f4(x):
    a = f8(fabs(x))
    large = _large_bessel_f4(a, _I0_LARGE_F4(1.0 / a - 0.078125))
    return f4(_I0_F4(a * a) if a < 7.0 else large)


@device
def i0_f8(x):
    a = fabs(x)
    large = _large_bessel_f8(a, _I0_CENTRE + _I0_LARGE_F8(1.0 / a - 0.0625))
    return _series(a, _I0_F8(a * a), *_I0_FIRST) if a < 8.0 else large


@device
def i1_f4(x):
    a = f8(fabs(x))
    large = _large_bessel_f4(a, _I1_LARGE_F4(1.0 / a - 0.078125))
    return copysign(f4(a * _I1_F4(a * a) if a < 7.0 else large), x)


@device
def i1_f8(x):
    a = fabs(x)
    large = _large_bessel_f8(a, _I1_CENTRE + _I1_LARGE_F8(1.0 / a - 0.0625))
    return copysign(a * _series(a, _I1_F8(a * a), *_I1_FIRST) if a < 8.0 else large, x)
