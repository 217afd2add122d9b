"""A program: steps lowered to words for the machine, with the calls of Python that stand among them.

Lowering gives every memory its place, every map its compiled loop and every launch its address. Nothing is compiled for a
size: sizes are words.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import buffers, config, kernels
from ..kernels.recording import Live
from . import arena
from .lower import ABSOLUTE, ARENA, FIRST, Instruction, allot, encode, lower
from .steps import ARGUMENT, RESULT, STATE, TEMPORARY, Host, Memory, Ref, Step

MOST = 16  # arrays whose addresses one call takes
PRIVATE = 1 << 16  # bytes: an arena of this size stays with its workspace


class Workspace:
    """The memory of one run: a table of bases, and an arena while it runs."""

    __slots__ = ("arena", "bases", "views")

    def __init__(self, bases: int) -> None:
        self.arena = np.empty(0, np.uint8)
        self.bases = np.zeros(bases, np.int64)
        self.views: dict[int, np.ndarray] = {}

    def take(self, size: int) -> None:
        """Get an arena. All programs share large ones, so their number is that of runs at one time, not of programs."""
        found = self.arena if size <= PRIVATE else self.arena[:0]
        if size > PRIVATE and _arenas:
            with contextlib.suppress(IndexError):  # another thread took the last one
                found = _arenas.pop()
        if found.size < size:
            room = buffers.empty((size + arena.ALIGN,), np.dtype(np.uint8))
            shift = -room.__array_interface__["data"][0] % arena.ALIGN
            found = room[shift : shift + size]
        if found is not self.arena:
            self.arena = found
            self.bases[ARENA] = found.__array_interface__["data"][0]
            self.views.clear()


_arenas: list[np.ndarray] = []


class Program:
    """Steps that run without Python, apart from those that are calls of it.

    ``arguments`` counts the memories that callers give, ``results`` are those that outlive a run.
    """

    def __init__(
        self, steps: Sequence[Step], memories: Sequence[Memory], arguments: int, results: Sequence[Memory]
    ) -> None:
        self.steps = list(steps)
        self.arguments = arguments
        self.results = list(results)
        self.bases = FIRST + arguments + len(self.results)
        allot(self.steps, self.bases)
        self.offsets, self.arena_size = arena.plan(self.steps)
        self.stages: list[Host | Stretch] = []
        stretch: list[Instruction] = []
        for step in self.steps:
            made = lower(step, self.place, self.bases)
            if isinstance(made, Host):
                if stretch:
                    self.stages.append(Stretch(self, stretch))
                    stretch = []
                self.stages.append(made)
            elif made is not None:
                stretch.append(made)
        if stretch or not self.stages:
            self.stages.append(Stretch(self, stretch))
        self.constants = [m.root for m in memories if m.kind == STATE]  # which have to stay alive
        self.spaces: list[Workspace] = []  # those that no run is using
        self.bind: Any = None
        self.enter: Any = None
        self.loop = 0

    # -- running ----------------------------------------------------------------------------------

    def run(self, bound: Sequence[np.ndarray]) -> None:
        """Run with one array per memory of an argument and per result, in that order."""
        space = self.workspace()
        try:
            self._run(space, bound)
        finally:
            self.done(space)

    def workspace(self) -> Workspace:
        """Memory for a run that no other run is using."""
        try:
            space = self.spaces.pop()
        except IndexError:
            space = Workspace(self.bases)
            if self.arena_size <= PRIVATE:
                space.take(self.arena_size)
        if self.arena_size > PRIVATE:
            space.take(self.arena_size)
        return space

    def done(self, space: Workspace) -> None:
        """Take a workspace back."""
        if self.arena_size > PRIVATE:
            _arenas.append(space.arena)
        self.spaces.append(space)

    def bind_all(self, space: Workspace, bound: Sequence[np.ndarray]) -> None:
        """Put the addresses of arguments and results into the table of bases, and run nothing."""
        bind = kernels.machine.enter(1)
        for j, array in enumerate(bound):
            bind(0, space.bases, space.bases, FIRST + j, array, 0, 0)

    def _run(self, space: Workspace, bound: Sequence[np.ndarray]) -> None:
        if self.enter is None and not self.prepare(len(bound)):
            self._interpret(space, bound)
            return
        at, rest = 0, bound
        if len(bound) > MOST:
            while len(bound) - at > MOST:  # one call takes so many arrays; all but the last calls only bind
                self.bind(self.loop, space.bases, space.bases, FIRST + at, *bound[at : at + MOST], 0, 0)
                at += MOST
            rest = bound[at:]
        for stage in self.stages:
            if isinstance(stage, Host):
                self.call(stage, space, bound)
            else:
                stage.enter(self, space.bases, FIRST + at, rest)

    def prepare(self, count: int) -> bool:
        """Find the machine's entries; False if kernels are plain Python."""
        machine = kernels.machine
        if machine.plain():
            return False
        if count > MOST:
            self.bind = machine.enter(MOST)
        self.enter = machine.enter((count - 1) % MOST + 1 if count else 0)
        self.loop = machine.loop()
        return True

    def call(self, host: Host, space: Workspace, bound: Sequence[np.ndarray]) -> None:
        """Call Python in the middle of a program."""
        made = host.function([self.view(r, space, bound) for r in host.ins])
        for ref, array in zip(host.outs, made, strict=True):
            with np.errstate(all="ignore"):
                np.copyto(self.view(ref, space, bound), array, casting="unsafe")

    def _interpret(self, space: Workspace, bound: Sequence[np.ndarray]) -> None:
        """Kernels as plain Python, one after the other."""
        for stage in self.stages:
            if isinstance(stage, Host):
                self.call(stage, space, bound)
                continue
            for i in stage.instructions:
                args = [self.view(a, space, bound) if isinstance(a, Ref) else read_number(a) for a in i.args]
                i.kernel.entry(i.signature)(*args, i.start, i.count)

    # -- places ---------------------------------------------------------------------------------------

    def place(self, ref: Ref) -> tuple[int, int]:
        """The base and the offset of a reference's first element."""
        memory = ref.memory
        if memory.kind == STATE:
            return ABSOLUTE, memory.address + ref.first
        if memory.kind == TEMPORARY:
            return ARENA, self.offsets[memory.index] + ref.first
        if memory.kind == ARGUMENT:
            return FIRST + memory.number, ref.first
        assert memory.kind == RESULT
        return FIRST + self.arguments + memory.number, ref.first

    def view(self, ref: Ref, space: Workspace | None, bound: Sequence[np.ndarray]) -> np.ndarray:
        """A reference as an array, in one run."""
        if ref.memory.kind == STATE:
            return array_at(ref.memory.address + ref.first, ref, ref.memory.root)
        base, offset = self.place(ref)
        if base == ARENA:
            assert space is not None
            found = space.views.get(id(ref))
            if found is not None:
                return found
            found = space.views[id(ref)] = np.ndarray(
                ref.shape, ref.array.dtype, space.arena, offset, ref.strides
            )
            return found
        owner = bound[base - FIRST]
        return array_at(owner.__array_interface__["data"][0] + offset, ref, owner)


