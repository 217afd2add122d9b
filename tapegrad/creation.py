"""Functions that make tensors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from . import dtypes
from .device import check_device
from .formats import check_format
from .kernels.arrays import copy
from .kernels.recording import active, now
from .ops import interop
from .ops.dims import shape_args
from .ops.numbers import is_number
from .tape import Value
from .tensor import Tensor


def _finish(array: np.ndarray, requires_grad: bool, out: Any = None) -> Tensor:
    """A tensor over the array, or ``out`` with the array's shape and values."""
    made: Tensor = Tensor._make(array) if out is None else out
    if active and (recorder := now()) is not None:
        if out is not None:
            recorder.touch(out._array)
        elif array.flags.owndata:
            recorder.constant(made)
    if out is not None:
        if out._array.shape != array.shape:
            out._set_array(np.empty(array.shape, array.dtype))
        copy(out._array, array)
        out._bump("out=")
    return made.requires_grad_() if requires_grad else made


def _checked(dtype: Any, device: Any, layout: Any, pin_memory: bool, out: Any = None) -> dtypes.dtype | None:
    check_device(device)
    if layout not in (None, "strided"):
        raise RuntimeError(f"only strided tensors are supported, got layout={layout!r}")
    if pin_memory:
        raise RuntimeError("pin_memory needs an accelerator; tapegrad computes on the CPU only")
    to = None if dtype is None else dtypes.as_dtype(dtype)
    if out is None:
        return to
    if not isinstance(out, Tensor):
        raise TypeError(f"argument 'out' must be Tensor, not {type(out).__name__}")
    if to not in (None, out.dtype):
        raise RuntimeError(f"dtype {to} does not match dtype of out parameter ({out.dtype})")
    return out.dtype


def tensor(
    data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, pin_memory: bool = False
) -> Tensor:
    """A new tensor with a copy of ``data``: a number, a nested sequence, an array or a tensor.

    Python floats become the default dtype, ints int64, bools bool; arrays keep their dtype.
    """
    to = _checked(dtype, device, None, pin_memory)
    return _finish(interop.to_array(data, to), requires_grad)


def as_tensor(data: Any, dtype: Any = None, device: Any = None) -> Tensor:
    """Like tensor(), but without a copy where none is needed."""
    to = _checked(dtype, device, None, False)
    if isinstance(data, Tensor):
        return data if to is None else data.to(to)
    if isinstance(data, np.ndarray) and (to is None or to.numpy == data.dtype):
        return from_numpy(data)
    return _finish(interop.to_array(data, to), False)


asarray = as_tensor


def from_numpy(ndarray: np.ndarray) -> Tensor:
    """A tensor over the memory of an array: a change of either is seen by both."""
    return interop.from_numpy(ndarray, Tensor)  # type: ignore[no-any-return]


def from_dlpack(ext_tensor: Any) -> Tensor:
    """A tensor over the memory of any object with ``__dlpack__`` on the CPU."""
    return from_numpy(np.from_dlpack(ext_tensor))


def frombuffer(
    buffer: Any, *, dtype: Any, count: int = -1, offset: int = 0, requires_grad: bool = False
) -> Tensor:
    """A 1-d tensor over the bytes of a buffer."""
    return _finish(np.frombuffer(buffer, dtypes.as_dtype(dtype).numpy, count, offset), requires_grad)


