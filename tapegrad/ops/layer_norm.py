"""Normalisation of each row over the last dimensions: layer norm, RMS norm; and local response norm."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from .. import buffers, dtypes, kernels
from ..kernels import launch_lazily as launch
from ..kernels.arrays import cast, contiguous, filled, zeros
from ..op import kernel_op
from ..tape import Value
from .arithmetic import div
from .arithmetic import pow as power
from .fused import fused
from .maths import rsqrt
from .norm import check_parameters
from .reduce import mean as average
from .reduce import sum as total
from .shape import cat, unfold
from .softmax import wide

__all__ = ["layer_norm", "rms_norm"]


def _dims(shape: tuple[int, ...], lead: int) -> tuple[int, ...]:
    return tuple(range(lead, len(shape)))


def _or(weight: np.ndarray | None, n: int, fill: float, dtype: np.dtype) -> np.ndarray:
    return filled((n,), fill, dtype) if weight is None else contiguous(weight, dtype)


def _input_slope(g: Any, input: Any, weight: Any, mean: Any, rstd: Any, lead: int, centered: bool) -> Any:
    """The cotangent of the input, as an expression."""
    dims = _dims(input._array.shape, lead)
    a = g if weight is None else g * weight
    y = (input - mean) * rstd
    share = y * average(a * y, dims, keepdim=True)
    return (a - average(a, dims, keepdim=True) - share if centered else a - share) * rstd


def _weight_slopes(g: Any, input: Any, mean: Any, rstd: Any, lead: int) -> tuple[Any, Any]:
    """The cotangents of weight and bias, as expressions."""
    if not lead:
        return g * ((input - mean) * rstd), g
    dims = tuple(range(lead))
    return total(g * ((input - mean) * rstd), dims), total(g, dims)


@fused(_input_slope, name="layer_norm_backward", native=True)
def row_slope(g: Any, input: Any, weight: Any, mean: Any, rstd: Any, *, lead: Any, centered: Any) -> Any:
    """The cotangent of row_norm's input."""
    x = wide(input)
    out = buffers.empty(x.shape, x.dtype)
    if out.size:
        n = math.prod(x.shape[lead:])
        g, w = contiguous(g, x.dtype), _or(weight, n, 1.0, x.dtype)
        launch(
            kernels.norm.normalize_rows_grad,
            (g, x, w, mean, rstd, out, n, int(centered)),
            x.size // n,
            x.size,
        )
    return cast(out, input.dtype)


