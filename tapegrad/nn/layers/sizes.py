"""Options that may be one number for all dimensions or one per dimension."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def ntuple(value: Any, n: int) -> tuple[Any, ...]:
    """``value`` repeated n times, or its own elements if it has some."""
    return tuple(value) if isinstance(value, Iterable) else (value,) * n
