"""tg.scan and tg.while_loop: loops over time whose body is recorded once and repeated by machine code.

The body becomes two programs: one that takes a step, and one that takes a step and its derivative back. A compiled loop
runs them as often as needed, moving the places of inputs and outputs from step to step. Going back needs the
carry of every step: all of them are kept if they fit the memory that is allowed, else every k-th, and what lies
between is computed again, stretch by stretch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import buffers, tape
from ..kernels import arrays as copying
from ..kernels import recording
from ..kernels.recording import RecordingError
from ..modes import modes, no_grad
from ..replay import Algebra
from ..tape import Entry, Value
from .body import Body, Made, apart
from .trees import flatten, unflatten

BUDGET = 1 << 30  # bytes for the carries of all steps


# -- the op -----------------------------------------------------------------------------------------------


class ScanOp:
    """The op of the entry of a whole loop."""

    name = "scan"
    node_name = "ScanBackward"
    module = __name__
    params = ()
    inputs: tuple[str, ...] = ()
    outputs = ("out",)
    slots = ()
    rules: Any = None

    @staticmethod
    def keeps(saved: Any) -> bool:
        """Whether a second replay must fail: always."""
        return True

    def pack(self, entry: Entry, hooks: Any) -> None:
        """Hooks for saved tensors see nothing of a loop's history."""

    def show_saved(self, entry: Entry, name: str) -> Any:
        """A loop's history has no names that users know."""
        raise AttributeError(f"{self.node_name} saved nothing called {name!r}")

    def vjp(self, entry: Entry, grads: list[Any], needs: Sequence[bool], algebra: Algebra) -> list[Any]:
        """Cotangents of the first carry, the inputs and the leaves of the body."""
        if algebra.recorded:
            raise RuntimeError("create_graph=True through scan() is not supported: its backward is a program")
        loop: Loop = entry.saved
        return loop.back([None if g is None else np.asarray(g) for g in grads])


_op = ScanOp()


class Loop:
    """One run of a loop: its history, as far as it is kept."""

    def __init__(
        self, body: Body, carry: list[Value], xs: list[Value], length: int, budget: int, keep: bool
    ) -> None:
        self.body = body
        self.length = length
        self.xs = [np.ascontiguousarray(x._array) for x in xs]
        self.carry = [np.array(c._array, order="C") for c in carry]
        each = sum(c.nbytes for c in self.carry)
        # As few steps between two kept carries as the memory allows, half for those and half for what lies between.
        self.every = max(1, math.ceil(2 * each * length / budget)) if each * length > budget else 1
        self.keep = keep
        self.kept: list[list[np.ndarray]] = []
        self.ys = [buffers.empty((length, *y._array.shape), y._array.dtype) for y in body.ys]

    def run(self) -> None:
        """All steps forward."""
        if not self.keep or self.every > 1:
            scratch = [np.empty_like(c) for c in self.carry]
            for first in range(0, self.length, self.every if self.keep else max(self.length, 1)):
                count = min(self.every if self.keep else self.length, self.length - first)
                if self.keep:
                    self.kept.append([c.copy() for c in self.carry])
                self._advance(self.carry, scratch, [0] * len(scratch), first, count, self.ys)
            return
        history = self._history(self.length)
        self.kept.append(history)
        if self.length:
            self._advance(
                self.carry,
                [h[0, ...] for h in history],
                [h.strides[0] for h in history],
                0,
                self.length,
                self.ys,
            )

    def _history(self, count: int) -> list[np.ndarray]:
        return [buffers.empty((count, *c.shape), c.dtype) for c in self.carry]

    def _advance(
        self,
        carry: list[np.ndarray],
        history: list[np.ndarray],
        moves: list[int],
        first: int,
        count: int,
        ys: list[np.ndarray],
    ) -> None:
        if not count:
            return
        starts = [*carry, *history, *[x[first, ...] for x in self.xs], *[y[first, ...] for y in ys]]
        strides = [*[0] * len(carry), *moves, *[x.strides[0] for x in self.xs], *[y.strides[0] for y in ys]]
        self.body.forward.run(starts, strides, count)

    def back(self, grads: list[Any]) -> list[Any]:
        """Cotangents of first carry, inputs and leaves from those of last carry and of what was collected."""
        body, n = self.body, len(self.carry)
        gc = [
            np.zeros_like(c) if g is None else np.array(g, c.dtype, order="C")
            for c, g in zip(self.carry, grads, strict=False)
        ]
        gy = [
            np.zeros(y.shape, y.dtype) if g is None else np.ascontiguousarray(g, y.dtype)
            for y, g in zip(self.ys, grads[n:], strict=True)
        ]
        gx = [np.zeros(x.shape, x.dtype) for x in self.xs]
        sums = [np.zeros(v._array.shape, v._array.dtype) for v in body.leaves]
        for number in reversed(range(len(self.kept))):
            first, history = self._stretch(number)
            count = len(history[0]) if history else self.length
            if not count:
                continue
            last = first + count - 1
            moving = [*[h[count - 1, ...] for h in history], *[x[last, ...] for x in self.xs]]
            others = [*[g[last, ...] for g in gy], *[g[last, ...] for g in gx]]
            starts = [*moving, *gc, *others, *sums]
            strides = [*[-h.strides[0] for h in history], *[-x.strides[0] for x in self.xs], *[0] * n]
            strides += [*[-g.strides[0] for g in gy], *[-g.strides[0] for g in gx], *[0] * len(sums)]
            body.backward.run(starts, strides, count)
        return [*gc, *gx, *sums]

    def _stretch(self, number: int) -> tuple[int, list[np.ndarray]]:
        """The first step of a stretch, and the carries of all its steps."""
        if self.every == 1:
            return 0, self.kept[0]
        first = number * self.every
        count = min(self.every, self.length - first)
        history = self._history(count)
        carry = [c.copy() for c in self.kept[number]]
        moves = [h.strides[0] for h in history]
        spare = [buffers.empty((self.length, *y.shape[1:]), y.dtype) for y in self.ys]
        self._advance(carry, [h[0, ...] for h in history], moves, first, count, spare)
        return first, history


