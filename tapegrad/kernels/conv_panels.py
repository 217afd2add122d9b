"""Convolution with images in the rows of a tile, or channels, and channels in the lanes of its vectors.

conv.py and conv_lanes.py put neighbouring places of the result into a tile, and so multiply with the padding. Here all of a
tile lies at one place, so whatever a window has outside the image is left out, any stride is alike, and tiles are
full however small images are. The price is that all operands are laid out in panels, and the result is turned.

Places that meet are listed in segments: see ops/conv_panels.py. A panel of LANES images has a row per (place, channel); one
of channels has a row per (place, image).
"""

from __future__ import annotations

import numpy as np

from .gemm_tile import HEIGHT, WIDTH, unpack
from .jit import kernel
from .panel_tile import panel_tile, turn


@kernel(writes=("out",))
def lay_images(x, out, images, channels, places, order, lane, start, stop):
    """out[block, place, c, lane] = x[image, c, place]; the range counts (block of LANES images, channel)"""
    for number in range(start, stop):
        block = number // channels
        c = number - block * channels
        n = min(lane, images - block * lane)
        at = (block * lane * channels + c) * places
        to = (block * places * channels + c) * lane
        for t in range(0, places, lane):
            k = min(lane, places - t)
            turn(x, at + t, channels * places, n, k, out, to, channels * lane, order, t)


@kernel(writes=("out",))
def lay_channels(x, out, images, channels, per_group, places, panels, order, lane, start, stop):
    """out[group, panel, place, image, lane] = x[image, c, place]; the range counts (group, vector of channels, image)

    The vectors of a group are shared out to ``panels`` panels, side by side in each.
    """
    vectors = (per_group + lane - 1) // lane
    for number in range(start, stop):
        v = number // images
        image = number - v * images
        group = v // vectors
        v -= group * vectors
        panel = ((v + 1) * panels - 1) // vectors
        left = vectors * panel // panels
        width = vectors * (panel + 1) // panels - left
        n = min(lane, per_group - v * lane)
        at = (image * channels + group * per_group + v * lane) * places
        to = ((group * vectors + left) * places * images + image * width + v - left) * lane
        for t in range(0, places, lane):
            k = min(lane, places - t)
            turn(x, at + t, places, n, k, out, to, images * width * lane, order, t)


@kernel(writes=("out",))
def lay_weights(w, out, per_group, rows, across, lines, line, length, panels, order, each, lane, start, stop):
    """out[group, panel, row, lane] = w; the range counts (group, vector of channels, line)

    A channel of the panel has ``lines`` lines of ``length`` elements in w: it begins ``across`` behind the one before, and
    its lines are ``line`` apart, as many in each group. Element j of line i goes to row order[j] + i * each of ``rows``.
    """
    vectors = (per_group + lane - 1) // lane
    for number in range(start, stop):
        v = number // lines
        i = number - v * lines
        group = v // vectors
        v -= group * vectors
        panel = ((v + 1) * panels - 1) // vectors
        left = vectors * panel // panels
        width = vectors * (panel + 1) // panels - left
        n = min(lane, per_group - v * lane)
        at = (group * lines + i) * line + v * lane * across
        to = ((group * vectors + left) * rows + i * each * width + v - left) * lane
        for t in range(0, length, lane):
            turn(w, at + t, across, n, min(lane, length - t), out, to, width * lane, order, t)


