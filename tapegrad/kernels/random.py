"""Random numbers from a counter: Philox4x32-10, and what is made of its words.

Block number ``offset + b`` of a key is four words of 32 random bits, computed from nothing but
these numbers (Salmon and others, "Parallel random numbers: as easy as 1, 2, 3"). So any thread can
compute any block, and the numbers do not depend on how many threads there are.
"""

from __future__ import annotations

import math

import numpy as np

from . import scalar
from .jit import device, kernel

# Inlined whatever their size: a call would keep the loops from being vectorised.

_U = np.uint64
_LOW = _U(0xFFFFFFFF)
_32 = _U(32)
_M0, _M1 = _U(0xD2511F53), _U(0xCD9E8D57)
_W0, _W1 = 0x9E3779B9, 0xBB67AE85
# What is added to the two words of the key in each round.
_A = [(_U(r * _W0 & 0xFFFFFFFF), _U(r * _W1 & 0xFFFFFFFF)) for r in range(10)]
(_A1, _B1), (_A2, _B2), (_A3, _B3) = _A[1], _A[2], _A[3]
(_A4, _B4), (_A5, _B5), (_A6, _B6) = _A[4], _A[5], _A[6]
(_A7, _B7), (_A8, _B8), (_A9, _B9) = _A[7], _A[8], _A[9]


@device
def _round(c0, c1, c2, c3, k0, k1):
    p0 = _M0 * c0
    p1 = _M1 * c2
    return (p1 >> _32) ^ c1 ^ (k0 & _LOW), p1 & _LOW, (p0 >> _32) ^ c3 ^ (k1 & _LOW), p0 & _LOW


@device
def philox(key0, key1, block, branch):
    """Four words (32 bits each, in uint64) of a block; ``branch`` numbers streams that start there."""
    k0, k1 = _U(key0), _U(key1)
    at = _U(block)
    c0, c1, c2, c3 = at & _LOW, at >> _32, _U(branch), _U(0)
    c0, c1, c2, c3 = _round(c0, c1, c2, c3, k0, k1)
    c0, c1, c2, c3 = _round(c0, c1, c2, c3, k0 + _A1, k1 + _B1)
    c0, c1, c2, c3 = _round(c0, c1, c2, c3, k0 + _A2, k1 + _B2)
    c0, c1, c2, c3 = _round(c0, c1, c2, c3, k0 + _A3, k1 + _B3)
    c0, c1, c2, c3 = _round(c0, c1, c2, c3, k0 + _A4, k1 + _B4)
    c0, c1, c2, c3 = _round(c0, c1, c2, c3, k0 + _A5, k1 + _B5)
    c0, c1, c2, c3 = _round(c0, c1, c2, c3, k0 + _A6, k1 + _B6)
    c0, c1, c2, c3 = _round(c0, c1, c2, c3, k0 + _A7, k1 + _B7)
    c0, c1, c2, c3 = _round(c0, c1, c2, c3, k0 + _A8, k1 + _B8)
    return _round(c0, c1, c2, c3, k0 + _A9, k1 + _B9)


# -- from words to numbers -----------------------------------------------------------------------------


@device
def _unit_f4(w):
    """[0, 1) in steps of 2**-24"""
    return np.float32(np.int32(w >> _U(8))) * np.float32(2.0**-24)


@device
def _unit_f8(w, v):
    """[0, 1) in steps of 2**-53"""
    return np.float64(np.int64((w << _U(21)) ^ (v >> _U(11)))) * 2.0**-53


@device
def _open_f8(w, v):
    """(0, 1), symmetric about 1/2"""
    return (np.float64(np.int64((w << _U(20)) ^ (v >> _U(12)))) + 0.5) * 2.0**-52


@device
def _below(w, v, span):
    """A whole number in [0, span): the high word of (64 random bits) * span"""
    s0, s1 = span & _LOW, span >> _32
    low = (v * s0) >> _32
    middle = w * s0 + low
    other = v * s1 + (middle & _LOW)
    return w * s1 + (middle >> _32) + (other >> _32)


