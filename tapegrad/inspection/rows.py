"""One entry of the tape as facts to read, and what entries keep in memory."""

from __future__ import annotations

import pathlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import dtypes, tape
from ..tape import Entry, Value
from .names import Names

STATES = ("live", "retained", "truncated")


@dataclass(frozen=True)
class Row:
    """What is known of one entry."""

    position: int
    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]  # "float32 [3]"
    saved: dict[str, int]  # bytes per saved array
    params: dict[str, Any]  # static parameters
    module: str
    file: str
    line: int
    text: str  # the source line
    state: str

    @property
    def nbytes(self) -> int:
        """Bytes of all saved arrays."""
        return sum(self.saved.values())

    @property
    def site(self) -> str:
        """File name, line and source text."""
        place = pathlib.PurePath(tape.shown_file(self.file)).name + (f":{self.line}" if self.line else "")
        return place + (f": {self.text}" if self.text else "")


def row(entry: Entry, names: Names) -> Row:
    """The facts about an entry."""
    place, _, text = entry.site.partition(": ")
    file, line = tape.site_line((entry.code, entry.lasti))
    return Row(
        position=entry.position,
        op=entry.op.name,
        inputs=tuple(source(entry, j, names) for j in range(len(entry.edges))),
        outputs=tuple(kind(shape, d) for shape, d in entry.meta),
        saved={name: array.nbytes for name, array in tape.saved_arrays(entry)},
        params=static(entry),
        module=names.module(entry),
        file=file if line else place,
        line=line,
        text=text,
        state=state(entry),
    )


def hooks_on(item: Entry | Value) -> int:
    """How many hooks of a user an entry and its results, or a leaf, have."""
    extra: Any = item.extra if isinstance(item, Entry) else item._extra
    if extra is None:
        return 0
    if isinstance(item, Entry):
        tables = [extra.pre, extra.post, *extra.outputs.values()]
    else:
        tables = [extra.hooks or {}, extra.post_hooks or {}]
    return sum(not getattr(hook, "watches", False) for hooks in tables for hook in hooks.values())


def hooks_text(count: int) -> list[str]:
    """A line about hooks, if there are any."""
    return [f"{count} hook{'s' if count > 1 else ''}"] if count else []


def sites(entries: Iterable[Entry]) -> dict[Entry, str]:
    """The user's file and line per entry, each line looked up once."""
    known: dict[tuple[Any, int], str] = {}
    found = {}
    for entry in entries:
        place = entry.code, entry.lasti
        if place not in known:
            known[place] = entry.site
        found[entry] = known[place]
    return found


def state(entry: Entry) -> str:
    """One of STATES: "retained" if a backward with retain_graph=True left the saved arrays in place."""
    return "truncated" if entry.truncated else "retained" if entry.retained else "live"


def kind(shape: tuple[int, ...], dtype: np.dtype) -> str:
    """ "float32 [2, 3]"."""
    return f"{dtypes.BY_NUM[dtype.num].name} {list(shape)}"


def source(entry: Entry, j: int, names: Names) -> str:
    """Where an input came from: an entry's number, a leaf's name, or a constant."""
    edge = entry.edges[j]
    if isinstance(edge, Value):
        return names.leaf(edge) or "leaf"
    if edge is not None:
        return f"#{edge.position}" + (f".{entry.indices[j]}" if edge.several is not None else "")
    array = saved_input(entry, j)
    name = "" if array is None else names.array(array)
    return f"const {name}" if name else "const"


def saved_input(entry: Entry, j: int) -> np.ndarray | None:
    """The array of an input, if the entry saved it."""
    inputs, slots = getattr(entry.op, "inputs", ()), entry.op.slots
    if entry.truncated or j >= len(inputs) or inputs[j] not in slots:
        return None
    at = slots.index(inputs[j])
    item = entry.saved[at] if at < len(entry.saved) else None
    return item if isinstance(item, np.ndarray) else None


def static(entry: Entry) -> dict[str, Any]:
    """Static parameters and saved numbers, without those that are None."""
    params = entry.params if isinstance(entry.params, dict) else {}
    found = {k: v for k, v in params.items() if v is not None and k not in ("ctx", "tensors", "steps")}
    if found.get("shape") == entry.shape:
        del found["shape"]  # the output's column says it
    if not entry.truncated:
        slots = zip(entry.op.slots, entry.saved, strict=False)
        found |= {name: item for name, item in slots if isinstance(item, (int, float))}
    return found


def static_text(params: dict[str, Any], limit: int = 48) -> str:
    """Static parameters in parentheses, cut if they are long."""
    parts = []
    for name, value in params.items():
        if isinstance(value, np.dtype):
            continue
        text = f"array {list(value.shape)}" if isinstance(value, np.ndarray) else repr(value)
        parts.append(f"{name}={text}")
    text = ", ".join(parts)
    return text if len(text) <= limit else text[: limit - 3] + "..."


def saved_bytes(entries: Iterable[Entry]) -> int:
    """Bytes of saved arrays, each memory counted once; an expanded array counts as the memory behind it."""
    found: dict[int, int] = {}
    for entry in entries:
        for _, array in tape.saved_arrays(entry):
            behind = array.nbytes
            if array.base is not None and 0 in array.strides:
                behind = min(behind, getattr(array.base, "nbytes", behind))
            start = array.__array_interface__["data"][0]
            found[start] = max(found.get(start, 0), behind)
    return sum(found.values())


def table(rows: Iterable[tuple[str, ...]], right: tuple[int, ...] = (0,)) -> list[str]:
    """Aligned lines; the columns in ``right`` are aligned to the right."""
    rows = list(rows)
    widths = [max(len(r[j]) for r in rows) for j in range(len(rows[0]))]
    return [
        "  ".join(
            cell.rjust(w) if j in right else cell.ljust(w)
            for j, (cell, w) in enumerate(zip(r, widths, strict=True))
        ).rstrip()
        for r in rows
    ]
