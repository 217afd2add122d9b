"""Functions of one number: exponentials, logarithms, trigonometry, rounding, and their kin."""

from __future__ import annotations

import math
from typing import Any

from ..derive import Expr
from ..fastpath import elementwise
from ..kernels import formula
from ..kernels.formula import Scalar, select
from .arithmetic import square, zeros_for

__all__ = [
    "abs",
    "absolute",
    "acos",
    "acosh",
    "arccos",
    "arccosh",
    "arcsin",
    "arcsinh",
    "arctan",
    "arctanh",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "ceil",
    "cos",
    "cosh",
    "digamma",
    "erf",
    "erfc",
    "erfinv",
    "exp",
    "exp2",
    "expm1",
    "fix",
    "floor",
    "frac",
    "isfinite",
    "isinf",
    "isnan",
    "lgamma",
    "log",
    "log1p",
    "log2",
    "log10",
    "reciprocal",
    "rsqrt",
    "sigmoid",
    "sign",
    "sin",
    "sinh",
    "sqrt",
    "tan",
    "tanh",
    "trunc",
]  # fmt: skip

_f = formula.function


def _call(name: str, x: Any) -> Any:
    """A device function on a floating Scalar."""
    return x.emitter.call(name, (x,))


@elementwise(kind="float", input=lambda g, out: g * out)
def exp(input: Any) -> Any:
    """e to the power input."""
    return _call("exp", input)


@elementwise(kind="float", input=lambda g, out: g * (out * math.log(2.0)))
def exp2(input: Any) -> Any:
    """2 to the power input."""
    return _call("exp2", input)


@elementwise(kind="float", input=lambda g, out: g * (out + 1))
def expm1(input: Any) -> Any:
    """exp(input) - 1, accurate near 0."""
    return _call("expm1", input)


@elementwise(kind="float", input=lambda g, input: g / input)
def log(input: Any) -> Any:
    """Natural logarithm."""
    return _call("log", input)


@elementwise(kind="float", input=lambda g, input: g / (input * math.log(2.0)))
def log2(input: Any) -> Any:
    """Logarithm to base 2."""
    return _call("log2", input)


@elementwise(kind="float", input=lambda g, input: g / (input * math.log(10.0)))
def log10(input: Any) -> Any:
    """Logarithm to base 10."""
    return _call("log10", input)


@elementwise(kind="float", input=lambda g, input: g / (input + 1))
def log1p(input: Any) -> Any:
    """log(1 + input), accurate near 0."""
    return _call("log1p", input)


@elementwise(kind="float", input=lambda g, out: g / (out * 2))
def sqrt(input: Any) -> Any:
    """Square root; the gradient at 0 is infinite."""
    return _call("sqrt", input)


@elementwise(kind="float", input=lambda g, out: g * (out * out * out * -0.5))
def rsqrt(input: Any) -> Any:
    """1 / sqrt(input)."""
    return _call("rsqrt", input)


@elementwise(kind="float", input=lambda g, out: -g * (out * out))
def reciprocal(input: Any) -> Any:
    """1 / input."""
    return 1 / input


@elementwise(kind="float", input=lambda g, input: g * cos(input))
def sin(input: Any) -> Any:
    """Sine of an angle in radians."""
    return _call("sin", input)


@elementwise(kind="float", input=lambda g, input: -g * sin(input))
def cos(input: Any) -> Any:
    """Cosine of an angle in radians."""
    return _call("cos", input)


@elementwise(kind="float", input=lambda g, out: g * (out * out + 1))
def tan(input: Any) -> Any:
    """Tangent of an angle in radians."""
    return _call("tan", input)


@elementwise(kind="float", input=lambda g, input: g * rsqrt(1 - input * input))
def asin(input: Any) -> Any:
    """Inverse sine, in radians."""
    return _call("asin", input)


@elementwise(kind="float", input=lambda g, input: -g * rsqrt(1 - input * input))
def acos(input: Any) -> Any:
    """Inverse cosine, in radians."""
    return _call("acos", input)


@elementwise(kind="float", input=lambda g, input: g / (input * input + 1))
def atan(input: Any) -> Any:
    """Inverse tangent, in radians."""
    return _call("atan", input)


@elementwise(kind="float", input=lambda g, input: g * cosh(input))
def sinh(input: Any) -> Any:
    """Hyperbolic sine."""
    return _call("sinh", input)


@elementwise(kind="float", input=lambda g, input: g * sinh(input))
def cosh(input: Any) -> Any:
    """Hyperbolic cosine."""
    return _call("cosh", input)


@elementwise(kind="float", input=lambda g, out: g * (1 - out * out))
def tanh(input: Any) -> Any:
    """Hyperbolic tangent."""
    return _call("tanh", input)


@elementwise(kind="float", input=lambda g, input: g * rsqrt(input * input + 1))
def asinh(input: Any) -> Any:
    """Inverse hyperbolic sine."""
    return _call("asinh", input)


@elementwise(kind="float", input=lambda g, input: g * rsqrt(input * input - 1))
def acosh(input: Any) -> Any:
    """Inverse hyperbolic cosine."""
    return _call("acosh", input)


@elementwise(kind="float", input=lambda g, input: g / (1 - input * input))
def atanh(input: Any) -> Any:
    """Inverse hyperbolic tangent."""
    return _call("atanh", input)


@elementwise(kind="float", input=lambda g, out: g * ((1 - out) * out))
def sigmoid(input: Any) -> Any:
    """1 / (1 + exp(-input))."""
    return _call("sigmoid", input)


