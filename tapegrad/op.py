"""What an op is: a forward function over arrays, and one derivative rule per input.

A rule is an expression over tensors::

    @kernel_op(a=lambda g, b: g @ b.mT, b=lambda g, a: a.mT @ g)
    def matmul(a, b): ...

**Its parameter names are its save list.** ``g`` is the cotangent of the output (``gs`` the tuple of
them if there are several), an input's name is that input, ``out`` (or an output's name) the
result, ``NAME_shape`` the shape of an input, a keyword-only parameter of the forward function its
value, and a *residual* something that the forward function hands out besides its result. What no rule of an
input that needs a gradient names is not kept. Any other name is an error at import.

The rule serves every use: on constants in a plain backward, recorded under ``create_graph``, and
lowered with the rest of a recorded step.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from . import tape
from .kernels import recording
from .kernels.arrays import copy, duplicate
from .kernels.recording import active
from .modes import modes, set_grad
from .replay import Algebra
from .tape import LEAF, Entry, Truncated, Value, View, before_write, record


class Rule:
    """A derivative rule and the names of what it needs."""

    __slots__ = ("derived", "fn", "names")

    def __init__(self, fn: Any, names: tuple[str, ...] | None = None, derived: Any = None) -> None:
        self.fn = fn
        self.derived = derived  # the expression that ``fn`` evaluates, if nobody wrote it
        self.names = fn.__code__.co_varnames[: fn.__code__.co_argcount] if names is None else names


def as_rule(rule: Callable[..., Any] | Rule) -> Rule:
    """A rule from a function, or the rule itself."""
    return rule if isinstance(rule, Rule) else Rule(rule)


class _RuleValues:
    """What the names in a rule stand for. An object, since a closure that calls itself is a reference cycle."""

    __slots__ = ("_given", "_made", "_op")

    def __init__(self, op: Op, *given: Any) -> None:
        self._op = op
        self._given = given
        self._made: dict[str, Any] = {}

    def __call__(self, name: str) -> Any:
        if name not in self._made:
            entry, grads, needs, algebra = self._given
            self._made[name] = self._op._rule_value(entry, name, grads, needs, algebra, self)
        return self._made[name]


class Packed:
    """A saved array in the care of saved_tensors_hooks."""

    __slots__ = ("dtype", "held", "shape", "unpack")

    def __init__(self, array: np.ndarray, held: Any, unpack: Callable[[Any], Any]) -> None:
        self.shape = array.shape
        self.dtype = array.dtype
        self.held = held
        self.unpack = unpack

    def array(self) -> np.ndarray:
        """The array back from its keeper."""
        back = self.unpack(self.held)
        if not isinstance(back, Value):
            raise TypeError(f"an unpack hook must return a tensor, got {type(back).__name__}")
        array = back._array
        if array.shape != self.shape or array.dtype != self.dtype:
            raise RuntimeError(
                f"an unpack hook must give back a tensor like the one that was packed, {self.dtype} of shape {list(self.shape)}; "
                f"it returned {array.dtype} of shape {list(array.shape)}"
            )
        return array


def node_name_of(name: str) -> str:
    """PyTorch's node name for an op: ``log_softmax`` gives ``LogSoftmaxBackward0``."""
    return "".join(part[:1].upper() + part[1:] for part in name.split("_")) + "Backward0"


# The library's own ops by name; the tests and the table of operations in the documentation walk it.
registry: dict[str, Op] = {}


