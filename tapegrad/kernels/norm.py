"""Normalisation: (x - mean) / sqrt(variance + eps) * weight + bias, and its derivatives.

*Rows* are normalised one by one (layer and RMS norm): moments and result while the row lies in the cache.
Batch, group and instance norm see (N, C, L) as N * C *planes* of L elements, or as *columns* where L is 1.
What they do to a plane or column is x -> (x - shift) * scale + offset with three numbers; small kernels
work these out.

Moments, means and sums are float64. A mean in float32 keeps what it lacks of the float64 one in ``offset``,
so that a mean that is large against the deviation costs no digits. Sums over rows, planes and columns are
cut by the sizes alone.
"""

from __future__ import annotations

import math

import numpy as np

from .jit import device, fast, kernel

BLOCK = 512  # elements that are summed with reordering allowed
WIDTH = 256  # columns of a tile: less would make poor use of the memory's long lines
_summing = fast("contract", "reassoc")


@_summing
def _sum(x, first, last):
    """The sum of x[first:last] in float64"""
    total = 0.0
    while first < last:
        end = min(first + BLOCK, last)
        part = type(x[first])(0)  # not x[first]: vectors would begin one element behind where cache lines do
        for i in range(first, end):
            part += x[i]
        total += np.float64(part)
        first = end
    return total


@_summing
def _deviations(x, shift, first, last):
    """Sums of x - shift and of its square over [first:last], in float64"""
    total, squares = 0.0, 0.0
    while first < last:
        end = min(first + BLOCK, last)
        part = shift - shift
        square = part
        for i in range(first, end):
            d = x[i] - shift
            part += d
            square += d * d
        total += np.float64(part)
        squares += np.float64(square)
        first = end
    return total, squares


@_summing
def _moments(x, first, last):
    """Mean of x[first:last] and the sum of squared deviations from it, in float64"""
    n = np.float64(last - first)
    shift = type(x[first])(_sum(x, first, last) / n)
    lack, squares = _deviations(x, shift, first, last)
    return np.float64(shift) + lack / n, squares - lack * lack / n


@_summing
def _pair_sums(g, x, shift, first, last):
    """Sums of g and of g * (x - shift) over [first:last], in float64"""
    total, products = 0.0, 0.0
    while first < last:
        end = min(first + BLOCK, last)
        part = shift - shift
        product = part
        for i in range(first, end):
            part += g[i]
            product += g[i] * (x[i] - shift)
        total += np.float64(part)
        products += np.float64(product)
        first = end
    return total, products


# -- rows ------------------------------------------------------------------------------------------------


@kernel(rows=("x", "out", "mean", "rstd"))
def normalize_rows(x, weight, bias, out, mean, rstd, n, eps, centered, start, stop):
    """out[r] = (x[r] - mean[r]) * rstd[r] * weight + bias; mean[r] is 0 unless ``centered``"""
    for r in range(start, stop):
        first = r * n
        zero = x[first] - x[first]
        if centered:
            average, squares = _moments(x, first, first + n)
        else:
            average = 0.0
            _, squares = _deviations(x, type(zero)(0), first, first + n)
        spread = 1.0 / math.sqrt(squares / n + eps)
        mean[r] = average
        rstd[r] = spread
        shift = type(zero)(average)
        scale = type(zero)(spread)
        lack = type(zero)((np.float64(shift) - average) * spread)
        for i in range(n):
            out[first + i] = ((x[first + i] - shift) * scale + lack) * weight[i] + bias[i]


@_summing
def _row_sums(g, x, weight, shift, scale, lack, row, first, last):
    """Sums of a = g * weight and of a * (normalised x) over a part of a row"""
    total, products = 0.0, 0.0
    while first < last:
        end = min(first + BLOCK, last)
        part = shift - shift
        product = part
        for i in range(first, end):
            a = g[row + i] * weight[i]
            part += a
            product += a * ((x[row + i] - shift) * scale + lack)
        total += np.float64(part)
        products += np.float64(product)
        first = end
    return total, products


