"""Convolution with neighbouring channels of the result in the lanes of a vector.

conv.py has neighbouring places of the result there, which leaves lanes empty where its lines are short. Here the
weights are laid out channel by channel, and a tile is some places by up to WINDOW_WIDTH vectors of channels; it is
turned when it is stored. The padded copy of the input and the tables of places and shifts are conv.py's.
"""

from __future__ import annotations

from .gemm_tile import HEIGHT, WINDOW_WIDTH, pack, unpack, window_tile
from .jit import kernel


@kernel(writes=("out",))
def pack_lanes(w, out, per_group, n, lane, start, stop):
    """out[group, tile, k, vector, lane] = w[group, o, k], anything beyond the group; the range counts all vectors

    A tile is up to WINDOW_WIDTH vectors, side by side, so that a product reads one stretch of memory.
    """
    vectors = (per_group + lane - 1) // lane
    for number in range(start, stop):
        group = number // vectors
        v = number - group * vectors
        inside = v % WINDOW_WIDTH
        step = min(WINDOW_WIDTH, vectors - v + inside) * lane
        base = (number - inside) * n * lane + inside * lane
        channels = min(lane, per_group - v * lane)
        top = (group * per_group + v * lane) * n
        whole = n // lane * lane
        if whole:
            pack(w, top, n, 1, channels, whole, out, base, step)
        for k in range(whole, n):
            for r in range(lane):
                out[base + k * step + r] = w[top + r * n + k] if r < channels else 0


@kernel(writes=("out", "scratch"))
def correlate_lanes(
    x,
    w,
    bias,
    out,
    scratch,
    places,
    shifts,
    least,
    n,
    groups,
    per_group,
    count,
    total,
    plane,
    tasks,
    lane,
    start,
    stop,
):
    """out[image, o, t] = max(bias[o] + sum over k of w[o, k] * x[places[image, t] + shifts[k]], least)

    There are ``total`` places, ``count`` per image, and ``plane`` elements of x per group. The range counts tasks
    that blocks of LANES places are shared out to; ``scratch`` holds WINDOW_WIDTH squares of vectors for each.
    """
    vectors = (per_group + lane - 1) // lane
    blocks = (total + lane - 1) // lane
    row = WINDOW_WIDTH * lane
    for task in range(start, stop):
        own = task * lane * row
        for group in range(groups):
            v = 0
            while v < vectors:
                width = min(WINDOW_WIDTH, vectors - v)
                first = group * per_group + v * lane
                weights = (group * vectors + v) * lane
                for block in range(blocks * task // tasks, blocks * (task + 1) // tasks):
                    t = block * lane
                    end = min(t + lane, total)
                    for r in range(0, end - t, HEIGHT):
                        window_tile(
                            x, group * plane, places, t + r, shifts,
                            w, weights * n, lane, width * lane, n,
                            scratch, own + r * row, row, bias, weights, 0, 1,
                            min(HEIGHT, end - t - r), width, lane,
                        )  # fmt: skip
                    at = own
                    while t < end:  # image by image
                        image = t // count
                        rows = min(end - t, (image + 1) * count - t)
                        for j in range(width):
                            to = (image * groups * per_group + first + j * lane) * count + t - image * count
                            channels = min(lane, per_group - (v + j) * lane)
                            unpack(scratch, at + j * lane, row, rows, channels, out, to, count, least)
                        at += rows * row
                        t += rows
                v += width
