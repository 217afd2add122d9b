"""The player: what its steps say, its state machine in a JavaScript engine, and the page clicked through in a browser."""

from __future__ import annotations

import json
import pathlib
import shutil
import subprocess

import pytest

import tapegrad as tg
from tapegrad import nn
from tests.inspection import chromium

SCRIPT = pathlib.Path(tg.inspection.__file__).parent / "player.js"


def _weight() -> tg.Tensor:
    return tg.tensor([1.0, -2.0, 0.5], requires_grad=True)


def _loss(w: tg.Tensor) -> tg.Tensor:
    y = (w * tg.tensor([0.3, 0.1, 2.0])).tanh()
    return ((y - 0.5) ** 2).sum()


def test_steps_tell_what_is_saved_what_flows_and_what_is_released() -> None:
    w = _weight()
    loss = _loss(w)
    player = loss.tape().play()
    phases = [s["phase"] for s in player.steps]
    assert phases == ["start", *["record"] * 5, "seed", *["replay"] * 5, "end"]
    recorded = player.steps[1]
    assert recorded["inputs"] == ["w", "const"]
    assert recorded["saved"][0]["name"] == "other"
    assert recorded["saved"][0]["numbers"] == "[0.3000, 0.1000, 2.0000]"
    # The difference is not kept by its own entry, but by the square.
    assert "note" not in player.steps[3]["outputs"][0]
    squared = player.steps[4]["outputs"][0]
    assert "computed again" in squared["note"]
    assert json.loads(squared["numbers"]) == pytest.approx([0.0436, 0.4864, 0.0684], abs=2e-4)
    replayed = [s["title"].split(": ")[1] for s in player.steps if s["phase"] == "replay"]
    assert replayed == ["sum", "square", "sub", "tanh", "mul"]
    last = player.steps[-2]
    assert last["freed"] == ["other"]
    assert last["delivered"][0]["name"] == "w.grad"
    loss.backward()
    shown = last["delivered"][0]["numbers"]
    assert json.loads(shown) == pytest.approx(w.grad.tolist(), abs=1e-4)


def test_playing_changes_nothing() -> None:
    w = _weight()
    loss = _loss(w)
    seen: list[int] = []
    w.register_hook(lambda g: seen.append(1))
    loss.grad_fn.register_hook(lambda gi, go: seen.append(2))
    before = loss.tape().nbytes
    player = loss.tape().play()
    assert seen == []
    assert w.grad is None
    assert loss.tape().nbytes == before
    assert [r.state for r in loss.tape().rows()] == ["live"] * 5
    assert next(s for s in player.steps if s["phase"] == "replay")["hooks"] == 1
    loss.backward()
    assert seen == [2, 1]


def test_only_ops_that_do_nothing_else_are_computed_again() -> None:
    tg.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 4, bias=False), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Linear(4, 2))
    out = net(tg.randn(6, 3))
    tape = (out * out).sum().tape()
    del out
    state, counted = tg.get_rng_state(), net[1].num_batches_tracked.item()
    running = net[1].running_mean.tolist()
    steps = [s for s in tape.play().steps if s["phase"] == "record"]
    assert tg.equal(tg.get_rng_state(), state)
    assert net[1].num_batches_tracked.item() == counted
    assert net[1].running_mean.tolist() == running
    notes = {s["title"].split(": ")[1].split("(")[0]: s["outputs"][0].get("note", "") for s in steps}
    assert notes["mul"].startswith("computed again")
    assert notes["sum"].startswith("computed again")
    assert not any(notes[op].startswith("computed again") for op in notes if "norm" in op or op == "dropout")


def test_a_released_tape_plays_its_recording() -> None:
    w = _weight()
    loss = _loss(w)
    loss.backward()
    player = loss.tape().play()
    assert [s["phase"] for s in player.steps] == ["start", *["record"] * 5, "end"]
    assert "released by the backward at" in player.steps[-1]["text"]
    with pytest.raises(RuntimeError, match="does not belong to one tensor"):
        tg.live_tape().play()


def test_large_arrays_become_histograms() -> None:
    x = tg.linspace(0, 1, 1000).requires_grad_()
    step = x.exp().sum().tape().play().steps[1]
    saved = step["saved"][0]
    assert sum(saved["histogram"]) == 1000
    assert saved["low"] == pytest.approx(1.0)
    assert saved["high"] == pytest.approx(2.71828, rel=1e-4)
    bad = tg.full((100,), float("nan"))
    bad[0] = float("inf")
    step = (x[:100] * bad).sum().tape().play().steps[2]
    assert step["saved"][0]["nan"] == 99
    assert step["saved"][0]["inf"] == 1
    assert "histogram" not in step["saved"][0]


def test_the_page_is_self_contained(tmp_path: pathlib.Path) -> None:
    w = _weight()
    loss = _loss(w)
    player = loss.tape().play(tmp_path / "tape.html")
    text = (tmp_path / "tape.html").read_text()
    assert text == player.html
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "")
    assert "src=" not in text
    assert "<iframe srcdoc=" in player._repr_html_()


