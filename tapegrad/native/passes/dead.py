"""Steps whose results nobody reads."""

from __future__ import annotations

from ..steps import TEMPORARY, Step


def dead(steps: list[Step]) -> list[Step]:
    """Without the steps that only write temporaries which no later step reads."""
    needed: set[int] = set()
    kept: list[Step] = []
    for step in reversed(steps):
        written = list(step.writes())
        lasting = any(r.memory.kind != TEMPORARY or r.memory.index in needed for r in written)
        if step.effect or lasting:
            kept.append(step)
            needed.update(r.memory.index for r in step.reads())
    return kept[::-1]
