"""Kernels that compute what an expression of ops says, in one pass.

A derivative rule is an expression over ops, so that it can be differentiated again. Where one kernel
computes the same in a single pass over memory, the rule calls the kernel while nothing is being recorded,
and its expression while something is: the second derivative comes from the expression.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..modes import modes
from ..op import kernel_op
from ..tape import Value


def fused(
    expression: Callable[..., Any],
    *,
    outputs: tuple[str, ...] = ("out",),
    name: str | None = None,
    native: bool = False,
) -> Callable[[Callable[..., Any]], Any]:
    """Make a function of a kernel over arrays and of the expression over tensors that it stands for.

    Both take the same arguments, tensors by position and static parameters by name. ``native``: see op.py.
    """

    def make(forward: Callable[..., Any]) -> Any:
        op = kernel_op(outputs=outputs, name=name, native=native)(forward)

        def call(*values: Any, **params: Any) -> Any:
            if modes.grad and any(isinstance(v, Value) and v._source() is not None for v in values):
                return expression(*values, **params)
            return op(*values, **params)

        call.__name__ = call.__qualname__ = op.name
        call.__doc__ = forward.__doc__
        return call

    return make
