"""What a drawing of a program shows: a box per step, fused loops with what is in them, and the arrays between as arrows."""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Sequence
from typing import Any

from ..inspection.graph import NEAR, Arrow, Box, Graph
from ..inspection.rows import kind
from ..sites import describe_site, shown_file, site_line
from .labels import Labels
from .program import Program, Stretch
from .steps import ARGUMENT, RESULT, STATE, TEMPORARY, Band, Call, Host, Map, Ref, Step

BEFORE = -1  # instead of a step's number: what was there before the run
MOST_LINES = 14  # of the formulas in a box
PLURAL = {"argument": "arguments", "parameter": "parameters", "state": "other state", "const": "constants"}


def title(step: Step, width: int = 60) -> str:
    """A step's name; of a fused loop the formulas that it was made of, of a band its steps."""
    if isinstance(step, Band):
        return clipped(" | ".join(title(s, width) for s in step.steps), width)
    parts = step.loop.parts if isinstance(step, Map) else ()
    return clipped(" + ".join(parts), width) if parts else step.name


def clipped(text: str, width: int = 60) -> str:
    """Text that is cut if it is long."""
    return text if len(text) <= width else text[: width - 3] + "..."


def line_of(where: tuple[Any, int] | None) -> str:
    """A line of the user's, without the folders of its file; "" for what no line asked for."""
    if where is None:
        return ""
    name = shown_file(site_line(where)[0])
    return pathlib.PurePath(name).name + describe_site(where)[len(name) :]


def graph_of(steps: Sequence[Step], labels: Labels, program: Program | None, fold: int) -> Graph:
    """The graph of steps, put together if there are more than ``fold``."""
    flow = Flow(steps)
    if len(steps) > fold:
        return _folded(steps, labels, flow, fold)
    return _full(steps, labels, flow, _Facts(program))


class Flow:
    """Who wrote what each step reads, and who wrote the results last."""

    def __init__(self, steps: Sequence[Step]) -> None:
        # By memory, in order: the step, what it wrote, and whether nothing older is left in that.
        self.writers: dict[int, list[tuple[int, Ref, bool]]] = {}
        self.sources: list[list[tuple[int, Ref]]] = []  # per step: (step or BEFORE, what is read)
        self.read: set[int] = set()  # memories that a step reads after another one wrote them
        for at, step in enumerate(steps):
            found = [(tail, ref) for ref in step.reads() for tail in self._last(ref)]
            self.sources.append(found)
            self.read.update(ref.memory.index for _, ref in found)
            old = {ref.memory.index for _, ref in found}
            for ref in step.writes():
                # A kernel may leave elements as they were. What it has read itself is in its own arrows.
                final = not isinstance(step, Call) or ref.memory.index in old
                self.writers.setdefault(ref.memory.index, []).append((at, ref, final))

    def _last(self, ref: Ref) -> list[int]:
        """The steps that wrote what a reference reads, and BEFORE if some of it may be older."""
        found: list[int] = []
        older = ref.memory.kind in (
            STATE,
            ARGUMENT,
        )  # else it is memory that a kernel reads after it wrote it
        for at, written, final in reversed(self.writers.get(ref.memory.index, ())):
            if written.overlaps(ref):
                found.append(at)
                if written.contiguous and written.low <= ref.low and written.high >= ref.high:
                    older = False
                    if final:
                        break
        return [*found, BEFORE] if older else found

    def results(self) -> list[tuple[Ref, list[int]]]:
        """Results with the steps that wrote them last."""
        made = []
        for items in self.writers.values():
            memory = items[0][1].memory
            if memory.kind == RESULT:
                whole = Ref(memory.root, memory, 0)
                made.append((whole, self._last(whole)))
        return sorted(made, key=lambda item: item[0].memory.number)


# -- every step a box -------------------------------------------------------------------------------------------


class _Facts:
    """What only a lowered program knows: places in the arena, kernels, and who lay at a place before."""

    def __init__(self, program: Program | None) -> None:
        self.offsets: dict[int, int] = {} if program is None else program.offsets
        self.stages: dict[int, str] = {}
        self.kernels: dict[int, str] = {}
        count = 0 if program is None else len(program.stages)
        for number, stage in enumerate(() if program is None else program.stages):
            for item in stage.instructions if isinstance(stage, Stretch) else [stage]:
                step = item if isinstance(item, Host) else item.step
                if count > 1:
                    self.stages[id(step)] = f"stage {number} of {count}"
                if not isinstance(item, Host):
                    large = ", on several threads if there are" if item.large else ""
                    self.kernels[id(step)] = f"kernel {item.kernel.label}{large}"
        self._spans: list[tuple[int, int, int]] = []  # in order of first use: from, to, memory

    def before(self, ref: Ref) -> int | None:
        """The temporary that used the place of this one before it, if one did."""
        index = ref.memory.index
        start = self.offsets.get(index)
        if start is None:
            return None
        end = start + ref.memory.size
        found = next((i for a, b, i in reversed(self._spans) if a < end and start < b and i != index), None)
        if not any(i == index for *_, i in self._spans):
            self._spans.append((start, end, index))
        return found