class Op:
    """The part that all kinds share: names, save lists, and running rules over values."""

    def __init__(
        self,
        name: str,
        inputs: tuple[str, ...],
        params: tuple[str, ...],
        outputs: tuple[str, ...],
        rules: dict[str, Rule],
        residuals: dict[str, Rule] | None = None,
        node_name: str | None = None,
        module: str = "",
    ) -> None:
        self.name = name
        self.module = module
        if (module or "").startswith(__package__ + "."):
            registry[name] = self
        self.node_name = node_name or node_name_of(name)
        self.inputs = inputs
        self.params = params
        self.outputs = outputs
        self.rules = rules
        self.residuals = residuals or {}
        known = {*inputs, *outputs, *self.residuals, *(f"{i}_shape" for i in inputs)}
        self.slots = tuple(self._slot_order(known))
        self._at = {name: j for j, name in enumerate(self.slots)}
        self._check_names({*known, *params, "g", "gs", "needs"})
        self._saves: dict[tuple[bool, ...], frozenset[str]] = {}
        self._plans: dict[tuple[bool, ...], tuple[tuple[str, Any], ...]] = {}

    def _slot_order(self, known: set[str]) -> list[str]:
        named = {n for r in self.rules.values() for n in r.names}
        named |= {n for r in self.residuals.values() for n in r.names}
        order = [*self.inputs, *self.outputs, *self.residuals, *(f"{i}_shape" for i in self.inputs)]
        return [n for n in order if n in named and n in known]

    def _check_names(self, known: set[str]) -> None:
        for target, rule in self.rules.items():
            if target not in self.inputs and target != "all":
                raise TypeError(
                    f"op {self.name}: a rule is given for {target!r}, which is not an input {self.inputs}"
                )
            for name in rule.names:
                if name not in known:
                    raise TypeError(
                        f"op {self.name}: the rule of {target!r} names {name!r}, which is neither an input, an output, "
                        f"a parameter nor g; known are {sorted(known)}"
                    )

    # -- saving ---------------------------------------------------------------------------------

    def save_list(self, needs: tuple[bool, ...]) -> frozenset[str]:
        """Names to be kept if these inputs need gradients."""
        found = self._saves.get(needs)
        if found is None:
            names: set[str] = set()
            if "all" in self.rules:
                names.update(self.rules["all"].names)
            for need, target in zip(needs, self.inputs, strict=False):
                if need and target in self.rules:
                    names.update(self.rules[target].names)
            for name in list(names):
                if name in self.residuals:
                    names.update(self.residuals[name].names)
            found = self._saves[needs] = frozenset(names)
        return found

    def keeps(self, saved: Any) -> bool:
        """Whether replaying gave up anything, so that a second replay must fail."""
        for item in saved:  # noqa: SIM110 - half the time of any() with a generator
            if item is not None and type(item) is not tuple:  # tuples are shapes
                return True
        return False

    def pack(self, entry: Entry, hooks: tuple[Callable[[Any], Any], Callable[[Any], Any]]) -> None:
        """Hand saved arrays to a pair of saved_tensors_hooks."""
        pack, unpack = hooks
        before, modes.saved_hooks = modes.saved_hooks, None
        try:
            entry.saved = tuple(
                Packed(s, pack(self.wrap_saved(s)), unpack) if isinstance(s, np.ndarray) else s
                for s in entry.saved
            )
        finally:
            modes.saved_hooks = before

    wrap_saved: Callable[[np.ndarray], Any] = staticmethod(lambda array: Value._make(array))

    def show_saved(self, entry: Entry, name: str) -> Any:
        """What ``grad_fn._saved_<name>`` gives: the saved array as a tensor, or the parameter."""
        if type(entry.saved) is Truncated:
            raise RuntimeError(
                f"{self.node_name}: the saved arrays were given up by the backward at "
                f"{tape.describe_site(entry.saved.where)}; use retain_graph=True there"
            )
        names = {"self": self.inputs[0], "result": "out", "other": self.inputs[-1]}
        for candidate in (name, names.get(name, name)):
            if candidate in self.slots:
                item = entry.saved[self.slots.index(candidate)]
                return self.wrap_saved(item) if isinstance(item, np.ndarray) else item
            if isinstance(entry.params, dict) and candidate in entry.params:
                return entry.params[candidate]
        raise AttributeError(f"{self.node_name} saved nothing called {name!r}; it knows {self.slots}")

    # -- replaying ------------------------------------------------------------------------------

    def vjp(self, entry: Entry, grads: list[Any], needs: Sequence[bool], algebra: Algebra) -> Sequence[Any]:
        """Cotangents of the inputs, by running the rules over values."""
        values = self._rule_values(entry, grads, needs, algebra)
        run = self._run if algebra.recorded else self._run_on_constants
        if "all" in self.rules:
            results = run(self.rules["all"], values, entry)
        else:
            results = [
                run(self.rules[target], values, entry) if need and target in self.rules else None
                for target, need in zip(self.inputs, needs, strict=False)
            ]
        return [None if r is None else algebra.unwrap(r) for r in results]

    @staticmethod
    def _run(rule: Rule, values: Callable[[str], Any], entry: Any = None) -> Any:
        return rule.fn(*[values(n) for n in rule.names])

    def _run_on_constants(self, rule: Rule, values: Callable[[str], Any], entry: Entry) -> Any:
        """The same in a plain replay, where saved arrays and parameters need no more than a look."""
        given: list[Any] = []
        for name in rule.names:
            at = self._at.get(name)
            if name == "g":
                given.append(values(name))
            elif at is not None and type(entry.saved[at]) is np.ndarray:
                given.append(self.wrap_saved(entry.saved[at]))
            else:
                given.append(entry.params[name] if name in self.params else values(name))
        return rule.fn(*given)

    def _rule_values(
        self, entry: Entry, grads: list[Any], needs: Sequence[bool], algebra: Algebra
    ) -> Callable[[str], Any]:
        """A function from names in a rule to what they stand for, each made once."""
        return _RuleValues(self, entry, grads, needs, algebra)

    def _rule_value(
        self,
        entry: Entry,
        name: str,
        grads: list[Any],
        needs: Sequence[bool],
        algebra: Algebra,
        value: Callable[[str], Any],
    ) -> Any:
        if name == "g":
            return algebra.wrap(grads[0])
        if name == "gs":
            return tuple(self._materialized(entry, j, g, algebra) for j, g in enumerate(grads))
        if name == "needs":
            return tuple(needs)
        if name in self.params:
            return entry.params[name]
        if name in self.residuals and algebra.recorded:
            # Taken for a constant it would give wrong second derivatives: use its definition.
            return self._run(self.residuals[name], value)
        item = entry.saved[self._at[name]]
        if type(item) is Packed:
            item = item.array()
        if isinstance(item, list):
            return [self._history(entry, (name, j), a, algebra) for j, a in enumerate(item)]
        if not isinstance(item, np.ndarray):
            return item
        return self._history(entry, name, item, algebra)

    def _materialized(self, entry: Entry, index: int, g: Any, algebra: Algebra) -> Any:
        if g is not None:
            return algebra.wrap(g)
        shape, dtype = entry.meta[index]
        return algebra.wrap(algebra.unwrap(self.wrap_saved(np.zeros(shape, dtype))))

    def _history(self, entry: Entry, name: Any, array: np.ndarray, algebra: Algebra) -> Any:
        """A saved array as a value; under create_graph with the place on the tape that it had."""
        made = self.wrap_saved(array)
        if not algebra.recorded:
            return made
        if name in self.inputs:
            j = self.inputs.index(name)
            edge, index = entry.edges[j], entry.indices[j]
        elif isinstance(name, tuple):
            edge, index = entry.edges[name[1]], entry.indices[name[1]]
        elif name in self.outputs and array.dtype.kind == "f":
            edge, index = entry, self.outputs.index(name)
        else:
            return made
        if isinstance(edge, Value):
            return edge
        made._node, made._index = edge, index
        return made

    # -- recording ------------------------------------------------------------------------------

    def record(
        self,
        values: Sequence[Any],
        outs: Sequence[np.ndarray],
        params: dict[str, Any],
        extras: dict[str, Any],
    ) -> Entry:
        """The entry of one call: ``values`` per input (Values, numbers or None)."""
        edges: list[Any] = []
        indices: list[int] = []
        for x in values:
            if isinstance(x, Value):
                edges.append(x._edge())
                indices.append(x._index)
            else:
                edges.append(None)
                indices.append(0)
        saved: list[Any] = []
        stamps: list[Any] = []
        for kind, at in self._plan(tuple([e is not None for e in edges])):
            item: Any = None
            counter: Any = None
            if kind == "input":
                item = values[at]
                if isinstance(item, Value):
                    item, counter = item._array, item._version
            elif kind == "output":
                item = outs[at]
            elif kind == "residual":
                item = extras[at]
            elif kind == "shape":
                item = values[at]._array.shape
            saved.append(item)
            stamps += (counter, 0 if counter is None else counter[0])
        meta = tuple([(o.shape, o.dtype) for o in outs])
        return record(self, tuple(edges), tuple(indices), tuple(saved), tuple(stamps), params, meta)

    def _plan(self, needs: tuple[bool, ...]) -> tuple[tuple[str, Any], ...]:
        """Per slot: what is put there if these inputs need gradients, and where it is found."""
        found = self._plans.get(needs)
        if found is None:
            names = self.save_list(needs)
            found = self._plans[needs] = tuple(
                [self._place(s) if s in names else ("", 0) for s in self.slots]
            )
        return found

    def _place(self, slot: str) -> tuple[str, Any]:
        if slot in self.inputs:
            return "input", self.inputs.index(slot)
        if slot in self.outputs:
            return "output", self.outputs.index(slot)
        if slot in self.residuals:
            return "residual", slot
        return "shape", self.inputs.index(slot.removesuffix("_shape"))


