"""Small questions about tensors, and constants, that programs expect beside the ops."""

from __future__ import annotations

import math
from typing import Any

from .device import cpu, device
from .tensor import Tensor

pi, e, inf, nan = math.pi, math.e, math.inf, math.nan
newaxis = None


def is_tensor(obj: Any) -> bool:
    """Whether this is a tensor."""
    return isinstance(obj, Tensor)


def numel(input: Tensor) -> int:
    """The number of elements."""
    return int(_tensor(input, "numel").numel())


def is_floating_point(input: Tensor) -> bool:
    """Whether the elements are floating-point numbers."""
    return bool(_tensor(input, "is_floating_point").is_floating_point())


def is_complex(input: Tensor) -> bool:
    """Whether the elements are complex numbers: never here."""
    return bool(_tensor(input, "is_complex").is_complex())


def is_signed(input: Tensor) -> bool:
    """Whether the elements may be negative."""
    return bool(_tensor(input, "is_signed").is_signed())


def is_inference(input: Tensor) -> bool:
    """Whether the tensor was made under ``inference_mode``."""
    return bool(_tensor(input, "is_inference").is_inference())


def is_same_size(input: Tensor, other: Tensor) -> bool:
    """Whether two tensors have the same shape."""
    return bool(_tensor(input, "is_same_size").shape == _tensor(other, "is_same_size").shape)


def typename(obj: Any) -> str:
    """A tensor's type such as "tapegrad.FloatTensor", or the name of another object's class with its module."""
    if isinstance(obj, Tensor):
        return str(obj.type())
    kind = obj if hasattr(obj, "__qualname__") else type(obj)
    module = getattr(kind, "__module__", None)
    hidden = module in (None, "builtins", "__builtin__")
    return str(kind.__qualname__) if hidden else f"{module}.{kind.__qualname__}"


def get_default_device() -> device:
    """Where tensors are made: on the CPU."""
    return cpu


def set_default_device(device_: Any) -> None:
    """RuntimeError unless it is the CPU or None."""
    if device_ is not None:
        device(device_)


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Changes nothing: every kernel gives the same bits each time, for any number of threads."""


def are_deterministic_algorithms_enabled() -> bool:
    """Always True, see ``use_deterministic_algorithms``."""
    return True


def set_float32_matmul_precision(precision: str) -> None:
    """ "highest" is what there is; "high" and "medium" allow less and change nothing."""
    if precision not in ("highest", "high", "medium"):
        raise ValueError(f"precision must be 'highest', 'high' or 'medium', got {precision!r}")


def get_float32_matmul_precision() -> str:
    """Always "highest"."""
    return "highest"


def _tensor(x: Any, name: str) -> Any:
    if not isinstance(x, Tensor):
        raise TypeError(f"{name}(): argument 'input' must be Tensor, not {type(x).__name__}")
    return x