@kernel(writes=("out", "scratch"))
def convolve(
    x, w, bias, out, scratch, segments, begins,
    least, images, rows, groups, per_group, outs, x_group, x_block, cuts, panels, tasks, units, room, tall, lane,
    start, stop,
):  # fmt: skip
    """out[image, o, t] = max(bias[o] + sum over the segments of t of x's rows times those of w, least)

    ``begins`` has for each of ``outs`` places its first segment. Places are cut into ``cuts`` runs. A group is ``x_group``
    rows of a place of x, a block ``x_block`` elements. The range counts units that ``tasks`` are shared out to: (block of
    images, run, group, panel of w). ``scratch`` has ``room`` for each, a run of places by ``tall`` images.
    """
    vectors = (per_group + lane - 1) // lane
    own = start * room
    for task in range(tasks * start // units, tasks * stop // units):
        panel = task % panels
        group = task // panels % groups
        cut = task // (panels * groups) % cuts
        block = task // (panels * groups * cuts)
        left = vectors * panel // panels
        width = vectors * (panel + 1) // panels - left
        n = min(lane, images - block * lane)
        first, last = outs * cut // cuts, outs * (cut + 1) // cuts
        x_at = block * x_block + group * x_group * lane
        v = group * vectors + left
        across = width * lane
        line = tall * across
        for r in range(0, n, HEIGHT):
            for t in range(first, last):
                panel_tile(
                    x, x_at + r, w, v * rows * lane, segments, begins[t], begins[t + 1] - begins[t],
                    scratch, own + (t - first) * line + r * across, across, bias, v * lane, 1,
                    min(HEIGHT, n - r), width,
                )  # fmt: skip
        for image in range(n):
            for j in range(width):
                o = group * per_group + (left + j) * lane
                columns = min(lane, per_group - (left + j) * lane)
                to = ((block * lane + image) * groups * per_group + o) * outs
                for t in range(first, last, lane):
                    unpack(
                        scratch, own + (t - first) * line + image * across + j * lane, line,
                        min(lane, last - t), columns, out, to + t, outs, least,
                    )  # fmt: skip


@kernel(writes=("total", "scratch"))
def contract(
    x, g, total, scratch, segments, begins,
    x_places, g_places, images, taps, chunks, channels, per_group, groups, panels, more, tasks, units, lane,
    start, stop,
):  # fmt: skip
    """total[group, panel, (c, tap), lane] = sum over the segments of tap of x's rows times those of g

    Segments come in ``chunks``, each of which is summed by itself, so that errors of rounding stay small; ``begins`` has for
    each (tap, chunk) its first one. With ``more`` the sums are added to what is there. The range counts units that
    ``tasks`` tiles are shared out to; ``scratch`` has room for a tile for each.
    """
    vectors = (per_group + lane - 1) // lane
    tall = (channels + HEIGHT - 1) // HEIGHT
    deep = (channels + lane - 1) // lane
    own = start * HEIGHT * WIDTH * lane
    for chunk in range(chunks):
        for task in range(tasks * start // units, tasks * stop // units):
            tap = task % taps
            block = task // taps % tall
            panel = task // (taps * tall) % panels
            group = task // (taps * tall * panels)
            left = vectors * panel // panels
            width = vectors * (panel + 1) // panels - left
            top = block * HEIGHT
            count = min(HEIGHT, channels - top)
            v = group * vectors + left
            x_at = (group * deep + top // lane) * x_places * images * lane + top % lane
            first = begins[tap * chunks + chunk]
            many = begins[tap * chunks + chunk + 1] - first
            across = width * lane
            to = (v * channels * taps + (top * taps + tap) * width) * lane
            row = taps * across
            if chunk == 0 and not more:
                panel_tile(
                    x, x_at, g, v * g_places * images * lane, segments, first, many,
                    total, to, row, scratch, own, 0, count, width,
                )  # fmt: skip
            else:
                panel_tile(
                    x, x_at, g, v * g_places * images * lane, segments, first, many,
                    scratch, own, across, scratch, own, 0, count, width,
                )  # fmt: skip
                for r in range(count):
                    for j in range(across):
                        total[to + r * row + j] += scratch[own + r * across + j]


@kernel(writes=("out",))
def turn_back(total, out, rows, per_group, panels, lane, start, stop):
    """out[group, o, row] = total[group, panel, row, lane]; the range counts (group, vector of channels, LANES rows)"""
    vectors = (per_group + lane - 1) // lane
    blocks = (rows + lane - 1) // lane
    for number in range(start, stop):
        v = number // blocks
        first = (number - v * blocks) * lane
        group = v // vectors
        v -= group * vectors
        panel = ((v + 1) * panels - 1) // vectors
        left = vectors * panel // panels
        across = (vectors * (panel + 1) // panels - left) * lane
        at = (group * vectors + left) * rows * lane + first * across + (v - left) * lane
        to = (group * per_group + v * lane) * rows + first
        count = min(lane, rows - first)
        unpack(total, at, across, count, min(lane, per_group - v * lane), out, to, rows, -np.inf)