def array_at(address: int, ref: Ref, owner: np.ndarray) -> np.ndarray:
    """An array like a reference, at an address inside of its owner's memory."""
    for array in (owner, ref.array):
        like = array.shape == ref.shape and array.strides == ref.strides and array.dtype == ref.array.dtype
        if like and array.__array_interface__["data"][0] == address:
            return array
    low = ref.low - ref.first
    size = ref.high - ref.low
    if not size:
        return np.empty(ref.shape, ref.array.dtype)
    raw: Any = (ctypes.c_char * size).from_address(address + low)
    raw._owner = owner  # keeps the memory alive as long as the array
    return np.ndarray(ref.shape, ref.array.dtype, raw, -low, ref.strides)


def read_number(value: Any) -> Any:
    """A number, read anew if it is a live one."""
    return int(value.source()) if type(value) is Live else value


class Stretch:
    """Instructions between two calls of Python."""

    def __init__(self, program: Program, instructions: list[Instruction]) -> None:
        self.program = program
        self.instructions = instructions
        self.large = any(i.large for i in instructions)
        self.work = max((i.work for i in instructions), default=0)
        self.live = any(type(a) is Live for i in instructions for a in i.args)
        self._codes: dict[int, tuple[np.ndarray, list[tuple[int, Live]]]] = {}
        self.count = len(instructions)
        self.plain: np.ndarray | None = None  # the words for one thread, if they are always the same

    def enter(self, program: Program, bases: np.ndarray, first: int, arrays: Sequence[np.ndarray]) -> None:
        """Bind arrays to the bases from ``first`` on, and run."""
        if self.large and config.threads > 1:

            def region(threads: int) -> None:
                program.enter(program.loop, self.code(threads), bases, first, *arrays, 0, self.count)

            if kernels.launch.in_region(self.work, region):
                return
        code = self.plain if self.plain is not None else self.code(1)
        program.enter(program.loop, code, bases, first, *arrays, 0, self.count)

    def code(self, threads: int) -> np.ndarray:
        """The words for the machine, with live numbers as they are now."""
        found = self._codes.get(threads)
        if found is None:
            found = self._codes[threads] = self._words(threads)
        code, places = found
        if threads == 1 and not places:
            self.plain = code
        if places:
            code = code.copy()  # another thread may be running the same words
            for at, live in places:
                code[at] = live.source()
        return code

    def _words(self, threads: int) -> tuple[np.ndarray, list[tuple[int, Live]]]:
        forms: list[tuple[str, int, list[Any]]] = []
        for i in self.instructions:
            address = i.kernel.address(i.signature)
            if threads > 1 and i.large:
                launcher, kinds = kernels.launch.launcher(i.kinds)
                forms.append((kinds, launcher, [address, *i.args, i.count, min(threads, i.count)]))
            else:
                forms.append((i.kinds + "ii", address, [*i.args, i.start, i.count]))
        words, places = encode(forms, self.program.place)
        return np.array(words, np.int64), places
