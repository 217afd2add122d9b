"""Sampling at arbitrary positions: grid_sample, and the grid of an affine map.

Both are expressions of other ops, so they can be differentiated any number of times.
"""

from __future__ import annotations

import itertools
import math
from functools import lru_cache
from typing import Any

import numpy as np

from .. import dtypes
from . import convert
from .arithmetic import bitwise_and, fmod, maximum, minimum, where
from .gather import gather
from .maths import abs as absolute
from .maths import floor, round_even
from .matmul import kind_of, matmul, require_tensors
from .resample import cubic_weights
from .shape import expand, reshape, select, transpose, unsqueeze

_MODES = ("bilinear", "nearest", "bicubic")
_PADDING = ("zeros", "border", "reflection")

# -- positions ---------------------------------------------------------------------------------------


def _in_elements(x: Any, size: int, align_corners: bool) -> Any:
    """From [-1, 1] to positions counted in elements."""
    return (x + 1) * ((size - 1) / 2) if align_corners else ((x + 1) * size - 1) * 0.5


def _clipped(x: Any, size: int) -> Any:
    return where(x > 0, where(x < size - 1, x, float(size - 1)), 0.0)


def _reflected(x: Any, size: int, align_corners: bool) -> Any:
    """Mirrored at the centres of the corner elements, or at their outer edges, until it lies between."""
    low, span = (0.0, float(size - 1)) if align_corners else (-0.5, float(size))
    if not span:
        return x * 0
    away = absolute(x - low)
    extra = fmod(away, span)
    flips = fmod(floor(away * (1 / span)), 2)
    return where(flips == 0, extra + low, span + low - extra)


def _placed(x: Any, size: int, padding_mode: str, align_corners: bool) -> Any:
    if padding_mode == "border":
        return _clipped(x, size)
    if padding_mode == "reflection":
        return _clipped(_reflected(x, size, align_corners), size)
    return x


# -- reading -----------------------------------------------------------------------------------------


def _corner(flat: Any, places: list[Any], weights: list[Any], sizes: tuple[int, ...]) -> Any:
    """Elements at whole positions (per dimension), times the product of weights; zero outside."""
    inside: Any = None
    index: Any = None
    for place, size in zip(places, sizes, strict=True):
        there = bitwise_and(place >= 0, place <= size - 1)
        inside = there if inside is None else bitwise_and(inside, there)
        at = convert.cast(minimum(maximum(where(there, place, 0.0), 0), size - 1), dtype=np.dtype(np.int64))
        index = at if index is None else index * size + at
    weight = weights[0]
    for w in weights[1:]:
        weight = weight * w
    weight = where(inside, weight, 0.0)
    lead = flat._array.shape[:2]
    points = index._array.size // max(lead[0], 1)
    wide = expand(reshape(index, (lead[0], 1, points)), (*lead, points))
    return gather(flat, 2, wide) * reshape(weight, (lead[0], 1, points))


def _sampled(
    flat: Any, points: list[Any], sizes: tuple[int, ...], mode: str, padding_mode: str, align: bool
) -> Any:
    if mode == "nearest":
        places = [round_even(_placed(p, s, padding_mode, align)) for p, s in zip(points, sizes, strict=True)]
        # The result does not change with the grid: its gradient is there, and zero.
        return _corner(flat, places, [convert.filled(p, None, number=1) for p in points], sizes)
    if mode == "bilinear":
        points = [_placed(p, s, padding_mode, align) for p, s in zip(points, sizes, strict=True)]
        lows = [floor(p).detach() for p in points]
        parts = [(1 - (p - low), p - low) for p, low in zip(points, lows, strict=True)]
        offsets: Any = (0, 1)
    else:
        lows = [floor(p).detach() for p in points]
        parts = [tuple(cubic_weights(p - low)) for p, low in zip(points, lows, strict=True)]
        offsets = (-1, 0, 1, 2)
    total: Any = None
    for corner in itertools.product(range(len(offsets)), repeat=len(sizes)):
        places = [low + offsets[j] for low, j in zip(lows, corner, strict=True)]
        if mode == "bicubic":
            places = [_placed(p, s, padding_mode, align) for p, s in zip(places, sizes, strict=True)]
        part = _corner(flat, places, [w[j] for w, j in zip(parts, corner, strict=True)], sizes)
        total = part if total is None else total + part
    return total


