"""Optimizers whose step is one kernel call per parameter.

A kernel of ``kernels/optim.py`` reads a parameter, its gradient and its state once and writes
parameter and state once. A subclass says, per group, which kernel, which state and which numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import config, dtypes, kernels
from ..modes import enable_grad
from ..tape import site
from ..tensor import Tensor
from .optimizer import Optimizer, step_dtype


class FusedOptimizer(Optimizer):
    """Base of the optimizers that step by kernels; they differ in ``_update``.

    ``foreach`` and ``fused`` choose between implementations elsewhere; here there is one, and either
    value is accepted. ``differentiable`` and ``capturable`` are refused.
    """

    def __init__(self, params: Any, defaults: dict[str, Any]) -> None:
        for option in ("differentiable", "capturable"):
            if defaults.get(option):
                raise RuntimeError(
                    f"{type(self).__name__}: {option}=True is not supported: steps run in compiled kernels "
                    "outside "
                    "the tape. For a differentiable update write it with tensor operations."
                )
        if defaults.get("foreach") and defaults.get("fused"):
            raise RuntimeError("`fused` and `foreach` cannot be `True` together.")
        super().__init__(params, defaults)

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update all parameters that have a gradient.

        ``closure`` clears the gradients, computes the loss, calls backward and returns the loss, which
        step returns.
        """
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        # Where the parameters were changed, for messages about saved arrays that are out of date.
        mark = (f"{type(self).__name__}.step", site())
        for group in self.param_groups:
            self._update(group, mark)
        return loss

    def _update(self, group: dict[str, Any], mark: tuple[str, Any]) -> None:
        """Step over one group."""
        raise NotImplementedError


def number(value: Any) -> float:
    """An option that may be a number or a tensor of one element."""
    return float(value)


def one_element(name: str, value: Any) -> None:
    """Refuse a tensor of several elements as an option."""
    if isinstance(value, Tensor) and value.numel() != 1:
        raise ValueError(f"Tensor {name} must be 1-element")


def not_negative(what: str, value: Any) -> None:
    """Refuse negative numbers and NaN."""
    if not value >= 0.0:
        raise ValueError(f"{what}: {value}")


def check_betas(betas: Sequence[Any]) -> None:
    """Both decay rates have to lie in [0, 1)."""
    for i, beta in enumerate(betas):
        if not 0.0 <= beta < 1.0:
            raise ValueError(f"Invalid beta parameter at index {i}: {beta}")


def like(param: Tensor, value: float = 0.0) -> Tensor:
    """State of a parameter's shape and dtype, filled with a number."""
    made: Tensor = Tensor._make(np.full(param._array.shape, value, param._array.dtype))
    return made


def counter(value: float = 0.0) -> Tensor:
    """A 0-d tensor that counts steps."""
    made: Tensor = Tensor._make(np.array(value, step_dtype().numpy))
    return made


def counted(state: dict[str, Any]) -> float:
    """Add one to the count of steps in a parameter's state and return it."""
    array = state["step"]._array
    count: float = array.item() + 1.0
    array.fill(count)
    return count


class Runner:
    """Runs one kernel over parameters: the numbers are given once, the arrays one by one.

    Who changes ``numbers`` sets ``char`` to "".
    """

    __slots__ = ("_entry", "_flags", "_hyper", "_kernel", "_mark", "_n", "char", "numbers")

    def __init__(
        self,
        name: str,
        arrays: int,
        mark: tuple[str, Any],
        numbers: Sequence[float] = (),
        flags: tuple[int, ...] = (),
    ) -> None:
        self._kernel = getattr(kernels.optim, name)
        self._n = arrays
        self._mark = mark
        self._flags = flags
        self.numbers = numbers
        self.char = ""

    def _prepare(self, char: str) -> None:
        self.char = char
        self._hyper = np.array(self.numbers, char)
        self._entry = self._kernel.entry((*char * (self._n + 1), *("int",) * len(self._flags), "int", "int"))

    def __call__(self, param: Tensor, states: Sequence[Tensor]) -> None:
        """Update a parameter (its gradient must be there) and its state in place."""
        grad = param._grad
        char = param._char
        array = param._array
        size = array.size
        arrays = [array, grad._array]
        shape = array.shape
        plain = grad._char == char and grad._array.shape == shape and array.flags.writeable
        for state in states:
            if state._char != char or state._array.shape != shape:
                plain = False
            arrays.append(state._array)
        if not plain or char not in "fd" or not char:
            self._run_copies(arrays)
        else:
            if char != self.char:
                self._prepare(char)
            if size < config.grain:
                self._entry(*arrays, self._hyper, *self._flags, 0, size)
            else:
                kernels.launch_lazily(self._kernel, (*arrays, self._hyper, *self._flags), size, size)
        version = param._version
        version[0] += 1
        version[1] = self._mark

    def _run_copies(self, arrays: list[np.ndarray]) -> None:
        """For arrays that kernels do not take (strided, float16, mixed): on copies, written back."""
        dtype = dtypes.of(arrays[0])
        if not dtype.is_floating_point:
            raise RuntimeError(f"{self._mark[0]}: cannot update a parameter of dtype {dtype}")
        if not arrays[0].flags.writeable:
            raise RuntimeError(f"{self._mark[0]}: the memory of a parameter is read-only; clone() it first")
        shapes = [a.shape for a in arrays]
        if len(set(shapes)) > 1:
            raise RuntimeError(
                f"{self._mark[0]}: a parameter of shape {list(shapes[0])} has a gradient of shape {list(shapes[1])} and state of "
                f"shape(s) {[list(s) for s in shapes[2:]]}. Was its .data replaced, or the state of another parameter loaded? "
                "Make a new optimizer, or load the state that belongs to it."
            )
        char = "d" if arrays[0].dtype.char == "d" else "f"
        if char != self.char:
            self._prepare(char)
        copies = [np.array(a, char, order="C") for a in arrays]
        size = copies[0].size
        kernels.launch_lazily(self._kernel, (*copies, self._hyper, *self._flags), size, size)
        for j, copy in enumerate(copies):
            if j != 1:  # the gradient is only read
                np.copyto(arrays[j], copy, casting="same_kind")