class KernelOp(Op):
    """An op whose forward function gets arrays and returns one array, or a tuple of them.

    Positional parameters are tensors (or None), ``*name`` a list of tensors, keyword-only ones static.
    With residuals the function returns ``(out, residual, ...)`` in the order of their definition.
    """

    # Whether the forward function is made of kernels and of kernels/arrays.py alone, apart from what depends on shapes and
    # parameters only. A recorded step then runs its kernels; else it calls the function.
    native = False
    # Optional: writes the result over the first array, for ops that change only a part of it.
    update: Callable[..., None] | None = None
    # Whether it gives one number everywhere, which may be written to one place several times.
    uniform = False

    def __init__(
        self,
        forward: Callable[..., Any],
        rules: dict[str, Callable[..., Any]],
        outputs: tuple[str, ...],
        residuals: dict[str, Callable[..., Any]],
        node_name: str | None,
        name: str | None,
        native: bool = False,
    ) -> None:
        self.native = native
        inputs, params, self.variadic = _parameters(forward)
        self.forward = forward
        self.__doc__ = forward.__doc__
        super().__init__(
            name or forward.__name__.strip("_"),
            inputs,
            params,
            outputs,
            {k: as_rule(v) for k, v in rules.items()},
            {k: as_rule(v) for k, v in residuals.items()},
            node_name,
            forward.__module__,
        )
        # Outputs that are saved, and the slots that hold them.
        self._stamped = [(j, self.slots.index(o)) for j, o in enumerate(self.outputs) if o in self.slots]

    def __call__(self, *values: Any, **params: Any) -> Any:
        arrays: list[Any] = []
        first: Any = None
        tracked = False
        for x in values:
            if isinstance(x, Value):
                first = first or (x,)
                tracked = tracked or x._source() is not None
                arrays.append(x._array)
            else:
                arrays.append(x)
        result = self.forward(*arrays, **params) if not active else recording.forward(self, arrays, params)
        outs, extras = self._split(result)
        make = first[0]._make
        made = [make(o) for o in outs]
        if tracked and modes.grad and self.rules:
            self._track(values, made, params, extras)
        return made[0] if len(self.outputs) == 1 and not isinstance(result, list) else tuple(made)

    def _split(self, result: Any) -> tuple[Sequence[np.ndarray], dict[str, Any]]:
        if isinstance(result, list):
            return result, {}  # as many outputs as the call asks for
        if not isinstance(result, tuple):
            return (result,), {}
        n = len(self.outputs)
        return result[:n], dict(zip(self.residuals, result[n:], strict=True))

    def _track(
        self, values: Sequence[Any], made: list[Any], params: dict[str, Any], extras: dict[str, Any]
    ) -> None:
        outs = [m._array for m in made]
        entry = (
            self._variadic(values, outs, params)
            if self.variadic
            else self.record(values, outs, params, extras)
        )
        for j, m in enumerate(made):
            if m._array.dtype.kind == "f":  # integer outputs are constants
                m._node, m._index = entry, j
        self._stamp_outputs(entry, made)

    def _stamp_outputs(self, entry: Entry, made: list[Any]) -> None:
        if self._stamped:
            stamps = list(entry.stamps)
            for j, at in self._stamped:
                if entry.saved[at] is not None:
                    stamps[2 * at : 2 * at + 2] = made[j]._version, made[j]._version[0]
            entry.stamps = tuple(stamps)

    def _variadic(self, values: Sequence[Any], outs: list[np.ndarray], params: dict[str, Any]) -> Entry:
        """Record an op over a list of tensors: its rule returns one cotangent per tensor."""
        edges = tuple(x._edge() for x in values)
        names = self.save_list((True,))
        saved: list[Any] = []
        stamps: list[Any] = []
        for slot in self.slots:
            if slot == f"{self.inputs[0]}_shape":
                saved.append(tuple(x._array.shape for x in values))
            elif slot == self.inputs[0] and slot in names:
                saved.append([x._array for x in values])
            elif slot in self.outputs:
                saved.append(outs[self.outputs.index(slot)])
            else:
                saved.append(None)
            stamps += (None, 0)
        if self.inputs[0] in names:  # one more pair per array of the list
            for x in values:
                stamps += (x._version, x._version[0])
        meta = tuple((o.shape, o.dtype) for o in outs)
        indices = tuple(x._index for x in values)
        return record(self, edges, indices, tuple(saved), tuple(stamps), params, meta)

    def vjp(self, entry: Entry, grads: list[Any], needs: Sequence[bool], algebra: Algebra) -> Sequence[Any]:
        if not self.variadic:
            return super().vjp(entry, grads, needs, algebra)
        rule = self.rules[self.inputs[0]]
        results = self._run(rule, self._rule_values(entry, grads, needs, algebra))
        return [None if r is None else algebra.unwrap(r) for r in results]


