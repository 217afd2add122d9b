"""The order of lanes: keys are sorted digit by digit, so that the time does not depend on what they are.

A digit is a byte. Elements are dealt out by the lowest digit first and keep their order among equals, so after the highest one
they lie in order, and equal elements where they were. Digits that all elements share are left out.
"""

from __future__ import annotations

import numpy as np

from .jit import device, kernel

_U = np.uint64
# Lanes up to this length are sorted by insertion.
SHORT = 40
DIGITS = 256
UNSIGNED, SIGNED, FLOATING = range(3)


@device
def _key(word, kind, bits):
    """A number that grows with the element whose bits are given; all NaN are one, the largest, and both zeros are one."""
    v = _U(word)
    sign = _U(1) << _U(bits - 1)
    if kind == FLOATING:
        size = v & (sign - _U(1))
        infinity = (_U(0x7F8) << _U(20)) if bits == 32 else (_U(0x7FF) << _U(52))
        if size > infinity:
            return (sign - _U(1)) | sign
        if size == _U(0):
            return sign
        return ((sign - _U(1)) | sign) - v if v & sign else v | sign
    return v ^ sign if kind == SIGNED else v


@device
def _digit(key, number):
    return np.int64((_U(key) >> _U(8 * number)) & _U(DIGITS - 1))


@kernel
def order_lanes(
    x, out, scratch_keys, scratch_places, scratch_counts,
    n, inner, lanes, units, bits, kind, descending, start, stop,
):  # fmt: skip
    """out[o, :, j] = the indices that sort x[o, :, j]; equal elements stay in order, NaN is larger than every number

    x is given as unsigned numbers of ``bits``. The range counts units that ``lanes``, pairs of o and j, are shared out to;
    for each, scratch holds 2 * n keys and places, and DIGITS counts per digit.
    """
    digits = bits // 8
    own, counts = 2 * n * start, DIGITS * digits * start
    most = (((_U(1) << _U(bits - 1)) - _U(1)) << _U(1)) | _U(1)
    for r in range(lanes * start // units, lanes * stop // units):
        o = r // inner
        base = o * n * inner + r - o * inner
        here, there = own, own + n
        least = most
        for k in range(n):
            key = _key(x[base + k * inner], kind, bits)
            key = most - key if descending else key
            least = min(least, key)
            scratch_keys[here + k] = key
            scratch_places[here + k] = k
        if n <= SHORT:
            for k in range(1, n):
                key = scratch_keys[here + k]
                j = k
                while j > 0 and scratch_keys[here + j - 1] > key:
                    scratch_keys[here + j] = scratch_keys[here + j - 1]
                    scratch_places[here + j] = scratch_places[here + j - 1]
                    j -= 1
                scratch_keys[here + j] = key
                scratch_places[here + j] = k
        else:
            for j in range(DIGITS * digits):
                scratch_counts[counts + j] = 0
            for k in range(n):
                key = _U(scratch_keys[here + k]) - least  # so that numbers of a small range have few digits
                scratch_keys[here + k] = key
                for d in range(digits):
                    scratch_counts[counts + d * DIGITS + _digit(key, d)] += 1
            for d in range(digits):
                first = counts + d * DIGITS
                if scratch_counts[first + _digit(scratch_keys[here], d)] == n:
                    continue
                total = there
                for j in range(first, first + DIGITS):
                    many = scratch_counts[j]
                    scratch_counts[j] = total
                    total += many
                for k in range(here, here + n):
                    key = scratch_keys[k]
                    at = first + _digit(key, d)
                    to = scratch_counts[at]
                    scratch_counts[at] = to + 1
                    scratch_keys[to] = key
                    scratch_places[to] = scratch_places[k]
                here, there = there, here
        for k in range(n):
            out[base + k * inner] = scratch_places[here + k]


# -- one lane in pieces ----------------------------------------------------------------------------------


@kernel
def piece_keys(x, keys, places, least, base, n, inner, pieces, bits, kind, descending, start, stop):
    """The keys and places of a lane from ``base`` on, and the least key of each of ``pieces``, which the range counts"""
    most = (((_U(1) << _U(bits - 1)) - _U(1)) << _U(1)) | _U(1)
    for p in range(start, stop):
        low = most
        for k in range(n * p // pieces, n * (p + 1) // pieces):
            key = _key(x[base + k * inner], kind, bits)
            key = most - key if descending else key
            low = min(low, key)
            keys[k] = key
            places[k] = k
        least[p] = low


@kernel
def piece_counts(keys, counts, low, n, pieces, number, start, stop):
    """counts[p, j] = how many keys of a piece, less ``low[0]``, have j for a digit; the range counts pieces"""
    for p in range(start, stop):
        first = p * DIGITS
        for j in range(first, first + DIGITS):
            counts[j] = 0
        for k in range(n * p // pieces, n * (p + 1) // pieces):
            counts[first + _digit(_U(keys[k]) - _U(low[0]), number)] += 1


@kernel(writes=("to_keys", "to_places", "scratch"))
def piece_deal(keys, places, counts, low, to_keys, to_places, scratch, n, pieces, number, start, stop):
    """Keys and places dealt out by a digit, those of earlier pieces first; the range counts pieces"""
    for p in range(start, stop):
        first = p * DIGITS
        total = 0
        for j in range(DIGITS):
            scratch[first + j] = total
            for q in range(pieces):
                many = counts[q * DIGITS + j]
                total += many
                if q < p:
                    scratch[first + j] += many
        for k in range(n * p // pieces, n * (p + 1) // pieces):
            key = keys[k]
            at = first + _digit(_U(key) - _U(low[0]), number)
            to = scratch[at]
            scratch[at] = to + 1
            to_keys[to] = key
            to_places[to] = places[k]
