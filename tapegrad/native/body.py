"""The body of a loop over time: recorded once, repeated by machine code, forward and back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import kernels, tape
from ..engine import grad
from ..kernels import arrays as copying
from ..kernels.recording import RecordingError, use
from ..modes import enable_grad, no_grad
from ..tape import LEAF, Value
from .compiled import Recordings
from .lower import FIRST
from .passes import optimised
from .program import Program, Stretch
from .record import Recorder
from .steps import STATE
from .trees import flatten, unflatten

CHUNK = 1 << 15  # steps between two looks at Python: whether Ctrl-C was pressed


class Body:
    """The programs of a loop's body for one signature."""

    def __init__(
        self, function: Callable[..., Any], carry: list[Value], xs: list[Value], shape: Any, x_shape: Any
    ) -> None:
        self.function = function
        self.carry_structure, self.x_structure = shape, x_shape
        self.make = carry[0]._make
        self.carry = [_like(c) for c in carry]
        self.xs = [_like(x[0]) for x in xs]  # type: ignore[index]
        with no_grad():
            out, y, y_shape = self._call(self.carry, self.xs)
        self.y_structure = y_shape
        self._check(out)
        self.ys = [_like(v) for v in y]
        with enable_grad():
            self.leaves = self._closure(*self._tracked())
        self.forward = Made(self._step, [*self._c(), *self._c(), *self._x(), *self._y()])
        self._backward: Made | None = None

    def _call(self, carry: Sequence[Any], xs: Sequence[Any]) -> tuple[list[Value], list[Value], Any]:
        state = unflatten(self.carry_structure, iter(carry))
        made = (
            self.function(state)
            if self.x_structure is None
            else self.function(state, unflatten(self.x_structure, iter(xs)))
        )
        if self.x_structure is None:
            made = (made, None)
        if not isinstance(made, tuple) or len(made) != 2:
            raise TypeError(
                "scan(): the body must return a pair: the next carry, and what is collected (or None)"
            )
        out: list[Value] = []
        ys: list[Value] = []
        if flatten(made[0], out) != self.carry_structure:
            raise TypeError("scan(): the body must return a carry of the structure that it was given")
        return out, ys, flatten(made[1], ys)

    def _check(self, out: list[Value]) -> None:
        for a, b in zip(self.carry, out, strict=True):
            if a._array.shape != b._array.shape or a._array.dtype != b._array.dtype:
                raise RuntimeError(
                    f"scan(): the carry changes from {a._array.dtype}{list(a._array.shape)} to "
                    f"{b._array.dtype}{list(b._array.shape)} in the body; it has to stay of one shape and dtype"
                )

    def _tracked(self) -> tuple[list[Value], list[Value]]:
        return [_leaf(c) for c in self.carry], [_leaf(x) for x in self.xs]

    def _closure(self, carry: list[Value], xs: list[Value]) -> list[Value]:
        """Leaves that the body uses besides its arguments."""
        start = tape._next_position()
        out, ys, _ = self._call(carry, xs)
        own = {id(v) for v in (*carry, *xs)}
        found: dict[int, Value] = {}
        for entry in tape.reachable([v._source() for v in (*out, *ys)]):
            if entry.position < start:
                raise RecordingError(
                    f"the body of a loop uses a tensor from outside that has a history of its own, recorded at {entry.site}: "
                    "make it a part of the carry or of the inputs"
                )
            for edge in entry.edges:
                if isinstance(edge, Value) and id(edge) not in own:
                    found[id(edge)] = edge
        return list(found.values())

    def _c(self) -> list[np.ndarray]:
        return [np.zeros(c._array.shape, c._array.dtype) for c in self.carry]

    def _x(self) -> list[np.ndarray]:
        return [np.zeros(x._array.shape, x._array.dtype) for x in self.xs]

    def _y(self) -> list[np.ndarray]:
        return [np.zeros(y._array.shape, y._array.dtype) for y in self.ys]

    def _step(self, given: list[Any]) -> None:
        """A step: the carry goes into the history and is replaced, what is collected is written down."""
        n, m = len(self.carry), len(self.xs)
        carry, history, xs, ys = given[:n], given[n : 2 * n], given[2 * n : 2 * n + m], given[2 * n + m :]
        for place, c in zip(history, carry, strict=True):
            copying.copy(place, c)
        with no_grad():
            out, made, _ = self._call([self.make(c) for c in carry], [self.make(x) for x in xs])
        for place, value in zip((*ys, *carry), (*made, *apart(out)), strict=True):
            copying.copy(place, value._array)

    def _back(self, given: list[Any]) -> None:
        """A step's derivative: cotangents of the carry are replaced, those of inputs written, those of leaves added up."""
        n, m, k = len(self.carry), len(self.xs), len(self.ys)
        carry, xs, gc, gy = (
            given[:n],
            given[n : n + m],
            given[n + m : 2 * n + m],
            given[2 * n + m : 2 * n + m + k],
        )
        gx, sums = given[2 * n + m + k : 2 * n + 2 * m + k], given[2 * n + 2 * m + k :]
        with enable_grad():
            tracked = [_leaf(self.make(v)) for v in (*carry, *xs)]
            out, ys, _ = self._call(tracked[:n], tracked[n:])
        pairs = [(v, g) for v, g in zip((*out, *ys), (*gc, *gy), strict=True) if v._source() is not None]
        wanted = [v for v in (*tracked, *self.leaves) if v._source() is LEAF]
        found: dict[int, Any] = {}
        if pairs and wanted:
            grads = grad([v for v, _ in pairs], wanted, [self.make(g) for _, g in pairs], allow_unused=True)
            found = {id(v): g for v, g in zip(wanted, grads, strict=True) if g is not None}
        made = [found.get(id(v)) for v in tracked]
        for place, g in zip((*gx, *gc), (*made[n:], *made[:n]), strict=True):
            copying.copy(place, 0.0 if g is None else g._array)
        for total, leaf in zip(sums, self.leaves, strict=True):
            if id(leaf) in found:
                self.make(total).add_(found[id(leaf)])

    @property
    def backward(self) -> Made:
        """The program of a step's derivative, made when it is first asked for."""
        if self._backward is None:
            sums = [np.zeros(v._array.shape, v._array.dtype) for v in self.leaves]
            given = [*self._c(), *self._x(), *self._c(), *self._y(), *self._x(), *sums]
            self._backward = Made(self._back, given)
        return self._backward