def _parameters(fn: Callable[..., Any]) -> tuple[tuple[str, ...], tuple[str, ...], bool]:
    """Names of tensor inputs and of static parameters, and whether the inputs are a list."""
    # Read off the code object: inspect.signature takes ten times as long, and there are hundreds of ops.
    code = fn.__code__
    names, count, static = code.co_varnames, code.co_argcount, code.co_kwonlyargcount
    variadic = bool(code.co_flags & inspect.CO_VARARGS)
    inputs = names[:count] + ((names[count + static],) if variadic else ())
    params = names[count : count + static]
    return inputs, params, variadic


def kernel_op(
    *,
    outputs: tuple[str, ...] = ("out",),
    residuals: dict[str, Callable[..., Any]] | None = None,
    node_name: str | None = None,
    name: str | None = None,
    native: bool = False,
    **rules: Callable[..., Any],
) -> Callable[[Callable[..., Any]], KernelOp]:
    """Make an op of a function over arrays; one rule per input, or one for ``all`` of them.

    ``native`` says that the function is made of kernels alone, see :attr:`KernelOp.native`.
    """
    return lambda forward: KernelOp(forward, rules, outputs, residuals or {}, node_name, name, native)


class ViewOp(Op):
    """An op whose output lies in the memory of its only input."""

    def __init__(
        self, forward: Callable[..., Any], rule: Callable[..., Any], node_name: str | None, multiple: bool
    ) -> None:
        inputs, params, _ = _parameters(forward)
        self.forward = forward
        self.multiple = multiple
        self.__doc__ = forward.__doc__
        super().__init__(
            forward.__name__.strip("_"),
            inputs,
            params,
            ("out",),
            {inputs[0]: as_rule(rule)},
            None,
            node_name,
            forward.__module__,
        )

    def __call__(self, x: Any, /, **params: Any) -> Any:
        array = self.forward(x._array, **params)
        node = None
        if modes.grad and x._source() is not None:
            edge = x._edge()
            saved = self.static_saves(x._array)
            node = record(self, (edge,), (x._index,), saved, (), params, ((array.shape, array.dtype),))
        made = x._make(array, node)
        made._version = x._version
        under = x._view
        recorded = modes.grad or x._source() is None
        if under is None:
            made._view = View(x, ((self, params),), recorded, self.multiple)
        else:
            made._view = View(
                under.base,
                (*under.steps, (self, params)),
                recorded and under.recorded,
                self.multiple or under.multiple,
            )
        return made

    def static_saves(self, array: np.ndarray) -> tuple[Any, ...]:
        """Slots of an entry: the input's shape is the only thing that a view's rule may name."""
        return (array.shape,) * len(self.slots)


