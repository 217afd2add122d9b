"""What a recorded program is made of: memory, references into it, and steps over them.

A step reads and writes ranges of bytes. Views are not steps: a reference says where in which memory
its elements lie, however many views were taken on the way.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

# What becomes of a memory between calls.
TEMPORARY = "temporary"  # written before it is read: has a place in the arena
STATE = "state"  # existed before the recording, and is used where it lies
ARGUMENT = "argument"  # given by the caller
RESULT = "result"  # a temporary that outlives the call


class Memory:
    """A stretch of bytes that the recorded step touched."""

    __slots__ = ("address", "constant", "index", "kind", "number", "root", "size")

    def __init__(self, root: np.ndarray, address: int, size: int, index: int) -> None:
        self.root = root  # keeps it alive, so that no other memory of the recording gets its address
        self.address = address
        self.size = size
        self.index = index
        self.kind = ""  # known when the recording is finished
        self.number = 0  # of the argument or result
        self.constant = False  # whether its contents are the same in every run

    def forget(self) -> None:
        """Let go of the memory, unless programs use it where it lies; only its form is still of interest."""
        if self.kind != STATE:
            self.root = hollow(self.root)

    def __repr__(self) -> str:
        return f"{self.kind or 'memory'} {self.index} ({self.size} bytes)"


def hollow(array: np.ndarray) -> np.ndarray:
    """An array of the same shape, dtype and strides over next to no memory: nobody reads or writes it."""
    return np.lib.stride_tricks.as_strided(np.empty(1, array.dtype), array.shape, array.strides)


class Ref:
    """Elements in a memory: an array without its contents."""

    __slots__ = ("array", "char", "first", "high", "low", "memory", "shape", "strides")

    def __init__(self, array: np.ndarray, memory: Memory, first: int) -> None:
        self.array = array  # as it was at the recording
        self.memory = memory
        self.first = first  # byte offset of the first element
        self.shape = array.shape
        self.strides = array.strides
        self.char = array.dtype.char
        low = high = first
        for n, s in zip(array.shape, array.strides, strict=True):
            if s < 0:
                low += (n - 1) * s
            else:
                high += (n - 1) * s
        empty = not array.size
        self.low = first if empty else low  # bytes [low, high) hold all elements
        self.high = first if empty else high + array.itemsize

    def elsewhere(self, memory: Memory, first: int) -> Ref:
        """The same elements at a place in another memory."""
        made = Ref(self.array, memory, first)
        made.shape, made.strides = self.shape, self.strides
        return made

    def forget(self) -> None:
        """Let go of what the elements were at the recording, unless programs use them where they lie."""
        if self.memory.kind != STATE:
            self.array = hollow(self.array)

    @property
    def contiguous(self) -> bool:
        """Whether the elements lie side by side in C order."""
        return bool(self.array.flags.c_contiguous)

    @property
    def key(self) -> tuple[Any, ...]:
        """Equal for references to the same elements in the same order."""
        return (self.memory.index, self.first, self.shape, self.strides, self.char)

    def overlaps(self, other: Ref) -> bool:
        """Whether both may touch the same byte."""
        return self.memory is other.memory and self.low < other.high and other.low < self.high

    def __repr__(self) -> str:
        return f"{self.char}{list(self.shape)} in {self.memory}"


class Step:
    """One thing that the program does; ``where`` is the user's line, ``module`` the module that was called."""

    __slots__ = ("where",)
    kind = "step"
    # Whether it does something besides writing what it writes, so that it must run even if nobody reads that.
    effect = False
    where: tuple[Any, int] | None

    def reads(self) -> Iterator[Ref]:
        """What must have been written before."""
        raise NotImplementedError

    def replaced(self, place: Callable[[Ref], Ref]) -> Step:
        """The same step with references changed by a function."""
        raise NotImplementedError

    def writes(self) -> Iterator[Ref]:
        """What it changes."""
        raise NotImplementedError

    @property
    def name(self) -> str:
        """What a report calls it."""
        raise NotImplementedError


class Map(Step):
    """A loop over elements: a formula of loop.py with its operands."""

    __slots__ = ("alias", "compute", "ins", "loop", "numbers", "outs", "shape")
    kind = "map"

    def __init__(
        self,
        loop: Any,
        compute: str,
        ins: tuple[Ref, ...],
        outs: tuple[Ref, ...],
        numbers: tuple[Any, ...],
        alias: tuple[int, ...],
    ) -> None:
        self.where = None
        self.loop = loop
        self.compute = compute
        self.ins = ins
        self.outs = outs
        self.numbers = numbers
        self.alias = alias
        self.shape = outs[0].shape

    def reads(self) -> Iterator[Ref]:
        yield from self.ins

    def writes(self) -> Iterator[Ref]:
        yield from self.outs

    def replaced(self, place: Callable[[Ref], Ref]) -> Map:
        ins, outs = tuple(map(place, self.ins)), tuple(map(place, self.outs))
        made = Map(self.loop, self.compute, ins, outs, self.numbers, self.alias)
        made.where = self.where
        return made

    @property
    def is_copy(self) -> bool:
        """Whether it hands its only operand through."""
        return bool(self.loop.identity) and len(self.ins) == 1

    @property
    def name(self) -> str:
        return str(self.loop.name)


