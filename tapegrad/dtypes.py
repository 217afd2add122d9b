"""Element types and PyTorch's rules for combining them.

Promotion goes by category (bool < integer < floating). Within a category a tensor with
dimensions outranks a 0-d tensor, and that outranks a Python number: ``float32 * 2.5`` stays float32.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

BOOL, INTEGER, FLOATING = 0, 1, 2


class dtype:
    """An element type, e.g. ``tapegrad.float32``; one object per type."""

    __slots__ = ("category", "char", "itemsize", "name", "numpy", "short")

    def __init__(self, name: str, short: str) -> None:
        self.name = name
        self.numpy = np.dtype(name)
        self.char = self.numpy.char
        self.short = short
        self.itemsize = self.numpy.itemsize
        self.category = {"b": BOOL, "i": INTEGER, "u": INTEGER, "f": FLOATING}[self.numpy.kind]

    @property
    def is_floating_point(self) -> bool:
        return self.category == FLOATING

    @property
    def is_complex(self) -> bool:
        return False

    @property
    def is_signed(self) -> bool:
        return self.numpy.kind in "if"

    def __repr__(self) -> str:
        return f"tapegrad.{self.name}"

    def __reduce__(self) -> str:
        return self.name  # pickled and copied by name: stays the one object


float16 = half = dtype("float16", "Half")
float32 = dtype("float32", "Float")
float64 = double = dtype("float64", "Double")
uint8 = dtype("uint8", "Byte")
int8 = dtype("int8", "Char")
int16 = short = dtype("int16", "Short")
int32 = dtype("int32", "Int")
int64 = long = dtype("int64", "Long")
bool_ = dtype("bool", "Bool")

ALL = (bool_, uint8, int8, int16, int32, int64, float16, float32, float64)
# By NumPy's type number: the fastest key that an array offers.
BY_NUM: dict[int, dtype] = {d.numpy.num: d for d in ALL}
BY_CHAR: dict[str, dtype] = {d.char: d for d in ALL}
_FROM_PYTHON: dict[Any, dtype] = {bool: bool_, int: int64, float: float64}

_default = float32


def get_default_dtype() -> dtype:
    """The type of floating tensors made from Python numbers (float32 unless changed)."""
    return _default


def set_default_dtype(d: Any) -> None:
    """Set the type of floating tensors made from Python numbers."""
    global _default
    if not isinstance(d, dtype) or not d.is_floating_point:
        raise TypeError(f"only floating-point types are supported as the default type, got {d!r}")
    _default = d


def as_dtype(d: Any) -> dtype:
    """A dtype from a dtype, a NumPy type or Python's bool, int and float."""
    if isinstance(d, dtype):
        return d
    if d in _FROM_PYTHON:
        return _FROM_PYTHON[d]
    if isinstance(d, (np.dtype, type)):
        found = BY_CHAR.get(native(np.dtype(d)).char)
        if found is not None:
            return found
    raise TypeError(f"dtype must be a tapegrad.dtype such as tapegrad.float32, got {d!r}")


_BY_TYPE = {f"{library}.{d.short}Tensor": d for d in ALL for library in ("tapegrad", "torch")}


def of_type(t: Any) -> dtype:
    """A dtype from any of its names: also ``LongTensor`` and "torch.LongTensor"."""
    if isinstance(t, str):
        if t not in _BY_TYPE:
            raise ValueError(f"invalid type: {t!r}; a type is named like 'tapegrad.FloatTensor'")
        return _BY_TYPE[t]
    held = getattr(t, "dtype", None) if isinstance(t, type) else None
    return held if isinstance(held, dtype) else as_dtype(t)


def native(d: np.dtype) -> np.dtype:
    """The same NumPy type in this machine's byte order and with one name per width."""
    return np.dtype(d.kind + str(d.itemsize)) if d.kind in "iuf" else d


def of(array: np.ndarray) -> dtype:
    """The dtype of an array that a tensor holds."""
    return BY_NUM[array.dtype.num]


_SIGNED = {1: int8, 2: int16, 4: int32, 8: int64}


def promote_types(a: dtype, b: dtype) -> dtype:
    """The smallest type to which both can be converted, category first."""
    if a is b:
        return a
    if a.category != b.category:
        return a if a.category > b.category else b
    if a.is_signed == b.is_signed:
        return a if a.itemsize >= b.itemsize else b
    signed, unsigned = (a, b) if a.is_signed else (b, a)
    return signed if signed.itemsize > unsigned.itemsize else _SIGNED[2 * unsigned.itemsize]


def of_number(value: Any) -> dtype:
    """The type of a tensor made from one Python number."""
    if isinstance(value, (bool, np.bool_)):
        return bool_
    if isinstance(value, (int, np.integer)):
        return int64
    return _default


def combine(with_dims: dtype | None, zero_dim: dtype | None, number: dtype | None) -> dtype:
    """Result type from the best type of each rank of operands."""
    result = with_dims
    for lower in (zero_dim, number):
        if lower is None:
            continue
        if result is None:
            result = lower
        elif lower.category > result.category:
            result = promote_types(result, lower)
    assert result is not None
    return result


def result_type(operands: Iterable[Any]) -> dtype:
    """PyTorch's promotion over tensors (anything with ``_array``) and numbers."""
    best: list[dtype | None] = [None, None, None]
    for x in operands:
        array = getattr(x, "_array", None)
        rank = 2 if array is None else (1 if array.ndim == 0 else 0)
        d = of_number(x) if array is None else of(array)
        had = best[rank]
        best[rank] = d if had is None else promote_types(had, d)
    return combine(*best)


class finfo:
    """Limits of a floating type: eps, max, min, tiny, smallest_normal, resolution, bits."""

    def __init__(self, d: dtype | None = None) -> None:
        d = _default if d is None else as_dtype(d)
        if not d.is_floating_point:
            raise TypeError(f"finfo needs a floating-point type, got {d}; use iinfo")
        info = np.finfo(d.numpy)
        self.dtype = d.name
        self.bits = int(info.bits)
        self.eps = float(info.eps)
        self.max = float(info.max)
        self.min = float(info.min)
        self.tiny = self.smallest_normal = float(info.smallest_normal)
        self.resolution = float(info.resolution)

    def __repr__(self) -> str:
        return f"finfo(resolution={self.resolution:g}, min={self.min:g}, max={self.max:g}, eps={self.eps:g}, smallest_normal={self.smallest_normal:g}, tiny={self.tiny:g}, dtype={self.dtype})"


class iinfo:
    """Limits of an integer type: min, max, bits."""

    def __init__(self, d: dtype) -> None:
        d = as_dtype(d)
        if d.category != INTEGER:
            raise TypeError(f"iinfo needs an integer type, got {d}; use finfo")
        info = np.iinfo(d.numpy)
        self.dtype = d.name
        self.bits, self.min, self.max = int(info.bits), int(info.min), int(info.max)

    def __repr__(self) -> str:
        return f"iinfo(min={self.min}, max={self.max}, dtype={self.dtype})"