# -- what users call ------------------------------------------------------------------------------------------

_bodies: dict[Any, tuple[Body, Any]] = {}


def _body(
    function: Callable[..., Any], carry: list[Value], xs: list[Value], shape: Any, x_shape: Any
) -> Body:
    """The programs for a body, found again for the same code over the same surroundings."""
    cells = tuple(c.cell_contents for c in getattr(function, "__closure__", None) or ())
    code = getattr(function, "__code__", function)
    form = tuple(
        (v._array.shape[skip:], v._array.dtype.char) for skip, vs in ((0, carry), (1, xs)) for v in vs
    )
    key = (
        code,
        tuple(map(id, cells)),
        id(getattr(function, "__self__", None)),
        form,
        shape,
        x_shape,
        recording.epoch[0],
    )
    found = _bodies.get(key)
    if found is None:
        if len(_bodies) > 256:
            _bodies.clear()
        found = _bodies[key] = (Body(function, carry, xs, shape, x_shape), (cells, function))
    return found[0]


def scan(
    body: Callable[..., Any], carry: Any, xs: Any = None, length: int | None = None, *, memory: int = BUDGET
) -> tuple[Any, Any]:
    """Repeat ``carry, y = body(carry, x)`` over the leading dimension of ``xs``; returns the last carry and all y stacked.

    Carry, ``xs`` and y are tensors or nested tuples, lists and dicts of them; the carry keeps its shapes and dtypes. Without
    ``xs`` the body is ``carry = body(carry)``, repeated ``length`` times, and y is None. The body is recorded once and
    repeated without Python, so it cannot depend on values by ``if``; differentiable in the carry, in ``xs`` and in leaves
    that the body uses. ``memory`` bounds the bytes of carries that are kept for going back: beyond it steps are computed again.
    """
    start: list[Value] = []
    inputs: list[Value] = []
    shape = flatten(carry, start)
    x_shape = None if xs is None else flatten(xs, inputs)
    lengths = {x._array.shape[0] if x._array.ndim else None for x in inputs} | (
        {length} if length is not None else set()
    )
    if len(lengths) != 1 or None in lengths:
        raise ValueError(
            "scan(): give xs with one leading dimension for all, or length (or both, agreeing); got "
            f"{[list(x._array.shape) for x in inputs]} and length={length}"
        )
    if not start:
        raise ValueError("scan(): the carry holds no tensor")
    if recording.active and recording.here.recorder is not None:
        raise RecordingError(
            "scan() inside a compiled function is not supported: it is compiled by itself, call it outside"
        )
    count = int(next(iter(lengths)))  # type: ignore[arg-type]
    if not count and x_shape is not None:
        raise ValueError("scan(): xs has no steps, so the shapes of what would be collected are not known")
    made = _body(body, start, inputs, shape, x_shape)
    return _finished(made, start, inputs, count, memory)


