"""The graph as a picture: SVG written here, and the language of Graphviz for those who have it."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..tape import Entry
from .graph import Arrow, Box, Graph, Norms, graph_of
from .layout import Layout, Placed, layout
from .names import Names
from .pages import escape
from .rows import saved_bytes
from .trace import norms_of

FONT = 12.0
CHAR = 0.602 * FONT  # advance of a monospaced font, so that widths are known without one
LINE = 15.0
PAD = 9.0
MARGIN = 14.0
SMALL = 0.85  # of labels and legend
ROUND = (
    "leaf",
    "parameter",
    "const",
    "argument",
    "state",
    "result",
)  # what is there before or after, and does nothing

STYLE = """\
.tg{--paper:#fff;--ink:#1b1f24;--soft:#59636e;--line:#8b949e;--op:#eef2f7;--opline:#7d8ea3;--leaf:#dff3e3;--leafline:#2f8f46;
--par:#dbeafe;--parline:#2563eb;--const:#fff;--gone:#ececec;--goneline:#b5b5b5;--goneink:#8a8a8a;--keep:#ffedd1;--keepline:#d97706;
--cut:#d1242f;--out:#f3e8ff;--outline:#8250df}
@media(prefers-color-scheme:dark){.tg{--paper:#15191f;--ink:#e6edf3;--soft:#9aa6b2;--line:#6e7a87;--op:#232b35;--opline:#5d7189;
--leaf:#12361f;--leafline:#3fb950;--par:#13294b;--parline:#5b9bff;--const:#15191f;--gone:#1e2228;--goneline:#3d444d;--goneink:#7b848e;
--keep:#46310b;--keepline:#f0a030;--cut:#ff6b6b;--out:#2d1f47;--outline:#b083f0}}
.tg text{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono","Liberation Mono",monospace;font-size:12px;fill:var(--ink)}
.tg .paper{fill:var(--paper)}
.tg .soft,.tg .num{fill:var(--soft)}.tg .num,.tg .label,.tg .legend{font-size:10.2px}
.tg .title{font-weight:700}
.tg .box rect{fill:var(--op);stroke:var(--opline);stroke-width:1.2}
.tg .group rect{fill:var(--op);stroke:var(--opline);stroke-width:2.4}
.tg .leaf rect{fill:var(--leaf);stroke:var(--leafline)}.tg .parameter rect{fill:var(--par);stroke:var(--parline)}
.tg .const rect{fill:var(--const);stroke:var(--line);stroke-dasharray:4 3}
.tg .argument rect{fill:var(--leaf);stroke:var(--leafline)}.tg .state rect{fill:var(--const);stroke:var(--line)}
.tg .result rect{fill:var(--out);stroke:var(--outline)}.tg .fused rect{fill:var(--op);stroke:var(--parline);stroke-width:2.4}
.tg .host rect{fill:var(--keep);stroke:var(--keepline);stroke-width:2}
.tg .output rect{fill:var(--out);stroke:var(--outline);stroke-width:2.4}
.tg .retained rect{fill:var(--keep);stroke:var(--keepline);stroke-width:2}
.tg .truncated rect{fill:var(--gone);stroke:var(--goneline);stroke-dasharray:5 3}.tg .truncated text{fill:var(--goneink)}
.tg .outside rect{fill:var(--gone);stroke:var(--goneline);stroke-dasharray:5 3}.tg .cut rect{fill:var(--gone);stroke:var(--cut);stroke-dasharray:5 3}
.tg path{fill:none;stroke:var(--line);stroke-width:1.3}.tg .tip{fill:var(--line);stroke:none}
.tg .cutline path{stroke:var(--cut);stroke-dasharray:6 4}.tg .cutline .tip{fill:var(--cut)}.tg .cutline text{fill:var(--cut);font-weight:700}
.tg .back path{stroke-dasharray:2 3}
"""


class Drawing:
    """A picture of the tape: shown by Jupyter, written to a file by ``save``."""

    def __init__(self, svg: str, graph: Graph, places: Layout) -> None:
        self.svg = svg
        self.graph = graph
        self.layout = places

    def _repr_svg_(self) -> str:
        return self.svg

    def save(self, path: Any) -> None:
        """Write the SVG text to a file."""
        pathlib.Path(path).write_text(self.svg, encoding="utf-8")

    def __repr__(self) -> str:
        return (
            f"<Drawing: {len(self.graph.boxes)} boxes, {len(self.graph.arrows)} arrows; .save('tape.svg') writes it, "
            ".svg is its text>"
        )


def draw(entries: Sequence[Entry], names: Names, root: Any, fold: int, gradients: bool | Norms) -> Drawing:
    """The picture of a listing."""
    norms = norms_of(entries, root) if gradients is True else gradients or None
    graph = graph_of(entries, names, root, fold, norms)
    return drawn(graph, caption(entries, graph))


def drawn(graph: Graph, caption: str) -> Drawing:
    """The picture of a graph, with a line of text above it."""
    places = arrange(graph)
    return Drawing(Picture(graph, places, caption).text(), graph, places)


def caption(entries: Sequence[Entry], graph: Graph) -> str:
    """How many entries a drawing shows, what they keep, and by what they were put together."""
    count = len(entries)
    text = f"{count:,} {'entry' if count == 1 else 'entries'}, {saved_bytes(entries):,} bytes saved"
    return f"{text}, put together by {graph.folded}" if graph.folded else text


def arrange(graph: Graph) -> Layout:
    """Places for the boxes and labels of a graph."""
    arrows = [(a.head, a.tail) if a.back else (a.tail, a.head) for a in graph.arrows]
    labels = [label_size(a) for a in graph.arrows]
    order = _consistent([b.order for b in graph.boxes], arrows)
    return layout([box_size(b) for b in graph.boxes], arrows, labels, order)


def _consistent(order: list[float], arrows: list[tuple[int, int]]) -> list[float]:
    """A source that stands before its user in the order of the tape, also where it was made for a later one."""
    fixed = list(order)
    heads = {head for _, head in arrows}
    for tail, head in arrows:
        if tail not in heads and fixed[tail] >= fixed[head]:
            fixed[tail] = fixed[head] - 0.5
    return fixed


def box_size(box: Box) -> tuple[float, float]:
    """Width and height of a box: its longest line, and all its lines."""
    title = len(box.title) * CHAR * 1.04 + (len(box.number) * CHAR * SMALL + 10 if box.number else 0)
    width = max([title, *(len(line) * CHAR for line in box.lines)])
    return width + 2 * PAD, LINE * (1 + len(box.lines)) + PAD


def label_size(arrow: Arrow) -> tuple[float, float] | None:
    """Width and height of an arrow's label."""
    text = label_text(arrow)
    return (len(text) * CHAR * SMALL + 6, LINE) if text else None


def label_text(arrow: Arrow) -> str:
    """What stands at an arrow."""
    return " ".join(filter(None, ["\u2702 cut" if arrow.cut else "", arrow.label]))


@dataclass
class Picture:
    """Writes a placed graph as SVG."""

    graph: Graph
    places: Layout
    caption: str
    both_ends: bool = False  # arrows also get a (hidden) tip at their tail, for whoever runs them backwards

    def text(self) -> str:
        """The SVG element, with an id per box and arrow for whoever wants to point at them."""
        legend = self._legend()
        width = max(self.places.width, len(self.caption) * CHAR, legend[1]) + 2 * MARGIN
        height = self.places.height + 3 * MARGIN + 2 * LINE
        shift = (width - self.places.width) / 2
        parts = [
            (
                f'<svg xmlns="http://www.w3.org/2000/svg" class="tg" width="{width:.0f}" height="{height:.0f}" '
                f'viewBox="0 0 {width:.0f} {height:.0f}" role="img">'
            ),
            f"<title>{escape(self.caption)}</title>",
            f"<style>{STYLE}</style>",
            f'<rect class="paper" width="{width:.0f}" height="{height:.0f}" rx="6"/>',
            f'<text class="soft" x="{MARGIN}" y="{MARGIN + 9}">{escape(self.caption)}</text>',
            legend[0],
            f'<g transform="translate({shift:.1f} {2 * MARGIN + 2 * LINE:.1f})">',
        ]
        for number, (arrow, line) in enumerate(zip(self.graph.arrows, self.places.lines, strict=True)):
            parts.append(_arrow(number, arrow, line, self.places.labels[number], self.both_ends))
        for number, (box, place) in enumerate(zip(self.graph.boxes, self.places.boxes, strict=True)):
            parts.append(_box(number, box, place))
        parts += ["</g>", "</svg>"]
        return "\n".join(parts)

    def _legend(self) -> tuple[str, float]:
        """What the colours that occur mean, and the width of saying so."""
        kinds = {b.kind for b in self.graph.boxes}
        states = {b.state for b in self.graph.boxes if b.kind in ("op", "group")}
        items = [
            (name, text)
            for name, text, there in (
                ("leaf", "leaf", "leaf" in kinds),
                ("argument", "argument", "argument" in kinds),
                ("parameter", "parameter", "parameter" in kinds),
                ("state", "state", "state" in kinds),
                ("const", "constant", "const" in kinds),
                ("fused", "fused loop", "fused" in kinds),
                ("host", "call of Python", "host" in kinds),
                ("result", "result", "result" in kinds),
                ("output", "asked for", any(b.output for b in self.graph.boxes)),
                ("retained", "retained", "retained" in states),
                ("truncated", "released", "truncated" in states),
                ("cut", "cut", any(a.cut for a in self.graph.arrows)),
            )
            if there
        ]
        x, y, parts = MARGIN, MARGIN + LINE + 2.0, []
        for name, text in items:
            parts.append(
                f'<g class="box {name}"><rect x="{x:.1f}" y="{y:.1f}" width="11" height="11" rx="2"/></g>'
                f'<text class="legend soft" x="{x + 15:.1f}" y="{y + 9.5:.1f}">{text}</text>'
            )
            x += 15 + len(text) * CHAR * SMALL + 14
        return "".join(parts), x


def _box(number: int, box: Box, place: Placed) -> str:
    classes = ["box", box.kind]
    if box.output and box.state != "truncated":
        classes.append("output")
    if box.kind in ("op", "group") and box.state != "live":
        classes.append(box.state)
    round_ = place.height / 2 if box.kind in ROUND else 5
    y = place.y + PAD / 2 + 11
    parts = [
        (
            f'<g class="{" ".join(classes)}" id="b{number}"><title>{escape(box.tip)}</title>'
            f'<rect x="{place.x:.1f}" y="{place.y:.1f}" width="{place.width:.1f}" height="{place.height:.1f}" rx="{min(round_, 14):.0f}"/>'
        )
    ]
    if box.number:
        parts.append(f'<text class="title" x="{place.x + PAD:.1f}" y="{y:.1f}">{escape(box.title)}</text>')
        parts.append(
            f'<text class="num" text-anchor="end" x="{place.x + place.width - PAD:.1f}" y="{y:.1f}">{box.number}</text>'
        )
    else:
        parts.append(
            f'<text class="title" text-anchor="middle" x="{place.middle:.1f}" y="{y:.1f}">{escape(box.title)}</text>'
        )
    for line in box.lines:
        y += LINE
        anchor = (
            f'text-anchor="middle" x="{place.middle:.1f}"' if not box.number else f'x="{place.x + PAD:.1f}"'
        )
        parts.append(f'<text {anchor} y="{y:.1f}">{escape(line)}</text>')
    return "".join(parts) + "</g>"


def _arrow(
    number: int, arrow: Arrow, points: list[tuple[float, float]], label: Placed | None, both_ends: bool
) -> str:
    classes = ["arrow"] + (["cutline"] if arrow.cut else []) + (["back"] if arrow.back else [])
    path = f"M{points[0][0]:.1f} {points[0][1]:.1f}"
    for (x0, y0), (x1, y1) in zip(points, points[1:], strict=False):
        if x0 == x1:
            path += f"V{y1:.1f}"
        else:
            bend = (y1 - y0) / 2
            path += f"C{x0:.1f} {y0 + bend:.1f} {x1:.1f} {y1 - bend:.1f} {x1:.1f} {y1:.1f}"
    # A cycle is drawn upside down: its head is at the top.
    (x, y), way = (points[0], 1) if arrow.back else (points[-1], -1)
    tip = f'<path class="tip" d="M{x:.1f} {y:.1f}l-4 {7 * way}h8z"/>'
    if both_ends:
        x, y = points[0]
        tip += f'<path class="tip end" d="M{x:.1f} {y:.1f}l-4 7h8z"/>'
    text = ""
    if label is not None:
        text = (
            f'<rect class="paper" x="{label.x:.1f}" y="{label.y:.1f}" width="{label.width:.1f}" height="{label.height:.1f}"/>'
            f'<text class="label" text-anchor="middle" x="{label.middle:.1f}" y="{label.y + 11:.1f}">{escape(label_text(arrow))}</text>'
        )
    about = f"<title>{escape(arrow.tip)}</title>" if arrow.tip else ""
    return f'<g class="{" ".join(classes)}" id="a{number}">{about}<path d="{path}"/>{tip}{text}</g>'


def dot(graph: Graph) -> str:
    """A graph for Graphviz."""
    colours = {
        "leaf": "#dff3e3", "parameter": "#dbeafe", "const": "#ffffff", "op": "#eef2f7", "group": "#eef2f7", "cut": "#ececec", "outside": "#ececec",
        "argument": "#dff3e3", "state": "#ffffff", "result": "#f3e8ff", "fused": "#dde7f5", "host": "#ffedd1",
    }  # fmt: skip
    lines = [
        "digraph tape {",
        '  node [shape=box, style="rounded,filled", fontname="monospace", fontsize=11];',
    ]
    for number, box in enumerate(graph.boxes):
        text = "\\n".join(_quoted(t) for t in [f"{box.title} {box.number}".strip(), *box.lines])
        style = ', style="rounded,filled,dashed", fontcolor="#8a8a8a"' if box.state == "truncated" else ""
        border = ', color="#d97706", penwidth=2' if box.state == "retained" else ""
        border += ", peripheries=2" if box.output else ""
        lines.append(f'  n{number} [label="{text}", fillcolor="{colours[box.kind]}"{style}{border}];')
    for arrow in graph.arrows:
        style = ' [style=dashed, color="#d1242f", label="cut"]' if arrow.cut else ""
        if arrow.tip:
            style = f' [tooltip="{_quoted(arrow.tip)}"]'
        lines.append(f"  n{arrow.tail} -> n{arrow.head}{style};")
    return "\n".join([*lines, "}"])


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
