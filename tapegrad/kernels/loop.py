"""From a formula for one number to a compiled loop over arrays.

A :class:`Loop` holds a formula. For each combination of element types and memory layout that
it meets, it emits source text and compiles it. ``mul`` over two contiguous float32 arrays gives::

    def mul(a, b, out, start, stop):
        for i in range(start, stop):
            t0 = a[i] * b[i]
            out[i] = t0

and over a matrix and a row that is broadcast down its rows::

    def mul(a, b, out, dims, start, stop):
        n1 = dims[1]
        ...
        for i0 in range(start, stop):
            for i in range(n1): ...

The pattern of the innermost strides (1, 0 or any) is part of the text, because that is what lets
LLVM use vector instructions; sizes and outer strides are arguments, so nothing is compiled for a size.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from . import launch
from .formula import TYPE_NAMES, TYPES, Emitter, Scalar, function, select
from .jit import Kernel, from_text
from .recording import active, here, paused


def device_functions(names: Iterable[str]) -> dict[str, Any]:
    """The device functions that emitted text calls, by name."""
    from . import scalar, scalar_rare  # most loops need none

    return {name: getattr(scalar, name, None) or getattr(scalar_rare, name) for name in names}


class Layout(NamedTuple):
    """How operands lie in memory: number of loops, innermost strides, and aliases.

    ``inner`` has one character per operand, outputs last: "1" contiguous, "0" the same element for
    all, "s" any stride. ``alias[j]`` is the input that output j overwrites, or -1.
    """

    rank: int
    inner: str
    alias: tuple[int, ...]


class Plan(NamedTuple):
    """A layout with the numbers that it needs: outer count, total size, dims and strides."""

    layout: Layout
    outer: int
    size: int
    dims: np.ndarray | None


def plan(operands: Sequence[np.ndarray], alias: tuple[int, ...]) -> Plan:
    """Fewest possible nested loops over operands of one shape, outputs last."""
    lead = operands[-1]
    size = lead.size
    if size and all(x.flags.c_contiguous for x in operands):
        return Plan(Layout(1, "1" * len(operands), alias), size, size, None)
    # Widest stride of the output outermost; unit dimensions play no part.
    axes = [d for d in range(lead.ndim) if lead.shape[d] != 1]
    axes.sort(key=lambda d: -abs(lead.strides[d]))
    shape: list[int] = []
    strides: list[list[int]] = []
    for d in axes:
        n = lead.shape[d]
        step = [x.strides[d] // x.itemsize for x in operands]
        if shape and all(o == s * n for o, s in zip(strides[-1], step, strict=True)):
            shape[-1] *= n  # the previous dimension continues this one in all operands
            strides[-1] = step
        else:
            shape.append(n)
            strides.append(step)
    if not shape:
        shape, strides = [1], [[1] * len(operands)]
    inner = "".join("1" if s == 1 else "0" if s == 0 else "s" for s in strides[-1])
    layout = Layout(len(shape), inner, alias)
    if len(shape) == 1 and "s" not in inner:
        return Plan(layout, shape[0], size, None)
    dims = np.array([*shape, *(s for row in zip(*strides, strict=True) for s in row)], dtype=np.int64)
    return Plan(layout, shape[0], size, dims)


# What emitted text names itself: indices, sizes, strides, temporaries, types, functions.
_TAKEN = re.compile(
    r"(?:i\d*|[kntx]\d+|[gps]\d*_\w*|dims|start|stop|range|abs|INF|NAN|(?:\w+_)?[biuf][1248])_*"
)


def _free(name: str) -> str:
    """A user's name, with an underscore if the text needs it for something else."""
    return f"{name}_" if _TAKEN.fullmatch(name) else name


