"""Data from Python and NumPy, and NumPy's functions called with tensors."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import numpy as np

from .. import dtypes
from ..kernels.arrays import cast, duplicate
from ..kernels.recording import active, refuse
from ..tape import Value


def to_array(data: Any, dtype: dtypes.dtype | None = None) -> np.ndarray:
    """A new array from numbers, nested sequences, arrays and tensors, with PyTorch's dtype for it.

    RuntimeError for a number that an integer ``dtype`` cannot hold; arrays and tensors are converted as C does it.
    """
    if isinstance(data, Value):
        data = data._array
        if active:
            return cast(duplicate(data), data.dtype if dtype is None else dtype.numpy)
    elif hasattr(data, "__array__"):
        data = np.asarray(data)
    if isinstance(data, np.ndarray):
        to = dtypes.as_dtype(data.dtype) if dtype is None else dtype
        with np.errstate(all="ignore"):
            return np.array(data, dtype=to.numpy, order="C")
    found: set[dtypes.dtype] = set()
    plain = _plain(data, found)
    if dtype is None:
        dtype = functools.reduce(dtypes.promote_types, found) if found else dtypes.get_default_dtype()
        if dtype.category == dtypes.INTEGER and not found & set(_SIZED) and _too_long(plain):
            raise ValueError(
                "Overflow when unpacking long long: a whole number is outside the range of int64"
            )
    return _fitted(plain, dtype)


_SIZED = tuple(d for d in dtypes.ALL if d is not dtypes.int64)
_PYTHON = (bool, int, float)


def _plain(data: Any, found: set[dtypes.dtype]) -> Any:
    """Numbers and nested lists of numbers and arrays; adds to ``found`` the types that occur."""
    if isinstance(data, Value):
        refuse("a tensor made of other tensors' values (use stack or cat)")
        data = data._array
    elif hasattr(data, "__array__"):
        data = np.asarray(data)
    if isinstance(data, np.ndarray):
        found.add(dtypes.as_dtype(data.dtype))
        return data if data.ndim else data[()]
    if isinstance(data, _PYTHON):
        found.add(dtypes.of_number(data))
        return data
    if isinstance(data, (str, bytes, complex)):
        raise TypeError(f"new(): invalid data type '{type(data).__name__}'")
    if isinstance(data, Mapping) or not (hasattr(data, "__len__") and hasattr(data, "__getitem__")):
        raise RuntimeError(f"Could not infer dtype of {type(data).__name__}")
    kinds = set(map(type, data))
    if kinds <= set(_PYTHON):
        found.update(dtypes.of_number(kind()) for kind in kinds)
        return data if isinstance(data, (list, tuple, range)) else list(data)
    return [_plain(x, found) for x in data]


def _too_long(plain: Any) -> bool:
    natural = _laid_out(plain, None)
    return natural.dtype.kind in "Ou" and natural.dtype.char != "B"


def _laid_out(plain: Any, dtype: Any) -> np.ndarray:
    try:
        return np.array(plain, dtype, order="C")
    except OverflowError:
        return np.array(plain, object)
    except ValueError:
        raise ValueError(
            "expected sequences of equal length at every level: the nested list is ragged. Pad it, or make one tensor per row."
        ) from None


def _fitted(plain: Any, to: dtypes.dtype) -> np.ndarray:
    """Numbers in a type that holds them; a negative one wraps around in an unsigned type, as in PyTorch."""
    if to.category == dtypes.FLOATING:
        with np.errstate(all="ignore"):
            return _laid_out(plain, np.float64).astype(to.numpy, copy=False)
    array = _laid_out(plain, None)
    if to.category == dtypes.BOOL:
        return np.asarray(array != 0)
    if array.size and array.dtype.kind != "b" and array.dtype != to.numpy:
        info = np.iinfo(to.numpy)
        least = info.min if to.is_signed else -info.max
        whole = np.trunc(array) if array.dtype.kind == "f" else array
        if not (least <= whole.min() and whole.max() <= info.max) or (
            array.dtype.kind == "f" and whole.max() == 2.0**63
        ):
            raise RuntimeError(
                f"value cannot be converted to type {to.name} without overflow: it is not within the range of {to}"
            )
    if array.dtype.kind == "O":
        array = array.astype(np.int64)
    return array.astype(to.numpy, copy=False)


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
