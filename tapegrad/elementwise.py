"""Elementwise ops: a formula for one number, and from it everything else.

::

    @elementwise(a=lambda g, b: g * b, b=lambda g, a: g * a)
    def mul(a, b):
        \"\"\"Product, with broadcasting.\"\"\"
        return a * b

From that come the forward loop, the fused loop that writes every gradient that is needed in one pass, type
promotion, broadcasting, Python numbers as operands, ``out=`` and the in-place form. Positional
parameters are tensors or numbers, keyword-only parameters are numbers. Without rules the
derivative is derived from the formula (see derive.py).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from . import buffers, config, dtypes, kernels, tape
from .derive import Expr, derived_rules
from .kernels.arrays import cast, copy, duplicate, in_order
from .kernels.formula import Emitter, Scalar
from .kernels.recording import active, now
from .locks import shared
from .modes import modes
from .op import KernelOp, Op, Packed, Rule, check_inplace, rebase, registry
from .replay import Algebra, Short
from .tape import Entry, Value

_empty = buffers.empty
_new = object.__new__


# Variants whose kernels the short way knows.
learned: set[Variant] = set()


class Variant:
    """An elementwise op for one pattern of operands: "a" array or "n" number, per input."""

    def __init__(self, op: Elementwise, pattern: str) -> None:
        self.op = op
        self.pattern = pattern
        self.arrays = tuple(n for n, p in zip(op.inputs, pattern, strict=True) if p == "a")
        self.numbers = tuple(n for n, p in zip(op.inputs, pattern, strict=True) if p == "n") + op.params
        self._forward: Any = None
        self._vjps: dict[Any, Vjp] = {}
        self.flat: dict[str, Any] = {}  # by dtype character: C function where input, compute and output agree

    def forward(self) -> Any:
        """The forward loop."""
        if self._forward is None:
            masks = frozenset(self.op.masks)
            self._forward = kernels.loop.Loop(
                self.op.name, self._formula, self.arrays, self.numbers, ("out",), masks
            )
            if registry.get(self.op.name) is self.op:
                self._forward.origin = ("forward", self.op.name, self.pattern)
        return self._forward

    def _formula(self, *scalars: Any) -> Any:
        given = dict(zip((*self.arrays, *self.numbers), scalars, strict=True))
        return self.op.evaluate(given)

    def vjp(self, needs: tuple[bool, ...]) -> Vjp:
        """The fused derivative for the inputs that need one."""
        found = self._vjps.get(needs)
        if found is None:
            found = self._vjps[needs] = Vjp(self, needs)
        return found


class Vjp(Short):
    """The fused derivative of a variant: cotangent and saved arrays in, needed gradients out.

    An entry that was recorded on the short way has its Vjp as ``params``: all operands are contiguous and
    have the cotangent's shape and dtype, so the replay calls :attr:`short` without asking anything.
    """

    def __init__(self, variant: Variant, needs: tuple[bool, ...]) -> None:
        self.variant = variant
        self.needs = needs
        self.ready = False
        self.short = self._first

    def prepare(self) -> Vjp:
        """Look at the rules: what they save, what they write. Left until a derivative is first asked for."""
        if self.ready:
            return self
        op, needs = self.variant.op, self.needs
        self.rules = [
            (j, op.rules[name]) for j, name in enumerate(op.inputs) if needs[j] and name in op.rules
        ]
        names = op.save_list(needs)
        arrays = {*self.variant.arrays, "out"}
        self.saved = tuple(j for j, slot in enumerate(op.slots) if slot in names and slot in arrays)
        self.saved_names = tuple(op.slots[j] for j in self.saved)
        self.number_slots = tuple(
            (op.slots.index(n) if n in op.slots else -1, n) for n in self.variant.numbers
        )
        # A rule that hands the cotangent through, like those of add, needs no kernel.
        trial = self._results(self._trial())
        through = [r is not None and type(r) is Scalar and r.text == "x0" for r in trial]
        self.written = [j for j, r in enumerate(trial) if r is not None and not through[j]]
        self.targets = [self.rules[j][0] for j in self.written]
        self.through_targets = [self.rules[j][0] for j, t in enumerate(through) if t]
        outputs = tuple(f"g_{op.inputs[j]}" for j in self.targets)
        self.loop: Any = None
        if self.written:
            self.loop = kernels.loop.Loop(
                f"{op.name}_vjp",
                self._formula,
                ("g", *self.saved_names),
                self.variant.numbers,
                outputs,
                frozenset(op.masks),
            )
            if registry.get(op.name) is op:
                self.loop.origin = ("vjp", op.name, self.variant.pattern, self.needs)
        self.ready = True
        return self

    def _trial(self) -> dict[str, Any]:
        emitter = Emitter()
        names = ("g", *self.saved_names, *self.variant.numbers)
        masks = self.variant.op.masks
        return {n: Scalar(emitter, f"x{j}", "?" if n in masks else "f") for j, n in enumerate(names)}

    def _results(self, given: dict[str, Any]) -> list[Any]:
        return [rule.fn(*[given.get(n) for n in rule.names]) for _, rule in self.rules]

    def _formula(self, *scalars: Any) -> Any:
        given = dict(zip(("g", *self.saved_names, *self.variant.numbers), scalars, strict=True))
        results = self._results(given)
        return tuple(results[j] for j in self.written)

    def _first(self, entry: Entry, g: np.ndarray) -> list[Any]:
        """The first call: write the short way down as a Python function, and take it."""
        self.prepare()
        self.short = _emit_short(self)
        return self.short(entry, g)

    def run(self, entry: Entry, g: np.ndarray) -> list[Any]:
        """Gradients per input as arrays, None where there is none: any layouts, broadcast, of several dtypes."""
        self.prepare()
        results: list[Any] = [None] * len(entry.edges)
        for j in self.through_targets:
            results[j] = g
        if not self.written:
            return results
        arrays = [entry.saved[j] for j in self.saved]
        outs = []
        for j in self.targets:
            out = _empty(g.shape, self._out_dtype(entry, j, g.shape, g.dtype))
            results[j] = out
            outs.append(out)
        self._run_any(entry, g, arrays, outs)
        return results

    def _run_any(self, entry: Entry, g: np.ndarray, arrays: list[Any], outs: list[np.ndarray]) -> None:
        arrays = [a.array() if type(a) is Packed else a for a in arrays]
        params = entry.params if isinstance(entry.params, dict) else {}
        numbers = [_number(entry.saved[j]) if j >= 0 else params.get(n, 0.0) for j, n in self.number_slots]
        run_loop(self.loop, g.dtype, [g, *arrays], outs, g.shape, numbers)

    @staticmethod
    def _out_dtype(entry: Entry, j: int, shape: tuple[int, ...], dtype: np.dtype) -> np.dtype:
        edge = entry.edges[j]
        to_shape, to = (
            edge.output(entry.indices[j]) if type(edge) is Entry else (edge._array.shape, edge._array.dtype)
        )
        # What will be summed over broadcast dimensions is summed before it is narrowed.
        return to if to_shape == shape else dtype


_SHORT = """\
def short(entry, g):
    kernel = kernels.get(g.dtype.char)
    if kernel is None or not g.flags.c_contiguous or g.size >= grain{packed}:
        return first(entry, g)
    saved = entry.saved
    shape = g.shape
    dtype = g.dtype
{allocate}
    kernel({args}, 0, g.size)
    return [{results}]
