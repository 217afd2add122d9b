"""Working memory of convolutions: fresh pages cost more than the arithmetic.

Small pieces are kept per thread. Large ones come from where results do, which bounds what is kept.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from .. import buffers
from ..kernels.arrays import copy, zeros
from ..kernels.recording import now

_LARGE = 1 << 18  # elements


class _Scratch(threading.local):
    def __init__(self) -> None:
        self.buffers: dict[tuple[str, str], np.ndarray] = {}

    def take(self, use: str, size: int, dtype: np.dtype) -> np.ndarray:
        """Some elements for one use, until the next one of that name."""
        if now() is not None:  # a recorded step has memory of its own
            return np.empty(size, dtype)
        if size > _LARGE:
            return buffers.empty((size,), dtype)
        have = self.buffers.get((use, dtype.char))
        if have is None or have.size < size:
            have = self.buffers[use, dtype.char] = buffers.aligned(size, dtype)
        return have[:size]


scratch = _Scratch()


def starts(
    bias: np.ndarray | None, groups: int, per_group: int, padded: int, dtype: np.dtype[Any]
) -> np.ndarray:
    """What sums begin with: the bias, or zeros; a group of channels has room for ``padded``."""
    made = zeros((groups, padded), dtype)
    if bias is not None:
        copy(made[:, :per_group], bias.reshape(groups, per_group))
    return made
