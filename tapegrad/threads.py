"""How many threads compute: one number for kernels and for BLAS."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from . import blas, config


def get_num_threads() -> int:
    """How many threads kernels and BLAS may use."""
    return config.threads


def set_num_threads(n: Any) -> None:
    """Let kernels and BLAS use at most n threads."""
    if not isinstance(n, int) or isinstance(n, bool):
        raise TypeError(f"set_num_threads expects an int, but got {type(n).__name__}")
    if n < 1:
        raise RuntimeError(f"set_num_threads expects a positive integer, but got {n}")
    config.threads = n
    _limit_blas(n)


@contextmanager
def threads(n: int) -> Iterator[None]:
    """Within the block, kernels and BLAS use at most n threads."""
    before = config.threads
    set_num_threads(n)
    try:
        yield
    finally:
        set_num_threads(before)


def _limit_blas(n: int) -> None:
    from threadpoolctl import ThreadpoolController  # looks at all loaded libraries: only when asked to

    for library in ThreadpoolController().select(user_api="blas").lib_controllers:
        blas.set_threads(library, n)


if os.environ.get("TAPEGRAD_NUM_THREADS"):
    _limit_blas(config.threads)
