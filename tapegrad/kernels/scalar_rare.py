"""Functions of one number that are rarely met: erfcx, ndtri, log_ndtr, scaled Bessel functions, polygamma.

Computed in float64 by series that converge everywhere, without thought for speed; NAME_f4 and NAME_f8 are
for float32 and float64 as in scalar.py, where the common functions are.
"""

from __future__ import annotations

import math

import numpy as np

from . import scalar
from .jit import device


@device
def _erfcx(x):
    """exp(x^2) erfc(x) for x >= 0"""
    if x < 2.0:
        return math.exp(x * x) * math.erfc(x)
    # The continued fraction x + (1/2)/(x + 1/(x + (3/2)/(x + ...))), from its far end.
    k = 16.0 + np.floor(400.0 / (x * x))
    tail = x
    while k > 0.0:
        tail = x + 0.5 * k / tail
        k -= 1.0
    return 0.5641895835477563 / tail


@device
def erfcx_f8(x):
    """exp(x^2) erfc(x)"""
    if x >= 0.0:
        return _erfcx(x)
    if x < -26.7:
        return math.inf
    return 2.0 * math.exp(x * x) - _erfcx(-x) if x == x else x


@device
def log_ndtr_f8(x):
    """log of the normal distribution function"""
    if x != x:
        return x
    t = x * 0.7071067811865476
    if x < -1.0:
        return math.log(0.5 * _erfcx(-t)) - t * t
    return scalar.log1p_f8(-0.5 * math.erfc(t))


@device
def ndtri_f8(p):
    """x with P(X < x) = p for a normal X"""
    if not 0.0 < p < 1.0:
        return -math.inf if p == 0.0 else math.inf if p == 1.0 else math.nan
    q = min(p, 1.0 - p)
    if q > 0.1:
        return 1.4142135623730951 * scalar.erfinv_f8(2.0 * p - 1.0)
    goal = math.log(q)
    # Newton's method on the logarithm, which is concave: from the left it cannot overshoot.
    x = -math.sqrt(-2.0 * goal)
    for _ in range(12):
        step = (log_ndtr_f8(x) - goal) * _erfcx(-x * 0.7071067811865476) * 1.2533141373155001
        x -= step
        if abs(step) < 1e-16 * (1.0 + abs(x)):
            break
    return x if p < 0.5 else -x


@device
def _bessel_scaled(x, order):
    """exp(-x) I(x) of order 0 or 1, for x >= 0"""
    if x < 30.0:
        term, total, k = (0.5 * x if order else 1.0), 0.0, 1.0
        while term > total * 1e-18:
            total += term
            term *= 0.25 * x * x / (k * (k + order))
            k += 1.0
        return total * math.exp(-x)
    mu, term, total, k = 4.0 * order * order, 1.0, 0.0, 1.0
    while abs(term) > 1e-17 and k < 40.0:
        total += term
        term *= -(mu - (2.0 * k - 1.0) ** 2) / (k * 8.0 * x)
        k += 1.0
    return total / math.sqrt(6.283185307179586 * x)


@device
def i0e_f8(x):
    """exp(-abs(x)) I0(x)"""
    return _bessel_scaled(abs(x), 0.0) if x == x else x


@device
def i1e_f8(x):
    """exp(-abs(x)) I1(x)"""
    return math.copysign(_bessel_scaled(abs(x), 1.0), x) if x == x else x


@device
def hurwitz_zeta(s, q):
    """sum over k >= 0 of (q + k)^-s, s > 1, by Euler's and Maclaurin's formula"""
    if q <= 0.0 and q == np.floor(q):
        return math.inf
    total = 0.0
    while q < 12.0 + s:
        total += q**-s
        q += 1.0
    power = q**-s
    total += power * (q / (s - 1.0) + 0.5)
    # Bernoulli numbers over factorials: each term is the one before, two derivatives on.
    term = s * power / q
    inverse = 1.0 / (q * q)
    total += term / 12.0
    term *= (s + 1.0) * (s + 2.0) * inverse
    total -= term / 720.0
    term *= (s + 3.0) * (s + 4.0) * inverse
    total += term / 30240.0
    term *= (s + 5.0) * (s + 6.0) * inverse
    total -= term / 1209600.0
    term *= (s + 7.0) * (s + 8.0) * inverse
    total += term / 47900160.0
    term *= (s + 9.0) * (s + 10.0) * inverse
    total -= term * (691.0 / 1307674368000.0)
    term *= (s + 11.0) * (s + 12.0) * inverse
    return total + term / 74724249600.0


@device
def polygamma_f8(n, x):
    """the n-th derivative of digamma"""
    if n == 0.0:
        return scalar.digamma_f8(x)
    factor = -1.0 if n % 2.0 == 0.0 else 1.0
    return factor * math.gamma(n + 1.0) * hurwitz_zeta(n + 1.0, x) if x == x else x


@device
def log_add(a, b):
    """log(exp(a) + exp(b))"""
    top = max(a, b)
    if a != a or b != b:
        return a + b
    if top - top != 0.0:  # infinite: their difference would be NaN
        return top
    return top + scalar.log1p_f8(scalar.exp_f8(min(a, b) - top))


def _narrow(fn):
    """A function of one float32 by way of the one for float64."""
    return device(lambda x: np.float32(fn(np.float64(x))))


erfcx_f4, ndtri_f4, log_ndtr_f4 = _narrow(erfcx_f8), _narrow(ndtri_f8), _narrow(log_ndtr_f8)
i0e_f4, i1e_f4 = _narrow(i0e_f8), _narrow(i1e_f8)
polygamma_f4 = device(lambda n, x: np.float32(polygamma_f8(np.float64(n), np.float64(x))))
