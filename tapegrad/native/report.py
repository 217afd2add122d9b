"""What was made of a function: steps after each pass, memory, the kernels with their sources, and how long each takes."""

from __future__ import annotations

import inspect
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .. import kernels
from ..inspection.pages import CELL, escape
from ..inspection.rows import table
from ..kernels import recording as recordings
from .graph import title
from .labels import signature
from .lower import Instruction
from .program import Program, Stretch
from .steps import ARGUMENT, RESULT, STATE, TEMPORARY, Host, Step

ROUNDS = 20
MOST_STEPS = 30  # whose times are listed one by one


def instructions(program: Program) -> Iterator[Instruction]:
    """All instructions, in order; a band is followed by those that take turns in it."""
    for stage in program.stages:
        if isinstance(stage, Stretch):
            for i in stage.instructions:
                yield i
                yield from i.inner


def sources_of(program: Program) -> dict[str, str]:
    """The source text of each kernel that the program calls, once each."""
    found: dict[str, str] = {}
    for i in instructions(program):
        if i.kernel.label not in found:
            found[i.kernel.label] = inspect.getsource(i.kernel.fn)
    return found


# -- times ------------------------------------------------------------------------------------------------------


def times(program: Program) -> tuple[list[tuple[Step, str, float | None]], float]:
    """Each step with its kernel's label and its seconds, and the seconds of all kernels in one go.

    They are medians of some runs over random numbers, on one thread. State that the program writes, such as parameters, is put
    back afterwards. Hooks are not called: None is their time.
    """
    if kernels.machine.plain():
        raise RuntimeError("report(profile=True) measures machine code, and NUMBA_DISABLE_JIT is set")
    written = {r.memory.index: r.memory for s in program.steps for r in s.writes() if r.memory.kind == STATE}
    before = [(m.root, m.root.copy()) for m in written.values()]
    space = program.workspace()
    try:
        with np.errstate(all="ignore"):
            return _measured(program, space, _arrays(program))
    finally:
        program.done(space)
        for array, values in before:
            array[...] = values


