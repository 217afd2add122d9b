"""The reverse replay: from cotangents of some values to the gradients of others.

The entries that the roots depend on are visited from the highest position down, each once: what
arrives is added up, hooks see it, the rule of the entry's op turns it into cotangents of its
inputs, broadcasting is undone, and the entry gives up its saved arrays. A leaf is delivered as soon as
its last user was visited.

How cotangents are represented is left to an :class:`Algebra`: plain arrays, or recorded values under
``create_graph=True``. Both run the same replay.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from .kernels.recording import active, hosted
from .modes import modes, set_grad
from .tape import Entry, Truncated, Value, describe_site, saved_arrays, site


class Algebra(Protocol):
    """What the replay does with cotangents."""

    recorded: bool

    def add(self, a: Any, b: Any, owned: bool) -> Any:
        """a + b; ``owned`` says that a may be overwritten."""

    def fit(self, g: Any, shape: tuple[int, ...], dtype: np.dtype) -> Any:
        """g summed over what was broadcast from ``shape``, and cast; ValueError if it cannot be."""

    def wrap(self, g: Any) -> Any:
        """The Value that a hook shall see."""

    def unwrap(self, value: Any) -> Any:
        """The inverse of wrap."""


class Short:
    """The derivative of an entry that needs no look at its operands: ``short(entry, cotangent)`` gives all gradients.

    It stands in ``Entry.params``. Shapes and dtypes of what it returns fit, so nothing has to be undone.
    """

    short: Callable[[Entry, Any], list[Any]]


def replay(
    roots: Sequence[tuple[Any, int, Any]],
    algebra: Algebra,
    *,
    retain: bool,
    deliver: Callable[[Value, Any], None],
    wanted: dict[Any, dict[int, Any]] | None = None,
) -> None:
    """Replay from ``roots``: (entry or leaf, output, cotangent) triples.

    ``deliver(leaf, cotangent)`` is called once per leaf reached. With ``wanted`` (entry or leaf ->
    {output: anything}) only the entries between the roots and those are run, only those leaves are
    delivered, and the cotangents of wanted outputs are written into the dictionaries.
    """
    order, uses = _discover([node for node, _, _ in roots])
    needed = None if wanted is None else _needed(order, wanted)
    pending = _Pending(algebra)
    for node, index, g in roots:
        pending.add(node, index, g)
    where = site()
    gone = None if retain else Truncated(where)
    if retain:
        for entry in order:
            entry.held = where
    short = not algebra.recorded and wanted is None and modes.anomaly is None and not active
    grad_before = modes.grad
    set_grad(algebra.recorded)
    totals, sums, add, total_of = pending.totals, pending.sums, pending.add, algebra.add
    try:
        for node, _, _ in roots:
            if isinstance(node, Value) and node not in uses and node in totals:
                _deliver(node, totals, needed, deliver)
        for entry in order:
            grads: Any = None
            total = totals.pop(entry, None)
            if total is not None and (needed is None or entry in needed):
                if short and entry.extra is None and isinstance(entry.params, Short):
                    grads = _visit_short(entry, total, gone)
                else:
                    # Several outputs have a list of cotangents, one output has its cotangent.
                    total = total if type(total) is list else [total]
                    grads = _visit(entry, total, algebra, needed, wanted, gone)
                total = None
            indices = entry.indices
            for j, edge in enumerate(entry.edges):
                if edge is None:
                    continue
                if grads is not None:
                    # Taken out of the list, so that the receiver may become the only owner.
                    g, grads[j] = grads[j], None
                    if g is not None:
                        if type(edge) is Entry and edge.several is not None:
                            add(edge, indices[j], g)
                        else:  # add(), written out for the usual case
                            have = totals.get(edge)
                            if have is not None:
                                g = total_of(have, g, edge in sums)
                                sums.add(edge)
                                have = None
                            totals[edge] = g
                        g = None
                if type(edge) is not Entry:
                    left = uses[edge] = uses[edge] - 1
                    if not left and edge in totals:
                        _deliver(edge, totals, needed, deliver)
    finally:
        set_grad(grad_before)


class _Pending:
    """Cotangents that have arrived: per leaf or entry, and per output of entries with several."""

    __slots__ = ("algebra", "sums", "totals")

    def __init__(self, algebra: Algebra) -> None:
        self.algebra = algebra
        self.totals: dict[Any, Any] = {}
        self.sums: set[Any] = set()  # where the total is a sum made here, which nobody else can see

    def add(self, node: Any, index: int, g: Any) -> None:
        """Add a cotangent to what has arrived."""
        totals = self.totals
        if type(node) is Entry and node.several is not None:
            parts = totals.get(node)
            if parts is None:
                parts = totals[node] = [None] * len(node.several)
            have = parts[index]
            if have is not None:
                key = (node, index)
                g = self.algebra.add(have, g, key in self.sums)
                self.sums.add(key)
            parts[index] = g
            return
        have = totals.get(node)
        if have is not None:
            g = self.algebra.add(have, g, node in self.sums)
            self.sums.add(node)
        totals[node] = g


def _discover(starts: list[Any]) -> tuple[list[Entry], dict[Value, int]]:
    """Entries that the starts depend on, latest first, and how many edges lead to each leaf."""
    stack = [n for n in starts if type(n) is Entry]
    seen = set(stack)
    stack = list(seen)
    uses: dict[Value, int] = {}
    for entry in stack:  # grows while it is walked
        for edge in entry.edges:
            if type(edge) is Entry:
                if edge not in seen:
                    seen.add(edge)
                    stack.append(edge)
            elif edge is not None:
                uses[edge] = uses.get(edge, 0) + 1
    stack.sort(key=_position, reverse=True)
    return stack, uses


_position = operator.attrgetter("position")


def _needed(order: list[Entry], wanted: dict[Any, Any]) -> set[Any]:
    """The entries and leaves through which a wanted one is reached, wanted ones included."""
    needed: set[Any] = set(wanted)
    for entry in reversed(order):
        if entry not in needed and any(e is not None and e in needed for e in entry.edges):
            needed.add(entry)
    return needed


def _deliver(
    leaf: Value, totals: dict[Any, Any], needed: set[Any] | None, deliver: Callable[[Value, Any], None]
) -> None:
    if needed is None or leaf in needed:
        deliver(leaf, totals.pop(leaf))  # popped, so that the receiver may be the only owner
    else:
        del totals[leaf]


def _visit_short(entry: Entry, g: Any, gone: Truncated | None) -> list[Any]:
    """Run the rule of an entry without hooks whose operands are known to fit."""
    if type(entry.saved) is Truncated:
        raise RuntimeError(_truncated_text(entry))
    stamps = entry.stamps
    if stamps:
        _check_versions(entry, stamps)
    try:
        grads = entry.params.short(entry, g)
    except Exception:
        _check_still_there(entry)
        raise
    if gone is not None and stamps:
        entry.saved = gone
        entry.stamps = ()
    return grads  # type: ignore[no-any-return]


def _check_still_there(entry: Entry) -> None:
    """Say what happened if a rule failed since another thread gave up the entry under its hands."""
    if type(entry.saved) is Truncated:
        raise RuntimeError(_truncated_text(entry)) from None


def _check_versions(entry: Entry, stamps: tuple[Any, ...]) -> None:
    if len(stamps) == 4:  # two operands: most entries
        a, at, b, bt = stamps
        if (a is None or a[0] == at) and (b is None or b[0] == bt):
            return
    for j in range(0, len(stamps), 2):
        counter = stamps[j]
        if counter is not None and counter[0] != stamps[j + 1]:
            raise RuntimeError(_modified_text(entry, j // 2))


def _visit(
    entry: Entry,
    grads: list[Any],
    algebra: Algebra,
    needed: set[Any] | None,
    wanted: dict[Any, dict[int, Any]] | None,
    gone: Truncated | None,
) -> list[Any] | None:
    """Run one entry's hooks and rule; give up what it saved if ``gone`` says who truncates."""
    extra = entry.extra
    if extra is not None:
        _output_hooks(entry, grads, algebra)
    if wanted is not None and entry in wanted:
        for index in wanted[entry]:
            wanted[entry][index] = grads[index]
    if needed is None:
        needs = tuple([e is not None for e in entry.edges])
    else:
        needs = tuple([e is not None and e in needed for e in entry.edges])
        if True not in needs:
            return None
    if extra is not None and extra.pre:
        _pre_hooks(entry, grads, algebra)
        if all(g is None for g in grads):
            return None
    if type(entry.saved) is Truncated:
        raise RuntimeError(_truncated_text(entry))
    if entry.stamps:
        _check_versions(entry, entry.stamps)
    try:
        results = entry.op.vjp(entry, grads, needs, algebra)
    except Exception as err:
        _check_still_there(entry)
        err.add_note(
            f"while replaying {entry.op.node_name}, entry #{entry.position} recorded at {entry.site}"
        )
        raise
    if modes.anomaly:
        _check_nan(entry, grads, results, algebra)
    results = _fitted(entry, results, needs, algebra)
    if extra is not None and extra.post:
        results = _post_hooks(entry, results, grads, algebra)
    if gone is not None and entry.op.keeps(entry.saved):
        entry.saved = gone
        entry.stamps = ()
    return results


