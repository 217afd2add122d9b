"""Convolution of arrays: the bilinear form and its two adjoints.

All three read and write (image, channel, *spatial) arrays and weights (out, in per group, *kernel), and share
one geometry. Either over panels (conv_panels.py), or in place: a few images at a time are copied with their padding,
so that every tap of a window is a constant shift; then tiles of products are read there (kernels/conv.py).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import buffers, kernels
from ..kernels import launch_lazily as launch
from ..kernels.arrays import cast, contiguous, copy, zeros
from ..kernels.recording import hosted, now
from . import conv_choice as choice
from . import conv_panels as panels
from .conv_plan import Plan, plan, residues
from .conv_scratch import scratch, starts
from .windows import Windows

# Elements of the padded copy of some images: few enough to stay in the caches that cores share.
BLOCK = 1 << 19
# Vectors that a tile of sums runs over before it is added up: many enough for that not to count, few enough
# to be in the first caches when the next tile runs over them.
LONG = 512


def _wide(*arrays: np.ndarray) -> tuple[np.ndarray, ...]:
    """Contiguous, and float16 as float32."""
    return tuple([contiguous(a, np.float32 if a.dtype.char == "e" else None) for a in arrays])


def _dealt(x: np.ndarray, p: Plan) -> np.ndarray:
    """The padded copy of some images."""
    planes = x.shape[0] * x.shape[1]
    size = planes * p.plane
    out = scratch.take("images", size + 128, x.dtype)
    copy(out[size:], 0)  # the last vectors read past the end
    launch(kernels.conv.deal, (x, out, p.table), planes, size)
    return out


# -- the three maps --------------------------------------------------------------------------------------


def forward(
    x: np.ndarray,
    weight: np.ndarray,
    bias: np.ndarray | None,
    w: Windows,
    groups: int,
    least: float = -math.inf,
) -> np.ndarray:
    """out[n, o, t] = bias[o] + sum of weight[o, c, k] * x[n, c, t * stride - padding + k * dilation]

    What is below ``least`` becomes that, for floating types without empty arrays.
    """
    dtype = x.dtype
    x, weight = _wide(x, weight)
    out = buffers.empty((x.shape[0], weight.shape[0], *w.out), x.dtype)
    if not out.size:
        return cast(out, dtype)
    if not x.size or not weight.size:
        copy(out, 0 if bias is None else bias.reshape(-1, *[1] * len(w.out)))
    elif x.dtype.kind != "f":
        return _integers(x, weight, bias, w, groups)
    elif choice.forward(w, *_sizes(x, weight, groups)):
        panels.forward(x, weight, bias, out, w, groups, least)
    elif choice.few_places(w, weight.shape[0] // groups, kernels.tile.lanes(x.itemsize)):
        _correlate_lanes(x, weight, bias, out, w, groups, least)
    else:
        _correlate(x, weight, bias, out, w, groups, least)
    return cast(out, dtype)


def _sizes(x: np.ndarray, weight: np.ndarray, groups: int) -> tuple[int, int, int, int, int]:
    """Images, channels and outputs of a group, groups, and elements of a vector."""
    return x.shape[0], weight.shape[1], weight.shape[0] // groups, groups, kernels.tile.lanes(x.itemsize)


def _correlate(
    x: np.ndarray,
    weight: np.ndarray,
    bias: np.ndarray | None,
    out: np.ndarray,
    w: Windows,
    groups: int,
    least: float,
) -> None:
    images, channels = x.shape[:2]
    tile, conv = kernels.tile, kernels.conv
    per_group = weight.shape[0] // groups
    rows, lanes = tile.fitting(per_group, tile.PRODUCTS), tile.lanes(x.itemsize)
    p = plan(w)
    tiles = groups * -(-per_group // rows)
    n = weight.size // weight.shape[0]
    packed = scratch.take("weight", tiles * rows * n, x.dtype)
    launch(conv.pack_rows, (weight, packed, per_group, n, rows), tiles, packed.size)
    start = starts(bias, groups, per_group, tiles // groups * rows, x.dtype)
    shifts, runs = p.shifts(channels // groups), p.runs(lanes)
    count, each = runs.count, channels * p.plane
    step = max(1, min(images, BLOCK // each))
    # An image is cut up where there are too few of them to go round.
    cuts = max(1, min(count // 16, -(-16 // step)))
    for a in range(0, images, step):
        b = min(a + step, images)
        dealt = _dealt(x[a:b], p)
        arrays = (dealt, packed, start, out[a:b], shifts, runs.table, runs.parts)
        numbers = (least, n, groups, per_group, count, p.places, each, cuts)
        launch(conv.correlate[rows], (*arrays, *numbers), (b - a) * cuts, (b - a) * count * tiles * n)


def _correlate_lanes(
    x: np.ndarray,
    weight: np.ndarray,
    bias: np.ndarray | None,
    out: np.ndarray,
    w: Windows,
    groups: int,
    least: float,
) -> None:
    """The same with channels in the lanes of a vector."""
    images, channels = x.shape[:2]
    conv = kernels.conv_lanes
    lanes = kernels.tile.lanes(x.itemsize)
    p = plan(w)
    per_group = weight.shape[0] // groups
    vectors = -(-per_group // lanes)
    n = weight.size // weight.shape[0]
    packed = scratch.take("weight", groups * vectors * n * lanes, x.dtype)
    launch(conv.pack_lanes, (weight, packed, per_group, n, lanes), groups * vectors, packed.size)
    start = starts(bias, groups, per_group, vectors * lanes, x.dtype)
    each = channels * p.plane
    as_it_is = p.as_it_is  # elements are read one by one, none outside
    step = images if as_it_is else max(1, min(images, BLOCK // each))
    tasks = min(64, -(-step * p.places // lanes))
    room = scratch.take("tiles", tasks * lanes * lanes * kernels.gemm_tile.WINDOW_WIDTH, x.dtype)
    shifts = p.shifts(channels // groups)
    for a in range(0, images, step):
        b = min(a + step, images)
        given = x[a:b] if as_it_is else _dealt(x[a:b], p)
        arrays = (given, packed, start, out[a:b], room, p.each_place(b - a, each), shifts)
        total = (b - a) * p.places
        numbers = (least, n, groups, per_group, p.places, total, each // groups, tasks, lanes)
        launch(conv.correlate_lanes, (*arrays, *numbers), tasks, out[a:b].size * n // lanes)


@hosted
def _integers(
    x: np.ndarray, weight: np.ndarray, bias: np.ndarray | None, w: Windows, groups: int
) -> np.ndarray:
    """Windows laid out as columns, for the sake of completeness: whole numbers have no fast product."""
    out = buffers.empty((x.shape[0], weight.shape[0], *w.out), x.dtype)
    cols = buffers.empty((groups, x.shape[1] // groups * w.taps(), w.outputs()), x.dtype)
    matrix = weight.reshape(groups, weight.shape[0] // groups, -1)
    for image, result in zip(x, out, strict=True):
        launch(kernels.columns.columns, (image, cols, w.geo()), x.shape[1], cols.size)
        result[...] = np.matmul(matrix, cols).reshape(result.shape)
    if bias is not None:
        out += bias.reshape(-1, *[1] * len(w.out))
    return out


def input_adjoint(
    g: np.ndarray, weight: np.ndarray, bias: np.ndarray | None, w: Windows, groups: int
) -> np.ndarray:
    """x[n, c, t * stride - padding + k * dilation] += weight[o, c, k] * g[n, o, t], from bias[c]."""
    dtype = g.dtype
    g, weight = _wide(g, weight)
    images, outs = g.shape[:2]
    channels = weight.shape[1] * groups
    floats = g.dtype.kind == "f" and g.size and weight.size
    if floats and choice.input_adjoint(w, *_sizes(g, weight, groups)):
        made = buffers.empty((images, channels, *w.size), g.dtype)
        panels.input_adjoint(g, weight, bias, made, w, groups)
        return cast(made, dtype)
    # In and out change places.
    turned = weight.reshape(groups, outs // groups, weight.shape[1], *w.kernel).swapaxes(1, 2)

    def part(inner: Windows, taps: Any) -> np.ndarray:
        matrix = contiguous(turned[taps]).reshape(channels, outs // groups, *inner.kernel)
        return forward(g, matrix, bias, inner, groups)

    if set(w.stride) == {1}:
        ((_, inner, taps),) = residues(w)
        return cast(part(inner, taps), dtype)
    x = zeros((images, channels, *w.size), g.dtype)
    if bias is not None:
        copy(x, bias.reshape(-1, *[1] * len(w.size)))
    if g.size and weight.size:
        for place, inner, taps in residues(w):
            copy(x[place], part(inner, taps))
    return cast(x, dtype)


def weight_adjoint(x: np.ndarray, g: np.ndarray, w: Windows, groups: int) -> np.ndarray:
    """weight[o, c, k] = sum over n and t of g[n, o, t] * x[n, c, t * stride - padding + k * dilation]"""
    dtype = x.dtype
    x, g = _wide(x, g)
    channels = x.shape[1]
    outs, per_group = g.shape[1], channels // groups
    shape = (outs, per_group, *w.kernel)
    if not math.prod(shape) or not x.size or not g.size:
        return zeros(shape, dtype)
    height, n = outs // groups, per_group * w.taps()
    if choice.weight_adjoint(w, len(x), per_group, height, groups, kernels.tile.lanes(x.itemsize)):
        weight = np.empty(shape, x.dtype)
        panels.weight_adjoint(x, g, weight, w, groups)
        return cast(weight, dtype)
    total = _contract(x, g, w, groups)
    # Beside every line of outputs neighbours were multiplied by zero, and a NaN there has spread.
    if now() is not None:
        _, padded, row = total.shape
        args = (x, g, total, w.geo(), x.shape[0], channels, per_group, height, padded, row)
        launch(kernels.conv.mend, args, outs, total.size)
    made = total[:, :height, :n]
    if now() is None and not np.isfinite(made).all():
        made = _contract_columns(x, g, w, groups)
    weight = np.empty(shape, x.dtype)
    copy(weight.reshape(made.shape), made)
    return cast(weight, dtype)


def _contract(x: np.ndarray, g: np.ndarray, w: Windows, groups: int) -> np.ndarray:
    tile, conv = kernels.tile, kernels.conv
    lanes = tile.lanes(x.itemsize)
    images, channels = x.shape[:2]
    p = plan(w)
    n = channels // groups * w.taps()
    height = g.shape[1] // groups
    rows = tile.fitting(height, tile.GRAMS)
    tall, broad = -(-height // rows), -(-n // tile.GRAMS[rows])
    padded = tall * rows
    total = zeros((groups, padded, broad * tile.GRAMS[rows]), np.dtype(np.float64))
    shifts = p.shifts(channels // groups, tile.GRAMS[rows])
    runs = p.runs(lanes)
    each, vectors = channels * p.plane, runs.count
    step = max(1, min(images, BLOCK // each))
    slices, count, width = p.out
    for a in range(0, images, step):
        b = min(a + step, images)
        dealt = _dealt(x[a:b], p)
        size = (b - a) * vectors * lanes
        lined = scratch.take("lines", groups * padded * size, g.dtype)
        args = (g[a:b], lined, b - a, height, padded, slices, count, width, runs.pitch, runs.room, g.shape[1])
        launch(conv.line_up, args, groups * padded, lined.size)
        lines = p.lines(lanes, b - a, each)
        given = (dealt, lined, total, shifts, lines, len(lines), lanes, LONG, tall, broad, each // groups)
        launch(conv.contract[rows], given, groups * tall * broad, len(lines) * groups * tall * broad * 32)
    return total


def _contract_columns(x: np.ndarray, g: np.ndarray, w: Windows, groups: int) -> np.ndarray:
    """The same sums from windows laid out as columns, so that nothing else comes in."""
    cols = buffers.empty((groups, x.shape[1] // groups * w.taps(), w.outputs()), x.dtype)
    total: np.ndarray = np.zeros((groups, g.shape[1] // groups, cols.shape[1]))
    with np.errstate(all="ignore"):
        for image, part in zip(x, g, strict=True):
            launch(kernels.columns.columns, (image, cols, w.geo()), x.shape[1], cols.size)
            total += np.matmul(part.reshape(groups, -1, w.outputs()), cols.swapaxes(1, 2))
    return total


# -- the bias --------------------------------------------------------------------------------------------


def channel_sums(g: np.ndarray) -> np.ndarray:
    """The sum per channel of (image, channel, ...)."""
    dtype = g.dtype
    (g,) = _wide(g)
    out = np.empty(g.shape[1], g.dtype) if g.size else zeros((g.shape[1],), g.dtype)
    if g.size:
        images, channels = g.shape[:2]
        n = math.prod(g.shape[2:])
        launch(kernels.conv.sum_channels, (g, out, images, channels, n), channels, g.size)
    return cast(out, dtype)