class Loop:
    """An elementwise computation: a formula with named arrays, numbers and outputs.

    ``formula(*scalars)`` receives one Scalar per array and per number and returns one Scalar per
    output (or a single one). ``masks`` names arrays that keep their own type instead of being
    converted to the type of the computation.
    """

    def __init__(
        self,
        name: str,
        formula: Callable[..., Any],
        arrays: tuple[str, ...],
        numbers: tuple[str, ...] = (),
        outputs: tuple[str, ...] = ("out",),
        masks: frozenset[str] = frozenset(),
    ) -> None:
        self.name = _free(re.sub(r"\W", "_", name))  # a lambda is called "<lambda>"
        self.formula = formula
        self.arrays = tuple(map(_free, arrays))
        self.numbers = tuple(map(_free, numbers))
        self.outputs = outputs
        self.masks = frozenset(map(_free, masks))
        self.origin: Any = None  # where the library has it: see native/export.py
        self.parts: tuple[str, ...] = ()  # the formulas that one was made of
        self.identity = False  # whether the formula hands its operand through
        self._kernels: dict[Any, tuple[Kernel, tuple[str, ...]]] = {}

    def kernel(self, compute: str, chars: str, layout: Layout) -> tuple[Kernel, tuple[str, ...]]:
        """The kernel for element types (inputs, then outputs) and a layout, and its signature."""
        key = (compute, chars, layout)
        found = self._kernels.get(key)
        if found is None:
            text, calls = self.source(compute, chars, layout)
            namespace: dict[str, Any] = {**TYPES, "INF": float("inf"), "NAN": float("nan")}
            if calls:
                namespace.update(device_functions(calls))
            made = from_text(self.name, text, namespace)
            pointers = [c for j, c in enumerate(chars) if not self.aliased(j, layout)]
            number = "float" if compute in "fd" else "int"
            signature = (*pointers, *[number] * len(self.numbers))
            if self.needs_dims(layout):
                signature += ("l",)
            found = self._kernels[key] = (made, (*signature, "int", "int"))
        return found

    def aliased(self, operand: int, layout: Layout) -> bool:
        """Whether an operand is an output that overwrites an input, and so is not given."""
        j = operand - len(self.arrays)
        return j >= 0 and layout.alias[j] >= 0

    @staticmethod
    def needs_dims(layout: Layout) -> bool:
        """Whether the kernel takes sizes and strides."""
        return layout.rank > 1 or "s" in layout.inner

    def flat(self, compute: str, chars: str) -> Callable[..., None]:
        """The C function for contiguous operands: (arrays, outputs, numbers, start, stop)."""
        layout = Layout(1, "1" * len(chars), (-1,) * len(self.outputs))
        made, signature = self.kernel(compute, chars, layout)
        return made.entry(signature)

    def flat_into(self, char: str) -> Callable[..., None]:
        """The C function that overwrites its first of two contiguous operands: (a, b, start, stop)."""
        made, signature = self.kernel(char, char * 3, Layout(1, "111", (0,)))
        return made.entry(signature)

    def run(
        self,
        compute: str,
        inputs: Sequence[np.ndarray],
        outs: Sequence[np.ndarray],
        numbers: Sequence[float] = (),
        alias: tuple[int, ...] | None = None,
    ) -> None:
        """Fill ``outs`` from ``inputs`` (already broadcast to the shape of the outputs)."""
        if not outs[0].size:
            return
        operands = (*inputs, *outs)
        for x in operands:  # anything else than an array would be read as one, and crash
            if not isinstance(x, np.ndarray) or x.shape != outs[0].shape:
                raise TypeError(
                    f"kernel {self.name}: expected arrays of shape {outs[0].shape}, got {x!r:.80}"
                )
        alias = alias or (-1,) * len(outs)
        if active and here.recorder is not None:
            here.recorder.map(self, compute, inputs, outs, numbers, alias)
            with paused():
                self.run(compute, inputs, outs, numbers, alias)
            return
        made = plan(operands, alias)
        chars = "".join([x.dtype.char for x in operands])
        kernel, signature = self.kernel(compute, chars, made.layout)
        given: list[Any] = [x for j, x in enumerate(operands) if not self.aliased(j, made.layout)]
        convert = float if compute in "fd" else int
        given += [convert(v) for v in numbers]
        if self.needs_dims(made.layout):
            given.append(made.dims)
        launch.run(kernel, signature, given, made.outer, made.size)

    # -- emitting -----------------------------------------------------------------------------

    def source(self, compute: str, chars: str, layout: Layout) -> tuple[str, set[str]]:
        """Source text of the kernel and the device functions it calls."""
        names = [*self.arrays, *self.outputs]
        where = self._index_texts(names, layout)
        emitter = Emitter()
        loads: list[str] = []  # inside the innermost loop
        hoisted: list[str] = []  # before it: the same element in every round
        scalars: list[Scalar] = []
        for j, name in enumerate(self.arrays):
            char = chars[j] if name in self.masks else compute
            text = f"{name}[{where[j]}]"
            if char == "?":
                text = f"({text} != 0)"
            elif chars[j] != char:
                text = f"{TYPE_NAMES[char]}({text})"
            (hoisted if layout.inner[j] == "0" else loads).append(f"x{j} = {text}")
            scalars.append(Scalar(emitter, f"x{j}", char))
        head = []
        for j, name in enumerate(self.numbers):
            head.append(f"k{j} = {TYPE_NAMES[compute]}({name})")
            scalars.append(Scalar(emitter, f"k{j}", compute))
        results = self.formula(*scalars)
        stores = []
        for j, result in enumerate(results if isinstance(results, tuple) else (results,)):
            if j == len(self.outputs) or not isinstance(result, (Scalar, bool, int, float)):
                raise TypeError(
                    f"the formula of {self.name} must return {len(self.outputs)} number(s), not {results!r:.60}"
                )
            operand = len(self.arrays) + j
            target = layout.alias[j] if layout.alias[j] >= 0 else operand
            text = emitter.operand(result, chars[operand])
            if chars[operand] == "?" and not (type(result) is Scalar and result.char == "?"):
                text = f"({emitter.operand(result, compute)} != 0)"
            stores.append(f"{names[target]}[{where[target]}] = {text}")
        body = [*loads, *emitter.lines, *stores]
        return self._function(names, layout, head, hoisted, body), emitter.calls

    def _index_texts(self, names: list[str], layout: Layout) -> list[str]:
        """The index of each operand in the innermost loop."""
        texts = []
        for name, kind in zip(names, layout.inner, strict=True):
            base = f"p_{name}" if layout.rank > 1 else ""
            step = {"1": "i", "0": "", "s": f"i * s_{name}"}[kind]
            texts.append(" + ".join(t for t in (base, step) if t) or "0")
        return texts

    def _function(
        self, names: list[str], layout: Layout, head: list[str], hoisted: list[str], body: list[str]
    ) -> str:
        used = [n for j, n in enumerate(names) if not self.aliased(j, layout)]
        dims = ["dims"] if self.needs_dims(layout) else []
        args = ", ".join([*used, *self.numbers, *dims, "start", "stop"])
        lines = [f"def {self.name}({args}):", *("    " + h for h in head)]
        rank = layout.rank
        if dims:
            lines += [f"    n{d} = dims[{d}]" for d in range(1, rank)]
            for j, name in enumerate(names):
                at = rank + j * rank
                if self.aliased(j, layout):
                    continue
                lines += [f"    s{d}_{name} = dims[{at + d}]" for d in range(rank - 1)]
                if layout.inner[j] == "s":
                    lines.append(f"    s_{name} = dims[{at + rank - 1}]")
        pad = "    "
        for d in range(rank - 1):
            lines.append(f"{pad}for i{d} in range({'start, stop' if d == 0 else f'n{d}'}):")
            pad += "    "
        if rank > 1:
            for name in used:
                offset = " + ".join(f"i{d} * s{d}_{name}" for d in range(rank - 1))
                lines.append(f"{pad}p_{name} = {offset}")
        lines += [pad + h for h in hoisted]
        lines.append(f"{pad}for i in range({'start, stop' if rank == 1 else f'n{rank - 1}'}):")
        lines += [pad + "    " + b for b in body]
        return "\n".join(lines) + "\n"


# In the place of NumPy's own loops, so that they can be recorded: copies with conversion, filling, scaling, powers.
COPY = Loop("copied", lambda x: x, ("x",))
COPY.identity = True
FILL = Loop("filled", lambda value: value, (), ("value",))
SCALE = Loop("scaled", lambda x, factor: x * factor, ("x",), ("factor",))
JOIN = Loop("joined", lambda a, b, size: a * size + b, ("a", "b"), ("size",))
RAISE = Loop("raised", lambda x, exponent: x**exponent, ("x",), ("exponent",))
ROOT = Loop("rooted", lambda x: function("sqrt")(x), ("x",))
BASE = Loop("base", lambda x: select((x == math.inf) | (x == -math.inf), 0.0, x), ("x",))
LOG_PLUS = Loop("log_plus", lambda x, base: function("log")(x) + base, ("x", "base"))
QUOTIENT = Loop("quotient", lambda x, divisor: x / divisor, ("x",), ("divisor",))
for _name, _loop in list(globals().items()):
    if isinstance(_loop, Loop):
        _loop.origin = ("copy", _name)
