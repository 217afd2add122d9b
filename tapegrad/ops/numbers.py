"""Python numbers on their way into a tensor."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import dtypes

_C_NAMES = {
    "float16": "c10::Half", "float32": "float", "float64": "double", "uint8": "uint8_t", "int8": "int8_t",
    "int16": "short", "int32": "int", "int64": "int64_t",
}  # fmt: skip


def is_number(value: Any) -> bool:
    """Whether a value is one number of Python or NumPy."""
    return isinstance(value, (bool, int, float, np.bool_, np.integer, np.floating))


def element(value: Any, dtype: np.dtype) -> np.ndarray:
    """A number as a 0-d array of a dtype; RuntimeError if it does not fit.

    Fractions are cut off, and a negative number wraps around in an unsigned type, as in PyTorch.
    """
    if isinstance(value, np.generic):
        value = value.item()
    if dtype.kind == "b":
        return np.array(bool(value))
    if isinstance(value, int) and not -(2**63) <= value < 2**64:
        raise ValueError(f"Overflow when unpacking long long: {value}")
    if dtype.kind == "f":
        if math.isfinite(value) and abs(value) > float(np.finfo(dtype).max):
            raise _overflow(value, dtype)
        return np.array(value, dtype)
    if not math.isfinite(value):
        raise _overflow(value, dtype)
    whole, info = int(value), np.iinfo(dtype)
    least = int(info.min) if dtype.kind == "i" else -int(info.max)
    if not least <= whole <= int(info.max):
        raise _overflow(value, dtype)
    return np.array(whole % 256 if dtype.kind == "u" else whole).astype(dtype)


def _overflow(value: Any, dtype: np.dtype) -> RuntimeError:
    return RuntimeError(
        f"value cannot be converted to type {_C_NAMES[dtype.name]} without overflow: {value} is outside the "
        "range of "
        f"{dtypes.BY_CHAR[dtype.char]}"
    )