def _finished(
    body: Body, start: list[Value], inputs: list[Value], count: int, memory: int
) -> tuple[Any, Any]:
    values = [*start, *inputs, *body.leaves]
    tracked = modes.grad and any(v._source() is not None for v in values)
    loop = Loop(body, start, inputs, count, memory, tracked)
    loop.run()
    make = start[0]._make
    outs = [make(a) for a in (*(c.copy() if tracked else c for c in loop.carry), *loop.ys)]
    if tracked:
        edges = tuple(v._edge() for v in values)
        stamps = tuple(x for v in values for x in (v._version, v._version[0]))
        meta = tuple((o._array.shape, o._array.dtype) for o in outs)
        entry = tape.record(_op, edges, tuple(v._index for v in values), loop, (), {}, meta)
        entry.stamps = stamps
        for j, o in enumerate(outs):
            if o._array.dtype.kind == "f":
                o._node, o._index = entry, j
    n = len(start)
    last = unflatten(body.carry_structure, iter(outs[:n]))
    return last, None if body.x_structure is None else unflatten(body.y_structure, iter(outs[n:]))


def while_loop(
    condition: Callable[[Any], Any],
    body: Callable[[Any], Any],
    carry: Any,
    *,
    limit: int = 1 << 31,
    memory: int = BUDGET,
) -> Any:
    """Repeat ``carry = body(carry)`` as long as ``condition(carry)``, a tensor of one bool, holds; returns the last carry.

    Recorded once and repeated without Python, at most ``limit`` times (RuntimeError beyond). Differentiable: the number
    of steps is a constant of the derivative.
    """
    start: list[Value] = []
    shape = flatten(carry, start)
    if not start:
        raise ValueError("while_loop(): the carry holds no tensor")

    count = _steps(condition, body, start, shape, limit)
    return scan(body, carry, length=count, memory=memory)[0] if count else carry


def _steps(
    condition: Callable[[Any], Any], body: Callable[[Any], Any], start: list[Value], shape: Any, limit: int
) -> int:
    """How often the body has to run."""
    state = [np.array(v._array, order="C") for v in start]
    make = start[0]._make
    flag = np.ones(1, np.uint8)

    def test(given: list[Any]) -> None:
        with no_grad():
            held = condition(unflatten(shape, iter([make(c) for c in given[:-1]])))
        if not isinstance(held, Value) or held._array.size != 1:
            raise TypeError(
                f"while_loop(): the condition must return a tensor of one element, not {held!r:.60}"
            )
        copying.copy(given[-1], held._array.reshape(1))

    def step(given: list[Any]) -> None:
        out: list[Value] = []
        with no_grad():
            if flatten(body(unflatten(shape, iter([make(c) for c in given[:-1]]))), out) != shape:
                raise TypeError(
                    "while_loop(): the body must return a carry of the structure that it was given"
                )
        for place, value in zip(given[:-1], apart(out), strict=True):
            copying.copy(place, value._array)
        test(given)

    given = [*[c.copy() for c in state], flag.copy()]
    Made(test, given).run([*state, flag], [0] * (len(state) + 1), 1)
    if not flag[0]:
        return 0
    made = Made(step, [*[c.copy() for c in state], flag.copy()])
    count = made.run([*state, flag], [0] * (len(state) + 1), limit, flag)
    if flag[0]:
        raise RuntimeError(
            f"while_loop(): the condition still holds after {limit} steps; raise limit= if that is meant"
        )
    return count
