"""The passes between recording and lowering.

Each is a function from a list of steps to a list of steps that does the same with less: less work, less memory, fewer
calls. They are independent of one another, so any of them can be left out to find the one that is wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..steps import Step
from .bands import bands
from .common import common
from .constants import constants
from .copies import copies
from .dead import dead
from .fuse import fuse
from .order import order

PASSES: list[Callable[[list[Step]], list[Step]]] = [dead, copies, common, constants, fuse, order, bands]


def optimised(steps: list[Step], without: frozenset[str]) -> tuple[list[Step], dict[str, Any]]:
    """The steps after all passes but some, and how many there were after each."""
    counts: dict[str, Any] = {"recorded": len(steps)}
    for each in PASSES:
        if each.__name__ not in without:
            steps = each(steps)
            counts[each.__name__] = len(steps)
    return steps, counts