def test_the_state_machine_goes_forth_and_back() -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("no node to run the player's script with; the page itself is tested in a browser")
    w = _weight()
    loss = _loss(w)
    steps = loss.tape().play().steps
    program = f"""
        const p = require({json.dumps(str(SCRIPT))});
        const data = {{steps: {json.dumps(steps)}}};
        const all = data.steps.map((_, i) => p.stateAt(data, i));
        console.log(JSON.stringify({{
          bytes: all.map(s => s.bytes), recorded: all.map(s => s.recorded.size), released: all.map(s => s.released.size),
          clamped: [p.clamp(data, -3), p.clamp(data, 99)], panels: all.map(s => p.panelHtml(s)), again: p.stateAt(data, 3).bytes,
        }}));
    """
    done = subprocess.run([node, "-e", program], capture_output=True, text=True, check=True)
    state = json.loads(done.stdout)
    assert state["bytes"] == [0, 12, 24, 24, 36, 36, 36, 36, 24, 24, 12, 0, 0]
    assert state["recorded"] == [0, 1, 2, 3, 4, 5, 5, 5, 5, 5, 5, 5, 5]
    assert state["released"] == [0] * 8 + [1, 1, 2, 3, 3]
    assert state["clamped"] == [0, 12]
    assert state["again"] == 24
    assert "releases other" in state["panels"][11]
    assert "w.grad" in state["panels"][12]


def _browser() -> str:
    program = chromium.find()
    if program is None:
        pytest.skip("no Chromium to click through the page with")
    return program


def test_the_page_is_clicked_through(tmp_path: pathlib.Path) -> None:
    w = _weight()
    loss = _loss(w)
    player = loss.tape().play(tmp_path / "tape.html")
    last = len(player.steps) - 1
    with chromium.Page(_browser()) as page:
        page.open((tmp_path / "tape.html").as_uri(), "document.getElementById('count').textContent")

        def number() -> int:
            return int(page.js("document.getElementById('slider').value"))

        def title() -> str:
            return str(page.js("document.querySelector('#panel h2').textContent"))

        assert number() == 0
        assert page.js("document.getElementById('back').disabled") is True
        assert page.js("document.querySelectorAll('g.box.op.future').length") == 5
        titles = [title()]
        for step in range(1, last + 1):
            page.click("#forth")
            assert number() == step
            titles.append(title())
        assert titles == [s["title"] for s in player.steps]
        assert page.js("document.getElementById('forth').disabled") is True
        assert page.js("document.getElementById('bytes').textContent") == "0 bytes saved now"
        assert page.js("document.querySelectorAll('g.box.op.truncated').length") == 3
        assert "w.grad" in page.js("document.getElementById('panel').textContent")
        for step in range(last - 1, -1, -1):  # and back again: the same states
            page.click("#back")
            assert (number(), title()) == (step, titles[step])
        assert page.js("document.querySelectorAll('g.box.op.truncated').length") == 0
        page.press("ArrowRight")
        page.press("ArrowRight")
        assert number() == 2
        assert page.js("document.querySelectorAll('g.box.now').length") == 1
        assert page.js("document.querySelectorAll('g.arrow.flow').length") == 1
        page.press("End")
        assert number() == last
        page.click("#first")
        assert number() == 0
        page.click("#play")
        assert "pause" in page.js("document.getElementById('play').textContent")
        page.click("#play")
        assert "play" in page.js("document.getElementById('play').textContent")
        assert page.errors == []


@pytest.mark.parametrize("dark", [False, True])
def test_text_in_pictures_stays_inside_its_box(tmp_path: pathlib.Path, dark: bool) -> None:
    with tg.record_modules():
        net = nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.GELU(), nn.Linear(4, 2))
        loss = nn.CrossEntropyLoss()(net(tg.ones(5, 3)), tg.zeros(5, dtype=tg.int64))
    loss.tape().draw(gradients=True).save(tmp_path / "tape.svg")
    with chromium.Page(_browser(), dark=dark) as page:
        page.open((tmp_path / "tape.svg").as_uri(), "document.documentElement")
        outside = page.js(
            """[...document.querySelectorAll('g.box')].filter(g => {
                const r = g.querySelector('rect').getBBox();
                return [...g.querySelectorAll('text')].some(t => {
                    const b = t.getBBox();
                    return b.x < r.x - 1 || b.x + b.width > r.x + r.width + 1 || b.y + b.height > r.y + r.height + 3;
                });
            }).map(g => g.textContent)"""
        )
        assert outside == []
        paper, ink = page.js(
            """['.paper', 'text.title'].map(s => getComputedStyle(document.querySelector(s)).fill)"""
        )
        assert (paper, ink) == (
            ("rgb(21, 25, 31)", "rgb(230, 237, 243)") if dark else ("rgb(255, 255, 255)", "rgb(27, 31, 36)")
        )
        assert page.errors == []
