"""Data from Python and NumPy, and NumPy's functions called with tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import dtypes
from ..tape import Value


def to_array(data: Any, dtype: dtypes.dtype | None = None) -> np.ndarray:
    """A new array from numbers, nested sequences, arrays and tensors, with PyTorch's dtype for it."""
    if isinstance(data, Value):
        return np.array(data._array, dtype=None if dtype is None else dtype.numpy, order="C")
    if isinstance(data, (np.ndarray, np.generic)):
        array = np.asarray(data)
        if dtype is None:
            dtype = dtypes.as_dtype(array.dtype)
        return np.array(array, dtype=dtype.numpy, order="C")
    if isinstance(data, (bool, int, float)):
        to = dtypes.of_number(data) if dtype is None else dtype
        return _filled(data, to)
    if (
        not isinstance(data, (list, tuple, range))
        and not hasattr(data, "__array__")
        and not hasattr(data, "__iter__")
    ):
        raise TypeError(
            f"new(): data must be a number, a sequence, an array or a tensor, got {type(data).__name__}"
        )
    try:
        array = np.array(_plain(data), order="C")
    except ValueError:
        raise ValueError(
            "expected sequences of equal length at every level: the nested list is ragged. Pad it, or make one tensor per row."
        ) from None
    if array.dtype.kind in "OUS":
        raise TypeError(f"a tensor cannot be made of {_first_odd(data)}")
    if dtype is None:
        if not array.size or (array.dtype.kind == "f" and not _holds_arrays(data)):
            dtype = dtypes.get_default_dtype()
        else:
            dtype = dtypes.as_dtype(array.dtype)
    return array.astype(dtype.numpy, copy=False)


def _filled(value: Any, to: dtypes.dtype) -> np.ndarray:
    try:
        return np.array(value, dtype=to.numpy)
    except OverflowError:
        raise RuntimeError(f"value {value} cannot be converted to type {to} without overflow") from None


def _plain(data: Any) -> Any:
    """Tensors inside sequences replaced by their arrays."""
    if isinstance(data, Value):
        return data._array if data._array.ndim else data._array[()]
    if isinstance(data, (list, tuple)):
        return [_plain(x) for x in data] if any(isinstance(x, (list, tuple, Value)) for x in data) else data
    return data if isinstance(data, range) or hasattr(data, "__array__") else list(data)


def _holds_arrays(data: Any) -> bool:
    """Whether the innermost items carry a dtype of their own."""
    while isinstance(data, (list, tuple)) and data:
        data = data[0]
    return isinstance(data, (np.ndarray, np.generic, Value))


def _first_odd(data: Any) -> str:
    if isinstance(data, (list, tuple)):
        for item in data:
            found = _first_odd(item)
            if found:
                return found
        return ""
    return (
        ""
        if isinstance(data, (bool, int, float, np.ndarray, np.generic, Value))
        else f"{type(data).__name__} ({data!r:.40})"
    )


def from_numpy(array: np.ndarray, cls: Any) -> Any:
    """A tensor over the memory of an array."""
    if not isinstance(array, np.ndarray):
        raise TypeError(f"expected np.ndarray (got {type(array).__name__})")
    dtypes.as_dtype(array.dtype)
    if array.dtype != dtypes.native(array.dtype):
        raise ValueError(
            f"given numpy array has byte order different from the native byte order ({array.dtype}); copy it with .astype"
        )
    if any(s < 0 for s in array.strides):
        raise ValueError(
            "At least one stride in the given numpy array is negative, and tensors with negative strides are not supported. Copy it first."
        )
    if any(s % array.itemsize for s in array.strides):
        raise ValueError(
            "given numpy array strides not a multiple of the element byte size. Copy the numpy array to reallocate the memory."
        )
    return cls._make(array.view(dtypes.native(array.dtype)))


_UFUNCS = {
    "multiply": "mul", "subtract": "sub", "divide": "div", "true_divide": "div", "power": "pow", "float_power": "pow",
    "absolute": "abs", "negative": "neg", "less": "lt", "less_equal": "le", "greater": "gt", "greater_equal": "ge",
    "equal": "eq", "not_equal": "ne", "invert": "bitwise_not", "arcsin": "asin", "arccos": "acos", "arctan": "atan",
    "arctan2": "atan2", "arcsinh": "asinh", "arccosh": "acosh", "arctanh": "atanh", "rint": "round", "positive": "positive",
    "left_shift": "bitwise_left_shift", "right_shift": "bitwise_right_shift",
}  # fmt: skip


def call_ufunc(ufunc: Any, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """``np.exp(t)`` and ``array * t``: the tapegrad operation of that name, recorded as usual."""
    name = _UFUNCS.get(ufunc.__name__, ufunc.__name__)
    if method != "__call__" or kwargs:
        raise TypeError(
            f"numpy.{ufunc.__name__}.{method} with {sorted(kwargs) or 'these arguments'} cannot be applied to a tensor; use tapegrad's functions, or tensor.detach().numpy()"
        )
    first = next(x for x in inputs if isinstance(x, Value))
    tensors = [x if isinstance(x, (Value, int, float)) else first._make(to_array(x)) for x in inputs]
    lead = tensors[0]
    if not isinstance(lead, Value):
        lead = first._make(np.asarray(lead, dtype=dtypes.result_type([lead, first]).numpy))
    function = getattr(type(lead), name, None)
    if function is None:
        raise TypeError(
            f"numpy.{ufunc.__name__} has no counterpart in tapegrad; use tensor.detach().numpy() for a plain array"
        )
    return function(lead, *tensors[1:])
