"""The derivative of a compiled function whose results are differentiated outside of it.

If the graph of a result is still there when the function returns, its backward is recorded too: from cotangents of the
results to those of arguments and parameters. What the forward program computes and the backward program needs
is kept with the result, as an entry of the tape keeps saved arrays; it is one entry for all of the function.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from .. import tape
from ..engine import Arrays
from ..kernels.recording import RecordingError
from ..replay import Algebra, replay
from ..tape import Entry, Truncated, Value
from .passes import optimised
from .program import Program
from .record import Recorder
from .steps import ARGUMENT, RESULT, STATE, TEMPORARY, Memory, Ref, Step


class CompiledOp:
    """The op of the entries that results of compiled functions come from."""

    module = __name__
    params = ()
    outputs = ("out",)
    rules: ClassVar[dict[str, Any]] = {}
    node_name = "CompiledBackward"

    def __init__(self, outer: Outer, name: str) -> None:
        self.outer = outer
        self.name = name
        self.inputs = tuple(f"input{j}" for j in range(len(outer.edges)))
        self.slots = tuple(f"kept{j}" for j in range(len(outer.kept) + len(outer.arguments)))

    @staticmethod
    def keeps(saved: Any) -> bool:
        """Whether a second replay must fail: always."""
        return True

    def pack(self, entry: Entry, hooks: Any) -> None:
        """Hooks for saved tensors see nothing of a program's memory."""

    def show_saved(self, entry: Entry, name: str) -> Any:
        """A program's memory has no names that users know."""
        raise AttributeError(f"{self.node_name} saved nothing called {name!r}")

    def vjp(self, entry: Entry, grads: list[Any], needs: Sequence[bool], algebra: Algebra) -> list[Any]:
        """Cotangents of arguments and parameters, by the backward program."""
        if self.outer.outdated:
            raise RuntimeError(self.outer.outdated)
        if algebra.recorded:
            raise RuntimeError(
                "create_graph=True through a compiled function: its backward is a program, not operations on the tape. "
                "Compile the function that takes both derivatives, or call the function itself."
            )
        return self.outer.backward(entry, grads)


