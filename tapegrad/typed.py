"""The old names of tensors by their element type: ``LongTensor([1, 2])``, ``isinstance(x, FloatTensor)``."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from . import dtypes
from .device import check_device
from .ops import interop
from .size import Size
from .tensor import Tensor


class _Typed(type):
    """The class of these classes: they have no instances of their own, but make and recognise tensors."""

    dtype: dtypes.dtype

    def __instancecheck__(cls, x: Any) -> bool:
        return isinstance(x, Tensor) and x.dtype is cls.dtype

    def __call__(cls, *data: Any, device: Any = None) -> Any:
        """A tensor of given sizes, whose content is arbitrary, or of the values of a sequence or an array."""
        check_device(device)
        wanted = cls.dtype.numpy
        if len(data) != 1 or (isinstance(data[0], (int, Size)) and not isinstance(data[0], bool)):
            sizes = data[0] if len(data) == 1 and isinstance(data[0], Size) else data
            return Tensor._make(np.empty(sizes or (0,), wanted))
        (given,) = data
        if isinstance(given, Tensor):
            if given.dtype is not cls.dtype:
                raise TypeError(
                    f"{cls.__name__} expected a tensor of {cls.dtype} but got {given.dtype}; convert it with .to"
                )
            return given.detach()
        if isinstance(given, (str, bytes)):
            raise TypeError(f"{cls.__name__}: invalid data type {type(given).__name__!r}")
        if not hasattr(given, "__len__"):
            raise TypeError(f"{cls.__name__}: data must be a sequence (got {type(given).__name__})")
        return Tensor._make(np.array(interop.to_array(given)).astype(wanted))


class FloatTensor(metaclass=_Typed):
    """Tensors of float32."""

    dtype = dtypes.float32


class DoubleTensor(metaclass=_Typed):
    """Tensors of float64."""

    dtype = dtypes.float64


class HalfTensor(metaclass=_Typed):
    """Tensors of float16."""

    dtype = dtypes.float16


class ByteTensor(metaclass=_Typed):
    """Tensors of uint8."""

    dtype = dtypes.uint8


class CharTensor(metaclass=_Typed):
    """Tensors of int8."""

    dtype = dtypes.int8


class ShortTensor(metaclass=_Typed):
    """Tensors of int16."""

    dtype = dtypes.int16


class IntTensor(metaclass=_Typed):
    """Tensors of int32."""

    dtype = dtypes.int32


class LongTensor(metaclass=_Typed):
    """Tensors of int64."""

    dtype = dtypes.int64


class BoolTensor(metaclass=_Typed):
    """Tensors of bool."""

    dtype = dtypes.bool_


def set_default_tensor_type(t: Any) -> None:
    """The old form of ``set_default_dtype``: ``FloatTensor`` or "torch.FloatTensor"."""
    warnings.warn(
        "set_default_tensor_type() is deprecated, please use set_default_dtype()", UserWarning, stacklevel=2
    )
    dtypes.set_default_dtype(dtypes.of_type(t))