def _fitted(entry: Entry, results: Sequence[Any], needs: tuple[bool, ...], algebra: Algebra) -> list[Any]:
    """Cotangents in the shape and dtype of the inputs: the one place where broadcasting is undone."""
    fitted: list[Any] = []
    for j, edge in enumerate(entry.edges):
        g = results[j]
        if g is None or not needs[j]:
            fitted.append(None)
            continue
        if type(edge) is Entry:
            shape, dtype = (
                (edge.shape, edge.dtype) if edge.several is None else edge.several[entry.indices[j]]
            )
        else:
            shape, dtype = edge._array.shape, edge._array.dtype
        if type(g) is not np.ndarray or g.shape != shape or g.dtype is not dtype:
            try:
                g = algebra.fit(g, shape, dtype)
            except ValueError:
                raise RuntimeError(
                    f"{entry.op.node_name} (entry #{entry.position}, recorded at {entry.site}) returned an invalid gradient "
                    f"at index {j}: got shape {list(g.shape)} but expected a shape compatible with {list(shape)}"
                ) from None
        fitted.append(g)
    return fitted


# -- hooks ----------------------------------------------------------------------------------------


def run_hooks(hooks: Any, g: Any, algebra: Algebra) -> Any:
    """A cotangent after the tensor hooks in ``hooks``, each of which may replace it."""
    if active and not algebra.recorded:
        return _hooked(g, _Kept(hooks, algebra))
    return _run_hooks(hooks, g, algebra)


