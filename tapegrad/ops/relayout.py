"""In-place forms of view operations: the tensor itself gets another shape over the same memory."""

from __future__ import annotations

import gc
from typing import Any

from ..modes import modes
from ..op import check_inplace
from ..tape import LEAF, View
from .shape import squeeze, t, transpose, unsqueeze


def _relaid(self: Any, made: Any, name: str) -> Any:
    """Let the tensor become the view of itself that was made."""
    if modes.grad:
        check_inplace(self, name)
    # Views know how they follow from their base's shape, so a base with views must keep it.
    others = [r for r in gc.get_referrers(self) if type(r) is View and r is not made._view]
    if others:
        raise RuntimeError(
            f"{name}: there are {len(others)} views of this tensor, which follow from its present shape; use "
            "the out-of-place "
            f"form {name.rstrip('_')}() instead"
        )
    self._set_array(made._array)
    if self._view is not None:
        self._view = made._view
    if self._node is not LEAF:
        self._node, self._index = made._node, made._index
    return self


def transpose_(self: Any, dim0: int, dim1: int) -> Any:
    """In place: two dimensions exchanged."""
    return _relaid(self, transpose(self, dim0, dim1), "transpose_")


def t_(self: Any) -> Any:
    """In place: the transpose of a matrix."""
    return _relaid(self, t(self), "t_")


def squeeze_(self: Any, dim: Any = None) -> Any:
    """In place: without the dimensions of size 1, all, one or several."""
    return _relaid(self, squeeze(self, dim), "squeeze_")


def unsqueeze_(self: Any, dim: int) -> Any:
    """In place: a new dimension of size 1."""
    return _relaid(self, unsqueeze(self, dim), "unsqueeze_")


class RelayoutMethods:
    """a.t_(), a.squeeze_(), ..."""

    __slots__ = ()

    transpose_, swapaxes_, swapdims_, t_ = transpose_, transpose_, transpose_, t_
    squeeze_, unsqueeze_ = squeeze_, unsqueeze_