def _full(steps: Sequence[Step], labels: Labels, flow: Flow, facts: _Facts) -> Graph:
    made = Graph([_step_box(at, step, labels, flow, facts) for at, step in enumerate(steps)], [])
    arrows: dict[tuple[int, int], Arrow] = {}
    sources: dict[int, tuple[int, int]] = {}  # memory -> its box, and where it is used

    def connect(tail: int, head: int, text: str) -> None:
        arrow = arrows.get((tail, head))
        if arrow is None:
            arrow = arrows[tail, head] = Arrow(tail, head)
            made.arrows.append(arrow)
        if text not in arrow.tip.split("\n"):
            arrow.tip = "\n".join(filter(None, [arrow.tip, text]))

    for at, found in enumerate(flow.sources):
        for tail, ref in found:
            if tail == BEFORE:
                sort = labels.sort(ref.memory)
                if sort == "table":
                    continue
                known = sources.get(ref.memory.index)
                # A source that is used far from its first use is drawn again there: long arrows are hard to follow.
                if known is None or at - known[1] > NEAR:
                    known = sources[ref.memory.index] = (len(made.boxes), at)
                    made.boxes.append(_source_box(ref, sort, labels, at))
                tail = known[0]
            connect(tail, at, labels.text(ref))
    for ref, last in flow.results():
        made.boxes.append(_result_box(ref, labels, len(steps) + len(made.boxes)))
        for tail in last:
            connect(tail, len(made.boxes) - 1, labels.text(ref))
    return made


def _step_box(at: int, step: Step, labels: Labels, flow: Flow, facts: _Facts) -> Box:
    formulas = _formulas(step, labels)
    lines = formulas if len(formulas) <= MOST_LINES else [
        *formulas[: MOST_LINES - 1], f"... {len(formulas) - MOST_LINES + 1} more ..."
    ]  # fmt: skip
    old = {ref.memory.index for _, ref in flow.sources[at]}
    outs = {ref.key: ref for ref in step.writes()}
    notes = []
    shown = []
    for ref in outs.values():
        memory = ref.memory
        text = labels.text(ref)
        if memory.index in facts.offsets:
            text += f" @{facts.offsets[memory.index]}"
            earlier = facts.before(ref)
            if earlier is not None:
                notes.append(f"{labels.name(memory)} lies where t{earlier} was")
        if memory.index in old:
            text += ", in place"
        if memory.kind != TEMPORARY or memory.index in flow.read:  # else it is scratch memory of the kernel
            shown.append(text)
    sort = "host" if isinstance(step, Host) else "fused" if formulas else "op"
    if sort == "host":
        lines = ["call of Python", *lines]
    tip = [f"{title(step, 400)} #{at}", *([f"recorded at {line_of(step.where)}"] if step.where else [])]
    tip += filter(None, [facts.stages.get(id(step)), facts.kernels.get(id(step)), *formulas])
    tip += [f"reads {', '.join(dict.fromkeys(labels.text(r) for _, r in flow.sources[at])) or 'nothing'}"]
    tip += [f"writes {', '.join(shown) or 'nothing'}", *notes]
    name = "band of rows" if isinstance(step, Band) else "fused loop" if formulas else step.name
    lines = [clipped(line, 48) for line in (*lines, *shown)]
    return Box(sort, clipped(name, 44), lines, "\n".join(tip), at, number=f"#{at}", entries=[at])


def _source_box(ref: Ref, sort: str, labels: Labels, at: int) -> Box:
    memory = ref.memory
    name, text = labels.name(memory), kind(memory.root.shape, memory.root.dtype)
    tip = f"{sort if sort != 'const' else ''} {name}\n{text}, {memory.size:,} bytes".lstrip()
    return Box(sort, clipped(name, 44), [text], tip, at - 0.5)


def _result_box(ref: Ref, labels: Labels, order: int) -> Box:
    name, text = labels.name(ref.memory), kind(ref.memory.root.shape, ref.memory.root.dtype)
    return Box(
        "result",
        clipped(name, 44),
        [text],
        f"{name}, made by each run\n{text}, {ref.memory.size:,} bytes",
        order,
    )


def _formulas(step: Step, labels: Labels) -> list[str]:
    """What a fused loop computes, a line per formula; its values are v0, v1, ..., those that are written by their names.

    Of a band, what its steps do.
    """
    if isinstance(step, Band):
        return [line for s in step.steps for line in _formulas(s, labels) or [_called(s, labels)]]
    if not isinstance(step, Map) or not step.loop.parts:
        return []
    origin = step.loop.origin
    if origin is None or origin[0] != "fused":  # of a formula of the user's own only the names are known
        return list(step.loop.parts)
    _, members, _, _, outs = origin
    given = [labels.name(r.memory) for r in step.ins]
    numbers = list(step.numbers)
    written: dict[int, list[str]] = {}
    for value, ref in zip(outs, step.outs, strict=True):
        written.setdefault(value, []).append(labels.name(ref.memory))
    lines, count = [], 0
    for loop, _, operands, taken, chars in members:
        args = [f"v{v}" if v >= 0 else given[-1 - v] for v in operands]
        args += [f"{n:g}" for n in numbers[:taken]]
        del numbers[:taken]
        values = range(count, count + len(chars))
        count += len(chars)
        lines.append(f"{', '.join(f'v{v}' for v in values)} = {loop.name}({', '.join(args)})")
        lines[-1] += "".join(f" -> {name}" for v in values for name in written.get(v, ()))
    return lines