class Made:
    """A program over arrays that a function was recorded with."""

    def __init__(self, function: Callable[[list[Any]], None], given: list[np.ndarray]) -> None:
        recorder = Recorder(given)
        with Recordings(recorder):
            function(given)
        if recorder.generators:
            raise RecordingError(
                "the body of a loop draws random numbers: draw them before, and give them as inputs"
            )
        if recorder.before or recorder.after:
            raise RecordingError("the body of a loop steps an optimizer or a schedule: do that outside of it")
        steps, self.counts = optimised(recorder.steps, frozenset())
        for step in steps:
            for ref in (*step.reads(), *step.writes()):
                if ref.memory.kind == STATE:
                    use(ref.memory.root, ref.memory.address + ref.low, ref.memory.address + ref.high)
        self.program = Program(steps, recorder.memories, len(recorder.groups), [])
        self.order = [group[0][0] for group in recorder.groups]
        self.checks = recorder.checks
        if self.checks:
            raise RecordingError(
                "the body of a loop looks things up by class or index and checks them; do that outside of it"
            )

    def run(
        self, starts: Sequence[np.ndarray], strides: Sequence[int], count: int, flag: np.ndarray | None = None
    ) -> int:
        """Run ``count`` times; array j moves by ``strides[j]`` bytes each time. Stops where ``flag`` is 0; how often it ran."""
        program = self.program
        bound = [starts[j] for j in self.order]
        space = program.workspace()
        try:
            stage = program.stages[0]
            if len(program.stages) > 1 or not isinstance(stage, Stretch) or kernels.machine.plain():
                return self._one_by_one(bound, [strides[j] for j in self.order], count, flag)
            program.bind_all(space, bound)
            moving = np.array([FIRST + k for k, j in enumerate(self.order) if strides[j]], np.int64)
            steps = np.array([strides[j] for j in self.order if strides[j]], np.int64)
            entry = kernels.machine.repeat()
            code, loop, done = stage.code(1), kernels.machine.loop(), np.zeros(1, np.int64)
            there = np.ones(1, np.uint8) if flag is None else flag
            while done[0] < count and there[0]:
                most = min(count, int(done[0]) + CHUNK)
                entry(
                    loop,
                    code,
                    stage.count,
                    space.bases,
                    moving,
                    steps,
                    len(moving),
                    there,
                    done,
                    int(done[0]),
                    most,
                )
            return int(done[0])
        finally:
            program.done(space)

    def _one_by_one(self, bound: list[np.ndarray], strides: list[int], count: int, flag: Any) -> int:
        for t in range(count):
            if flag is not None and not flag[0]:
                return t
            self.program.run([_shifted(a, s * t) for a, s in zip(bound, strides, strict=True)])
        return count


def _shifted(array: np.ndarray, shift: int) -> np.ndarray:
    if not shift:
        return array
    base = array.base
    assert isinstance(base, np.ndarray)
    at = array.__array_interface__["data"][0] - base.__array_interface__["data"][0] + shift
    return np.ndarray(array.shape, array.dtype, base.reshape(-1).view(np.uint8), at, array.strides)


def _like(value: Any) -> Value:
    return value._make(np.ascontiguousarray(value._array).copy().reshape(value._array.shape))  # type: ignore[no-any-return]


def _leaf(value: Value) -> Value:
    made: Value = value._make(value._array)
    if made._array.dtype.kind == "f":
        made._node = LEAF
    return made


def apart(values: list[Value]) -> list[Value]:
    """New carries that do not lie in the memory of old ones, which are written over one by one."""
    return [v.clone() for v in values]  # type: ignore[attr-defined]
