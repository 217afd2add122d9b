"""Activations under PyTorch's names; their formulas are in activation_ops.py."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..tape import Value
from .activation_ops import (
    bent_softplus,
    clamp_inside,
    clamp_inside_6,
    clamp_inside_symmetric,
    clamped_line,
    clamped_linear,
    exponential_linear,
    exponential_linear_scaled,
    exponential_linear_smooth,
    gated,
    gelu_erf,
    gelu_tanh,
    leaky,
    leaky_drawn,
    leaky_learned,
    relu,
    replace_below,
    scaled_softplus,
    shrink_hard,
    shrink_soft,
    sigmoid_linear,
    softplus_tanh_linear,
)
from .activation_ops import log1p_exp as log1p_exp
from .activation_ops import logsigmoid as logsigmoid
from .activation_ops import softsign as softsign
from .activation_ops import tanhshrink as tanhshrink
from .dims import wrap_dim
from .maths import sigmoid, tanh
from .shape import narrow, reshape, write_view

__all__ = [
    "celu", "celu_", "hardshrink", "prelu", "relu", "relu_", "rrelu", "rrelu_", "selu", "selu_", "sigmoid_",
    "tanh_", "threshold", "threshold_",
]  # fmt: skip


def _run(function: Any, input: Any, inplace: bool, *others: Any, **params: Any) -> Any:
    """Call an elementwise op, out of place or over its input."""
    return _inplace(function, input, *others, **params) if inplace else function(input, *others, **params)


def _inplace(function: Any, input: Any, *others: Any, **params: Any) -> Any:
    if not isinstance(input, Value):
        raise TypeError(
            f"{function.op.name}_(): argument 'input' must be a tensor, not {type(input).__name__}"
        )
    return function.op.inplace(write_view, input, *others, **params)


def _whole(input: Any, *limits: Any) -> tuple[Any, ...]:
    """Limits in the kind of the tensor: integer tensors stay integers."""
    integral = isinstance(input, Value) and input._array.dtype.kind != "f"
    return tuple(int(v) for v in limits) if integral else limits


def _number(name: str, value: Any) -> float:
    if not isinstance(value, (int, float, np.number, Value)):
        raise TypeError(f"{name}(): a number is needed, not {type(value).__name__}")
    return float(value)  # type: ignore[arg-type]


def relu_(input: Any) -> Any:
    """In place: relu."""
    return _inplace(relu, input)


def functional_relu(input: Any, inplace: bool = False) -> Any:
    """max(input, 0); the gradient at 0 is 0."""
    return _inplace(relu, input) if inplace else relu(input)


def sigmoid_(input: Any) -> Any:
    """In place: 1 / (1 + exp(-input))."""
    return _inplace(sigmoid, input)


def tanh_(input: Any) -> Any:
    """In place: the hyperbolic tangent."""
    return _inplace(tanh, input)


def relu6(input: Any, inplace: bool = False) -> Any:
    """input within [0, 6]."""
    return _run(clamp_inside_6, input, inplace)


def hardtanh(input: Any, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Any:
    """input within [min_val, max_val]; the gradient at the edges is 0. ValueError if min_val > max_val."""
    if min_val > max_val:
        raise ValueError(f"hardtanh: min_val ({min_val}) cannot be greater than max_val ({max_val})")
    low, high = _whole(input, min_val, max_val)
    if low == -high and isinstance(low, float):
        return _run(clamp_inside_symmetric, input, inplace, high)
    return _run(clamp_inside, input, inplace, low=low, high=high)


def hardtanh_(input: Any, min_val: float = -1.0, max_val: float = 1.0) -> Any:
    """In place: hardtanh."""
    return hardtanh(input, min_val, max_val, True)


def leaky_relu(input: Any, negative_slope: float = 0.01, inplace: bool = False) -> Any:
    """input where it is positive, else negative_slope * input."""
    return _run(leaky, input, inplace, _number("leaky_relu", negative_slope))


def leaky_relu_(input: Any, negative_slope: float = 0.01) -> Any:
    """In place: leaky_relu."""
    return leaky_relu(input, negative_slope, True)


def prelu(input: Any, weight: Any) -> Any:
    """input where it is positive, else weight * input; one weight, or one per channel (dimension 1)."""
    rank, channels = input._array.ndim, weight._array.shape
    if len(channels) > 1:
        raise RuntimeError(
            f"prelu: Expected `weight` to be a scalar or 1D tensor, but got: ndim = {len(channels)}"
        )
    if input._array.dtype != weight._array.dtype:
        raise RuntimeError(
            f"prelu: Type promoting not supported. Got {input._array.dtype} and {weight._array.dtype}"
        )
    count = weight._array.size
    if count != 1:
        if not rank:
            raise RuntimeError("prelu: Not allow zero-dim input tensor with more than one weight")
        size = input._array.shape[1] if rank > 1 else 1
        if count != size:
            raise RuntimeError(
                "prelu: Mismatch of parameter numbers and input channel size. "
                f"Found parameter numbers = {count} and channel size = {size}."
            )
    shape = (1,) * rank if count == 1 else (1, count, *(1,) * (rank - 2))
    return leaky_learned(input, reshape(weight, shape))


def rrelu(
    input: Any, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False, inplace: bool = False
) -> Any:
    """leaky_relu with slopes drawn from [lower, upper] in training, else with their mean."""
    if lower > upper:
        raise RuntimeError(
            f"rrelu: Lower bound {lower} should be less than or equal to the upper bound {upper}"
        )
    if not training:
        return leaky_relu(input, (lower + upper) / 2, inplace)
    slopes = input.new_empty(input._array.shape).uniform_(lower, upper)
    return _run(leaky_drawn, input, inplace, slopes)


def rrelu_(input: Any, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False) -> Any:
    """In place: rrelu."""
    return rrelu(input, lower, upper, training, True)


def elu(input: Any, alpha: float = 1.0, inplace: bool = False) -> Any:
    """input where it is positive, else alpha * (exp(input) - 1)."""
    return _run(exponential_linear, input, inplace, _number("elu", alpha))


def elu_(input: Any, alpha: float = 1.0) -> Any:
    """In place: elu."""
    return elu(input, alpha, True)


def selu(input: Any, inplace: bool = False) -> Any:
    """elu with the scale and alpha that keep mean 0 and variance 1."""
    return _run(exponential_linear_scaled, input, inplace)


def selu_(input: Any) -> Any:
    """In place: selu."""
    return selu(input, True)


def celu(input: Any, alpha: float = 1.0, inplace: bool = False) -> Any:
    """input where it is positive, else alpha * (exp(input / alpha) - 1)."""
    if alpha == 0:
        raise RuntimeError("ZeroDivisionError: alpha cannot be 0 for CELU")
    if alpha == 1:
        return elu(input, 1.0, inplace)
    return _run(exponential_linear_smooth, input, inplace, alpha=_number("celu", alpha), rate=1.0 / alpha)


def celu_(input: Any, alpha: float = 1.0) -> Any:
    """In place: celu."""
    return celu(input, alpha, True)


def gelu(input: Any, approximate: str = "none") -> Any:
    """input * P(N(0, 1) <= input), exactly or (approximate="tanh") nearly."""
    if approximate == "none":
        return gelu_erf(input)
    if approximate == "tanh":
        return gelu_tanh(input)
    raise RuntimeError(f"gelu: approximate argument must be either none or tanh, got {approximate!r}")


def silu(input: Any, inplace: bool = False) -> Any:
    """input * sigmoid(input)."""
    return _inplace(sigmoid_linear, input) if inplace else sigmoid_linear(input)


def mish(input: Any, inplace: bool = False) -> Any:
    """input * tanh(softplus(input))."""
    return _inplace(softplus_tanh_linear, input) if inplace else softplus_tanh_linear(input)


def softplus(input: Any, beta: float = 1.0, threshold: float = 20.0) -> Any:
    """log(1 + exp(beta * input)) / beta; linear where beta * input is above the threshold."""
    if beta == 1:
        return bent_softplus(input, _number("softplus", threshold))
    return scaled_softplus(input, beta=_number("softplus", beta), threshold=_number("softplus", threshold))


def hardsigmoid(input: Any, inplace: bool = False) -> Any:
    """input / 6 + 1 / 2 within [0, 1]."""
    return _inplace(clamped_line, input) if inplace else clamped_line(input)


def hardswish(input: Any, inplace: bool = False) -> Any:
    """input * hardsigmoid(input)."""
    return _inplace(clamped_linear, input) if inplace else clamped_linear(input)


def hardshrink(input: Any, lambd: float = 0.5) -> Any:
    """0 within [-lambd, lambd], else input."""
    return shrink_hard(input, _number("hardshrink", lambd))


def softshrink(input: Any, lambd: float = 0.5) -> Any:
    """input moved towards 0 by lambd; RuntimeError for a negative lambd."""
    if lambd < 0:
        raise RuntimeError(f"softshrink: lambda must be greater or equal to 0, but found to be {lambd}")
    return shrink_soft(input, _number("softshrink", lambd))


def threshold(input: Any, threshold: float, value: float, inplace: bool = False) -> Any:
    """value where input is at most the threshold, else input."""
    at, below = _whole(input, threshold, value)
    return _run(replace_below, input, inplace, threshold=at, value=below)


def threshold_(input: Any, threshold: float, value: float) -> Any:
    """In place: threshold."""
    at, below = _whole(input, threshold, value)
    return _inplace(replace_below, input, threshold=at, value=below)


def glu(input: Any, dim: int = -1) -> Any:
    """The first half along a dimension times the sigmoid of the second half."""
    shape = input._array.shape
    if not shape:
        raise RuntimeError("glu does not support scalars because halving size must be even")
    d = wrap_dim(dim, len(shape))
    if shape[d] % 2:
        raise RuntimeError(f"Halving dimension must be even, but dimension {d} is size {shape[d]}")
    half = shape[d] // 2
    return gated(narrow(input, d, 0, half), narrow(input, d, half, half))


class ActivationMethods:
    """a.relu(), a.prelu(weight), ..."""

    __slots__ = ()

    relu, relu_ = relu, relu_
    prelu = prelu
    hardshrink = hardshrink
