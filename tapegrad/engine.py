"""backward and grad: the two ways to start a replay.

Two algebras of cotangents: arrays for a plain backward, tensors (so that everything is recorded
again) under ``create_graph=True``.
"""

from __future__ import annotations

import sys
from functools import cache as once
from typing import Any

import numpy as np

from . import buffers, config, kernels, locks
from .elementwise import run_loop
from .kernels.arrays import cast, duplicate
from .kernels.recording import active, now
from .ops.arithmetic import plus
from .ops.reduce import summed
from .ops.shape import stack
from .reasons import why_constant
from .replay import Algebra, replay, run_hooks
from .tape import Entry, Value

_plus = plus.op.variant("aa")


@once
def _column_sums(char: str) -> Any:
    return kernels.small.column_sums.entry((char, char, "int", "int", "int"))


@once
def _kernels(char: str) -> tuple[Any, Any]:
    """C functions over contiguous arrays of one dtype: out = a + b, and a += b."""
    loop = _plus.forward()
    return loop.flat(char, char * 3), loop.flat_into(char)


def add_into(a: np.ndarray, b: np.ndarray) -> None:
    """a += b, in a's memory."""
    if a is b or np.may_share_memory(a, b):
        b = duplicate(b)
    char = a.dtype.char
    if (
        not active
        and a.dtype is b.dtype
        and a.size < config.grain
        and char in "fd"
        and a.flags.c_contiguous
        and b.flags.c_contiguous
    ):
        _kernels(char)[1](a, b, 0, a.size)
    else:
        run_loop(_plus.forward(), a.dtype, [a, b], [a], a.shape, (), (0,))


def _broadcast_dims(have: tuple[int, ...], want: tuple[int, ...]) -> tuple[int, ...]:
    """Dimensions of ``have`` to be summed to come back to ``want``; ValueError if that cannot be."""
    lead = len(have) - len(want)
    if lead < 0:
        raise ValueError
    dims = list(range(lead))
    for d, n in enumerate(want):
        if have[lead + d] != n:
            if n != 1:
                raise ValueError
            dims.append(lead + d)
    return tuple(dims)


