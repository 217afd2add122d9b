"""Elementwise loops over the same elements become one loop.

What one formula computes and only others of the group use stays in registers and needs no memory. The loops of a group
run where its last or its first member stood, whichever the steps between them allow.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ... import kernels
from ...kernels.formula import Scalar, cast, constant
from ..steps import TEMPORARY, Map, Ref, Step
from .uses import Use, before, uses

MEMBERS = 48  # of a group
OPERANDS = 24  # of the loop of a group


class Group:
    """Maps over the same elements, in their order, and where they run."""

    def __init__(self, at: int, step: Map) -> None:
        self.members = [at]
        self.steps = [step]
        self.position = at
        self.flat = _flat(step)
        self.size = step.outs[0].array.size

    def fits(self, step: Map) -> bool:
        """Whether a map runs over the same elements."""
        if len(self.members) >= MEMBERS:
            return False
        if self.flat and _flat(step):
            return bool(self.size == step.outs[0].array.size)
        # Members that are flat may have other shapes of the same size.
        return all(s.shape == step.shape for s in self.steps)

    def agrees(self, step: Map) -> bool:
        """Whether what both touch is touched by both in the same order of elements."""
        for other in self.steps:
            for mine in step.outs:
                for theirs in (*other.ins, *other.outs):
                    if mine.overlaps(theirs) and _place(mine) != _place(theirs):
                        return False
            for mine in step.ins:
                for theirs in other.outs:
                    if mine.overlaps(theirs) and _place(mine) != _place(theirs):
                        return False
        return len({_place(r) for s in (*self.steps, step) for r in (*s.ins, *s.outs)}) <= OPERANDS

    def add(self, at: int, step: Map, position: int) -> None:
        self.members.append(at)
        self.steps.append(step)
        self.position = position
        self.flat = self.flat and _flat(step)


def fuse(steps: list[Step]) -> list[Step]:
    """Groups of maps become one map each."""
    needs = before(steps)
    groups: dict[int, Group] = {}  # step -> its group
    position = list(range(len(steps)))
    for at, step in enumerate(steps):
        if not isinstance(step, Map) or not _fusable(step):
            continue
        chosen = None
        for group in _candidates(at, step, needs, groups, steps):
            where = _where(at, group, needs, position)
            if where is not None and group.fits(step) and group.agrees(step):
                group.add(at, step, where)
                chosen = group
                break
        if chosen is None:
            chosen = Group(at, step)
        groups[at] = chosen
        for member in chosen.members:
            position[member] = chosen.position
    return _rebuilt(steps, groups, position)


def _candidates(
    at: int, step: Map, needs: list[set[int]], groups: dict[int, Group], steps: Sequence[Step]
) -> list[Group]:
    """Groups that make what the step reads, latest first, and the group of the step just before."""
    near = sorted({*needs[at], at - 1, at - 2}, reverse=True)
    found: list[Group] = []
    for other in near:
        group = groups.get(other)
        if group is not None and group not in found:
            found.append(group)
    return found


def _where(at: int, group: Group, needs: list[set[int]], position: list[int]) -> int | None:
    """Where the group with one more step could run: at its old place or at the step's; None if at neither."""
    inside = set(group.members)
    latest = max((position[n] for n in needs[at] if n not in inside), default=-1)
    if latest < group.position:
        return group.position
    # Moved down: nothing between may depend on a member.
    for other in range(min(group.members) + 1, at):
        if other not in inside and position[other] > group.position and not inside.isdisjoint(needs[other]):
            return None
    # Nor may what the step needs have been moved behind it.
    return at if latest < at else None


def _fusable(step: Map) -> bool:
    """Whether a loop computes with floating numbers, and its operands do not lie across one another."""
    if step.compute not in "fd" or any(type(n) not in (int, float, bool) for n in step.numbers):
        return False
    size = step.outs[0].array.size
    for out in step.outs:
        if any(out.overlaps(x) and _place(out) != _place(x) for x in step.ins):
            return False
        strides = out.strides
        if any(s == 0 and n > 1 for s, n in zip(strides, out.shape, strict=True)):
            return False
    return size > 0


def _flat(step: Map) -> bool:
    """Whether all operands are whole arrays side by side, so that only their number of elements counts."""
    shape = step.shape
    return all(r.shape == shape and r.contiguous for r in (*step.ins, *step.outs))


def _place(ref: Ref) -> tuple[Any, ...]:
    """Equal for references whose i-th elements are the same."""
    if ref.contiguous:
        return (ref.memory.index, ref.first, ref.array.size, ref.char)
    return ref.key


# -- from groups to loops ------------------------------------------------------------------------------


def _rebuilt(steps: list[Step], groups: dict[int, Group], position: list[int]) -> list[Step]:
    found = uses(steps)
    sequence: list[tuple[int, int, Step]] = []
    done: set[int] = set()
    for at, step in enumerate(steps):
        group = groups.get(at)
        if group is None or len(group.members) == 1:
            sequence.append((position[at], at, step))
        elif id(group) not in done:
            done.add(id(group))
            sequence.append((group.position, min(group.members), _fused(group, found)))
    sequence.sort(key=lambda item: item[:2])
    return [step for _, _, step in sequence]