class Call(Step):
    """A launch of a compiled kernel over a range."""

    __slots__ = ("args", "chars", "check", "count", "kernel", "refs", "start", "work", "written")
    kind = "kernel"

    def __init__(
        self,
        kernel: Any,
        chars: tuple[str, ...],
        args: tuple[Any, ...],
        start: int,
        count: int,
        work: int,
        access: tuple[tuple[bool, bool], ...],
    ) -> None:
        self.where = None
        self.kernel = kernel
        self.chars = chars
        self.args = args
        self.start = start
        self.count = count
        self.work = work
        at = [j for j, a in enumerate(args) if isinstance(a, Ref)]
        self.refs = tuple(args[j] for j in at if access[j][0])
        self.written = tuple(args[j] for j in at if access[j][1])

    def replaced(self, place: Callable[[Ref], Ref]) -> Call:
        made = copy.copy(self)
        moved = {id(a): place(a) for a in self.args if isinstance(a, Ref)}
        made.args = tuple(moved.get(id(a), a) for a in self.args)
        made.refs = tuple(moved[id(r)] for r in self.refs)
        made.written = tuple(moved[id(r)] for r in self.written)
        return made

    def reads(self) -> Iterator[Ref]:
        yield from self.refs

    def writes(self) -> Iterator[Ref]:
        yield from self.written

    @property
    def name(self) -> str:
        return str(self.kernel.fn.__name__)


class Host(Step):
    """A call of a Python function from arrays to arrays, for what is no kernel."""

    __slots__ = ("_name", "effect", "function", "given", "ins", "outs")
    kind = "host"

    def __init__(
        self,
        name: str,
        function: Callable[[list[np.ndarray]], list[np.ndarray]],
        ins: tuple[Ref, ...],
        outs: tuple[Ref, ...],
        effect: bool = False,
    ) -> None:
        self.where = None
        self._name = name
        self.function = function  # from as many arrays as ``ins`` to as many as ``outs``
        self.ins = ins
        self.outs = outs
        self.effect = effect

    def reads(self) -> Iterator[Ref]:
        yield from self.ins

    def writes(self) -> Iterator[Ref]:
        yield from self.outs

    def replaced(self, place: Callable[[Ref], Ref]) -> Host:
        made = copy.copy(self)
        made.ins, made.outs = tuple(map(place, self.ins)), tuple(map(place, self.outs))
        return made

    @property
    def name(self) -> str:
        return self._name


class Moved(NamedTuple):
    """A temporary of which a band holds one block at a time: bytes [low, high), ``advance`` further for each block."""

    memory: Memory
    low: int
    high: int
    advance: int


class Band(Step):
    """Steps that take turns over blocks of rows: see passes/bands.py.

    ``ranges`` has for each step how many items its range has, and how many of them are in a block. ``units`` runs of
    blocks may be done by different threads.
    """

    __slots__ = ("blocks", "moved", "ranges", "scratch", "steps", "units", "work")
    kind = "band"
    scratch: Ref | None  # memory of its own, once it is known how much: see lower.py

    def __init__(
        self,
        steps: Sequence[Step],
        ranges: Sequence[tuple[int, int]],
        blocks: int,
        units: int,
        moved: Sequence[Moved],
        work: int,
    ) -> None:
        self.where = steps[-1].where
        self.steps = list(steps)
        self.ranges = list(ranges)
        self.blocks = blocks
        self.units = units
        self.moved = list(moved)
        self.work = work
        self.scratch = None

    def reads(self) -> Iterator[Ref]:
        inside = {m.memory.index for m in self.moved}
        return (r for s in self.steps for r in s.reads() if r.memory.index not in inside)

    def writes(self) -> Iterator[Ref]:
        inside = {m.memory.index for m in self.moved}
        yield from (r for s in self.steps for r in s.writes() if r.memory.index not in inside)
        if self.scratch is not None:
            yield self.scratch

    @property
    def name(self) -> str:
        return " | ".join(s.name for s in self.steps)


def flat(steps: Sequence[Step]) -> Iterator[Step]:
    """The steps, with those of bands in the place of bands."""
    for step in steps:
        if isinstance(step, Band):
            yield from step.steps
        else:
            yield step