@device
def _circle_f4(w):
    """(cos, sin) of a random angle: a quarter circle by polynomials, then turned by two bits"""
    f = (np.float32(np.int32(w >> _U(8))) * np.float32(2.0**-24) - np.float32(0.5)) * np.float32(math.pi / 2)
    z = f * f
    s = np.float32(-1.9515295891e-4) * z + np.float32(8.3321608736e-3)
    s = (s * z - np.float32(1.6666654611e-1)) * z * f + f
    c = np.float32(2.443315711809948e-5) * z - np.float32(1.388731625493765e-3)
    c = (c * z + np.float32(4.166664568298827e-2)) * z * z - np.float32(0.5) * z + np.float32(1)
    sign = np.float32(np.int32(w & _U(2))) - np.float32(1)
    turned = (w & _U(1)) != _U(0)
    return (s if turned else c) * sign, (c if turned else s) * sign


@device
def _circle_f8(w, v):
    f = (np.float64(np.int64((w << _U(20)) ^ (v >> _U(12)))) * 2.0**-52 - 0.5) * (math.pi / 2)
    z = f * f
    s = 1.58962301576546568060e-10 * z - 2.50507477628578072866e-8
    s = (s * z + 2.75573136213857245213e-6) * z - 1.98412698295895385996e-4
    s = ((s * z + 8.33333333332211858878e-3) * z - 1.66666666666666307295e-1) * z * f + f
    c = -1.13585365213876817300e-11 * z + 2.08757008419747316778e-9
    c = (c * z - 2.75573141792967388112e-7) * z + 2.48015872888517045348e-5
    c = ((c * z - 1.38888888888730564116e-3) * z + 4.16666666666665929218e-2) * z * z - 0.5 * z + 1.0
    sign = np.float64(np.int64(v & _U(2))) - 1.0
    turned = (v & _U(1)) != _U(0)
    return (s if turned else c) * sign, (c if turned else s) * sign


@device
def _normals_f4(w, v, mean, std):
    """Two independent normal numbers (Box and Muller)"""
    u = (np.float32(np.int32(w >> _U(1))) + np.float32(0.5)) * np.float32(2.0**-31)
    radius = scalar.sqrt_f4(np.float32(-2) * scalar.log_f4(u))
    c, s = _circle_f4(v)
    return mean + std * (radius * c), mean + std * (radius * s)


@device
def _normals_f8(w0, w1, w2, w3, mean, std):
    radius = scalar.sqrt_f8(-2.0 * scalar.log_f8(_open_f8(w0, w1)))
    c, s = _circle_f8(w2, w3)
    return mean + std * (radius * c), mean + std * (radius * s)


# -- kernels: out, n, the key, the first block, two parameters ---------------------------------------------


def _four(name, block):
    """A kernel that fills chunks of 64 elements from 16 blocks; the range counts chunks.

    The four words of a block go to places 16 apart, so that what neighbours in a vector compute is
    stored side by side.
    """

    def fill(out, n, key0, key1, offset, a, b, start, stop):
        whole = n // 64
        for chunk in range(start, min(stop, whole)):
            for k in range(16):
                w0, w1, w2, w3 = philox(key0, key1, offset + 16 * chunk + k, 0)
                x0, x1, x2, x3 = block(w0, w1, w2, w3, a, b)
                at = 64 * chunk + k
                out[at] = x0
                out[at + 16] = x1
                out[at + 32] = x2
                out[at + 48] = x3
        if start <= whole < stop:
            for k in range(min(n - 64 * whole, 16)):
                w0, w1, w2, w3 = philox(key0, key1, offset + 16 * whole + k, 0)
                x0, x1, x2, x3 = block(w0, w1, w2, w3, a, b)
                at = 64 * whole + k
                out[at] = x0
                if at + 16 < n:
                    out[at + 16] = x1
                if at + 32 < n:
                    out[at + 32] = x2
                if at + 48 < n:
                    out[at + 48] = x3

    fill.__name__ = name
    fill.__doc__ = block.__doc__
    return kernel(fill)


def _two(name, block):
    """A kernel that fills two elements per block; the range counts blocks."""

    def fill(out, n, key0, key1, offset, a, b, start, stop):
        whole = n // 2
        for k in range(start, min(stop, whole)):
            w0, w1, w2, w3 = philox(key0, key1, offset + k, 0)
            x0, x1 = block(w0, w1, w2, w3, a, b)
            out[2 * k] = x0
            out[2 * k + 1] = x1
        if start <= whole < stop and n % 2 > 0:
            w0, w1, w2, w3 = philox(key0, key1, offset + whole, 0)
            x0, x1 = block(w0, w1, w2, w3, a, b)
            out[2 * whole] = x0

    fill.__name__ = name
    fill.__doc__ = block.__doc__
    return kernel(fill)