@kernel(rows=("g", "x", "mean", "rstd", "out"))
def normalize_rows_grad(g, x, weight, mean, rstd, out, n, centered, start, stop):
    """out[r] = rstd * (a - mean of a - y * mean of a * y), a = g * weight, y = (x - mean) * rstd"""
    for r in range(start, stop):
        row = r * n
        shift = type(x[row])(mean[r])
        scale = type(x[row])(rstd[r])
        lack = type(x[row])((np.float64(shift) - mean[r]) * rstd[r])
        total, products = _row_sums(g, x, weight, shift, scale, lack, row, 0, n)
        if not centered:
            total = 0.0
        average = type(shift)(total / n)
        share = type(shift)(products / n)
        for i in range(n):
            y = (x[row + i] - shift) * scale + lack
            out[row + i] = (g[row + i] * weight[i] - average - y * share) * scale


@device
def _row_numbers(x, mean, rstd, r, n):
    """Shift, scale and what the shift lacks, in the type of x"""
    shift = type(x[0])(mean[r])
    return shift, type(x[0])(rstd[r]), type(x[0])((np.float64(shift) - mean[r]) * rstd[r])


@kernel
def normalize_rows_weights(g, x, mean, rstd, scratch, weight, bias, rows, n, start, stop):
    """weight[j] = sum over r of g[r, j] * y[r, j] and bias[j] = sum of g[r, j], in float64

    The range counts tiles of columns; ``scratch`` holds 2 * WIDTH numbers per tile, for 32 rows at a time.
    """
    for tile in range(start, stop):
        left = tile * WIDTH
        m = min(WIDTH, n - left)
        products = tile * 2 * WIDTH
        totals = products + WIDTH
        for j in range(m):
            weight[left + j] = 0.0
            bias[left + j] = 0.0
        r = 0
        while r < rows:
            end = min(r + 32, rows)
            for j in range(m):
                scratch[products + j] = 0.0
                scratch[totals + j] = 0.0
            while r + 4 <= end:  # four rows for each time that the sums are read and written
                a, b, c, d = r * n + left, (r + 1) * n + left, (r + 2) * n + left, (r + 3) * n + left
                a_shift, a_scale, a_lack = _row_numbers(x, mean, rstd, r, n)
                b_shift, b_scale, b_lack = _row_numbers(x, mean, rstd, r + 1, n)
                c_shift, c_scale, c_lack = _row_numbers(x, mean, rstd, r + 2, n)
                d_shift, d_scale, d_lack = _row_numbers(x, mean, rstd, r + 3, n)
                for j in range(m):
                    first = g[a + j] * ((x[a + j] - a_shift) * a_scale + a_lack)
                    first += g[b + j] * ((x[b + j] - b_shift) * b_scale + b_lack)
                    second = g[c + j] * ((x[c + j] - c_shift) * c_scale + c_lack)
                    second += g[d + j] * ((x[d + j] - d_shift) * d_scale + d_lack)
                    scratch[products + j] += first + second
                    scratch[totals + j] += (g[a + j] + g[b + j]) + (g[c + j] + g[d + j])
                r += 4
            while r < end:
                a = r * n + left
                a_shift, a_scale, a_lack = _row_numbers(x, mean, rstd, r, n)
                for j in range(m):
                    scratch[products + j] += g[a + j] * ((x[a + j] - a_shift) * a_scale + a_lack)
                    scratch[totals + j] += g[a + j]
                r += 1
            for j in range(m):
                weight[left + j] += scratch[products + j]
                bias[left + j] += scratch[totals + j]


# A read waits for earlier writes whose addresses agree in the last 12 bits, as if they were to the same place. So stretches
# that are written side by side, the first of them at the start of a page, begin at other places of their pages.
PAGE = 1024  # numbers of 4 bytes
APART = 352


