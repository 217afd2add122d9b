"""Rearrangements of channels and pixels, and sliding blocks as columns."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import buffers, kernels
from ..kernels import launch_lazily as launch
from ..kernels.arrays import cast, contiguous, zeros
from .direct import direct_op
from .matmul import require_tensors
from .shape import clone, permute, reshape, squeeze, unsqueeze
from .windows import Windows, per_dim

__all__ = ["channel_shuffle", "pixel_shuffle", "pixel_unshuffle"]

# -- pixels and channels -----------------------------------------------------------------------------


def pixel_shuffle(input: Any, upscale_factor: int) -> Any:
    """(*, C r^2, H, W) to (*, C, H r, W r)."""
    require_tensors("pixel_shuffle", input=input)
    shape = input._array.shape
    r = upscale_factor
    if len(shape) < 3:
        raise RuntimeError(
            f"pixel_shuffle expects input to have at least 3 dimensions, but got input with {len(shape)} "
            "dimension(s)"
        )
    if r <= 0:
        raise RuntimeError(f"pixel_shuffle expects a positive upscale_factor, but got {r}")
    *lead, c, h, w = shape
    if c % (r * r):
        raise RuntimeError(
            "pixel_shuffle expects its input's 'channel' dimension to be divisible by the square of "
            f"upscale_factor, but input.size(-3)={c} is not divisible by {r * r}"
        )
    n = len(lead)
    x = reshape(input, (*lead, c // (r * r), r, r, h, w))
    x = permute(x, (*range(n), n, n + 3, n + 1, n + 4, n + 2))
    return reshape(x, (*lead, c // (r * r), h * r, w * r))


def pixel_unshuffle(input: Any, downscale_factor: int) -> Any:
    """(*, C, H r, W r) to (*, C r^2, H, W)."""
    require_tensors("pixel_unshuffle", input=input)
    shape = input._array.shape
    r = downscale_factor
    if len(shape) < 3:
        raise RuntimeError(
            f"pixel_unshuffle expects input to have at least 3 dimensions, but got input with {len(shape)} "
            "dimension(s)"
        )
    if r <= 0:
        raise RuntimeError(f"pixel_unshuffle expects a positive downscale_factor, but got {r}")
    *lead, c, h, w = shape
    for name, d, size in (("height", -2, h), ("width", -1, w)):
        if size % r:
            raise RuntimeError(
                f"pixel_unshuffle expects {name} to be divisible by downscale_factor, but "
                f"input.size({d})={size} is not divisible by {r}"
            )
    n = len(lead)
    x = reshape(input, (*lead, c, h // r, r, w // r, r))
    x = permute(x, (*range(n), n, n + 2, n + 4, n + 1, n + 3))
    return reshape(x, (*lead, c * r * r, h // r, w // r))


def channel_shuffle(input: Any, groups: int) -> Any:
    """The channels of (N, C, ...) dealt out to groups in turn."""
    require_tensors("channel_shuffle", input=input)
    shape = input._array.shape
    if len(shape) < 3:
        raise RuntimeError(
            f"channel_shuffle expects input with > 2 dims, but got input with sizes {list(shape)}"
        )
    if groups <= 0:
        raise RuntimeError(
            f"Number of groups to divide channels in must be positive. Value of groups:{groups}"
        )
    if shape[1] % groups:
        raise RuntimeError(
            f"Number of channels must be divisible by groups. Got {shape[1]} channels and {groups} groups."
        )
    x = reshape(input, (shape[0], groups, shape[1] // groups, *shape[2:]))
    return clone(reshape(permute(x, (0, 2, 1, *range(3, len(shape) + 1))), shape))


# -- sliding blocks as columns -----------------------------------------------------------------------


@direct_op(
    input=lambda g, windows: folded(g, windows=windows),
    name="im2col",
    node_name="Im2ColBackward0",
    native=True,
)
def unfolded(input: Any, *, windows: Any) -> Any:
    """(N, C, H, W) to (N, C * taps, blocks)."""
    source = contiguous(input, np.float32 if input.dtype.char == "e" else None)
    images, channels = input.shape[:2]
    out = buffers.empty((images, channels * windows.taps(), windows.outputs()), source.dtype)
    if out.size:
        launch(kernels.columns.columns, (source, out, windows.geo()), images * channels, out.size)
    return cast(out, input.dtype)


@direct_op(
    input=lambda g, windows: unfolded(g, windows=windows),
    name="col2im",
    node_name="Col2ImBackward0",
    native=True,
)
def folded(input: Any, *, windows: Any) -> Any:
    """(N, C * taps, blocks) added up into (N, C, H, W)."""
    source = contiguous(input, np.float32 if input.dtype.char == "e" else None)
    images, height = input.shape[:2]
    channels = height // windows.taps()
    out = zeros((images, channels, *windows.size), source.dtype)
    if source.size:
        launch(kernels.columns.add_columns, (source, out, windows.geo()), images * channels, source.size)
    return cast(out, input.dtype)


def _numbers(
    name: str, kernel_size: Any, dilation: Any, padding: Any, stride: Any
) -> tuple[tuple[int, ...], ...]:
    given = {
        "kernel_size": per_dim(kernel_size, 2, name, "kernel_size"),
        "dilation": per_dim(dilation, 2, name, "dilation"),
        "padding": per_dim(padding, 2, name, "padding"),
        "stride": per_dim(stride, 2, name, "stride"),
    }
    for key, values in given.items():
        if min(values) < (0 if key == "padding" else 1):
            wanted = "non-negative" if key == "padding" else "greater than zero"
            raise RuntimeError(
                f"{name}: {key.replace('_size', ' size')} should be {wanted}, but got {list(values)}"
            )
    return tuple(given.values())


def _blocks(size: Any, kernel: Any, dilation: Any, padding: Any, stride: Any) -> tuple[int, ...]:
    return tuple(
        (n + 2 * p - d * (k - 1) - 1) // s + 1
        for n, k, d, p, s in zip(size, kernel, dilation, padding, stride, strict=True)
    )


def unfold(input: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Any:
    """Sliding blocks of (N, C, H, W) or (C, H, W) as columns: (N, C KH KW, blocks)."""
    require_tensors("unfold", input=input)
    kernel, dilation, padding, stride = _numbers("unfold", kernel_size, dilation, padding, stride)
    shape = input._array.shape
    if len(shape) not in (3, 4) or 0 in shape[len(shape) - 3 :]:
        raise RuntimeError(
            "unfold: Expected 3D or 4D (batch mode) tensor with possibly 0 batch size and other non-zero "
            f"dimensions for input, but got: {list(shape)}"
        )
    out = _blocks(shape[-2:], kernel, dilation, padding, stride)
    if min(out) < 1:
        raise RuntimeError(
            f"unfold: Given input with spatial size {shape[-2:]}, kernel_size={kernel}, "
            f"dilation={dilation}, padding={padding}, calculated shape of the array of sliding blocks as "
            f"{out}, but its components must be at least one."
        )
    x = input if len(shape) == 4 else unsqueeze(input, 0)
    made = unfolded(x, windows=Windows(shape[-2:], out, kernel, stride, padding, dilation))
    return made if len(shape) == 4 else squeeze(made, 0)


def fold(
    input: Any, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
) -> Any:
    """Sliding blocks (N, C KH KW, blocks) added up into (N, C, H, W): the transpose of unfold."""
    require_tensors("fold", input=input)
    size = per_dim(output_size, 2, "fold", "output_size")
    kernel, dilation, padding, stride = _numbers("fold", kernel_size, dilation, padding, stride)
    shape = input._array.shape
    if len(shape) not in (2, 3) or 0 in shape[len(shape) - 2 :]:
        raise RuntimeError(
            "fold: Expected 2D or 3D (batch mode) tensor for input with possibly 0 batch size and non-zero "
            f"dimensions for input, but got: {list(shape)}"
        )
    if input._array.dtype.kind != "f":
        raise NotImplementedError(
            f"\"fold\" not implemented for '{input._array.dtype}'; convert with .float()"
        )
    taps = math.prod(kernel)
    if shape[-2] % taps:
        raise RuntimeError(
            f"fold: Expected size of input's dimension {len(shape) - 2} to be divisible by the product of "
            f"kernel_size, but got {shape[-2]} and kernel_size={kernel}."
        )
    out = _blocks(size, kernel, dilation, padding, stride)
    if min(out) < 1 or math.prod(out) != shape[-1]:
        raise RuntimeError(
            f"fold: Given output_size={size}, kernel_size={kernel}, dilation={dilation}, padding={padding}, "
            f"stride={stride}, expected size of input's dimension {len(shape) - 1} to match the calculated "
            f"number of sliding blocks {out[0]} * {out[1]} = {math.prod(out)}, but got {shape[-1]}."
        )
    x = input if len(shape) == 3 else unsqueeze(input, 0)
    made = folded(x, windows=Windows(size, out, kernel, stride, padding, dilation))
    return made if len(shape) == 3 else squeeze(made, 0)
