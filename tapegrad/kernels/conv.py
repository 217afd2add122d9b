"""Convolution as products of tiles, read in place.

A padded copy of the input makes every tap of a window a constant shift: with stride 1, output t and tap k
meet at place(t) + shift(k). For a stride s the copy is dealt out to s phases per dimension, within which the
same holds. So nothing is ever laid out window by window.
"""

from __future__ import annotations

import numpy as np

from . import tile
from .jit import fast, kernel


@kernel
def deal(x, out, table, start, stop):
    """out[p, phase, z, y, j] = x[p, z * stride + phase - pad, ...], zero outside; the range counts planes p

    ``table``: for depth, height and width in turn the size, the size of a phase, the stride, the padding, the
    number of phases; then the phases of each.
    """
    d, h, w = table[0], table[1], table[2]
    nd, nh, nw = table[3], table[4], table[5]
    sd, sh, sw = table[6], table[7], table[8]
    pd, ph, pw = table[9], table[10], table[11]
    fd, fh, fw = table[12], table[13], table[14]
    for plane in range(start, stop):
        to = plane * fd * fh * fw * nd * nh * nw
        for a in range(fd):
            for b in range(fh):
                for c in range(fw):
                    first = pw - table[15 + fd + fh + c]  # how far the input begins behind this phase
                    low = min(max((first + sw - 1) // sw, 0), nw)
                    high = min(max((w + first + sw - 1) // sw, low), nw)
                    for z in range(nd):
                        iz = z * sd + table[15 + a] - pd
                        for y in range(nh):
                            iy = y * sh + table[15 + fd + b] - ph
                            if iz < 0 or iz >= d or iy < 0 or iy >= h:
                                for j in range(nw):
                                    out[to + j] = 0
                            else:
                                at = ((plane * d + iz) * h + iy) * w - first
                                for j in range(low):
                                    out[to + j] = 0
                                if sw == 1:
                                    for j in range(low, high):
                                        out[to + j] = x[at + j]
                                else:
                                    for j in range(low, high):
                                        out[to + j] = x[at + j * sw]
                                for j in range(high, nw):
                                    out[to + j] = 0
                            to += nw


@kernel
def pack_rows(w, out, per_group, n, rows, start, stop):
    """out[tile, k, r] = w[group, tile * rows + r, k], zero beyond the group; the range counts all tiles"""
    tiles = (per_group + rows - 1) // rows
    for t in range(start, stop):
        group = t // tiles
        top = (t - group * tiles) * rows
        for r in range(rows):
            to = t * n * rows + r
            if top + r < per_group:
                at = (group * per_group + top + r) * n
                for k in range(n):
                    out[to + k * rows] = w[at + k]
            else:
                for k in range(n):
                    out[to + k * rows] = 0


def _correlate(height, width):
    product = tile.product(height, width)

    def correlate(
        x, w, bias, out, shifts, runs, parts,
        least, n, groups, per_group, count, places, each, cuts, start, stop,
    ):  # fmt: skip
        """out[image, o, t] = max(bias[o] + sum over k of w[o, k] * x[place(t) + shift(k)], least)

        x has ``each`` elements per image, out ``places``, w is packed by pack_rows. ``runs`` has for each of
        ``count`` vectors where it begins in x and which ``parts`` of it are results; it ends in empty ones. The
        range counts (image, cut): the vectors of an image are cut into ``cuts`` pieces.
        """
        tiles = (per_group + height - 1) // height
        x_group = each // groups
        blocks = (count + width - 1) // width
        for task in range(start, stop):
            image = task // cuts
            cut = task - image * cuts
            for group in range(groups):
                for block in range(blocks * cut // cuts, blocks * (cut + 1) // cuts):
                    for t in range(tiles):
                        column = group * tiles + t
                        product(
                            w, column * n * height, bias, column * height,
                            x, image * each + group * x_group, shifts, n,
                            out, ((image * groups + group) * per_group + t * height) * places, places,
                            min(height, per_group - t * height), runs, block * width, parts, least,
                        )  # fmt: skip

    correlate.__name__ = f"correlate{height}"
    return kernel(correlate, writes=("out",))


# By the number of rows of a tile.
correlate = {height: _correlate(height, width) for height, width in tile.PRODUCTS.items()}


@kernel
def line_up(g, out, images, per_group, padded, slices, lines, width, pitch, room, channels, start, stop):
    """out[c, image, slice] = g[image, c, slice], lines of ``width`` set ``pitch`` apart, zeros up to ``room``

    Groups have ``per_group`` channels in g and ``padded`` in out, of which the last are zero. The range
    counts channels of out.
    """
    for c in range(start, stop):
        group = c // padded
        inside = c - group * padded
        to = c * images * slices * room
        for image in range(images):
            at = (image * channels + group * per_group + inside) * slices * lines * width
            for _ in range(slices):
                for j in range(to, to + room):
                    out[j] = 0
                if inside < per_group:
                    for line in range(lines):
                        for j in range(width):
                            out[to + line * pitch + j] = g[at + line * width + j]
                at += lines * width
                to += room


def _contract(height, width):
    gram = tile.gram(height, width)

    def contract(x, g, out, shifts, lines, count, lanes, long, tall, broad, x_group, start, stop):
        """out[group, o, k] += sum over t of g[group, o, t] * x[place(t) + shift(k)], in float64

        g is laid out by line_up, ``count`` vectors of ``lanes`` per channel; a group has ``tall`` by ``broad``
        tiles. All tiles go over ``long`` vectors before the next are read. The range counts tiles.
        """
        pitch = count * lanes
        for first in range(0, count, long):
            n = min(long, count - first)
            for t in range(start, stop):
                group = t // (tall * broad)
                inside = t - group * tall * broad
                a = inside // broad
                b = inside - a * broad
                top = (group * tall + a) * height
                gram(
                    g, top * pitch + first * lanes, pitch, x, group * x_group, shifts, b * width,
                    lines, first, n, out, (top * broad + b) * width, broad * width,
                )  # fmt: skip

    contract.__name__ = f"contract{height}"
    return kernel(contract, writes=("out",))


# By the number of rows of a tile.
contract = {height: _contract(height, width) for height, width in tile.GRAMS.items()}


@kernel(writes=("total",))
def mend(x, g, total, geo, images, channels, per_group, height, padded, row, start, stop):
    """What is not finite in contract's sums computed anew, from nothing but what belongs to it

    ``geo`` is columns.py's. The range counts channels of g.
    """
    d, h, w, od, oh, ow = geo[0], geo[1], geo[2], geo[3], geo[4], geo[5]
    kd, kh, kw, sd, sh, sw = geo[6], geo[7], geo[8], geo[9], geo[10], geo[11]
    pd, ph, pw, dd, dh, dw = geo[12], geo[13], geo[14], geo[15], geo[16], geo[17]
    taps = kd * kh * kw
    outs = channels // per_group * height
    for o in range(start, stop):
        group = o // height
        first = (group * padded + o - group * height) * row
        for k in range(per_group * taps):
            have = total[first + k]
            if have - have == 0.0:
                continue
            c = k // taps
            tap = k - c * taps
            a, b, e = tap // (kh * kw), tap // kw % kh, tap % kw
            made = 0.0
            for image in range(images):
                plane = (image * channels + group * per_group + c) * d * h * w
                at = (image * outs + o) * od * oh * ow
                for z in range(od):
                    iz = z * sd - pd + a * dd
                    for y in range(oh):
                        iy = y * sh - ph + b * dh
                        known = iz >= 0 and iz < d and iy >= 0 and iy < h
                        line = plane + (iz * h + iy) * w
                        for t in range(ow):
                            ix = t * sw - pw + e * dw
                            inside = known and ix >= 0 and ix < w
                            v = np.float64(x[line + ix]) if inside else 0.0  # the padding belongs to it
                            made += v * np.float64(g[at + t])
                        at += ow
                if made != made:
                    break
            total[first + k] = made


@fast("contract", "reassoc")
def _line_sum(x, first, last):
    total = type(x[first])(0)  # not x[first]: vectors would begin one element behind where cache lines do
    for i in range(first, last):
        total += x[i]
    return total


@kernel
def sum_channels(x, out, images, channels, n, start, stop):
    """out[c] = sum over images and positions of x[image, c, :n], blocks of 256 added up in float64"""
    for c in range(start, stop):
        total = np.float64(0)
        for i in range(images):
            base = (i * channels + c) * n
            at = 0
            while at < n:
                end = min(at + 256, n)
                total += np.float64(_line_sum(x, base + at, base + end))
                at = end
        out[c] = total
