"""Pooling: the largest element, or the mean, of each window.

Maximum pooling remembers where each maximum was; its gradient is added there, and the gradient of that is
read there. Average pooling and its transpose are each other's rules.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from .. import buffers, kernels
from ..kernels import launch_lazily as launch
from ..kernels.arrays import cast, contiguous, zeros
from ..op import KernelOp, kernel_op
from . import convert
from .direct import DirectOp, direct_op
from .windows import Spans, Windows, fixed, pooled_size, window_counts

__all__ = ["avg_pool1d", "max_pool1d", "max_pool1d_with_indices", "max_pool2d", "max_pool3d"]

# -- on arrays ---------------------------------------------------------------------------------------


def _planes(x: np.ndarray, n: int) -> tuple[np.ndarray, int, int]:
    """The array in C order (float16 as float32), the number of its planes, and the elements of one."""
    size = math.prod(x.shape[x.ndim - n :])
    return (
        contiguous(x, np.float32 if x.dtype.char == "e" else None),
        x.size // size if size else 0,
        size,
    )


# -- reading and adding at remembered places ---------------------------------------------------------


@kernel_op(
    g_out=lambda g, index, n: take_at(g, index, n=n),
    name="pool_scatter",
    node_name="MaxPoolBackwardBackward0",
    native=True,
)
def add_at(g_out: Any, index: Any, *, size: Any, n: Any) -> Any:
    """Zeros of planes of a size, with each element of ``g_out`` added at its index in the plane."""
    lead = g_out.shape[: g_out.ndim - n]
    g, planes, per = _planes(g_out, n)
    out = zeros((*lead, *size), g.dtype)
    if out.size and g.size:
        args = (g, contiguous(index), out, per, math.prod(size))
        launch(kernels.pool.add_at, args, planes, out.size)
    return cast(out, g_out.dtype)


def _taken(x: np.ndarray, index: np.ndarray, n: int) -> np.ndarray:
    lead = x.shape[: x.ndim - n]
    source, planes, size = _planes(x, n)
    out = buffers.empty((*lead, *index.shape[index.ndim - n :]), source.dtype)
    if out.size:
        args = (source, contiguous(index), out, out.size // planes, size)
        launch(kernels.pool.take_at, args, planes, out.size)
    return cast(out, x.dtype)


@kernel_op(
    x=lambda g, index, x_shape, n: add_at(g, index, size=x_shape[len(x_shape) - n :], n=n),
    name="pool_gather",
    node_name="GatherBackward0",
    native=True,
)
def take_at(x: Any, index: Any, *, n: Any) -> Any:
    """The elements at the given indices of each plane."""
    return _taken(x, index, n)


# -- maximum -----------------------------------------------------------------------------------------


def _max_pool(x: np.ndarray, windows: Windows | Spans) -> tuple[np.ndarray, np.ndarray]:
    n = len(windows.size)
    source, planes, size = _planes(x, n)
    if size >= 2**31:
        raise RuntimeError(
            f"max_pool{n}d: a plane of {size} elements is too large, less than 2**31 are supported"
        )
    out = buffers.empty((*x.shape[: x.ndim - n], *windows.out), source.dtype)
    index = buffers.empty(out.shape, np.int32)
    if out.size:
        pool = kernels.pool
        if isinstance(windows, Spans):
            launch(pool.max_windows, (source, out, index, windows.table), planes, source.size)
        else:
            launch(pool.max_taps, (source, out, index, windows.geo()), planes, source.size)
            if max(windows.dilation) > 1:
                # Only such windows may meet padding alone.
                least = np.array([-np.inf if out.dtype.kind == "f" else np.iinfo(out.dtype).min], out.dtype)
                launch(pool.fill_absent, (index, least, out), out.size, out.size)
    return cast(out, x.dtype), index


def _max_op(n: int, node_name: str) -> KernelOp:
    def forward(x: Any, *, windows: Any) -> Any:
        """The largest element of each window and its place in the plane."""
        return _max_pool(x, windows)

    def rule(gs: Any, indices: Any, windows: Any) -> Any:
        return add_at(gs[0], indices, size=windows.size, n=n)

    names = ("values", "indices")
    op = kernel_op(x=rule, outputs=names, name=f"max_pool{n}d", node_name=node_name, native=True)
    return op(forward)


MAX = {n: _max_op(n, f"MaxPool{n}DWithIndicesBackward0") for n in (1, 2, 3)}
ADAPTIVE_MAX = {n: _max_op(n, f"AdaptiveMaxPool{n}DBackward0") for n in (1, 2, 3)}

# -- mean --------------------------------------------------------------------------------------------


def _mean_op(n: int, node_name: str) -> DirectOp:
    def forward(x: Any, *, windows: Any, padded: Any, divisor: Any) -> Any:
        """The mean of each window: its sum by the number it counts as, or by ``divisor`` unless that is 0."""
        source, planes, _ = _planes(x, n)
        out = buffers.empty((*x.shape[: x.ndim - n], *windows.out), source.dtype)
        if out.size and isinstance(windows, Spans):
            launch(kernels.pool.mean_windows, (source, out, windows.table), planes, source.size)
        elif out.size:
            args = (source, out, windows.geo(), window_counts(windows, padded), divisor)
            launch(kernels.pool.mean_taps, args, planes, source.size)
        return cast(out, x.dtype)

    def transpose(g: Any, *, windows: Any, padded: Any, divisor: Any) -> Any:
        """Each element of ``g`` spread evenly over its window."""
        source, planes, _ = _planes(g, n)
        out = zeros((*g.shape[: g.ndim - n], *windows.size), source.dtype)
        if out.size and isinstance(windows, Spans):
            launch(kernels.pool.spread_windows, (source, out, windows.table), planes, out.size)
        elif out.size:
            args = (source, out, windows.geo(), window_counts(windows, padded), divisor)
            launch(kernels.pool.spread_taps, args, planes, out.size)
        return cast(out, g.dtype)

    def rule(g: Any, windows: Any, padded: Any, divisor: Any) -> Any:
        return spread(g, windows=windows, padded=padded, divisor=divisor)

    def transposed_rule(g: Any, windows: Any, padded: Any, divisor: Any) -> Any:
        return mean(g, windows=windows, padded=padded, divisor=divisor)

    mean = direct_op(x=rule, name=f"avg_pool{n}d", node_name=node_name, native=True)(forward)
    twice = node_name.replace("Backward", "BackwardBackward")
    spread = direct_op(g=transposed_rule, name=f"avg_pool{n}d_spread", node_name=twice, native=True)(
        transpose
    )
    return mean


MEAN = {n: _mean_op(n, f"AvgPool{n}DBackward0") for n in (1, 2, 3)}
ADAPTIVE_MEAN = {n: _mean_op(n, f"AdaptiveAvgPool{n}DBackward0") for n in (1, 2, 3)}

# -- checks ------------------------------------------------------------------------------------------


def _sizes(name: str, value: Any, n: int, argument: str) -> tuple[int, ...]:
    items = value if isinstance(value, (tuple, list)) else (value,)
    if any(isinstance(v, float) or not hasattr(v, "__index__") for v in items):
        raise TypeError(f"{name}(): argument '{argument}' must be an int or a tuple of ints, got {value!r}")
    if len(items) not in (1, n):
        raise RuntimeError(
            f"{name}: {argument} must either be a single int, or a tuple of {n} ints, but got size "
            f"{len(items)}"
        )
    given = tuple([int(v) for v in items])
    return given * n if len(given) == 1 else given


def _stride(name: str, stride: Any, kernel: tuple[int, ...], n: int) -> tuple[int, ...]:
    absent = stride is None or (isinstance(stride, (tuple, list)) and not stride)
    return kernel if absent else _sizes(name, stride, n, "stride")


def check_ranks(name: str, shape: tuple[int, ...], n: int) -> None:
    """RuntimeError unless (N, C, ...) or (C, ...) with nothing empty but the batch."""
    if len(shape) not in (n + 1, n + 2):
        raise RuntimeError(
            f"{name}: Expected {n + 1}D or {n + 2}D (batch mode) tensor with optional 0 dim batch size for "
            f"input, but got: {list(shape)}"
        )
    if 0 in shape[len(shape) - n - 1 :]:
        raise RuntimeError(
            f"{name}: Expected {n + 1}D or {n + 2}D (batch mode) tensor with optional 0 dim batch size for "
            f"input, but got: {list(shape)}: only the batch may be empty"
        )


def _windows(
    name: str, input: Any, n: int, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool
) -> Windows:
    given = (fixed(kernel), fixed(stride), fixed(padding), fixed(dilation))
    return _geometry(name, n, input._array.shape, *given, bool(ceil_mode))


@lru_cache(maxsize=1024, typed=True)
def _geometry(
    name: str,
    n: int,
    shape: tuple[int, ...],
    kernel: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    ceil_mode: bool,
) -> Windows:
    """The windows of a pooling; errors for whatever does not fit."""
    kernel = _sizes(name, kernel, n, "kernel_size")
    stride = _stride(name, stride, kernel, n)
    padding, dilation = _sizes(name, padding, n, "padding"), _sizes(name, dilation, n, "dilation")
    check_ranks(name, shape, n)
    if min(kernel) <= 0:
        raise RuntimeError(f"{name}() kernel_size must be greater than zero, but got {list(kernel)}")
    if min(stride) <= 0:
        raise RuntimeError(
            f"{name}() stride must be greater than zero (stride should not be zero), but got {list(stride)}"
        )
    if min(padding) < 0:
        raise RuntimeError(
            f"{name}() padding must be non-negative (pad must be non-negative), but got {list(padding)}"
        )
    if min(dilation) <= 0:
        raise RuntimeError(
            f"{name}() dilation must be greater than zero (dilation should be greater than zero), but got "
            f"{list(dilation)}"
        )
    for k, p in zip(kernel, padding, strict=True):
        if p > k // 2:
            raise RuntimeError(
                f"{name}() padding should be at most half of kernel size, but got pad={p} and kernel_size={k}"
            )
    size = shape[len(shape) - n :]
    out = tuple(
        pooled_size(name, *given, ceil_mode=ceil_mode)
        for given in zip(size, kernel, stride, padding, dilation, strict=True)
    )
    if min(out) <= 0:
        raise RuntimeError(
            f"{name}: Given input size: {list(size)}. Calculated output size: {list(out)}. Output size is "
            "too small (Invalid computed output size)"
        )
    return Windows(size, out, kernel, stride, padding, dilation)


def _require(name: str, input: Any, dtypes: str) -> None:
    if not hasattr(input, "_array"):
        raise TypeError(f"{name}(): argument 'input' (position 1) must be Tensor, not {type(input).__name__}")
    if input._array.dtype.char not in dtypes:
        raise NotImplementedError(
            f"\"{name}\" not implemented for '{input._array.dtype}'; convert with .float()"
        )


# -- PyTorch's faces: maximum ------------------------------------------------------------------------


def _max(
    n: int,
    input: Any,
    kernel: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    ceil_mode: bool,
    return_indices: bool,
    dtypes: str,
) -> Any:
    name = f"max_pool{n}d"
    _require(name, input, dtypes)
    windows = _windows(name, input, n, kernel, stride, padding, dilation, ceil_mode)
    values, indices = MAX[n](input, windows=windows)
    return (values, convert.cast(indices, dtype=np.dtype(np.int64))) if return_indices else values


def max_pool1d(
    input: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The largest element of each window of (N, C, L) or (C, L), and its index if asked; NaN wins."""
    return _max(1, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices, "efd")