class _Kept:
    """Hooks as they are when they are called, for a recorded step that calls them again."""

    def __init__(self, hooks: Any, algebra: Algebra) -> None:
        self.hooks = hooks
        self.algebra = algebra


@hosted
def _hooked(g: np.ndarray, kept: _Kept) -> np.ndarray:
    return np.array(_run_hooks(kept.hooks, g, kept.algebra))


def _run_hooks(hooks: Any, g: Any, algebra: Algebra) -> Any:
    value = algebra.wrap(g)
    for hook in list(hooks.values()):
        result = hook(value)
        if result is not None:
            value = _checked(getattr(hook, "__name__", repr(hook)), result, algebra.unwrap(value), algebra)
    return algebra.unwrap(value)


def _output_hooks(entry: Entry, grads: list[Any], algebra: Algebra) -> None:
    assert entry.extra is not None
    for index, hooks in entry.extra.outputs.items():
        if grads[index] is not None and hooks:
            grads[index] = run_hooks(hooks, grads[index], algebra)
    for index, reference in entry.extra.retain.items():
        value = reference()
        if value is not None and grads[index] is not None:
            g = algebra.wrap(grads[index])
            value._grad = (
                g
                if value._grad is None
                else algebra.wrap(algebra.add(algebra.unwrap(value._grad), algebra.unwrap(g), False))
            )


def _pre_hooks(entry: Entry, grads: list[Any], algebra: Algebra) -> None:
    assert entry.extra is not None
    for hook in list(entry.extra.pre.values()):
        result = hook(_wrapped(grads, algebra))
        if result is not None:
            grads[:] = _replaced(hook, result, grads, algebra)


def _post_hooks(entry: Entry, results: list[Any], grads: list[Any], algebra: Algebra) -> list[Any]:
    assert entry.extra is not None
    outputs = _wrapped(grads, algebra)
    for hook in list(entry.extra.post.values()):
        changed = hook(_wrapped(results, algebra), outputs)
        if changed is not None:
            results = _replaced(hook, changed, results, algebra)
    return results


def _wrapped(grads: Sequence[Any], algebra: Algebra) -> tuple[Any, ...]:
    return tuple(None if g is None else algebra.wrap(g) for g in grads)


