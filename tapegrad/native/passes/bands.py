"""Steps over the same rows take turns, a few rows at a time, so that what one makes is still in the cache for the next.

A reduction, a softmax or a norm is no elementwise loop, so its neighbours cannot be fused with it. But most kernels work on
a range of rows, and give the same bits however the range is cut: a band runs its steps over the first rows, then over the
next ones, and so on. Temporaries that only a band uses need memory for one block of rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from ... import kernels
from ...kernels.recording import Live
from ..steps import TEMPORARY, Band, Call, Map, Memory, Moved, Ref, Step
from .uses import uses

LEAST = 1 << 22  # bytes that several steps touch: less stays in the cache anyway
BLOCK = 1 << 19  # bytes that the steps of a band touch per block: half of a common second cache
MOST = 1 << 20  # bytes per block, where a single row takes so much
UNITS = 16  # runs of blocks that threads share, each with memory of its own


class Part(NamedTuple):
    """What the i-th item of a step's range touches of one operand: bytes [low, high), ``advance`` further for each item."""

    ref: Ref
    written: bool
    advance: int
    low: int
    high: int


class Range(NamedTuple):
    """A step as a range of items."""

    items: int
    work: int
    parts: list[Part]


class Window:
    """What a block of rows touches of one memory."""

    def __init__(self, memory: Memory, advance: int) -> None:
        self.memory = memory
        self.advance = advance  # bytes per block
        self.low = math.inf
        self.high = -math.inf
        self.written = False
        self.steps: set[int] = set()


# Items per block of each step, the number of blocks, and what blocks touch.
Blocks = tuple[list[int], int, dict[int, Window]]