class ViewsOp(Op):
    """An op with several outputs that all lie in the memory of its input (split, unbind).

    ``pieces`` gives, per output, the single view operation that makes it: ``[(op, params), ...]``.
    """

    def __init__(self, pieces: Callable[..., Any], rule: Callable[..., Any], node_name: str | None) -> None:
        inputs, params, _ = _parameters(pieces)
        self.pieces = pieces
        self.__doc__ = pieces.__doc__
        name = pieces.__name__.strip("_")
        super().__init__(
            name, inputs, params, ("out",), {inputs[0]: as_rule(rule)}, None, node_name, pieces.__module__
        )

    def __call__(self, x: Any, /, **params: Any) -> tuple[Any, ...]:
        steps = self.pieces(x._array, **params)
        before = modes.grad
        set_grad(False)  # the pieces are recorded below, as one entry
        try:
            made = tuple([op(x, **given) for op, given in steps])
        finally:
            set_grad(before)
        for m in made:
            m._view.multiple = True
            m._view.recorded = before or x._node is None
        if before and x._source() is not None:
            saved = (x._array.shape,) * len(self.slots)
            meta = tuple([(m._array.shape, m._array.dtype) for m in made])
            entry = record(self, (x._edge(),), (x._index,), saved, (), params, meta)
            for j, m in enumerate(made):
                m._node, m._index = entry, j
        return made


def views_op(
    rule: Callable[..., Any], *, node_name: str | None = None
) -> Callable[[Callable[..., Any]], ViewsOp]:
    """Make an op with several views as outputs."""
    return lambda pieces: ViewsOp(pieces, rule, node_name)


