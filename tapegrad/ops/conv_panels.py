"""Convolution of arrays over panels: what meets what, listed once per geometry (kernels/conv_panels.py).

Several images with enough channels gain, see conv_choice.py; all else is conv_arrays.py's.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from .. import kernels
from ..kernels import launch_lazily as launch
from .conv_scratch import scratch, starts
from .windows import Windows

# Elements in the panels of some images: few enough to stay in the cache that cores share.
BLOCK = 1 << 20
# Rows that are summed before the sum is added up.
LONG = 512
# Units that threads share.
_UNITS = 64


class Segments(NamedTuple):
    """Runs of rows that meet: three numbers for each, and where those of each key begin."""

    table: np.ndarray
    begins: np.ndarray


def _segments(key: np.ndarray, a: np.ndarray, b: np.ndarray, n: int, keys: int) -> Segments:
    """Pairs of ``n`` rows from ``a`` and ``b`` on, those that follow on one another joined, in order of ``key``."""
    fresh = np.ones(len(key), np.bool_)
    fresh[1:] = (np.diff(key) != 0) | (np.diff(a) != n) | (np.diff(b) != n)
    starts = np.flatnonzero(fresh)
    lengths = np.diff(starts, append=len(key)) * n
    table = np.stack([a[starts], b[starts], lengths], 1).astype(np.int64).ravel()
    return Segments(table, np.searchsorted(key[starts], np.arange(keys + 1)).astype(np.int64))


@lru_cache(maxsize=8)  # what is kept is made of it
def _meetings(w: Windows) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """All outputs, taps and inputs that meet, in order of the first two."""
    dims = len(w.size)
    total = np.zeros((1,) * (2 * dims), np.int64)
    out, tap, valid = total, total, total == 0
    for d, (n, m, kernel, stride, pad, dilation) in enumerate(zip(*w, strict=True)):
        t = np.arange(m).reshape([-1 if j == d else 1 for j in range(2 * dims)])
        k = np.arange(kernel).reshape([-1 if j == d + dims else 1 for j in range(2 * dims)])
        at = t * stride - pad + k * dilation
        out, tap, total = out * m + t, tap * kernel + k, total * n + at
        valid = valid & (at >= 0) & (at < n)
    everywhere = np.broadcast_arrays(out, tap, total)
    found = [x[valid] for x in everywhere]
    return found[0], found[1], found[2]


@lru_cache(maxsize=256)
def _forward_segments(w: Windows, channels: int, per_group: int) -> Segments:
    """Per output: the channels of inputs, and those of taps."""
    out, tap, place = _meetings(w)
    return _segments(out, place * channels, tap * per_group, per_group, w.outputs())


@lru_cache(maxsize=256)
def _adjoint_segments(w: Windows, channels: int, per_group: int) -> Segments:
    """Per input: the channels of outputs, and those of taps, of which the last comes first."""
    out, tap, place = _meetings(w)
    order = np.lexsort((-tap, place))
    out, tap, place = out[order], w.taps() - 1 - tap[order], place[order]
    return _segments(place, out * channels, tap * per_group, per_group, math.prod(w.size))


@lru_cache(maxsize=256)
def _weight_segments(w: Windows, images: int, chunks: int) -> Segments:
    """Per tap and chunk of outputs: the images of inputs, and those of outputs."""
    out, tap, place = _meetings(w)
    order = np.lexsort((out, tap))
    out, tap, place = out[order], tap[order], place[order]
    key = tap * chunks + out * chunks // w.outputs()
    return _segments(key, place * images, out * images, images, w.taps() * chunks)


@lru_cache(maxsize=256)
def _order(n: int) -> np.ndarray:
    return np.arange(n, dtype=np.int64)


@lru_cache(maxsize=256)
def _forward_order(taps: int, per_group: int) -> np.ndarray:
    """The row of each (channel, tap): taps first."""
    return np.arange(taps * per_group, dtype=np.int64).reshape(taps, per_group).T.ravel()


@lru_cache(maxsize=256)
def _adjoint_order(taps: int, per_group: int) -> np.ndarray:
    return np.arange(taps - 1, -1, -1, dtype=np.int64) * per_group


def _panels(channels: int, lanes: int) -> int:
    """How many panels the vectors of so many channels are shared out to."""
    size: int = lanes * kernels.gemm_tile.WIDTH
    return -(-channels // size)


# -- the three maps --------------------------------------------------------------------------------------


def forward(
    x: np.ndarray,
    weight: np.ndarray,
    bias: np.ndarray | None,
    out: np.ndarray,
    w: Windows,
    groups: int,
    least: float = -math.inf,
) -> None:
    """out[n, o, t] = bias[o] + sum of weight[o, c, k] * x[n, c, t * stride - padding + k * dilation], at least ``least``"""
    outs, channels, taps = weight.shape[0] // groups, weight.shape[1], w.taps()
    lanes = kernels.tile.lanes(x.itemsize)
    panels = _panels(outs, lanes)
    vectors = -(-outs // lanes)
    rows = channels * taps
    packed = scratch.take("weight", groups * vectors * lanes * rows, x.dtype)
    order = _forward_order(taps, channels)
    numbers = (outs, rows, rows, 1, outs * rows, rows, panels)
    launch(
        kernels.conv_panels.lay_weights,
        (weight, packed, *numbers, order, 0, lanes),
        groups * vectors,
        packed.size,
    )
    segments = _forward_segments(w, channels * groups, channels)
    _convolve(x, packed, bias, out, segments, rows, outs, groups, panels, least)


def input_adjoint(
    g: np.ndarray, weight: np.ndarray, bias: np.ndarray | None, out: np.ndarray, w: Windows, groups: int
) -> None:
    """out[n, c, t * stride - padding + k * dilation] += weight[o, c, k] * g[n, o, t], from bias[c]"""
    outs, channels, taps = weight.shape[0] // groups, weight.shape[1], w.taps()
    lanes = kernels.tile.lanes(g.itemsize)
    panels = _panels(channels, lanes)
    vectors = -(-channels // lanes)
    rows = outs * taps
    packed = scratch.take("weight", groups * vectors * lanes * rows, g.dtype)
    order = _adjoint_order(taps, outs)
    numbers = (channels, rows, taps, outs, channels * taps, taps, panels)
    args = (weight, packed, *numbers, order, 1, lanes)
    launch(kernels.conv_panels.lay_weights, args, groups * vectors * outs, packed.size)
    segments = _adjoint_segments(w, outs * groups, outs)
    _convolve(g, packed, bias, out, segments, rows, channels, groups, panels, -math.inf)


def _convolve(
    x: np.ndarray,
    packed: np.ndarray,
    bias: np.ndarray | None,
    out: np.ndarray,
    segments: Segments,
    rows: int,
    per_group: int,
    groups: int,
    panels: int,
    least: float,
) -> None:
    conv = kernels.conv_panels
    images, channels = x.shape[:2]
    lanes = kernels.tile.lanes(x.itemsize)
    places, outs = math.prod(x.shape[2:]), math.prod(out.shape[2:])
    vectors = -(-per_group // lanes)
    start = starts(bias, groups, per_group, vectors * lanes, x.dtype)
    block = places * channels * lanes
    step = max(1, BLOCK // block) * lanes
    cuts = -(-outs // lanes)
    longest, tall = -(-outs // cuts), min(lanes, images)
    tasks = -(-min(step, images) // lanes) * cuts * groups * panels
    units = min(tasks, _UNITS)
    room = longest * tall * kernels.gemm_tile.WIDTH * lanes
    own = scratch.take("tiles", units * room, x.dtype)
    for a in range(0, images, step):
        b = min(a + step, images)
        blocks = -(-(b - a) // lanes)
        laid = scratch.take("images", blocks * block, x.dtype)
        args = (x[a:b], laid, b - a, channels, places, _order(places), lanes)
        launch(conv.lay_images, args, blocks * channels, laid.size)
        arrays = (laid, packed, start, out[a:b], own, *segments)
        numbers = (least, b - a, rows, groups, per_group, outs, channels // groups, block, cuts, panels)
        tasks = blocks * cuts * groups * panels
        work = (b - a) * outs * vectors * groups * rows
        launch(conv.convolve, (*arrays, *numbers, tasks, units, room, tall, lanes), units, work)


def weight_adjoint(x: np.ndarray, g: np.ndarray, out: np.ndarray, w: Windows, groups: int) -> None:
    """out[o, c, k] = sum over n and t of g[n, o, t] * x[n, c, t * stride - padding + k * dilation]"""
    conv = kernels.conv_panels
    images, channels = x.shape[:2]
    lanes = kernels.tile.lanes(x.itemsize)
    places, outs = math.prod(x.shape[2:]), math.prod(g.shape[2:])
    per_group, above = channels // groups, g.shape[1] // groups
    deep, vectors = -(-per_group // lanes), -(-above // lanes)
    panels, taps = _panels(above, lanes), w.taps()
    tall = -(-per_group // kernels.gemm_tile.HEIGHT)
    most = max(1, BLOCK // (groups * max(deep * places, vectors * outs) * lanes))
    step = -(-images // -(-images // most))
    total = scratch.take("sums", groups * vectors * lanes * per_group * taps, x.dtype)
    tasks = groups * panels * tall * taps
    units = min(tasks, _UNITS)
    own = scratch.take("tiles", units * kernels.gemm_tile.HEIGHT * kernels.gemm_tile.WIDTH * lanes, x.dtype)
    for a in range(0, images, step):
        n = min(step, images - a)
        laid = scratch.take("images", groups * deep * places * n * lanes, x.dtype)
        args = (x[a : a + n], laid, n, channels, per_group, places, deep, _order(places), lanes)
        launch(conv.lay_channels, args, groups * deep * n, laid.size)
        above_laid = scratch.take("lines", groups * vectors * outs * n * lanes, x.dtype)
        args = (g[a : a + n], above_laid, n, above * groups, above, outs, panels, _order(outs), lanes)
        launch(conv.lay_channels, args, groups * vectors * n, above_laid.size)
        chunks = -(-outs * n // LONG)
        segments = _weight_segments(w, n, chunks)
        arrays = (laid, above_laid, total, own, *segments)
        numbers = (places, outs, n, taps, chunks, per_group, above, groups, panels, int(a > 0), tasks, units)
        work = groups * vectors * per_group * taps * outs * n
        launch(conv.contract, (*arrays, *numbers, lanes), units, work)
    rows = per_group * taps
    count = groups * vectors * -(-rows // lanes)
    launch(conv.turn_back, (total, out, rows, above, panels, lanes), count, total.size)