def bands(steps: list[Step]) -> list[Step]:
    """Neighbouring steps over the same rows become one band, where that spares memory."""
    large = any(r.high - r.low >= LEAST // 8 for s in steps for r in s.writes())
    if not large or kernels.machine.plain():  # a band is machine code that calls machine code
        return steps
    made: list[Step] = []
    users = _users(steps)
    run: list[tuple[Step, Range]] = []
    chosen: Blocks | None = None  # of the run, if it has several steps
    for step in steps:
        items = ranged(step)
        longer = _blocks([*run, (step, items)]) if run and items is not None else None
        if longer is None:
            made += _ended(run, chosen, users)
            run = []
        chosen = longer
        if items is None:
            made.append(step)
        else:
            run.append((step, items))
    return [*made, *_ended(run, chosen, users)]


# -- steps as ranges --------------------------------------------------------------------------------------


def ranged(step: Step) -> Range | None:
    """A step as a range of items that do not depend on one another; None if it is no such thing."""
    if isinstance(step, Map):
        return _ranged_map(step)
    if isinstance(step, Call) and step.kernel.rows and not step.start and step.count > 1:
        return _ranged_call(step)
    return None


def _ranged_map(step: Map) -> Range | None:
    refs = [*step.ins, *step.outs]
    plan = kernels.loop.plan([r.array for r in refs], step.alias)
    if plan.outer < 2 or any(type(n) is Live for n in step.numbers):
        return None
    rank, inner = plan.layout.rank, plan.layout.inner
    parts = []
    for j, ref in enumerate(refs):
        size = np.dtype(ref.char).itemsize
        if plan.dims is None:
            lengths, strides = [plan.outer], [{"1": size, "0": 0}[inner[j]]]
        else:
            lengths = plan.dims[:rank].tolist()
            strides = [int(s) * size for s in plan.dims[rank + j * rank : rank + (j + 1) * rank]]
        reach = [(n - 1) * s for n, s in zip(lengths[1:], strides[1:], strict=True)]
        low, high = sum(min(r, 0) for r in reach), sum(max(r, 0) for r in reach)
        parts.append(Part(ref, j >= len(step.ins), strides[0], ref.first + low, ref.first + high + size))
    return Range(plan.outer, plan.size, parts)


def _ranged_call(step: Call) -> Range | None:
    names = step.kernel.fn.__code__.co_varnames
    given = dict(zip(names, step.args, strict=False))
    written = {id(r) for r in step.written}
    # Kernels that cut a long row into chunks count chunks.
    n, chunk = given.get("n", 0), given.get("chunk", 0)
    cut = 0 < chunk < n
    several = cut and n % chunk and (step.count - 1) * chunk >= n  # rows, each with a shorter last chunk
    if several or any(type(a) is Live for a in step.args):
        return None
    parts = []
    for name, ref in given.items():
        if not isinstance(ref, Ref):
            continue
        size = ref.high - ref.low
        if name not in step.kernel.rows or ref.array.size < step.count:
            parts.append(Part(ref, id(ref) in written, 0, ref.low, ref.high))
            continue
        long = cut and ref.array.size == n
        advance = chunk * np.dtype(ref.char).itemsize if long else size // step.count
        if not ref.contiguous or (not long and size % step.count):
            return None
        parts.append(Part(ref, id(ref) in written, advance, ref.first, ref.first + advance))
    return Range(step.count, step.work, parts)


# -- ranges that go together ------------------------------------------------------------------------------


def _blocks(run: Sequence[tuple[Step, Range]]) -> Blocks | None:
    """Items per block of each step, the number of blocks, and what blocks touch; None if the steps do not go together."""
    ratios = _ratios([range_ for _, range_ in run])
    if ratios is None:
        return None
    widest: dict[int, int] = {}
    for (_, range_), r in zip(run, ratios, strict=True):
        for part in range_.parts:
            index = part.ref.memory.index
            widest[index] = max(widest.get(index, 0), abs(part.advance) * r)
    touched = sum(widest.values())
    if not 0 < touched <= MOST:
        return None
    most = max(-(-range_.items // r) for (_, range_), r in zip(run, ratios, strict=True))
    times = max(1, min(BLOCK // touched, most // UNITS))
    units = [r * times for r in ratios]
    blocks = {-(-range_.items // u) for (_, range_), u in zip(run, units, strict=True)}
    windows = _windows(run, units)
    if len(blocks) > 1 or blocks == {1} or windows is None:
        return None
    count = blocks.pop()
    shared = sum(w.advance * count for w in windows.values() if len(w.steps) > 1)
    return (units, count, windows) if shared >= LEAST else None


def _ratios(ranges: Sequence[Range]) -> list[int] | None:
    """How many items of each step go together: those that move on in shared memory by as many bytes."""
    speeds: dict[int, Fraction] = {}  # bytes per item of the first step, by memory
    found: list[Fraction] = []
    for number, range_ in enumerate(ranges):
        ratio = Fraction(1) if not number else None
        for part in range_.parts:
            speed = speeds.get(part.ref.memory.index)
            if ratio is None and speed and part.advance > 0:
                ratio = speed / part.advance
        if ratio is None:
            return None
        for part in range_.parts:
            if part.advance > 0:
                speeds.setdefault(part.ref.memory.index, part.advance * ratio)
        found.append(ratio)
    scale = math.lcm(*(r.denominator for r in found))
    whole = [int(r * scale) for r in found]
    common = math.gcd(*whole)
    return [r // common for r in whole]


def _windows(run: Sequence[tuple[Step, Range]], units: Sequence[int]) -> dict[int, Window] | None:
    """Per memory what one block touches; None if blocks would touch what others write."""
    windows: dict[int, Window] = {}
    parts = [(k, units[k], p) for k, (_, range_) in enumerate(run) for p in range_.parts]
    written = {p.ref.memory.index for _, _, p in parts if p.written}
    for k, unit, part in parts:
        memory = part.ref.memory
        advance = part.advance * unit
        window = windows.setdefault(memory.index, Window(memory, advance))
        window.steps.add(k)
        if memory.index not in written:
            window.advance = max(window.advance, advance)
            continue
        if window.advance != advance or advance < 0:
            return None
        window.written = True
        window.low = min(window.low, part.low)
        window.high = max(window.high, part.high + (unit - 1) * part.advance)
    for window in windows.values():
        # What does not move is written by one step alone, such as a note on what went wrong.
        apart = window.high - window.low <= window.advance if window.advance else len(window.steps) == 1
        if window.written and not apart:
            return None
    return windows


# -- bands ------------------------------------------------------------------------------------------------


def _users(steps: Sequence[Step]) -> dict[int, int]:
    """Per temporary: how many uses it has."""
    return {m: len(items) for m, items in uses(steps).items() if items[0].ref.memory.kind == TEMPORARY}


def _ended(run: Sequence[tuple[Step, Range]], chosen: Blocks | None, users: dict[int, int]) -> Sequence[Step]:
    """The steps of a run, as one band if there are several."""
    return [s for s, _ in run] if chosen is None else [_band(run, chosen, users)]


def _band(run: Sequence[tuple[Step, Range]], chosen: Blocks, users: dict[int, int]) -> Band:
    units, blocks, windows = chosen
    here = uses([s for s, _ in run])
    moved = []
    for number, window in windows.items():
        if window.written and window.advance and users.get(number) == len(here[number]):
            moved.append(Moved(window.memory, int(window.low), int(window.high), window.advance))
    ranges = [(range_.items, unit) for (_, range_), unit in zip(run, units, strict=True)]
    work = sum(range_.work for _, range_ in run)
    return Band([s for s, _ in run], ranges, blocks, min(blocks, UNITS), moved, work)
