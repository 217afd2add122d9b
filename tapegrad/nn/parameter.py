"""Tensors that a Module registers when they are assigned to it."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import dtypes
from ..device import check_device
from ..tensor import Tensor


def _over(data: Tensor | None, requires_grad: bool, cls: type[Any]) -> Any:
    """A leaf of the class over the memory of ``data``."""
    if data is None:
        array = np.empty(0, dtypes.get_default_dtype().numpy)
    elif isinstance(data, Tensor):
        array = data._array
    else:
        raise TypeError(
            f"{cls.__name__} is made from a Tensor, got {type(data).__name__}; use tapegrad.tensor(...)"
        )
    if requires_grad and not dtypes.of(array).is_floating_point:
        raise RuntimeError(
            "only tensors of floating-point dtype can require gradients, and this data is "
            f"{dtypes.of(array)}: "
            f"convert it, or pass requires_grad=False to {cls.__name__}"
        )
    made = Tensor._wrap(array, requires_grad, cls)
    if data is not None:
        made._version = data._version  # a change through either is noticed by what saved the other
    return made


class Parameter(Tensor):
    """A tensor that is a module's parameter: ``Parameter(data=None, requires_grad=True)``.

    It shares memory with ``data``, is a leaf whatever ``data`` was, and requires grad also if it is
    made under ``no_grad``. Assigned to an attribute of a Module it appears in ``parameters()``.
    Data of an integer or bool dtype needs ``requires_grad=False``.
    """

    def __new__(cls, data: Tensor | None = None, requires_grad: bool = True) -> Parameter:
        made: Parameter = _over(data, requires_grad, cls)
        return made

    def __init__(self, data: Tensor | None = None, requires_grad: bool = True) -> None:
        """The object is complete when __new__ returns."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Parameter:
        known = memo.get(id(self))
        if known is not None:
            return known  # type: ignore[no-any-return]
        # Not its gradient: a copied parameter starts without one.
        twin = type(self)(self.detach().clone(), self.requires_grad)
        memo[id(self)] = twin
        return twin

    def __repr__(self) -> str:  # type: ignore[override]
        return "Parameter containing:\n" + super().__repr__()


class Buffer(Tensor):
    """A tensor that is a module's buffer: ``Buffer(data=None, *, persistent=True)``.

    Assigned to an attribute of a Module it is registered as by ``register_buffer``. It does not
    require grad.
    """

    persistent: bool

    def __new__(cls, data: Tensor | None = None, *, persistent: bool = True) -> Buffer:
        made: Buffer = _over(data, False, cls)
        made.persistent = persistent
        return made

    def __init__(self, data: Tensor | None = None, *, persistent: bool = True) -> None:
        """The object is complete when __new__ returns."""


def empty(shape: tuple[int, ...], device: Any = None, dtype: dtypes.dtype | None = None) -> Tensor:
    """A tensor to be filled by an initialiser; ``dtype`` defaults to the default dtype."""
    check_device(device)
    kind = dtypes.get_default_dtype() if dtype is None else dtypes.as_dtype(dtype)
    made: Tensor = Tensor._make(np.empty(shape, kind.numpy))
    return made


def empty_parameter(*shape: int, device: Any = None, dtype: dtypes.dtype | None = None) -> Parameter:
    """A Parameter to be filled by an initialiser."""
    return Parameter(empty(shape, device, dtype))
