"""Pictures of the tape: geometry without overlaps, what is in them, and the same in characters and for Graphviz."""

from __future__ import annotations

import itertools
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tapegrad as tg
from tapegrad import nn
from tapegrad.inspection import drawing
from tapegrad.inspection.layout import Placed, isotonic, layout


def _leaf(*shape: int) -> tg.Tensor:
    return tg.ones(*shape, requires_grad=True)


def _apart(a: Placed, b: Placed) -> bool:
    return (
        a.x + a.width <= b.x + 1e-6
        or b.x + b.width <= a.x + 1e-6
        or a.y + a.height <= b.y + 1e-6
        or b.y + b.height <= a.y + 1e-6
    )


def _check_geometry(picture: drawing.Drawing) -> None:
    places = picture.layout
    everything = [*places.boxes, *(label for label in places.labels if label is not None)]
    for a, b in itertools.combinations(everything, 2):
        assert _apart(a, b), (a, b)
    for item in everything:
        assert item.x >= -1e-6
        assert item.y >= -1e-6
        assert item.x + item.width <= places.width + 1e-6
        assert item.y + item.height <= places.height + 1e-6
    # The text of a box fits into it: every character of the fonts that are asked for is at most this wide.
    for box, place in zip(picture.graph.boxes, places.boxes, strict=True):
        widest = max([len(box.title) + (len(box.number) + 1 if box.number else 0), *map(len, box.lines)])
        assert widest * drawing.CHAR * 0.85 <= place.width
        assert max(map(len, box.lines), default=0) * drawing.CHAR <= place.width
    for arrow, line in zip(picture.graph.arrows, places.lines, strict=True):
        tail, head = places.boxes[arrow.tail], places.boxes[arrow.head]
        if arrow.back:
            tail, head = head, tail
        assert tail.x <= line[0][0] <= tail.x + tail.width
        assert line[0][1] == tail.y + tail.height
        assert head.x <= line[-1][0] <= head.x + head.width
        assert line[-1][1] == head.y
        assert all(a[1] <= b[1] for a, b in itertools.pairwise(line))  # downwards only
        for (x0, y0), (x1, y1) in itertools.pairwise(line):
            hull = Placed(min(x0, x1), y0, abs(x1 - x0), y1 - y0)
            others = (b for j, b in enumerate(places.boxes) if j not in (arrow.tail, arrow.head))
            assert all(_apart(hull, b) for b in others), "no arrow runs behind a box"


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.norm = nn.Linear(4, 4), nn.Linear(4, 4), nn.LayerNorm(4)

    def forward(self, x: tg.Tensor) -> tg.Tensor:
        h = self.norm(x)
        return x + self.b(tg.relu(self.a(h))) * tg.sigmoid(h)


def _residual(blocks: int) -> tg.Tensor:
    return nn.Sequential(*[Block() for _ in range(blocks)])(tg.ones(2, 4)).sum()


def _dense() -> tg.Tensor:
    states = [_leaf(3)]
    for _ in range(12):
        total = states[0]
        for state in states[1:][-6:]:
            total = total + state
        states.append(total.tanh())
    return states[-1]


def _ladder() -> tg.Tensor:
    x = _leaf(3)
    y = x
    for j in range(120):
        y = y * x if j % 2 else y + x
    return y.sum()


@pytest.mark.parametrize("make", [lambda: _residual(1), lambda: _residual(8), _dense, _ladder])
@pytest.mark.parametrize("gradients", [False, True])
def test_nothing_overlaps(make: Callable[[], tg.Tensor], gradients: bool) -> None:
    out = make()
    if out.numel() > 1:
        out = out.sum()
    picture = out.tape().draw(gradients=gradients)
    _check_geometry(picture)
    assert any(label is not None for label in picture.layout.labels) == gradients


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_graph_is_laid_out_without_overlaps(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 14))
    sizes = [(data.draw(st.floats(10, 200)), data.draw(st.floats(10, 80))) for _ in range(count)]
    pairs = list(itertools.combinations(range(count), 2))
    arrows = data.draw(st.lists(st.sampled_from(pairs), max_size=30)) if pairs else []
    labels = [data.draw(st.sampled_from([None, (60.0, 15.0)])) for _ in arrows]
    made = layout(sizes, arrows, labels, [float(j) for j in range(count)])
    everything = [*made.boxes, *(label for label in made.labels if label is not None)]
    assert all(_apart(a, b) for a, b in itertools.combinations(everything, 2))
    for tail, head in arrows:
        assert made.boxes[tail].y + made.boxes[tail].height < made.boxes[head].y
    assert [(p.width, p.height) for p in made.boxes] == sizes


