"""Function: an operation whose forward and backward a user writes.

::

    class Cube(tg.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x * x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return 3 * x * x * g

    y = Cube.apply(x)
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..modes import modes, no_grad
from ..op import Packed, check_inplace, rebase
from ..ops.shape import write_view
from ..replay import Algebra
from ..tape import Entry, Truncated, Value, before_write, describe_site, record
from ..tensor import Tensor


class FunctionCtx:
    """What forward leaves for backward: saved tensors, flags, and any attributes."""

    def __init__(self, needs: tuple[bool, ...]) -> None:
        self.needs_input_grad = needs
        self.materialize_grads = True
        self._to_save: tuple[Any, ...] = ()
        self._dirty: tuple[Any, ...] = ()
        self._constant: tuple[Any, ...] = ()
        self._kinds: tuple[Any, ...] = ()

    def save_for_backward(self, *tensors: Any) -> None:
        """Keep tensors for backward; they are guarded against in-place changes and freed after use."""
        for t in tensors:
            if t is not None and not isinstance(t, Value):
                raise TypeError(
                    f"save_for_backward can only save variables, but argument {tensors.index(t)} is of type {type(t).__name__}; "
                    "keep other things as attributes of ctx"
                )
        self._to_save = tensors

    def save_for_forward(self, *tensors: Any) -> None:
        """Forward-mode differentiation does not exist here."""
        raise RuntimeError(
            "save_for_forward: tapegrad has no forward-mode Functions; use autograd.functional.jvp"
        )

    def mark_dirty(self, *args: Any) -> None:
        """Say which inputs forward changed in place; they must be returned as outputs."""
        self._dirty = args

    def mark_non_differentiable(self, *args: Any) -> None:
        """Say which outputs are constants."""
        self._constant = args

    def set_materialize_grads(self, value: bool) -> None:
        """Whether missing cotangents arrive as zeros (the default) or as None."""
        self.materialize_grads = bool(value)

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """What save_for_backward kept; RuntimeError after the graph was released."""
        running = _running.of(self)
        return self._to_save if running is None else saved_values(running[0], self, running[1])

    saved_variables = saved_tensors


class _Running(threading.local):
    """The backward functions that this thread is inside of, innermost last.

    A context belongs to its entry, so it cannot hold it, and several threads may replay one entry.
    """

    def __init__(self) -> None:
        self.stack: list[tuple[FunctionCtx, Entry, bool]] = []

    def of(self, ctx: FunctionCtx) -> tuple[Entry, bool] | None:
        """The entry that is being replayed with this context, and whether the replay is recorded."""
        return next(((e, recorded) for c, e, recorded in reversed(self.stack) if c is ctx), None)


_running = _Running()


def saved_values(entry: Entry, ctx: FunctionCtx, recorded: bool) -> tuple[Any, ...]:
    """The saved tensors of a Function's entry, with their history if it is being recorded."""
    if type(entry.saved) is Truncated:
        raise RuntimeError(
            f"Trying to access saved tensors of {entry.op.node_name} after they have been freed by the backward at "
            f"{describe_site(entry.saved.where)}. Specify retain_graph=True in that call."
        )
    found: list[Any] = []
    for item, kind in zip(entry.saved, ctx._kinds, strict=True):
        if item is None:
            found.append(None)
            continue
        made = Tensor._make(item.array() if type(item) is Packed else item)
        if recorded and kind is not None:
            which, j = kind
            edge, index = (entry.edges[j], entry.indices[j]) if which == "input" else (entry, j)
            if isinstance(edge, Value):
                found.append(edge)
                continue
            made._node, made._index = edge, index
        found.append(made)
    return tuple(found)


# Shape and dtype of an output that is no tensor.
_NOTHING: tuple[tuple[int, ...], np.dtype] = ((0,), np.dtype(bool))


