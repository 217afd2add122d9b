"""Activations: one formula each, computed in one pass, differentiable any number of times.

The rules take care that what ``where`` does not choose is finite too: a zero times an infinity in an
unchosen branch would give NaN in the next derivative.
"""

from __future__ import annotations

import math
from typing import Any

from ...fastpath import elementwise
from ...ops import shape as shapes
from ...ops.arithmetic import where
from ...ops.inplace import elementwise_inplace
from ...ops.maths import abs as absolute
from ...ops.maths import erf, exp, expm1
from ...ops.maths import sigmoid as logistic
from ...ops.maths import tanh as hyperbolic
from ...tensor import Tensor

SELU_ALPHA = 1.6732632423543772848170429916717
SELU_SCALE = 1.0507009873554804934193349852946
_GELU_SCALE = math.sqrt(2 / math.pi)
_GELU_CUBIC = 0.044715


@elementwise(name="relu", input=lambda g, out: where(out <= 0, 0.0, g))
def _relu(input):
    """max(input, 0); the gradient at 0 is 0."""
    return where(input <= 0, 0, input)


@elementwise(
    name="leaky_relu", input=lambda g, input, negative_slope: where(input > 0, g, g * negative_slope)
)
def _leaky_relu(input, *, negative_slope):
    """input where it is positive, else negative_slope * input."""
    return where(input > 0, input, input * negative_slope)


@elementwise(name="threshold", input=lambda g, input, threshold: where(input <= threshold, 0.0, g))
def _threshold(input, *, threshold, value):
    """input where it is above the threshold, else value."""
    return where(input <= threshold, value, input)


@elementwise(
    name="hardtanh",
    input=lambda g, input, low, high: where((input <= low) | (input >= high), 0.0, g),
)
def _hardtanh(input, *, low, high):
    """input kept within [low, high]."""
    return where(input < low, low, where(input > high, high, input))


@elementwise(
    kind="float",
    name="elu",
    input=lambda g, input, alpha, scale, rate: where(
        input > 0, g * scale, g * (scale * alpha * rate * exp(where(input > 0, 0.0, input) * rate))
    ),
)
def _elu(input, *, alpha, scale, rate):
    """scale * (input where positive, else alpha * (exp(rate * input) - 1))."""
    return where(input > 0, input * scale, scale * alpha * expm1(where(input > 0, 0.0, input) * rate))


def _silu_slope(x: Any) -> Any:
    s = logistic(x)
    return s * (1 + x * (1 - s))


@elementwise(kind="float", name="silu", input=lambda g, input: g * _silu_slope(input))
def _silu(input):
    """input * sigmoid(input)."""
    return input * logistic(input)


@elementwise(kind="float", name="softplus", input=lambda g, input: g * logistic(input))
def _softplus1(input):
    """log(1 + exp(input))."""
    return input.emitter.call("softplus", (input,))


@elementwise(
    kind="float",
    name="softplus",
    input=lambda g, input, beta, threshold: where(input * beta > threshold, g, g * logistic(input * beta)),
)
def _softplus(input, *, beta, threshold):
    """log(1 + exp(beta * input)) / beta; input where beta * input is above the threshold."""
    return where(input * beta > threshold, input, _softplus1(input * beta) / beta)


@elementwise(kind="float", name="log_sigmoid", input=lambda g, input: g * logistic(-input))
def _log_sigmoid(input):
    """log(sigmoid(input))."""
    return -_softplus1(-input)


def _mish_slope(x: Any) -> Any:
    t = hyperbolic(_softplus1(x))
    return t + x * logistic(x) * (1 - t * t)


@elementwise(kind="float", name="mish", input=lambda g, input: g * _mish_slope(input))
def _mish(input):
    """input * tanh(softplus(input))."""
    return input * hyperbolic(_softplus1(input))


def _normal_below(x: Any) -> Any:
    return (erf(x * math.sqrt(0.5)) + 1) * 0.5


def _gelu_slope(x: Any) -> Any:
    return _normal_below(x) + x * (exp(x * x * -0.5) * (1 / math.sqrt(2 * math.pi)))


@elementwise(kind="float", name="gelu", input=lambda g, input: g * _gelu_slope(input))
def _gelu(input):
    """input times the standard normal distribution function of input."""
    return input * _normal_below(input)


def _gelu_inner(x: Any) -> Any:
    return (x + x * x * x * _GELU_CUBIC) * _GELU_SCALE


def _gelu_tanh_slope(x: Any) -> Any:
    t = hyperbolic(_gelu_inner(x))
    return (t + 1) * 0.5 + x * 0.5 * (1 - t * t) * ((x * x * (3 * _GELU_CUBIC) + 1) * _GELU_SCALE)


@elementwise(kind="float", name="gelu", input=lambda g, input: g * _gelu_tanh_slope(input))
def _gelu_tanh(input):
    """gelu by its approximation with tanh."""
    return input * 0.5 * (hyperbolic(_gelu_inner(input)) + 1)


