"""Questions with a yes or no: are tensors equal or close, and what is the sign of a number."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import dtypes
from ..fastpath import elementwise
from ..kernels import formula
from ..kernels.formula import Scalar, constant, select
from ..kernels.recording import refuse
from ..tape import Value
from .arithmetic import zeros_for
from .convert import to_dtype
from .inplace import elementwise_inplace
from .maths import sign
from .reduce import all as every

__all__ = [
    "allclose",
    "angle",
    "equal",
    "is_nonzero",
    "isclose",
    "isneginf",
    "isposinf",
    "isreal",
    "sgn",
    "signbit",
]

_copysign = formula.function("copysign")


@elementwise(kind="compare", name="isclose")
def close(input: Any, other: Any, *, rtol: Any, atol: Any, equal_nan: Any) -> Any:
    """Whether |input - other| <= atol + rtol * |other|."""
    same = (input == other) | ((input != input) & (other != other) & (equal_nan != 0))
    away = abs(input - other)
    return same | ((away <= abs(rtol * other) + atol) & (away < math.inf))


def isclose(input: Any, other: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Any:
    """Whether |input - other| <= atol + rtol * |other|, elementwise; infinities are close to themselves."""
    for name, x in (("input", input), ("other", other)):
        if not isinstance(x, Value):
            raise TypeError(f"isclose(): argument '{name}' must be Tensor, not {type(x).__name__}")
    a, b = dtypes.of(input._array), dtypes.of(other._array)
    if a is not b:
        raise RuntimeError(f"{a.short} did not match {b.short}")
    if rtol < 0:
        raise RuntimeError(f"rtol must be greater than or equal to zero, but got {rtol}")
    if atol < 0:
        raise RuntimeError(f"atol must be greater than or equal to zero, but got {atol}")
    if not a.is_floating_point:
        input, other = to_dtype(input, dtypes.float64), to_dtype(other, dtypes.float64)
    return close(input, other, rtol=float(rtol), atol=float(atol), equal_nan=float(equal_nan))


def allclose(
    input: Any, other: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False
) -> bool:
    """Whether all elements are close."""
    refuse("allclose()")
    return bool(every(isclose(input, other, rtol, atol, equal_nan))._array)


def equal(input: Any, other: Any) -> bool:
    """Whether both have the same shape and the same elements."""
    for name, x in (("input", input), ("other", other)):
        if not isinstance(x, Value):
            raise TypeError(f"equal(): argument '{name}' must be Tensor, not {type(x).__name__}")
    refuse("equal()")
    return np.array_equal(input._array, other._array)


def is_nonzero(input: Any) -> bool:
    """Whether the only element of a tensor is not zero; RuntimeError for more than one."""
    return bool(input)


@elementwise(kind="compare")
def signbit(input: Any) -> Any:
    """Whether the sign is minus, also that of -0."""
    if type(input) is Scalar and input.char in "fd":
        return _copysign(constant(1.0, input), input) < 0
    return input != input if type(input) is Scalar and input.char in "?B" else input < 0


@elementwise(kind="compare")
def isneginf(input: Any) -> Any:
    """Whether input is minus infinity."""
    return input == -math.inf if type(input) is Scalar and input.char in "fd" else input != input


@elementwise(kind="compare")
def isposinf(input: Any) -> Any:
    """Whether input is plus infinity."""
    return input == math.inf if type(input) is Scalar and input.char in "fd" else input != input


@elementwise(kind="compare")
def isreal(input: Any) -> Any:
    """Whether input is a real number: all are."""
    return (input == input) | (input != input)


@elementwise(input=zeros_for)
def sgn(input: Any) -> Any:
    """-1, 0 or 1."""
    return sign(input)


@elementwise(kind="float", input=zeros_for)
def angle(input: Any) -> Any:
    """The angle of a real number: pi below zero, else 0; NaN stays NaN."""
    return select(input < 0, math.pi, select(input == input, 0.0, input))


class ClosenessMethods:
    """a.isclose(b), a.equal(b), ..."""

    __slots__ = ()

    isclose, allclose, equal, is_nonzero = isclose, allclose, equal, is_nonzero
    angle, signbit, sgn, isreal, isneginf, isposinf = angle, signbit, sgn, isreal, isneginf, isposinf
    sgn_ = elementwise_inplace(sgn)