@device
def _uniform4(w0, w1, w2, w3, low, high):
    """Uniform in [low, high), float32"""
    a, d = np.float32(low), np.float32(high - low)
    return a + d * _unit_f4(w0), a + d * _unit_f4(w1), a + d * _unit_f4(w2), a + d * _unit_f4(w3)


@device
def _uniform8(w0, w1, w2, w3, low, high):
    """Uniform in [low, high), float64"""
    d = high - low
    return low + d * _unit_f8(w0, w1), low + d * _unit_f8(w2, w3)


@device
def _normal4(w0, w1, w2, w3, mean, std):
    """Normal, float32"""
    m, s = np.float32(mean), np.float32(std)
    x0, x1 = _normals_f4(w0, w1, m, s)
    x2, x3 = _normals_f4(w2, w3, m, s)
    return x0, x1, x2, x3


@device
def _normal8(w0, w1, w2, w3, mean, std):
    """Normal, float64"""
    return _normals_f8(w0, w1, w2, w3, mean, std)


@device
def _integers(w0, w1, w2, w3, low, span):
    """Whole numbers in [low, low + span); span 0 stands for 2**64"""
    s = _U(span)
    if s == _U(0):
        return np.int64((w0 << _32) ^ w1), np.int64((w2 << _32) ^ w3)
    return low + np.int64(_below(w0, w1, s)), low + np.int64(_below(w2, w3, s))


@device
def _words(w0, w1, w2, w3, a, b):
    """The bare words"""
    return w0, w1, w2, w3


@device
def _open8(w0, w1, w2, w3, a, b):
    """Uniform in (0, 1), float64"""
    return _open_f8(w0, w1), _open_f8(w2, w3)


uniform_f4, uniform_f8 = _four("uniform_f4", _uniform4), _two("uniform_f8", _uniform8)
normal_f4, normal_f8 = _four("normal_f4", _normal4), _two("normal_f8", _normal8)
integers = _two("integers", _integers)
words = _four("words", _words)
open_f8 = _two("open_f8", _open8)


@device
def _chance(w0, w1, w2, w3, limit, b):
    """1 where the word lies below the limit, else 0"""
    t = _U(limit)
    return np.uint8(w0 < t), np.uint8(w1 < t), np.uint8(w2 < t), np.uint8(w3 < t)


chance = _four("chance", _chance)


@device
def _hit(w, p):
    return np.float64(np.int64(w)) < p * 4294967296.0


@kernel
def below(p, out, n, key0, key1, offset, start, stop):
    """out[i] = 1 where a random word lies below p[i] * 2**32, else 0; the range counts chunks"""
    whole = n // 64
    for chunk in range(start, min(stop, whole)):
        for k in range(16):
            w0, w1, w2, w3 = philox(key0, key1, offset + 16 * chunk + k, 0)
            at = 64 * chunk + k
            out[at] = _hit(w0, p[at])
            out[at + 16] = _hit(w1, p[at + 16])
            out[at + 32] = _hit(w2, p[at + 32])
            out[at + 48] = _hit(w3, p[at + 48])
    if start <= whole < stop:
        for k in range(min(n - 64 * whole, 16)):
            w0, w1, w2, w3 = philox(key0, key1, offset + 16 * whole + k, 0)
            at = 64 * whole + k
            out[at] = _hit(w0, p[at])
            if at + 16 < n:
                out[at + 16] = _hit(w1, p[at + 16])
            if at + 32 < n:
                out[at + 32] = _hit(w2, p[at + 32])
            if at + 48 < n:
                out[at + 48] = _hit(w3, p[at + 48])


@kernel
def picks(out, n, key0, key1, offset, a, b, start, stop):
    """out[i] = a whole number in [0, i]"""
    for k in range(start, stop):
        w0, w1, w2, w3 = philox(key0, key1, offset + k, 0)
        out[2 * k] = np.int64(_below(w0, w1, _U(2 * k + 1)))
        if 2 * k + 1 < n:
            out[2 * k + 1] = np.int64(_below(w2, w3, _U(2 * k + 2)))


@kernel
def shuffle(picks, out, n, start, stop):
    """out = 0..n-1 in random order, given picks[i] in [0, i] (Fisher and Yates); not to be split"""
    for i in range(n):
        j = picks[i]
        out[i] = out[j]
        out[j] = i