def grid_sample(
    input: Any,
    grid: Any,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool | None = None,
) -> Any:
    """Values of input (N, C, H, W) or (N, C, D, H, W) at the positions of grid (N, ..., 2) or (N, ..., 3).

    Positions are (x, y) or (x, y, z) in [-1, 1]. ``mode`` is "bilinear", "nearest" or "bicubic" (4-D only),
    ``padding_mode`` "zeros", "border" or "reflection".
    """
    require_tensors("grid_sample", input=input, grid=grid)
    if mode not in _MODES:
        raise ValueError(
            "nn.functional.grid_sample(): expected mode to be 'bilinear', 'nearest' or 'bicubic', but got: "
            f"'{mode}'"
        )
    if padding_mode not in _PADDING:
        raise ValueError(
            "nn.functional.grid_sample(): expected padding_mode to be 'zeros', 'border', or 'reflection', "
            f"but got: '{padding_mode}'"
        )
    _check_grid(input, grid, mode)
    shape = input._array.shape
    sizes = shape[2:]
    n = len(sizes)
    flat = reshape(input, (*shape[:2], math.prod(sizes)))
    align = bool(align_corners)
    # The grid's last dimension starts with x, the last dimension of the input.
    points = [_in_elements(select(grid, -1, n - 1 - d), sizes[d], align) for d in range(n)]
    made = _sampled(flat, points, sizes, mode, padding_mode, align)
    return reshape(made, (*shape[:2], *grid._array.shape[1:-1]))


def _check_grid(input: Any, grid: Any, mode: str) -> None:
    x, g = input._array, grid._array
    if x.ndim not in (4, 5) or x.ndim != g.ndim:
        raise RuntimeError(
            "grid_sampler(): expected 4D or 5D input and grid with same number of dimensions, but got "
            f"input with sizes {list(x.shape)} and grid with sizes {list(g.shape)}"
        )
    if x.shape[0] != g.shape[0]:
        raise RuntimeError(
            "grid_sampler(): expected grid and input to have same batch size, but got input with sizes "
            f"{list(x.shape)} and grid with sizes {list(g.shape)}"
        )
    if g.shape[-1] != x.ndim - 2:
        raise RuntimeError(
            f"grid_sampler(): expected grid to have size {x.ndim - 2} in last dimension, but got grid with "
            f"sizes {list(g.shape)}"
        )
    for d in range(2, x.ndim):
        if not x.shape[d]:
            raise RuntimeError(
                "grid_sampler(): expected input to have non-empty spatial dimensions, but input has sizes "
                f"{list(x.shape)} with dimension {d} being empty"
            )
    if mode == "bicubic" and x.ndim == 5:
        raise RuntimeError("grid_sampler(): bicubic interpolation only supports 4D input")
    if x.dtype != g.dtype:
        raise RuntimeError(f"grid_sampler(): expected scalar type {kind_of(input)} but found {kind_of(grid)}")
    if x.dtype.kind != "f":
        raise NotImplementedError(f"\"grid_sampler\" not implemented for '{x.dtype}'; convert with .float()")


# -- affine grids ------------------------------------------------------------------------------------


@lru_cache(maxsize=64)
def _base(sizes: tuple[int, ...], align_corners: bool, char: str) -> np.ndarray:
    """(points, k + 1): positions in [-1, 1] with x first, and a one."""
    axes = []
    for s in sizes:
        line = np.linspace(-1.0, 1.0, s) if s > 1 else np.zeros(1)
        axes.append(line if align_corners else line * ((s - 1) / s))
    grids = np.meshgrid(*axes, indexing="ij")
    made = np.stack([*reversed([g.ravel() for g in grids]), np.ones(math.prod(sizes))], 1).astype(char)
    made.flags.writeable = False
    return made


def affine_grid(theta: Any, size: Any, align_corners: bool | None = None) -> Any:
    """The grid of affine maps: theta (N, 2, 3) with size (N, C, H, W), or (N, 3, 4) with (N, C, D, H, W)."""
    require_tensors("affine_grid", theta=theta)
    shape = theta._array.shape
    if theta._array.dtype.kind != "f":
        raise ValueError(f"Expected theta to have floating point type, but got {dtypes.of(theta._array)}")
    size = tuple(int(s) for s in size)
    if len(size) not in (4, 5):
        raise NotImplementedError(
            "affine_grid only supports 4D and 5D sizes, for 2D and 3D affine transforms, respectively. "
            f"Got size {size}."
        )
    k = len(size) - 2
    if len(shape) != 3 or shape[1:] != (k, k + 1):
        raise ValueError(
            f"Expected a batch of {k}D affine matrices of shape Nx{k}x{k + 1} for size {size}. Got "
            f"{list(shape)}."
        )
    if min(size) <= 0:
        raise ValueError(f"Expected non-zero, positive output size. Got {size}")
    if shape[0] != size[0]:
        raise RuntimeError(f"affine_grid: theta has {shape[0]} matrices, but size {size} asks for {size[0]}")
    base = theta._make(_base(size[2:], bool(align_corners), theta._array.dtype.char))
    made = matmul(expand(unsqueeze(base, 0), (size[0], *base._array.shape)), transpose(theta, 1, 2))
    return reshape(made, (size[0], *size[2:], k))
