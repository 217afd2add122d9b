"""Sampling images at places given by a grid."""

from __future__ import annotations

import itertools
import warnings
from typing import Any

import numpy as np

from ...ops.arithmetic import where
from ...ops.maths import abs as absolute
from ...ops.maths import floor
from ...tensor import Tensor


def affine_grid(theta: Tensor, size: Any, align_corners: bool | None = None) -> Tensor:
    """The places that affine maps ``theta`` (N, 2, 3) or (N, 3, 4) send a regular grid to.

    ``size`` is that of the output, (N, C, H, W) or (N, C, D, H, W); the result is (N, H, W, 2) or (N, D, H, W, 3).
    """
    if not theta.is_floating_point():
        raise ValueError(f"Expected theta to have floating point type, but got {theta.dtype}")
    spatial = len(size) - 2
    if spatial not in (2, 3):
        raise NotImplementedError(
            f"affine_grid only supports 4D and 5D sizes, for 2D and 3D affine transforms, respectively. Got size {tuple(size)}."
        )
    if theta.dim() != 3 or tuple(theta.shape[1:]) != (spatial, spatial + 1):
        raise ValueError(
            f"Expected a batch of {spatial}D affine matrices of shape Nx{spatial}x{spatial + 1} for size {tuple(size)}. Got "
            f"{tuple(theta.shape)}."
        )
    if min(size) <= 0:
        raise ValueError(f"Expected non-zero, positive output size. Got {tuple(size)}")
    axes = []
    for n in size[2:]:
        line = np.linspace(-1, 1, n) if n > 1 else np.zeros(1)
        axes.append(line if align_corners else line * (n - 1) / n)
    # Coordinates go x, y, (z): the last dimension first.
    grid = np.stack([*reversed(np.meshgrid(*axes, indexing="ij")), np.ones(tuple(size[2:]))], -1)
    points: Tensor = Tensor._make(grid.reshape(1, -1, spatial + 1).astype(theta._array.dtype))
    made: Tensor = (points @ theta.transpose(1, 2)).reshape(size[0], *size[2:], spatial)
    return made


def grid_sample(
    input: Tensor,
    grid: Tensor,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool | None = None,
) -> Tensor:
    """``input`` (N, C, H, W) at the places ``grid`` (N, H', W', 2), or in 3-D with one more size.

    Coordinates (x, y, z) go from -1 to 1 between the outer edges of the image, or between the centres of
    its outer pixels if ``align_corners``. ``mode``: "bilinear", "nearest", "bicubic" (2-D). ``padding_mode``:
    "zeros", "border", "reflection".
    """
    if mode not in ("bilinear", "nearest", "bicubic"):
        raise ValueError(
            f"nn.functional.grid_sample(): expected mode to be 'bilinear', 'nearest' or 'bicubic', but got: '{mode}'"
        )
    if padding_mode not in ("zeros", "border", "reflection"):
        raise ValueError(
            "nn.functional.grid_sample(): expected padding_mode to be 'zeros', 'border', or 'reflection', but got: "
            f"'{padding_mode}'"
        )
    if align_corners is None:
        warnings.warn(
            "Default grid_sample and affine_grid behavior has changed to align_corners=False. Please specify "
            "align_corners=True if the old behavior is desired.",
            stacklevel=2,
        )
    _check_grid(input, grid, mode)
    sizes = tuple(input.shape[2:])
    corners = bool(align_corners)
    places = [_unnormalised(c, n, corners) for c, n in zip(reversed(grid.unbind(-1)), sizes, strict=True)]
    flat = input.flatten(2)
    if mode == "nearest":
        whole = [_rounded(_inside(p, n, padding_mode, corners)) for p, n in zip(places, sizes, strict=True)]
        return _looked_up(flat, whole, sizes)
    if mode == "bilinear":
        places = [_inside(p, n, padding_mode, corners) for p, n in zip(places, sizes, strict=True)]
        taps = [_linear_taps(p) for p in places]
    else:
        taps = [_cubic_taps(p) for p in places]
    total: Any = 0.0
    for choice in itertools.product(*taps):
        weight: Any = choice[0][1]
        for _, factor in choice[1:]:
            weight = weight * factor
        where_to = [index for index, _ in choice]
        if mode == "bicubic":
            where_to = [
                _rounded(_inside(Tensor._make(i.astype(input._array.dtype)), n, padding_mode, corners))
                for i, n in zip(where_to, sizes, strict=True)
            ]
        total = total + _looked_up(flat, where_to, sizes) * weight.unsqueeze(1)
    made: Tensor = total
    return made


