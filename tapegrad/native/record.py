"""The recorder: turns one eager run of a function into a list of steps over memories.

It runs beside the function, in the same thread, and is told of each loop, kernel launch and copy just before it
happens (kernels/recording.py says from where). Arrays are told apart by their addresses: what the function
allocates is kept alive until the recording is over, so an address means one thing.
"""

from __future__ import annotations

import bisect
import sys
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import kernels, tape
from ..kernels import recording
from ..kernels.recording import Live, RecordingError, root_of
from ..tape import Value
from .steps import ARGUMENT, STATE, TEMPORARY, Call, Host, Map, Memory, Ref, Step

_LOOPS = "?bBhilfd"  # element types that emitted loops know


class Leaf:
    """A leaf that got a gradient, and what its gradient was when the function first touched it."""

    __slots__ = ("given", "value")

    def __init__(self, value: Value, given: Any) -> None:
        self.value = value
        self.given = given  # the gradient it came with, None, or RESET if the function cleared it


RESET = object()


class Recorder:
    """What one run of a function did."""

    def __init__(self, arguments: Sequence[np.ndarray]) -> None:
        self.steps: list[Step] = []
        self.memories: list[Memory] = []
        self.leaves: dict[int, Leaf] = {}
        self.changed: dict[int, list[Any]] = {}  # version counters that the function moved
        self.before: list[
            Any
        ] = []  # what Python does before a replay: numbers of optimizers; each with commit()
        self.after: list[Callable[[], None]] = []  # and after it: schedulers
        self.modules: dict[int, tuple[Any, bool]] = {}  # whose training flag may have been read
        self.generators: dict[
            int, tuple[Any, int, int]
        ] = {}  # with the first position and how many blocks were drawn
        self.checks: list[tuple[Ref, Callable[[np.ndarray], None], Any]] = []
        self.starts: list[
            tuple[Memory, Any, np.ndarray]
        ] = []  # constants that are written over: as they were
        self._makers: dict[int, Any] = {}  # constants that are not, by memory: a weak reference to the tensor
        self._by_root: dict[int, Memory] = {}
        self._ordered: list[Memory] = []  # by address
        self._addresses: list[int] = []
        self.groups = self._group(list(arguments))

    def _group(self, arguments: list[np.ndarray]) -> list[list[tuple[int, int]]]:
        """Memories of the arguments, one for all that overlap; per memory (argument, offset of its first element)."""
        spans = [(*np.lib.array_utils.byte_bounds(a), j) for j, a in enumerate(arguments) if a.size]
        groups: list[list[tuple[int, int]]] = []
        end = -1
        for low, high, j in sorted(spans):
            if low >= end:
                self._insert(Memory(arguments[j], low, high - low, len(self.memories)))
                self.memories[-1].kind, self.memories[-1].number = ARGUMENT, len(groups)
                groups.append([])
            memory = self.memories[-1]
            end = max(end, high)
            memory.size = end - memory.address
            groups[-1].append((j, arguments[j].__array_interface__["data"][0] - memory.address))
        return groups

    def forget(self) -> None:
        """Let go of what is only needed while something is recorded."""
        self._by_root.clear()
        self._ordered.clear()
        self._addresses.clear()

    # -- memory ---------------------------------------------------------------------------------

    def ref(self, array: np.ndarray) -> Ref:
        """A reference to the elements of an array."""
        address = array.__array_interface__["data"][0]
        at = bisect.bisect_right(self._addresses, address)
        if at and array.size:
            memory = self._ordered[at - 1]
            if address < memory.address + memory.size:
                return Ref(array, memory, address - memory.address)
        base = root_of(array)
        memory = self._by_root.get(id(base)) or self._memory(base)
        return Ref(array, memory, address - memory.address)

    def _memory(self, base: np.ndarray) -> Memory:
        low, high = np.lib.array_utils.byte_bounds(base)
        memory = Memory(base, low, high - low, len(self.memories))
        at = bisect.bisect_right(self._addresses, low)
        if base.size and at < len(self._ordered) and self._ordered[at].address < high:
            # An argument is a part of it. What the argument will be next time is not known.
            raise RecordingError(
                "an argument of the compiled function is a part of a tensor that the function also uses by itself; "
                "give it as a clone()"
            )
        self._insert(memory)
        self._by_root[id(base)] = memory
        return memory

    def _insert(self, memory: Memory) -> None:
        self.memories.append(memory)
        if memory.size:
            at = bisect.bisect_right(self._addresses, memory.address)
            self._addresses.insert(at, memory.address)
            self._ordered.insert(at, memory)

    def constant(self, value: Value) -> None:
        """Note that a tensor was made by the function, with contents that depend on nothing else."""
        memory = self.ref(value._array).memory
        memory.constant = True
        self._makers[memory.index] = weakref.ref(value)

    def touch(self, array: np.ndarray) -> None:
        """Note that an array existed before it is written to: it is changed where it lies."""
        memory = self.ref(array).memory
        memory.kind = memory.kind or STATE
        self._keep_start(memory)

    def outside(self, value: Value) -> bool:
        """Whether a tensor exists outside of the function, so that what happens to it is seen there."""
        memory = self.ref(value._array).memory
        made = self._makers.get(memory.index)
        # The names of one that nobody holds: in the notes about leaves, here, and the argument of the question.
        if made is not None and made() is value and sys.getrefcount(value) == 3:
            return False
        return memory.kind in (STATE, ARGUMENT, "")

    def replaced(self, value: Value, how: str) -> None:
        """A tensor is about to get other memory."""
        memory = self.ref(value._array).memory
        if memory.kind != TEMPORARY and memory.index not in self._makers:
            self.refuse(f"{how} of a tensor from outside (write into it instead: copy_)")

    def _keep_start(self, memory: Memory) -> None:
        """Keep what a constant starts with, since it is about to be written over."""
        made = self._makers.pop(memory.index, None)
        if made is not None and memory.kind in ("", STATE):
            memory.kind, memory.constant = STATE, False
            self.starts.append((memory, made, memory.root.copy()))

    def settle(self, results: Sequence[Value]) -> None:
        """Decide about constants that were written over: state if somebody kept them, else each run starts afresh."""
        for optimizer in {id(b.optimizer): b.optimizer for b in self.before}.values():
            # The names are: each note of a step, the dictionary, the one here, and the argument of the question.
            if sys.getrefcount(optimizer) == sum(b.optimizer is optimizer for b in self.before) + 3:
                raise RecordingError(
                    f"the function makes an optimizer ({type(optimizer).__name__}) of its own, whose counts and state a "
                    "program would carry over to its next run; make the optimizer outside, or write its steps as operations"
                )
        recorded = len(self.steps)
        for memory, made, start in self.starts:
            value = made()
            # The results' list and the tree they came from hold it, each view of it that is a result does, and here is a name.
            known = 2 + sum(
                2 * (r is value) + (r._view is not None and r._view.base is value) for r in results
            )
            if value is not None and sys.getrefcount(value) > known + (id(value) in self.leaves):
                continue
            memory.kind = TEMPORARY
            self.copy(memory.root, start)
            self.ref(start).memory.constant = True
        for step in self.steps[recorded:]:
            step.where = None
        self.steps = self.steps[recorded:] + self.steps[:recorded]

    def _add(self, step: Step) -> None:
        step.where = tape.site()
        # What a kernel both reads and writes, like a sum that it goes on with, is its own: what existed before is touched first.
        for ref in step.writes():
            self._keep_start(ref.memory)
            ref.memory.kind = ref.memory.kind or TEMPORARY
        for ref in step.reads():
            ref.memory.kind = ref.memory.kind or STATE  # somebody outside wrote it
        self.steps.append(step)

    # -- what the kernels report ------------------------------------------------------------------

    def map(
        self,
        loop: Any,
        compute: str,
        inputs: Sequence[np.ndarray],
        outs: Sequence[np.ndarray],
        numbers: Sequence[Any],
        alias: tuple[int, ...],
    ) -> None:
        """An elementwise loop."""
        refs = tuple(map(self.ref, inputs))
        self._add(Map(loop, compute, refs, tuple(map(self.ref, outs)), tuple(numbers), alias))

    def copy(self, to: np.ndarray, source: Any) -> None:
        """``to[...] = source``"""
        if not to.size:
            return
        if not isinstance(source, np.ndarray):
            if isinstance(source, np.generic):
                self.refuse("a number that an operation took out of an array")
            if to.dtype.char in _LOOPS:
                number = source
                self.map(kernels.loop.FILL, to.dtype.char, (), (to,), (number,), (-1,))
                return
            source = np.array(source)
        if to.dtype.char in _LOOPS and source.dtype.char in _LOOPS:
            source = source if source.shape == to.shape else np.broadcast_to(source, to.shape)
            compute = to.dtype.char if to.dtype.char != "?" else source.dtype.char
            self.map(kernels.loop.COPY, compute, (source,), (to,), (), (-1,))
            return

        def function(arrays: list[np.ndarray]) -> list[np.ndarray]:
            return [arrays[0]]

        self._add(Host("copy", function, (self.ref(source),), (self.ref(to),)))

    def call(
        self, kernel: Any, chars: tuple[str, ...], args: Sequence[Any], start: int, count: int, work: int
    ) -> None:
        """A launch of a kernel."""
        given = tuple(self.ref(a) if isinstance(a, np.ndarray) else a for a in args)
        access = kernels.access.access(kernel)
        self._add(Call(kernel, chars, given, start, count, work, access))

    def forward(self, op: Any, arrays: Sequence[Any], params: dict[str, Any]) -> Any:
        """The forward function of an op: kernel by kernel if it is made of kernels, else as a call of Python."""
        if op.native:
            return op.forward(*arrays, **params)
        return self._as_host(op.name, op.forward, tuple(arrays), params)

    def host(self, function: Callable[..., Any], args: tuple[Any, ...], given: dict[str, Any]) -> Any:
        """A function over arrays that a replay has to call again."""
        return self._as_host(function.__name__, function, args, given)

    def _as_host(
        self, name: str, function: Callable[..., Any], args: tuple[Any, ...], given: dict[str, Any]
    ) -> Any:
        with recording.paused():
            result = _arrays(function(*args, **given))
        inputs: list[np.ndarray] = []
        shape = _take_apart((args, given), inputs)
        refs = tuple(map(self.ref, inputs))
        results: list[Any] = []
        self._flat(name, result, results)
        # A result that lies in the memory of an operand is a view of it: nothing is written.
        fresh = [j for j, r in enumerate(results) if not any(self.ref(r).overlaps(x) for x in refs)]
        shapes = [(results[j].shape, results[j].dtype) for j in fresh]

        def again(arrays: list[np.ndarray]) -> list[np.ndarray]:
            args, given = _put_together(shape, iter(arrays))
            made: list[Any] = []
            self_flat(name, _arrays(function(*read(args), **read(given))), made)
            chosen = [made[j] for j in fresh]
            for array, (wanted, dtype) in zip(chosen, shapes, strict=True):
                if array.shape != wanted or array.dtype != dtype:
                    raise RecordingError(
                        f"{name}: the shape of the result depends on values ({list(wanted)} when it was recorded, now "
                        f"{list(array.shape)}); a compiled function needs shapes that depend on shapes alone"
                    )
            return chosen

        self_flat = self._flat
        outs = tuple(self.ref(results[j]) for j in fresh)
        self._add(Host(name, again, refs, outs, effect=not results))
        return result

    @staticmethod
    def _flat(name: str, result: Any, found: list[Any]) -> None:
        """The arrays in a result; numbers cannot be there, since they would be the same in every replay."""
        if isinstance(result, np.ndarray):
            found.append(result)
        elif isinstance(result, (tuple, list)):
            for item in result:
                Recorder._flat(name, item, found)
        elif result is not None:
            raise RecordingError(
                f"{name} gives a number that depends on values, which a compiled function cannot use"
            )

    # -- what the engine and the library report -----------------------------------------------------

    def refuse(self, what: str) -> None:
        """Raise: the function does something that a replay cannot repeat."""
        raise RecordingError(
            f"{what} inside a compiled function, at {tape.describe_site(tape.site())}: the program that is recorded runs "
            "without Python, so it cannot hand values to Python. Return the tensor and read it outside, or use "
            "tg.where for a choice that depends on values."
        )

    def leaf(self, value: Value) -> Leaf:
        """The note about a leaf whose gradient is about to change."""
        found = self.leaves.get(id(value))
        if found is None:
            found = self.leaves[id(value)] = Leaf(value, value._grad)
        return found

    def cleared(self, value: Value) -> None:
        """A gradient is being set to None by the function."""
        if id(value) not in self.leaves:
            self.leaves[id(value)] = Leaf(value, RESET)

    def module(self, module: Any) -> None:
        """A module is being called."""
        self.modules[id(module)] = (module, module.training)
        recording.modules.add(module)

    def repeat(self, call: Callable[[], None]) -> None:
        """Do something after each replay."""
        self.after.append(call)

    def bumped(self, version: list[Any]) -> None:
        """A version counter is being moved on."""
        self.changed[id(version)] = version

    def draw(self, generator: Any, seed: int, offset: int, blocks: int) -> tuple[int, int, int]:
        """Keys and position of random words that are drawn: read anew at each replay."""
        _, start, used = self.generators.get(id(generator), (generator, offset, 0))
        self.generators[id(generator)] = (generator, start, used + blocks)
        ahead = offset - start
        return (
            Live(seed & 0xFFFF_FFFF, lambda: generator._seed & 0xFFFF_FFFF),
            Live(seed >> 32, lambda: generator._seed >> 32),
            Live(offset, lambda: (generator._offset + ahead) & 0x7FFF_FFFF_FFFF_FFFF),
        )

    def look(self, array: np.ndarray, function: Callable[[], None]) -> None:
        """Call a function that may look at an array, now and at this place of each replay."""

        def again(arrays: list[np.ndarray]) -> list[np.ndarray]:
            function()
            return []

        with recording.paused():
            function()
        self._add(Host(getattr(function, "__name__", "hook"), again, (self.ref(array),), (), effect=True))

    def check(self, array: np.ndarray, function: Callable[[np.ndarray], None]) -> None:
        """Call a function with an array's contents after each replay: it raises if a kernel met bad values.

        The contents of an array of one element are noted as well: what the function let pass it will let pass again.
        """
        self.checks.append((self.ref(array), function, array.item() if array.size == 1 else None))


