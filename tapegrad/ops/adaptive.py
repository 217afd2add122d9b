"""Pooling by the size of the result, power means, and the inverse of maximum pooling."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import kernels
from ..kernels import launch_lazily as launch
from ..kernels.arrays import cast, contiguous, zeros
from ..op import kernel_op
from . import convert
from .arithmetic import mul, where
from .arithmetic import pow as power
from .keys import checked
from .maths import abs as absolute
from .maths import sign
from .matmul import kind_of, require_tensors
from .pool import (
    ADAPTIVE_MAX,
    ADAPTIVE_MEAN,
    _planes,
    _require,
    _sizes,
    _stride,
    avg_pool1d,
    avg_pool2d,
    avg_pool3d,
    take_at,
)
from .windows import spans

__all__ = ["adaptive_avg_pool1d", "adaptive_max_pool1d"]

# -- adaptive ----------------------------------------------------------------------------------------


def _out_size(name: str, input: Any, n: int, output_size: Any) -> tuple[int, ...]:
    """The sizes asked for; None keeps that of the input."""
    shape = input._array.shape
    if isinstance(output_size, (tuple, list)) and 1 < len(output_size) >= len(shape):
        raise ValueError(
            f"{name}(): Input dimension should be at least {len(output_size) + 1}, got {list(shape)}"
        )
    if len(shape) not in (n + 1, n + 2):
        raise RuntimeError(f"{name}(): Expected {n + 1}D or {n + 2}D tensor, but got {list(shape)}")
    for d in range(len(shape) - n, len(shape)):
        if not shape[d]:
            raise RuntimeError(
                f"{name}(): Expected input to have non-zero size for non-batch dimensions, but input has "
                f"sizes {list(shape)} with dimension {d} being empty"
            )
    items = output_size if isinstance(output_size, (tuple, list)) else (output_size,) * n
    if len(items) != n:
        raise RuntimeError(f"{name}: output_size must be {n} ints (or one), but got {list(items)}")
    out = []
    for d, v in enumerate(items):
        if v is None and n > 1:  # in one dimension there would be nothing left to do
            v = shape[len(shape) - n + d]
        if isinstance(v, float) or not hasattr(v, "__index__"):
            raise TypeError(
                f"{name}(): argument 'output_size' must be an int or a tuple of ints, got {output_size!r}"
            )
        if v < 0:
            raise RuntimeError(
                f"{name}: elements of output_size must be greater than or equal to 0 but received "
                f"{list(items)}"
            )
        out.append(int(v))
    return tuple(out)


def _adaptive_max(n: int, input: Any, output_size: Any, return_indices: bool) -> Any:
    name = f"adaptive_max_pool{n}d"
    _require(name, input, "efd")
    out = _out_size(name, input, n, output_size)
    shape = input._array.shape
    values, indices = ADAPTIVE_MAX[n](input, windows=spans(shape[len(shape) - n :], out))
    return (values, convert.cast(indices, dtype=np.dtype(np.int64))) if return_indices else values


def adaptive_max_pool1d(input: Any, output_size: Any, return_indices: bool = False) -> Any:
    """The maxima of ``output_size`` windows of (N, C, L) or (C, L)."""
    return _adaptive_max(1, input, output_size, return_indices)


def adaptive_max_pool2d(input: Any, output_size: Any, return_indices: bool = False) -> Any:
    """The maxima of ``output_size`` windows of (N, C, H, W) or (C, H, W); None keeps a size."""
    return _adaptive_max(2, input, output_size, return_indices)


def adaptive_max_pool3d(input: Any, output_size: Any, return_indices: bool = False) -> Any:
    """The maxima of ``output_size`` windows of (N, C, D, H, W) or (C, D, H, W); None keeps a size."""
    return _adaptive_max(3, input, output_size, return_indices)


def adaptive_max_pool1d_with_indices(input: Any, output_size: Any) -> Any:
    """adaptive_max_pool1d with the indices."""
    return _adaptive_max(1, input, output_size, True)


def adaptive_max_pool2d_with_indices(input: Any, output_size: Any) -> Any:
    """adaptive_max_pool2d with the indices."""
    return _adaptive_max(2, input, output_size, True)


def adaptive_max_pool3d_with_indices(input: Any, output_size: Any) -> Any:
    """adaptive_max_pool3d with the indices."""
    return _adaptive_max(3, input, output_size, True)


def _adaptive_avg(n: int, input: Any, output_size: Any) -> Any:
    name = f"adaptive_avg_pool{n}d"
    _require(name, input, "efd")
    out = _out_size(name, input, n, output_size)
    shape = input._array.shape
    windows = spans(shape[len(shape) - n :], out)
    return ADAPTIVE_MEAN[n](input, windows=windows, padded=False, divisor=0)


def adaptive_avg_pool1d(input: Any, output_size: Any) -> Any:
    """The means of ``output_size`` windows of (N, C, L) or (C, L)."""
    return _adaptive_avg(1, input, output_size)


def adaptive_avg_pool2d(input: Any, output_size: Any) -> Any:
    """The means of ``output_size`` windows of (N, C, H, W) or (C, H, W); None keeps a size."""
    return _adaptive_avg(2, input, output_size)


def adaptive_avg_pool3d(input: Any, output_size: Any) -> Any:
    """The means of ``output_size`` windows of (N, C, D, H, W) or (C, D, H, W); None keeps a size."""
    return _adaptive_avg(3, input, output_size)


# -- power means -------------------------------------------------------------------------------------


def _lp(input: Any, norm_type: float, means: Any, count: int) -> Any:
    # The mean may be negative for odd powers; only its positive part has a root.
    kept = mul(sign(means), where(means == 0, 0.0, absolute(means)))
    positive = where(kept <= 0, 0.0, kept)  # a NaN stays one
    return power(mul(positive, float(count)), 1.0 / norm_type)


def lp_pool1d(
    input: Any, norm_type: float, kernel_size: int, stride: Any = None, ceil_mode: bool = False
) -> Any:
    """The p-norm of each window of (N, C, L) or (C, L)."""
    means = avg_pool1d(power(input, norm_type), kernel_size, stride, 0, ceil_mode)
    return _lp(input, norm_type, means, math.prod(_sizes("lp_pool1d", kernel_size, 1, "kernel_size")))


def lp_pool2d(
    input: Any, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False
) -> Any:
    """The p-norm of each window of (N, C, H, W) or (C, H, W)."""
    means = avg_pool2d(power(input, norm_type), kernel_size, stride, 0, ceil_mode)
    return _lp(input, norm_type, means, math.prod(_sizes("lp_pool2d", kernel_size, 2, "kernel_size")))


def lp_pool3d(
    input: Any, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False
) -> Any:
    """The p-norm of each window of (N, C, D, H, W) or (C, D, H, W)."""
    means = avg_pool3d(power(input, norm_type), kernel_size, stride, 0, ceil_mode)
    return _lp(input, norm_type, means, math.prod(_sizes("lp_pool3d", kernel_size, 3, "kernel_size")))


# -- the inverse of maximum pooling ------------------------------------------------------------------


@kernel_op(
    input=lambda g, indices, n: take_at(g, indices, n=n),
    name="max_unpool",
    node_name="MaxUnpoolBackward0",
    native=True,
)
def put_at(input: Any, indices: Any, *, size: Any, n: Any) -> Any:
    """Zeros of planes of a size, with each element of ``input`` put at its index in the plane."""
    source, planes, per = _planes(input, n)
    out = zeros((*input.shape[: input.ndim - n], *size), source.dtype)
    if out.size and source.size:
        args = (source, contiguous(indices), out, per, math.prod(size))
        launch(kernels.pool.put_at, args, planes, out.size)
    return cast(out, input.dtype)


def _unpool(
    n: int, input: Any, indices: Any, kernel: Any, stride: Any, padding: Any, output_size: Any
) -> Any:
    name = f"max_unpool{n}d"
    require_tensors(name, input=input, indices=indices)
    kernel = _sizes(name, kernel, n, "kernel_size")
    stride = _stride(name, stride, kernel, n)
    padding = _sizes(name, padding, n, "padding")
    shape = input._array.shape
    if len(shape) not in (n + 1, n + 2):
        raise RuntimeError(
            f"Input to {name} should be a {n + 1}d or {n + 2}d Tensor, but got a tensor with {len(shape)} "
            "dimensions."
        )
    if indices._array.dtype.char != "l":
        raise RuntimeError(f"{name}: elements in indices should be type int64 but got: {kind_of(indices)}")
    if indices._array.shape != shape:
        raise RuntimeError(
            f"{name}: Expected shape of indices to be same as that of the input tensor ({list(shape)}) but "
            f"got indices tensor with shape: {list(indices._array.shape)}"
        )
    if 0 in shape[len(shape) - n :]:
        raise RuntimeError(
            f"{name}: Expected input to have non-zero size for non-batch dimensions, but got {list(shape)}"
        )
    size = _unpooled_size(name, shape, n, kernel, stride, padding, output_size)
    index = checked(
        indices._array,
        math.prod(size),
        0,
        lambda bad: RuntimeError(
            f"{name}: Found an invalid max index: {bad} (output volumes are of size "
            f"{'x'.join(map(str, size))})"
        ),
    )
    indices = indices if index is indices._array else indices._make(index)
    return put_at(input, indices, size=size, n=n)


def _unpooled_size(
    name: str, shape: tuple[int, ...], n: int, kernel: Any, stride: Any, padding: Any, output_size: Any
) -> tuple[int, ...]:
    sizes = shape[len(shape) - n :]
    usual = [(s - 1) * st + k - 2 * p for s, st, k, p in zip(sizes, stride, kernel, padding, strict=True)]
    if output_size is None:
        return tuple(usual)
    given = [int(v) for v in output_size]
    if len(given) == n + 2:
        given = given[2:]
    if len(given) != n:
        raise ValueError(
            f"{name}: output_size should be a sequence containing {n} or {n + 2} elements, but it has a "
            f"length of '{len(given)}'"
        )
    for d, (want, have, s) in enumerate(zip(given, usual, stride, strict=True)):
        if not have - s < want < have + s:
            raise ValueError(
                f'{name}: invalid output_size "{tuple(given)}" '
                f"(dim {d} must be between {have - s} and {have + s})"
            )
    return tuple(given)


def max_unpool1d(
    input: Any, indices: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, output_size: Any = None
) -> Any:
    """Zeros with the maxima of max_pool1d put back where they were."""
    return _unpool(1, input, indices, kernel_size, stride, padding, output_size)


def max_unpool2d(
    input: Any, indices: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, output_size: Any = None
) -> Any:
    """Zeros with the maxima of max_pool2d put back where they were."""
    return _unpool(2, input, indices, kernel_size, stride, padding, output_size)


def max_unpool3d(
    input: Any, indices: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, output_size: Any = None
) -> Any:
    """Zeros with the maxima of max_pool3d put back where they were."""
    return _unpool(3, input, indices, kernel_size, stride, padding, output_size)
