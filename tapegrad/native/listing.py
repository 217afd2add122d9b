"""The native tape: the steps of a program as something to read and to look at."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..inspection import drawing, pages
from ..inspection.listing import MOST_ROWS, with_gap
from ..inspection.rows import table
from .graph import clipped, graph_of, line_of, title
from .labels import Labels, backward_labels, labels_of
from .program import Program
from .steps import Ref, Step


class NativeTape(Sequence[Step]):
    """The steps of a program in order: a table, and a picture.

    ``backward`` has the steps that go back through the results if they are differentiated outside of the function, else it is
    None; ``recorded`` those that the function was recorded as, before any pass.
    """

    def __init__(
        self,
        steps: Sequence[Step],
        labels: Labels,
        program: Program | None,
        recorded: Sequence[Step] = (),
        backward: NativeTape | None = None,
    ) -> None:
        self._steps = steps
        self._labels = labels
        self._recorded = recorded
        self.program = program
        self.backward = backward

    @property
    def recorded(self) -> NativeTape:
        """The same before the passes."""
        return NativeTape(self._recorded, self._labels, None, self._recorded)

    def __len__(self) -> int:
        return len(self._steps)

    def __getitem__(self, at: Any) -> Any:
        return self._steps[at]

    def __repr__(self) -> str:
        return "\n".join([*with_gap(table(self._cells()), len(self)), self._totals()])

    def _repr_html_(self) -> str:
        cells = self._cells()
        return pages.listing(cells, self._totals(), len(self) - len(cells) + 1)

    def _cells(self) -> list[tuple[str, ...]]:
        """Head and rows of the table, without those in the middle of many."""
        rows = list(enumerate(self._steps))
        if len(rows) > MOST_ROWS:
            rows = rows[: MOST_ROWS // 2] + rows[-(MOST_ROWS // 2) :]
        return [("#", "kind", "step", "reads", "writes", "line"), *(self._row(at, step) for at, step in rows)]

    def _row(self, at: int, step: Step) -> tuple[str, ...]:
        reads, writes = map(self._described, (step.reads(), step.writes()))
        return str(at), step.kind, title(step), reads, writes, line_of(step.where)

    def _described(self, refs: Any) -> str:
        found: dict[str, Ref] = {self._labels.text(r): r for r in refs}
        return clipped(", ".join(found))

    def _totals(self) -> str:
        count = len(self)
        text = f"{count:,} step{'s' * (count != 1)}"
        return (
            f"{text}, as recorded"
            if self.program is None
            else f"{text}, arena of {self.program.arena_size:,} bytes"
        )

    # -- as a picture -----------------------------------------------------------------------------

    def draw(self, *, fold: int = 300) -> drawing.Drawing:
        """The program as an SVG picture: kernels, fused loops with their formulas, calls of Python, and the arrays between them.

        ``@64`` is a place in the arena. More than ``fold`` steps are put together by line and step, or coarser.
        """
        graph = graph_of(self._steps, self._labels, self.program, fold)
        by = f", put together by {graph.folded}" if graph.folded else ""
        return drawing.drawn(graph, self._totals() + by)

    def _repr_svg_(self) -> str | None:
        return self.draw().svg if self._steps else None

    def to_dot(self, *, fold: int = 300) -> str:
        """The program in the language of Graphviz."""
        return drawing.dot(graph_of(self._steps, self._labels, self.program, fold))


def tape_of(function: Any, key: Any, recording: Any) -> NativeTape:
    """The native tape of a recording that has been lowered."""
    labels = labels_of(function, key, recording)
    program, outer, backward = recording.program, recording.outer, None
    if outer.outputs and not outer.truncated:
        names = backward_labels(function, key, recording, labels)
        backward = NativeTape(outer.program.steps, names, outer.program, outer.steps)
    return NativeTape(program.steps, labels, program, recording.recorder.steps, backward)