class Arrays:
    """Cotangents as plain arrays."""

    recorded = False

    def __init__(self, cls: type[Any]) -> None:
        self.cls = cls

    @staticmethod
    def add(a: np.ndarray, b: np.ndarray, owned: bool) -> np.ndarray:
        char = a.dtype.char
        if a.shape != b.shape:
            raise RuntimeError(_two_sizes_text(a.shape, b.shape))
        if (
            not active
            and a.size < config.grain
            and char in "fd"
            and a.dtype is b.dtype
            and a.flags.c_contiguous
            and b.flags.c_contiguous
        ):
            if owned:
                _kernels(char)[1](a, b, 0, a.size)
                return a
            out = np.empty(a.shape, a.dtype)
            _kernels(char)[0](a, b, out, 0, out.size)
            return out
        if owned:
            add_into(a, b)
            return a
        out = buffers.empty(a.shape, a.dtype)
        run_loop(_plus.forward(), a.dtype, [a, b], [out], a.shape)
        return out

    @staticmethod
    def fit(g: np.ndarray, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        if g.shape != shape:
            have = g.shape
            if (
                not active
                and len(have) == 2
                and have[1:] == shape
                and 0 < have[0] <= 64
                and g.flags.c_contiguous
                and g.dtype.char in "fd"
            ):
                # The gradient of a bias in a small network: not worth the way through a reduction.
                out = np.empty(shape, g.dtype)
                _column_sums(g.dtype.char)(g, out, have[0], 0, have[1])
                g = out
            else:
                dims = _broadcast_dims(have, shape)
                g = summed.forward(g, dims=dims, shape=shape, dtype=g.dtype)
        return g if g.dtype is dtype else cast(g, dtype)

    def wrap(self, g: np.ndarray) -> Any:
        return self.cls._make(g)

    @staticmethod
    def unwrap(value: Any) -> np.ndarray:
        return value._array  # type: ignore[no-any-return]


class Tensors:
    """Cotangents as tensors whose arithmetic is recorded."""

    recorded = True

    @staticmethod
    def add(a: Any, b: Any, owned: bool) -> Any:
        return plus(a, b)

    @staticmethod
    def fit(g: Any, shape: tuple[int, ...], dtype: np.dtype) -> Any:
        array = g._array
        if array.shape != shape:
            dims = _broadcast_dims(array.shape, shape)
            g = summed(g, dims=dims, shape=shape, dtype=array.dtype)
        return g if array.dtype == dtype else g.to(dtype)

    @staticmethod
    def wrap(g: Any) -> Any:
        return g

    @staticmethod
    def unwrap(value: Any) -> Any:
        return value


def _algebra(cls: type[Any], create_graph: bool) -> Algebra:
    return Tensors() if create_graph else Arrays(cls)


# -- roots -----------------------------------------------------------------------------------------


def _listed(items: Any) -> list[Any]:
    return list(items) if isinstance(items, (tuple, list)) else [items]


def _roots(tensors: list[Any], grads: list[Any], algebra: Algebra, name: str) -> list[tuple[Any, int, Any]]:
    """(entry or leaf, output, cotangent) per tensor that is differentiated."""
    roots = []
    for j, (t, g) in enumerate(zip(tensors, grads, strict=True)):
        if not isinstance(t, Value):
            raise TypeError(f"{name}: expected tensors, got {type(t).__name__}")
        edge = t._edge()
        array = t._array
        if edge is None:
            raise RuntimeError(_no_graph_text(j, t))
        if g is None:
            if array.size != 1:
                raise RuntimeError(
                    f"grad can be implicitly created only for scalar outputs: this tensor has shape {list(array.shape)}. "
                    f"Reduce it (for example .sum()) or give {'gradient=' if name == 'backward' else 'grad_outputs='} of that shape."
                )
            roots.append((edge, t._index if type(edge) is Entry else 0, _unit(t, algebra)))
            continue
        if not isinstance(g, Value):
            raise TypeError(f"gradients can be either Tensors or None, but got {type(g).__name__}")
        if g._array.shape != array.shape:
            raise RuntimeError(
                f"Mismatch in shape: grad_output[{j}] has a shape of {list(g._array.shape)} and output[{j}] has a shape of "
                f"{list(array.shape)}."
            )
        if g._array.dtype != array.dtype:
            if g._array.dtype.kind != "f":
                raise RuntimeError(
                    f"{name}: the gradient of a {array.dtype} tensor must be floating, got {g._array.dtype}"
                )
            g = t._make(cast(g._array, array.dtype)) if not algebra.recorded else g.to(array.dtype)  # type: ignore[attr-defined]
        roots.append((edge, t._index if type(edge) is Entry else 0, algebra.unwrap(g)))
    return roots


_ONE = {char: np.ones((), char) for char in "efd"}


def _unit(t: Any, algebra: Algebra) -> Any:
    """The cotangent one of a tensor with one element."""
    array = t._array
    # One array per dtype serves every 0-d loss; who wants to keep a cotangent copies what others hold too.
    one = np.ones(array.shape, array.dtype) if array.ndim else _ONE[array.dtype.char]
    return t._make(one.copy()) if algebra.recorded else one


def _no_graph_text(j: int, t: Any) -> str:
    return f"element {j} of tensors does not require grad and does not have a grad_fn: {why_constant(t)}."


def _grads_for(grads: Any, tensors: list[Any], name: str) -> list[Any]:
    if grads is None:
        return [None] * len(tensors)
    items = _listed(grads)
    if len(items) != len(tensors):
        raise RuntimeError(f"{name}: got {len(tensors)} tensors and {len(items)} gradients")
    return items


def _two_sizes_text(a: tuple[int, ...], b: tuple[int, ...]) -> str:
    return (
        f"gradients of shapes {list(a)} and {list(b)} meet at one tensor: its .data, or that of its .grad, was replaced by one of "
        "another shape after it had been used. Make a new tensor instead."
    )


# -- leaves ----------------------------------------------------------------------------------------


def accumulate(leaf: Any, g: Any, algebra: Algebra) -> None:
    """Add a cotangent to ``leaf.grad``: in place, unless it is being recorded."""
    with locks.shared:  # another thread may be adding to the same gradient
        have = leaf._grad
        recorder = now() if active else None
        if recorder is not None:
            recorder.leaf(leaf)
        if algebra.recorded:
            leaf._grad = g if have is None else plus(have, g)
            return
        shape, dtype = leaf._array.shape, leaf._array.dtype
        if g.shape != shape or (have is not None and have._array.shape != shape):
            raise RuntimeError(_two_sizes_text(shape, g.shape if g.shape != shape else have._array.shape))
        if g.dtype is not dtype:
            g = cast(g, dtype)
        if have is None and recorder is not None:
            leaf._grad = leaf._make(duplicate(g))
            return
        if have is None:
            # Kept as it is only if nobody else holds it: the two references are this function's
            # argument and its caller's. Otherwise a later in-place sum would change a stranger's array.
            if (
                sys.getrefcount(g) > 4
                or (g.base is not None and not buffers.whole(g))
                or not g.flags.c_contiguous
                or not g.flags.writeable
            ):
                g = duplicate(g)
            leaf._grad = leaf._make(g)
            return
        array = have._array
        if array.flags.writeable:
            if recorder is not None:
                recorder.touch(array)
                recorder.bumped(have._version)
            add_into(array, g)
            have._version[0] += 1
        else:
            leaf._grad = leaf._make(array + g)


def _run_post_hooks(leaf: Any) -> None:
    for hook in list(leaf._extra.post_hooks.values()):
        hook(leaf)


def _deliverer(algebra: Algebra, collect: dict[Any, Any] | None) -> Any:
    def deliver(leaf: Any, g: Any) -> None:
        extra = leaf._extra
        if extra is not None and extra.hooks:
            g = run_hooks(extra.hooks, g, algebra)
        if collect is not None:
            collect[leaf] = g
            return
        accumulate(leaf, g, algebra)
        if extra is not None and extra.post_hooks:
            if active and (recorder := now()) is not None:
                recorder.look(leaf._grad._array, lambda: _run_post_hooks(leaf))
            else:
                _run_post_hooks(leaf)

    return deliver


# -- the two ways ----------------------------------------------------------------------------------


def backward(
    tensors: Any,
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Any = None,
) -> None:
    """Add the gradients of ``tensors`` to ``.grad`` of the leaves they depend on.

    ``grad_tensors`` weights the tensors (ones for scalars if None). The graph is truncated as it is
    replayed unless ``retain_graph`` (default: the value of ``create_graph``). With ``inputs`` only those
    tensors receive a gradient. RuntimeError if a tensor has no graph, or has given it up.
    """
    items = _listed(tensors)
    if not items:
        raise RuntimeError("backward: an empty list of tensors was given")
    grads = _grads_for(grad_tensors, items, "backward")
    algebra = _algebra(items[0]._result if isinstance(items[0], Value) else Value, create_graph)
    roots = _roots(items, grads, algebra, "backward")
    retain = create_graph if retain_graph is None else retain_graph
    if inputs is None:
        replay(roots, algebra, retain=retain, deliver=_deliverer(algebra, None))
        return
    targets = _listed(inputs)
    if not targets:
        raise RuntimeError("backward: 'inputs' argument to backward cannot be empty.")
    wanted = _wanted(targets, "backward")
    replay(roots, algebra, retain=retain, deliver=_deliverer(algebra, None), wanted=wanted)
    for x in targets:
        edge = x._edge()
        if type(edge) is Entry and wanted[edge][x._index] is not None:
            accumulate(x, wanted[edge][x._index], algebra)


def _wanted(inputs: list[Any], name: str) -> dict[Any, dict[int, Any]]:
    wanted: dict[Any, dict[int, Any]] = {}
    for x in inputs:
        if not isinstance(x, Value):
            raise TypeError(f"{name}: inputs must be tensors, got {type(x).__name__}")
        edge = x._edge()
        if edge is None:
            raise RuntimeError(
                f"{name}: One of the differentiated Tensors does not require grad (shape {list(x._array.shape)}, dtype "
                f"{x._array.dtype}); set requires_grad=True on it before it is used."
            )
        wanted.setdefault(edge, {})[x._index if type(edge) is Entry else 0] = None
    return wanted


def grad(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Any, ...]:
    """Gradients of the sum of ``outputs`` with respect to ``inputs``, as a tuple; no ``.grad`` is touched.

    An input that the outputs do not depend on is an error, or gives None with ``allow_unused`` and
    zeros with ``materialize_grads``.
    """
    outs, targets = _listed(outputs), _listed(inputs)
    if allow_unused is False and materialize_grads:
        raise ValueError(
            "Expected allow_unused to be True or not passed when materialize_grads=True, but got: allow_unused=False."
        )
    if not targets:
        raise ValueError("grad requires non-empty inputs.")
    if is_grads_batched:
        return _batched(
            outs, targets, grad_outputs, retain_graph, create_graph, allow_unused, materialize_grads
        )
    grads = _grads_for(grad_outputs, outs, "grad")
    algebra = _algebra(outs[0]._result if outs and isinstance(outs[0], Value) else Value, create_graph)
    wanted = _wanted(targets, "grad")
    roots = _roots(outs, grads, algebra, "grad")
    collected: dict[Any, Any] = {}
    retain = create_graph if retain_graph is None else retain_graph
    replay(roots, algebra, retain=retain, deliver=_deliverer(algebra, collected), wanted=wanted)
    results = []
    for j, x in enumerate(targets):
        edge = x._edge()
        g = wanted[edge][x._index] if type(edge) is Entry else collected.get(edge)
        if g is not None:
            g = algebra.wrap(g)
        elif materialize_grads:
            g = x._make(np.zeros(x._array.shape, x._array.dtype))
        elif not allow_unused:
            raise RuntimeError(
                f"One of the differentiated Tensors (input {j}, shape {list(x._array.shape)}) appears to not have been used in "
                "the graph. Set allow_unused=True if this is the desired behavior."
            )
        results.append(g)
    return tuple(results)


def _batched(
    outs: list[Any],
    targets: list[Any],
    grad_outputs: Any,
    retain: Any,
    create: bool,
    unused: Any,
    zeros: bool,
) -> tuple[Any, ...]:
    """One replay per index of the leading dimension of the grad_outputs, stacked."""
    batches = _grads_for(grad_outputs, outs, "grad")
    if any(not isinstance(b, Value) or not b._array.ndim for b in batches):
        raise RuntimeError("grad: is_grads_batched=True needs grad_outputs with a leading batch dimension")
    size = batches[0]._array.shape[0]
    rows = []
    for j in range(size):
        keep = True if j < size - 1 else retain
        rows.append(grad(outs, targets, [b[j] for b in batches], keep, create, unused, False, zeros))
    return tuple(None if column[0] is None else stack(list(column)) for column in zip(*rows, strict=True))
