"""What does not change from run to run: computed at the recording, and kept."""

from __future__ import annotations

from ...kernels.recording import Live
from ..steps import STATE, TEMPORARY, Call, Map, Step
from .uses import covers, uses

LARGEST = 1 << 16  # bytes: more is not worth the memory


def constants(steps: list[Step]) -> list[Step]:
    """Steps over constants are left out: their results become constants as they were at the recording."""
    writers: dict[int, int] = {}
    for items in uses(steps).values():
        for use in items:
            if use.written:
                writers[use.ref.memory.index] = writers.get(use.ref.memory.index, 0) + 1
    kept: list[Step] = []
    for step in steps:
        outs = list(step.writes())
        foldable = isinstance(step, Map) or (
            isinstance(step, Call) and not any(type(a) is Live for a in step.args)
        )
        fixed = all(r.memory.constant and r.memory.index not in writers for r in step.reads())
        whole = all(
            r.memory.kind == TEMPORARY
            and covers(r)
            and writers[r.memory.index] == 1
            and r.memory.size <= LARGEST
            for r in outs
        )
        if foldable and fixed and whole and outs and not step.effect:
            for ref in outs:
                ref.memory.kind = STATE
                ref.memory.constant = True
                del writers[ref.memory.index]
            continue
        kept.append(step)
    return kept