def _called(step: Step, labels: Labels) -> str:
    read, written = (
        ", ".join(dict.fromkeys(labels.name(r.memory) for r in refs))
        for refs in (step.reads(), step.writes())
    )
    return f"{step.name}({read}) -> {written}"


# -- steps put together -----------------------------------------------------------------------------------------


def _folded(steps: Sequence[Step], labels: Labels, flow: Flow, limit: int) -> Graph:
    by, keys = _grouping(steps, limit)
    members: dict[str, list[int]] = {}
    for at, key in enumerate(keys):
        members.setdefault(key, []).append(at)
    made = Graph(
        [_group_box(key, [steps[j] for j in found], found) for key, found in members.items()], [], by
    )
    place = {key: box for box, key in enumerate(members)}
    arrows: dict[tuple[int, int], Arrow] = {}
    texts: dict[tuple[int, int], dict[str, None]] = {}
    outside: dict[str, dict[int, Ref]] = {}  # by sort: what was there before, each sort in one box
    sorts: dict[str, int] = {}

    def connect(tail: int, head: int, ref: Ref) -> None:
        if tail == head:
            return
        arrow = arrows.get((tail, head))
        if arrow is None:
            back = made.boxes[tail].order > made.boxes[head].order
            arrow = arrows[tail, head] = Arrow(tail, head, back=back)
            made.arrows.append(arrow)
        texts.setdefault((tail, head), {})[labels.text(ref)] = None

    for at, found in enumerate(flow.sources):
        for tail, ref in found:
            if tail != BEFORE:
                connect(place[keys[tail]], place[keys[at]], ref)
                continue
            sort = labels.sort(ref.memory)
            if sort == "table":
                continue
            if sort not in sorts:
                sorts[sort] = len(made.boxes)
                made.boxes.append(Box(sort, "", [], "", -0.5))
            outside.setdefault(sort, {})[ref.memory.index] = ref
            connect(sorts[sort], place[keys[at]], ref)
    for sort, refs in outside.items():
        _fill(made.boxes[sorts[sort]], list(refs.values()), labels, PLURAL[sort])
    results = flow.results()
    if results:
        box = len(made.boxes)
        made.boxes.append(Box("result", "", [], "", len(steps)))
        _fill(made.boxes[box], [ref for ref, _ in results], labels, "results")
        for ref, last in results:
            for tail in last:
                connect(place[keys[tail]], box, ref)
    for ends, arrow in arrows.items():
        arrow.tip = _few(list(texts[ends]), "\n")
    return made


def _fill(box: Box, refs: list[Ref], labels: Labels, plural: str) -> None:
    size = sum(r.memory.size for r in refs)
    box.title = labels.name(refs[0].memory) if len(refs) == 1 else f"{len(refs):,} {plural}"
    box.lines = [f"{size:,} bytes"]
    box.tip = _few(
        [f"{labels.name(r.memory)} {kind(r.memory.root.shape, r.memory.root.dtype)}" for r in refs], "\n"
    )


def _few(items: list[str], between: str, most: int = 12) -> str:
    rest = [f"... {len(items) - most:,} more"] if len(items) > most else []
    return between.join([*items[:most], *rest])


def _grouping(steps: Sequence[Step], limit: int) -> tuple[str, list[str]]:
    """The finest way to put steps together that leaves at most ``limit`` groups, or the coarsest there is."""
    known = {step.where: line_of(step.where) or "(no line)" for step in steps}
    ways: list[tuple[str, Callable[[Step], str]]] = [
        ("line and step", lambda s: f"{known[s.where]}\n{title(s)}"),
        ("line", lambda s: known[s.where]),
        ("step", title),
    ]
    made = [(by, [key(s) for s in steps]) for by, key in ways]
    return next(((by, keys) for by, keys in made if len(set(keys)) <= limit), made[-1])


def _group_box(key: str, members: list[Step], places: list[int]) -> Box:
    names: dict[str, int] = {}
    for step in members:
        names[title(step)] = names.get(title(step), 0) + 1
    usual = sorted(names.items(), key=lambda item: -item[1])
    text = _few([f"{count:,} {name}" if count > 1 else name for name, count in usual], ", ")
    hosts = sum(isinstance(s, Host) for s in members)
    lines = [f"{len(members):,} steps" if len(members) > 1 else "1 step", text]
    lines += [f"{hosts:,} of them calls of Python"] if hosts else []
    sort = "host" if hosts == len(members) else "group"
    return Box(
        sort, clipped(key.partition("\n")[0], 44), [clipped(line, 44) for line in lines], f"{key}\n{text}", places[0],
        entries=places,
    )  # fmt: skip
