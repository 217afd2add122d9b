"""Where temporaries lie: one block of memory for all of them, planned from when each is in use."""

from __future__ import annotations

from collections.abc import Sequence

from .steps import TEMPORARY, Memory, Step

ALIGN = 64  # a cache line, and the widest vector


class Life:
    """When a temporary is in use: from the first step that touches it to the last one."""

    def __init__(self, memory: Memory, at: int) -> None:
        self.size = rounded(memory.size)
        self.first = self.last = at


def lives(steps: Sequence[Step]) -> dict[int, Life]:
    """The lives of all temporaries, in order of their first steps."""
    found: dict[int, Life] = {}
    for at, step in enumerate(steps):
        for ref in (*step.reads(), *step.writes()):
            if ref.memory.kind == TEMPORARY:
                found.setdefault(ref.memory.index, Life(ref.memory, at)).last = at
    return found


def plan(steps: Sequence[Step]) -> tuple[dict[int, int], int]:
    """Offset of each temporary in the arena, and the size of the arena, in bytes.

    The largest ones choose first, each the lowest gap that is free during its whole life.
    """
    offsets: dict[int, int] = {}
    placed: list[tuple[int, int, int, int]] = []  # offset, end, first, last; by offset
    total = 0
    for index, life in sorted(lives(steps).items(), key=lambda item: (-item[1].size, item[1].first)):
        at = 0
        for offset, end, begin, until in placed:
            if begin <= life.last and life.first <= until:  # alive at the same time
                if at + life.size <= offset:
                    break
                at = max(at, end)
        offsets[index] = at
        placed.append((at, at + life.size, life.first, life.last))
        placed.sort()
        total = max(total, at + life.size)
    return offsets, total


def rounded(size: int) -> int:
    """Bytes for so many, so that what follows is aligned."""
    return -(-max(size, 1) // ALIGN) * ALIGN