@given(st.lists(st.tuples(st.floats(-100, 100), st.floats(0.1, 10)), min_size=1, max_size=12))
def test_isotonic_regression(pairs: list[tuple[float, float]]) -> None:
    values, weights = zip(*pairs, strict=True)
    found = isotonic(values, weights)
    assert all(a <= b + 1e-9 for a, b in itertools.pairwise(found))

    def distance(xs: list[float]) -> float:
        return sum(w * (x - v) ** 2 for x, v, w in zip(xs, values, weights, strict=True))

    # No other nondecreasing sequence nearby is better: each level may be moved as a whole, or be split.
    for cut in range(len(found) + 1):
        for step in (1e-3, -1e-3):
            moved = [x + step if (j >= cut) == (step > 0) else x for j, x in enumerate(found)]
            assert distance(found) <= distance(moved) + 1e-7


# -- what is in the picture -------------------------------------------------------------------------


def test_leaves_parameters_constants_and_the_asked_tensor() -> None:
    w, x = _leaf(3), tg.ones(3)
    layer = nn.Linear(3, 2)
    loss = layer(w * x).sum()
    picture = loss.tape().draw()
    kinds = {(b.kind, b.title) for b in picture.graph.boxes}
    assert {("leaf", "w"), ("const", "x"), ("parameter", "weight"), ("parameter", "bias")} <= kinds
    (asked,) = [b for b in picture.graph.boxes if b.output]
    assert asked.title == "sum"
    assert asked.lines[0] == "loss: float32 []"
    assert "test_drawing.py:" in asked.tip
    root = ET.fromstring(picture.svg)
    assert root.tag.endswith("svg")
    texts = {t.text for t in root.iter("{http://www.w3.org/2000/svg}text")}
    assert {"w", "x", "weight", "sum", "loss: float32 []", "4 entries, 60 bytes saved"} & texts >= {
        "w",
        "x",
        "weight",
    }
    assert picture._repr_svg_() == picture.svg
    assert loss.tape()._repr_svg_() == picture.svg


def test_names_are_escaped() -> None:
    params = nn.ParameterDict({"a<b>&": nn.Parameter(tg.ones(2))})
    picture = (params["a<b>&"] * 2).tape().draw()
    ET.fromstring(picture.svg)
    assert "a&lt;b&gt;&amp;" in picture.svg


def test_released_and_retained_parts_are_marked() -> None:
    x = _leaf(3)
    loss = x.exp().sum()
    assert 'class="box op truncated' not in loss.tape().draw().svg
    loss.backward(retain_graph=True)
    picture = loss.tape().draw()
    assert 'class="box op retained"' in picture.svg
    assert "kept by test_drawing.py" in picture.graph.boxes[0].tip
    loss.backward()
    picture = loss.tape().draw()
    assert 'class="box op truncated"' in picture.svg
    assert "released by test_drawing.py" in picture.graph.boxes[0].tip
    assert "released" in picture.svg


def test_a_cut_is_drawn_as_a_cut() -> None:
    x, w = _leaf(3), _leaf(3)
    fake = x.exp()
    judged = (fake.detach() * w).sum()
    picture = judged.tape().draw()
    (arrow,) = [a for a in picture.graph.arrows if a.cut]
    assert picture.graph.boxes[arrow.tail].kind == "cut"
    assert picture.graph.boxes[arrow.tail].title == "exp"
    assert "\u2702" in picture.svg
    assert 'class="arrow cutline"' in picture.svg
    both = tg.live_tape().filter(where=lambda e: e in (fake.grad_fn, *judged.tape())).draw()
    (arrow,) = [a for a in both.graph.arrows if a.cut]
    assert both.graph.boxes[arrow.tail].kind == "op"
    _check_geometry(both)
    assert not [a for a in (fake * w).sum().tape().draw().graph.arrows if a.cut]
    (arrow,) = [a for a in (w.detach() * x).tape().draw().graph.arrows if a.cut]  # cut off from a leaf


def test_hooks_and_kept_gradients_are_told() -> None:
    x = _leaf(3)
    y = x.exp()
    y.register_hook(lambda g: None)
    y.retain_grad()
    x.register_hook(lambda g: None)
    x.register_post_accumulate_grad_hook(lambda t: None)
    loss = y.sum()
    boxes = {b.title: b.lines for b in loss.tape().draw().graph.boxes}
    assert boxes["x"][1:] == ["2 hooks"]
    assert boxes["exp"][-2:] == ["1 hook", "keeps its gradient"]
    assert not [line for line in boxes["sum"] if "hook" in line]
    loss.tape().watch()
    assert boxes == {b.title: b.lines for b in loss.tape().draw().graph.boxes}


