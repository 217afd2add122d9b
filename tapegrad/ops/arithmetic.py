"""Arithmetic of one and two operands, comparisons and selection."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..derive import Expr
from ..fastpath import elementwise
from ..kernels import formula
from ..kernels.formula import Scalar, select
from ..tape import Value

__all__ = [
    "add",
    "atan2",
    "bitwise_and",
    "bitwise_left_shift",
    "bitwise_not",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "copysign",
    "div",
    "divide",
    "eq",
    "floor_divide",
    "fmax",
    "fmin",
    "fmod",
    "ge",
    "greater",
    "greater_equal",
    "gt",
    "hypot",
    "le",
    "less",
    "less_equal",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "lt",
    "maximum",
    "minimum",
    "mul",
    "multiply",
    "ne",
    "neg",
    "negative",
    "not_equal",
    "pow",
    "remainder",
    "rsub",
    "square",
    "sub",
    "subtract",
    "true_divide",
]  # fmt: skip

_f = formula.function
_floor, _trunc = _f("floor"), _f("trunc")
_fmod, _remainder, _copysign = _f("fmod"), _f("remainder"), _f("copysign")
_maximum, _minimum = _f("maximum"), _f("minimum")
_fmax, _fmin, _atan2, _sqrt = _f("fmax"), _f("fmin"), _f("atan2"), _f("sqrt")


def _floating(x: Any) -> bool:
    return type(x) is Scalar and x.char in "fd"


def zeros_for(g: Any) -> Any:
    """The cotangent of what has no influence: zeros, also where 0 times the cotangent would be NaN."""
    return nothing(g) if not isinstance(g, Value) else g._make(np.zeros(g._array.shape, g._array.dtype))


@elementwise(input=zeros_for)
def nothing(input: Any) -> Any:
    """0."""
    return 0.0


@elementwise(input=lambda g: g, other=lambda g: g, name="add")
def plus(input: Any, other: Any) -> Any:
    """Sum, elementwise with broadcasting."""
    if type(input) is Scalar and input.char == "?":
        return input | other  # a sum of bools is a bool, as in PyTorch
    return input + other


@elementwise(input=lambda g: g, other=lambda g: -g, name="sub")
def minus(input: Any, other: Any) -> Any:
    """Difference, elementwise with broadcasting."""
    return input - other


@elementwise(input=lambda g, other: g * other, other=lambda g, input: g * input)
def mul(input: Any, other: Any) -> Any:
    """Product, elementwise with broadcasting."""
    if type(input) is Scalar and input.char == "?":
        return input & other
    return input * other


@elementwise(
    # The quotient is formed again instead of being saved: programs change results in place.
    kind="float",
    name="div",
    input=lambda g, other: g / other,
    other=lambda g, input, other: -g * (input / other / other),
)
def true_div(input: Any, other: Any) -> Any:
    """Quotient, elementwise with broadcasting; integers give floating results."""
    return input / other


@elementwise(input=lambda g: -g)
def neg(input: Any) -> Any:
    """-input."""
    if type(input) is Scalar and input.char == "?":
        raise RuntimeError(
            "Negation, the `-` operator, on a bool tensor is not supported. If you are trying to invert a mask, "
            "use the `~` or `logical_not()` operator instead."
        )
    return -input


def _floor_div(a: Any, b: Any) -> Any:
    """The largest whole number not above a / b, exact also where a / b rounds up to it."""
    if not _floating(a):
        return a // b
    mod = _fmod(a, b)
    quotient = (a - mod) / b
    quotient = select((mod != 0) & ((b < 0) != (mod < 0)), quotient - 1, quotient)
    floor = _floor(quotient)
    floor = select(quotient - floor > 0.5, floor + 1, floor)
    whole = select(quotient != 0, floor, _copysign(quotient * 0, a / b))
    return select(b == 0, a / b, whole)


def _trunc_div(a: Any, b: Any) -> Any:
    if _floating(a):
        return _trunc(a / b)
    quotient = a // b
    return quotient + select((a - quotient * b != 0) & ((a < 0) != (b < 0)), 1, 0)


@elementwise(name="floor_divide", input=zeros_for, other=zeros_for)
def div_floor(input: Any, other: Any) -> Any:
    """Quotient rounded towards minus infinity."""
    return _floor_div(input, other)


@elementwise(name="div_trunc", node_name="DivBackward1", input=zeros_for, other=zeros_for)
def div_trunc(input: Any, other: Any) -> Any:
    """Quotient rounded towards zero."""
    return _trunc_div(input, other)


@elementwise(
    input=lambda g: g, other=lambda g, input, other: -g * floor_quotient(input, other), name="remainder"
)
def mod_floor(input: Any, other: Any) -> Any:
    """input - other * floor(input / other): the sign of the divisor."""
    return _remainder(input, other) if _floating(input) else input % other


@elementwise(input=lambda g: g, other=lambda g, input, other: -g * trunc_quotient(input, other), name="fmod")
def mod_trunc(input: Any, other: Any) -> Any:
    """input - other * trunc(input / other): the sign of the dividend."""
    return _fmod(input, other) if _floating(input) else input - _trunc_div(input, other) * other


@elementwise(name="floor_quotient", input=zeros_for, other=zeros_for)
def floor_quotient(input: Any, other: Any) -> Any:
    """floor(input / other), as the rule of remainder needs it."""
    return _floor_div(input, other)


@elementwise(name="trunc_quotient", input=zeros_for, other=zeros_for)
def trunc_quotient(input: Any, other: Any) -> Any:
    """trunc(input / other), as the rule of fmod needs it."""
    return _trunc_div(input, other)


@elementwise(
    name="pow",
    input=lambda g, input, other: where(other == 0, 0.0, g * (other * power(input, other - 1))),
    other=lambda g, input, other, out: g * where((input == 0) & (other >= 0), 0.0, out * _log(input)),
)
def power(input: Any, other: Any) -> Any:
    """input to the power other, elementwise."""
    if _floating(input) or _floating(other):
        return formula.power(input, other)
    return input._binary("**", input, other) if type(input) is Scalar else other._binary("**", input, other)


def _log(x: Any) -> Any:
    if isinstance(x, (int, float)):  # the base of 2.0 ** exponent
        return math.log(x) if x > 0 else -math.inf if x == 0 else math.nan
    return Expr.table["log"](x)  # maths.py is built on this module, and puts it there


def _select_rule(g: Any, condition: Any) -> Any:
    return where(condition, g, 0.0)


@elementwise(
    masks=("condition",),
    name="where",
    input=lambda g, condition: select_where(condition, g, 0.0),
    other=lambda g, condition: select_where(condition, 0.0, g),
)
def select_where(condition: Any, input: Any, other: Any) -> Any:
    """input where the condition holds, else other."""
    if isinstance(condition, (bool, int)):
        return input if condition else other
    return select(condition, input, other)


def where(condition: Any, input: Any, other: Any) -> Any:
    """``input`` where ``condition`` holds, else ``other``; also on a Python condition."""
    if isinstance(condition, bool):
        # A rule that runs with numbers in place of tensors: keep the shape of whichever is a tensor.
        chosen, left = (input, other) if condition else (other, input)
        if isinstance(chosen, (Value, Scalar, Expr)) or not isinstance(left, (Value, Scalar, Expr)):
            return chosen
        return mul(left, 0) + chosen
    return select_where(condition, input, other)


# -- extrema ----------------------------------------------------------------------------------------


def _share(g: Any, mine: Any, other: Any, wins: Any) -> Any:
    """The winner gets the cotangent; a tie is shared."""
    return g * where(mine == other, 0.5, where(wins, 1.0, 0.0))


@elementwise(
    input=lambda g, input, other: where(input == other, g / 2, where(input > other, g, 0.0)),
    other=lambda g, input, other: where(input == other, g / 2, where(input < other, g, 0.0)),
)
def maximum(input: Any, other: Any) -> Any:
    """The larger operand, elementwise; NaN if either is. A tie shares the gradient."""
    return _maximum(input, other) if _floating(input) else select(input > other, input, other)


@elementwise(
    input=lambda g, input, other: where(input == other, g / 2, where(input < other, g, 0.0)),
    other=lambda g, input, other: where(input == other, g / 2, where(input > other, g, 0.0)),
)
def minimum(input: Any, other: Any) -> Any:
    """The smaller operand, elementwise; NaN if either is. A tie shares the gradient."""
    return _minimum(input, other) if _floating(input) else select(input < other, input, other)


@elementwise(
    input=lambda g, input, other: where((input >= other) | (other != other), g, 0.0),
    other=lambda g, input, other: where((input >= other) | (other != other), 0.0, g),
)
def fmax(input: Any, other: Any) -> Any:
    """The larger operand, elementwise; a NaN loses against a number."""
    return _fmax(input, other) if _floating(input) else select(input > other, input, other)


@elementwise(
    input=lambda g, input, other: where((input <= other) | (other != other), g, 0.0),
    other=lambda g, input, other: where((input <= other) | (other != other), 0.0, g),
)
def fmin(input: Any, other: Any) -> Any:
    """The smaller operand, elementwise; a NaN loses against a number."""
    return _fmin(input, other) if _floating(input) else select(input < other, input, other)


@elementwise(
    name="clamp_min", input=lambda g, input, other: where(input >= other, g, 0.0),
    other=lambda g, input, other: where(input < other, g, 0.0),
)  # fmt: skip
def clamp_low(input: Any, other: Any) -> Any:
    """input, but not below other; passes the gradient at the edge."""
    return maximum(input, other)


@elementwise(
    name="clamp_max", input=lambda g, input, other: where(input <= other, g, 0.0),
    other=lambda g, input, other: where(input > other, g, 0.0),
)  # fmt: skip
def clamp_high(input: Any, other: Any) -> Any:
    """input, but not above other; passes the gradient at the edge."""
    return minimum(input, other)


@elementwise(
    name="clamp",
    input=lambda g, input, min, max: where((input >= min) & (input <= max), g, 0.0),
    min=lambda g, input, min, max: where((min < max) & (input < min), g, 0.0),
    max=lambda g, input, min, max: where((input > max) | (max < min), g, 0.0),
)
def clamp_both(input: Any, min: Any, max: Any) -> Any:
    """input within [min, max]; passes the gradient at the edges."""
    return minimum(maximum(input, min), max)


# -- two-argument functions ---------------------------------------------------------------------------


@elementwise(
    kind="float",
    input=lambda g, input, other: g * (other / (input * input + other * other)),
    other=lambda g, input, other: g * (-input / (input * input + other * other)),
)
def atan2(input: Any, other: Any) -> Any:
    """The angle of the point (other, input), in radians within [-pi, pi]."""
    return _atan2(input, other)


@elementwise(
    kind="float",
    input=lambda g, input, out: where(out == 0, 0.0, g * (input / out)),
    other=lambda g, other, out: where(out == 0, 0.0, g * (other / out)),
)
def hypot(input: Any, other: Any) -> Any:
    """sqrt(input**2 + other**2) without overflow on the way."""
    a, b = abs(input), abs(other)
    large, small = select(a > b, a, b), select(a > b, b, a)
    ratio = small / large
    length = select(large == 0, large, large * _sqrt(1 + ratio * ratio))
    length = select((a != a) | (b != b), a + b, length)
    return select((a == math.inf) | (b == math.inf), math.inf, length)


@elementwise(
    kind="float",
    input=lambda g, input, out: where(input == 0, 0.0, g * (out / input)),
    other=zeros_for,
)
def copysign(input: Any, other: Any) -> Any:
    """The magnitude of input with the sign of other."""
    return _copysign(input, other)


# -- comparisons --------------------------------------------------------------------------------------


@elementwise(kind="compare")
def eq(input: Any, other: Any) -> Any:
    """input == other, elementwise."""
    return input == other


@elementwise(kind="compare")
def ne(input: Any, other: Any) -> Any:
    """input != other, elementwise."""
    return input != other


@elementwise(kind="compare")
def lt(input: Any, other: Any) -> Any:
    """input < other, elementwise."""
    return input < other


@elementwise(kind="compare")
def le(input: Any, other: Any) -> Any:
    """input <= other, elementwise."""
    return input <= other


@elementwise(kind="compare")
def gt(input: Any, other: Any) -> Any:
    """input > other, elementwise."""
    return input > other


@elementwise(kind="compare")
def ge(input: Any, other: Any) -> Any:
    """input >= other, elementwise."""
    return input >= other


@elementwise(kind="compare")
def logical_and(input: Any, other: Any) -> Any:
    """Whether both are nonzero."""
    return _truth(input) & _truth(other)


@elementwise(kind="compare")
def logical_or(input: Any, other: Any) -> Any:
    """Whether one of both is nonzero."""
    return _truth(input) | _truth(other)


@elementwise(kind="compare")
def logical_xor(input: Any, other: Any) -> Any:
    """Whether exactly one of both is nonzero."""
    return _truth(input) ^ _truth(other)


@elementwise(kind="compare")
def logical_not(input: Any) -> Any:
    """Whether input is zero."""
    return ~_truth(input)


def _truth(x: Any) -> Any:
    return x if type(x) is Scalar and x.char == "?" else (x != 0)


@elementwise(kind="integral")
def bitwise_and(input: Any, other: Any) -> Any:
    """Bits set in both."""
    return input & other


@elementwise(kind="integral")
def bitwise_or(input: Any, other: Any) -> Any:
    """Bits set in one of both."""
    return input | other


@elementwise(kind="integral")
def bitwise_xor(input: Any, other: Any) -> Any:
    """Bits set in exactly one."""
    return input ^ other


@elementwise(kind="integral")
def bitwise_not(input: Any) -> Any:
    """Bits inverted; for bools the negation."""
    return ~input


@elementwise(kind="integral")
def bitwise_left_shift(input: Any, other: Any) -> Any:
    """input << other."""
    return input << other


@elementwise(kind="integral")
def bitwise_right_shift(input: Any, other: Any) -> Any:
    """input >> other, keeping the sign."""
    return input >> other


# -- PyTorch's faces --------------------------------------------------------------------------------


def _is_bool(x: Any) -> bool:
    return (isinstance(x, Value) and x._array.dtype.char == "?") or isinstance(x, bool)


def add(input: Any, other: Any, *, alpha: Any = 1, out: Any = None) -> Any:
    """input + alpha * other, elementwise with broadcasting."""
    return plus(input, other if alpha == 1 else mul(other, alpha), out=out)


def sub(input: Any, other: Any, *, alpha: Any = 1, out: Any = None) -> Any:
    """input - alpha * other, elementwise with broadcasting."""
    if _is_bool(input) and _is_bool(other):
        raise RuntimeError(
            "sub: subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or `logical_xor()` instead."
        )
    return minus(input, other if alpha == 1 else mul(other, alpha), out=out)


def rsub(input: Any, other: Any, *, alpha: Any = 1) -> Any:
    """other - alpha * input."""
    if _is_bool(input) and _is_bool(other):
        raise RuntimeError("rsub: subtraction, the `-` operator, with two bool tensors is not supported.")
    return (
        plus(mul(neg(input), alpha) if alpha != 1 else neg(input), other)
        if isinstance(other, Value)
        else _from(other, input, alpha)
    )


def _from(number: Any, input: Any, alpha: Any) -> Any:
    return minus(number, input if alpha == 1 else mul(input, alpha))


def div(input: Any, other: Any, *, rounding_mode: str | None = None, out: Any = None) -> Any:
    """input / other; ``rounding_mode`` "trunc" or "floor" rounds the quotient."""
    if rounding_mode is None:
        return true_div(input, other, out=out)
    if rounding_mode == "floor":
        return floor_divide(input, other, out=out)
    if rounding_mode == "trunc":
        _refuse_zero(input, other, "div")
        return div_trunc(input, other, out=out)
    raise RuntimeError(
        f"div expected rounding_mode to be one of None, 'trunc', or 'floor' but found '{rounding_mode}'"
    )


def _refuse_zero(input: Any, other: Any, name: str) -> None:
    """Integers have no infinity: dividing them by zero is an error."""
    for x in (input, other):
        if isinstance(x, (Scalar, Expr, float)) or (isinstance(x, Value) and x._array.dtype.kind == "f"):
            return
    divisor = other._array if isinstance(other, Value) else other
    if isinstance(divisor, (np.ndarray, int)) and np.any(np.equal(divisor, 0)):
        raise RuntimeError(f"{name}: ZeroDivisionError: an integer is divided by zero")


def floor_divide(input: Any, other: Any, *, out: Any = None) -> Any:
    """input / other rounded towards minus infinity."""
    _refuse_zero(input, other, "floor_divide")
    return div_floor(input, other, out=out)


def remainder(input: Any, other: Any, *, out: Any = None) -> Any:
    """Python's %: the result has the sign of the divisor."""
    _refuse_zero(input, other, "remainder")
    return mod_floor(input, other, out=out)


