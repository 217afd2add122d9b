"""Switches of libraries that PyTorch may compute with and tapegrad does not; they can be set and read.

Without a GPU they change nothing in PyTorch either.
"""

from __future__ import annotations

import types
from typing import Any


class _Backend:
    """The switches of one library; others are an AttributeError."""

    def __init__(self, **switches: Any) -> None:
        self.__dict__.update(switches)

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self.__dict__:
            raise AttributeError(f"there is no switch {name!r}; there are {', '.join(self.__dict__)}")
        self.__dict__[name] = value

    @staticmethod
    def is_available() -> bool:
        return False

    @staticmethod
    def is_built() -> bool:
        return False

    @staticmethod
    def version() -> None:
        return None


cudnn = _Backend(enabled=True, benchmark=False, benchmark_limit=10, deterministic=False, allow_tf32=True)
cuda = _Backend(
    matmul=types.SimpleNamespace(
        allow_tf32=False,
        allow_fp16_reduced_precision_reduction=True,
        allow_bf16_reduced_precision_reduction=True,
    )
)
mps = _Backend()
mkl = _Backend()
mkldnn = _Backend(enabled=True)
openmp = _Backend()
