"""Samples that are left out, and why."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple


class Exclusion(NamedTuple):
    """Samples of an operation for which ``applies(sample, dtype)`` holds are not compared."""

    name: str
    applies: Callable[[Any, Any], bool]
    reason: str


def _always(sample: Any, dtype: Any) -> bool:
    return True


EXCLUDED: list[Exclusion] = [
    Exclusion("empty", _always, "the memory is not initialised: there is nothing to compare"),
    Exclusion("empty_like", _always, "the memory is not initialised: there is nothing to compare"),
]


def reason_to_exclude(name: str, sample: Any, dtype: Any) -> str:
    """Why a sample is left out, or nothing."""
    return next((e.reason for e in EXCLUDED if e.name == name and e.applies(sample, dtype)), "")