def fmod(input: Any, other: Any, *, out: Any = None) -> Any:
    """C's fmod: the result has the sign of the dividend."""
    _refuse_zero(input, other, "fmod")
    return mod_trunc(input, other, out=out)


def pow(input: Any, exponent: Any, *, out: Any = None) -> Any:
    """input to the power exponent; small whole exponents are products."""
    if isinstance(exponent, (int, float)) and isinstance(input, Value) and out is None:
        if input._array.dtype.kind == "f":
            special = _SPECIAL_POWERS.get(float(exponent))
            if special is not None:
                return special(input)
        elif isinstance(exponent, int) and exponent < 0:
            raise RuntimeError("pow: Integers to negative integer powers are not allowed.")
    return power(input, exponent, out=out)


@elementwise(input=lambda g, input: g * (input * 2))
def square(input: Any) -> Any:
    """input * input."""
    return input * input


@elementwise(input=lambda g, input: g * (square(input) * 3), name="cube", node_name="PowBackward0")
def cube(input: Any) -> Any:
    """input to the third power."""
    return input * input * input


_SPECIAL_POWERS: dict[float, Any] = {2.0: square, 3.0: cube}

true_divide = divide = div
multiply = mul
subtract = sub
negative = neg
greater, greater_equal, less, less_equal, not_equal = gt, ge, lt, le, ne
arctan2 = atan2

