"""Sliding windows: sizes, strides, padding and dilation as users write them, and as kernels read them."""

from __future__ import annotations

import math
import operator
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np


def per_dim(value: Any, n: int, name: str, argument: str) -> tuple[int, ...]:
    """One int for all n dimensions, or one per dimension."""
    items = value if isinstance(value, (tuple, list)) else (value,)
    try:
        given = tuple([operator.index(v) for v in items])
    except TypeError:
        raise TypeError(
            f"{name}(): argument '{argument}' must be an int or a tuple of ints, got {value!r} of type "
            f"{type(value).__name__}"
        ) from None
    if len(given) == 1:
        return given * n
    if len(given) != n:
        raise RuntimeError(
            f"{name}: expected {argument} to be a single integer value or a list of {n} values to match the "
            f"dimensions, but got {argument}={list(given)}"
        )
    return given


class Windows(NamedTuple):
    """Output t and tap k meet the input at t * stride - padding + k * dilation, per dimension."""

    size: tuple[int, ...]  # of the input
    out: tuple[int, ...]
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]  # in front; what lies behind follows from the sizes
    dilation: tuple[int, ...]

    def geo(self) -> np.ndarray:
        """All of it for three dimensions, as kernels read it."""
        return _geo(self)

    def outputs(self) -> int:
        """The number of windows."""
        return math.prod(self.out)

    def taps(self) -> int:
        """The number of elements of a window."""
        return math.prod(self.kernel)

    def simple(self) -> bool:
        """Whether each window is one element and the windows are the input."""
        n = len(self.size)
        return (
            self.kernel == (1,) * n
            and self.stride == (1,) * n
            and self.padding == (0,) * n
            and self.size == self.out
        )


@lru_cache(maxsize=1024)
def _geo(w: Windows) -> np.ndarray:
    more = 3 - len(w.size)
    fill = (1, 1, 1, 1, 0, 1)
    numbers = [n for part, one in zip(w, fill, strict=True) for n in ((one,) * more + part)]
    made = np.array(numbers, dtype=np.int64)
    made.flags.writeable = False
    return made


class Spans:
    """Pooling windows: per dimension where each starts, ends, and how many elements it counts as.

    Made by :func:`pooling_spans` and :func:`adaptive_spans`; equal arguments give the same object.
    """

    __slots__ = ("dilation", "key", "out", "size", "table")

    def __init__(
        self,
        key: tuple[Any, ...],
        size: tuple[int, ...],
        rows: list[tuple[list[int], list[int], list[int]]],
        dilation: tuple[int, ...],
    ) -> None:
        self.key = key
        self.size = size
        self.out = tuple([len(starts) for starts, _, _ in rows])
        more = 3 - len(size)
        rows = [([0], [1], [1])] * more + rows
        head = [(1,) * more + size, [len(starts) for starts, _, _ in rows], (1,) * more + dilation]
        numbers = [n for part in head for n in part] + [n for three in rows for part in three for n in part]
        self.table = np.array(numbers, dtype=np.int64)
        self.table.flags.writeable = False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Spans) and other.key == self.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __repr__(self) -> str:
        return f"Spans{self.key}"


@lru_cache(maxsize=1024)
def pooling_spans(w: Windows, count_padding: bool) -> Spans:
    """Windows clipped to the input; counted with their part of the padding, or without."""
    rows = []
    for n, m, k, s, p, d in zip(*w, strict=True):
        starts, ends, counts = [], [], []
        for t in range(m):
            a = t * s - p
            b = a + d * (k - 1) + 1
            padded = min(b, n + p)
            first = a if a >= 0 else a % d  # the first tap within the input
            starts.append(min(first, n - 1))
            ends.append(max(min(b, n), min(first, n - 1)))
            counts.append(padded - a if count_padding else ends[-1] - max(a, 0))
        rows.append((starts, ends, counts))
    return Spans(("pooling", w, count_padding), w.size, rows, w.dilation)


@lru_cache(maxsize=1024)
def adaptive_spans(size: tuple[int, ...], out: tuple[int, ...]) -> Spans:
    """As many windows as asked for, as equal as can be, overlapping where sizes do not divide."""
    rows = []
    for n, m in zip(size, out, strict=True):
        starts = [t * n // m for t in range(m)]
        ends = [-(-(t + 1) * n // m) for t in range(m)]
        rows.append((starts, ends, [b - a for a, b in zip(starts, ends, strict=True)]))
    return Spans(("adaptive", size, out), size, rows, (1,) * len(size))


def pooled_size(
    name: str, n: int, kernel: int, stride: int, padding: int, dilation: int, ceil_mode: bool
) -> int:
    """The number of windows along one dimension; in ceil mode the last may hang over the end."""
    room = n + 2 * padding - dilation * (kernel - 1) - 1
    out = (room + (stride - 1 if ceil_mode else 0)) // stride + 1
    if ceil_mode and (out - 1) * stride >= n + padding:
        out -= 1  # it would start in the padding behind
    return out
