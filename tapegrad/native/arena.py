"""Where temporaries lie: one block of memory for all of them, planned from when each is in use."""

from __future__ import annotations

from collections.abc import Sequence

from .steps import TEMPORARY, Memory, Step

ALIGN = 64  # a cache line, and the widest vector


def lifetimes(steps: Sequence[Step]) -> dict[int, tuple[int, int]]:
    """Per temporary: the first and the last step that touches it."""
    found: dict[int, tuple[int, int]] = {}
    for at, step in enumerate(steps):
        for ref in (*step.reads(), *step.writes()):
            if ref.memory.kind == TEMPORARY:
                first = found.get(ref.memory.index, (at, at))[0]
                found[ref.memory.index] = (first, at)
    return found


def plan(steps: Sequence[Step], memories: Sequence[Memory], reuse: bool = True) -> tuple[dict[int, int], int]:
    """Offset of each temporary in the arena, and the size of the arena, in bytes.

    The largest ones choose first, each the lowest gap that is free during its whole life.
    """
    lives = lifetimes(steps)
    offsets: dict[int, int] = {}
    if not reuse:
        end = 0
        for index in lives:
            offsets[index] = end
            end += _rounded(memories[index].size)
        return offsets, end
    placed: list[tuple[int, int, int, int]] = []  # offset, end, first, last; by offset
    total = 0
    for index in sorted(lives, key=lambda i: (-memories[i].size, lives[i])):
        first, last = lives[index]
        size = _rounded(memories[index].size)
        at = 0
        for offset, end, begin, until in placed:
            if begin <= last and first <= until:  # alive at the same time
                if at + size <= offset:
                    break
                at = max(at, end)
        offsets[index] = at
        placed.append((at, at + size, first, last))
        placed.sort()
        total = max(total, at + size)
    return offsets, total


def _rounded(size: int) -> int:
    return -(-max(size, 1) // ALIGN) * ALIGN