def view_op(
    rule: Any, *, node_name: str | None = None, multiple: bool = False
) -> Callable[[Callable[..., Any]], ViewOp]:
    """Make a view op of a function from an array to a view of it."""
    return lambda forward: ViewOp(forward, rule, node_name, multiple)


# -- in place -------------------------------------------------------------------------------------


def check_inplace(x: Value, name: str, repeated: bool = False) -> None:
    """Raise if ``x`` must not be changed in place, nor twice at one place unless ``repeated``."""
    array = x._array
    if (
        0 in array.strides
        and not repeated
        and array.size
        and any(s == 0 and n > 1 for s, n in zip(array.strides, array.shape, strict=True))
    ):
        raise RuntimeError(
            f"{name}: unsupported operation: more than one element of the written-to tensor refers to a single memory "
            f"location (an expanded tensor of shape {list(array.shape)}). Please clone() the tensor before the operation."
        )
    if not array.flags.writeable:
        raise RuntimeError(f"{name}: the memory of this tensor is read-only; clone() it first")
    if not modes.grad:
        return
    view = x._view
    if view is None:
        if x._node is LEAF:
            raise RuntimeError(
                f"{name}: a leaf tensor that requires grad is being used in an in-place operation. "
                "Wrap the change in no_grad(), or work on a clone()."
            )
        return
    if view.base._node is LEAF:
        raise RuntimeError(
            f"{name}: a view of a leaf tensor that requires grad is being used in an in-place operation. "
            "Wrap the change in no_grad(), or work on a clone()."
        )
    if x._node is LEAF:
        raise RuntimeError(
            f"{name}: a leaf tensor that requires grad is being used in an in-place operation."
        )
    if view.base._node is not None:
        if view.multiple:
            raise RuntimeError(
                f"{name}: this view is one of several outputs of an operation that returns multiple views "
                "(split, chunk or unbind); such a view cannot be modified in place. Use the out-of-place form."
            )
        if not view.recorded:
            raise RuntimeError(
                f"{name}: a view that was created in no_grad mode is being modified in place with grad mode enabled; "
                "create the view and change it in the same mode."
            )


def rebase(x: Value, entry: Entry, write: KernelOp, index: int = 0) -> None:
    """Make an output of an entry the history of a value that was changed in place, and of the base it lies in."""
    view = x._view
    if view is None:
        x._move(entry, index)
    else:
        base = view.base
        meta = ((base._array.shape, base._array.dtype),)
        edges = (base._edge(), entry)
        saved = (None,) * len(write.slots)
        written = record(write, edges, (base._index, index), saved, (), {"steps": view.steps}, meta)
        base._move(written, 0)
        x._source()


def apply_inplace(op: KernelOp, write: KernelOp, x: Any, *values: Any, **params: Any) -> Any:
    """Run an op with its result written over its first input, recorded if need be."""
    check_inplace(x, op.name + "_", repeated=op.uniform and not any(isinstance(v, Value) for v in values))
    arrays = [v._array if isinstance(v, Value) else v for v in values]
    tracked = modes.grad and any(isinstance(v, Value) and v._source() is not None for v in (x, *values))
    tracked = tracked and x._array.dtype.kind == "f"
    needs = tuple(isinstance(v, Value) and v._edge() is not None for v in (x, *values)) if tracked else ()
    old = x._array
    if tracked and op.inputs[0] in op.save_list(needs):
        old = duplicate(x._array)  # a rule needs what is about to be overwritten
    outs: Sequence[np.ndarray] = ()
    extras: dict[str, Any] = {}
    recorder = recording.now()
    update = op.update if recorder is None else None
    if update is None:
        if recorder is not None:
            recorder.touch(x._array)
        outs, extras = op._split(recording.forward(op, (x._array, *arrays), params))
    entry = None
    if tracked:
        before = x._make(old, *before_write(x))
        if x._edge() is x:
            before = x
        entry = op.record((before, *values), [x._array], params, extras)
    if update is None:
        copy(x._array, outs[0])
    else:
        # An operand in the same memory would be read after it was overwritten.
        arrays = [
            a.copy() if isinstance(a, np.ndarray) and np.may_share_memory(a, x._array) else a for a in arrays
        ]
        update(x._array, *arrays, **params)
    x._bump(op.name + "_")
    if entry is not None:
        op._stamp_outputs(entry, [x])
        rebase(x, entry, write)
    return x
