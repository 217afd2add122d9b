"""Who touches which memory, and in which order: what the passes ask of a list of steps."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from ..steps import Ref, Step


class Use(NamedTuple):
    """A reference in a step."""

    step: int
    ref: Ref
    written: bool


def uses(steps: Sequence[Step]) -> dict[int, list[Use]]:
    """By memory: its uses in order; within a step reads come first."""
    found: dict[int, list[Use]] = defaultdict(list)
    for at, step in enumerate(steps):
        for ref in step.reads():
            found[ref.memory.index].append(Use(at, ref, False))
        for ref in step.writes():
            found[ref.memory.index].append(Use(at, ref, True))
    return found


def covers(ref: Ref) -> bool:
    """Whether a reference is all of its memory, in order."""
    return ref.first == 0 and ref.contiguous and ref.high - ref.low == ref.memory.size


def before(steps: Sequence[Step]) -> list[set[int]]:
    """Per step: the earlier steps that must come first, since they touch the same bytes and one of both writes."""
    found: list[set[int]] = [set() for _ in steps]
    for items in uses(steps).values():
        written: list[Use] = []
        reads: list[Use] = []
        for use in items:
            own = found[use.step]
            for other in written:
                if other.step != use.step and other.ref.overlaps(use.ref):
                    own.add(other.step)
            if use.written:
                for other in reads:
                    if other.step != use.step and other.ref.overlaps(use.ref):
                        own.add(other.step)
                # What is written over whole needs no watching any more: whoever comes later comes after this one.
                if covers(use.ref):
                    written, reads = [], []
                written.append(use)
            else:
                reads.append(use)
    return found