@fused(_weight_slopes, outputs=("weight", "bias"), name="layer_norm_weight_backward", native=True)
def row_weight_slopes(g: Any, input: Any, mean: Any, rstd: Any, *, lead: Any) -> Any:
    """The cotangents of row_norm's weight and bias."""
    x = wide(input)
    shape = x.shape[lead:]
    n = math.prod(shape)
    weight, bias = zeros(shape, np.float64), zeros(shape, np.float64)
    if x.size:
        tiles = -(-n // kernels.norm.WIDTH)
        scratch = np.empty(tiles * 2 * kernels.norm.WIDTH, x.dtype)
        args = (contiguous(g, x.dtype), x, mean, rstd, scratch, weight, bias, x.size // n, n)
        launch(kernels.norm.normalize_rows_weights, args, tiles, x.size)
    return weight, bias


def _all_slopes(
    g: Any, input: Any, weight: Any, mean: Any, rstd: Any, lead: int, centered: bool
) -> tuple[Any, Any, Any]:
    slope = _input_slope(g, input, weight, mean, rstd, lead, centered)
    return slope, *_weight_slopes(g, input, mean, rstd, lead)


@fused(_all_slopes, outputs=("input", "weight", "bias"), name="layer_norm_whole_backward", native=True)
def row_slopes(g: Any, input: Any, weight: Any, mean: Any, rstd: Any, *, lead: Any, centered: Any) -> Any:
    """The cotangents of row_norm's input, weight and bias, in one pass."""
    x = wide(input)
    out = buffers.empty(x.shape, x.dtype)
    shape = x.shape[lead:]
    by_weight, by_bias = zeros(shape, np.float64), zeros(shape, np.float64)
    if x.size:
        n = math.prod(shape)
        rows = x.size // n
        piece = max(32, -(-rows // 64))
        pieces = -(-rows // piece)
        scratch = buffers.empty((pieces * kernels.norm.slopes_scratch(n),), x.dtype)
        parts = np.empty(pieces * 2 * n)
        g, w = contiguous(g, x.dtype), _or(weight, n, 1.0, x.dtype)
        args = (g, x, w, mean, rstd, out, scratch, parts, rows, piece, n, int(centered))
        launch(kernels.norm.normalize_rows_slopes, args, pieces, 2 * x.size)
        launch(kernels.norm.add_pieces, (parts, by_weight, by_bias, pieces, n), n, pieces * n)
    return cast(out, input.dtype), by_weight, by_bias


def _rule(
    g: Any, input: Any, weight: Any, mean: Any, rstd: Any, needs: Any, lead: int, centered: bool
) -> Any:
    slope = None
    if needs[0] and (needs[1] or needs[2]):
        slope, by_weight, by_bias = row_slopes(g, input, weight, mean, rstd, lead=lead, centered=centered)
    elif needs[0]:
        return row_slope(g, input, weight, mean, rstd, lead=lead, centered=centered), None, None
    else:
        by_weight, by_bias = row_weight_slopes(g, input, mean, rstd, lead=lead)
    return slope, by_weight if needs[1] else None, by_bias if needs[2] else None


def _row_mean(input: Any, lead: int, centered: bool) -> Any:
    return average(input, _dims(input._array.shape, lead), keepdim=True) if centered else 0.0


def _row_rstd(input: Any, lead: int, eps: float, centered: bool) -> Any:
    d = input - _row_mean(input, lead, centered) if centered else input
    return rsqrt(average(d * d, _dims(input._array.shape, lead), keepdim=True) + eps)


@kernel_op(
    all=_rule,
    residuals={"mean": _row_mean, "rstd": _row_rstd},
    name="layer_norm",
    node_name="NativeLayerNormBackward0",
    native=True,
)
def row_norm(input: Any, weight: Any, bias: Any, *, lead: Any, eps: Any, centered: Any) -> Any:
    """(input - mean) / sqrt(var + eps) * weight + bias over the dimensions from ``lead`` on.

    Unless ``centered`` the mean is taken for 0. Hands out the mean and 1 / deviation of each row.
    """
    x = wide(input)
    out = buffers.empty(x.shape, x.dtype)
    rows, n = math.prod(x.shape[:lead]), math.prod(x.shape[lead:])
    mean, rstd = np.empty(rows), np.empty(rows)
    if out.size:
        w, b = _or(weight, n, 1.0, x.dtype), _or(bias, n, 0.0, x.dtype)
        launch(kernels.norm.normalize_rows, (x, w, b, out, mean, rstd, n, eps, int(centered)), rows, x.size)
    return cast(out, input.dtype), mean, rstd


# -- PyTorch's faces -----------------------------------------------------------------------------------


def _lead(name: str, input: Any, normalized_shape: Any, **given: Any) -> int:
    """How many dimensions stand before the normalised ones; checks all shapes and types."""
    if not isinstance(input, Value):
        raise TypeError(f"{name}(): argument 'input' must be a tensor, not {type(input).__name__}")
    if isinstance(normalized_shape, int):
        raise TypeError(f"{name}(): argument 'normalized_shape' must be a tuple of ints, not int")
    wanted = tuple(operator.index(n) for n in normalized_shape)
    shape = input._array.shape
    if not wanted:
        raise RuntimeError(
            f"{name}: Expected normalized_shape to be at least 1-dimensional, but got normalized_shape = []"
        )
    for what, value in given.items():
        if value is None:
            continue
        if value._array.shape != wanted:
            raise RuntimeError(
                f"{name}: Expected {what} to be of same shape as normalized_shape, but got {what} of shape "
                f"{list(value._array.shape)} and normalized_shape = {list(wanted)}"
            )
    if len(shape) < len(wanted) or shape[len(shape) - len(wanted) :] != wanted:
        raise RuntimeError(
            f"Given normalized_shape={list(wanted)}, expected input with shape [*, {str(list(wanted))[1:]}, "
            f"but got input of size{list(shape)}"
        )
    if input._array.dtype.kind != "f":
        raise NotImplementedError(
            f'"{name}" is not implemented for {input._array.dtype}: convert with .float() first'
        )
    return len(shape) - len(wanted)


def layer_norm(
    input: Any, normalized_shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Any:
    """(x - mean) / sqrt(var + eps) * weight + bias over the last dimensions, of ``normalized_shape``."""
    lead = _lead("layer_norm", input, normalized_shape, weight=weight, bias=bias)
    check_parameters("layer_norm", input, weight=weight, bias=bias)
    return row_norm(input, weight, bias, lead=lead, eps=float(eps), centered=True)


def rms_norm(input: Any, normalized_shape: Any, weight: Any = None, eps: float | None = None) -> Any:
    """x / sqrt(mean of x^2 + eps) * weight over the last dimensions; eps is the dtype's if not given.

    float16 is computed in float32, and takes the eps of that.
    """
    lead = _lead("rms_norm", input, normalized_shape, weight=weight)
    if eps is None:
        wide = dtypes.float64 if input._array.dtype.char == "d" else dtypes.float32
        eps = dtypes.finfo(wide).eps
    return row_norm(input, weight, None, lead=lead, eps=float(eps), centered=False)


def local_response_norm(
    input: Any, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Any:
    """x / (k + alpha * mean of x^2 over ``size`` neighbouring channels)^beta, for (N, C, ...)."""
    shape = input._array.shape
    if len(shape) < 3:
        raise ValueError(f"Expected 3D or higher dimensionality input (got {len(shape)}D)")
    if not input._array.size:
        return input
    before, after = size // 2, (size - 1) // 2
    edges = [input.new_zeros((shape[0], width, *shape[2:])) for width in (before, after)]
    windows = unfold(cat([edges[0], input * input, edges[1]], 1), 1, size, 1)
    return div(input, power(total(windows, -1) * (alpha / size) + k, beta))