@elementwise(kind="float", input=lambda g, input: g * (exp(-(input * input)) * (2 / math.sqrt(math.pi))))
def erf(input: Any) -> Any:
    """The error function."""
    return _call("erf", input)


@elementwise(kind="float", input=lambda g, input: g * (exp(-(input * input)) * (-2 / math.sqrt(math.pi))))
def erfc(input: Any) -> Any:
    """1 - erf(input), accurate for large input."""
    return _call("erfc", input)


@elementwise(kind="float", input=lambda g, input: g * (exp(square(erfinv(input))) * (math.sqrt(math.pi) / 2)))
def erfinv(input: Any) -> Any:
    """The inverse of erf."""
    return _call("erfinv", input)


@elementwise(kind="float", input=lambda g, input: g * digamma(input))
def lgamma(input: Any) -> Any:
    """Logarithm of the absolute value of the gamma function."""
    return _call("lgamma", input)


@elementwise(kind="float", input=lambda g, input: g * polygamma_of(input, n=1))
def digamma(input: Any) -> Any:
    """Logarithmic derivative of the gamma function."""
    return _call("digamma", input)


@elementwise(
    kind="float",
    input=lambda g, input, n: g * polygamma_of(input, n=n + 1),
    name="polygamma",
    node_name="PolygammaBackward0",
)
def polygamma_of(input: Any, *, n: Any) -> Any:
    """The n-th derivative of digamma."""
    return input.emitter.call("polygamma", (n, input))


@elementwise(input=lambda g, input: g * sign(input))
def abs(input: Any) -> Any:
    """Absolute value; the gradient at 0 is 0."""
    return input.__abs__()


@elementwise(input=zeros_for)
def sign(input: Any) -> Any:
    """-1, 0 or 1; NaN gives 0."""
    if type(input) is Scalar and input.char == "?":
        return input
    return select(input > 0, 1, 0) - select(input < 0, 1, 0) if not _floating(input) else _float_sign(input)


def _floating(x: Any) -> bool:
    return type(x) is Scalar and x.char in "fd"


def _float_sign(x: Scalar) -> Scalar:
    out = x.emitter
    char = x.char
    name = formula.TYPE_NAMES[char]
    return out.assign(f"{name}({x.text} > 0) - {name}({x.text} < 0)", char)


def _rounding(name: str) -> Any:
    def apply(x: Any) -> Any:
        return _call(name, x) if _floating(x) else x

    return apply


_floor, _ceil, _trunc, _round = (_rounding(n) for n in ("floor", "ceil", "trunc", "round"))


@elementwise(input=zeros_for)
def floor(input: Any) -> Any:
    """The largest whole number not above input."""
    return _floor(input)


@elementwise(input=zeros_for)
def ceil(input: Any) -> Any:
    """The smallest whole number not below input."""
    return _ceil(input)


@elementwise(input=zeros_for)
def trunc(input: Any) -> Any:
    """input without its fraction."""
    return _trunc(input)


@elementwise(input=zeros_for, name="round")
def round_even(input: Any) -> Any:
    """The nearest whole number; halves go to the even one."""
    return _round(input)


@elementwise(input=lambda g: g)
def frac(input: Any) -> Any:
    """input - trunc(input)."""
    return input - _trunc(input)


@elementwise(kind="compare")
def isnan(input: Any) -> Any:
    """Whether input is NaN."""
    return input != input


@elementwise(kind="compare")
def isinf(input: Any) -> Any:
    """Whether input is plus or minus infinity."""
    return abs(input) == math.inf if _floating(input) else input != input


@elementwise(kind="compare")
def isfinite(input: Any) -> Any:
    """Whether input is neither infinite nor NaN."""
    return abs(input) < math.inf if _floating(input) else input == input


arcsin, arccos, arctan, arcsinh, arccosh, arctanh = asin, acos, atan, asinh, acosh, atanh
absolute, fix = abs, trunc

for _name, _fn in {
    "exp": exp, "exp2": exp2, "expm1": expm1, "log": log, "log2": log2, "log10": log10, "log1p": log1p, "sqrt": sqrt,
    "sin": sin, "cos": cos, "tan": tan, "sinh": sinh, "cosh": cosh, "tanh": tanh, "abs": abs, "sign": sign,
    "floor": floor, "ceil": ceil, "trunc": trunc, "reciprocal": reciprocal, "arcsin": asin, "arccos": acos, "arctan": atan,
}.items():  # fmt: skip
    Expr.table[_name] = _fn


class MathsMethods:
    """a.exp(), a.sin(), ..."""

    __slots__ = ()

    __abs__ = abs
    exp, exp2, expm1, log, log2, log10, log1p = exp, exp2, expm1, log, log2, log10, log1p
    sqrt, rsqrt, reciprocal = sqrt, rsqrt, reciprocal
    sin, cos, tan, asin, acos, atan = sin, cos, tan, asin, acos, atan
    arcsin, arccos, arctan = asin, acos, atan
    sinh, cosh, tanh, asinh, acosh, atanh = sinh, cosh, tanh, asinh, acosh, atanh
    arcsinh, arccosh, arctanh = asinh, acosh, atanh
    sigmoid, erf, erfc, erfinv, lgamma, digamma = sigmoid, erf, erfc, erfinv, lgamma, digamma
    abs, absolute, sign = abs, abs, sign
    floor, ceil, trunc, fix, frac = floor, ceil, trunc, trunc, frac
    isnan, isinf, isfinite = isnan, isinf, isfinite
