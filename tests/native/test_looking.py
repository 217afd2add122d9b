"""What can be seen of a compiled function: its steps as a table and as a picture, and the report."""

from __future__ import annotations

import gc
import time
import xml.etree.ElementTree as ET
from typing import Any

import numpy as np
import pytest

import tapegrad as tg
from tapegrad import nn
from tapegrad.inspection.drawing import Drawing
from tapegrad.inspection.graph import Box
from tapegrad.native import report
from tests.inspection.test_drawing import _check_geometry

F = nn.functional


def tensor(*shape: int, seed: int = 0, grad: bool = False) -> tg.Tensor:
    made = tg.from_numpy(np.random.default_rng(seed).standard_normal(shape).astype(np.float32))
    return made.requires_grad_() if grad else made


def box(picture: Drawing, title: str, kind: str = "") -> Box:
    """The first box of a title."""
    return next(b for b in picture.graph.boxes if b.title == title and kind in ("", b.kind))


def arrows(picture: Drawing) -> dict[tuple[str, str], str]:
    """What each arrow says, by the titles of its ends."""
    boxes = picture.graph.boxes
    return {(boxes[a.tail].title, boxes[a.head].title): a.tip for a in picture.graph.arrows}


def training() -> tuple[Any, nn.Module]:
    """A compiled step of a small network with a buffer, and the network."""
    tg.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 3))
    optimizer = tg.optim.Adam(model.parameters(), lr=0.01)

    @tg.compile
    def step(x: tg.Tensor, y: tg.Tensor) -> tg.Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    for seed in range(3):
        step(tensor(6, 4, seed=seed), tg.tensor([0, 1, 2, 0, 1, 2]))
    return step, model


# -- the picture ------------------------------------------------------------------------------------------------


def test_fused_loops_are_boxes_with_their_formulas() -> None:
    scale = tg.tensor([1.0, 2.0, 3.0])

    @tg.compile
    def score(a: tg.Tensor, b: tg.Tensor) -> tg.Tensor:
        spread = (a - b) / 2
        return (spread.tanh() * scale + 1).sum()

    score(tensor(3), tensor(3, seed=1))
    picture = score.tape.draw()
    fused = box(picture, "fused loop")
    assert fused.kind == "fused"
    assert fused.lines[:3] == ["v0 = sub(a, b)", "v1 = div(v0, 2)", "v2 = tanh(v1)"]
    assert fused.lines[3] == "v3 = mul(v2, scale)"
    assert fused.lines[4].startswith("v4 = add(v3, 1) -> t")
    assert "float32 [3] @0" in fused.lines[5]
    assert "test_looking.py:" in fused.tip
    assert "kernel fused-" in fused.tip
    assert {(b.kind, b.title) for b in picture.graph.boxes} == {
        ("argument", "a"), ("argument", "b"), ("const", "scale"), ("fused", "fused loop"), ("op", "sums_rows"), ("result", "result"),
    }  # fmt: skip
    found = arrows(picture)
    assert found["a", "fused loop"] == "a float32 [3]"
    assert found["scale", "fused loop"] == "scale float32 [3]"
    assert found["fused loop", "sums_rows"].endswith("float32 [3]")
    assert found["sums_rows", "result"] == "result float32 [1]"
    assert len(found) == 5
    _check_geometry(picture)
    root = ET.fromstring(picture.svg)
    texts = {t.text for t in root.iter("{http://www.w3.org/2000/svg}text")}
    assert {"v2 = tanh(v1)", "fused loop", "argument", "result", "2 steps, arena of 64 bytes"} <= texts
    tips = {t.text for t in root.iter("{http://www.w3.org/2000/svg}title")}
    assert "a float32 [3]" in tips


def test_a_training_step_shows_parameters_state_and_what_changes_in_place() -> None:
    step, _ = training()
    picture = step.tape.draw()
    _check_geometry(picture)
    assert box(picture, "0.weight").kind == "parameter"
    assert box(picture, "exp_avg of 0.weight").kind == "state"
    assert box(picture, "1.running_mean").kind == "state"
    assert box(picture, "0.weight.grad").kind == "result"
    assert box(picture, "x").kind == box(picture, "y").kind == "argument"
    assert box(picture, "result").kind == "result"
    adam = next(
        b for b in picture.graph.boxes if b.title == "adam" and "0.weight float32 [8, 4], in place" in b.lines
    )
    assert adam.tip.startswith("adam #")
    tails = {
        picture.graph.boxes[a.tail].title for a in picture.graph.arrows if picture.graph.boxes[a.head] is adam
    }
    assert {"0.weight", "exp_avg of 0.weight", "exp_avg_sq of 0.weight"} < tails
    assert any(" lies where t" in b.tip for b in picture.graph.boxes), "the arena is used again"
    assert not any(b.title.startswith("state") for b in picture.graph.boxes), "tables of kernels are left out"


