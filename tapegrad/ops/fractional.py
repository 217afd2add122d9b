"""Fractional maximum pooling: windows at pseudo-random places that give any size of result.

Benjamin Graham, "Fractional Max-Pooling", arXiv:1412.6071. Which places, is decided by one number in [0, 1)
per plane and dimension.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..op import kernel_op
from . import convert
from .pool import _require, _sizes, add_at

__all__: list[str] = []


def _starts(sample: np.ndarray, size: int, out: int, window: int) -> np.ndarray:
    """Where the windows begin, for every plane: (planes,) to (planes, out), increasing up to size - window."""
    if out == 1:
        return np.full((sample.size, 1), size - window)
    alpha = sample.dtype.type((size - window) / (out - 1))
    steps = np.arange(out, dtype=sample.dtype)
    starts: np.ndarray = ((steps + sample[:, None]) * alpha).astype(np.int64) - (
        sample[:, None] * alpha
    ).astype(np.int64)
    starts[:, -1] = size - window
    return starts


def _pool(
    x: np.ndarray, samples: np.ndarray, out: tuple[int, ...], window: tuple[int, ...]
) -> tuple[np.ndarray, np.ndarray]:
    """Largest element of each window, and its place in the plane."""
    n = len(out)
    size = x.shape[x.ndim - n :]
    planes = x.reshape(-1, *size)
    samples = samples.reshape(-1, n)[: len(planes)]
    # In three dimensions the samples stand in the order of the dimensions, in two the width comes first.
    order = range(n) if n == 3 else reversed(range(n))
    # The places of all elements of all windows: (planes, out..., window...), built up by broadcasting.
    place = np.zeros((), np.int64)
    for d, column in zip(range(n), order, strict=True):
        starts = _starts(samples[:, column], size[d], out[d], window[d])
        rows = starts[:, :, None] + np.arange(window[d])
        shape = [len(planes)] + [1] * (2 * n)
        shape[1 + d], shape[1 + n + d] = out[d], window[d]
        place = place * size[d] + rows.reshape(shape)
    place = place.reshape(len(planes), *out, math.prod(window))
    flat = planes.reshape(len(planes), math.prod(size))
    found = np.take_along_axis(flat, place.reshape(len(planes), math.prod(place.shape[1:])), 1)
    found = found.reshape(place.shape)
    best = found.argmax(-1)[..., None]  # the first NaN, if there is one
    lead = x.shape[: x.ndim - n]
    values = np.take_along_axis(found, best, -1).reshape(*lead, *out)
    index = np.take_along_axis(place, best, -1).reshape(*lead, *out)
    return values, index.astype(np.int32)


def _operation(n: int) -> Any:
    def forward(x: Any, samples: Any, *, out: Any, window: Any) -> Any:
        """The largest element of each window and its place in the plane."""
        return _pool(x, samples, out, window)

    def rule(gs: Any, indices: Any, x_shape: Any, out: Any) -> Any:
        return add_at(gs[0], indices, size=x_shape[len(x_shape) - len(out) :], n=len(out))

    return kernel_op(
        x=rule,
        outputs=("values", "indices"),
        name=f"fractional_max_pool{n}d",
        node_name=f"FractionalMaxPool{n}DBackward0",
    )(forward)


OPERATIONS = {n: _operation(n) for n in (2, 3)}


def _fractional(
    n: int,
    input: Any,
    kernel_size: Any,
    output_size: Any = None,
    output_ratio: Any = None,
    return_indices: bool = False,
    _random_samples: Any = None,
) -> Any:
    """PyTorch's face for n dimensions."""
    name = f"fractional_max_pool{n}d"
    if output_size is None and output_ratio is None:
        raise ValueError(f"{name} requires specifying either an output_size or an output_ratio")
    _require(name, input, "efd")
    shape = input._array.shape
    if len(shape) not in (n + 1, n + 2) or 0 in shape[len(shape) - n - 1 :]:
        raise RuntimeError(
            f"{name}: Expected {n + 1}D or {n + 2}D tensor, of which only the batch may be empty, but got "
            f"{list(shape)}"
        )
    size = shape[len(shape) - n :]
    window = _sizes(name, kernel_size, n, "kernel_size")
    if output_size is None:
        ratio = output_ratio if isinstance(output_ratio, (tuple, list)) else (output_ratio,) * n
        if len(ratio) != n:
            raise ValueError(f"{name} requires output_ratio to either be a single number or a tuple of {n}")
        output_size = tuple(int(s * r) for s, r in zip(size, ratio, strict=True))
    out = _sizes(name, output_size, n, "output_size")
    for d in range(n):
        if window[d] < 1 or out[d] < 1 or out[d] + window[d] - 1 > size[d]:
            raise RuntimeError(
                f"{name}: a window of {window[d]} is too large for {out[d]} results from {size[d]} elements in "
                f"dimension {d - n}: at most {size[d]} - {window[d]} + 1 are possible, at least 1"
            )
    lead = (1 if len(shape) == n + 1 else shape[0], shape[len(shape) - n - 1], n)
    if _random_samples is None:
        _random_samples = input.detach().new_empty(lead).uniform_()
    samples = _random_samples._array
    if samples.dtype != input._array.dtype:
        raise RuntimeError(
            f"{name}: Expect _random_samples to have the same dtype as input, got {samples.dtype} and "
            f"{input._array.dtype}"
        )
    if samples.ndim != 3 or samples.shape[0] < lead[0] or samples.shape[1:] != lead[1:]:
        raise RuntimeError(
            f"{name}: _random_samples must be of shape {list(lead)}, got {list(samples.shape)}"
        )
    values, indices = OPERATIONS[n](input, _random_samples.detach(), out=out, window=window)
    return (values, convert.cast(indices, dtype=np.dtype(np.int64))) if return_indices else values


def fractional_max_pool2d(
    input: Any,
    kernel_size: Any,
    output_size: Any = None,
    output_ratio: Any = None,
    return_indices: bool = False,
    _random_samples: Any = None,
) -> Any:
    """Maximum over randomly placed windows of (N, C, H, W) or (C, H, W), to ``output_size`` or a ratio of it."""
    return _fractional(2, input, kernel_size, output_size, output_ratio, return_indices, _random_samples)


def fractional_max_pool3d(
    input: Any,
    kernel_size: Any,
    output_size: Any = None,
    output_ratio: Any = None,
    return_indices: bool = False,
    _random_samples: Any = None,
) -> Any:
    """fractional_max_pool2d for (N, C, D, H, W) or (C, D, H, W)."""
    return _fractional(3, input, kernel_size, output_size, output_ratio, return_indices, _random_samples)


def fractional_max_pool2d_with_indices(
    input: Any,
    kernel_size: Any,
    output_size: Any = None,
    output_ratio: Any = None,
    return_indices: bool = False,
    _random_samples: Any = None,
) -> Any:
    """fractional_max_pool2d that always returns the indices too."""
    return _fractional(2, input, kernel_size, output_size, output_ratio, True, _random_samples)


def fractional_max_pool3d_with_indices(
    input: Any,
    kernel_size: Any,
    output_size: Any = None,
    output_ratio: Any = None,
    return_indices: bool = False,
    _random_samples: Any = None,
) -> Any:
    """fractional_max_pool3d that always returns the indices too."""
    return _fractional(3, input, kernel_size, output_size, output_ratio, True, _random_samples)