for _name, _fn in {
    "add": plus, "sub": minus, "mul": mul, "div": true_div, "pow": power, "neg": neg, "remainder": mod_floor,
    "lt": lt, "le": le, "gt": gt, "ge": ge, "eq": eq, "ne": ne,
    "logical_and": logical_and, "logical_or": logical_or, "logical_not": logical_not, "where": select_where,
    "maximum": maximum, "minimum": minimum, "square": square,
}.items():  # fmt: skip
    Expr.table[_name] = _fn


# What == and != compare by value; with anything else a tensor is simply not equal.
_COMPARABLE = (Value, bool, int, float, np.ndarray, np.generic)


def _reversed(function: Any) -> Any:
    def method(self: Any, other: Any) -> Any:
        return function(other, self)

    return method


class ArithmeticMethods:
    """a + b, a < b, a.maximum(b), ..."""

    __slots__ = ()

    # Operators are the ops themselves: one Python call less on the shortest way through the library.
    __add__ = plus
    __radd__ = plus
    __mul__ = mul
    __rmul__ = mul
    __truediv__ = true_div
    __rtruediv__ = _reversed(true_div)
    __sub__ = sub
    __rsub__ = _reversed(sub)
    __pow__ = pow
    __rpow__ = _reversed(power)
    __floordiv__ = floor_divide
    __rfloordiv__ = _reversed(floor_divide)
    __mod__ = remainder
    __rmod__ = _reversed(remainder)
    __neg__ = neg
    __lt__ = lt
    __le__ = le
    __gt__ = gt
    __ge__ = ge
    __hash__ = object.__hash__

    def __eq__(self, other: Any) -> Any:
        return eq(self, other) if isinstance(other, _COMPARABLE) else NotImplemented

    def __ne__(self, other: Any) -> Any:
        return ne(self, other) if isinstance(other, _COMPARABLE) else NotImplemented

    __and__ = __rand__ = bitwise_and
    __or__ = __ror__ = bitwise_or
    __xor__ = __rxor__ = bitwise_xor
    __invert__ = bitwise_not
    __lshift__ = bitwise_left_shift
    __rshift__ = bitwise_right_shift

    add, sub, mul, div, pow, neg = add, sub, mul, div, pow, neg
    multiply, subtract, divide, true_divide, negative = mul, sub, div, div, neg
    floor_divide, remainder, fmod, square = floor_divide, remainder, fmod, square
    maximum, minimum, fmax, fmin = maximum, minimum, fmax, fmin
    atan2, arctan2, hypot, copysign = atan2, atan2, hypot, copysign
    eq, ne, lt, le, gt, ge = eq, ne, lt, le, gt, ge
    not_equal, less, less_equal, greater, greater_equal = ne, lt, le, gt, ge
    logical_and, logical_or, logical_xor, logical_not = logical_and, logical_or, logical_xor, logical_not
    bitwise_and, bitwise_or, bitwise_xor, bitwise_not = bitwise_and, bitwise_or, bitwise_xor, bitwise_not
    bitwise_left_shift, bitwise_right_shift = bitwise_left_shift, bitwise_right_shift
