"""In-place methods: the result of an op written over its first operand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..op import apply_inplace
from . import arithmetic, maths
from .shape import write_view


def elementwise_inplace(function: Any) -> Callable[..., Any]:
    """The in-place form of an elementwise op."""
    op = function.op

    def method(self: Any, *others: Any, **params: Any) -> Any:
        return op.inplace(write_view, self, *others, **params)

    method.__name__ = op.name + "_"
    method.__doc__ = f"In place: {op.__doc__}"
    return method


def kernel_inplace(op: Any, self: Any, *values: Any, **params: Any) -> Any:
    """Run any op with its result written over ``self``."""
    return apply_inplace(op, write_view, self, *values, **params)


_add = elementwise_inplace(arithmetic.plus)
_sub = elementwise_inplace(arithmetic.minus)
_div = elementwise_inplace(arithmetic.true_div)
_floor_div = elementwise_inplace(arithmetic.div_floor)
_trunc_div = elementwise_inplace(arithmetic.div_trunc)
_pow = elementwise_inplace(arithmetic.power)
_square = elementwise_inplace(arithmetic.square)


class InplaceMethods:
    """add_, mul_, exp_, ...: change the tensor itself and return it."""

    __slots__ = ()

    def add_(self, other: Any, *, alpha: Any = 1) -> Any:
        """In place: self + alpha * other."""
        return _add(
            self,
            other
            if alpha == 1
            else arithmetic.mul(other, alpha)
            if hasattr(other, "_array")
            else other * alpha,
        )

    def sub_(self, other: Any, *, alpha: Any = 1) -> Any:
        """In place: self - alpha * other."""
        return _sub(
            self,
            other
            if alpha == 1
            else arithmetic.mul(other, alpha)
            if hasattr(other, "_array")
            else other * alpha,
        )

    def div_(self, other: Any, *, rounding_mode: str | None = None) -> Any:
        """In place: self / other, rounded if asked."""
        if rounding_mode is None:
            return _div(self, other)
        if rounding_mode == "floor":
            return _floor_div(self, other)
        if rounding_mode == "trunc":
            return _trunc_div(self, other)
        raise RuntimeError(
            f"div_ expected rounding_mode to be one of None, 'trunc', or 'floor' but found '{rounding_mode}'"
        )

    def pow_(self, exponent: Any) -> Any:
        """In place: self to the power exponent."""
        return _square(self) if type(exponent) in (int, float) and exponent == 2 else _pow(self, exponent)

    mul_ = elementwise_inplace(arithmetic.mul)
    floor_divide_ = elementwise_inplace(arithmetic.div_floor)
    remainder_ = elementwise_inplace(arithmetic.mod_floor)
    fmod_ = elementwise_inplace(arithmetic.mod_trunc)
    neg_ = negative_ = elementwise_inplace(arithmetic.neg)
    square_ = elementwise_inplace(arithmetic.square)
    true_divide_ = divide_ = div_
    multiply_ = mul_
    subtract_ = sub_
    exp_ = elementwise_inplace(maths.exp)
    exp2_ = elementwise_inplace(maths.exp2)
    expm1_ = elementwise_inplace(maths.expm1)
    log_ = elementwise_inplace(maths.log)
    log2_ = elementwise_inplace(maths.log2)
    log10_ = elementwise_inplace(maths.log10)
    log1p_ = elementwise_inplace(maths.log1p)
    sqrt_ = elementwise_inplace(maths.sqrt)
    rsqrt_ = elementwise_inplace(maths.rsqrt)
    reciprocal_ = elementwise_inplace(maths.reciprocal)
    sin_ = elementwise_inplace(maths.sin)
    cos_ = elementwise_inplace(maths.cos)
    tan_ = elementwise_inplace(maths.tan)
    asin_ = elementwise_inplace(maths.asin)
    acos_ = elementwise_inplace(maths.acos)
    atan_ = elementwise_inplace(maths.atan)
    sinh_ = elementwise_inplace(maths.sinh)
    cosh_ = elementwise_inplace(maths.cosh)
    tanh_ = elementwise_inplace(maths.tanh)
    sigmoid_ = elementwise_inplace(maths.sigmoid)
    erf_ = elementwise_inplace(maths.erf)
    erfc_ = elementwise_inplace(maths.erfc)
    erfinv_ = elementwise_inplace(maths.erfinv)
    lgamma_ = elementwise_inplace(maths.lgamma)
    digamma_ = elementwise_inplace(maths.digamma)
    abs_ = absolute_ = elementwise_inplace(maths.abs)
    sign_ = elementwise_inplace(maths.sign)
    floor_ = elementwise_inplace(maths.floor)
    ceil_ = elementwise_inplace(maths.ceil)
    trunc_ = elementwise_inplace(maths.trunc)
    frac_ = elementwise_inplace(maths.frac)
    eq_ = elementwise_inplace(arithmetic.eq)
    ne_ = elementwise_inplace(arithmetic.ne)
    lt_ = elementwise_inplace(arithmetic.lt)
    le_ = elementwise_inplace(arithmetic.le)
    gt_ = elementwise_inplace(arithmetic.gt)
    ge_ = elementwise_inplace(arithmetic.ge)
    logical_and_ = elementwise_inplace(arithmetic.logical_and)
    logical_or_ = elementwise_inplace(arithmetic.logical_or)
    logical_not_ = elementwise_inplace(arithmetic.logical_not)
    bitwise_and_ = elementwise_inplace(arithmetic.bitwise_and)
    bitwise_or_ = elementwise_inplace(arithmetic.bitwise_or)
    bitwise_xor_ = elementwise_inplace(arithmetic.bitwise_xor)
    bitwise_not_ = elementwise_inplace(arithmetic.bitwise_not)
    bitwise_left_shift_ = elementwise_inplace(arithmetic.bitwise_left_shift)
    bitwise_right_shift_ = elementwise_inplace(arithmetic.bitwise_right_shift)
    logical_xor_ = elementwise_inplace(arithmetic.logical_xor)
    atan2_ = arctan2_ = elementwise_inplace(arithmetic.atan2)
    hypot_ = elementwise_inplace(arithmetic.hypot)
    copysign_ = elementwise_inplace(arithmetic.copysign)
    asinh_ = arcsinh_ = elementwise_inplace(maths.asinh)
    acosh_ = arccosh_ = elementwise_inplace(maths.acosh)
    atanh_ = arctanh_ = elementwise_inplace(maths.atanh)
    arcsin_, arccos_, arctan_ = asin_, acos_, atan_
    not_equal_, less_, less_equal_, greater_, greater_equal_ = ne_, lt_, le_, gt_, ge_
    fix_ = trunc_
    __iadd__ = add_
    __isub__ = sub_
    __imul__ = mul_
    __itruediv__ = div_
    __ifloordiv__ = floor_divide_
    __imod__ = remainder_
    __ipow__ = pow_
    __iand__ = bitwise_and_
    __ior__ = bitwise_or_
    __ixor__ = bitwise_xor_
    __ilshift__ = bitwise_left_shift_
    __irshift__ = bitwise_right_shift_