def _arrays(result: Any) -> Any:
    """A result with NumPy's scalars as 0-d arrays, which have an address."""
    if isinstance(result, np.generic):
        return np.asarray(result)
    if type(result) in (tuple, list):
        return type(result)(_arrays(r) for r in result)
    return result


def read(x: Any) -> Any:
    """Arguments with the numbers that are read anew at each replay as they are now."""
    if type(x) is Live:
        return int(x.source())
    if isinstance(x, tuple):
        items = [read(v) for v in x]
        return type(x)(*items) if hasattr(x, "_fields") else tuple(items)
    if isinstance(x, list):
        return [read(v) for v in x]
    if isinstance(x, dict):
        return {k: read(v) for k, v in x.items()}
    return x


class _Hole:
    """The place of an array in arguments."""


_HOLE = _Hole()


def _take_apart(x: Any, found: list[np.ndarray]) -> Any:
    """Arguments with their arrays taken out, in order."""
    if isinstance(x, np.ndarray):
        found.append(x)
        return _HOLE
    if isinstance(x, tuple):
        items = [_take_apart(v, found) for v in x]
        return type(x)(*items) if hasattr(x, "_fields") else tuple(items)
    if isinstance(x, list):
        return [_take_apart(v, found) for v in x]
    if isinstance(x, dict):
        return {k: _take_apart(v, found) for k, v in x.items()}
    return x


def _put_together(x: Any, arrays: Any) -> Any:
    """The inverse of _take_apart."""
    if x is _HOLE:
        return next(arrays)
    if isinstance(x, tuple):
        items = [_put_together(v, arrays) for v in x]
        return type(x)(*items) if hasattr(x, "_fields") else tuple(items)
    if isinstance(x, list):
        return [_put_together(v, arrays) for v in x]
    if isinstance(x, dict):
        return {k: _put_together(v, arrays) for k, v in x.items()}
    return x
