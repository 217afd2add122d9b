"""Kernels: NumPy arrays in, ``out`` arrays filled. Nothing here knows of tensors.

The modules of this folder that name numba load at first use: importing numba costs
more than importing all the rest, and a session that only builds tensors never needs it.
"""

from __future__ import annotations

import importlib
from types import ModuleType

from .. import config


def __getattr__(name: str) -> ModuleType:
    if name.startswith("_"):
        raise AttributeError(name)
    try:
        return importlib.import_module(f"{__name__}.{name}")
    except ModuleNotFoundError as err:
        if err.name != f"{__name__}.{name}":
            raise
        raise AttributeError(f"no kernel module {name!r}") from None


def launch_lazily(kernel: object, args: tuple[object, ...], count: int, work: int) -> None:
    """Run a kernel over ``range(count)``, on several threads if ``work`` elements are worth it."""
    if work < config.grain:
        if count:
            kernel(*args, 0, count)  # type: ignore[operator]
        return
    from . import launch  # numba loads here, at the first kernel

    launch.start(kernel, args, count, work)
