"""What programs ask about GPUs before they decide for the CPU: there are none.

As in a PyTorch that was built without CUDA: questions have an answer, seeds and clean-up do nothing, and what
needs a GPU is an AssertionError.
"""

from __future__ import annotations

from typing import Any, NoReturn

from . import amp as amp


def is_available() -> bool:
    """False."""
    return False


def is_initialized() -> bool:
    """False."""
    return False


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """False."""
    return False


def device_count() -> int:
    """0"""
    return 0


def memory_allocated(device: Any = None) -> int:
    """0"""
    return 0


def max_memory_allocated(device: Any = None) -> int:
    """0"""
    return 0


def memory_reserved(device: Any = None) -> int:
    """0"""
    return 0


def max_memory_reserved(device: Any = None) -> int:
    """0"""
    return 0


def manual_seed(seed: int) -> None:
    """Nothing to seed; ``tapegrad.manual_seed`` is for the CPU."""


def manual_seed_all(seed: int) -> None:
    """Nothing to seed."""


def seed() -> None:
    """Nothing to seed."""


def seed_all() -> None:
    """Nothing to seed."""


def empty_cache() -> None:
    """Nothing to empty."""


def current_device() -> NoReturn:
    """AssertionError."""
    _none("current_device")


def get_device_name(device: Any = None) -> NoReturn:
    """AssertionError."""
    _none("get_device_name")


def get_device_properties(device: Any = None) -> NoReturn:
    """AssertionError."""
    _none("get_device_properties")


def set_device(device: Any) -> NoReturn:
    """AssertionError."""
    _none("set_device")


def synchronize(device: Any = None) -> NoReturn:
    """AssertionError."""
    _none("synchronize")


def _none(name: str) -> NoReturn:
    raise AssertionError(
        f"cuda.{name}: tapegrad computes on the CPU only; ask cuda.is_available() before using a GPU"
    )
