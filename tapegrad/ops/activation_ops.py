"""The formulas of activations, one each: computed in one pass and differentiable any number of times.

Where the untaken branch of a piecewise formula may overflow (exp of a large number), its argument is
clamped: a cotangent of zero times infinity would be NaN in the second derivative. An op's one number (a
slope, a threshold) is its second operand, since calls with a tensor and a number take the short way;
several are parameters.
"""

from __future__ import annotations

import math
from typing import Any

from ..fastpath import elementwise
from ..kernels.formula import Scalar, function, select
from ..modes import modes
from .arithmetic import clamp_both, where, zeros_for
from .maths import exp, expm1, sigmoid, tanh

_SELU_ALPHA = 1.6732632423543772848170429916717
_SELU_SCALE = 1.0507009873554804934193349852946
_softplus = function("softplus")


@elementwise(grad=lambda g: g, by=zeros_for)
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


def rectified(x: Any) -> Any:
    """relu(x), for a result that nobody else holds and whose array went through it while it was written."""
    made = x._make(x._array)
    if modes.grad and x._source() is not None:
        relu.op.attach(made, [x], {})
    return made


def _inside_slope(g: Any, input: Any, low: Any, high: Any) -> Any:
    return linked(where((input <= low) | (input >= high), 0.0, g), input)


@elementwise(name="hardtanh", input=_inside_slope)
def clamp_inside(input: Any, *, low: Any, high: Any) -> Any:
    """input within [low, high]; unlike clamp, the gradient at the edges is 0."""
    _refuse_bool("hardtanh", input)
    return clamp_both(input, low, high)


@elementwise(
    kind="floating",
    name="hardtanh_symmetric",
    node_name="HardtanhBackward0",
    input=lambda g, input, bound: _inside_slope(g, input, -bound, bound),
    bound=lambda g, input, bound: where(input >= bound, g, where(input <= -bound, -g, 0.0)),
)
def clamp_inside_symmetric(input: Any, bound: Any) -> Any:
    """input within [-bound, bound]."""
    return clamp_both(input, -bound, bound)


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


_gelu, _gelu_slope = function("gelu"), function("gelu_slope")


@elementwise(
    kind="floating",
    input=lambda g, input: (
        g * ((2 - input * input) * (exp(input * input * -0.5) * (1 / math.sqrt(2 * math.pi))))
    ),
)
def gelu_slope(input: Any) -> Any:
    """The derivative of gelu."""
    return _gelu_slope(input)


@elementwise(kind="floating", name="gelu", input=lambda g, input: g * gelu_slope(input))
def gelu_erf(input: Any) -> Any:
    """input * P(N(0, 1) <= input)."""
    return _gelu(input)


def _gelu_tanh_slope(x: Any) -> Any:
    """The derivative of gelu_tanh."""
    t = tanh(_gelu_inner(x))
    return (t + 1) * 0.5 + x * ((1 - t * t) * (x * x * (3 * 0.044715) + 1)) * math.sqrt(0.5 / math.pi)


def _gelu_inner(x: Any) -> Any:
    return x * (x * x * 0.044715 + 1) * math.sqrt(2 / math.pi)


@elementwise(
    kind="floating",
    name="gelu_tanh",
    node_name="GeluBackward0",
    input=lambda g, input: g * _gelu_tanh_slope(input),
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
    threshold=zeros_for,
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
    lambd=zeros_for,
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
