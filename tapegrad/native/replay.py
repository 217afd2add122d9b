"""A recording: what one run of a function did, and how it is done again."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import buffers, kernels
from ..kernels import recording
from ..locks import shared
from ..tape import Value
from .entry import alias, written_out
from .outer import CompiledOp, Outer
from .passes import optimised
from .passes.constants import LARGEST
from .program import Program, Stretch, array_at
from .record import RESET, Recorder
from .steps import ARGUMENT, RESULT, STATE, TEMPORARY, Memory, Ref
from .trees import SLOT, unflatten

_empty = buffers.empty
_NEW = ("made", "alias")  # outputs that are tensors of each run's own
_said: list[None] = []
_references = sys.getrefcount


def _say(name: str) -> None:
    if not _said:
        _said.append(None)
        text = f"tapegrad: compiling kernels for {name}; they are kept on disk, so the next process need not"
        print(text, file=sys.stderr)


def _all_of(ref: Ref) -> bool:
    """Whether a reference is all of its memory, perhaps in another shape."""
    root = ref.memory.root
    return bool(ref.contiguous and ref.array.size == root.size and ref.char == root.dtype.char)


def _span(tensors: Sequence[Value]) -> tuple[int, int]:
    """The first byte and the end of the memory of tensors."""
    bounds = [np.lib.array_utils.byte_bounds(t._array) for t in tensors]
    return min(low for low, _ in bounds), max(high for _, high in bounds)


class Recording:
    """One run of the function, and what has to hold for it to be done again."""

    def __init__(
        self,
        name: str,
        recorder: Recorder,
        structure: Any,
        results: list[Value],
        tensors: Sequence[Value],
        outer: Outer,
        flat_form: Any,
    ) -> None:
        self.recorder = recorder
        self.structure = structure
        self.epoch = recording.epoch[0]
        self.modules = list(recorder.modules.values())
        recorder.settle(results)
        self.results: list[Memory] = []  # what each run allocates
        self.outputs = [self._output(j, results, tensors) for j in range(len(results))]
        # What the function made for itself (a point between two others, a copy that wants gradients) is gone with the run.
        noted = [leaf for leaf in recorder.leaves.values() if recorder.outside(leaf.value)]
        leaves = [self._leaf(leaf, tensors) for leaf in noted]
        self.guarded = [
            (value, given) for value, given, _ in leaves if given is not RESET and type(value) is not int
        ]
        self.bare = [value for value, given, _ in leaves if given is None and type(value) is int]
        # Arguments that came with a gradient, which the program goes on with: those tensors and no others.
        self.fixed = [(j, v) for v, *_ in leaves for j, t in enumerate(tensors) if t is v]
        self.cleared = [value for value, _, grad in leaves if grad is None]
        self.grads = {grad.memory.number: (value, grad) for value, _, grad in leaves if type(grad) is Ref}
        for ref, *_ in recorder.checks:
            self._result(ref)
        self.arguments = [
            m for m in recorder.memories if m.kind == ARGUMENT and m.index < len(recorder.groups)
        ]
        outer.claim(self._result, self.arguments)
        self.outer = outer
        self.op = CompiledOp(outer, name)
        # Counters of tensors that nobody else holds need no counting.
        self.versions = [v for v in recorder.changed.values() if sys.getrefcount(v) > 3]
        self.generators = sorted(recorder.generators.values(), key=lambda item: id(item[0]))
        # What a run holds, in one order for all programs: else another thread would draw the same numbers, or what one of
        # two adds to a gradient would be lost.
        self.locks: list[Any] = [generator._lock for generator, _, _ in self.generators]
        if any(grad is not None and type(grad) is not Ref for *_, grad in leaves):
            self.locks.append(shared)
        self.before, self.after, self.checks = recorder.before, recorder.after, recorder.checks
        self.first = [
            group[0][0] for group in recorder.groups
        ]  # per memory of arguments: the one that is bound
        self.apart = [group for group in recorder.groups if len(group) > 1]
        self.pinned: list[tuple[int, int]] = []  # arguments that have to start at an address
        self.overlaps = self._kinds_of_overlap()
        self.shared = self._shared()
        self.plain_state = self._plain_state() if self.shared else {}
        self.program: Program | None = None
        self.ready = False  # whether the program and all that belongs to it is there
        self._lowering = threading.Lock()
        self._note_state()
        # What folds into constants is small; all else is forgotten, since a recording may never be used again.
        self._forget(LARGEST)
        self._used_up: Any = None
        self.flat_form = flat_form  # what was called, if that was nothing but tensors
        self.enter: Any = None  # the short way, if there is one; it asks by itself whether the recording fits
        self.counts: dict[str, int] = {}

    def pin(self, tensors: Sequence[Value], outside: Sequence[Value]) -> None:
        """Arguments in the memory of tensors from outside are taken for those: the program serves no others."""
        for j, t in enumerate(tensors):
            root, (low, high) = recording.root_of(t._array), _span([t])
            near = [v for v in outside if v is t or recording.root_of(v._array) is root]
            near = [v for v in near if _span([v])[0] < high and low < _span([v])[1]]
            if any(v is t for v in near):
                self.fixed.append((j, t))
            elif near:
                self.pinned.append((j, low))

    def _note_state(self) -> None:
        """Let it be known which memory is used where it lies."""
        for step in (*self.recorder.steps, *self.outer.steps):
            for ref in (*step.reads(), *step.writes()):
                if ref.memory.kind == STATE:
                    start = ref.memory.address
                    recording.use(ref.memory.root, start + ref.low, start + ref.high)

    def _kinds_of_overlap(self) -> list[tuple[int, int]]:
        """Pairs of the arguments' memories of which one is written: they must not overlap, since they did not."""
        written = {
            r.memory.number for s in self.recorder.steps for r in s.writes() if r.memory.kind == ARGUMENT
        }
        return [
            (a, b)
            for a in sorted(written)
            for b in range(len(self.first))
            if a != b and (b > a or b not in written)
        ]

    def _shared(self) -> dict[int, Memory]:
        """Memories of state, by the array that owns them, in which no argument may lie: those of which either is written."""
        refs = [(r, True) for s in self.recorder.steps for r in s.writes()]
        refs += [(r, False) for s in self.recorder.steps for r in s.reads()]
        arguments = any(r.memory.kind == ARGUMENT for r, written in refs if written)
        used = [r.memory for r, written in refs if r.memory.kind == STATE and (written or arguments)]
        return {id(m.root): m for m in used}

    def _plain_state(self) -> dict[int, Memory]:
        """What of that is no parameter, buffer, gradient or optimizer's: what somebody may well give as an argument."""
        values = [leaf.value for leaf in self.recorder.leaves.values()]
        values += [v for m, _ in self.modules for v in (*m.parameters(), *m.buffers())]
        for optimizer in {id(b.optimizer): b.optimizer for b in self.before}.values():
            values += [v for group in optimizer.param_groups for v in group["params"]]
            values += [
                v for state in optimizer.state.values() for v in state.values() if isinstance(v, Value)
            ]
        values += [v._grad for v in values if v._grad is not None]
        own = {id(recording.root_of(v._array)) for v in values}
        return {key: memory for key, memory in self.shared.items() if key not in own}

    def in_state(self, tensors: Sequence[Value]) -> bool:
        """Whether an argument lies in memory that the function uses by itself, and one of both is written."""
        for t in tensors:
            memory = self.shared.get(id(recording.root_of(t._array)))
            if memory is not None:
                low, high = np.lib.array_utils.byte_bounds(t._array)
                if low < memory.address + memory.size and memory.address < high:
                    return True
        return False

    def overlapping(self, tensors: Sequence[Value]) -> bool:
        """Whether an argument that is written lies in the memory of another one."""
        if not self.overlaps:
            return False
        spans = [_span([tensors[j] for j, _ in group]) for group in self.recorder.groups]
        return any(spans[a][0] < spans[b][1] and spans[b][0] < spans[a][1] for a, b in self.overlaps)

    def _result(self, ref: Ref) -> None:
        memory = ref.memory
        if memory.kind == TEMPORARY:
            memory.kind, memory.number = RESULT, len(self.results)
            self.results.append(memory)

    def _forget(self, least: int) -> None:
        """Let go of the memories of the recording that have at least so many bytes."""
        recorder, outer = self.recorder, self.outer
        refs = [r for s in (*recorder.steps, *outer.steps) for r in (*s.reads(), *s.writes())]
        refs += [what for _, what, _ in self.outputs if type(what) is Ref]
        refs += [ref for ref, *_ in self.checks] + [ref for _, ref in self.grads.values()]
        refs += outer.refs()
        memories = {r.memory.index: r.memory for r in refs}
        memories.update({m.index: m for m in recorder.memories})
        for ref in refs:
            if ref.memory.size >= least:
                ref.forget()
        for memory in memories.values():
            if memory.size >= least:
                memory.forget()
        recorder.forget()

    def _output(
        self, number: int, results: Sequence[Value], tensors: Sequence[Value]
    ) -> tuple[str, Any, Any]:
        """How an output is made: one of the arguments, an output before it again, an existing tensor, one that lies in an
        existing tensor's memory, a copy of a constant, or a result."""
        value = results[number]
        for j, t in enumerate(tensors):
            if t is value:
                return "argument", j, None
        first = next(j for j, v in enumerate(results) if v is value)
        if first < number:
            return "again", first, None
        ref = self.recorder.ref(value._array)
        if ref.memory.kind in (STATE, ""):  # "": no step touched it
            # What nobody else holds was made by the function: callers get one of their own each time. The references are: the
            # list of results and the tree that it comes from, the name here, the argument of the question, a note about a leaf.
            own = 2 + 2 * sum(v is value for v in results) + (id(value) in self.recorder.leaves)
            if sys.getrefcount(value) > own:
                return "same", value, None
            # Its counter of changes tells whether it shares memory with a tensor that exists.
            if not ref.memory.constant and (value._view is not None or sys.getrefcount(value._version) > 2):
                return "alias", (value._array, value._version), value._result
            kept = value._array
            value._set_array(kept.copy())
            return "copy", kept, value._result
        self._result(ref)
        return "made", ref, value._result

    def _leaf(self, leaf: Any, tensors: Sequence[Value]) -> tuple[Any, Any, Any]:
        """A leaf, the gradient that it must have before a run, and where the one that it has afterwards lies.

        For an argument that came without a gradient, or lost it, the leaf is its number: each run has another one.
        """
        value, grad = leaf.value, leaf.value._grad
        if leaf.given is None or leaf.given is RESET:
            value = next((j for j, t in enumerate(tensors) if t is value), value)
        if grad is None:
            return value, leaf.given, None
        ref = self.recorder.ref(grad._array)
        self._result(ref)
        return value, leaf.given, ref if ref.memory.kind == RESULT else grad

    def fits(self, tensors: Sequence[Value]) -> bool:
        """Whether what the recording found outside of its arguments is still so."""
        if self.epoch != recording.epoch[0]:
            return False
        for module, training in self.modules:
            if module.training is not training:
                return False
        for value, given in self.guarded:
            if value._grad is not given:
                return False
        for j, value in self.fixed:
            if tensors[j] is not value:
                return False
        for j, address in self.pinned:
            if _span([tensors[j]])[0] != address:
                return False
        for j in self.bare:
            if tensors[j]._grad is not None:
                return False
        for group in self.apart:
            # Arguments that overlapped have to lie to one another as they did.
            addresses = {tensors[j]._array.__array_interface__["data"][0] - at for j, at in group}
            if len(addresses) > 1:
                return False
        return not self.overlapping(tensors) and not (self.shared and self.in_state(tensors))

    def lower(self, without: frozenset[str]) -> Program:
        """Make the program; says so, once, if kernels have to be compiled for it and that takes a while."""
        with self._lowering:
            if self.ready:  # another thread has done it
                assert self.program is not None
                return self.program
            notice = threading.Timer(1.0, _say, [self.op.name])
            notice.daemon = True
            notice.start()
            try:
                return self._lower(without)
            finally:
                notice.cancel()

    def _lower(self, without: frozenset[str]) -> Program:
        r = self.recorder
        steps, self.counts = optimised(r.steps, without)
        made = self.program = Program(steps, r.memories, len(r.groups), self.results)
        self.makers = [self._maker(m) for m in self.results]
        for stage in made.stages:
            if isinstance(stage, Stretch) and not kernels.machine.plain():
                stage.code(1)  # compiles what is missing
        if self.outer.outputs and not self.outer.truncated:
            self.outer.lower(r.memories, without)
        self._forget(0)
        self.enter = written_out(self)
        self.ready = True
        return made

    def _maker(self, memory: Memory) -> tuple[tuple[int, ...], np.dtype, Any, Any]:
        """Shape and dtype of a result, and the leaf whose gradient it is, with a reference if that is a part."""
        root = memory.root
        if memory.number not in self.grads:
            # An output that is all of a memory gets it in its own shape: a loss is made as an array of one element.
            shapes = [
                r.shape for how, r, _ in self.outputs if how == "made" and r.memory is memory and _all_of(r)
            ]
            return shapes[0] if shapes else root.shape, root.dtype, None, None
        value, ref = self.grads[memory.number]
        whole = ref.first == 0 and ref.shape == root.shape and ref.strides == root.strides
        return root.shape, root.dtype, value, None if whole else ref

    # -- running ----------------------------------------------------------------------------------

    def run(self, tensors: Sequence[Value], without: frozenset[str]) -> Any:
        """Do it again."""
        if not self.locks:
            return self._run(tensors, without)
        with contextlib.ExitStack() as stack:
            for lock in self.locks:
                stack.enter_context(lock)
            return self._run(tensors, without)

    def _run(self, tensors: Sequence[Value], without: frozenset[str]) -> Any:
        program = self.program
        if program is None or not self.ready:
            program = self.lower(without)
        bound = [tensors[j]._array for j in self.first]
        for call in self.before:
            call()
        fresh: list[tuple[Any, Any, np.ndarray]] = []
        for shape, dtype, leaf, ref in self.makers:
            if leaf is not None:
                if type(leaf) is int:
                    leaf = tensors[leaf]
                grad = leaf._grad
                # A gradient that nobody but its leaf holds is written over. The references are: the
                # leaf, the name here, the argument of the question; of the array: its tensor, the question.
                if (
                    grad is not None
                    and ref is None
                    and grad._char == dtype.char
                    and _references(grad) == 3
                    and _references(grad._array) == 2
                    and grad._node is None
                    and grad._view is None
                    and buffers.whole(grad._array)
                ):
                    bound.append(grad._array)
                    continue
                array = _empty(shape, dtype)
                fresh.append((leaf, ref, array))
            else:
                array = _empty(shape, dtype)
            bound.append(array)
        for call in self.before:
            call.commit()
        earlier = [(leaf, leaf._grad) for leaf, _, _ in fresh]
        for leaf, ref, array in fresh:  # before the run, since hooks may look at them
            leaf._grad = leaf._make(array if ref is None else self._array(ref, bound))
        try:
            program.run(bound)
            for ref, check, _ in self.checks:
                check(self._array(ref, bound))
        except BaseException:
            for leaf, grad in earlier:
                leaf._grad = grad
            raise
        starts = [(generator, generator._offset) for generator, _, _ in self.generators]
        for generator, _, used in self.generators:
            generator._offset = (generator._offset + used) & 0x7FFF_FFFF_FFFF_FFFF
        for version in self.versions:
            version[0] += 1
        for leaf in self.cleared:
            (tensors[leaf] if type(leaf) is int else leaf)._grad = None
        for call in self.after:
            call()
        made: list[Any] = []
        for how, what, cls in self.outputs:
            made.append(made[what] if how == "again" else self._made(how, what, cls, tensors, bound))
        if self.outer.outputs:
            self._attach(made, tensors, bound, starts)
        return made[0] if self.structure is SLOT else unflatten(self.structure, iter(made))

    def _attach(
        self, made: list[Any], tensors: Sequence[Value], bound: list[np.ndarray], starts: Any
    ) -> None:
        """Give results their place on the tape."""
        outer, count = self.outer, len(self.first)
        if outer.truncated:
            # Nobody can replay it, so one entry serves all runs (with leaves as its edges: arguments change).
            entry = self.used_up(tensors)
            for index, j in enumerate(outer.outputs):
                if self.outputs[j][0] in _NEW:
                    made[j]._node, made[j]._index = entry, index
            return
        saved = [*[bound[count + m.number] for m in outer.kept], *bound[:count]]
        watched = [m for m in made if any(m._array is a for a in saved)]
        entry = outer.entry(self.op, tensors, saved, watched, starts)
        for index, j in enumerate(outer.outputs):
            if self.outputs[j][0] in _NEW:
                made[j]._node, made[j]._index = entry, index

    def used_up(self, tensors: Sequence[Value] = ()) -> Any:
        """The entry of results whose graph the function has used up itself."""
        entry = self._used_up
        if entry is None:
            entry = self.outer.entry(self.op, tensors, (), (), ())
            if all(how == "leaf" for how, _ in self.outer.edges):
                self._used_up = entry
        return entry

    def _array(self, ref: Ref, bound: Sequence[np.ndarray]) -> np.ndarray:
        program = self.program
        assert program is not None
        if ref.memory.kind == STATE:
            return ref.array
        base, offset = program.place(ref)
        owner = bound[base - 2]
        like = owner.shape == ref.shape and owner.strides == ref.strides and owner.dtype == ref.array.dtype
        if like and not offset:
            return owner
        return array_at(owner.__array_interface__["data"][0] + offset, ref, owner)

    def _made(
        self, how: str, what: Any, cls: Any, tensors: Sequence[Value], bound: Sequence[np.ndarray]
    ) -> Any:
        if how == "made":
            return cls._make(self._array(what, bound))
        if how == "argument":
            return tensors[what]
        return alias(cls, *what) if how == "alias" else what if how == "same" else cls._make(what.copy())
