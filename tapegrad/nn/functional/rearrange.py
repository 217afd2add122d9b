"""Moving elements between channels and space, and sliding blocks as columns."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...ops.windows import per_dim
from ...tensor import Tensor


def pixel_shuffle(input: Tensor, upscale_factor: int) -> Tensor:
    """(*, C r^2, H, W) to (*, C, H r, W r)"""
    r = upscale_factor
    if input.dim() < 3:
        raise RuntimeError(
            f"pixel_shuffle expects input to have at least 3 dimensions, but got input with {input.dim()} dimension(s)"
        )
    if r <= 0:
        raise RuntimeError(f"pixel_shuffle expects a positive upscale_factor, but got {r}")
    *lead, channels, height, width = input.shape
    if channels % (r * r):
        raise RuntimeError(
            "pixel_shuffle expects its input's 'channel' dimension to be divisible by the square of upscale_factor, but "
            f"input.size(-3)={channels} is not divisible by {r * r}"
        )
    n = len(lead)
    x = input.reshape(*lead, channels // (r * r), r, r, height, width)
    made: Tensor = x.permute(*range(n), n, n + 3, n + 1, n + 4, n + 2).reshape(
        *lead, channels // (r * r), height * r, width * r
    )
    return made


def pixel_unshuffle(input: Tensor, downscale_factor: int) -> Tensor:
    """(*, C, H r, W r) to (*, C r^2, H, W)"""
    r = downscale_factor
    if input.dim() < 3:
        raise RuntimeError(
            f"pixel_unshuffle expects input to have at least 3 dimensions, but got input with {input.dim()} dimension(s)"
        )
    if r <= 0:
        raise RuntimeError(f"pixel_unshuffle expects a positive downscale_factor, but got {r}")
    *lead, channels, height, width = input.shape
    if height % r or width % r:
        raise RuntimeError(
            f"pixel_unshuffle expects height and width to be divisible by downscale_factor, but {height} x {width} is not "
            f"divisible by {r}"
        )
    n = len(lead)
    x = input.reshape(*lead, channels, height // r, r, width // r, r)
    made: Tensor = x.permute(*range(n), n, n + 2, n + 4, n + 1, n + 3).reshape(
        *lead, channels * r * r, height // r, width // r
    )
    return made


def channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """(N, g C', ...) with the channels of the groups interleaved."""
    if input.dim() < 3:
        raise RuntimeError(
            f"channel_shuffle expects input with > 2 dims, but got input with sizes {list(input.shape)}"
        )
    if groups <= 0:
        raise RuntimeError(f"Number of groups to divide channels in must be positive. Value of groups:{groups}")
    batch, channels, *rest = input.shape
    if channels % groups:
        raise RuntimeError(
            f"Number of channels must be divisible by groups. Got {channels} channels and {groups} groups."
        )
    x = input.reshape(batch, groups, channels // groups, *rest).transpose(1, 2)
    made: Tensor = x.reshape(batch, channels, *rest)
    return made


class _Blocks:
    """Where the elements of all sliding blocks lie in a padded image."""

    def __init__(self, size: Any, kernel_size: Any, dilation: Any, padding: Any, stride: Any, name: str) -> None:
        kernel, dilations, paddings, strides = (
            per_dim(value, 2, name, argument)
            for value, argument in (
                (kernel_size, "kernel_size"),
                (dilation, "dilation"),
                (padding, "padding"),
                (stride, "stride"),
            )
        )
        for values, argument in ((kernel, "kernel_size"), (dilations, "dilation"), (strides, "stride")):
            if min(values) <= 0:
                raise RuntimeError(f"{name}: {argument} should be greater than zero, but got {values}")
        if min(paddings) < 0:
            raise RuntimeError(f"{name}: padding should be non-negative, but got {paddings}")
        self.kernel = kernel
        self.padding = paddings
        self.size = tuple(size)
        self.padded = tuple(n + 2 * p for n, p in zip(size, paddings, strict=True))
        spans = [d * (k - 1) + 1 for k, d in zip(kernel, dilations, strict=True)]
        self.counts = tuple(
            (n - span) // s + 1 for n, span, s in zip(self.padded, spans, strides, strict=True)
        )
        if min(self.counts) < 1:
            raise RuntimeError(
                f"{name}: an image of size {self.size} with padding {paddings} has no place for a kernel of size {kernel} "
                f"and dilation {dilations}"
            )
        rows, columns = (
            np.arange(k)[:, None] * d + np.arange(n)[None, :] * s
            for k, d, n, s in zip(kernel, dilations, self.counts, strides, strict=True)
        )
        # (kernel height, kernel width, blocks down, blocks across)
        places = rows[:, None, :, None] * self.padded[1] + columns[None, :, None, :]
        self.places: Tensor = Tensor._make(places.reshape(-1).astype(np.int64))
        self.length = math.prod(self.counts)


def unfold(input: Tensor, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Tensor:
    """Sliding blocks of (N, C, H, W) or (C, H, W) as columns: (N, C KH KW, L)."""
    if input.dim() not in (3, 4):
        raise RuntimeError(
            f"unfold: expected 3D or 4D (batch mode) tensor with possibly 0 batch size, but got {list(input.shape)}"
        )
    x = input if input.dim() == 4 else input.unsqueeze(0)
    blocks = _Blocks(x.shape[2:], kernel_size, dilation, padding, stride, "unfold")
    batch, channels = x.shape[:2]
    if any(blocks.padding):
        vertical, horizontal = blocks.padding
        wide = x.new_zeros((batch, channels, *blocks.padded))
        x = _placed(wide, x, vertical, horizontal)
    flat = x.reshape(batch, channels, -1).index_select(2, blocks.places)
    made: Tensor = flat.reshape(batch, channels * math.prod(blocks.kernel), blocks.length)
    return made if input.dim() == 4 else made.squeeze(0)


def _placed(wide: Tensor, x: Tensor, vertical: int, horizontal: int) -> Tensor:
    """x in the middle of a wider image."""
    wide[:, :, vertical : vertical + x.shape[2], horizontal : horizontal + x.shape[3]] = x
    return wide


def fold(
    input: Tensor, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
) -> Tensor:
    """The sum of sliding blocks (N, C KH KW, L) or (C KH KW, L) in an image (N, C, H, W)."""
    if input.dim() not in (2, 3):
        raise RuntimeError(
            f"fold: expected 2D or 3D (batch mode) tensor for input with possibly 0 batch size, but got: {list(input.shape)}"
        )
    size = per_dim(output_size, 2, "fold", "output_size")
    blocks = _Blocks(size, kernel_size, dilation, padding, stride, "fold")
    x = input if input.dim() == 3 else input.unsqueeze(0)
    batch, rows, length = x.shape
    area = math.prod(blocks.kernel)
    if rows % area:
        raise RuntimeError(
            f"Expected size of input's dimension 1 to be divisible by the product of kernel_size, but got "
            f"input.size(1)={rows} and kernel_size={blocks.kernel}."
        )
    if length != blocks.length:
        raise RuntimeError(
            f"Given output_size={size}, expected size of input's dimension 2 to match the calculated number of sliding "
            f"blocks {' * '.join(str(n) for n in blocks.counts)} = {blocks.length}, but got input.size(2)={length}."
        )
    flat = x.reshape(batch, rows // area, area * length)
    image = flat.new_zeros((batch, rows // area, math.prod(blocks.padded))).index_add(2, blocks.places, flat)
    vertical, horizontal = blocks.padding
    image = image.reshape(batch, rows // area, *blocks.padded)
    made: Tensor = image[:, :, vertical : vertical + size[0], horizontal : horizontal + size[1]]
    return made if input.dim() == 3 else made.squeeze(0)
