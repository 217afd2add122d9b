"""The same computed twice."""

from __future__ import annotations

from typing import Any

from ..steps import TEMPORARY, Call, Map, Memory, Ref, Step
from .uses import covers, uses


def common(steps: list[Step]) -> list[Step]:
    """Of steps that compute the same from the same, only the first is kept."""
    found = uses(steps)
    writers = {index: [u for u in items if u.written] for index, items in found.items()}
    state: dict[int, int] = {}  # memory -> how often it was written so far
    known: dict[Any, tuple[Ref, ...]] = {}
    moved: dict[int, Memory] = {}
    kept: list[Step] = []
    for step in steps:
        outs = tuple(step.writes())
        key = _key(step, state, moved)
        if key is not None and all(_written_once(r, writers) for r in outs):
            same = known.get(key)
            if same is not None and all(r.memory.kind == TEMPORARY for r in outs):
                moved.update({r.memory.index: s.memory for r, s in zip(outs, same, strict=True)})
                continue
            known.setdefault(key, outs)
        for ref in outs:
            state[ref.memory.index] = state.get(ref.memory.index, 0) + 1
        kept.append(step)
    if not moved:
        return steps

    def place(ref: Ref) -> Ref:
        memory = moved.get(ref.memory.index)
        return ref if memory is None else ref.elsewhere(memory, ref.first)

    return [step.replaced(place) for step in kept]


def _written_once(ref: Ref, writers: dict[int, Any]) -> bool:
    return covers(ref) and len(writers[ref.memory.index]) == 1


def _key(step: Step, state: dict[int, int], moved: dict[int, Memory]) -> Any:
    """Equal for steps that write the same numbers; None for steps that may do something else besides."""

    def seen(ref: Ref) -> Any:
        memory = moved.get(ref.memory.index, ref.memory)
        return (memory.index, state.get(memory.index, 0), *ref.key[1:])

    if isinstance(step, Map):
        if any(a >= 0 for a in step.alias):
            return None
        outs = tuple(r.key[2:] for r in step.outs)
        return (id(step.loop), step.compute, tuple(map(seen, step.ins)), step.numbers, step.alias, outs)
    if isinstance(step, Call):
        reads = {id(r) for r in step.refs}
        if any(id(r) in reads for r in step.written):
            return None  # it goes on with what was there
        fixed = tuple(
            seen(a) if isinstance(a, Ref) and id(a) in reads else a.key[2:] if isinstance(a, Ref) else a
            for a in step.args
        )
        if any(type(a) is not int and type(a) is not float and not isinstance(a, tuple) for a in fixed):
            return None  # live numbers
        return (id(step.kernel), step.chars, fixed, step.start, step.count)
    return None