def max_pool2d(
    input: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The largest element of each window of (N, C, H, W) or (C, H, W), and its index if asked; NaN wins."""
    return _max(2, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices, "efdlihbB")


def max_pool3d(
    input: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The largest element of each window of (N, C, D, H, W) or (C, D, H, W), and its index if asked."""
    return _max(3, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices, "efdlihbB")


def max_pool1d_with_indices(
    input: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
) -> Any:
    """max_pool1d with the indices."""
    return max_pool1d(input, kernel_size, stride, padding, dilation, ceil_mode, True)


def max_pool2d_with_indices(
    input: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
) -> Any:
    """max_pool2d with the indices."""
    return max_pool2d(input, kernel_size, stride, padding, dilation, ceil_mode, True)


def max_pool3d_with_indices(
    input: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
) -> Any:
    """max_pool3d with the indices."""
    return max_pool3d(input, kernel_size, stride, padding, dilation, ceil_mode, True)


# -- PyTorch's faces: mean ---------------------------------------------------------------------------


def _avg(
    n: int,
    input: Any,
    kernel: Any,
    stride: Any,
    padding: Any,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor: int | None,
) -> Any:
    name = f"avg_pool{n}d"
    _require(name, input, "efd")
    if divisor == 0:
        raise RuntimeError(f"{name}: divisor must be not zero")
    windows = _windows(name, input, n, kernel, stride, padding, 1, ceil_mode)
    if n == 3 and any(k > size for k, size in zip(windows.kernel, windows.size, strict=True)):
        raise RuntimeError(
            f"{name}: input image {list(windows.size)} smaller than kernel size {list(windows.kernel)}"
        )
    return MEAN[n](input, windows=windows, padded=bool(count_include_pad), divisor=int(divisor or 0))


def avg_pool1d(
    input: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Any:
    """The mean of each window of (N, C, L) or (C, L); zeros of the padding count unless told otherwise."""
    return _avg(1, input, kernel_size, stride, padding, ceil_mode, count_include_pad, None)


def avg_pool2d(
    input: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Any:
    """The mean of each window of (N, C, H, W) or (C, H, W), or its sum by ``divisor_override``."""
    return _avg(2, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


def avg_pool3d(
    input: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Any:
    """The mean of each window of (N, C, D, H, W) or (C, D, H, W), or its sum by ``divisor_override``."""
    return _avg(3, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)
