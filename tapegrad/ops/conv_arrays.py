"""Convolution of arrays: the bilinear form and its two adjoints.

All three read and write (image, channel, *spatial) arrays, weights (out, in per group, *kernel), and share
one geometry. Windows are laid out as columns, a bounded block at a time, and BLAS multiplies; a
kernel of one element needs no columns, and depthwise convolution no BLAS.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator

import numpy as np

from .. import blas, kernels
from ..kernels import launch_lazily as launch
from .windows import Windows

# Elements of a block of columns: few enough to stay in the second-level cache.
BLOCK = 1 << 18


class _Scratch(threading.local):
    """Working memory of one thread, kept: fresh pages cost more than the arithmetic."""

    def __init__(self) -> None:
        self.buffers: dict[str, np.ndarray] = {}

    def take(self, size: int, dtype: np.dtype) -> np.ndarray:
        have = self.buffers.get(dtype.char)
        if have is None or have.size < size:
            have = self.buffers[dtype.char] = np.empty(size, dtype)
        return have[:size]


_scratch = _Scratch()


def _wide(*arrays: np.ndarray) -> tuple[np.ndarray, ...]:
    """Contiguous, and float16 as float32."""
    return tuple([np.ascontiguousarray(a, np.float32 if a.dtype.char == "e" else None) for a in arrays])


def _narrow(out: np.ndarray, dtype: np.dtype) -> np.ndarray:
    if out.dtype == dtype:
        return out
    with np.errstate(over="ignore"):
        return out.astype(dtype)


def _blocks(images: int, rows: int, width: int, per_column: int) -> Iterator[tuple[int, int, int, int]]:
    """(first image, images, first row, rows) such that a block of columns stays within its bound.

    ``rows`` of ``width`` outputs each make an image. Either whole images are taken, or part of one.
    """
    most = max(1, BLOCK // max(1, per_column))
    if most >= rows * width:
        step = max(1, most // max(1, rows * width))
        for n in range(0, images, step):
            yield n, min(step, images - n), 0, rows
        return
    parts = -(-rows // max(1, most // width))
    for n in range(images):
        for p in range(parts):
            a, b = rows * p // parts, rows * (p + 1) // parts
            yield n, 1, a, b - a


def _columns(x: np.ndarray, w: Windows, top: int, rows: int, inner_images: bool) -> np.ndarray:
    """Windows of a few images as columns: (images, channels * taps, t), or (channels * taps, images * t)."""
    images, channels = x.shape[:2]
    t, height = rows * w.out[-1], channels * w.taps()
    cols = _scratch.take(images * height * t, x.dtype)
    steps = (t, images * t) if inner_images else (height * t, t)
    launch(
        kernels.conv.columns,
        (x, cols, w.geo(), channels, top, rows, *steps),
        images * channels,
        images * height * t,
    )
    return cols.reshape((height, images * t) if inner_images else (images, height, t))


def is_depthwise(weight: np.ndarray, groups: int) -> bool:
    """Whether each channel has kernels of its own."""
    return weight.shape[1] == 1 and groups > 1


# -- the three maps ----------------------------------------------------------------------------------


def forward(x: np.ndarray, weight: np.ndarray, w: Windows, groups: int) -> np.ndarray:
    """out[n, o, t] = sum over c and k of weight[o, c, k] * x[n, c, t * stride - padding + k * dilation]"""
    dtype = x.dtype
    x, weight = _wide(x, weight)
    images, channels = x.shape[:2]
    outs, t = weight.shape[0], w.outputs()
    out = np.empty((images, outs, *w.out), x.dtype)
    if not out.size:
        return _narrow(out, dtype)
    if not x.size or not weight.size:
        out[...] = 0
    elif is_depthwise(weight, groups):
        args = (x, weight, out, w.geo(), channels, outs // groups)
        launch(kernels.depthwise.forward, args, images * outs, out.size * w.taps())
    else:
        matrix = weight.reshape(groups, outs // groups, -1)
        target = out.reshape(images, groups, outs // groups, t)
        if w.simple():
            blas.matmul(matrix, x.reshape(images, groups, -1, t), out=target)
        else:
            width = w.out[-1]
            for n, count, top, rows in _blocks(images, t // width, width, channels * w.taps()):
                cols = _columns(x[n : n + count], w, top, rows, False).reshape(
                    count, groups, -1, rows * width
                )
                blas.matmul(matrix, cols, out=target[n : n + count, ..., top * width : (top + rows) * width])
    return _narrow(out, dtype)


def input_adjoint(g: np.ndarray, weight: np.ndarray, w: Windows, groups: int) -> np.ndarray:
    """x[n, c, t * stride - padding + k * dilation] += weight[o, c, k] * g[n, o, t], from zeros."""
    dtype = g.dtype
    g, weight = _wide(g, weight)
    images, outs = g.shape[:2]
    channels, t = weight.shape[1] * groups, w.outputs()
    x = np.zeros((images, channels, *w.size), g.dtype)
    if not x.size or not g.size or not weight.size:
        return _narrow(x, dtype)
    if is_depthwise(weight, groups):
        planes = (g, weight, x, w.geo(), channels, outs // groups)
        launch(kernels.depthwise.input_adjoint, planes, images * channels, g.size * w.taps())
        return _narrow(x, dtype)
    matrix = weight.reshape(groups, outs // groups, -1).swapaxes(1, 2)
    source = g.reshape(images, groups, outs // groups, t)
    if w.simple():
        blas.matmul(matrix, source, out=x.reshape(images, groups, -1, t))
        return _narrow(x, dtype)
    width, height = w.out[-1], channels * w.taps()
    for n, count, top, rows in _blocks(images, t // width, width, height):
        span = rows * width
        cols = _scratch.take(count * height * span, g.dtype).reshape(count, groups, height // groups, span)
        blas.matmul(matrix, source[n : n + count, ..., top * width : top * width + span], out=cols)
        args = (cols, x[n : n + count], w.geo(), channels, top, rows, height * span, span)
        launch(kernels.conv.add_columns, args, count * channels, cols.size)
    return _narrow(x, dtype)


def weight_adjoint(x: np.ndarray, g: np.ndarray, w: Windows, groups: int) -> np.ndarray:
    """weight[o, c, k] = sum over n and t of g[n, o, t] * x[n, c, t * stride - padding + k * dilation]"""
    dtype = x.dtype
    x, g = _wide(x, g)
    images, channels = x.shape[:2]
    outs, t = g.shape[1], w.outputs()
    per_group = channels // groups
    weight = np.zeros((outs, per_group, *w.kernel), x.dtype)
    if not weight.size or not x.size or not g.size:
        return _narrow(weight, dtype)
    if per_group == 1 and groups > 1:
        args = (x, g, weight, w.geo(), images, channels, outs // groups)
        launch(kernels.depthwise.weight_adjoint, args, outs, g.size * w.taps())
        return _narrow(weight, dtype)
    total = weight.reshape(groups, outs // groups, -1)
    source = g.reshape(images, outs, t)
    width, height = w.out[-1], channels * w.taps()
    for n, count, top, rows in _blocks(images, t // width, width, height):
        span = rows * width
        cols = _columns(x[n : n + count], w, top, rows, True).reshape(groups, height // groups, count * span)
        part = source[n : n + count, :, top * width : top * width + span]
        # Images side by side: one long sum instead of many short ones.
        lines = part[0] if count == 1 else part.swapaxes(0, 1).reshape(outs, count * span)
        total += blas.matmul(lines.reshape(groups, outs // groups, count * span), cols.swapaxes(1, 2))
    return _narrow(weight, dtype)


# -- the bias ----------------------------------------------------------------------------------------


def add_bias(out: np.ndarray, bias: np.ndarray) -> None:
    """out[n, c, ...] += bias[c], in place."""
    if out.size:
        n = math.prod(out.shape[2:])
        bias = np.ascontiguousarray(bias, out.dtype)
        launch(kernels.conv.add_channels, (out, bias, out.shape[1], n), out.shape[0] * out.shape[1], out.size)


def channel_sums(g: np.ndarray) -> np.ndarray:
    """The sum per channel of (image, channel, ...)."""
    dtype = g.dtype
    (g,) = _wide(g)
    out = np.zeros(g.shape[1], g.dtype)
    if g.size:
        images, channels = g.shape[:2]
        n = math.prod(g.shape[2:])
        launch(kernels.conv.sum_channels, (g, out, images, channels, n), channels, g.size)
    return _narrow(out, dtype)