def test_arrows_run_from_who_wrote_last_to_who_reads() -> None:
    @tg.compile(without=["fuse", "common", "copies"])
    def chain(x: tg.Tensor) -> tg.Tensor:
        y = x + 1
        z = y * 2
        y.mul_(z)
        return y + z

    chain(tensor(4))
    steps = chain.tape
    boxes = steps.draw().graph.boxes
    pairs = {
        (boxes[a.tail].entries[0], boxes[a.head].entries[0])
        for a in steps.draw().graph.arrows
        if boxes[a.tail].entries and boxes[a.head].entries
    }
    assert [s.name for s in steps][:2] == ["add", "mul"]
    written: dict[int, int] = {}
    expected = set()
    for at, s in enumerate(steps):  # all are whole arrays here
        expected |= {(written[r.memory.index], at) for r in s.reads() if r.memory.index in written}
        written.update({r.memory.index: at for r in s.writes()})
    assert pairs == expected


def test_calls_of_python_and_stages_are_marked() -> None:
    @tg.compile
    def several(x: tg.Tensor) -> tg.Tensor:
        values = tg.linalg.eigvalsh(x @ x.T)
        return (values * 2).sum() + tg.linalg.eigvalsh(x + x.T).sum()

    several(tensor(3, 3)), several(tensor(3, 3))
    program = several.tape.program
    assert program is not None
    hosts = [s for s in several.tape if s.kind == "host"]
    assert len(hosts) == 2
    assert len(program.stages) >= 3
    picture = several.tape.draw()
    _check_geometry(picture)
    shown = [b for b in picture.graph.boxes if b.kind == "host"]
    assert [b.lines[0] for b in shown] == ["call of Python"] * 2
    assert "call of Python" in picture.svg
    tips = "\n".join(b.tip for b in picture.graph.boxes)
    for number in range(len(program.stages)):
        assert f"stage {number} of {len(program.stages)}" in tips
    assert arrows(picture)["gemm" if "gemm" in tips else "matmul", shown[0].title]


def test_names_are_escaped() -> None:
    @tg.compile
    def weird(batch: dict[str, tg.Tensor]) -> dict[str, tg.Tensor]:
        return {'<b>&"': batch["<script>&'"] * 2}

    weird({"<script>&'": tensor(3)})
    picture = weird.tape.draw()
    texts = [t.text for t in ET.fromstring(picture.svg).iter("{http://www.w3.org/2000/svg}text")]
    assert """batch["<script>&'"]""" in texts
    assert """result['<b>&"']""" in texts
    assert "<script>" not in picture.svg
    assert "<script>" not in weird.tape._repr_html_()
    assert "<script>" not in weird.report()._repr_html_()
    assert "<script>" in weird.report()
    assert r"""label="batch[\"<script>&'\"]""" in weird.tape.to_dot()


def test_large_programs_are_put_together_and_say_so() -> None:
    @tg.compile(without=["fuse", "common"])
    def long(x: tg.Tensor, y: tg.Tensor) -> tg.Tensor:
        for _ in range(2000):
            x = x * y
            x = x + y
        return x

    long(tensor(4), tensor(4, seed=1))
    tape = long.tape
    began = time.perf_counter()
    picture = tape.draw()
    table = repr(tape)
    assert time.perf_counter() - began < 10
    assert len(picture.graph.boxes) < 10
    _check_geometry(picture)
    assert "4,000 steps" in picture.svg
    assert "put together by line and step" in picture.svg
    lines = {line for b in picture.graph.boxes for line in b.lines}
    assert "2,000 steps" in lines
    assert {"2,000 mul", "2,000 add"} <= lines
    assert {b.title for b in picture.graph.boxes if b.kind in ("argument", "result")} == {
        "2 arguments",
        "result",
    }
    assert len(table.splitlines()) < 210
    assert "3,800 more" in table
    assert "3,800 more" in tape._repr_html_()
    # Two lines with two steps each, then four kinds of steps on two lines, then what they do.
    assert len([b for b in tape.draw(fold=1).graph.boxes if b.kind == "group"]) == 2
    assert "put together by step" in tape.draw(fold=1).svg
    assert len(tape.to_dot().splitlines()) < 20


def test_before_the_passes_and_the_backward_program() -> None:
    layer = nn.Linear(4, 3)
    compiled = tg.compile(lambda x: (layer(x).tanh() * 2).sum())
    for seed in range(2):
        compiled(tensor(5, 4, seed=seed)).backward()
    tape = compiled.tape
    assert len(tape.recorded) > len(tape)
    assert "as recorded" in repr(tape.recorded)
    assert not any(b.kind == "fused" for b in tape.recorded.draw().graph.boxes)
    assert any(b.kind == "fused" for b in tape.draw().graph.boxes)
    back = tape.backward
    assert back is not None
    assert back.backward is None
    picture = back.draw()
    _check_geometry(picture)
    assert box(picture, "grad of result").kind == "argument"
    assert box(picture, "weight.grad").kind == box(picture, "bias.grad").kind == "result"
    assert tg.compile(lambda x: x * 2)(tensor(2)) is not None
    assert set(compiled.kernels) == {
        i.kernel.label for t in (tape, back) if t.program for i in report.instructions(t.program)
    }


