"""Memory for large results: what one array gave back, the next one of its size gets.

A fresh large array costs more than most arithmetic on it, since the operating system hands out its pages one by
one, each zeroed, when they are first touched. So the memory of large results is kept when their last array is gone,
and given to the next result of about that size. It is never shared: a piece of memory belongs to one lease,
NumPy's arrays over it (views too) keep the lease alive, and only its end gives the memory back.

What is kept is bounded (``TAPEGRAD_POOL_MB``), what was not asked for again after a while is returned to the operating
system, and :func:`empty_cache` returns all of it. Small arrays, and systems without private mappings, use
NumPy's own memory.
"""

from __future__ import annotations

import ctypes
import math
import mmap
import os
import threading
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from . import config

# Bytes: smaller arrays are better off with the C library, which keeps their memory anyway.
LARGE = 1 << 18
_HUGE_PAGE = 1 << 21
_AGE = 256  # takes after which an unused piece is too old to be kept

_usable = hasattr(mmap, "MAP_PRIVATE") and hasattr(mmap, "MAP_ANONYMOUS")


class _Piece:
    """Memory from the operating system; it goes back there with the last reference."""

    __slots__ = ("address", "mapping", "seen", "size")

    def __init__(self, size: int) -> None:
        huge = size >= 2 * _HUGE_PAGE and hasattr(mmap, "MADV_HUGEPAGE")
        # Private, or a forked child would write into its parent's arrays.
        self.mapping = mmap.mmap(
            -1, size + (_HUGE_PAGE if huge else 0), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        )
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self.mapping))
        self.size = size
        self.seen = 0
        if huge:
            shift = -self.address % _HUGE_PAGE
            self.address += shift
            self.mapping.madvise(mmap.MADV_HUGEPAGE, shift, size // _HUGE_PAGE * _HUGE_PAGE)


class Lease:
    """A piece in use. NumPy's arrays over it have it as their base; when they are gone, the piece is free."""

    __slots__ = ("__array_interface__", "piece")

    def __init__(self, piece: _Piece, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self.piece = piece
        self.__array_interface__ = {
            "data": (piece.address, False), "shape": shape, "typestr": dtype.str, "version": 3,
        }  # fmt: skip

    def __del__(self) -> None:
        _give(self.piece)


# Reentrant, since a lease may end while memory is being allocated under the lock.
_lock = threading.RLock()
_free: dict[int, list[_Piece]] = {}
_kept = 0  # bytes in _free
_takes = 0


def _rounded(size: int) -> int:
    """The size of the piece for so many bytes: up to an eighth more, so that near sizes share pieces."""
    step = max(mmap.PAGESIZE, 1 << (size.bit_length() - 4))
    return -(-size // step) * step


def _take(size: int) -> _Piece:
    global _kept, _takes
    with _lock:
        _takes += 1
        if not _takes % _AGE:
            _drop_old()
        pieces = _free.get(size)
        if pieces:
            _kept -= size
            return pieces.pop()  # the one used last: its memory may still be in a cache
    return _Piece(size)


def _give(piece: _Piece) -> None:
    global _kept
    with _lock:
        if _kept + piece.size <= config.pool_bytes:
            _kept += piece.size
            piece.seen = _takes
            _free.setdefault(piece.size, []).append(piece)


def _drop_old() -> None:
    global _kept
    for size, pieces in list(_free.items()):
        young = [p for p in pieces if _takes - p.seen < _AGE]
        _kept -= size * (len(pieces) - len(young))
        if young:
            _free[size] = young
        else:
            del _free[size]


def empty(shape: tuple[int, ...], dtype: DTypeLike) -> np.ndarray:
    """Like ``np.empty``, contiguous, with memory that was used before if it is large."""
    kind = np.dtype(dtype)
    size = math.prod(shape) * kind.itemsize
    if size < LARGE or not _usable:
        return np.empty(shape, kind)
    return np.asarray(Lease(_take(_rounded(size)), shape, kind))


def aligned(size: int, dtype: DTypeLike) -> np.ndarray:
    """A flat array that begins where a cache line does: vectors that straddle lines are read at half speed."""
    kind = np.dtype(dtype)
    room = np.empty(size * kind.itemsize + 64, np.uint8)
    first = -room.ctypes.data % 64
    return room[first : first + size * kind.itemsize].view(kind)


def zeros(shape: tuple[int, ...], dtype: DTypeLike) -> np.ndarray:
    """Like ``np.zeros``, contiguous, with memory that was used before if it is large."""
    if math.prod(shape) * np.dtype(dtype).itemsize < LARGE:
        return np.zeros(shape, dtype)
    made = empty(shape, dtype)
    made.fill(0)
    return made


def whole(array: np.ndarray) -> bool:
    """Whether an array is all of its memory, and not a view of another one."""
    base = array.base
    return base is None or isinstance(base, Lease)


def memory_reserved() -> int:
    """Bytes that are kept for later results, and belong to no array now."""
    return _kept


def empty_cache() -> None:
    """Give all kept memory back to the operating system."""
    global _kept
    with _lock:
        _free.clear()
        _kept = 0


def _reset() -> None:
    """In a forked child: another thread of the parent may have been inside the lock."""
    global _lock, _kept
    _lock = threading.RLock()
    _free.clear()
    _kept = 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset)
