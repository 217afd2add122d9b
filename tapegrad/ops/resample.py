"""Resampling of one dimension: every output is a weighted sum of a few inputs.

Interpolation of images is such a step per dimension. The step and its transpose are each other's rules.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from .. import kernels
from ..kernels import launch_lazily as launch
from ..kernels.arrays import cast, contiguous, zeros
from .direct import direct_op


class Taps(NamedTuple):
    """Which inputs an output reads, and with which weights: what the tables below are made from."""

    mode: str  # nearest, nearest-exact, linear, cubic
    size: int
    out: int
    align_corners: bool
    scale: float | None  # the factor that the user gave, if it rules the positions
    antialias: bool

    def tables(self, dtype: np.dtype) -> tuple[np.ndarray, np.ndarray]:
        """index and weight, (out, taps)."""
        return _tables(self, dtype.char)


def _ratio(taps: Taps, number: type[Any]) -> Any:
    """Input positions per output position, rounded as the computation is."""
    if taps.align_corners:
        return number(taps.size - 1) / number(taps.out - 1) if taps.out > 1 else number(0)
    if taps.scale is not None and taps.scale > 0:
        return number(1.0 / taps.scale)
    return number(taps.size) / number(taps.out)


@lru_cache(maxsize=512)
def _tables(taps: Taps, char: str) -> tuple[np.ndarray, np.ndarray]:
    number = np.dtype(char).type
    ratio = _ratio(taps, number)
    t = np.arange(taps.out, dtype=char)
    last = taps.size - 1
    if taps.mode in ("nearest", "nearest-exact"):
        at = t * ratio if taps.mode == "nearest" else (t + number(0.5)) * ratio
        index = np.minimum(np.floor(at).astype(np.int64), last)[:, None]
        weight = np.ones(index.shape, char)
    elif taps.antialias:
        index, weight = _antialiased(taps, ratio, number)
    elif taps.mode == "linear":
        at = (
            t * ratio
            if taps.align_corners
            else np.maximum((t + number(0.5)) * ratio - number(0.5), number(0))
        )
        low = np.minimum(np.floor(at).astype(np.int64), last)
        w = np.clip(at - low.astype(char), number(0), number(1))
        index = np.stack([low, np.minimum(low + 1, last)], 1)
        weight = np.stack([number(1) - w, w], 1)
    else:
        at = t * ratio if taps.align_corners else (t + number(0.5)) * ratio - number(0.5)
        low = np.floor(at)
        w = np.clip(at - low, number(0), number(1))
        index = np.clip(low.astype(np.int64)[:, None] + np.arange(-1, 3), 0, last)
        weight = np.stack(cubic_weights(w), 1)
    index, weight = np.ascontiguousarray(index), np.ascontiguousarray(weight, char)
    index.flags.writeable = weight.flags.writeable = False
    return index, weight


def cubic_weights(w: Any, a: float = -0.75) -> list[Any]:
    """Keys' cubic convolution for the four neighbours of a point that lies w behind the second."""

    def near(x: Any) -> Any:
        return ((x * (a + 2) - (a + 3)) * x) * x + 1

    def far(x: Any) -> Any:
        return ((x * a - 5 * a) * x + 8 * a) * x - 4 * a

    return [far(w + 1), near(w), near(1 - w), far(2 - w)]


def _filter(mode: str, x: np.ndarray) -> np.ndarray:
    x = np.abs(x)
    if mode == "linear":
        return np.maximum(1.0 - x, 0.0)
    a = -0.5
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = a * (((x - 5) * x + 8) * x - 4)
    return np.where(x < 1, near, np.where(x < 2, far, 0.0))


def _antialiased(taps: Taps, ratio: Any, number: type[Any]) -> tuple[np.ndarray, np.ndarray]:
    """When shrinking, the filter is widened so that every input counts."""
    scale = float(ratio)
    support = (1.0 if taps.mode == "linear" else 2.0) * max(scale, 1.0)
    shrink = 1.0 / scale if scale >= 1.0 else 1.0
    most = math.ceil(support) * 2 + 1
    index = np.zeros((taps.out, most), np.int64)
    weight = np.zeros((taps.out, most))
    for t in range(taps.out):
        center = scale * (t + 0.5)
        first = max(int(center - support + 0.5), 0)
        count = max(min(int(center + support + 0.5), taps.size) - first, 0)
        places = np.arange(first, first + count)
        w = _filter(taps.mode, (places - center + 0.5) * shrink)
        total = w.sum()
        index[t, :count], weight[t, :count] = places, w / total if total else w
    return index, weight


def _parts(x: np.ndarray, dim: int) -> tuple[np.ndarray, int, int]:
    """C order (float16 as float32), and the numbers of elements before and behind a dimension."""
    x = contiguous(x, np.float32 if x.dtype.char == "e" else None)
    return x, math.prod(x.shape[:dim]), math.prod(x.shape[dim + 1 :])


@direct_op(
    x=lambda g, dim, taps: resampled_back(g, dim=dim, taps=taps),
    name="upsample",
    node_name="UpsampleBackward0",
    native=True,
)
def resampled(x: Any, *, dim: Any, taps: Any) -> Any:
    """Weighted sums of a few elements along a dimension."""
    source, outer, inner = _parts(x, dim)
    out = np.empty((*x.shape[:dim], taps.out, *x.shape[dim + 1 :]), source.dtype)
    if out.size:
        index, weight = taps.tables(source.dtype)
        args = (source, out, index, weight, taps.size, taps.out, inner, index.shape[1])
        launch(kernels.resample.gather_taps, args, outer * taps.out, out.size)
    return cast(out, x.dtype)


@direct_op(
    g=lambda g, dim, taps: resampled(g, dim=dim, taps=taps),
    name="upsample_backward",
    node_name="UpsampleBackwardBackward0",
    native=True,
)
def resampled_back(g: Any, *, dim: Any, taps: Any) -> Any:
    """The transpose of resampled."""
    source, outer, inner = _parts(g, dim)
    out = zeros((*g.shape[:dim], taps.size, *g.shape[dim + 1 :]), source.dtype)
    if source.size:
        index, weight = taps.tables(source.dtype)
        args = (source, out, index, weight, taps.size, taps.out, inner, index.shape[1])
        launch(kernels.resample.scatter_taps, args, outer, source.size)
    return cast(out, g.dtype)