def test_the_tape_is_that_of_the_program_used_last() -> None:
    double = tg.compile(lambda x: x * 2)
    for _ in range(2):
        for n in (3, 4, 5):
            double(tensor(n))
    double(tensor(4))
    assert "x float32 [4]" in repr(double.tape)
    double(tensor(3))
    double(tensor(3))  # by the short way
    assert "x float32 [3]" in repr(double.tape)


def test_a_picture_and_a_table_keep_no_arrays_alive() -> None:
    step, _ = training()
    before = len(gc.get_objects())
    step.tape.draw(), repr(step.tape), step.report()
    gc.collect()
    assert len(gc.get_objects()) - before < 2000


def test_nothing_to_look_at() -> None:
    never = tg.compile(lambda x: x)
    for look in (lambda: never.tape, lambda: never.kernels):
        with pytest.raises(RuntimeError, match="has not been called"):
            look()
    assert "0 recordings" in never.report()


# -- the report -------------------------------------------------------------------------------------------------


def test_the_report_says_what_is_there() -> None:
    step, _ = training()
    text = step.report(sources=True)
    program = step.tape.program
    ((recorded,),) = step.recordings.values()
    assert "[0] x: float32 [6, 4], y: int64 [6]" in text
    counts = recorded.counts
    assert next(iter(counts)) == "recorded"
    assert counts["recorded"] == len(step.tape.recorded)
    assert counts["order"] == len(step.tape)
    assert "steps after each pass: " + ", ".join(f"{k} {v}" for k, v in counts.items()) in text
    instructions = list(report.instructions(program))
    labels = {i.kernel.label for i in instructions}
    assert f"{len(instructions)} calls of {len(labels)} kernels, calls of Python: none" in text
    assert f"arena of {program.arena_size:,} bytes" in text
    for label in labels:
        assert label in text
        assert step.kernels[label].strip() in text
    assert "def adam(" in text
    assert step.kernels["optim.adam"].strip() not in step.report()
    page = step.report()._repr_html_()
    assert page.count("<details>") == len(labels)
    assert "optim.adam" in page


def test_a_profile_changes_nothing() -> None:
    step, model = training()
    before = {k: v.detach().clone() for k, v in model.state_dict().items()}
    text = step.report(profile=True)
    for name, value in model.state_dict().items():
        assert np.array_equal(value.numpy(), before[name].numpy()), name
    assert "us" in text.split("\n")[5]
    rows = [line for line in text.split("\n") if " #" in line]
    assert len(rows) == report.MOST_STEPS < len(step.tape)
    assert f"... {len(step.tape) - report.MOST_STEPS} more ..." in text
    assert "sum, on one thread" in text
    # The numbers of an optimizer and its moments are where they were: the next step is that of a run without the report.
    other, twin = training()
    x, y = tensor(6, 4, seed=9), tg.tensor([0, 1, 2, 0, 1, 2])
    assert step(x, y).item() == other(x, y).item()
    for p, q in zip(model.parameters(), twin.parameters(), strict=True):
        assert np.array_equal(p.detach().numpy(), q.detach().numpy())


def test_a_profile_calls_no_hooks() -> None:
    seen: list[int] = []
    w = tensor(3, grad=True)

    @tg.compile
    def hooked(x: tg.Tensor) -> tg.Tensor:
        y = w * x
        y.register_hook(lambda g: seen.append(1))
        y.sum().backward()
        return y.detach()

    for _ in range(3):
        hooked(tensor(3))
    count = len(seen)
    assert count
    if any(s.effect for s in hooked.tape):
        assert "not called" in hooked.report(profile=True)
    assert len(seen) == count


def test_a_profile_over_strided_and_overlapping_arguments() -> None:
    total = tg.compile(lambda a, b: (a * 2 + b).sum())
    base = tensor(40, 30)
    for _ in range(2):
        total(base[::2, ::3], base[1::2, ::3])
    text = total.report(profile=True)
    assert "strided" in text
    assert "a: float32 [20, 10]" in text


def test_the_report_on_fallbacks_and_signatures() -> None:
    def odd(x: tg.Tensor, times: int) -> tg.Tensor:
        return x * times if x.sum() > 0 else x

    compiled = tg.compile(odd, fallback="eager")
    with pytest.warns(RuntimeWarning, match="runs eagerly"):
        compiled(tg.ones(2), 3)
    assert "eager: a decision by the value" in compiled.report()
    assert "eager: a decision by the value" in compiled.report()._repr_html_()
    plain = tg.compile(lambda x, times, *rest, y=None: x * times + rest[0] + y)
    plain(tensor(2, grad=True), 3, tensor(2), y=tensor(2))
    assert "x: float32 [2] requires grad, times=3, rest[0]: float32 [2], y: float32 [2]" in plain.report()
    assert "not lowered yet" in plain.report()