class FunctionOp:
    """The op of a Function's entries."""

    slots: tuple[str, ...] = ()

    def __init__(self, cls: type[Function]) -> None:
        self.cls = cls
        self.name = cls.__name__
        self.node_name = cls.__name__ + "Backward"

    def keeps(self, saved: Sequence[Any]) -> bool:
        return any(s is not None for s in saved)

    def pack(self, entry: Entry, hooks: tuple[Callable[[Any], Any], Callable[[Any], Any]]) -> None:
        pack, unpack = hooks
        before, modes.saved_hooks = modes.saved_hooks, None
        try:
            entry.saved = tuple(
                None if s is None else Packed(s, pack(Tensor._make(s)), unpack) for s in entry.saved
            )
        finally:
            modes.saved_hooks = before

    def show_saved(self, entry: Entry, name: str) -> Any:
        raise AttributeError(f"{self.node_name} saved nothing called {name!r}; see its saved_tensors")

    def vjp(self, entry: Entry, grads: list[Any], needs: Sequence[bool], algebra: Algebra) -> list[Any]:
        ctx = entry.params["ctx"]
        given = []
        for of, g in zip(entry.meta, grads, strict=True):
            if g is not None:
                given.append(algebra.wrap(g))
            else:
                missing = of is _NOTHING or not ctx.materialize_grads
                given.append(None if missing else Tensor._make(np.zeros(*of)))
        _running.stack.append((ctx, entry, algebra.recorded))
        try:
            result = self.cls.backward(ctx, *given)
        finally:
            _running.stack.pop()
        return self._checked(entry, result, algebra)

    def _checked(self, entry: Entry, result: Any, algebra: Algebra) -> list[Any]:
        items = list(result) if isinstance(result, (tuple, list)) else [result]
        expected = len(entry.edges)
        while len(items) > expected and items[-1] is None:
            items.pop()
        if len(items) != expected:
            raise RuntimeError(
                f"function {self.node_name} returned an incorrect number of gradients (expected {expected}, got {len(items)}): "
                "backward returns one per argument of forward, None for those that are not tensors"
            )
        found: list[Any] = []
        for j, item in enumerate(items):
            if item is None:
                found.append(None)
            elif not isinstance(item, Value):
                raise TypeError(
                    f"function {self.node_name} returned a {type(item).__name__} as gradient {j}; expected a tensor or None"
                )
            elif not entry.params["tensors"][j]:
                raise RuntimeError(
                    f"function {self.node_name} returned a gradient different from None at position {j + 1}, "
                    "but the corresponding forward input was not a Variable"
                )
            else:
                found.append(algebra.unwrap(item))
        return found


class Function:
    """Base of user-defined operations: write ``forward`` and ``backward`` as static methods, call ``apply``.

    ``forward(ctx, *args)`` (or ``forward(*args)`` with ``setup_context(ctx, inputs, output)``) runs unrecorded;
    ``backward(ctx, *grads)`` gets one cotangent per output and returns one gradient per argument.
    """

    _op: FunctionOp

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls._op = FunctionOp(cls)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise RuntimeError(
            f"{type(self).__name__} should not be instantiated. Methods on autograd functions are all static: call {type(self).__name__}.apply(...)"
        )

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """The operation itself."""
        raise NotImplementedError("You must implement the forward function for custom autograd.Function.")

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        """Prepare ctx, for a forward that does not take it."""
        raise NotImplementedError("setup_context is not implemented.")

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """Cotangents of the arguments from those of the outputs."""
        raise NotImplementedError(
            "You must implement the backward function for your custom autograd.Function to use it with backward mode AD."
        )

    vjp = backward

    @classmethod
    def apply(cls, *args: Any) -> Any:
        """Run forward, and record it if an argument requires grad."""
        edges = tuple(a._edge() if isinstance(a, Value) else None for a in args)
        tracked = modes.grad and any(e is not None for e in edges)
        ctx = FunctionCtx(tuple(e is not None for e in edges))
        with no_grad():
            if cls.setup_context is not Function.setup_context:
                result = cls.forward(*args)
                cls.setup_context(ctx, args, result)
            else:
                result = cls.forward(ctx, *args)
        single = not isinstance(result, tuple)
        outputs = [result] if single else list(result)
        if ctx._dirty:
            _check_dirty(cls, ctx, args, outputs)
        if tracked:
            outputs = _track(cls, ctx, args, edges, outputs)
        else:
            for x in ctx._dirty:
                x._bump(cls.__name__)
        ctx._to_save = ()
        return outputs[0] if single else tuple(outputs)


def _is_one_of(x: Any, items: Sequence[Any]) -> bool:
    return any(x is item for item in items)


def _check_dirty(cls: type[Function], ctx: FunctionCtx, args: tuple[Any, ...], outputs: list[Any]) -> None:
    for x in ctx._dirty:
        if not _is_one_of(x, args):
            raise RuntimeError(f"{cls.__name__}: mark_dirty was called with something that is not an input")
        if not _is_one_of(x, outputs):
            raise RuntimeError(
                f"{cls.__name__}: Some elements marked as dirty during the forward method were not returned as output. "
                "The inputs that are modified inplace must all be outputs of the Function."
            )
        check_inplace(x, cls.__name__)


