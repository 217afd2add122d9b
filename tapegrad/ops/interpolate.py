"""Resizing of the spatial dimensions of (N, C, ...)."""

from __future__ import annotations

import math
import warnings
from typing import Any

from .adaptive import adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d
from .matmul import require_tensors
from .resample import Taps, resampled
from .shape import clone

# Mode, and the rank of the input that it needs.
_RANKS = {"linear": 3, "bilinear": 4, "bicubic": 4, "trilinear": 5}
_MODES = ("nearest", "nearest-exact", "area", *_RANKS)
_SPATIAL = {"linear": "linear", "bilinear": "linear", "trilinear": "linear", "bicubic": "cubic"}


def _numbers(value: Any, n: int, what: str, shape: tuple[int, ...]) -> list[Any]:
    items = list(value) if isinstance(value, (tuple, list)) else [value] * n
    if len(items) != n:
        raise ValueError(
            f"interpolate: Input and {what} must have the same number of spatial dimensions, but got input "
            f"with spatial dimensions of {list(shape)} and {what} of {tuple(items)}. Provide input in (N, "
            f"C, d1, d2, ..., dK) format and {what} with K numbers."
        )
    if any(isinstance(v, bool) or not isinstance(v, (int, float)) for v in items):
        raise TypeError(f"interpolate(): {what} must be a number or a tuple of numbers, got {value!r}")
    return items


def _sizes(
    shape: tuple[int, ...], size: Any, scale_factor: Any, recompute: bool | None
) -> tuple[list[int], list[float | None]]:
    """Output sizes, and the factors that rule the positions (None where the sizes do)."""
    n = len(shape)
    if size is not None and scale_factor is not None:
        raise ValueError("only one of size or scale_factor should be defined")
    if size is None and scale_factor is None:
        raise ValueError("either size or scale_factor should be defined")
    if size is not None:
        if recompute:
            raise ValueError("recompute_scale_factor is not meaningful with an explicit size.")
        sizes = _numbers(size, n, "output size", shape)
        if any(isinstance(s, float) for s in sizes):
            raise TypeError(f"interpolate(): size must be an int or a tuple of ints, got {size!r}")
        return sizes, [None] * n
    factors = [float(f) for f in _numbers(scale_factor, n, "scale_factor", shape)]
    sizes = [math.floor(float(s) * f) for s, f in zip(shape, factors, strict=True)]
    return sizes, [None] * n if recompute else list(factors)


def interpolate(
    input: Any,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Any:
    """The spatial dimensions of (N, C, ...) resized to ``size``, or by ``scale_factor``.

    ``mode``: "nearest", "nearest-exact", "area", "linear" (3-D input), "bilinear", "bicubic" (4-D),
    "trilinear" (5-D). With ``align_corners`` the centres of the corner elements stay where they are.
    ``antialias`` widens the filter of "bilinear" and "bicubic" when shrinking.
    """
    require_tensors("interpolate", input=input)
    if mode in ("nearest", "area", "nearest-exact"):
        if align_corners is not None:
            raise ValueError(
                "align_corners option can only be set with the interpolating modes: linear | bilinear | "
                "bicubic | trilinear"
            )
    elif align_corners is None:
        align_corners = False
    shape = input._array.shape
    if len(shape) not in (3, 4, 5) or mode not in _MODES:
        raise NotImplementedError(
            f"interpolate: Only 3D, 4D and 5D input Tensors supported (got {len(shape)}D) for the modes: "
            f"{' | '.join(_MODES)} (got {mode})"
        )
    sizes, factors = _sizes(shape[2:], size, scale_factor, recompute_scale_factor)
    if antialias and not (mode in ("bilinear", "bicubic") and len(shape) == 4):
        raise ValueError(
            "Anti-alias option is restricted to bilinear and bicubic modes and requires a 4-D tensor as input"
        )
    if mode in _RANKS and len(shape) != _RANKS[mode]:
        raise NotImplementedError(
            f"interpolate: Got {len(shape)}D input, but {mode} mode needs {_RANKS[mode]}D input"
        )
    if input._array.dtype.kind != "f":
        raise NotImplementedError(
            f"\"interpolate\" not implemented for '{input._array.dtype}'; convert with .float()"
        )
    if mode == "area":
        return (adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d)[len(shape) - 3](input, sizes)
    if min(*sizes, *shape[2:]) < 1:
        raise RuntimeError(
            f"interpolate: Input and output sizes should be greater than 0, but got input {list(shape[2:])} "
            f"output {sizes}"
        )
    if 0 in shape[1:2]:
        raise RuntimeError(
            f"interpolate: Non-empty {len(shape)}D data tensor expected but got a tensor with sizes "
            f"{list(shape)}"
        )
    result = input
    # The last dimension first: the others then work on fewer or more elements of whole lines.
    for d in reversed(range(len(sizes))):
        size, out, factor = shape[2 + d], sizes[d], factors[d]
        if mode == "nearest" and len(sizes) == 2 and out in (size, 2 * size):
            factor = None  # images that keep or double their size do so whatever factor led there
        taps = Taps(_SPATIAL.get(mode, mode), size, out, bool(align_corners), factor, antialias)
        if not (taps.size == taps.out and (taps.scale is None or taps.scale == 1)):
            result = resampled(result, dim=2 + d, taps=taps)
    return result if result is not input else clone(input)


def upsample(
    input: Any,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
) -> Any:
    """interpolate() under its old name."""
    warnings.warn(
        "`nn.functional.upsample` is deprecated. Use `nn.functional.interpolate` instead.", stacklevel=2
    )
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_nearest(input: Any, size: Any = None, scale_factor: Any = None) -> Any:
    """interpolate() with mode "nearest", under its old name."""
    warnings.warn(
        "`nn.functional.upsample_nearest` is deprecated. Use `nn.functional.interpolate` instead.",
        stacklevel=2,
    )
    return interpolate(input, size, scale_factor, mode="nearest")


def upsample_bilinear(input: Any, size: Any = None, scale_factor: Any = None) -> Any:
    """interpolate() with mode "bilinear" and aligned corners, under its old name."""
    warnings.warn(
        "`nn.functional.upsample_bilinear` is deprecated. Use `nn.functional.interpolate` instead.",
        stacklevel=2,
    )
    return interpolate(input, size, scale_factor, mode="bilinear", align_corners=True)