"""


def _emit_short(vjp: Vjp) -> Any:
    """The function that allocates what a derivative writes and calls its kernel, as text without loops."""
    count = len(vjp.variant.op.inputs)
    results = ["None"] * count
    for j in vjp.through_targets:
        results[j] = "g"
    if vjp.loop is None:
        return eval(f"lambda entry, g: [{', '.join(results)}]")
    flat: dict[str, Any] = {}

    def first(entry: Entry, g: np.ndarray) -> list[Any]:
        packed = any(type(entry.saved[j]) is not np.ndarray for j in vjp.saved)
        if packed or not g.flags.c_contiguous or g.size >= config.grain or g.dtype.char not in "fd":
            return vjp.run(entry, g)
        char = g.dtype.char
        flat[char] = vjp.loop.flat(char, char * (1 + len(vjp.saved) + len(vjp.written)))
        return vjp.short(entry, g)

    for j in vjp.targets:
        results[j] = f"out{j}"
    args = ["g", *(f"saved[{j}]" for j in vjp.saved), *(f"out{j}" for j in vjp.targets)]
    args += [
        f"float(saved[{j}])" if j >= 0 and name in vjp.variant.op.save_list(vjp.needs) else "0.0"
        for j, name in vjp.number_slots
    ]
    text = _SHORT.format(
        packed="".join(f" or type(entry.saved[{j}]) is not ndarray" for j in vjp.saved[:1]),
        allocate="\n".join(f"    out{j} = empty(shape, dtype)" for j in vjp.targets),
        args=", ".join(args),
        results=", ".join(results),
    )
    scope = {"kernels": flat, "first": first, "grain": config.grain, "empty": np.empty, "ndarray": np.ndarray}
    exec(text, scope)
    return scope["short"]


def _number(saved: Any) -> float:
    """A saved number; one that no rule here needs was not kept, and its value does not matter."""
    return 0.0 if saved is None else saved


def run_loop(
    loop: Any,
    compute: np.dtype,
    arrays: Sequence[np.ndarray],
    outs: Sequence[np.ndarray],
    shape: tuple[int, ...],
    numbers: Sequence[float] = (),
    alias: tuple[int, ...] | None = None,
) -> None:
    """Run a loop over operands that still have to be broadcast, over float16 by way of float32, and over large transposed ones
    by way of copies.
    """
    half = [a.dtype.char == "e" for a in (*arrays, *outs)]
    if True in half or compute.char == "e":
        compute = np.dtype("f") if compute.char == "e" else compute
        arrays = [cast(a, np.float32) if a.dtype.char == "e" else a for a in arrays]
        wide = [np.empty(o.shape, "f") if o.dtype.char == "e" else o for o in outs]
        run_loop(loop, compute, arrays, wide, shape, numbers)
        for o, w in zip(outs, wide, strict=True):
            if o is not w:
                copy(o, w)  # too large for float16 is infinity, as in PyTorch
        return
    arrays = [a if a.shape == shape else np.broadcast_to(a, shape) for a in arrays]
    if outs[0].nbytes >= buffers.LARGE:
        arrays = [a if j in (alias or ()) else in_order(a, outs[0]) for j, a in enumerate(arrays)]
    loop.run(compute.char, arrays, outs, numbers, alias)


# What these names stand for in a rule: the cotangent (or all of them), the result, and which inputs need a gradient.
_MEANT = ("g", "gs", "out", "needs")


class Elementwise(Op):
    """An elementwise op; its public face is the function that :func:`elementwise` returns."""

    def __init__(
        self,
        formula: Callable[..., Any],
        rules: dict[str, Callable[..., Any]] | None,
        kind: str,
        masks: tuple[str, ...],
        node_name: str | None,
        name: str | None,
    ) -> None:
        inputs: list[str] = []
        params: list[str] = []
        self.defaults: dict[str, Any] = {}
        for key, p in inspect.signature(formula).parameters.items():
            if key in _MEANT or p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD):
                raise TypeError(
                    f"op {formula.__name__}: a formula's parameters are single operands, and none can be called "
                    f"{', '.join(_MEANT)}, which mean something in its rules; got {p}"
                )
            (params if p.kind is p.KEYWORD_ONLY else inputs).append(key)
            if p.default is not p.empty:
                self.defaults[key] = p.default
        if not inputs:
            raise TypeError(f"op {formula.__name__}: a formula needs at least one positional parameter")
        self.formula = formula
        self.kind = kind
        self.masks = masks
        made = {k: Rule(v) for k, v in rules.items()} if rules is not None else {}
        if rules is None and kind in ("same", "float", "floating"):
            made = derived_rules(formula, tuple(inputs), tuple(params))
        super().__init__(
            name or formula.__name__.strip("_"),
            tuple(inputs),
            tuple(params),
            ("out",),
            made,
            None,
            node_name,
            formula.__module__,
        )
        self.variants: dict[str, Variant] = {}
        self.function: Callable[..., Any] = self.general
        self.__doc__ = formula.__doc__

    def variant(self, pattern: str) -> Variant:
        found = self.variants.get(pattern)
        if found is None:
            found = self.variants[pattern] = Variant(self, pattern)
        return found

    def evaluate(self, given: dict[str, Any]) -> Any:
        """The formula on Scalars or Exprs, by name."""
        return self.formula(*[given[n] for n in self.inputs], **{n: given[n] for n in self.params})

    # -- calling --------------------------------------------------------------------------------

    def general(self, *inputs: Any, out: Any = None, **params: Any) -> Any:
        """Any operands: promotion, broadcasting, numbers, ``out=``, and symbols."""
        if self.params:
            params = {**{k: self.defaults[k] for k in self.params if k in self.defaults}, **params}
        for x in inputs:
            if type(x) is Scalar:
                return self.evaluate({**dict(zip(self.inputs, inputs, strict=True)), **params})
            if type(x) is Expr:
                return Expr.of(self, inputs, params)
        values = [self._operand(j, x, inputs) for j, x in enumerate(inputs)]
        compute, result = self.types(values, tuple(params.values()))
        arrays = [v._array for v in values if isinstance(v, Value)]
        shape = self.broadcast(arrays)
        target = None
        if out is not None:
            target = self._check_out(out, shape, result, values)
        made = _empty(shape, result.numpy) if target is None else target
        pattern = "".join(["a" if isinstance(v, Value) else "n" for v in values])
        variant = self.variant(pattern)
        numbers = [v for v in values if not isinstance(v, Value)] + [params[n] for n in self.params]
        if target is not None and any(np.may_share_memory(target, a) for a in arrays):
            arrays = [duplicate(a) if np.may_share_memory(target, a) else a for a in arrays]
        if target is not None and active and (recorder := now()) is not None:
            recorder.touch(target)
        run_loop(variant.forward(), compute.numpy, arrays, [made], shape, numbers)
        same = all(a.dtype is compute.numpy for a in arrays) and made.dtype is result.numpy
        if same and (result is compute or self.kind == "compare") and compute.char != "e" and not self.params:
            self._learn(variant, compute.char, result.char, len(arrays))
        if out is not None:
            out._bump(self.name)
            return out
        return self._finish(values, made, params)

    def _learn(self, variant: Variant, char: str, out: str, arrays: int) -> None:
        """Give the fast path its kernel once the general path has shown that the types agree."""
        # A number reaches the kernel as a float, so only floating tensors may meet numbers on the short way.
        if char not in variant.flat and (char in "fd" or not variant.numbers) and not active:
            kernel = variant.forward().flat(char, char * arrays + out)
            with shared:
                # Unless another thread has begun to record meanwhile, and counts on there being no short way.
                if not active:
                    variant.flat[char] = kernel
                    learned.add(variant)

    def _finish(self, values: list[Any], made: np.ndarray, params: dict[str, Any]) -> Any:
        cls = next(v for v in values if isinstance(v, Value))
        result = cls._make(made)
        tracked = any(isinstance(v, Value) and v._source() is not None for v in values)
        if tracked and modes.grad and self.rules and made.dtype.kind == "f":
            self.attach(result, values, params)
        return result

    def attach(self, result: Any, values: Sequence[Any], params: dict[str, Any]) -> None:
        """Record the call that gave ``result``."""
        entry = self.record(values, (result._array,), params, {})
        if "out" in self.slots:
            at = self.slots.index("out")
            if entry.saved[at] is not None:
                stamps = list(entry.stamps)
                stamps[2 * at : 2 * at + 2] = result._version, result._version[0]
                entry.stamps = tuple(stamps)
        result._node, result._index = entry, 0

    def _operand(self, j: int, x: Any, inputs: tuple[Any, ...]) -> Any:
        if isinstance(x, Value):
            return x
        first = next((v for v in inputs if isinstance(v, Value)), None)
        if isinstance(x, (bool, int, float)) and first is not None:
            return x
        if isinstance(x, (np.bool_, np.integer, np.floating)) and first is not None:
            return x.item()
        if isinstance(x, np.ndarray) and first is not None:
            # A copy, since nobody would notice a change between forward and backward.
            return first._make(np.array(x, dtypes.as_dtype(x.dtype).numpy, order="C"))
        expected = "a tensor" if first is None else "a tensor or a number"
        raise TypeError(
            f"{self.name}(): argument '{self.inputs[j]}' (position {j + 1}) must be {expected}, not {type(x).__name__}"
        )

    def types(self, values: Sequence[Any], params: tuple[Any, ...] = ()) -> tuple[dtypes.dtype, dtypes.dtype]:
        """The type of the computation and that of the result."""
        operands = [v for n, v in zip(self.inputs, values, strict=True) if n not in self.masks]
        operands += [p for p in params if isinstance(p, float)] if self.kind == "same" else []
        promoted = dtypes.result_type(operands)
        if self.kind == "float" and promoted.category != dtypes.FLOATING:
            promoted = dtypes.get_default_dtype()
        if self.kind == "arithmetic-or-mask":
            return promoted, promoted
        if self.kind == "integral" and promoted.category == dtypes.FLOATING:
            raise RuntimeError(
                f"\"{self.name}\" is not implemented for '{promoted.short}': it needs integers or bools"
            )
        if self.kind == "floating":
            tensors = [tape.dtype_of(v) for v in values if isinstance(v, Value)]
            if not any(d.is_floating_point for d in tensors):
                raise NotImplementedError(
                    f"\"{self.name}\" is not implemented for '{tensors[0].short}': it needs a floating type; "
                    "convert with .float() first"
                )
        if self.kind == "compare":
            return promoted, dtypes.bool_
        return promoted, promoted

    def broadcast(self, arrays: Sequence[np.ndarray]) -> tuple[int, ...]:
        """The common shape, or PyTorch's error about the first dimension that does not fit."""
        shapes = [a.shape for a in arrays]
        if all(s == shapes[0] for s in shapes):
            return shapes[0]
        try:
            return np.broadcast_shapes(*shapes)
        except ValueError:
            pass
        raise RuntimeError(broadcast_text(self.name, shapes))

    def _check_out(
        self, out: Any, shape: tuple[int, ...], result: dtypes.dtype, values: Sequence[Any]
    ) -> np.ndarray:
        if not isinstance(out, Value):
            raise TypeError(f"{self.name}(): argument 'out' must be a tensor, not {type(out).__name__}")
        if modes.grad and any(isinstance(v, Value) and v._source() is not None for v in (*values, out)):
            raise RuntimeError(
                f"{self.name}(): functions with out=... arguments don't support automatic differentiation, "
                "but one of the arguments requires grad. Leave out= away, or use no_grad()."
            )
        to = tape.dtype_of(out)
        if result.category > to.category:
            raise RuntimeError(
                f"{self.name}(): result type {result.short} can't be cast to the desired output type {to.short}"
            )
        check_inplace(out, self.name)
        if out._array.shape != shape:
            if out._array.size:
                raise RuntimeError(
                    f"{self.name}(): out has shape {list(out._array.shape)}, the result has {list(shape)}"
                )
            out._set_array(np.empty(shape, to.numpy))
        return out._array

    def loops_text(self, needs: tuple[bool, ...], char: str = "f", vjp: bool = True) -> str:
        """The text of the loops over contiguous arrays: forward, and the fused derivative for these inputs."""
        count = len(self.inputs)
        variant = self.variant("a" * count)
        layout = kernels.loop.Layout(1, "1" * (count + 1), (-1,))
        text = variant.forward().source(
            char, char * count + ("?" if self.kind == "compare" else char), layout
        )[0]
        needs = tuple(need and name in self.rules for need, name in zip(needs, self.inputs, strict=True))
        if vjp and True in needs:
            back = variant.vjp(needs).prepare()
            if back.loop is None:
                text += f"\n# derivative of {self.name}: the cotangent is handed through, no kernel\n"
            else:
                n = len(back.loop.arrays) + len(back.loop.outputs)
                layout = kernels.loop.Layout(1, "1" * n, (-1,) * len(back.loop.outputs))
                text += "\n" + back.loop.source(char, char * n, layout)[0]
        return str(text)

    # -- in place -------------------------------------------------------------------------------

    def inplace(self, write: KernelOp, x: Any, *others: Any, **params: Any) -> Any:
        """Write the result over the first input."""
        check_inplace(x, self.name + "_")
        if self.params:
            params = {**{k: self.defaults[k] for k in self.params if k in self.defaults}, **params}
        values = [x, *[self._operand(j + 1, o, (x, *others)) for j, o in enumerate(others)]]
        compute, result = self.types(values, tuple(params.values()))
        array = x._array
        to = dtypes.of(array)
        if result.category > to.category and self.kind != "compare":
            raise RuntimeError(
                f"{self.name}_(): result type {result.short} can't be cast to the desired output type {to.short}; "
                "use the out-of-place form or convert first"
            )
        arrays = [v._array for v in values if isinstance(v, Value)]
        shape = self.broadcast(arrays)
        if shape != array.shape:
            raise RuntimeError(
                f"{self.name}_(): output with shape {list(array.shape)} doesn't match the broadcast shape {list(shape)}"
            )
        tracked = modes.grad and any(isinstance(v, Value) and v._source() is not None for v in values)
        tracked = tracked and bool(self.rules) and array.dtype.kind == "f"
        before = values
        if tracked:
            needs = tuple(isinstance(v, Value) and v._edge() is not None for v in values)
            old = duplicate(array) if self.inputs[0] in self.save_list(needs) else array
            same = x._make(old, x._node, x._index)  # the second x in x.mul_(x)
            before = [x._make(old, *tape.before_write(x)), *[same if v is x else v for v in values[1:]]]
        pattern = "".join(["a" if isinstance(v, Value) else "n" for v in values])
        numbers = [v for v in values if not isinstance(v, Value)] + [params[n] for n in self.params]
        # An operand in the same memory but at other places would be read after it was overwritten.
        arrays = [
            arrays[0],
            *(a if a is array or not np.may_share_memory(a, array) else duplicate(a) for a in arrays[1:]),
        ]
        if active and (recorder := now()) is not None:
            recorder.touch(array)
        run_loop(self.variant(pattern).forward(), compute.numpy, arrays, [array], shape, numbers, (0,))
        x._bump(self.name + "_")
        if tracked:
            entry = self.record(before, (array,), params, {})
            self._stamp_out(entry, x)
            rebase(x, entry, write)
        return x

    def _stamp_out(self, entry: Entry, x: Value) -> None:
        if "out" in self.slots and entry.saved[self.slots.index("out")] is not None:
            at = self.slots.index("out")
            stamps: list[Any] = list(entry.stamps)
            stamps[2 * at : 2 * at + 2] = x._version, x._version[0]
            entry.stamps = tuple(stamps)

    # -- replaying ------------------------------------------------------------------------------

    def vjp(self, entry: Entry, grads: list[Any], needs: Sequence[bool], algebra: Algebra) -> Sequence[Any]:
        if algebra.recorded:
            return super().vjp(entry, grads, needs, algebra)
        g = grads[0]
        if type(entry.params) is Vjp and not active:
            vjp = entry.params
            return (vjp if vjp.needs == needs else vjp.variant.vjp(tuple(needs))).short(entry, g)
        pattern = "".join(["a" if self._is_array(entry, j) else "n" for j in range(len(self.inputs))])
        return self.variant(pattern).vjp(tuple(needs)).run(entry, g)

    def _is_array(self, entry: Entry, j: int) -> bool:
        if entry.edges[j] is not None:
            return True
        name = self.inputs[j]
        return not (name in self.slots and isinstance(entry.saved[self.slots.index(name)], (int, float)))


def broadcast_text(name: str, shapes: Sequence[tuple[int, ...]]) -> str:
    """PyTorch's words for shapes that do not broadcast."""
    a = shapes[0]
    for b in shapes[1:]:
        for d in range(1, min(len(a), len(b)) + 1):
            if a[-d] != b[-d] and 1 not in (a[-d], b[-d]):
                rank = max(len(a), len(b))
                return (
                    f"{name}: The size of tensor a ({a[-d]}) must match the size of tensor b ({b[-d]}) at "
                    f"non-singleton dimension {rank - d}; the shapes are {' and '.join(str(list(s)) for s in shapes)}"
                )
    return f"{name}: shapes {' and '.join(str(list(s)) for s in shapes)} cannot be broadcast together"
