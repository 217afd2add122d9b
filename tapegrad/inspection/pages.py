"""What Jupyter shows: listings, tensors with their graph, and modules as a tree."""

from __future__ import annotations

from typing import Any

_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#x27;"})


def escape(text: str) -> str:
    """Text as it is written in HTML and SVG. (The standard library's html takes milliseconds to import.)"""
    return text.translate(_ESCAPES)


CELL = "padding:1px 10px 1px 0;text-align:left;white-space:pre;font-family:monospace"


def listing(cells: list[tuple[str, ...]], totals: str, left_out: int) -> str:
    """A table with a head and a line of totals; ``left_out`` rows are missing in its middle."""
    head = "".join(f'<th style="{CELL}">{escape(c)}</th>' for c in cells[0])
    rows = ["".join(f'<td style="{CELL}">{escape(c)}</td>' for c in line) for line in cells[1:]]
    if left_out:
        rows.insert(
            len(rows) // 2, f'<td colspan="{len(cells[0])}" style="{CELL}">... {left_out:,} more ...</td>'
        )
    body = "".join(f"<tr>{line}</tr>" for line in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table><div>{escape(totals)}</div>"


def tensor(text: str, totals: str, svg: str | None) -> str:
    """A tensor's printed form, with its graph to be unfolded."""
    graph = "<code>.tape().draw()</code> draws it" if svg is None else svg
    return (
        f"<pre>{escape(text)}</pre><details><summary>graph: {escape(totals)}</summary>"
        f'<div style="overflow:auto;max-height:600px">{graph}</div></details>'
    )


def module(root: Any) -> str:
    """A module as a tree with the number of its parameters, trained and frozen, and the shapes of its own."""
    total = sum(p.numel() for p in root.parameters())
    trained = sum(p.numel() for p in root.parameters() if p.requires_grad)
    frozen = f", {total - trained:,} of them frozen" if trained != total else ""
    return f"<div>{_branch('', root, True)}<div>{total:,} parameters{frozen}</div></div>"


def _branch(name: str, part: Any, opened: bool) -> str:
    own = [
        f"{n} {list(p.shape)}" + ("" if p.requires_grad else " frozen")
        for n, p in part.named_parameters(recurse=False)
    ]
    own += [f"{n} {list(b.shape)} buffer" for n, b in part.named_buffers(recurse=False)]
    label = f"<b>{escape(name)}</b> " if name else ""
    title = f"{label}{escape(part._get_name())}({escape(part.extra_repr())})"
    if own:
        title += f' <span style="opacity:.65">{escape(", ".join(own))}</span>'
    children = list(part.named_children())
    if not children:
        return f'<div style="font-family:monospace;margin-left:1.2em">{title}</div>'
    inner = "".join(_branch(n, child, len(children) <= 12) for n, child in children)
    state = ' open=""' if opened else ""
    return f'<details{state} style="font-family:monospace;margin-left:1.2em"><summary>{title}</summary>{inner}</details>'