def _ramp(x: Any) -> Any:
    """x kept within [-3, 3], shifted to [0, 1]."""
    return where(x < -3, 0.0, where(x > 3, 6.0, x + 3)) / 6


@elementwise(
    kind="float", name="hardsigmoid", input=lambda g, input: where((input > -3) & (input < 3), g * (1 / 6), 0.0)
)
def _hardsigmoid(input):
    """relu6(input + 3) / 6."""
    return _ramp(input)


@elementwise(
    kind="float",
    name="hardswish",
    input=lambda g, input: where(input <= -3, 0.0, where(input < 3, g * (input / 3 + 0.5), g)),
)
def _hardswish(input):
    """input * relu6(input + 3) / 6."""
    return input * _ramp(input)


@elementwise(name="hardshrink", input=lambda g, input, lambd: where((input >= -lambd) & (input <= lambd), 0.0, g))
def _hardshrink(input, *, lambd):
    """input where its absolute value is above lambd, else 0."""
    return where((input >= -lambd) & (input <= lambd), 0, input)


@elementwise(name="softshrink", input=lambda g, input, lambd: where((input >= -lambd) & (input <= lambd), 0.0, g))
def _softshrink(input, *, lambd):
    """input moved towards 0 by lambd, and 0 from there on."""
    return where(input > lambd, input - lambd, where(input < -lambd, input + lambd, input * 0))


def _softsign_slope(x: Any) -> Any:
    d = absolute(x) + 1
    return 1 / (d * d)


@elementwise(kind="float", name="softsign", input=lambda g, input: g * _softsign_slope(input))
def _softsign(input):
    """input / (1 + |input|)."""
    return input / (absolute(input) + 1)


def _tanh_square(x: Any) -> Any:
    t = hyperbolic(x)
    return t * t


@elementwise(kind="float", name="tanhshrink", input=lambda g, input: g * _tanh_square(input))
def _tanhshrink(input):
    """input - tanh(input)."""
    return input - hyperbolic(input)


@elementwise(
    name="prelu",
    node_name="PreluKernelBackward0",
    input=lambda g, input, weight: where(input > 0, g, g * weight),
    weight=lambda g, input: where(input > 0, 0.0, g * input),
)
def _prelu(input, weight):
    """input where it is positive, else weight * input."""
    return where(input > 0, input, input * weight)


def _glu_slope(a: Any, b: Any) -> Any:
    s = logistic(b)
    return a * (s * (1 - s))


@elementwise(
    kind="float", name="glu", a=lambda g, b: g * logistic(b), b=lambda g, a, b: g * _glu_slope(a, b)
)
def _gated(a, b):
    """a * sigmoid(b)."""
    return a * logistic(b)


_relu_inplace = elementwise_inplace(_relu)
_leaky_relu_inplace = elementwise_inplace(_leaky_relu)
_threshold_inplace = elementwise_inplace(_threshold)
_hardtanh_inplace = elementwise_inplace(_hardtanh)
_elu_inplace = elementwise_inplace(_elu)
_silu_inplace = elementwise_inplace(_silu)
_mish_inplace = elementwise_inplace(_mish)
_hardsigmoid_inplace = elementwise_inplace(_hardsigmoid)
_hardswish_inplace = elementwise_inplace(_hardswish)


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """max(input, 0), elementwise."""
    return _relu_inplace(input) if inplace else _relu(input)


def relu_(input: Tensor) -> Tensor:
    """relu in place."""
    return _relu_inplace(input)


def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """input where it is positive, else negative_slope * input."""
    run = _leaky_relu_inplace if inplace else _leaky_relu
    return run(input, negative_slope=negative_slope)


def leaky_relu_(input: Tensor, negative_slope: float = 0.01) -> Tensor:
    """leaky_relu in place."""
    return leaky_relu(input, negative_slope, True)


def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """input where it is above ``threshold``, else ``value``."""
    run = _threshold_inplace if inplace else _threshold
    return run(input, threshold=threshold, value=value)


def threshold_(input: Tensor, threshold: float, value: float) -> Tensor:
    """threshold in place."""
    return _threshold_inplace(input, threshold=threshold, value=value)


