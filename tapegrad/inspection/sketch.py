"""The graph drawn with characters, as version control draws its history: newest first, one lane per open arrow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..tape import Entry, Value
from .names import Names
from .rows import kind, row, static_text


class Sketch(str):
    """Text that shows itself as it is."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def sketch(entries: Sequence[Entry], names: Names) -> Sketch:
    """Lanes and labels, a line per entry and per leaf."""
    nodes = _nodes(entries)
    lanes: list[Any] = []  # the key of the node that each open lane leads to; None where a lane has ended
    lines: list[str] = []
    for key, item in nodes:
        if key not in lanes:
            _open(lanes, key)
        mine = lanes.index(key)
        others = [j for j, k in enumerate(lanes) if k == key and j != mine]
        if others:
            lines.append(_joined(lanes, mine, others, "\u256f"))
            for j in others:
                lanes[j] = None
            _close(lanes)
        marks = ["\u25cf" if type(item) is Entry else "\u25cb"]
        lines.append(_row(lanes, mine, marks[0]) + "  " + _label(item, names))
        targets = [id(e) for e in item.edges if e is not None] if type(item) is Entry else []
        targets = list(dict.fromkeys(targets))
        lanes[mine] = targets[0] if targets else None
        opened = [_open(lanes, target) for target in targets[1:]]
        if opened:
            lines.append(_joined(lanes, mine, opened, "\u256e"))
        _close(lanes)
    return Sketch("\n".join(lines))


def _nodes(entries: Sequence[Entry]) -> list[tuple[int, Any]]:
    """Entries from the newest down, each leaf behind the last entry that uses it."""
    last: dict[int, Value] = {}
    found: list[tuple[int, Any]] = []
    inside = {id(e) for e in entries}
    for (
        entry
    ) in entries:  # oldest first: a leaf comes out just before its first user, and all is turned around
        for edge in entry.edges:
            if (
                edge is not None
                and id(edge) not in last
                and (isinstance(edge, Value) or id(edge) not in inside)
            ):
                last[id(edge)] = edge
                found.append((id(edge), edge))
        found.append((id(entry), entry))
    return found[::-1]


def _open(lanes: list[Any], key: Any) -> int:
    """The lane that leads to a node: a free one, or a new one at the right."""
    for j, k in enumerate(lanes):
        if k is None:
            lanes[j] = key
            return j
    lanes.append(key)
    return len(lanes) - 1


def _close(lanes: list[Any]) -> None:
    """Give up the lanes at the right that have ended."""
    while lanes and lanes[-1] is None:
        lanes.pop()


def _row(lanes: list[Any], mine: int, mark: str) -> str:
    return " ".join(mark if j == mine else "\u2502" if k is not None else " " for j, k in enumerate(lanes))


def _joined(lanes: list[Any], mine: int, others: list[int], corner: str) -> str:
    """A line on which lanes part from a node's lane or come back to it."""
    low, high = min(mine, *others), max(mine, *others)
    left = {"\u256e": "\u256d", "\u256f": "\u2570"}[corner]
    cells = []
    for j, k in enumerate(lanes):
        if j == mine:
            here = "\u251c" if j == low else "\u2524" if j == high else "\u253c"
        elif j in others:
            here = left if j == low else corner if j == high else "\u252c" if corner == "\u256e" else "\u2534"
        elif low < j < high:
            here = "\u2500" if k is None else "\u253c"
        else:
            here = "\u2502" if k is not None else " "
        cells.append(here + ("\u2500" if low <= j < high else " "))
    return "".join(cells).rstrip()


def _label(item: Any, names: Names) -> str:
    if type(item) is not Entry:
        return f"{names.leaf(item) or 'leaf'}: {kind(item._array.shape, item._array.dtype)}"
    facts = row(item, names)
    name = names.result(item)
    given = static_text(facts.params, 30)
    parts = [f"{name} = " if name else "", facts.op, f"({given})" if given else "", f" #{facts.position}  "]
    parts.append(", ".join(facts.outputs[:2]))
    if facts.saved:
        parts.append("  saves " + ", ".join(facts.saved))
    if facts.state != "live":
        parts.append(f"  [{facts.state}]")
    return "".join(parts)
