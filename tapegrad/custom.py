"""A user's own elementwise operations, and a look at the kernels that are made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import dtypes, fastpath
from .elementwise import Elementwise


def elementwise(formula: Callable[..., Any] | None = None, /, **rules: Any) -> Any:
    """Make an operation of a formula for one number.

    ::

        @tg.elementwise
        def swish(x, *, beta):
            return x * tg.sigmoid(beta * x)

    Positional parameters are tensors (or numbers) that broadcast, keyword-only parameters are numbers.
    Forward and backward are each one compiled loop. The derivative is derived from the formula, to any order;
    or give it, one rule per input: ``@tg.elementwise(x=lambda g, out: g * (1 - out * out))``, where ``g`` is the
    cotangent, ``out`` the result and other names are inputs. TypeError for a formula that branches in Python.
    """

    def make(fn: Callable[..., Any]) -> Any:
        return fastpath.elementwise(kind="float", derive=not rules, **rules)(fn)

    return make if formula is None else make(formula)


def kernel_source(function: Any, dtype: Any = dtypes.float32, *, vjp: bool = True) -> str:
    """The source text of an elementwise op's loops over contiguous arrays: forward, and the fused derivative."""
    op = getattr(function, "op", function)
    if not isinstance(op, Elementwise):
        raise TypeError(
            f"kernel_source shows the generated kernels of elementwise operations, and {function!r} is none"
        )
    return op.loops_text((True,) * len(op.inputs), dtypes.as_dtype(dtype).char, vjp)
