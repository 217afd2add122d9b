"""What programs ask before they decide for the CPU: there is no accelerator.

As in a PyTorch that finds none: the questions have an answer, and whatever needs a device is a RuntimeError.
"""

from __future__ import annotations

from typing import Any, NoReturn


def is_available() -> bool:
    """False."""
    return False


def device_count() -> int:
    """0"""
    return 0


def current_accelerator(check_available: bool = False) -> None:
    """None."""


def _refuse(*args: Any) -> NoReturn:
    """Refused."""
    raise RuntimeError(
        "Cannot access accelerator device when none is available: tapegrad computes on the CPU"
    )


current_device_index = current_device_idx = current_stream = _refuse
set_device_index = set_device_idx = set_stream = _refuse
synchronize = empty_cache = _refuse
memory_allocated = max_memory_allocated = memory_reserved = max_memory_reserved = memory_stats = _refuse