def _replaced(hook: Any, values: Any, before: list[Any], algebra: Algebra) -> list[Any]:
    """What a node's hook returned in place of ``before``: as many gradients, of the same shapes and dtypes."""
    if not isinstance(values, tuple):
        raise TypeError(f"expected tuple, but hook returned '{type(values).__name__}'")
    name = getattr(hook, "__name__", repr(hook))
    if len(values) != len(before):
        raise RuntimeError(
            f"hook '{name}' has returned an incorrect number of values (got {len(values)}, but expected {len(before)})"
        )
    return [
        None if v is None else algebra.unwrap(_checked(name, v, g, algebra))
        for v, g in zip(values, before, strict=True)
    ]


def _checked(name: str, value: Any, before: Any, algebra: Algebra) -> Any:
    if not isinstance(value, Value):
        raise TypeError(f"hook '{name}' must return tensors or None, got {type(value).__name__}")
    if before is None:
        raise RuntimeError(f"hook '{name}': can't replace a None gradient with a non-None value")
    new, old = value._array, algebra.wrap(before)._array
    if new.shape != old.shape:
        raise RuntimeError(
            f"hook '{name}' has changed the size of value: from {list(old.shape)} to {list(new.shape)}; "
            "return a gradient of the same shape"
        )
    if new.dtype != old.dtype:
        raise RuntimeError(f"hook '{name}' has changed the type of value: from {old.dtype} to {new.dtype}")
    return value


# -- errors ---------------------------------------------------------------------------------------


def _truncated_text(entry: Entry) -> str:
    return (
        "Trying to backward through the graph a second time: "
        f"{entry.op.node_name} (entry #{entry.position}, recorded at {entry.site}) gave up its saved arrays "
        f"in the backward at {describe_site(entry.saved.where)}. Specify retain_graph=True in that call if the "
        "graph is needed again, or compute the value anew (or detach() what is carried over from an earlier step)."
    )


def _modified_text(entry: Entry, slot: int) -> str:
    counter, stamp = entry.stamps[2 * slot], entry.stamps[2 * slot + 1]
    name = entry.op.slots[slot] if slot < len(entry.op.slots) else f"saved tensor {slot}"
    changed = ""
    if counter[1] is not None:
        op, where = counter[1]
        changed = f" It was last changed by {op} at {describe_site(where)}."
    meta = next(iter(entry.meta), None)
    return (
        "one of the variables needed for gradient computation has been modified by an in-place operation: "
        f"{entry.op.node_name} (entry #{entry.position}, recorded at {entry.site}, output {list(meta[0]) if meta else []}) saved "
        f"'{name}' at version {stamp}, and it is at version {counter[0]} now.{changed} "
        "Use the out-of-place form there, or change a clone()."
    )


def _check_nan(entry: Entry, grads: Sequence[Any], results: Sequence[Any], algebra: Algebra) -> None:
    """Raise for the first gradient that is NaN, with the numbers that made the first NaN."""
    for j, g in enumerate(results):
        if g is not None:
            array = algebra.wrap(g)._array
            if array.dtype.kind == "f" and np.isnan(array).any():
                where = tuple(int(k) for k in np.argwhere(np.isnan(array))[0])
                raise RuntimeError(
                    f"Function '{entry.op.node_name}' returned nan values in its {j}th output: "
                    f"entry #{entry.position}, recorded at {entry.site}, "
                    f"{int(np.isnan(array).sum())} of {array.size} values are NaN"
                    f"{_numbers_at(entry, grads, array, where, algebra)}"
                )


def _numbers_at(
    entry: Entry, grads: Sequence[Any], array: np.ndarray, where: tuple[int, ...], algebra: Algebra
) -> str:
    """What arrived and what was saved at the place of a NaN, for operands of its shape."""
    known = [
        (f"cotangent {k}" if len(grads) > 1 else "the cotangent that arrived", g) for k, g in enumerate(grads)
    ]
    operands = [(name, algebra.wrap(g)._array) for name, g in known if g is not None]
    operands += [(f"saved {name}", saved) for name, saved in saved_arrays(entry)]
    shown = [f"{name} = {a[where]}" for name, a in operands if a.shape == array.shape]
    place = f" at index {list(where)}" if where else ""
    return f". The first one{place} was made of: {', '.join(shown)}" if shown else ""
