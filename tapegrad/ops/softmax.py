"""Softmax and its logarithm, along one dimension."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

from .. import buffers, dtypes, kernels
from ..kernels import launch_lazily as launch
from ..kernels.arrays import cast, contiguous
from ..op import kernel_op
from ..tape import Value
from .arithmetic import neg
from .dims import wrap_dim
from .fused import fused
from .maths import exp
from .out import into
from .reduce import sum as total

__all__ = ["log_softmax", "softmax"]


def wide(x: np.ndarray) -> np.ndarray:
    """The array in C order, and float16 as float32."""
    return contiguous(x, np.float32 if x.dtype.char == "e" else None)


def _normalized(input: np.ndarray, dim: int, logarithm: bool, safe: bool = False) -> np.ndarray:
    x = wide(input)
    out = buffers.empty(input.shape, x.dtype)
    if not out.size:
        return cast(out, input.dtype)
    n, inner = _sizes(x.shape, dim)
    made = kernels.softmax.FAMILY[x.dtype.char]
    if inner == 1:
        kernel, args = (made.log_softmax_rows, ()) if logarithm else (made.softmax_rows, (int(safe),))
        launch(kernel, (x, out, n, *args), x.size // n, x.size)
    else:
        tiles = x.size // (n * inner) * -(-inner // kernels.softmax.WIDTH)
        scratch = np.empty(tiles * 2 * kernels.softmax.WIDTH, x.dtype)
        launch(made.softmax_columns, (x, out, scratch, n, inner, int(logarithm)), tiles, x.size)
    return cast(out, input.dtype)


def _slope(g: np.ndarray, y: np.ndarray, dim: int, logarithm: bool) -> np.ndarray:
    result = y.dtype
    g, y = wide(g), wide(y)
    out = buffers.empty(y.shape, y.dtype)
    if not out.size:
        return cast(out, result)
    n, inner = _sizes(y.shape, dim)
    made = kernels.softmax.FAMILY[y.dtype.char]
    if inner == 1:
        launch(
            made.log_softmax_grad_rows if logarithm else made.softmax_grad_rows,
            (g, y, out, n),
            y.size // n,
            y.size,
        )
    else:
        tiles = y.size // (n * inner) * -(-inner // kernels.softmax.WIDTH)
        scratch = np.empty(tiles * kernels.softmax.WIDTH, y.dtype)
        launch(made.softmax_grad_columns, (g, y, out, scratch, n, inner, int(logarithm)), tiles, y.size)
    return cast(out, result)


def _sizes(shape: tuple[int, ...], dim: int) -> tuple[int, int]:
    """Elements along the dimension and after it."""
    return (shape[dim], math.prod(shape[dim + 1 :])) if shape else (1, 1)


# -- ops ---------------------------------------------------------------------------------------------


@fused(
    lambda g, out, dim: out * (g - total(g * out, dim, keepdim=True)), name="softmax_backward", native=True
)
def softmax_slope(g: Any, out: Any, *, dim: Any) -> Any:
    """The cotangent of softmax's input."""
    return _slope(g, out, dim, False)


@fused(
    lambda g, out, dim: g - exp(out) * total(g, dim, keepdim=True), name="log_softmax_backward", native=True
)
def log_softmax_slope(g: Any, out: Any, *, dim: Any) -> Any:
    """The cotangent of log_softmax's input."""
    return _slope(g, out, dim, True)


@kernel_op(input=lambda g, out, dim: softmax_slope(g, out, dim=dim), name="softmax", native=True)
def softmax_along(input: Any, *, dim: Any) -> Any:
    """exp(input) / sum of exp(input) along a dimension."""
    return _normalized(input, dim, False)


@kernel_op(
    input=lambda g, out: softmax_slope(g, out, dim=out._array.ndim - 1),
    name="safe_softmax",
    node_name="SafeSoftmaxBackward0",
    native=True,
)
def masked_softmax(input: Any) -> Any:
    """softmax along the last dimension, and 0 where all of it is -infinity."""
    return _normalized(input, input.ndim - 1, False, True)


@kernel_op(input=lambda g, out, dim: log_softmax_slope(g, out, dim=dim), name="log_softmax", native=True)
def log_softmax_along(input: Any, *, dim: Any) -> Any:
    """input - log(sum of exp(input)) along a dimension."""
    return _normalized(input, dim, True)


# -- PyTorch's faces -----------------------------------------------------------------------------------


def _along(function: Any, name: str, input: Any, dim: Any, dtype: Any, out: Any) -> Any:
    if not isinstance(input, Value):
        raise TypeError(
            f"{name}(): argument 'input' (position 1) must be a tensor, not {type(input).__name__}"
        )
    d = wrap_dim(dim, input._array.ndim)
    if dtype is not None:
        input = input.to(dtypes.as_dtype(dtype))  # type: ignore[attr-defined]
    if input._array.dtype.kind != "f":
        short = dtypes.of(input._array).short
        raise NotImplementedError(
            f"\"{name}\" is not implemented for '{short}': convert with .float(), or give dtype="
        )
    result = function(input, dim=d)
    return into(result, out, name)


def softmax(input: Any, dim: int, dtype: Any = None, *, out: Any = None) -> Any:
    """exp(input) / sum of exp(input) along ``dim``; ``dtype`` converts first."""
    return _along(softmax_along, "softmax", input, dim, dtype, out)


def log_softmax(input: Any, dim: int, dtype: Any = None, *, out: Any = None) -> Any:
    """log(softmax(input)) along ``dim``, without overflow; ``dtype`` converts first."""
    return _along(log_softmax_along, "log_softmax", input, dim, dtype, out)


def _guessed_dim(name: str, input: Any, dim: int | None, stacklevel: int) -> int:
    """The dimension that PyTorch takes where none is given, with its warning."""
    if dim is not None:
        return dim
    warnings.warn(
        f"Implicit dimension choice for {name} has been deprecated. "
        "Change the call to include dim=X as an argument.",
        stacklevel=stacklevel + 1,
    )
    return 0 if input._array.ndim in (0, 1, 3) else 1


def functional_softmax(input: Any, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Any:
    """exp(input) / sum of exp(input) along ``dim``; ``dtype`` converts first."""
    return softmax(input, _guessed_dim("softmax", input, dim, _stacklevel), dtype)


def functional_log_softmax(
    input: Any, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None
) -> Any:
    """log(softmax(input)) along ``dim``, without overflow; ``dtype`` converts first."""
    return log_softmax(input, _guessed_dim("log_softmax", input, dim, _stacklevel), dtype)


def softmin(input: Any, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Any:
    """softmax of -input along ``dim``; ``dtype`` converts first."""
    return softmax(neg(input), _guessed_dim("softmin", input, dim, _stacklevel), dtype)


class SoftmaxMethods:
    """a.softmax(dim), a.log_softmax(dim)"""

    __slots__ = ()

    softmax, log_softmax = softmax, log_softmax