def _check_grid(input: Tensor, grid: Tensor, mode: str) -> None:
    if input.dim() not in (4, 5) or input.dim() != grid.dim():
        raise RuntimeError(
            f"grid_sampler(): expected 4D or 5D input and grid with same number of dimensions, but got input with sizes "
            f"{list(input.shape)} and grid with sizes {list(grid.shape)}"
        )
    if input.shape[0] != grid.shape[0]:
        raise RuntimeError(
            f"grid_sampler(): expected grid and input to have same batch size, but got input with sizes "
            f"{list(input.shape)} and grid with sizes {list(grid.shape)}"
        )
    if grid.shape[-1] != input.dim() - 2:
        raise RuntimeError(
            f"grid_sampler(): expected grid to have size {input.dim() - 2} in last dimension, but got grid with sizes "
            f"{list(grid.shape)}"
        )
    if 0 in input.shape[2:]:
        raise RuntimeError(f"grid_sampler(): expected input to have non-empty spatial dimensions, but input has sizes {list(input.shape)}")
    if mode == "bicubic" and input.dim() == 5:
        raise RuntimeError("grid_sampler(): bicubic interpolation only supports 4D input")


def _unnormalised(c: Tensor, n: int, corners: bool) -> Tensor:
    """A coordinate from [-1, 1] as a place among n pixels."""
    return (c + 1) * ((n - 1) / 2) if corners else ((c + 1) * n - 1) / 2


def _inside(p: Tensor, n: int, padding_mode: str, corners: bool) -> Tensor:
    """A place moved into the image: to its border, or mirrored there."""
    if padding_mode == "zeros":
        return p
    if padding_mode == "reflection":
        low, high = (0.0, n - 1.0) if corners else (-0.5, n - 0.5)
        span = high - low
        if span <= 0:
            p = p * 0
        else:
            distance = absolute(p - low)
            turns = floor(distance.detach() / span)
            rest = distance - turns * span
            p = where(turns % 2 == 0, rest + low, high - rest)
    made: Tensor = p.clamp(0, n - 1)
    return made


def _rounded(p: Tensor) -> np.ndarray:
    return np.rint(p._array).astype(np.int64)


def _linear_taps(p: Tensor) -> list[tuple[np.ndarray, Tensor]]:
    below = np.floor(p._array)
    part = p - Tensor._make(below)
    index = below.astype(np.int64)
    return [(index, 1 - part), (index + 1, part)]


def _cubic_taps(p: Tensor) -> list[tuple[np.ndarray, Tensor]]:
    a = -0.75
    below = np.floor(p._array)
    t = p - Tensor._make(below)
    index = below.astype(np.int64)

    def near(x: Tensor) -> Tensor:
        return ((a + 2) * x - (a + 3)) * x * x + 1

    def far(x: Tensor) -> Tensor:
        return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a

    return [(index - 1, far(t + 1)), (index, near(t)), (index + 1, near(1 - t)), (index + 2, far(2 - t))]


def _looked_up(flat: Tensor, index: list[np.ndarray], sizes: tuple[int, ...]) -> Tensor:
    """The image (N, C, pixels) at whole places (N, ...); 0 outside."""
    inside = np.ones(index[0].shape, bool)
    place = np.zeros(index[0].shape, np.int64)
    for i, n in zip(index, sizes, strict=True):
        inside &= (i >= 0) & (i < n)
        place = place * n + np.clip(i, 0, n - 1)
    batch, channels = flat.shape[:2]
    spread = np.broadcast_to(place.reshape(batch, 1, -1), (batch, channels, place[0].size))
    found = flat.gather(2, Tensor._make(np.ascontiguousarray(spread))).reshape(batch, channels, *place.shape[1:])
    if inside.all():
        return found
    made: Tensor = where(Tensor._make(inside[:, None]), found, 0.0)
    return made
