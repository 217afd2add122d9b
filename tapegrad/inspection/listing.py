"""The tape as something to read and to ask: a sequence of entries that prints as a table.

::

    >>> loss.tape()
    #  op   inputs      output       saved  bytes  line
    0  mul  w, const x  float32 [3]  other     12  demo.py:5: y = w * x
    1  sum  #0          float32 []   -          0  demo.py:6: loss = y.sum()
    2 entries, 12 bytes saved
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, overload

from .. import tape
from ..tape import Entry, Value
from . import drawing, pages, player, sketch
from .graph import graph_of
from .names import Names, visible
from .rows import STATES, Row, row, saved_bytes, sites, static_text, table
from .rows import state as state_of
from .trace import norm

MOST_ROWS = 200  # of a printed table
BY = ("op", "module", "line", "state")


class Tape(Sequence[Entry]):
    """Entries in recorded order: a table with totals, questions, and pictures.

    A listing holds its entries, and with them what they saved. ``moment()`` does not.
    """

    def __init__(self, entries: Iterable[Entry], names: Names | None = None, root: Any = None) -> None:
        self._entries = list(entries)
        self._names = Names(self._entries, {}) if names is None else names
        self._root = root  # (entry, output) of the tensor that was asked, if one was
        self.gone = 0  # of a diff: how many entries are no longer there
        self._norms: dict[tuple[int, int], float] = {}  # of what a watched backward sent

    def __len__(self) -> int:
        return len(self._entries)

    @overload
    def __getitem__(self, key: int) -> Entry: ...

    @overload
    def __getitem__(self, key: slice) -> Tape: ...

    def __getitem__(self, key: Any) -> Any:
        return self._part(self._entries[key]) if isinstance(key, slice) else self._entries[key]

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries)

    def _part(self, entries: Iterable[Entry]) -> Tape:
        return Tape(entries, self._names)

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays that these entries keep alive, each array counted once."""
        return saved_bytes(self._entries)

    def rows(self) -> list[Row]:
        """The facts about each entry: op, inputs, outputs, saved bytes by name, parameters, module, file, line, state."""
        return [row(e, self._names) for e in self._entries]

    # -- questions --------------------------------------------------------------------------------

    def filter(
        self,
        op: str | None = None,
        line: str | None = None,
        nbytes: int = 0,
        where: Callable[[Entry], bool] | None = None,
        *,
        module: str | None = None,
        state: str | None = None,
    ) -> Tape:
        """The entries of an op, of a module (its path, parts of it included), recorded on a line (a part of
        "file.py:12: text"), saving at least ``nbytes``, in a state ("live", "retained" or "truncated")."""
        if state is not None and state not in STATES:
            raise ValueError(f"filter(state={state!r}): choose one of {', '.join(map(repr, STATES))}")
        site = {} if line is None else sites(self._entries)
        return self._part(
            e
            for e in self._entries
            if (op is None or e.op.name == op)
            and (line is None or line in site[e])
            and (module is None or self._inside(e, module))
            and (state is None or state_of(e) == state)
            and (not nbytes or saved_bytes([e]) >= nbytes)
            and (where is None or where(e))
        )

    def _inside(self, entry: Entry, module: str) -> bool:
        return any(p == module or p.startswith(module + ".") for p in self._names.module_path(entry))

    def summary(self, by: str = "op") -> Summary:
        """Number of entries and saved bytes by "op", "module", "line" or "state", largest first."""
        if by not in BY:
            raise ValueError(f"summary(by={by!r}): choose one of {', '.join(map(repr, BY))}")
        site = sites(self._entries) if by == "line" else {}
        keys: dict[str, Callable[[Entry], str]] = {
            "op": lambda e: str(e.op.name),
            "module": lambda e: self._names.module(e) or "(no module noted)",
            "line": site.__getitem__,
            "state": state_of,
        }
        groups: dict[str, list[Entry]] = {}
        for e in self._entries:
            groups.setdefault(keys[by](e), []).append(e)
        totals = {key: (len(found), saved_bytes(found)) for key, found in groups.items()}
        return Summary(by, dict(sorted(totals.items(), key=lambda item: (-item[1][1], -item[1][0]))))

    def moment(self) -> frozenset[int]:
        """The positions of these entries, to be compared with later by ``diff``; keeps nothing alive."""
        return frozenset(e.position for e in self._entries)

    def diff(self, earlier: Tape | frozenset[int]) -> Tape:
        """The entries that were not there at an earlier listing or moment; ``.gone`` counts those that left."""
        before = earlier.moment() if isinstance(earlier, Tape) else earlier
        found = self._part(e for e in self._entries if e.position not in before)
        found.gone = len(before - self.moment())
        return found

    # -- as text ----------------------------------------------------------------------------------

    def __repr__(self) -> str:
        lines = table(self._cells(MOST_ROWS))
        return "\n".join([*with_gap(lines, len(self._entries)), self._totals()])

    def _cells(self, most: int) -> list[tuple[str, ...]]:
        """Head and rows of the table; columns in which nothing is said are left out, and rows in the middle of many."""
        entries = self._entries
        if len(entries) > most:
            entries = entries[: most // 2] + entries[-(most // 2) :]
        rows = [row(e, self._names) for e in entries]
        head = ["#", "op", "inputs", "output", "saved", "state", "module", "line"]
        cells = [
            [
                str(r.position),
                r.op + (f"({given})" if (given := static_text(r.params, 40)) else ""),
                ", ".join(r.inputs)
                if len(r.inputs) < 7
                else ", ".join(r.inputs[:5]) + f", ... ({len(r.inputs)})",
                ", ".join(r.outputs[:2]) + (f", ... ({len(r.outputs)})" if len(r.outputs) > 2 else ""),
                ", ".join(f"{name} {size:,} B" for name, size in r.saved.items()) or "-",
                r.state,
                r.module,
                r.site,
            ]
            for r in rows
        ]
        quiet = {5} if all(r.state == "live" for r in rows) else set()
        quiet |= {6} if not any(r.module for r in rows) else set()
        return [tuple(c for j, c in enumerate(line) if j not in quiet) for line in [head, *cells]]

    def _totals(self) -> str:
        count = len(self._entries)
        gone = f", {self.gone} gone" if self.gone else ""
        return f"{count} {'entry' if count == 1 else 'entries'}, {self.nbytes:,} bytes saved{gone}"

    def _repr_html_(self) -> str:
        cells = self._cells(MOST_ROWS)
        return pages.listing(cells, self._totals(), len(self._entries) - len(cells) + 1)

    # -- as a picture -----------------------------------------------------------------------------

    def draw(self, *, fold: int = 300, gradients: bool = False) -> drawing.Drawing:
        """The graph as an SVG picture, with leaves, names, states and cuts; no other program is needed.

        More than ``fold`` entries are drawn as boxes per module (see ``record_modules``), or per line. ``gradients`` runs the
        rules backwards from the tensor that was asked, without touching any ``.grad``, and writes the norms on the edges.
        """
        return drawing.draw(self._entries, self._names, self._root, fold, gradients or self._norms)

    def watch(self) -> Tape:
        """Note the norms of the gradients that coming replays send along these entries, for ``draw()``; returns the listing.

        A hook on each entry does it, so the watched replays take longer.
        """
        for entry in self._entries:
            entry.register_hook(_noter(self._norms, entry.position))
        return self

    def _repr_svg_(self) -> str | None:
        return self.draw().svg if self._entries else None

    def to_dot(self, *, fold: int = 300) -> str:
        """The graph in the language of Graphviz."""
        return drawing.dot(graph_of(self._entries, self._names, self._root, fold))

    def sketch(self) -> sketch.Sketch:
        """The graph drawn with characters, for a terminal: newest entry first."""
        return sketch.sketch(self._entries, self._names)

    def play(self, path: Any = None) -> player.Player:
        """A page that steps through the recording and the reverse replay; ``path`` also writes it to a file.

        The rules are run once, without hooks, and no ``.grad`` is touched. RuntimeError for a tape without a tensor that was asked.
        """
        made = player.play(self._entries, self._names, self._root)
        if path is not None:
            made.save(path)
        return made


def with_gap(lines: list[str], count: int) -> list[str]:
    """The lines of a table, with a word in the middle about the rows that were left out."""
    left_out = count - len(lines) + 1
    middle = len(lines) // 2 + 1
    return [*lines[:middle], f"... {left_out:,} more ...", *lines[middle:]] if left_out else lines


def _noter(norms: dict[tuple[int, int], float], position: int) -> Callable[..., None]:
    def note(grad_inputs: tuple[Any, ...], grad_outputs: tuple[Any, ...]) -> None:
        for j, g in enumerate(grad_inputs):
            if g is not None:
                norms[position, j] = norm(g._array)

    note.watches = True  # type: ignore[attr-defined]  # not one of the user's hooks, see rows.hooks_on
    return note


class Summary(dict[str, tuple[int, int]]):
    """Entries and saved bytes per group; prints as a table."""

    def __init__(self, by: str, totals: dict[str, tuple[int, int]]) -> None:
        super().__init__(totals)
        self.by = by

    def __repr__(self) -> str:
        rows = [(self.by, "entries", "bytes saved")]
        rows += [(key, str(count), f"{nbytes:,}") for key, (count, nbytes) in self.items()]
        return "\n".join(table(rows, right=(1, 2)))


def tape_of(value: Value, frame: Any) -> Tape:
    """What a tensor depends on, with the names that a frame's variables give."""
    node = value._source()
    entries = tape.reachable([node])
    root = (node, value._index) if type(node) is Entry else None
    return Tape(entries, Names(entries, visible(frame)), root)


MOST_SHOWN = 60  # entries of a tensor that Jupyter shows with its graph


def tensor_html(value: Value) -> str | None:
    """What Jupyter shows of a tensor: its printed form, and its graph to be unfolded if it has one."""
    node = value._source()
    if type(node) is not Entry:
        return None  # the printed form says all
    entries = tape.reachable([node])
    found = Tape(entries, Names(entries, vars(sys.modules["__main__"])), (node, value._index))
    small = len(entries) <= MOST_SHOWN
    return pages.tensor(repr(value), found._totals(), found.draw().svg if small else None)


def live_tape() -> Tape:
    """Every entry that is alive in this process: for finding what keeps memory."""
    entries = tape.live_entries()
    return Tape(entries, Names(entries, visible(sys._getframe(1))))
