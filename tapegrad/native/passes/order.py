"""The order of steps, for the sake of memory."""

from __future__ import annotations

from collections.abc import Sequence

from ..steps import TEMPORARY, Step
from .uses import before, uses

LITTLE = 1 << 22  # bytes: they fit the caches in any order
LONGEST = 4000  # steps: beyond, looking for a better order takes longer than it is worth


def order(steps: list[Step]) -> list[Step]:
    """Of the steps that could come next, one that frees most memory; the order as it was unless that needs less."""
    if not 2 < len(steps) <= LONGEST or any(s.effect for s in steps) or peak(steps) < LITTLE:
        return steps
    needs = before(steps)
    followers: list[list[int]] = [[] for _ in steps]
    for at, earlier in enumerate(needs):
        for other in earlier:
            followers[other].append(at)
    left: dict[int, int] = {}  # temporary -> steps that still use it
    size: dict[int, int] = {}
    touched: list[set[int]] = []
    for step in steps:
        memories = {
            r.memory.index: r.memory for r in (*step.reads(), *step.writes()) if r.memory.kind == TEMPORARY
        }
        touched.append(set(memories))
        for index, memory in memories.items():
            left[index] = left.get(index, 0) + 1
            size[index] = memory.size
    waiting = [len(n) for n in needs]
    ready = sorted(at for at, n in enumerate(waiting) if not n)
    alive: set[int] = set()
    made: list[int] = []
    while ready:
        best = min(ready, key=lambda at: (_growth(touched[at], alive, left, size), at))
        ready.remove(best)
        made.append(best)
        for index in touched[best]:
            alive.add(index)
            left[index] -= 1
            if not left[index]:
                alive.discard(index)
        for at in followers[best]:
            waiting[at] -= 1
            if not waiting[at]:
                ready.append(at)
    new = [steps[at] for at in made]
    return new if peak(new) < peak(steps) else steps


def _growth(touched: set[int], alive: set[int], left: dict[int, int], size: dict[int, int]) -> int:
    """By how much memory in use changes over a step."""
    born = sum(size[i] for i in touched if i not in alive)
    freed = sum(size[i] for i in touched if left[i] == 1)
    return born - freed


def peak(steps: Sequence[Step]) -> int:
    """The most bytes of temporaries that are in use at one time."""
    change = [0] * (len(steps) + 1)
    for items in uses(steps).values():
        memory = items[0].ref.memory
        if memory.kind == TEMPORARY:
            change[items[0].step] += memory.size
            change[items[-1].step + 1] -= memory.size
    most = total = 0
    for c in change:
        total += c
        most = max(most, total)
    return most
