"""From steps to kernels with their arguments, and from these to words for the machine.

Nothing is compiled for a size: sizes are words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from .. import config, kernels
from ..kernels.recording import Live
from .arena import rounded
from .steps import TEMPORARY, Band, Call, Host, Map, Memory, Ref, Step, hollow

ABSOLUTE, ARENA, FIRST = 0, 1, 2  # the bases; from FIRST on, arguments and then results
Place = Callable[[Ref], tuple[int, int]]  # the base and the offset of a reference's first element
FORMULAS = 4  # of a fused loop that count as much as loading and storing an element
_KINDS = {"int": "i", "float": "f", "bases": "b"}


class Instruction:
    """A kernel with what it is given."""

    __slots__ = ("args", "count", "inner", "kernel", "kinds", "signature", "start", "step", "work")

    def __init__(
        self,
        step: Step,
        kernel: Any,
        signature: tuple[str, ...],
        args: Sequence[Any],
        start: int,
        count: int,
        work: int,
    ) -> None:
        self.step = step
        self.kernel = kernel
        self.signature = signature
        self.args = args  # Refs, arrays that stay where they are, numbers
        self.kinds = "".join([_KINDS.get(c, "p") for c in signature[:-2]])
        self.start = start
        self.count = count
        self.work = work
        self.inner: list[Instruction] = []  # of a band

    @property
    def large(self) -> bool:
        """Whether threads are worth it."""
        return self.work >= config.grain and self.count > 1 and not self.start


def lower(step: Step, place: Place, bases: int) -> Instruction | Host | None:
    """The kernel that does what a step says; None if there is nothing to do."""
    if isinstance(step, Host):
        return step
    if isinstance(step, Band):
        return _lower_band(step, place, bases)
    if isinstance(step, Call):
        if step.start >= step.count:
            return None
        return Instruction(step, step.kernel, step.chars, step.args, step.start, step.count, step.work)
    assert isinstance(step, Map)
    if not step.outs[0].array.size:
        return None
    loop = step.loop
    refs = [*step.ins, *step.outs]
    made = kernels.loop.plan([r.array for r in refs], step.alias)
    kernel, signature = loop.kernel(step.compute, "".join([r.char for r in refs]), made.layout)
    given: list[Any] = [r for j, r in enumerate(refs) if not loop.aliased(j, made.layout)]
    convert = float if step.compute in "fd" else int
    given += [convert(v) for v in step.numbers]
    if loop.needs_dims(made.layout):
        given.append(made.dims)
    # Elements of a loop with many formulas are worth more than those for which the grain was measured.
    work = made.size * max(1, len(loop.parts) // FORMULAS)
    return Instruction(step, kernel, signature, given, 0, made.outer, work)


# -- bands -------------------------------------------------------------------------------------------------
#
# A unit of a band has a table of bases of its own: a copy of the program's, then one base per temporary of which it holds a
# block, then where each step starts and stops. Behind the table are the blocks.


def allot(steps: Sequence[Step], bases: int) -> None:
    """Give bands the memory that they need in a program with so many bases."""
    index = 1 + max((r.memory.index for s in steps for r in (*s.reads(), *s.writes())), default=0)
    for band in steps:
        if isinstance(band, Band):
            size = _room(band, bases) * band.units
            memory = Memory(hollow(np.empty(size // 8, np.int64)), 0, size, index)
            memory.kind = TEMPORARY
            band.scratch = Ref(memory.root, memory, 0)
            index += 1


def _room(band: Band, bases: int) -> int:
    """Bytes per unit."""
    return rounded(8 * _entries(band, bases)) + sum(rounded(m.high - m.low) for m in band.moved)


def _entries(band: Band, bases: int) -> int:
    return bases + len(band.moved) + 2 * len(band.steps)


def _lower_band(band: Band, place: Place, bases: int) -> Instruction:
    number = {m.memory.index: bases + j for j, m in enumerate(band.moved)}

    def placed(ref: Ref) -> tuple[int, int]:
        found = number.get(ref.memory.index)
        return place(ref) if found is None else (found, ref.first)

    machine: Any = kernels.machine
    inner = [lower(step, place, bases) for step in band.steps]
    forms = []
    at = bases + len(band.moved)
    for j, i in enumerate(inner):
        assert isinstance(i, Instruction)
        forms.append((i.kinds + "rr", i.kernel.address(i.signature), [*i.args, at + 2 * j, at + 2 * j + 1]))
    code, _ = encode(forms, placed)
    table = [bases, len(band.moved), len(band.steps), _room(band, bases), band.blocks, band.units]
    room = rounded(8 * _entries(band, bases))
    for m in band.moved:
        table += [room - m.low, m.advance]
        room += rounded(m.high - m.low)
    for count, unit in band.ranges:
        table += [unit, count]
    args = [0, np.array(code, np.int64), np.array(table, np.int64), band.scratch, machine.loop()]
    kernel = machine.band()
    made = Instruction(band, kernel, machine.BAND, args, 0, band.units, band.work)
    made.inner = [i for i in inner if isinstance(i, Instruction)]
    return made


# -- words -------------------------------------------------------------------------------------------------


def encode(
    forms: Iterable[tuple[str, int, Sequence[Any]]], place: Place
) -> tuple[list[int], list[tuple[int, Live]]]:
    """The words for calls of (kinds, address, arguments), and which of them are live numbers."""
    forms = list(forms)
    jumps = kernels.machine.trampolines({kinds for kinds, _, _ in forms})
    words: list[int] = []
    places = []
    for kinds, address, args in forms:
        words += [jumps[kinds], address, len(args)]
        for a in args:
            if type(a) is Live:
                places.append((len(words), a))
            words.append(_word(a, place))
    return words, places


def _word(value: Any, place: Place) -> int:
    machine: Any = kernels.machine
    if isinstance(value, Ref):
        return int(machine.word(*place(value)))
    if isinstance(value, np.ndarray):
        return int(machine.word(ABSOLUTE, value.__array_interface__["data"][0]))
    if isinstance(value, float):
        return int(machine.float_bits(value))
    return _signed(int(value))


def _signed(value: int) -> int:
    """A whole number as the signed one with the same 64 bits."""
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)
