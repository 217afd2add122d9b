"""Padding of the last one, two or three dimensions."""

from __future__ import annotations

from typing import Any, ClassVar

from ...tensor import Tensor
from .. import functional as F
from ..module import Module
from .sizes import ntuple


class _Pad(Module):
    """``padding`` is a number, or (left, right, top, bottom, front, back) as far as there are dimensions."""

    dims: ClassVar[int]
    mode: ClassVar[str]

    def __init__(self, padding: Any) -> None:
        super().__init__()
        self.padding = ntuple(padding, 2 * self.dims)

    def forward(self, input: Tensor) -> Any:
        return F.pad(input, self.padding, self.mode)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class _ConstantPad(_Pad):
    mode = "constant"
    value: float

    def __init__(self, padding: Any, value: float) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, input: Tensor) -> Any:
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


class ConstantPad1d(_ConstantPad):
    """Pads the last dimension with a number."""

    dims = 1


class ConstantPad2d(_ConstantPad):
    """Pads the last two dimensions with a number."""

    dims = 2


class ConstantPad3d(_ConstantPad):
    """Pads the last three dimensions with a number."""

    dims = 3


class _ZeroPad(_ConstantPad):
    def __init__(self, padding: Any) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class ZeroPad1d(_ZeroPad):
    """Pads the last dimension with zeros."""

    dims = 1


class ZeroPad2d(_ZeroPad):
    """Pads the last two dimensions with zeros."""

    dims = 2


class ZeroPad3d(_ZeroPad):
    """Pads the last three dimensions with zeros."""

    dims = 3


class _ReflectionPad(_Pad):
    mode = "reflect"


class ReflectionPad1d(_ReflectionPad):
    """Pads the last dimension with its mirror image, without repeating the edge."""

    dims = 1


class ReflectionPad2d(_ReflectionPad):
    """Pads the last two dimensions with their mirror image, without repeating the edge."""

    dims = 2


class ReflectionPad3d(_ReflectionPad):
    """Pads the last three dimensions with their mirror image, without repeating the edge."""

    dims = 3


class _ReplicationPad(_Pad):
    mode = "replicate"


class ReplicationPad1d(_ReplicationPad):
    """Pads the last dimension with its edge."""

    dims = 1


class ReplicationPad2d(_ReplicationPad):
    """Pads the last two dimensions with their edges."""

    dims = 2


class ReplicationPad3d(_ReplicationPad):
    """Pads the last three dimensions with their edges."""

    dims = 3


class _CircularPad(_Pad):
    mode = "circular"

    def forward(self, input: Tensor) -> Any:
        least = self.dims + 1
        if input.dim() not in (least, least + 1):
            raise ValueError(
                f"{type(self).__name__}: expected {least}D or {least + 1}D input (got {input.dim()}D input)"
            )
        return super().forward(input)


class CircularPad1d(_CircularPad):
    """Pads the last dimension with what is at its other end."""

    dims = 1


class CircularPad2d(_CircularPad):
    """Pads the last two dimensions with what is at their other ends."""

    dims = 2


class CircularPad3d(_CircularPad):
    """Pads the last three dimensions with what is at their other ends."""

    dims = 3
