"""What the reductions share: one tensor in, one out, over some of its dimensions, and little time to lose.

Reductions of small tensors are part of every training step. What depends on a shape and on dimensions
alone is worked out once and remembered, and the kernel is called without detours.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from .. import config
from ..kernels import recording
from ..kernels.arrays import cast
from ..kernels.recording import active
from ..modes import modes
from ..op import KernelOp
from ..tape import LEAF, Entry, record
from .axes import count_of, final_shape, reduced, run_sizes, widened
from .dims import wrap_dims

_empty = np.empty
_BYTE = np.dtype(np.uint8)
_REMEMBERED = 8192  # shapes with dimensions


class Plan(NamedTuple):
    """A reduction of one shape: the dimensions, the shape of the result, and how many elements become one."""

    dims: tuple[int, ...]
    shape: tuple[int, ...]
    number: int


def plan(shape: tuple[int, ...], dim: Any, keepdim: bool) -> Plan:
    """The plan for ``dim`` as users write it: an int, several, or None; IndexError if out of range."""
    return _plan(shape, tuple(dim) if type(dim) is list else dim, keepdim)


@lru_cache(_REMEMBERED)
def _plan(shape: tuple[int, ...], dim: Any, keepdim: bool) -> Plan:
    dims = wrap_dims(dim, len(shape))
    return Plan(dims, final_shape(shape, dims, keepdim), count_of(shape, dims))


def reduce_array(
    reduction: Any,
    x: np.ndarray,
    dims: tuple[int, ...],
    shape: tuple[int, ...],
    dtype: Any,
    numbers: Any = (),
) -> np.ndarray:
    """A reduction of kernels/reduction.py over dims of a non-empty array, in a shape and dtype; bools are bytes of 0 and 1."""
    if x.dtype.char == "?":
        x = x.view(np.uint8)
        if dtype.char == "?":
            return reduce_array(reduction, x, dims, shape, _BYTE, numbers).view(dtype)
    half = x.dtype.char == "e" or dtype.char == "e"
    if x.size < config.grain and x.flags.c_contiguous and not half and not active:
        sizes, rest = run_sizes(x.shape, dims)
        if not rest:
            out = _empty(shape, dtype)
            reduction.small(x, out, sizes, numbers)
            return out
    if half:
        y = widened(x)
        result = reduced(reduction, y, dims, y.dtype, numbers)
        with np.errstate(over="ignore"):
            return cast(result, dtype).reshape(shape)
    return reduced(reduction, x, dims, dtype, numbers).reshape(shape)


def truth(
    reduction: Any, x: np.ndarray, dims: tuple[int, ...], shape: tuple[int, ...], dtype: Any
) -> np.ndarray:
    """Whether some or every element of a non-empty array is not zero: EVERY or SOME of kernels/reduce.py."""
    return cast(reduce_array(reduction, x, dims, shape, x.dtype), dtype)


class ReduceOp(KernelOp):
    """An op from one tensor to one tensor, whose rule may name x, x_shape, out and a residual."""

    def __init__(
        self,
        forward: Any,
        rules: dict[str, Any],
        node_name: str,
        name: str,
        residuals: dict[str, Any] | None = None,
        native: bool = False,
    ) -> None:
        super().__init__(forward, rules, ("out",), residuals or {}, node_name, name, native)

    def __call__(self, x: Any, **params: Any) -> Any:
        made = (
            self.forward(x._array, **params) if not active else recording.forward(self, (x._array,), params)
        )
        residual = None
        if self.residuals:
            made, residual = made
        made = x._make(made)
        if modes.grad and self.rules:
            node = x._node if x._view is None else x._source()
            if node is not None:
                made._node = self._recorded(x, x if node is LEAF else node, made, residual, params)
        return made

    def _recorded(self, x: Any, edge: Any, made: Any, residual: Any, params: dict[str, Any]) -> Entry:
        saved: list[Any] = []
        stamps: list[Any] = []
        for slot in self.slots:
            if slot in ("x", "out"):
                value = x if slot == "x" else made
                saved.append(value._array)
                stamps += (value._version, value._version[0])
            else:
                saved.append(x._array.shape if slot == "x_shape" else residual)
                stamps += (None, 0)
        meta = ((made._array.shape, made._array.dtype),)
        return record(self, (edge,), (x._index,), tuple(saved), tuple(stamps), params, meta)


def reduce_op(*, name: str, node_name: str, x: Any = None, native: bool = False) -> Any:
    """Make a ReduceOp of a function over an array; ``x`` is its rule, ``native`` see op.py."""
    rules = {} if x is None else {"x": x}
    return lambda forward: ReduceOp(forward, rules, node_name, name, None, native)