def _arrays(program: Program) -> list[np.ndarray]:
    """Memory for arguments and results: numbers between 0 and 1, or row and class number 0."""
    random = np.random.default_rng(0)
    made = [np.zeros(1, np.uint8) for _ in range(program.arguments + len(program.results))]
    refs = [r for s in program.steps for r in (*s.reads(), *s.writes())]
    for memory in {r.memory.index: r.memory for r in refs}.values():
        if memory.kind in (ARGUMENT, RESULT):
            dtype = memory.root.dtype
            array = np.zeros(-(-memory.size // dtype.itemsize), dtype)
            if dtype.kind == "f":
                array[...] = random.random(array.shape)
            made[memory.number + (memory.kind == RESULT) * program.arguments] = array
    return made


def _measured(
    program: Program, space: Any, bound: list[np.ndarray]
) -> tuple[list[tuple[Step, str, float | None]], float]:
    program.bind_all(space, bound)
    enter, loop = kernels.machine.enter(0), kernels.machine.loop()
    steps: list[tuple[Step, str]] = []
    pieces: list[np.ndarray | None] = []
    for stage in program.stages:
        if isinstance(stage, Host):
            steps.append((stage, "Python"))
            pieces.append(None)
            continue
        code, at = stage.code(1), 0
        for i in stage.instructions:
            length = 3 + int(code[at + 2])
            steps.append((i.step, i.kernel.label))
            pieces.append(np.ascontiguousarray(code[at : at + length]))
            at += length
    taken: list[list[float]] = [[] for _ in steps]
    entering: list[
        float
    ] = []  # what it costs to enter the machine for nothing, which a run of all steps does once
    together: list[float] = []
    stretches = [(stage.code(1), stage.count) for stage in program.stages if isinstance(stage, Stretch)]
    for _ in range(ROUNDS):
        began = time.perf_counter()
        for code, count in stretches:
            enter(loop, code, space.bases, 0, 0, count)
        together.append(time.perf_counter() - began)
        for (step, _), piece, mine in zip(steps, pieces, taken, strict=True):
            if piece is None:
                assert isinstance(step, Host)
                if not step.effect:
                    began = time.perf_counter()
                    program.call(step, space, bound)
                    mine.append(time.perf_counter() - began)
                continue
            began = time.perf_counter()
            enter(loop, piece, space.bases, 0, 0, 0)
            between = time.perf_counter()
            enter(loop, piece, space.bases, 0, 0, 1)
            mine.append(time.perf_counter() - between)
            entering.append(between - began)
    empty = statistics.median(entering) if entering else 0.0
    whole = max(statistics.median(together) - empty * len(stretches), 0.0) if entering else 0.0
    found: list[tuple[Step, str, float | None]] = []
    for (step, label), piece, mine in zip(steps, pieces, taken, strict=True):
        cost = statistics.median(mine) - (empty if piece is not None else 0.0) if mine else None
        found.append((step, label, None if cost is None else max(cost, 0.0)))
    return found, whole


# -- the report -------------------------------------------------------------------------------------------------


@dataclass
class Part:
    """What is told of one program: lines of text, and tables with a head."""

    title: str
    lines: list[str] = field(default_factory=list)
    tables: list[list[tuple[str, ...]]] = field(default_factory=list)
    sources: dict[str, str] = field(default_factory=dict)


class Report(str):
    """Text that shows itself as it is; in Jupyter as tables, with the sources of the kernels to be unfolded."""

    __slots__ = ("parts",)
    parts: list[Part]

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        found = []
        for part in self.parts:
            found.append(f"<h4>{escape(part.title)}</h4>")
            found += [f"<div>{escape(line)}</div>" for line in part.lines]
            found += [_html_table(rows) for rows in part.tables]
            found += [
                f"<details><summary><code>{escape(label)}</code></summary><pre>{escape(text)}</pre></details>"
                for label, text in part.sources.items()
            ]
        return "".join(found)


def _html_table(rows: list[tuple[str, ...]]) -> str:
    lines = []
    for number, row in enumerate(rows):
        tag = "td" if number else "th"
        lines.append("".join(f'<{tag} style="{CELL}">{escape(cell)}</{tag}>' for cell in row))
    return f"<table>{''.join(f'<tr>{line}</tr>' for line in lines)}</table>"


def report(compiled: Any, profile: bool, sources: bool) -> Report:
    """The report on all programs of a function."""
    found = [(key, r) for key, made in compiled.recordings.items() for r in made]
    parts = [Part(f"{compiled.name}: {_many(len(found), 'recording')}")]
    for number, (key, r) in enumerate(found):
        part = Part(f"[{number}] {signature(compiled.function, key)}")
        parts.append(part)
        if r.epoch != recordings.epoch[0]:
            part.lines.append(
                "out of date: a tensor or module that it uses was changed in a way that needs a new recording"
            )
        if not r.ready:
            part.lines.append(
                f"recorded {_many(len(r.recorder.steps), 'step')}; not lowered yet (the next call does it)"
            )
            continue
        _tell(part, r.program, r.counts, profile)
        if r.outer.outputs and not r.outer.truncated:
            parts.append(Part(f"[{number}] backward, for results that are differentiated outside"))
            _tell(parts[-1], r.outer.program, r.outer.counts, profile)
    if compiled.fallbacks:
        parts.append(Part("run eagerly", [f"eager: {why}" for why in compiled.fallbacks.values()]))
    made = Report("\n".join(_text(parts, sources)))
    made.parts = parts
    return made


def _tell(part: Part, program: Program, counts: dict[str, int], profile: bool) -> None:
    """All about one program."""
    calls: dict[str, int] = {}
    for i in instructions(program):
        calls[i.kernel.label] = calls.get(i.kernel.label, 0) + 1
    hosts = [s.name for s in program.stages if isinstance(s, Host)]
    sizes = _temporaries(program)
    part.sources = sources_of(program)
    part.lines += [
        "steps after each pass: " + ", ".join(f"{name} {count:,}" for name, count in counts.items()),
        f"{_many(sum(calls.values()), 'call')} of {_many(len(calls), 'kernel')}, calls of Python: {', '.join(hosts) or 'none'}",
        f"arena of {program.arena_size:,} bytes for {_many(len(sizes), 'temporar', 'y', 'ies')} of {sum(sizes):,} bytes",
    ]
    spent: dict[str, list[float]] = {}
    if profile:
        measured, whole = times(program)
        for _, label, cost in measured:
            spent.setdefault(label, []).append(cost or 0.0)
        part.tables.append(_steps_table(measured, whole))
    total = sum(map(sum, spent.values()))
    rows = []
    for label, count in sorted(calls.items(), key=lambda item: (-sum(spent.get(item[0], ())), -item[1])):
        cells = (label, f"{count:,}", f"{len(part.sources[label].splitlines()):,}")
        shown = _cost(sum(spent[label]), total) if label in spent else ("in a band", "")
        rows.append((*cells, *shown) if profile else cells)
    head = ("kernel", "calls", "lines of source", *(("us", "share") if profile else ()))
    part.tables.insert(0, [head, *rows])


def _many(count: int, word: str, one: str = "", more: str = "s") -> str:
    return f"{count:,} {word}{one if count == 1 else more}"


def _temporaries(program: Program) -> list[int]:
    """The size of each temporary."""
    refs = [r for s in program.steps for r in (*s.reads(), *s.writes()) if r.memory.kind == TEMPORARY]
    return list({r.memory.index: r.memory.size for r in refs}.values())


def _steps_table(measured: list[tuple[Step, str, float | None]], whole: float) -> list[tuple[str, ...]]:
    """The steps that take longest."""
    total = sum(cost or 0.0 for *_, cost in measured)
    ordered = sorted(enumerate(measured), key=lambda item: -(item[1][2] or 0.0))
    rows: list[tuple[str, ...]] = [("step", "number", "us", "share")]
    for at, (step, _, cost) in ordered[:MOST_STEPS]:
        rows.append((title(step), f"#{at}", *(("not called", "") if cost is None else _cost(cost, total))))
    rest = [cost or 0.0 for _, (*_, cost) in ordered[MOST_STEPS:]]
    if rest:
        rows.append((f"... {len(rest):,} more ...", "", *_cost(sum(rest), total)))
    rows.append(("sum, on one thread", "", *_cost(total, total)))
    rows.append(("all kernels in one go", "", *_cost(whole, 0.0)))
    return rows


def _cost(seconds: float, total: float) -> tuple[str, str]:
    return f"{seconds * 1e6:.2f}", f"{100 * seconds / total:.1f} %" if total else "-"


def _text(parts: list[Part], sources: bool) -> Iterator[str]:
    for part in parts:
        yield part.title
        yield from ("    " + line for line in part.lines)
        for rows in part.tables:
            if len(rows) > 1:
                yield from ("    " + line for line in table(rows, right=tuple(range(1, len(rows[0])))))
        if sources:
            for label, text in part.sources.items():
                yield f"--- {label}"
                yield text.rstrip("\n")