def scalar_tensor(s: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """A 0-d tensor of the default dtype."""
    return tensor(s, dtype=dtype or dtypes.get_default_dtype(), device=device, requires_grad=requires_grad)


# -- filled ----------------------------------------------------------------------------------------


def _sizes(size: tuple[Any, ...]) -> tuple[int, ...]:
    shape = shape_args(size)
    if any(n < 0 for n in shape):
        raise RuntimeError(f"Trying to create tensor with negative dimension {min(shape)}: {list(shape)}")
    return shape


def _float_type(dtype: dtypes.dtype | None) -> np.dtype:
    return (dtype or dtypes.get_default_dtype()).numpy


def empty(
    *size: Any,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    layout: Any = None,
    pin_memory: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """An uninitialised tensor."""
    check_format(memory_format)
    to = _checked(dtype, device, layout, pin_memory)
    return _finish(np.empty(_sizes(size), _float_type(to)), requires_grad)


def zeros(
    *size: Any,
    out: Any = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    layout: Any = None,
    pin_memory: bool = False,
) -> Tensor:
    """Zeros."""
    to = _checked(dtype, device, layout, pin_memory, out)
    return _finish(np.zeros(_sizes(size), _float_type(to)), requires_grad, out)


def ones(
    *size: Any,
    out: Any = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    layout: Any = None,
    pin_memory: bool = False,
) -> Tensor:
    """Ones."""
    to = _checked(dtype, device, layout, pin_memory, out)
    return _finish(np.ones(_sizes(size), _float_type(to)), requires_grad, out)


def full(
    size: Any,
    fill_value: Any,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    layout: Any = None,
    out: Any = None,
) -> Tensor:
    """One value everywhere; its type is that of the value."""
    to = _checked(dtype, device, layout, False, out)
    value = fill_value.item() if isinstance(fill_value, Tensor) else fill_value
    if not is_number(value):
        raise TypeError(
            f"full(): argument 'fill_value' (position 2) must be Number, not {type(value).__name__}"
        )
    if to is None:
        to = dtypes.of_number(value)
    array = np.empty(_sizes((size,)), to.numpy)
    array[...] = interop.to_array(value, to)
    return _finish(array, requires_grad, out)


def _like(input: Any, dtype: Any, device: Any) -> np.dtype:
    if not isinstance(input, Value):
        raise TypeError(f"argument 'input' must be Tensor, not {type(input).__name__}")
    to = _checked(dtype, device, None, False)
    return input._array.dtype if to is None else to.numpy


def empty_like(
    input: Any,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    memory_format: Any = None,
    layout: Any = None,
) -> Tensor:
    """An uninitialised tensor of the shape of another."""
    check_format(memory_format)
    return _finish(np.empty(input._array.shape, _like(input, dtype, device)), requires_grad)


def zeros_like(
    input: Any,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    memory_format: Any = None,
    layout: Any = None,
) -> Tensor:
    """Zeros of the shape of another tensor."""
    check_format(memory_format)
    to = _like(input, dtype, device)
    return _finish(np.zeros(input._array.shape, to), requires_grad)


def ones_like(
    input: Any,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    memory_format: Any = None,
    layout: Any = None,
) -> Tensor:
    """Ones of the shape of another tensor."""
    check_format(memory_format)
    to = _like(input, dtype, device)
    return _finish(np.ones(input._array.shape, to), requires_grad)


def full_like(
    input: Any,
    fill_value: Any,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    memory_format: Any = None,
    layout: Any = None,
) -> Tensor:
    """One value everywhere, in the shape and dtype of another tensor."""
    check_format(memory_format)
    to = dtypes.as_dtype(_like(input, dtype, device))
    return full(tuple(input._array.shape), fill_value, dtype=to, requires_grad=requires_grad)


# -- ranges ----------------------------------------------------------------------------------------


def arange(
    *bounds: Any,
    start: Any = None,
    end: Any = None,
    step: Any = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    layout: Any = None,
    out: Any = None,
) -> Tensor:
    """Numbers from start up to but not including end; ints give int64, floats the default dtype."""
    to = _checked(dtype, device, layout, False, out)
    given = list(bounds)
    if len(given) == 1:
        first, last, by = (start if start is not None else 0), given[0], 1
    elif len(given) >= 2:
        first, last, by = given[0], given[1], given[2] if len(given) > 2 else 1
    else:
        first, last, by = (0 if start is None else start), end, 1
    if end is not None and given:
        first, last = (given[0] if len(given) == 1 else first), end
    by = by if step is None else step
    if last is None:
        raise TypeError("arange() needs an end")
    first, last, by = (v.item() if isinstance(v, Tensor) else v for v in (first, last, by))
    if by == 0:
        raise RuntimeError("step must be nonzero")
    if not (math.isfinite(first) and math.isfinite(last)):
        raise RuntimeError(f"unsupported range: {first} -> {last}")
    if (last - first) * by < 0:
        raise RuntimeError("upper bound and larger bound inconsistent with step sign")
    if to is None:
        whole = all(isinstance(v, int) for v in (first, last, by))
        to = dtypes.int64 if whole else dtypes.get_default_dtype()
    count = (
        math.ceil((last - first) / by)
        if not all(isinstance(v, int) for v in (first, last, by))
        else max(0, -((first - last) // by))
    )
    whole = to.category != dtypes.FLOATING
    if whole and not int(by):
        raise ValueError(f"arange: step must be nonzero, but {by} as {to} is 0")
    values = np.arange(count, dtype=np.int64 if whole else np.float64)
    array = values * (int(by) if whole else by) + (int(first) if whole else first)
    return _finish(array.astype(to.numpy), requires_grad, out)


def range_(start: Any = 0, end: Any = None, step: Any = 1) -> Tensor:
    """Numbers from start to end inclusive."""
    return arange(start, end + step * 0.5, step)


def linspace(
    start: Any,
    end: Any,
    steps: int,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    layout: Any = None,
    out: Any = None,
) -> Tensor:
    """``steps`` evenly spaced numbers from start to end, both included."""
    to = _checked(dtype, device, layout, False, out) or dtypes.get_default_dtype()
    if steps < 0:
        raise RuntimeError("number of steps must be non-negative")
    first, last = (v.item() if isinstance(v, Tensor) else v for v in (start, end))
    array = np.linspace(first, last, steps)
    whole = np.trunc(array) if to.category == dtypes.INTEGER else array
    return _finish(whole.astype(to.numpy), requires_grad, out)


def logspace(
    start: Any,
    end: Any,
    steps: int,
    base: float = 10.0,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """``steps`` numbers from base**start to base**end, evenly spaced in their logarithm."""
    to = _checked(dtype, device, None, False) or dtypes.get_default_dtype()
    array = np.power(float(base), np.linspace(float(start), float(end), steps))
    return _finish(array.astype(to.numpy), requires_grad)


def eye(
    n: int,
    m: int | None = None,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    layout: Any = None,
    out: Any = None,
) -> Tensor:
    """Ones on the diagonal of an n by m matrix."""
    to = _checked(dtype, device, layout, False, out)
    if n < 0 or (m is not None and m < 0):
        raise RuntimeError(
            f"n must be greater or equal to 0, got {n}"
            if n < 0
            else f"m must be greater or equal to 0, got {m}"
        )
    return _finish(np.eye(n, m, dtype=_float_type(to)), requires_grad, out)


def tril_indices(row: int, col: int, offset: int = 0, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Row and column indices of the lower triangle, shape (2, n)."""
    to = _checked(dtype, device, None, False) or dtypes.int64
    return _finish(np.stack(np.tril_indices(row, offset, col)).astype(to.numpy), False)


def triu_indices(row: int, col: int, offset: int = 0, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Row and column indices of the upper triangle, shape (2, n)."""
    to = _checked(dtype, device, None, False) or dtypes.int64
    return _finish(np.stack(np.triu_indices(row, offset, col)).astype(to.numpy), False)