def _track(
    cls: type[Function], ctx: FunctionCtx, args: tuple[Any, ...], edges: tuple[Any, ...], outputs: list[Any]
) -> list[Any]:
    places = [before_write(a) if _is_one_of(a, ctx._dirty) else None for a in args]
    edges = tuple(e if e is None or p is None else p[0] for e, p in zip(edges, places, strict=True))
    indices = tuple(
        p[1] if p is not None else a._index if isinstance(a, Value) else 0
        for a, p in zip(args, places, strict=True)
    )
    finished: list[Any] = []
    for x in outputs:
        if (
            isinstance(x, Value)
            and not _is_one_of(x, ctx._dirty)
            and (_is_one_of(x, args) or x._node is not None)
        ):
            # An input handed through as it is: the output is a tensor of its own over the same memory.
            through = Tensor._make(x._array)
            through._version = x._version
            finished.append(through)
        else:
            finished.append(x)
    for x in ctx._dirty:
        x._bump(cls.__name__)
    saved, stamps, kinds = _saved(ctx, args, edges, outputs)
    ctx._kinds = kinds
    # What is no tensor counts as an output too: backward gets None for it.
    meta = tuple((x._array.shape, x._array.dtype) if isinstance(x, Value) else _NOTHING for x in finished)
    params = {"ctx": ctx, "tensors": tuple(isinstance(a, Value) for a in args)}
    entry = record(cls._op, edges, indices, saved, stamps, params, meta)
    for j, x in enumerate(finished):
        original = outputs[j]
        if not isinstance(x, Value) or _is_one_of(original, ctx._constant) or x._array.dtype.kind != "f":
            continue
        if _is_one_of(original, ctx._dirty):
            rebase(x, entry, write_view, j)
        else:
            x._node, x._index = entry, j
    return finished


def _saved(
    ctx: FunctionCtx,
    args: tuple[Any, ...],
    edges: tuple[Any, ...],
    outputs: list[Any],
) -> tuple[tuple[Any, ...], tuple[Any, ...], tuple[Any, ...]]:
    """Arrays, version stamps and where on the tape each saved tensor belongs."""
    saved: list[Any] = []
    stamps: list[Any] = []
    kinds: list[Any] = []
    for t in ctx._to_save:
        if t is None:
            saved.append(None)
            stamps += (None, 0)
            kinds.append(None)
            continue
        kind: Any = None
        outs = [j for j, x in enumerate(outputs) if x is t]
        ins = [j for j, a in enumerate(args) if a is t]
        if ins and not _is_one_of(t, ctx._dirty):
            kind = ("input", ins[0]) if edges[ins[0]] is not None else None
        elif outs:
            kind = ("output", outs[0])
        saved.append(t._array)
        stamps += (t._version, t._version[0])
        kinds.append(kind)
    return tuple(saved), tuple(stamps), tuple(kinds)


class _Twice:
    """The op of results that must not be differentiated again."""

    slots: tuple[str, ...] = ()
    name = node_name = "DelayedError"

    def keeps(self, saved: Any) -> bool:
        return False

    def pack(self, entry: Entry, hooks: Any) -> None:
        pass

    def vjp(self, entry: Entry, grads: Any, needs: Any, algebra: Any) -> Any:
        raise RuntimeError(
            "trying to differentiate twice a function that was marked with @once_differentiable"
        )


_twice = _Twice()


def once_differentiable(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a backward that cannot be differentiated (it leaves the tape): doing so becomes an error."""

    @functools.wraps(fn)
    def run(ctx: Any, *grads: Any) -> Any:
        with no_grad():
            result = fn(ctx, *grads)
        if not modes.grad:
            return result
        edges = tuple(g._edge() for g in grads if isinstance(g, Value))
        # The result also depends on what forward saved, so it counts as recorded even if the cotangent is a constant.
        running = _running.of(ctx)
        if running is not None:
            edges += tuple(e for e in running[0].edges if e is not None)
        if not any(e is not None for e in edges):
            return result
        items = result if isinstance(result, tuple) else (result,)
        guarded = []
        for x in items:
            if isinstance(x, Value):
                made = Tensor._make(x._array)
                meta = ((x._array.shape, x._array.dtype),)
                made._node = record(_twice, edges, (0,) * len(edges), (), (), None, meta)
                guarded.append(made)
            else:
                guarded.append(x)
        return tuple(guarded) if isinstance(result, tuple) else guarded[0]

    return run
