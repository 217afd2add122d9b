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


def fixed(numbers: Any) -> Any:
    """Options as something that a dictionary takes for a key."""
    return tuple(numbers) if isinstance(numbers, list) else numbers


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


@lru_cache(maxsize=1024)
def _geo(w: Windows) -> np.ndarray:
    more = 3 - len(w.size)
    fill = (1, 1, 1, 1, 0, 1)
    numbers = [n for part, one in zip(w, fill, strict=True) for n in ((one,) * more + part)]
    made = np.array(numbers, dtype=np.int64)
    made.flags.writeable = False
    return made


@lru_cache(maxsize=1024)
def window_counts(w: Windows, with_padding: bool) -> np.ndarray:
    """How many elements each window counts as, per dimension, for depth, height and width in turn.

    With padding its part of the padding counts too, as far as that goes; behind it nothing does.
    """
    numbers = [1] * (3 - len(w.size))
    for n, m, k, s, p, _ in zip(*w, strict=True):
        for t in range(m):
            a = t * s - p
            numbers.append(min(a + k, n + p) - a if with_padding else min(a + k, n) - max(a, 0))
    made = np.array(numbers, dtype=np.int64)
    made.flags.writeable = False
    return made


class Spans:
    """As many windows as asked for, as equal as can be, overlapping where sizes do not divide.

    ``table`` holds the sizes of the input and of the output, and per dimension where each window starts, ends,
    and how long it is. Equal arguments of :func:`spans` give the same object.
    """

    __slots__ = ("out", "size", "table")

    def __init__(self, size: tuple[int, ...], out: tuple[int, ...]) -> None:
        self.size = size
        self.out = out
        more = (1,) * (3 - len(size))
        numbers = [*more, *size, *more, *out]
        for n, m in zip((*more, *size), (*more, *out), strict=True):
            starts = [t * n // m for t in range(m)]
            ends = [-(-(t + 1) * n // m) for t in range(m)]
            numbers += [*starts, *ends, *(b - a for a, b in zip(starts, ends, strict=True))]
        self.table = np.array(numbers, dtype=np.int64)
        self.table.flags.writeable = False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Spans) and (other.size, other.out) == (self.size, self.out)

    def __hash__(self) -> int:
        return hash((self.size, self.out))

    def __repr__(self) -> str:
        return f"Spans(size={self.size}, out={self.out})"


spans = lru_cache(maxsize=1024)(Spans)


def pooled_size(
    name: str, n: int, kernel: int, stride: int, padding: int, dilation: int, ceil_mode: bool
) -> int:
    """The number of windows along one dimension; in ceil mode the last may hang over the end."""
    room = n + 2 * padding - dilation * (kernel - 1) - 1
    out = (room + (stride - 1 if ceil_mode else 0)) // stride + 1
    if ceil_mode and (out - 1) * stride >= n + padding:
        out -= 1  # it would start in the padding behind
    return out