def _fused(group: Group, found: dict[int, list[Use]]) -> Map:
    """One map that does what the maps of a group do."""
    inside = set(group.members)
    values: dict[Any, int] = {}  # place -> number of the value that is there now
    inputs: list[Ref] = []
    taken: dict[Any, int] = {}  # place -> input
    lines: list[tuple[Any, str, tuple[int, ...], int, tuple[str, ...]]] = []
    numbers: list[Any] = []
    last: dict[Any, tuple[int, Ref]] = {}  # place -> value and reference of what is written there last
    count = 0
    for step in group.steps:
        operands = []
        for ref in step.ins:
            place = _place(ref)
            if place not in values:
                taken[place] = len(inputs)
                values[place] = -1 - len(inputs)  # inputs count down, results count up
                inputs.append(ref)
            operands.append(values[place])
        lines.append(
            (step.loop, step.compute, tuple(operands), len(step.numbers), tuple(r.char for r in step.outs))
        )
        numbers += step.numbers
        for ref in step.outs:
            values[_place(ref)] = count
            last[_place(ref)] = (count, ref)
            count += 1
    outs = [(value, ref) for value, ref in last.values() if _lasts(ref, inside, found)]
    if not outs:  # nobody reads any of it; the pass for dead steps is off
        outs = [last[next(reversed(last))]]
    alias = tuple(taken.get(_place(ref), -1) for _, ref in outs)
    loop = fused_loop(tuple(lines), len(inputs), len(numbers), tuple(v for v, _ in outs))
    ins, results = tuple(inputs), tuple(ref for _, ref in outs)
    if group.flat:
        ins, results = tuple(map(_flattened, ins)), tuple(map(_flattened, results))
    made = Map(loop, "d", ins, results, tuple(map(float, numbers)), alias)
    made.where = group.steps[-1].where
    return made


def _lasts(ref: Ref, inside: set[int], found: dict[int, list[Use]]) -> bool:
    """Whether anybody outside of the group may read what is written there."""
    if ref.memory.kind != TEMPORARY:
        return True
    return any(
        not u.written and u.step not in inside and u.ref.overlaps(ref) for u in found[ref.memory.index]
    )


def _flattened(ref: Ref) -> Ref:
    made = ref.elsewhere(ref.memory, ref.first)
    made.array = ref.array.reshape(-1)
    made.shape, made.strides = made.array.shape, made.array.strides
    return made


_loops: dict[Any, Any] = {}


def fused_loop(lines: tuple[Any, ...], inputs: int, numbers: int, outs: tuple[int, ...]) -> Any:
    """The loop of a group; equal groups share one, wherever they are met."""
    key = (tuple((id(loop), *rest) for loop, *rest in lines), inputs, numbers, outs)
    found = _loops.get(key)
    if found is None:
        arrays = tuple(f"a{j}" for j in range(inputs))
        constants = tuple(f"c{j}" for j in range(numbers))
        results = tuple(f"o{j}" for j in range(len(outs)))
        formula = _formula(lines, inputs, outs)
        # Operands keep their types: each formula of the group converts what it needs, as its own loop did.
        found = kernels.loop.Loop("fused", formula, arrays, constants, results, frozenset(arrays))
        found.parts = tuple(loop.name for loop, *_ in lines)
        if all(loop.origin is not None for loop, *_ in lines):
            found.origin = ("fused", lines, inputs, numbers, outs)
        _loops[key] = found
    return found


def _formula(lines: tuple[Any, ...], inputs: int, outs: tuple[int, ...]) -> Any:
    def formula(*scalars: Any) -> tuple[Any, ...]:
        given, numbers = list(scalars[:inputs]), list(scalars[inputs:])
        values: list[Any] = []
        for loop, compute, operands, count, chars in lines:
            emitter = given[0].emitter if given else numbers[0].emitter
            like = Scalar(emitter, "", compute)
            xs = []
            for name, operand in zip(loop.arrays, operands, strict=True):
                x = values[operand] if operand >= 0 else given[-1 - operand]
                xs.append(x if name in loop.masks else cast(x, like))
            used, numbers[:] = numbers[:count], numbers[count:]
            results = loop.formula(*xs, *[cast(n, like) for n in used])
            for result, char in zip(
                results if isinstance(results, tuple) else (results,), chars, strict=True
            ):
                values.append(_stored(result, like, Scalar(emitter, "", char)))
        return tuple(values[j] for j in outs)

    return formula


def _stored(result: Any, compute: Scalar, kind: Scalar) -> Any:
    """A result as it would be read back after it was stored."""
    if type(result) is not Scalar:
        result = constant(result, compute)
    if kind.char == "?":
        return result if result.char == "?" else cast(result, compute) != 0
    return cast(result, kind)
