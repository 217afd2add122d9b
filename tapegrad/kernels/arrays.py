"""Copies, conversions and constants on arrays: NumPy's, reported to whoever records a step.

Forward functions of ops that call nothing but these and kernels are recorded kernel by kernel.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from .. import buffers, config
from .recording import active, now

# Bytes: less is copied before a second thread is awake.
_MUCH = 1 << 21


def copy(to: np.ndarray, source: Any) -> None:
    """``to[...] = source``, broadcast and converted as C does it."""
    if to.nbytes >= buffers.LARGE and type(source) is np.ndarray and _copied_by_squares(to, source):
        return
    if active and (recorder := now()) is not None:
        recorder.copy(to, source)
    if source.dtype == to.dtype if type(source) is np.ndarray else type(source) is int and not source:
        if to.nbytes < _MUCH or active or not _copied_by_loop(to, source):
            to[...] = source  # nothing is converted, so nothing can warn
        return
    with np.errstate(all="ignore"), warnings.catch_warnings():
        # Out-of-range and NaN to integer is undefined in C; all libraries take what the CPU gives.
        warnings.simplefilter("ignore", RuntimeWarning)
        np.copyto(to, source, casting="unsafe")


def _copied_by_squares(to: np.ndarray, source: np.ndarray) -> bool:
    """Copy memory whose order changes, recorded or not, with a kernel of its own."""
    if (
        source.dtype != to.dtype
        or source.shape != to.shape
        or source.flags.c_contiguous
        or source.itemsize not in source.strides[:-1]
        or np.may_share_memory(to, source)
    ):
        return False
    from .transpose import copied_by_squares  # numba loads here

    return copied_by_squares(to, source)


def _copied_by_loop(to: np.ndarray, source: Any) -> bool:
    """Copy much memory with a loop of our own, which works on several threads and is quick with rows that are repeated."""
    if not (
        type(source) is np.ndarray
        and source.ndim <= to.ndim
        and to.dtype.char in "fdl"
        and to.flags.c_contiguous
        and (config.threads > 1 or not source.flags.c_contiguous or source.size < to.size)
        and not np.may_share_memory(to, source)
    ):
        return False
    wide = np.broadcast_to(source, to.shape)
    if wide.strides[-1] not in (0, wide.itemsize):
        return False
    from .loop import COPY  # numba loads here

    COPY.run(to.dtype.char, [wide], [to])
    return True


def contiguous(x: np.ndarray, dtype: Any = None) -> np.ndarray:
    """The array itself if it is in C order and of the dtype, else a copy that is."""
    if x.flags.c_contiguous and (dtype is None or x.dtype == dtype):
        return x
    return copied(x, x.dtype if dtype is None else dtype)


def in_order(x: np.ndarray, out: np.ndarray) -> np.ndarray:
    """The array itself, or a copy in C order if a loop over ``out`` would meet a cache line at each element and lose it."""
    if x.flags.c_contiguous or not out.flags.c_contiguous or 0 in x.strides:
        return x
    made = np.empty(x.shape, x.dtype) if active else buffers.empty(x.shape, x.dtype)
    return made if _copied_by_squares(made, x) else x


def cast(x: np.ndarray, dtype: Any) -> np.ndarray:
    """The array itself if it has the dtype, else a converted copy."""
    return x if x.dtype == dtype else copied(x, dtype)


def duplicate(x: np.ndarray) -> np.ndarray:
    """A copy in C order."""
    return copied(x, x.dtype)


def copied(x: np.ndarray, dtype: Any) -> np.ndarray:
    """A copy in C order and of a dtype."""
    if not active and x.nbytes < buffers.LARGE:
        if x.dtype == dtype:
            return np.array(x, order="C", copy=True)
        if x.dtype.kind == "f" and np.dtype(dtype).kind == "f":
            with np.errstate(all="ignore"):
                return np.array(x, dtype, order="C", copy=True)
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            return np.array(x, dtype, order="C", copy=True)
    out = np.empty(x.shape, dtype) if active else buffers.empty(x.shape, dtype)
    copy(out, x)
    return out


def filled(shape: tuple[int, ...], value: float, dtype: Any) -> np.ndarray:
    """An array full of one number."""
    if not active:
        return np.full(shape, value, dtype) if value else buffers.zeros(shape, dtype)
    out = np.empty(shape, dtype)
    copy(out, value)
    return out


def zeros(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """An array of zeros."""
    return filled(shape, 0, dtype)
