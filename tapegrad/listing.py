"""The tape as something to read: a sequence of entries that prints as a table.

::

    >>> loss.tape()
      #  op     inputs       output        saved          line
      0  mul    leaf, leaf   float32 [3]   self, other    demo.py:5: y = w * x
      1  sum    #0           float32 []    -              demo.py:6: loss = y.sum()
    2 entries, 24 bytes saved
"""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, overload

from . import dtypes, tape
from .tape import Entry, Truncated, Value


class Tape(Sequence[Entry]):
    """Entries in recorded order, with tables and totals."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        self._entries = list(entries)

    def __len__(self) -> int:
        return len(self._entries)

    @overload
    def __getitem__(self, key: int) -> Entry: ...

    @overload
    def __getitem__(self, key: slice) -> Tape: ...

    def __getitem__(self, key: Any) -> Any:
        return Tape(self._entries[key]) if isinstance(key, slice) else self._entries[key]

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries)

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays that these entries keep alive, each array counted once."""
        return sum(_arrays(self._entries).values())

    def filter(
        self,
        op: str | None = None,
        line: str | None = None,
        nbytes: int = 0,
        where: Callable[[Entry], bool] | None = None,
    ) -> Tape:
        """The entries of an op, recorded on a line (part of "file.py:12: text"), saving at least ``nbytes``."""
        return Tape(
            e
            for e in self._entries
            if (op is None or e.op.name == op)
            and (line is None or line in e.site)
            and sum(_arrays([e]).values()) >= nbytes
            and (where is None or where(e))
        )

    def summary(self, by: str = "op") -> dict[str, tuple[int, int]]:
        """Number of entries and saved bytes by "op" or by "line", largest first."""
        if by not in ("op", "line"):
            raise ValueError(f"summary(by={by!r}): choose 'op' or 'line'")
        groups: dict[str, list[Entry]] = {}
        for e in self._entries:
            groups.setdefault(e.op.name if by == "op" else e.site, []).append(e)
        totals = {key: (len(found), sum(_arrays(found).values())) for key, found in groups.items()}
        return dict(sorted(totals.items(), key=lambda item: (-item[1][1], -item[1][0])))

    def diff(self, earlier: Tape) -> Tape:
        """The entries that were not in an earlier listing."""
        before = set(earlier)
        return Tape(e for e in self._entries if e not in before)

    def __repr__(self) -> str:
        head = ("#", "op", "inputs", "output", "saved", "state", "line")
        rows = [head, *(_row(e) for e in self._entries)]
        if all(r[5] == "live" for r in rows[1:]):
            rows = [r[:5] + r[6:] for r in rows]
        widths = [max(len(r[j]) for r in rows) for j in range(len(rows[0]))]
        lines = [
            "  ".join(
                cell.rjust(w) if j == 0 else cell.ljust(w)
                for j, (cell, w) in enumerate(zip(r, widths, strict=True))
            ).rstrip()
            for r in rows
        ]
        count = len(self._entries)
        return "\n".join(
            [*lines, f"{count} {'entry' if count == 1 else 'entries'}, {self.nbytes:,} bytes saved"]
        )


def _arrays(entries: Iterable[Entry]) -> dict[int, int]:
    """Bytes of saved arrays by the address of their memory."""
    found: dict[int, int] = {}
    for e in entries:
        for _, array in tape.saved_arrays(e):
            base: Any = array
            while getattr(base, "base", None) is not None and hasattr(base.base, "nbytes"):
                base = base.base
            found[id(base)] = int(base.nbytes)
    return found


def _row(e: Entry) -> tuple[str, ...]:
    inputs = ", ".join(_source(edge, index) for edge, index in zip(e.edges, e.indices, strict=True))
    outputs = ", ".join(f"{dtypes.BY_NUM[d.num].name} {list(shape)}" for shape, d in e.meta[:2])
    if len(e.meta) > 2:
        outputs += f", ... ({len(e.meta)})"
    saved = ", ".join(name for name, _ in tape.saved_arrays(e)) or "-"
    state = "truncated" if type(e.saved) is Truncated else "live"
    return str(e.position), e.op.name, inputs, outputs, saved, state, _short(e.site)


def _source(edge: Any, index: int) -> str:
    if edge is None:
        return "const"
    if isinstance(edge, Value):
        return "leaf"
    return f"#{edge.position}" + (f".{index}" if len(edge.meta) > 1 else "")


def _short(site: str) -> str:
    """A site with the file's name instead of its path."""
    path, colon, rest = site.partition(":")
    return pathlib.PurePath(path).name + colon + rest


def live_tape() -> Tape:
    """Every entry that is alive in this process: for finding what keeps memory."""
    return Tape(tape.live_entries())
