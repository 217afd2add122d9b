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
            f"{name}(): argument '{argument}' must be an int or a tuple of ints, got {value!r} of type {type(value).__name__}"
        ) from None
    if len(given) == 1:
        return given * n
    if len(given) != n:
        raise RuntimeError(
            f"{name}: expected {argument} to be a single integer value or a list of {n} values to match the dimensions, "
            f"but got {argument}={list(given)}"
        )
    return given


class Windows(NamedTuple):
    """How an output position t and a tap k meet the input at t * stride - padding + k * dilation, per dimension."""

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
            self.kernel == (1,) * n and self.stride == (1,) * n and self.padding == (0,) * n and self.size == self.out
        )


@lru_cache(maxsize=1024)
def _geo(w: Windows) -> np.ndarray:
    more = 3 - len(w.size)
    fill = (1, 1, 1, 1, 0, 1)
    numbers = [n for part, one in zip(w, fill, strict=True) for n in ((one,) * more + part)]
    made = np.array(numbers, dtype=np.int64)
    made.flags.writeable = False
    return made
