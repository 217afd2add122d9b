"""Copies that nobody needs: of what is not used otherwise afterwards, or to what is only read."""

from __future__ import annotations

from ..steps import RESULT, TEMPORARY, Map, Memory, Ref, Step
from .uses import covers, uses


def copies(steps: list[Step]) -> list[Step]:
    """Whole copies from one memory to another are left out, and both memories become one."""
    moved: dict[int, tuple[Memory, int]] = {}
    found = uses(steps)
    kept: list[Step] = []
    for at, step in enumerate(steps):
        pair = _whole_copy(step)
        if pair is not None:
            source, target = (_resolved(r.memory, moved) for r in pair)
            if source is not target and _mergeable(at, source, target, found):
                # The one that outlives the program, or lies outside of it, stays.
                gone, stays = (source, target) if source.kind == TEMPORARY else (target, source)
                moved[gone.index] = (stays, 0)
                found[stays.index] = sorted([*found[gone.index], *found[stays.index]], key=lambda u: u.step)
                found[stays.index] = [u for u in found[stays.index] if u.step != at]
                continue
        kept.append(step)
    if not moved:
        return steps
    return [step.replaced(lambda ref: _moved(ref, moved)) for step in kept]


def _whole_copy(step: Step) -> tuple[Ref, Ref] | None:
    """Source and target of a step that copies all of one memory to all of another, without conversion."""
    if not isinstance(step, Map) or not step.is_copy or step.alias != (-1,):
        return None
    source, target = step.ins[0], step.outs[0]
    same = source.char == target.char and source.memory.size == target.memory.size
    return (source, target) if same and covers(source) and covers(target) else None


def _resolved(memory: Memory, moved: dict[int, tuple[Memory, int]]) -> Memory:
    while memory.index in moved:
        memory = moved[memory.index][0]
    return memory


def _moved(ref: Ref, moved: dict[int, tuple[Memory, int]]) -> Ref:
    memory = _resolved(ref.memory, moved)
    return ref if memory is ref.memory else ref.elsewhere(memory, ref.first)


def _mergeable(at: int, source: Memory, target: Memory, found: dict) -> bool:  # type: ignore[type-arg]
    """Whether source and target of a copy at a step may be one memory."""
    if target.kind not in (TEMPORARY, RESULT) or TEMPORARY not in (source.kind, target.kind):
        return False
    if any(u.step < at for u in found[target.index]):
        return False
    later = [u for u in (*found[source.index], *found[target.index]) if u.step > at]
    if not any(u.written for u in later):
        return True
    # One of them changes afterwards: they may still be one if the source is a temporary that is done with.
    return source.kind == TEMPORARY and not any(u.step > at for u in found[source.index])
