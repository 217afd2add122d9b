"""Bounds and rounding: clamp, nan_to_num, round, heaviside."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import config, dtypes
from ..derive import Expr
from ..fastpath import elementwise
from ..kernels import formula
from ..kernels.formula import Scalar, select
from ..modes import modes
from ..tape import LEAF, Value, record
from .arithmetic import clamp_both, clamp_high, clamp_low, where, zeros_for
from .dims import refuse_bools
from .inplace import elementwise_inplace
from .maths import abs, round_even
from .out import into
from .shape import clone

__all__ = ["clamp", "clamp_max", "clamp_min", "clip", "heaviside", "nan_to_num", "round"]

_round_scalar = formula.function("round")


def require(x: Any, name: str, argument: str) -> None:
    """TypeError for what is neither a tensor nor a symbol in a formula."""
    if not isinstance(x, (Value, Scalar, Expr)):
        raise TypeError(f"{name}(): argument '{argument}' must be Tensor, not {type(x).__name__}")


# -- clamp ---------------------------------------------------------------------------------------------


def _bounds(min: Any, max: Any, name: str) -> tuple[Any, Any]:
    if min is None and max is None:
        raise RuntimeError(f"{name}: At least one of 'min' or 'max' must not be None")
    for label, bound in (("min", min), ("max", max)):
        if bound is not None and not isinstance(
            bound, (Value, int, float, np.generic, np.ndarray, Scalar, Expr)
        ):
            raise TypeError(
                f"{name}(): argument '{label}' must be a tensor or a number, not {type(bound).__name__}"
            )
    return min, max


_NUMBERS = (int, float)
_variant = clamp_both.op.variant("ann")  # an array and two numbers


def _between_numbers(input: Any, min: float, max: float) -> Any:
    """The short way for a small contiguous tensor and two numbers, once the general one has compiled the loop."""
    kernel = _variant.flat.get(input._char)
    x = input._array
    if kernel is None or x.dtype.kind != "f" or x.size >= config.grain:
        return None
    out = np.empty(x.shape, x.dtype)
    kernel(x, out, float(min), float(max), 0, x.size)
    made = input._make(out)
    node = input._node if input._view is None else input._source()
    if node is not None and modes.grad:
        version = input._version
        made._node = record(
            clamp_both.op,
            (input if node is LEAF else node, None, None),
            (input._index, 0, 0),
            (x, min, max),
            (version, version[0], None, 0, None, 0),
            _variant.vjp((True, False, False)),
            ((x.shape, x.dtype),),
        )
    return made


def clamp(input: Any, min: Any = None, max: Any = None, *, out: Any = None) -> Any:
    """``input`` within [min, max], which are numbers or tensors that broadcast; either may be absent.

    At the bounds the gradient passes. Where min > max the result is max.
    """
    if out is None and type(min) in _NUMBERS and type(max) in _NUMBERS and isinstance(input, Value):
        made = _between_numbers(input, min, max)
        if made is not None:
            return made
    require(input, "clamp", "input")
    min, max = _bounds(min, max, "clamp")
    if max is None:
        return clamp_low(input, min, out=out)
    if min is None:
        return clamp_high(input, max, out=out)
    return clamp_both(input, min, max, out=out)


clip = clamp


def clamp_min(input: Any, min: Any, *, out: Any = None) -> Any:
    """``input``, but not below ``min``."""
    return clamp(input, min, None, out=out)


def clamp_max(input: Any, max: Any, *, out: Any = None) -> Any:
    """``input``, but not above ``max``."""
    return clamp(input, None, max, out=out)


_clamp_low, _clamp_high = elementwise_inplace(clamp_low), elementwise_inplace(clamp_high)
_clamp_both = elementwise_inplace(clamp_both)


def _clamp_inplace(input: Any, min: Any = None, max: Any = None) -> Any:
    min, max = _bounds(min, max, "clamp_")
    if max is None:
        return _clamp_low(input, min)
    if min is None:
        return _clamp_high(input, max)
    return _clamp_both(input, min, max)


# -- nan_to_num ----------------------------------------------------------------------------------------


@elementwise(input=lambda g, input: where(abs(input) < math.inf, g, 0.0), name="nan_to_num")
def replaced(input: Any, *, nan: Any, posinf: Any, neginf: Any) -> Any:
    """NaN and infinities replaced by numbers."""
    x = select(input == input, input, nan)
    x = select(x == math.inf, posinf, x)
    return select(x == -math.inf, neginf, x)


_replace = elementwise_inplace(replaced)


def _replacements(input: Any, nan: Any, posinf: Any, neginf: Any) -> dict[str, float]:
    limits = np.finfo(input._array.dtype)
    return {
        "nan": 0.0 if nan is None else float(nan),
        "posinf": float(limits.max) if posinf is None else float(posinf),
        "neginf": float(limits.min) if neginf is None else float(neginf),
    }


def nan_to_num(input: Any, nan: Any = 0.0, posinf: Any = None, neginf: Any = None, *, out: Any = None) -> Any:
    """NaN and the infinities replaced, by 0 and by the largest numbers of the dtype if not given."""
    if input._array.dtype.kind != "f":
        return into(clone(input), out, "nan_to_num")
    return replaced(input, out=out, **_replacements(input, nan, posinf, neginf))


# -- round ---------------------------------------------------------------------------------------------


@elementwise(input=zeros_for, name="round_decimals", node_name="RoundBackward1")
def rounded(input: Any, *, scale: Any, inverse: Any) -> Any:
    """input rounded to a multiple of 1 / scale (or of ``inverse``, if that is not 0)."""
    return select(
        inverse != 0, _round_scalar(input / inverse) * inverse, _round_scalar(input * scale) / scale
    )


def _scale(input: Any, decimals: int) -> dict[str, float]:
    if isinstance(input, Value) and input._array.dtype.kind != "f":
        raise NotImplementedError(
            f"\"round_cpu\" not implemented for '{dtypes.of(input._array).short}' with decimals={decimals}"
        )
    return {"scale": 10.0 ** max(decimals, 0), "inverse": 10.0**-decimals if decimals < 0 else 0.0}


def round(input: Any, *, decimals: int = 0, out: Any = None) -> Any:
    """Rounded to a whole number, or to ``decimals`` places; halves go to the even neighbour."""
    if isinstance(input, Value):
        refuse_bools(input._array, "round_vml")
    if not decimals:
        return round_even(input, out=out)
    return rounded(input, out=out, **_scale(input, decimals))


_round, _round_decimals = elementwise_inplace(round_even), elementwise_inplace(rounded)


# -- heaviside -----------------------------------------------------------------------------------------


@elementwise()
def step(input: Any, values: Any) -> Any:
    """0 below zero, 1 above, and ``values`` at zero."""
    return select(input == 0, values, select(input > 0, 1, 0))


def heaviside(input: Any, values: Any, *, out: Any = None) -> Any:
    """The step function: 0 for negative input, 1 for positive, and ``values`` where input is zero."""
    require(input, "heaviside", "input")
    require(values, "heaviside", "values")
    if isinstance(input, Value) and isinstance(values, Value) and input._array.dtype != values._array.dtype:
        raise RuntimeError("heaviside is not yet implemented for tensors with different dtypes.")
    return step(input, values, out=out)


class ClampingMethods:
    """a.clamp(0, 1), a.round_(), ..."""

    __slots__ = ()

    clamp, clip, clamp_min, clamp_max = clamp, clip, clamp_min, clamp_max
    clamp_ = clip_ = _clamp_inplace
    clamp_min_, clamp_max_ = _clamp_low, _clamp_high
    nan_to_num, round, heaviside = nan_to_num, round, heaviside
    heaviside_ = elementwise_inplace(step)

    def nan_to_num_(self, nan: Any = 0.0, posinf: Any = None, neginf: Any = None) -> Any:
        """In place: NaN and the infinities replaced."""
        if self._array.dtype.kind != "f":  # type: ignore[attr-defined]
            return self
        return _replace(self, **_replacements(self, nan, posinf, neginf))

    def round_(self, *, decimals: int = 0) -> Any:
        """In place: rounded to a whole number, or to ``decimals`` places."""
        return _round_decimals(self, **_scale(self, decimals)) if decimals else _round(self)