def hardtanh(input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor:
    """input kept within [min_val, max_val]."""
    if min_val > max_val:
        raise ValueError("min_val cannot be greater than max_val")
    run = _hardtanh_inplace if inplace else _hardtanh
    return run(input, low=min_val, high=max_val)


def hardtanh_(input: Tensor, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    """hardtanh in place."""
    return hardtanh(input, min_val, max_val, True)


def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """input kept within [0, 6]."""
    return hardtanh(input, 0.0, 6.0, inplace)


def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """input where it is positive, else alpha * (exp(input) - 1)."""
    run = _elu_inplace if inplace else _elu
    return run(input, alpha=alpha, scale=1.0, rate=1.0)


def elu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """elu in place."""
    return elu(input, alpha, True)


def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """elu with the scales that keep mean 0 and variance 1."""
    run = _elu_inplace if inplace else _elu
    return run(input, alpha=SELU_ALPHA, scale=SELU_SCALE, rate=1.0)


def selu_(input: Tensor) -> Tensor:
    """selu in place."""
    return selu(input, True)


def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """input where it is positive, else alpha * (exp(input / alpha) - 1)."""
    if alpha == 0:
        raise RuntimeError("celu: alpha must not be 0, it is divided by")
    run = _elu_inplace if inplace else _elu
    return run(input, alpha=alpha, scale=1.0, rate=1.0 / alpha)


def celu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """celu in place."""
    return celu(input, alpha, True)


def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """input * sigmoid(input)."""
    return _silu_inplace(input) if inplace else _silu(input)


def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """input * tanh(softplus(input))."""
    return _mish_inplace(input) if inplace else _mish(input)


def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """relu6(input + 3) / 6."""
    return _hardsigmoid_inplace(input) if inplace else _hardsigmoid(input)


def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """input * relu6(input + 3) / 6."""
    return _hardswish_inplace(input) if inplace else _hardswish(input)


def softplus(input: Tensor, beta: float = 1, threshold: float = 20) -> Tensor:
    """log(1 + exp(beta * input)) / beta; input itself where beta * input is above ``threshold``."""
    return _softplus(input, beta=beta, threshold=threshold)


def gelu(input: Tensor, approximate: str = "none") -> Tensor:
    """input times the normal distribution function of input; ``approximate`` is "none" or "tanh"."""
    if approximate not in ("none", "tanh"):
        raise RuntimeError(f"gelu: approximate argument must be either none or tanh, got {approximate!r}")
    return _gelu(input) if approximate == "none" else _gelu_tanh(input)


def logsigmoid(input: Tensor) -> Tensor:
    """log(sigmoid(input))."""
    return _log_sigmoid(input)


def hardshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """input where |input| > lambd, else 0."""
    return _hardshrink(input, lambd=lambd)


def softshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """input moved towards 0 by lambd, 0 where |input| <= lambd."""
    if lambd < 0:
        raise RuntimeError(f"lambda must be greater or equal to 0, but found to be {lambd}.")
    return _softshrink(input, lambd=lambd)


def softsign(input: Tensor) -> Tensor:
    """input / (1 + |input|)."""
    return _softsign(input)


def tanhshrink(input: Tensor) -> Tensor:
    """input - tanh(input)."""
    return _tanhshrink(input)


def tanh(input: Tensor) -> Tensor:
    """Hyperbolic tangent."""
    return hyperbolic(input)


def sigmoid(input: Tensor) -> Tensor:
    """1 / (1 + exp(-input))."""
    return logistic(input)


def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """input where it is positive, else weight * input; one weight, or one per channel (dimension 1)."""
    if weight.numel() != 1:
        if weight.dim() != 1:
            raise RuntimeError(f"prelu: weight must be a scalar or 1-d, got shape {list(weight.shape)}")
        channels = input.shape[1] if input.dim() > 1 else 1
        if input.dim() == 0 or weight.numel() != channels:
            raise RuntimeError(
                f"prelu: {weight.numel()} weights do not fit an input of shape {list(input.shape)}: give one weight, or "
                "one per channel"
            )
    if weight.dim() == 1 and input.dim() != 1:
        weight = weight.reshape((1, -1) + (1,) * (input.dim() - 2) if input.dim() > 1 else ())
    return _prelu(input, weight)


def rrelu(
    input: Tensor,
    lower: float = 1.0 / 8,
    upper: float = 1.0 / 3,
    training: bool = False,
    inplace: bool = False,
) -> Tensor:
    """leaky_relu with random slopes from [lower, upper] in training, else with their mean."""
    if lower > upper:
        raise RuntimeError(f"rrelu: lower bound {lower} should be less than or equal to the upper bound {upper}")
    if not training:
        return leaky_relu(input, (lower + upper) / 2, inplace)
    slopes = input.detach().new_empty(input.shape).uniform_(lower, upper)
    slopes = where(input.detach() > 0, 1.0, slopes)
    return input.mul_(slopes) if inplace else input * slopes


def rrelu_(input: Tensor, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False) -> Tensor:
    """rrelu in place."""
    return rrelu(input, lower, upper, training, True)


def glu(input: Tensor, dim: int = -1) -> Tensor:
    """The first half along ``dim`` times the sigmoid of the second half."""
    if input.dim() == 0:
        raise RuntimeError("glu does not support 0-dimensional tensors")
    if input.shape[dim] % 2:
        raise RuntimeError(f"Halving dimension must be even, but dimension {dim} is size {input.shape[dim]}")
    a, b = shapes.chunk(input, 2, dim)
    return _gated(a, b)
