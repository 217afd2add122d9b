"""Variable: what a tensor that takes part in gradients was called before tensors did so themselves."""

from __future__ import annotations

import warnings
from typing import Any

from ..tensor import Tensor


class _Meta(type):
    """Every tensor is a Variable."""

    def __instancecheck__(cls, x: Any) -> bool:
        return isinstance(x, Tensor)

    def __call__(cls, data: Any = None, requires_grad: bool = False, volatile: bool = False) -> Any:
        """A leaf over the memory of a tensor, of the same dtype."""
        if volatile:
            warnings.warn(
                "volatile was removed and now has no effect. Use `with tapegrad.no_grad():` instead.",
                UserWarning,
                stacklevel=2,
            )
        if data is None:
            return Tensor()
        if not isinstance(data, Tensor):
            raise TypeError(f"Variable data has to be a tensor, but got {type(data).__name__}")
        made = data.detach()
        return made.requires_grad_() if requires_grad else made


class Variable(metaclass=_Meta):
    """``Variable(tensor, requires_grad=False)``; use tensors themselves."""