@kernel
def poisson(rate, out, key0, key1, offset, start, stop):
    """out[i] Poisson distributed with mean rate[i]; element i reads the streams that start at its block

    Products of uniform numbers for small rates, Hoermann's transformed rejection (PTRS) for large ones.
    """
    for i in range(start, stop):
        lam = np.float64(rate[i])
        if not lam >= 0.0:
            out[i] = lam + np.nan
        elif lam < 10.0:
            limit, product, count, branch = math.exp(-lam), 1.0, -1, 0
            while branch == 0 or product > limit:
                w0, w1, w2, w3 = philox(key0, key1, offset + i, branch)
                branch += 1
                product *= _open_f8(w0, w1)
                count += 1
                if product > limit:
                    product *= _open_f8(w2, w3)
                    count += 1
            out[i] = count
        else:
            root = math.sqrt(lam)
            b = 0.931 + 2.53 * root
            a = -0.059 + 0.02483 * b
            inverse = 1.1239 + 1.1328 / (b - 3.4)
            sure = 0.9277 - 3.6224 / (b - 2.0)
            found, branch = False, 0
            while not found:
                w0, w1, w2, w3 = philox(key0, key1, offset + i, branch)
                branch += 1
                u = _open_f8(w0, w1) - 0.5
                v = _open_f8(w2, w3)
                us = 0.5 - abs(u)
                k = math.floor((2.0 * a / us + b) * u + lam + 0.43)
                if us >= 0.07 and v <= sure:
                    out[i] = k
                    found = True
                elif k >= 0.0 and not (us < 0.013 and v > us):
                    left = math.log(v * inverse / (a / (us * us) + b))
                    if left <= k * math.log(lam) - lam - math.lgamma(k + 1.0):
                        out[i] = k
                        found = True


@kernel
def search(sums, units, out, n, samples, start, stop):
    """out[r, s] = first k with units[r, s] * sums[r, n-1] < sums[r, k]: sums are running totals of weights"""
    for r in range(start, stop):
        base = r * n
        total = sums[base + n - 1]
        for s in range(samples):
            wanted = units[r * samples + s] * total
            low, high = 0, n - 1
            while low < high:
                middle = (low + high) // 2
                if sums[base + middle] > wanted:
                    high = middle
                else:
                    low = middle + 1
            # Rounding at the very end may lead to a weight of zero.
            while low > 0 and not sums[base + low] > sums[base + low - 1]:
                low -= 1
            out[r * samples + s] = low


# -- dropout ---------------------------------------------------------------------------------------------


@kernel
def dropout(x, out, n, key0, key1, offset, threshold, hyper, start, stop):
    """out[i] = scale * x[i] + shift where the random word is at least ``threshold``, else fill

    hyper: scale, shift, fill in the type of x; threshold: p * 2**32. The range counts chunks of 64.
    """
    scale, shift, fill = hyper[0], hyper[1], hyper[2]
    limit = _U(threshold)
    whole = n // 64
    for chunk in range(start, min(stop, whole)):
        for k in range(16):
            w0, w1, w2, w3 = philox(key0, key1, offset + 16 * chunk + k, 0)
            at = 64 * chunk + k
            out[at] = scale * x[at] + shift if w0 >= limit else fill
            out[at + 16] = scale * x[at + 16] + shift if w1 >= limit else fill
            out[at + 32] = scale * x[at + 32] + shift if w2 >= limit else fill
            out[at + 48] = scale * x[at + 48] + shift if w3 >= limit else fill
    if start <= whole < stop:
        for k in range(min(n - 64 * whole, 16)):
            w0, w1, w2, w3 = philox(key0, key1, offset + 16 * whole + k, 0)
            at = 64 * whole + k
            out[at] = scale * x[at] + shift if w0 >= limit else fill
            if at + 16 < n:
                out[at + 16] = scale * x[at + 16] + shift if w1 >= limit else fill
            if at + 32 < n:
                out[at + 32] = scale * x[at + 32] + shift if w2 >= limit else fill
            if at + 48 < n:
                out[at + 48] = scale * x[at + 48] + shift if w3 >= limit else fill


@kernel
def drop_rows(x, kept, out, inner, hyper, start, stop):
    """out[r, :] = scale * x[r, :] + shift where kept[r] is not 0, else fill; hyper: scale, shift, fill"""
    scale, shift, fill = hyper[0], hyper[1], hyper[2]
    for r in range(start, stop):
        hit = kept[r] != 0
        for i in range(r * inner, (r + 1) * inner):
            out[i] = scale * x[i] + shift if hit else fill
