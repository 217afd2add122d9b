"""The player: a page without network or server that steps through the recording and the reverse replay.

What happens in each step is worked out here and put into the page; ``player.js`` only shows it.
"""

from __future__ import annotations

import json
import pathlib
from collections.abc import Sequence
from typing import Any

from .. import tape
from ..tape import Entry
from . import drawing
from .graph import graph_of
from .names import Names
from .pages import escape
from .rows import hooks_on, row, saved_bytes, static_text
from .trace import Step, trace
from .values import computed_again, known_values, shown

FOLDER = pathlib.Path(__file__).parent
MOST = 2000
FOLD = 300


class Player:
    """The page: shown by Jupyter, written to a file by ``save``."""

    def __init__(self, page: str, steps: list[dict[str, Any]]) -> None:
        self.html = page
        self.steps = steps

    def save(self, path: Any) -> None:
        """Write the page to a file that any browser opens."""
        pathlib.Path(path).write_text(self.html, encoding="utf-8")

    def _repr_html_(self) -> str:
        return (
            f'<iframe srcdoc="{escape(self.html)}" style="width:100%;height:640px;border:1px solid #8888;'
            'border-radius:6px" sandbox="allow-scripts"></iframe>'
        )

    def __repr__(self) -> str:
        return f"<Player: {len(self.steps)} steps; .save('tape.html') writes a page that any browser opens>"


def play(entries: Sequence[Entry], names: Names, root: Any) -> Player:
    """The player of a tensor's tape. A released tape is played as far as its recording."""
    if len(entries) > MOST:
        raise RuntimeError(
            f"play() shows at most {MOST:,} entries, this tape has {len(entries):,}; play a smaller batch or model"
        )
    if root is None:
        raise RuntimeError(
            "this listing does not belong to one tensor, so there is no replay to be played: use tensor.tape().play()"
        )
    released = next((e for e in entries if e.truncated), None)
    turns = trace(entries, root) if released is None else []
    graph = graph_of(entries, names, root, FOLD)
    picture = drawing.Picture(graph, drawing.arrange(graph), drawing.caption(entries, graph), both_ends=True)
    boxes = {position: j for j, box in enumerate(graph.boxes) for position in box.entries}
    arrows = {use: j for j, arrow in enumerate(graph.arrows) for use in arrow.uses}
    steps = [_start(entries), *_recording(entries, names, boxes, arrows)]
    if released is None:
        steps += _replay(turns, names, boxes, arrows, root)
    else:
        where = tape.describe_site(released.saved.where)
        steps.append(
            {"phase": "end", "title": "Released", "text": f"The saved arrays were released by the backward at {where}. "
             "Play the tape before backward, or use retain_graph=True there, to see the replay."}
        )  # fmt: skip
    users: dict[int, list[int]] = {}  # boxes that are no entries come with the first entry that uses them
    for arrow in graph.arrows:
        users.setdefault(arrow.tail, []).append(arrow.head)
    first = {j: min(heads) for j, heads in users.items() if not graph.boxes[j].entries}
    data = {"steps": steps, "entries": boxes, "sources": first, "arrows": len(graph.arrows)}
    return Player(_page(picture.text(), data), steps)


def _start(entries: Sequence[Entry]) -> dict[str, Any]:
    return {
        "phase": "start",
        "title": "Before the first operation",
        "text": f"{len(entries)} entries will be recorded as the code runs, then replayed from the last to the first.",
    }


def _recording(
    entries: Sequence[Entry], names: Names, boxes: dict[int, int], arrows: dict[tuple[int, int], int]
) -> list[dict[str, Any]]:
    kept = known_values(entries)
    again = computed_again(entries, kept)
    steps = []
    for entry in entries:
        facts = row(entry, names)
        given = static_text(facts.params)
        outputs = []
        for index, text in enumerate(facts.outputs):
            key = (entry.position, index)
            name = names.result(entry, index) or (f"output {index}" if len(facts.outputs) > 1 else "result")
            if key in kept:
                outputs.append({"name": name, **shown(kept[key])})
            elif key in again:
                outputs.append(
                    {
                        "name": name,
                        **shown(again[key]),
                        "note": "computed again, since the tape does not keep it",
                    }
                )
            else:
                outputs.append({"name": name, "kind": text, "note": "not kept: no rule needs it"})
        steps.append(
            {
                "phase": "record",
                "entry": entry.position,
                "box": boxes[entry.position],
                "lines": [arrows[e, j] for e, j in _uses(entry) if (e, j) in arrows],
                "title": f"recording #{entry.position}: {facts.op}" + (f"({given})" if given else ""),
                "where": facts.site,
                "module": facts.module,
                "inputs": list(facts.inputs),
                "outputs": outputs,
                "saved": [{"name": name, **shown(array)} for name, array in tape.saved_arrays(entry)],
                "rule": entry.rule,
                "bytes": saved_bytes([entry]),
            }
        )
    return steps


def _uses(entry: Entry) -> list[tuple[int, int]]:
    return [(entry.position, j) for j in range(len(entry.edges))]


def _replay(
    turns: list[Step], names: Names, boxes: dict[int, int], arrows: dict[tuple[int, int], int], root: Any
) -> list[dict[str, Any]]:
    entry, index = root
    name = names.result(entry, index) or "the result"
    steps: list[dict[str, Any]] = [
        {
            "phase": "seed",
            "box": boxes[entry.position],
            "title": "backward() begins",
            "text": f"The cotangent of {name} is 1: how {name} changes if {name} changes.",
        }
    ]
    for turn in turns:
        e = turn.entry
        facts = row(e, names)
        arriving = [
            {"name": "g" if len(turn.arriving) == 1 else f"g of output {j}", **shown(g)}
            for j, g in enumerate(turn.arriving)
            if g is not None
        ]
        leaving = [
            {"name": f"to {facts.inputs[j]}", **shown(g)} for j, g in enumerate(turn.leaving) if g is not None
        ]
        freed = list(facts.saved)
        steps.append(
            {
                "phase": "replay",
                "entry": e.position,
                "box": boxes[e.position],
                "lines": [
                    arrows[e.position, j]
                    for j, g in enumerate(turn.leaving)
                    if g is not None and (e.position, j) in arrows
                ],
                "title": f"replaying #{e.position}: {facts.op}",
                "where": facts.site,
                "module": facts.module,
                "arriving": arriving,
                "leaving": leaving,
                "freed": freed,
                "delivered": [
                    {"name": f"{names.leaf(leaf) or 'leaf'}.grad", **shown(g)} for leaf, g in turn.delivered
                ],
                "rule": e.rule,
                "hooks": hooks_on(e),
                "bytes": saved_bytes([e]),
            }
        )
    steps.append(
        {
            "phase": "end",
            "title": "The end of the replay",
            "text": "Every leaf has its gradient. The entries are still there, but what they saved is released.",
        }
    )
    return steps


def _page(svg: str, data: dict[str, Any]) -> str:
    page = (FOLDER / "player.html").read_text(encoding="utf-8")
    script = (FOLDER / "player.js").read_text(encoding="utf-8")
    # "</" must not occur inside a script element.
    text = json.dumps(data, separators=(",", ":")).replace("</", "<\\/")
    return page.replace("/*SCRIPT*/", script).replace("/*DATA*/", text).replace("<!--SVG-->", svg)
