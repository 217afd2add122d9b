"""Functions of two and three operands beyond plain arithmetic: lerp, addcmul, logaddexp, xlogy, ..."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import dtypes
from ..elementwise import broadcast_text
from ..fastpath import elementwise
from ..kernels import formula
from ..kernels.formula import select
from ..op import kernel_op
from ..tape import Value
from .arithmetic import mul, pow, where
from .convert import to_dtype
from .inplace import elementwise_inplace, kernel_inplace
from .maths import log, log1p, sigmoid
from .out import into

__all__ = [
    "addcdiv",
    "addcmul",
    "deg2rad",
    "float_power",
    "gcd",
    "lcm",
    "ldexp",
    "lerp",
    "logaddexp",
    "logaddexp2",
    "positive",
    "rad2deg",
    "xlogy",
]  # fmt: skip

_exp, _exp2, _log1p = (formula.function(n) for n in ("exp", "exp2", "log1p"))
_log, _maximum = formula.function("log"), formula.function("maximum")


def _refuse_integers(name: str, *values: Any) -> None:
    for x in values:
        if isinstance(x, Value) and x._array.dtype.kind != "f":
            raise NotImplementedError(
                f"\"{name}_cpu\" not implemented for '{dtypes.of(x._array).short}'; use .float() first"
            )


# -- blends --------------------------------------------------------------------------------------------


@elementwise(
    input=lambda g, weight: g * (1 - weight),
    end=lambda g, weight: g * weight,
    weight=lambda g, input, end: g * (end - input),
    name="lerp",
)
def mixed(input: Any, end: Any, weight: Any) -> Any:
    """input + weight * (end - input), exact at both ends."""
    way = end - input
    return select(abs(weight) < 0.5, input + weight * way, end - way * (1 - weight))


def _check_lerp(input: Any, end: Any, weight: Any) -> None:
    for name, x in (("end", end), ("weight", weight)):
        if name == "end" and not isinstance(x, Value):
            raise TypeError(f"lerp(): argument 'end' (position 2) must be Tensor, not {type(x).__name__}")
        if isinstance(x, Value) and x._array.dtype != input._array.dtype:
            raise RuntimeError(
                f"expected dtype {input._array.dtype} for `{name}` but got dtype {x._array.dtype}; "
                "lerp does not convert"
            )
    _refuse_integers("lerp_kernel", input)


def lerp(input: Any, end: Any, weight: Any, *, out: Any = None) -> Any:
    """input + weight * (end - input) with a number or a tensor as weight; all of one dtype."""
    _check_lerp(input, end, weight)
    return mixed(input, end, weight, out=out)


@elementwise(
    input=lambda g: g,
    tensor1=lambda g, tensor2, value: g * (tensor2 * value),
    tensor2=lambda g, tensor1, value: g * (tensor1 * value),
    name="addcmul",
)
def plus_product(input: Any, tensor1: Any, tensor2: Any, *, value: Any) -> Any:
    """input + value * tensor1 * tensor2."""
    return input + tensor1 * tensor2 * value


@elementwise(
    input=lambda g: g,
    tensor1=lambda g, tensor2, value: g * (value / tensor2),
    tensor2=lambda g, tensor1, tensor2, value: -g * (tensor1 * value / (tensor2 * tensor2)),
    name="addcdiv",
)
def plus_quotient(input: Any, tensor1: Any, tensor2: Any, *, value: Any) -> Any:
    """input + value * tensor1 / tensor2."""
    return input + tensor1 * value / tensor2


def _scale(value: Any, *tensors: Any) -> Any:
    """A factor that does not change the type: for integers it is cut to a whole number, as in PyTorch."""
    if all(isinstance(x, Value) and x._array.dtype.char == "?" for x in tensors):
        raise NotImplementedError("\"addcmul_cpu_out\" not implemented for 'Bool'; convert with .int() first")
    floating = any(isinstance(x, Value) and x._array.dtype.kind == "f" for x in tensors)
    return value if floating else int(value)


def addcmul(input: Any, tensor1: Any, tensor2: Any, *, value: Any = 1, out: Any = None) -> Any:
    """input + value * tensor1 * tensor2, with broadcasting."""
    return plus_product(input, tensor1, tensor2, value=_scale(value, input, tensor1, tensor2), out=out)


def _check_addcdiv(tensor1: Any, tensor2: Any) -> None:
    if all(isinstance(x, Value) and x._array.dtype.kind != "f" for x in (tensor1, tensor2)):
        raise RuntimeError(
            "Integer division with addcdiv is no longer supported: use input + value * trunc(tensor1 / "
            "tensor2) to divide whole numbers, or convert with .float()"
        )


def addcdiv(input: Any, tensor1: Any, tensor2: Any, *, value: Any = 1, out: Any = None) -> Any:
    """input + value * tensor1 / tensor2, with broadcasting; needs a floating operand."""
    _check_addcdiv(tensor1, tensor2)
    return plus_quotient(input, tensor1, tensor2, value=value, out=out)


# -- logarithms ----------------------------------------------------------------------------------------


@elementwise(
    kind="float",
    input=lambda g, input, other: g * sigmoid(input - other),
    other=lambda g, input, other: g * sigmoid(other - input),
    name="logaddexp",
)
def log_of_sum(input: Any, other: Any) -> Any:
    """log(exp(input) + exp(other)) without overflow."""
    top, low = _maximum(input, other), select(input < other, input, other)
    infinite = (input == other) & (abs(input) == math.inf)
    return select(infinite, input, top + _log1p(_exp(low - top)))


@elementwise(
    kind="float",
    input=lambda g, input, other: g * sigmoid((input - other) * math.log(2.0)),
    other=lambda g, input, other: g * sigmoid((other - input) * math.log(2.0)),
    name="logaddexp2",
)
def log2_of_sum(input: Any, other: Any) -> Any:
    """log2(2**input + 2**other) without overflow."""
    top, low = _maximum(input, other), select(input < other, input, other)
    infinite = (input == other) & (abs(input) == math.inf)
    return select(infinite, input, top + _log1p(_exp2(low - top)) * (1 / math.log(2.0)))


def logaddexp(input: Any, other: Any, *, out: Any = None) -> Any:
    """log(exp(input) + exp(other)) without overflow."""
    _refuse_integers("logaddexp", input, other)
    return log_of_sum(input, other, out=out)


def logaddexp2(input: Any, other: Any, *, out: Any = None) -> Any:
    """log2(2**input + 2**other) without overflow."""
    _refuse_integers("logaddexp2", input, other)
    return log2_of_sum(input, other, out=out)


@elementwise(
    kind="float",
    input=lambda g, input, other: g * where((input == 0) & (other <= 0), 0.0, log(other)),
    other=lambda g, input, other: g * (input / other),
)
def xlogy(input: Any, other: Any) -> Any:
    """input * log(other), and 0 where input is 0."""
    return select(other != other, other, select(input == 0, input * 0, input * _log(other)))


@elementwise(
    kind="float",
    input=lambda g, input, other: g * where((input == 0) & (other <= -1), 0.0, log1p(other)),
    other=lambda g, input, other: g * (input / (other + 1)),
    node_name="SpecialXlog1PyBackward0",
)
def xlog1py(input: Any, other: Any) -> Any:
    """input * log(1 + other), and 0 where input is 0."""
    return select(other != other, other, select(input == 0, input * 0, input * _log1p(other)))


# -- powers and angles ---------------------------------------------------------------------------------


def float_power(input: Any, exponent: Any, *, out: Any = None) -> Any:
    """input to the power exponent, computed in float64."""
    if not isinstance(input, Value) and not isinstance(exponent, Value):
        raise TypeError("float_power(): one of input and exponent must be a tensor")
    a = to_dtype(input, dtypes.float64) if isinstance(input, Value) else float(input)
    b = to_dtype(exponent, dtypes.float64) if isinstance(exponent, Value) else float(exponent)
    return pow(a, b, out=out)


def ldexp(input: Any, other: Any, *, out: Any = None) -> Any:
    """input * 2**other."""
    return mul(input, pow(2.0, other), out=out)


def positive(input: Any) -> Any:
    """The tensor itself; RuntimeError for bools."""
    if input._array.dtype.char == "?":
        raise RuntimeError("The `+` operator, on a bool tensor is not supported.")
    return input


@elementwise(kind="float", input=lambda g: g * (math.pi / 180), node_name="Deg2RadBackward0")
def deg2rad(input: Any) -> Any:
    """Degrees as radians."""
    return input * (math.pi / 180)


@elementwise(kind="float", input=lambda g: g * (180 / math.pi), node_name="Rad2DegBackward0")
def rad2deg(input: Any) -> Any:
    """Radians as degrees."""
    return input * (180 / math.pi)


# -- divisors ------------------------------------------------------------------------------------------


@kernel_op(name="gcd")
def common_divisor(input: Any, other: Any) -> Any:
    """The greatest common divisor."""
    return np.asarray(np.gcd(input, other))


@kernel_op(name="lcm")
def common_multiple(input: Any, other: Any) -> Any:
    """The least common multiple."""
    return np.asarray(np.lcm(input, other))


def _whole(op: Any, input: Any, other: Any, out: Any, name: str) -> Any:
    for x in (input, other):
        if not isinstance(x, Value):
            raise TypeError(f"{name}(): argument must be Tensor, not {type(x).__name__}")
        if x._array.dtype.kind not in "iu":
            raise NotImplementedError(f"\"{name}_cpu\" not implemented for '{dtypes.of(x._array).short}'")
    to = dtypes.result_type([input, other])
    try:
        np.broadcast_shapes(input._array.shape, other._array.shape)
    except ValueError:
        raise RuntimeError(broadcast_text(name, [input._array.shape, other._array.shape])) from None
    return into(op(to_dtype(input, to), to_dtype(other, to)), out, name)


def gcd(input: Any, other: Any, *, out: Any = None) -> Any:
    """The greatest common divisor of integers, elementwise."""
    return _whole(common_divisor, input, other, out, "gcd")


def lcm(input: Any, other: Any, *, out: Any = None) -> Any:
    """The least common multiple of integers, elementwise."""
    return _whole(common_multiple, input, other, out, "lcm")


_lerp, _addcmul, _addcdiv = (elementwise_inplace(f) for f in (mixed, plus_product, plus_quotient))


class BlendMethods:
    """a.lerp(b, 0.5), a.addcmul_(b, c), ..."""

    __slots__ = ()

    lerp, addcmul, addcdiv = lerp, addcmul, addcdiv
    logaddexp, logaddexp2, xlogy, float_power, ldexp, positive = (
        logaddexp,
        logaddexp2,
        xlogy,
        float_power,
        ldexp,
        positive,
    )
    gcd, lcm, deg2rad, rad2deg = gcd, lcm, deg2rad, rad2deg
    __pos__ = positive
    xlogy_ = elementwise_inplace(xlogy)
    deg2rad_, rad2deg_ = elementwise_inplace(deg2rad), elementwise_inplace(rad2deg)

    def lerp_(self, end: Any, weight: Any) -> Any:
        """In place: self + weight * (end - self)."""
        _check_lerp(self, end, weight)
        return _lerp(self, end, weight)

    def addcmul_(self, tensor1: Any, tensor2: Any, *, value: Any = 1) -> Any:
        """In place: self + value * tensor1 * tensor2."""
        return _addcmul(self, tensor1, tensor2, value=_scale(value, self, tensor1, tensor2))

    def float_power_(self, exponent: Any) -> Any:
        """In place: self to the power exponent; self must be float64."""
        if self._array.dtype.char != "d":  # type: ignore[attr-defined]
            raise RuntimeError(
                "float_power_: the base given to float_power_ has to be float64, since the result is"
            )
        return self.pow_(exponent)  # type: ignore[attr-defined]

    def ldexp_(self, other: Any) -> Any:
        """In place: self * 2**other."""
        return self.mul_(pow(2.0, other))  # type: ignore[attr-defined]

    def gcd_(self, other: Any) -> Any:
        """In place: the greatest common divisor."""
        return kernel_inplace(common_divisor, self, other)

    def lcm_(self, other: Any) -> Any:
        """In place: the least common multiple."""
        return kernel_inplace(common_multiple, self, other)

    def addcdiv_(self, tensor1: Any, tensor2: Any, *, value: Any = 1) -> Any:
        """In place: self + value * tensor1 / tensor2."""
        _check_addcdiv(tensor1, tensor2)
        return _addcdiv(self, tensor1, tensor2, value=value)
