"""What a drawing shows: boxes for entries, leaves, constants and cuts, or for groups of entries, and arrows between them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .. import tape
from ..tape import Entry, Value
from .names import Names
from .rows import hooks_on, hooks_text, kind, row, saved_bytes, saved_input, sites, state, static_text

NEAR = 3  # layers; a leaf that is used farther away is drawn there again


@dataclass
class Box:
    """A thing that is drawn as a box of text."""

    # "op", "group", "leaf", "parameter", "const"; of an entry outside the listing "outside" or, behind a cut, "cut". In
    # programs also "fused", "host", "argument", "state" and "result".
    kind: str
    title: str
    lines: list[str]
    tip: str
    order: float  # position on the tape: arrows run from lower to higher, or are marked as going back
    state: str = "live"
    output: bool = False
    number: str = ""
    entries: list[int] = field(default_factory=list)  # positions: a picture keeps no graph alive


@dataclass
class Arrow:
    """From the box of an input to the box that uses it."""

    tail: int
    head: int
    label: str = ""
    cut: bool = False
    back: bool = False
    uses: list[tuple[int, int]] = field(default_factory=list)  # (position, input) of the uses it stands for
    tip: str = ""


@dataclass
class Graph:
    """Boxes and arrows between them, by index; ``folded`` says by what, if entries were put together."""

    boxes: list[Box]
    arrows: list[Arrow]
    folded: str = ""


Norms = dict[tuple[int, int], float]  # of the cotangent that an entry (by position) sent to an input


def graph_of(
    entries: Sequence[Entry], names: Names, root: Any, fold: int, norms: Norms | None = None
) -> Graph:
    """The graph of a listing, folded if it has more than ``fold`` entries."""
    if len(entries) > fold:
        made = _folded(entries, names, root, fold)
    else:
        made = _full(entries, names, root)
    for arrow in made.arrows:
        found = [norms[use] for use in arrow.uses if use in norms] if norms else []
        if found:
            arrow.label = f"\u2016g\u2016 {max(found):.3g}"
    return made


# -- every entry a box ------------------------------------------------------------------------------


def _full(entries: Sequence[Entry], names: Names, root: Any) -> Graph:
    made = Graph([], [])
    at: dict[Entry, int] = {}
    for entry in entries:
        at[entry] = len(made.boxes)
        made.boxes.append(_entry_box(entry, names, root is not None and root[0] is entry))
    sources = _Sources(made, names, lambda entry: at.get(entry))
    cuts = _Cuts()
    for entry in entries:
        for j, edge in enumerate(entry.edges):
            use = (entry.position, j)
            tail, cut = sources.of(entry, j, edge, cuts)
            if tail is not None:
                made.arrows.append(Arrow(tail, at[entry], cut=cut, uses=[use]))
    return made


def _entry_box(entry: Entry, names: Names, output: bool) -> Box:
    facts = row(entry, names)
    # A number that was an operand tells something; other parameters stay in the table and the tip.
    given = static_text({k: v for k, v in facts.params.items() if k in entry.op.slots}, 30)
    name = names.result(entry)
    lines = [f"{name}: {facts.outputs[0]}" if name and facts.outputs else ", ".join(facts.outputs[:2])]
    if given:
        lines.append(given)
    if facts.module:
        lines.append(f"in {facts.module}")
    if facts.saved:
        lines.append("saves " + ", ".join(f"{n} {size:,} B" for n, size in facts.saved.items()))
    lines += hooks_text(hooks_on(entry))
    if entry.extra is not None and entry.extra.retain:
        lines.append("keeps its gradient")
    where = ""
    if facts.state == "truncated":
        where = "released by " + _place(tape.describe_site(entry.saved.where))
        lines.append("released")
    elif facts.state == "retained":
        where = "kept by " + _place(tape.describe_site(entry.held))
        lines.append("retained")
    tip = [f"{facts.op} #{facts.position}", f"recorded at {facts.site}"]
    tip += [f"module {facts.module} ({names.module_type(entry)})"] if facts.module else []
    tip += [static_text(facts.params, 200)] if facts.params else []
    tip += [f"inputs {', '.join(facts.inputs)}", *([where] if where else []), entry.rule]
    return Box(
        "op",
        facts.op,
        [_cut(line) for line in lines],
        "\n".join(tip),
        entry.position,
        facts.state,
        output,
        f"#{facts.position}",
        [entry.position],
    )


def _place(site: str) -> str:
    path, colon, rest = site.partition(":")
    return path.rpartition("/")[2] + colon + rest


def _cut(text: str, limit: int = 44) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "\u2026"


# -- where arrows come from ---------------------------------------------------------------------------


class _Sources:
    """The boxes of leaves, constants and entries outside the listing, each made when first used."""

    def __init__(self, graph: Graph, names: Names, box_of: Callable[[Entry], int | None]) -> None:
        self.graph = graph
        self.names = names
        self.box_of = box_of
        self.made: dict[Any, tuple[int, float]] = {}

    def of(self, entry: Entry, j: int, edge: Any, cuts: _Cuts) -> tuple[int | None, bool]:
        """The box that an input came from (None for a number or an array that was not kept), and whether it is cut off."""
        if isinstance(edge, Value):
            return self._leaf(edge, entry), False
        if edge is not None:
            known = self.box_of(edge)
            return (self._outside(edge, entry, "outside") if known is None else known), False
        array = saved_input(entry, j)
        if array is None:
            return None, False
        origin = cuts.origin(array)
        if isinstance(origin, Value):
            return self._leaf(origin, entry), True
        if origin is not None and origin is not entry and origin.position < entry.position:
            known = self.box_of(origin)
            return (self._outside(origin, entry, "cut") if known is None else known), True
        return self._const(array, entry), False

    def _box(self, key: Any, user: Entry, make: Callable[[], Box]) -> int:
        # A source that is used far from its first use is drawn again there: long arrows are hard to follow.
        found = self.made.get(key)
        if found is not None and user.position - found[1] <= NEAR:
            return found[0]
        self.made[key] = (len(self.graph.boxes), user.position)
        self.graph.boxes.append(make())
        return len(self.graph.boxes) - 1

    def _leaf(self, leaf: Value, user: Entry) -> int:
        def make() -> Box:
            name = self.names.leaf(leaf)
            parameter = type(leaf) is not leaf._result
            text = kind(leaf._array.shape, leaf._array.dtype)
            grad = "has a gradient" if leaf._grad is not None else "no gradient yet"
            tip = f"{'parameter' if parameter else 'leaf'} {name}\n{text}, requires grad, {grad}"
            return Box(
                "parameter" if parameter else "leaf",
                _cut(name or "leaf"),
                [text, *hooks_text(hooks_on(leaf))],
                tip,
                user.position - 0.5,
            )

        return self._box(id(leaf), user, make)

    def _const(self, array: np.ndarray, user: Entry) -> int:
        def make() -> Box:
            name, text = self.names.array(array), kind(array.shape, array.dtype)
            return Box(
                "const",
                _cut(name or "constant"),
                [text],
                f"constant {name}\n{text}, needs no gradient",
                user.position - 0.5,
            )

        return self._box((array.ctypes.data, array.shape), user, make)

    def _outside(self, entry: Entry, user: Entry, sort: str) -> int:
        def make() -> Box:
            name = self.names.result(entry)
            why = "behind a cut" if sort == "cut" else "outside this listing"
            text = [name or kind(entry.shape, entry.dtype), why]
            tip = f"{entry.op.name} #{entry.position}, recorded at {_place(entry.site)}\n{why}"
            return Box(
                sort, entry.op.name, text, tip, entry.position, state(entry), False, f"#{entry.position}"
            )

        return self._box(id(entry), user, make)


class _Cuts:
    """Finds constants that lie in the memory of something recorded: the results of detach() and .data."""

    def __init__(self) -> None:
        self._origins: dict[tuple[int, int], Any] | None = None

    def origin(self, array: np.ndarray) -> Any:
        """The entry or leaf whose memory an array lies in, None if there is none."""
        if self._origins is None:
            self._origins = self._found()
        return self._origins.get(_memory(array)) if array.nbytes else None

    def _found(self) -> dict[tuple[int, int], Any]:
        found: dict[tuple[int, int], Any] = {}
        for entry in tape.live_entries():
            for j, edge in enumerate(entry.edges):
                if type(edge) is Entry and (array := saved_input(entry, j)) is not None:
                    found[_memory(array)] = edge
        for value in tape.live_values():
            if value._node is not None:
                found[_memory(value._array)] = value._node if type(value._node) is Entry else value
        return found


def _memory(array: np.ndarray) -> tuple[int, int]:
    return array.__array_interface__["data"][0], array.nbytes


# -- entries put together ----------------------------------------------------------------------------


def _folded(entries: Sequence[Entry], names: Names, root: Any, limit: int) -> Graph:
    by, keys = _grouping(entries, names, limit)
    groups: dict[Any, list[Entry]] = {}
    for entry in entries:
        groups.setdefault(keys[entry], []).append(entry)
    made = Graph([], [], by)
    at: dict[Any, int] = {}
    for key, members in groups.items():
        at[key] = len(made.boxes)
        made.boxes.append(_group_box(key, members, names, root))
    found: dict[tuple[int, int], Arrow] = {}
    leaves: dict[int, int] = {}
    for entry in entries:
        head = at[keys[entry]]
        for j, edge in enumerate(entry.edges):
            if type(edge) is Entry and edge in keys:
                tail = at[keys[edge]]
            elif isinstance(edge, Value) and not names.module(entry):
                tail = leaves.get(id(edge), -1)  # parameters stay inside the box of their module
                if tail < 0:
                    tail = leaves[id(edge)] = len(made.boxes)
                    text = kind(edge._array.shape, edge._array.dtype)
                    made.boxes.append(
                        Box("leaf", _cut(names.leaf(edge) or "leaf"), [text], text, entry.position - 0.5)
                    )
            else:
                continue
            if tail == head:
                continue
            arrow = found.get((tail, head))
            if arrow is None:
                back = made.boxes[tail].order > made.boxes[head].order
                arrow = found[tail, head] = Arrow(tail, head, back=back)
                made.arrows.append(arrow)
            arrow.uses.append((entry.position, j))
    return made


def _grouping(entries: Sequence[Entry], names: Names, limit: int) -> tuple[str, dict[Entry, str]]:
    """The finest way to put entries together that leaves at most ``limit`` groups, or the coarsest there is."""
    paths = {e: names.module_path(e) for e in entries}
    site = sites(entries)
    deepest = max(map(len, paths.values()))
    for depth in range(deepest, 0, -1):
        keys = {e: (path[:depth][-1] if path else site[e]) for e, path in paths.items()}
        if len(set(keys.values())) <= limit:
            return "module", keys
    if len(set(site.values())) <= limit:
        return "line", site
    return "op", {e: str(e.op.name) for e in entries}


def _group_box(key: str, members: list[Entry], names: Names, root: Any) -> Box:
    states = {state(e) for e in members}
    shown = next((s for s in ("retained", "truncated", "live") if s in states), "live")
    ops: dict[str, int] = {}
    for entry in members:
        ops[entry.op.name] = ops.get(entry.op.name, 0) + 1
    usual = sorted(ops.items(), key=lambda item: -item[1])
    text = ", ".join(f"{count} {op}" if count > 1 else op for op, count in usual)
    lines = [
        f"{len(members):,} entries, {saved_bytes(members):,} B saved"
        if len(members) > 1
        else f"1 entry, {saved_bytes(members):,} B saved",
        text,
    ]
    if shown != "live":
        lines.append("released" if shown == "truncated" else "retained")
    path = names.module_path(members[0])
    title = _place(key) if key not in path else f"{key} ({names.module_type(members[0])})"
    return Box(
        "group",
        _cut(title),
        [_cut(line) for line in lines],
        f"{title}\n{text}",
        members[0].position,
        shown,
        root is not None and root[0] in members,
        "",
        [e.position for e in members],
    )