def slopes_scratch(n: int) -> int:
    """How many numbers of scratch memory normalize_rows_slopes needs for each piece."""
    return 2 * (-(-n // PAGE) * PAGE) + PAGE


@kernel
def normalize_rows_slopes(
    g, x, weight, mean, rstd, out, scratch, parts, rows, piece, n, centered, start, stop
):
    """normalize_rows_grad, and normalize_rows_weights for each ``piece`` of rows, while a row is in the cache

    The range counts pieces; parts[piece] is 2 * n sums in float64, of g * y and then of g; ``scratch`` has
    room for slopes_scratch(n) numbers for each piece.
    """
    room = (n + PAGE - 1) // PAGE * PAGE
    for part in range(start, stop):
        first, end = part * piece, min((part + 1) * piece, rows)
        products = part * (2 * room + PAGE) + APART
        totals = products + room + APART
        to = part * 2 * n
        for j in range(2 * n):
            parts[to + j] = 0.0
        r = first
        while r < end:
            pause = min(r + 32, end)
            for j in range(n):
                scratch[products + j] = 0.0
                scratch[totals + j] = 0.0
            while r < pause:
                row = r * n
                shift, scale, lack = _row_numbers(x, mean, rstd, r, n)
                total, product = _row_sums(g, x, weight, shift, scale, lack, row, 0, n)
                if not centered:
                    total = 0.0
                average = type(shift)(total / n)
                share = type(shift)(product / n)
                for j in range(n):
                    a = g[row + j]
                    y = (x[row + j] - shift) * scale + lack
                    out[row + j] = (a * weight[j] - average - y * share) * scale
                    scratch[products + j] += a * y
                    scratch[totals + j] += a
                r += 1
            for j in range(n):
                parts[to + j] += scratch[products + j]
                parts[to + n + j] += scratch[totals + j]


@kernel
def add_pieces(parts, weight, bias, pieces, n, start, stop):
    """weight[j] and bias[j]: the sums over pieces of what normalize_rows_slopes found; the range counts columns"""
    for j in range(start, stop):
        weight[j] = parts[j]
        bias[j] = parts[n + j]
    for p in range(1, pieces):
        for j in range(start, stop):
            weight[j] += parts[p * 2 * n + j]
            bias[j] += parts[p * 2 * n + n + j]


# -- planes: (planes, length); numbers of a plane stand at its index modulo ``wrap`` -----------------------


@kernel
def plane_moments(x, mean, m2, length, start, stop):
    """mean[p] and sum of squared deviations m2[p] of each plane"""
    for p in range(start, stop):
        mean[p], m2[p] = _moments(x, p * length, (p + 1) * length)


@kernel
def scale_planes(x, shift, scale, offset, out, length, wrap, start, stop):
    """out[p] = (x[p] - shift) * scale + offset"""
    for p in range(start, stop):
        k = p % wrap
        a, b, c = shift[k], scale[k], offset[k]
        for i in range(p * length, (p + 1) * length):
            out[i] = (x[i] - a) * b + c


@kernel
def plane_sums(g, x, shift, total, products, length, wrap, start, stop):
    """total[p] = sum of g[p], products[p] = sum of g[p] * (x[p] - shift)"""
    for p in range(start, stop):
        total[p], products[p] = _pair_sums(g, x, shift[p % wrap], p * length, (p + 1) * length)


@kernel
def combine_planes(g, x, shift, by_g, by_x, offset, out, length, wrap, start, stop):
    """out[p] = g[p] * by_g - (x[p] - shift) * by_x - offset"""
    for p in range(start, stop):
        k = p % wrap
        a, b, c, d = shift[k], by_g[k], by_x[k], offset[k]
        for i in range(p * length, (p + 1) * length):
            out[i] = g[i] * b - ((x[i] - a) * c + d)


# -- columns: (rows, n), one set of numbers per column ----------------------------------------------------


@kernel
def column_moments(x, mean, m2, rows, n, start, stop):
    """mean[j] and sum of squared deviations m2[j] of each column; the range counts tiles of WIDTH columns"""
    for tile in range(start, stop):
        left = tile * WIDTH
        m = min(WIDTH, n - left)
        for j in range(left, left + m):
            mean[j] = 0.0
            m2[j] = 0.0
        for r in range(rows):
            for j in range(left, left + m):
                mean[j] += np.float64(x[r * n + j])
        for j in range(left, left + m):
            mean[j] /= rows
        for r in range(rows):
            for j in range(left, left + m):
                d = np.float64(x[r * n + j]) - mean[j]
                m2[j] += d * d


@kernel
def scale_columns(x, shift, scale, offset, out, n, start, stop):
    """out[r, j] = (x[r, j] - shift[j]) * scale[j] + offset[j]; the range counts rows"""
    for r in range(start, stop):
        for j in range(n):
            out[r * n + j] = (x[r * n + j] - shift[j]) * scale[j] + offset[j]


@kernel
def column_sums(g, x, shift, total, products, rows, n, start, stop):
    """total[j] = sum of g[:, j], products[j] = sum of g * (x - shift[j]); the range counts tiles"""
    for tile in range(start, stop):
        left = tile * WIDTH
        m = min(WIDTH, n - left)
        for j in range(left, left + m):
            total[j] = 0.0
            products[j] = 0.0
        for r in range(rows):
            for j in range(left, left + m):
                total[j] += np.float64(g[r * n + j])
                products[j] += np.float64(g[r * n + j] * (x[r * n + j] - shift[j]))


@kernel
def combine_columns(g, x, shift, by_g, by_x, offset, out, n, start, stop):
    """out[r, j] = g[r, j] * by_g[j] - (x[r, j] - shift[j]) * by_x[j] - offset[j]; the range counts rows"""
    for r in range(start, stop):
        for j in range(n):
            i = r * n + j
            out[i] = g[i] * by_g[j] - ((x[i] - shift[j]) * by_x[j] + offset[j])


# -- the numbers of planes and columns --------------------------------------------------------------------
# There are ``count`` sets of numbers; set k belongs to channel k % channels and to the group of statistics
# k // per. Group s has ``members`` planes, s * first + i * step for i in range(members).


@kernel
def merge_moments(mean, m2, group_mean, group_var, length, first, step, members, start, stop):
    """Mean and variance of each group of planes from those of its planes, which have ``length`` elements"""
    for s in range(start, stop):
        average = 0.0
        for i in range(members):
            average += mean[s * first + i * step]
        average /= members
        squares = 0.0
        for i in range(members):
            d = mean[s * first + i * step] - average
            squares += m2[s * first + i * step] + d * d * length
        group_mean[s] = average
        group_var[s] = squares / (members * length)


@kernel
def coefficients(mean, var, weight, bias, shift, scale, offset, eps, per, channels, start, stop):
    """shift, scale and offset such that (x - shift) * scale + offset normalises"""
    for k in range(start, stop):
        average = np.float64(mean[k // per])
        spread = 1.0 / math.sqrt(np.float64(var[k // per]) + eps)
        w = np.float64(weight[k % channels])
        shift[k] = average
        scale[k] = spread * w
        offset[k] = (np.float64(shift[k]) - average) * spread * w + np.float64(bias[k % channels])


@kernel
def weight_grads(
    total, products, mean, var, shift, weight, bias, eps, per, channels, planes, wrap, start, stop
):
    """weight[c] = sum of g * y and bias[c] = sum of g over the planes of channel c, y the normalised input"""
    for c in range(start, stop):
        along, plain = 0.0, 0.0
        for p in range(c, planes, channels):
            k = p % wrap
            average = np.float64(mean[k // per])
            spread = 1.0 / math.sqrt(np.float64(var[k // per]) + eps)
            along += (products[p] + (np.float64(shift[k]) - average) * total[p]) * spread
            plain += total[p]
        weight[c] = along
        bias[c] = plain


@kernel
def input_coefficients(
    total,
    products,
    mean,
    var,
    weight,
    shift,
    by_g,
    by_x,
    offset,
    eps,
    length,
    per,
    channels,
    first,
    step,
    members,
    start,
    stop,
):
    """by_g, by_x and offset such that g * by_g - (x - shift) * by_x - offset is the gradient of the input

    The range counts the groups of statistics; a group's sums are those of g * weight and g * weight * y.
    """
    for s in range(start, stop):
        average = np.float64(mean[s])
        spread = 1.0 / math.sqrt(np.float64(var[s]) + eps)
        plain, along = 0.0, 0.0
        for i in range(members):
            p = s * first + i * step
            w = np.float64(weight[p % channels])
            lack = np.float64(shift[s * per]) - average
            plain += w * total[p]
            along += w * (products[p] + lack * total[p]) * spread
        size = np.float64(members * length)
        for k in range(s * per, (s + 1) * per):
            lack = np.float64(shift[k]) - average
            slope = spread * spread * along / size
            by_g[k] = spread * np.float64(weight[k % channels])
            by_x[k] = slope
            offset[k] = spread * plain / size + slope * lack


@kernel
def move(running, new, keep, share, start, stop):
    """running = keep * running + share * new"""
    for i in range(start, stop):
        running[i] = keep * running[i] + share * new[i]