class Outer:
    """What is recorded of the results' graph."""

    def __init__(self, recorder: Recorder, values: list[Value], tensors: Sequence[Value], start: int) -> None:
        self.outputs = [
            j for j, v in enumerate(values) if type(v._source()) is Entry and v._node.position >= start
        ]
        self.truncated = False  # whether the function has used up the graph itself
        self.outdated = ""  # why it cannot be used any more otherwise: what the error will say
        self.steps: list[Step] = []
        self.cotangents: list[Ref] = []
        self.grads: list[Ref | None] = []
        self.edges: list[tuple[str, Any]] = []  # ("argument", number) or ("leaf", Value)
        self.kept: list[Memory] = []
        self.meta = tuple((values[j]._array.shape, values[j]._array.dtype) for j in self.outputs)
        self.where = tape.site()
        self.arguments: list[Memory] = []
        self.program: Program | None = None
        if not self.outputs:
            return
        inside = [e for e in tape.reachable([values[j]._node for j in self.outputs]) if e.position >= start]
        self.truncated = any(type(e.saved) is Truncated for e in inside)
        wanted = self._boundary(inside, tensors, start)
        if self.truncated:
            return
        forward, recorder.steps = recorder.steps, []
        cotangents = [np.ones(shape, dtype) for shape, dtype in self.meta]
        for array in cotangents:
            recorder.ref(array).memory.kind = ARGUMENT
        found: dict[Any, Any] = {}
        algebra = Arrays(values[self.outputs[0]]._result)
        roots = [
            (values[j]._node, values[j]._index, g) for j, g in zip(self.outputs, cotangents, strict=True)
        ]
        try:
            replay(roots, algebra, retain=True, deliver=found.__setitem__, wanted=wanted)
        except RecordingError:
            raise
        except (
            RuntimeError
        ) as err:  # such as a step that changed weights: an error for who differentiates, not before
            self.outdated, self.truncated = str(err), True
            recorder.steps = forward
            return
        self.steps, recorder.steps = recorder.steps, forward
        grads = []
        for how, what in self.edges:
            edge, index = (tensors[what]._edge(), tensors[what]._index) if how == "argument" else (what, 0)
            grads.append(wanted[edge][index] if type(edge) is Entry else found.get(edge))
        self.cotangents = [recorder.ref(a) for a in cotangents]
        self.grads = [None if g is None else recorder.ref(np.asarray(g)) for g in grads]
        self._written = {r.memory.index for step in forward for r in step.writes()}

    def _boundary(
        self, inside: list[Entry], tensors: Sequence[Value], start: int
    ) -> dict[Any, dict[int, Any]]:
        """Where the graph leaves the function: at leaves and at arguments."""
        wanted: dict[Any, dict[int, Any]] = {}
        own = {id(t._edge()): j for j, t in reversed(list(enumerate(tensors))) if t._edge() is not None}
        seen: set[Any] = set()
        for entry in inside:
            for edge, index in zip(entry.edges, entry.indices, strict=True):
                if edge is None or (type(edge) is Entry and edge.position >= start):
                    continue
                at = index if type(edge) is Entry else 0
                if (id(edge), at) in seen:
                    continue
                seen.add((id(edge), at))
                wanted.setdefault(edge, {})[at] = None
                if id(edge) in own and tensors[own[id(edge)]]._index == at:
                    self.edges.append(("argument", own[id(edge)]))
                elif type(edge) is Entry:
                    raise RecordingError(
                        "a compiled function uses a tensor from outside that has a history of its own, recorded at "
                        f"{edge.site}: give it as an argument"
                    )
                else:
                    self.edges.append(("leaf", edge))
        return wanted

    def refs(self) -> list[Ref]:
        """References besides those of the steps."""
        return [*self.cotangents, *[g for g in self.grads if g is not None]]

    # -- memory ---------------------------------------------------------------------------------------

    def claim(self, result: Callable[[Ref], None], arguments: Sequence[Memory]) -> None:
        """Decide which memories of the forward program are kept, and which arguments."""
        self.arguments = list(arguments)
        if not self.outputs or self.truncated:
            return
        read = {r.memory.index: r for step in self.steps for r in (*step.reads(), *step.writes())}
        for ref in (*read.values(), *[g for g in self.grads if g is not None]):
            memory = ref.memory
            if memory.index in self._written and memory.kind in (TEMPORARY, RESULT):
                result(ref)
                if memory not in self.kept:
                    self.kept.append(memory)

    def lower(self, memories: Sequence[Memory], without: frozenset[str]) -> None:
        """Make the backward program: its memories are others than those of the forward program."""
        clones: dict[int, Memory] = {}
        bound = [r.memory for r in self.cotangents] + self.kept + self.arguments
        for number, memory in enumerate(bound):
            clones[memory.index] = _clone(memory, ARGUMENT, number)
        self._results: list[Memory] = []
        for ref in self.grads:
            if ref is not None and ref.memory.index not in clones and ref.memory.kind != STATE:
                clones[ref.memory.index] = _clone(ref.memory, RESULT, len(self._results))
                self._results.append(clones[ref.memory.index])

        def place(ref: Ref) -> Ref:
            memory = clones.get(ref.memory.index)
            if memory is None:
                memory = clones[ref.memory.index] = _clone(ref.memory, ref.memory.kind, 0)
            return ref.elsewhere(memory, ref.first)

        steps: list[Step] = [step.replaced(place) for step in self.steps]
        self.grads = [None if r is None else place(r) for r in self.grads]
        steps, self.counts = optimised(steps, without)
        every = [clones.get(m.index, m) for m in memories]
        self.program = Program(steps, every, len(bound), self._results)

    # -- running ----------------------------------------------------------------------------------------

    def entry(
        self,
        op: CompiledOp,
        tensors: Sequence[Value],
        saved: Sequence[np.ndarray],
        watched: Sequence[Value],
        starts: Any,
    ) -> Entry:
        """The entry of one run, with the arrays that it keeps and the results among them."""
        edges: list[Any] = []
        indices: list[int] = []
        stamps: list[Any] = []
        for how, what in self.edges:
            value = tensors[what] if how == "argument" else what
            edges.append(value._edge())
            indices.append(value._index if how == "argument" else 0)
            stamps += (value._version, value._version[0])
        for value in watched:
            stamps += (value._version, value._version[0])
        kept: Any = Truncated(self.where) if self.truncated else tuple(saved)
        if self.outdated:
            kept, stamps = (), []
        params = {"starts": starts}
        return tape.record(op, tuple(edges), tuple(indices), kept, tuple(stamps), params, self.meta)

    def backward(self, entry: Entry, grads: list[Any]) -> list[Any]:
        """Run the backward program with what an entry kept."""
        program = self.program
        assert program is not None
        bound = [
            np.zeros(shape, dtype) if g is None else np.ascontiguousarray(g, dtype).reshape(shape)
            for g, (shape, dtype) in zip(grads, self.meta, strict=True)
        ]
        bound += entry.saved
        bound += [np.empty(m.root.shape, m.root.dtype) for m in self._results]
        with contextlib.ExitStack() as stack:
            for generator, offset in entry.params["starts"]:
                stack.enter_context(_rewound(generator, offset))
            program.run(bound)
        return [None if ref is None else program.view(ref, None, bound) for ref in self.grads]


@contextlib.contextmanager
def _rewound(generator: Any, offset: int) -> Any:
    """A generator as it was when the forward program ran, for words that are computed again."""
    with generator._lock:
        before, generator._offset = generator._offset, offset
        try:
            yield
        finally:
            generator._offset = before


def _clone(memory: Memory, kind: str, number: int) -> Memory:
    made = Memory(memory.root, memory.address, memory.size, memory.index)
    made.kind, made.number, made.constant = kind, number, memory.constant
    return made
