"""What was made of a function: its steps as a table, its kernels' sources, and how long each takes."""

from __future__ import annotations

import inspect
import pathlib
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from .. import dtypes, kernels
from ..sites import describe_site, shown_file, site_line
from .program import Instruction, Program, Stretch
from .steps import ARGUMENT, RESULT, STATE, Host, Map, Ref, Step


class NativeTape(Sequence[Step]):
    """The steps of a program in order; prints as a table."""

    def __init__(self, program: Program) -> None:
        self.program = program

    def __len__(self) -> int:
        return len(self.program.steps)

    def __getitem__(self, at: Any) -> Any:
        return self.program.steps[at]

    def __repr__(self) -> str:
        head = ("#", "kind", "step", "reads", "writes", "line")
        rows = [head, *(_row(at, step) for at, step in enumerate(self.program.steps))]
        count = len(self)
        end = f"{count} step{'s' * (count != 1)}, arena of {self.program.arena_size:,} bytes"
        return "\n".join([*_aligned(rows), end])


def _row(at: int, step: Step) -> tuple[str, ...]:
    where = "" if step.where is None else _line(step.where)
    reads, writes = (
        ", ".join(dict.fromkeys(map(_described, refs))) for refs in (step.reads(), step.writes())
    )
    return str(at), step.kind, title(step), _clipped(reads), _clipped(writes), where


def _line(where: tuple[Any, int]) -> str:
    """A line of the user's, without the folders of its file."""
    name = shown_file(site_line(where)[0])
    return pathlib.PurePath(name).name + describe_site(where)[len(name) :]


def title(step: Step) -> str:
    """A step's name; of a fused loop the formulas that it was made of."""
    parts = step.loop.parts if isinstance(step, Map) else ()
    return _clipped(" + ".join(parts), 60) if parts else step.name


def _described(ref: Ref) -> str:
    name = {ARGUMENT: "arg", RESULT: "result", STATE: "state"}.get(ref.memory.kind, "t")
    number = ref.memory.number if name in ("arg", "result") else ref.memory.index
    kind = dtypes.BY_NUM[np.dtype(ref.char).num].name
    return f"{name}{number} {kind}{list(ref.shape)}"


def _clipped(text: str, width: int = 60) -> str:
    return text if len(text) <= width else text[: width - 3] + "..."


def _aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(len(r[j]) for r in rows) for j in range(len(rows[0]))]
    return ["  ".join(c.ljust(w) for c, w in zip(r, widths, strict=True)).rstrip() for r in rows]


def instructions(program: Program) -> Iterator[Instruction]:
    """All instructions, in order."""
    for stage in program.stages:
        if isinstance(stage, Stretch):
            yield from stage.instructions


def sources_of(program: Program) -> dict[str, str]:
    """The source text of each kernel that the program calls, once each."""
    found: dict[str, str] = {}
    for i in instructions(program):
        if i.kernel.label not in found:
            found[i.kernel.label] = inspect.getsource(i.kernel.fn)
    return found


def times(program: Program, bound: Sequence[np.ndarray], rounds: int = 20) -> list[tuple[str, float]]:
    """Seconds per step (the median of some rounds), for one run over the given arrays on one thread."""
    if kernels.machine.plain():
        raise RuntimeError("report(profile=True) measures machine code, and NUMBA_DISABLE_JIT is set")
    taken: dict[int, list[float]] = {}
    space = program.workspace()
    program.bind_all(space, bound)
    enter = kernels.machine.enter(0)
    names: list[str] = []
    for _ in range(rounds):
        number = 0
        for stage in program.stages:
            if isinstance(stage, Host):
                began = time.perf_counter()
                program.call(stage, space, bound)
                taken.setdefault(number, []).append(time.perf_counter() - began)
                number += 1
                continue
            code, at = stage.code(1), 0
            for _ in stage.instructions:
                length = 3 + int(code[at + 2])
                piece = np.ascontiguousarray(code[at : at + length])
                at += length
                began = time.perf_counter()
                enter(kernels.machine.loop(), piece, space.bases, 0, 0, 1)
                taken.setdefault(number, []).append(time.perf_counter() - began)
                number += 1
    program.done(space)
    for stage in program.stages:
        names += [stage.name] if isinstance(stage, Host) else [title(i.step) for i in stage.instructions]
    return [(name, float(np.median(taken[j]))) for j, name in enumerate(names)]


def text(name: str, recordings: Sequence[Any], fallbacks: dict[Any, str], profile: bool) -> str:
    """The report on all programs of a function."""
    lines = [f"{name}: {len(recordings)} recording{'s' * (len(recordings) != 1)}"]
    for number, r in enumerate(recordings):
        program = r.program
        if program is None:
            lines.append(
                f"[{number}] recorded {len(r.recorder.steps)} steps; not lowered yet (the next call does it)"
            )
            continue
        passes = ", ".join(f"{k} {v}" for k, v in r.counts.items())
        hosts = [s.name for s in program.stages if isinstance(s, Host)]
        distinct = len({i.kernel.label for i in instructions(program)})
        lines.append(f"[{number}] steps after each pass: {passes}")
        lines.append(
            f"    {sum(1 for _ in instructions(program))} calls of {distinct} kernels, arena {program.arena_size:,} bytes, "
            f"calls of Python: {', '.join(hosts) or 'none'}"
        )
        if profile:
            bound = [np.zeros(m.root.shape, m.root.dtype) for m in (*r.arguments, *r.results)]
            measured = times(program, bound)
            total = sum(t for _, t in measured)
            for title_, t in sorted(measured, key=lambda item: -item[1]):
                lines.append(f"    {t * 1e6:10.2f} us  {100 * t / total:5.1f} %  {title_}")
    lines += [f"eager: {why}" for why in fallbacks.values()]
    return "\n".join(lines)
