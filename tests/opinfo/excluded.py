"""Samples that are left out, and why."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple


class Exclusion(NamedTuple):
    """Samples of an operation for which ``applies(sample)`` holds are not compared from a stage on."""

    name: str
    reason: str
    applies: Callable[[Any], bool] = lambda sample: True
    stage: str = "forward"  # or "gradient", "second"


def _broken_power(sample: Any) -> bool:
    return sample.input.numel() == 0 and 3.5 in (*sample.args, sample.kwargs.get("ord"))


EXCLUDED = [
    Exclusion("empty", "the memory is not initialised: there is nothing to compare"),
    Exclusion("empty_like", "the memory is not initialised: there is nothing to compare"),
    Exclusion(
        "linalg.norm", "torch's derivative of an empty sum of broken powers is NaN", _broken_power, "second"
    ),
]


def reason_to_exclude(name: str, sample: Any, stage: str) -> str:
    """Why a sample is left out at a stage, or nothing."""
    return next((e.reason for e in EXCLUDED if e.name == name and e.stage == stage and e.applies(sample)), "")