def test_a_part_of_a_listing_shows_where_it_goes_on() -> None:
    x = _leaf(3)
    y = x.exp()
    picture = (y * 2).sum().tape().filter(op="mul").draw()
    assert [(b.kind, b.title) for b in picture.graph.boxes] == [("op", "mul"), ("outside", "exp")]
    assert not [a for a in picture.graph.arrows if a.cut]
    assert 'class="box outside"' in picture.svg


def test_norms_stand_on_the_arrows() -> None:
    w = tg.tensor([3.0, 4.0], requires_grad=True)
    loss = (w * w).sum()
    labels = [a.label for a in loss.tape().draw(gradients=True).graph.arrows]
    assert w.grad is None
    assert "\u2016g\u2016 1.41" in labels  # of ones, into the product
    assert "\u2016g\u2016 5" in labels  # what each factor gets
    tape = loss.tape().watch()
    (loss * 2).backward()
    assert w.grad.tolist() == [12.0, 16.0]
    assert "\u2016g\u2016 10" in [a.label for a in tape.draw().graph.arrows]
    with pytest.raises(RuntimeError, match="second time"):
        loss.tape().draw(gradients=True)
    with pytest.raises(RuntimeError, match="does not belong to one tensor"):
        tg.live_tape().draw(gradients=True)


def test_large_graphs_are_folded_by_module_and_by_line() -> None:
    with tg.record_modules():
        net = nn.Sequential(*[Block() for _ in range(60)])
        loss = net(tg.ones(2, 4)).sum()
    tape = loss.tape()
    assert len(tape) > 300
    picture = tape.draw()
    assert picture.graph.folded == "module"
    assert len(picture.graph.boxes) <= 300
    assert any("(Linear)" in b.title for b in picture.graph.boxes)
    assert sum(len(b.entries) for b in picture.graph.boxes) == len(tape)
    _check_geometry(picture)
    few = tape.draw(fold=70)
    assert len([b for b in few.graph.boxes if b.entries]) <= 70
    x = _leaf(2)
    y = x
    for _ in range(200):
        y = (y + x).tanh()
        y = y * 0.5
    picture = y.tape().draw()
    assert picture.graph.folded == "line"
    assert [len(b.entries) for b in picture.graph.boxes if b.entries] == [400, 200]
    assert any(a.back for a in picture.graph.arrows)  # the loop goes around
    _check_geometry(picture)


def test_an_empty_listing() -> None:
    x = _leaf(2)
    assert len(x.tape()) == 0
    assert x.tape()._repr_svg_() is None
    ET.fromstring(x.tape().draw().svg)


def test_graphviz() -> None:
    w, x = _leaf(3), tg.ones(3)
    loss = (w * x).sum()
    text = loss.tape().to_dot()
    assert text.startswith("digraph tape {")
    assert text.endswith("}")
    assert len(re.findall(r"^  n\d+ \[", text, re.MULTILINE)) == 4
    assert len(re.findall(r" -> ", text)) == 3
    assert "peripheries=2" in text


def test_a_sketch_in_characters() -> None:
    w, x = _leaf(3), tg.ones(3)
    a = w * x
    loss = (a.exp() * a).sum()
    lines = loss.tape().sketch().splitlines()
    assert [re.sub(r"#\d+", "#", line) for line in lines] == [
        "\u25cf  loss = sum(dims=(0,)) #  float32 []",
        "\u25cf  mul #  float32 [3]  saves input, other",
        "\u251c\u2500\u256e",
        "\u25cf \u2502  exp #  float32 [3]  saves out",
        "\u251c\u2500\u256f",
        "\u25cf  a = mul #  float32 [3]  saves other",
        "\u25cb  w: float32 [3]",
    ]


def test_a_sketch_of_any_graph_has_a_line_per_node() -> None:
    for out in (_residual(2), _dense(), _ladder()):
        text = out.tape().sketch()
        leaves = {id(e) for entry in out.tape() for e in entry.edges if isinstance(e, tg.Tensor)}
        assert sum("\u25cf" in line for line in text.splitlines()) == len(out.tape())
        assert sum("\u25cb" in line for line in text.splitlines()) == len(leaves)


def test_jupyter_shows_tensors_listings_and_modules() -> None:
    x = _leaf(3)
    y = x.exp()
    shown = y._repr_html_()
    assert shown is not None
    assert "grad_fn=&lt;ExpBackward0&gt;" in shown
    assert "<svg" in shown
    assert x._repr_html_() is None
    assert "<td" in y.tape()._repr_html_()
    net = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), Block())
    net[0].weight.requires_grad_(False)
    shown = net._repr_html_()
    assert "weight [3, 2] frozen" in shown
    assert "of them frozen" in shown
    ET.fromstring(shown)
