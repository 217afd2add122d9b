"""Activations: one formula each, computed in one pass and differentiable any number of times.

Where the untaken branch of a piecewise formula may overflow (exp of a large number), its argument is
clamped: a cotangent of zero times infinity would be NaN in the second derivative. An op's one number (a
slope, a threshold) is its second operand, since calls with a tensor and a number take the short way;
several are parameters.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..fastpath import elementwise
from ..kernels.formula import Scalar, function, select
from ..tape import Value
from .arithmetic import clamp_both, where
from .dims import wrap_dim
from .maths import erfc, exp, expm1, sigmoid, tanh
from .shape import narrow, reshape, write_view

__all__ = [
    "celu", "celu_", "hardshrink", "prelu", "relu", "relu_", "rrelu", "rrelu_", "selu", "selu_", "sigmoid_",
    "tanh_", "threshold", "threshold_",
]  # fmt: skip

_SELU_ALPHA = 1.6732632423543772848170429916717
_SELU_SCALE = 1.0507009873554804934193349852946
_softplus = function("softplus")

# -- formulas ------------------------------------------------------------------------------------------


@elementwise(grad=lambda g: g, by=lambda g: g * 0)
def linked(grad: Any, by: Any) -> Any:
    """grad, on record as a function of ``by`` whose derivative is 0.

    The slope of a piecewise linear function is constant. Without the link its second derivative would be
    an error ("does not require grad") instead of 0.
    """
    return grad


def _refuse_bool(name: str, x: Any) -> None:
    if type(x) is Scalar and x.char == "?":
        raise RuntimeError(f"{name}: Boolean inputs are not supported; convert first")


@elementwise(input=lambda g, out: linked(where(out <= 0, 0.0, g), out))
def relu(input: Any) -> Any:
    """input where it is positive, else 0; the gradient at 0 is 0."""
    _refuse_bool("relu", input)
    return select(input < 0, 0, input)


def _inside_slope(g: Any, input: Any, low: Any, high: Any) -> Any:
    return linked(where((input <= low) | (input >= high), 0.0, g), input)


@elementwise(name="hardtanh", input=_inside_slope)
def clamp_inside(input: Any, *, low: Any, high: Any) -> Any:
    """input within [low, high]; unlike clamp, the gradient at the edges is 0."""
    _refuse_bool("hardtanh", input)
    return clamp_both(input, low, high)


@elementwise(
    name="relu6", node_name="HardtanhBackward0", input=lambda g, input: _inside_slope(g, input, 0, 6)
)
def clamp_inside_6(input: Any) -> Any:
    """input within [0, 6]."""
    return clamp_both(input, 0, 6)


@elementwise(
    kind="floating",
    name="leaky_relu",
    input=lambda g, input, slope: linked(where(input > 0, g, g * slope), input),
    slope=lambda g, input: where(input > 0, 0.0, g * input),
)
def leaky(input: Any, slope: Any) -> Any:
    """input where it is positive, else slope * input."""
    return select(input > 0, input, input * slope)


@elementwise(
    kind="floating",
    name="rrelu",
    node_name="RreluWithNoiseBackward0",
    input=lambda g, input, slopes: linked(where(input > 0, g, g * slopes), input),
    slopes=lambda g, input: where(input > 0, 0.0, g * input),
)
def leaky_drawn(input: Any, slopes: Any) -> Any:
    """input where it is positive, else input times the slope that was drawn."""
    return select(input > 0, input, input * slopes)


@elementwise(
    kind="floating",
    name="prelu",
    node_name="PreluKernelBackward0",
    input=lambda g, input, weight: where(input > 0, g, g * weight),
    weight=lambda g, input: where(input > 0, 0.0, g * input),
)
def leaky_learned(input: Any, weight: Any) -> Any:
    """input where it is positive, else weight * input."""
    return select(input > 0, input, weight * input)


def _elu(x: Any, alpha: Any, scale: Any, rate: Any) -> Any:
    return select(x > 0, x * scale, expm1(x * rate) * (alpha * scale))


def _elu_slope(g: Any, x: Any, alpha: Any, scale: Any, rate: Any) -> Any:
    return where(x > 0, g * scale, g * (exp(where(x >= 0, 0.0, x * rate)) * (alpha * scale * rate)))


@elementwise(
    kind="floating",
    name="elu",
    input=lambda g, input, alpha: _elu_slope(g, input, alpha, 1.0, 1.0),
    alpha=lambda g, input: g * expm1(where(input > 0, 0.0, input)),
)
def exponential_linear(input: Any, alpha: Any) -> Any:
    """input where it is positive, else alpha * (exp(input) - 1)."""
    return _elu(input, alpha, 1.0, 1.0)


@elementwise(
    kind="floating",
    name="selu",
    node_name="EluBackward0",
    input=lambda g, input: _elu_slope(g, input, _SELU_ALPHA, _SELU_SCALE, 1.0),
)
def exponential_linear_scaled(input: Any) -> Any:
    """exponential_linear with the alpha and the scale of selu."""
    return _elu(input, _SELU_ALPHA, _SELU_SCALE, 1.0)


@elementwise(
    kind="floating", name="celu", input=lambda g, input, alpha, rate: _elu_slope(g, input, alpha, 1.0, rate)
)
def exponential_linear_smooth(input: Any, *, alpha: Any, rate: Any) -> Any:
    """input where it is positive, else alpha * (exp(rate * input) - 1)."""
    return _elu(input, alpha, 1.0, rate)


@elementwise(
    kind="floating",
    name="gelu",
    input=lambda g, input: (
        g
        * (erfc(input * -math.sqrt(0.5)) * 0.5 + input * (exp(input * input * -0.5) / math.sqrt(2 * math.pi)))
    ),
)
def gelu_erf(input: Any) -> Any:
    """input * P(N(0, 1) <= input)."""
    return input * (erfc(input * -math.sqrt(0.5)) * 0.5)


def _gelu_slope(x: Any) -> Any:
    """The derivative of gelu_tanh."""
    t = tanh(_gelu_inner(x))
    return (t + 1) * 0.5 + x * ((1 - t * t) * (x * x * (3 * 0.044715) + 1)) * math.sqrt(0.5 / math.pi)


def _gelu_inner(x: Any) -> Any:
    return x * (x * x * 0.044715 + 1) * math.sqrt(2 / math.pi)


@elementwise(
    kind="floating",
    name="gelu_tanh",
    node_name="GeluBackward0",
    input=lambda g, input: g * _gelu_slope(input),
)
def gelu_tanh(input: Any) -> Any:
    """The tanh approximation of gelu."""
    return input * ((tanh(_gelu_inner(input)) + 1) * 0.5)


def _silu_slope(x: Any) -> Any:
    s = sigmoid(x)
    return s * (x * (1 - s) + 1)


@elementwise(kind="floating", name="silu", input=lambda g, input: g * _silu_slope(input))
def sigmoid_linear(input: Any) -> Any:
    """input * sigmoid(input)."""
    return input * sigmoid(input)


@elementwise(kind="floating", node_name="SoftplusBackward0", input=lambda g, input: g * sigmoid(input))
def log1p_exp(input: Any) -> Any:
    """log(1 + exp(input)) without overflow."""
    return _softplus(input)


def _softplus_slope(g: Any, input: Any, beta: Any, threshold: Any) -> Any:
    return where(input * beta > threshold, g, g * sigmoid(input * beta))


@elementwise(
    kind="floating",
    name="softplus",
    input=lambda g, input, threshold: _softplus_slope(g, input, 1.0, threshold),
    threshold=lambda g: g * 0,
)
def bent_softplus(input: Any, threshold: Any) -> Any:
    """log(1 + exp(input)), and input itself above the threshold."""
    return select(input > threshold, input, _softplus(input))


@elementwise(
    kind="floating",
    name="softplus_scaled",
    node_name="SoftplusBackward0",
    input=_softplus_slope,
)
def scaled_softplus(input: Any, *, beta: Any, threshold: Any) -> Any:
    """log(1 + exp(beta * input)) / beta, and input itself above the threshold."""
    return select(input * beta > threshold, input, _softplus(input * beta) / beta)


@elementwise(kind="floating", name="log_sigmoid", input=lambda g, input: g * sigmoid(-input))
def logsigmoid(input: Any) -> Any:
    """log(sigmoid(input)) without underflow."""
    return -_softplus(-input)


def _mish_slope(x: Any) -> Any:
    t = tanh(log1p_exp(x))
    return t + x * (sigmoid(x) * (1 - t * t))


@elementwise(kind="floating", name="mish", input=lambda g, input: g * _mish_slope(input))
def softplus_tanh_linear(input: Any) -> Any:
    """input * tanh(softplus(input))."""
    return input * tanh(log1p_exp(input))


def _square(x: Any) -> Any:
    return x * x


@elementwise(kind="float", input=lambda g, input: g / _square(abs(input) + 1))
def softsign(input: Any) -> Any:
    """input / (1 + |input|)."""
    return input / (abs(input) + 1)


@elementwise(kind="float", input=lambda g, input: g * _square(tanh(input)))
def tanhshrink(input: Any) -> Any:
    """input - tanh(input)."""
    return input - tanh(input)


@elementwise(
    kind="floating",
    name="hardsigmoid",
    input=lambda g, input: linked(where((input > -3) & (input < 3), g / 6, 0.0), input),
)
def clamped_line(input: Any) -> Any:
    """input / 6 + 1 / 2 within [0, 1]."""
    return clamp_both(input + 3, 0, 6) / 6


@elementwise(
    kind="floating",
    name="hardswish",
    input=lambda g, input: where(input <= -3, 0.0, where(input < 3, g * (input / 3 + 0.5), g)),
)
def clamped_linear(input: Any) -> Any:
    """input * hardsigmoid(input)."""
    return input * clamp_both(input + 3, 0, 6) / 6


@elementwise(
    kind="floating",
    name="hardshrink",
    input=lambda g, input, lambd: linked(where((input >= -lambd) & (input <= lambd), 0.0, g), input),
    lambd=lambda g: g * 0,
)
def shrink_hard(input: Any, lambd: Any) -> Any:
    """0 within [-lambd, lambd], else input."""
    return select((input >= -lambd) & (input <= lambd), 0, input)


@elementwise(
    kind="floating",
    name="softshrink",
    input=lambda g, input, lambd: linked(where((input >= -lambd) & (input <= lambd), 0.0, g), input),
    lambd=lambda g, input, lambd: where(input > lambd, -g, where(input < -lambd, g, 0.0)),
)
def shrink_soft(input: Any, lambd: Any) -> Any:
    """input moved towards 0 by lambd, and 0 within [-lambd, lambd]."""
    return select(input > lambd, input - lambd, select(input < -lambd, input + lambd, input * 0))


@elementwise(
    name="threshold", input=lambda g, input, threshold: linked(where(input <= threshold, 0.0, g), input)
)
def replace_below(input: Any, *, threshold: Any, value: Any) -> Any:
    """value where input is at most the threshold, else input."""
    return select(input <= threshold, value, input)


@elementwise(
    kind="floating",
    name="glu",
    a=lambda g, gate: g * sigmoid(gate),
    gate=lambda g, a, gate: g * (a * (sigmoid(gate) * (1 - sigmoid(gate)))),
)
def gated(a: Any, gate: Any) -> Any:
    """a * sigmoid(gate)."""
    return a * sigmoid(gate)


# -- PyTorch's faces -------------------------------------------------------------------------------------


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
