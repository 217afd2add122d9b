"""The tape as a table: what an entry tells, questions to a listing, and what keeps memory."""

from __future__ import annotations

import gc
import pathlib
import subprocess
import sys
import weakref
from collections.abc import Iterator

import pytest

import tapegrad as tg
from tapegrad import nn
from tapegrad.inspection.names import variables_of

HERE = pathlib.Path(__file__).name


@pytest.fixture
def modules_recorded() -> Iterator[None]:
    with tg.record_modules():
        yield


def _line(text: str) -> int:
    lines = pathlib.Path(__file__).read_text().splitlines()
    (found,) = [n for n, line in enumerate(lines, 1) if line.endswith(f"# {text}")]
    return found


def test_a_listing_prints_as_a_table_with_names_and_totals() -> None:
    w = tg.tensor([1.0, -2.0, 0.5], requires_grad=True)
    x = tg.tensor([0.3, 0.1, 2.0])
    loss = (w * x).tanh().sum()
    head, *rows, totals = repr(loss.tape()).splitlines()
    assert head.split() == ["#", "op", "inputs", "output", "saved", "line"]
    assert "w, const x" in rows[0]
    assert "other 12 B" in rows[0]
    assert "out 12 B" in rows[1]
    assert f"{HERE}:" in rows[2]
    assert totals == "3 entries, 24 bytes saved"
    assert len({row.index("float32") for row in rows}) == 1  # aligned


def test_a_row_tells_all_facts() -> None:
    w = tg.ones(2, 3, requires_grad=True)
    y = w.sum(dim=1, keepdim=True) ** 2.5  # here
    total, power = y.tape().rows()
    assert total.op == "sum"
    assert total.inputs == ("w",)
    assert total.outputs == ("float32 [2, 1]",)
    assert total.params["dims"] == (1,)
    assert (pathlib.Path(total.file).name, total.line) == (HERE, _line("here"))
    assert total.text.startswith("y = w.sum(")
    assert power.inputs[0] == f"#{total.position}"
    assert power.saved == {"input": 8}
    assert power.nbytes == 8
    assert power.params["other"] == 2.5
    assert power.state == "live"


def test_states_tell_what_a_backward_did() -> None:
    x = tg.ones(2, requires_grad=True)
    loss = (x * x).sum()
    assert [r.state for r in loss.tape().rows()] == ["live", "live"]
    loss.backward(retain_graph=True)
    assert [r.state for r in loss.tape().rows()] == ["retained", "retained"]
    assert len(loss.tape().filter(state="retained")) == 2
    assert "retained" in repr(loss.tape())
    loss.backward()
    mul, total = loss.tape()
    assert mul.truncated
    assert not mul.retained
    assert mul.saved.where
    assert total.retained  # it saves nothing, so there was nothing to release
    assert set(loss.tape().summary(by="state")) == {"truncated", "retained"}
    with pytest.raises(ValueError, match="'live', 'retained', 'truncated'"):
        loss.tape().filter(state="kept")


def test_filters_and_summaries() -> None:
    x = tg.ones(100, requires_grad=True)
    y = x.exp() * x  # two
    loss = y.sin().sum()
    tape = loss.tape()
    assert [e.op.name for e in tape.filter(op="exp")] == ["exp"]
    assert [e.op.name for e in tape.filter(line=f"{HERE}:{_line('two')}")] == ["exp", "mul"]
    assert [e.op.name for e in tape.filter(nbytes=500)] == ["mul"]
    assert [e.op.name for e in tape.filter(where=lambda e: e.edges[0].__class__ is not tg.Tensor)] == [
        "mul",
        "sin",
        "sum",
    ]
    by_op = tape.summary()
    assert by_op["mul"] == (1, 800)
    assert next(iter(by_op)) == "mul"
    assert repr(by_op).splitlines()[0].split() == ["op", "entries", "bytes", "saved"]
    by_line = tape.summary(by="line")
    assert [count for count, _ in by_line.values()] == [2, 2]
    assert len(tape[1:3]) == 2
    with pytest.raises(ValueError, match="'module'"):
        tape.summary(by="file")


def test_long_listings_are_cut_in_the_middle() -> None:
    x = y = tg.ones(2, requires_grad=True)
    for _ in range(1000):
        y = y + x
    first, last = y.tape()[0].position, y.tape()[-1].position
    lines = repr(y.tape()).splitlines()
    assert len(lines) == 203
    assert lines[101] == "... 800 more ..."
    assert lines[1].split()[0] == str(first)
    assert lines[100].split()[0] == str(first + 99)
    assert lines[102].split()[0] == str(last - 99)
    assert lines[-1] == "1000 entries, 0 bytes saved"
    assert "... 800 more ..." in y.tape()._repr_html_()
    assert len(y.tape().rows()) == 1000


def test_diff_counts_what_came_and_what_went() -> None:
    x = tg.ones(4, requires_grad=True)
    old = x.exp()
    before = tg.live_tape().moment()
    new = x.sin().cos()
    change = tg.live_tape().diff(before)
    assert [e.op.name for e in change] == ["sin", "cos"]
    assert change.gone == 0
    del old, change
    change = tg.live_tape().diff(before)
    assert change.gone == 1
    assert repr(change).endswith(", 1 gone")
    del new


# -- modules ----------------------------------------------------------------------------------------


class Twin(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
        self.head = nn.Linear(2, 1)

    def forward(self, x: tg.Tensor, scale: float = 2.0) -> tuple[tg.Tensor, tg.Tensor]:
        hidden = self.layers(x)
        return hidden, self.head(hidden * scale)


def test_modules_are_named_by_their_path(modules_recorded: None) -> None:
    net = Twin()
    hidden, out = net(tg.ones(5, 3))
    loss = out.mean() + hidden.sum()
    found = [(r.op, r.module) for r in loss.tape().rows()]
    assert found == [
        ("linear", "layers.0"),
        ("tanh", "layers.1"),
        ("linear", "layers.2"),
        ("mul", "net"),
        ("linear", "head"),
        ("mean", ""),
        ("sum", ""),
        ("add", ""),
    ]
    assert loss.tape().rows()[0].inputs == ("const", "layers.0.weight", "layers.0.bias")
    assert [e.op.name for e in loss.tape().filter(module="layers")] == ["linear", "tanh", "linear"]
    assert [e.op.name for e in loss.tape().filter(module="layers.1")] == ["tanh"]
    assert loss.tape().summary(by="module")["layers.0"][0] == 1


def test_a_module_called_twice_and_two_networks_in_a_row(modules_recorded: None) -> None:
    first, second = nn.Linear(3, 3), nn.Sequential(nn.Linear(3, 3))
    y = second(first(first(tg.ones(2, 3))))
    rows = y.tape().rows()
    assert [r.module for r in rows] == ["first", "first", "second.0"]
    assert rows[2].inputs[1:] == ("second.0.weight", "second.0.bias")


def test_inplace_modules_containers_and_unchanged_results(modules_recorded: None) -> None:
    net = nn.Sequential(nn.Linear(2, 2), nn.ReLU(inplace=True), nn.Identity(), nn.Dropout(0.0).eval())
    y = net(tg.ones(1, 2))
    assert [r.module for r in y.tape().rows() if r.op != "linear"] == ["1"]
    rnn = nn.LSTM(2, 3)
    out, (h, c) = rnn(tg.ones(4, 1, 2))
    assert {r.module for r in (out.sum() + h.sum() + c.sum()).tape().rows()} == {"rnn", ""}


def test_modules_are_not_noted_unless_asked() -> None:
    net = nn.Linear(2, 2)
    y = net(tg.ones(1, 2))
    assert y.tape().rows()[0].module == ""
    assert "module" not in repr(y.tape()).splitlines()[0]
    tg.record_modules()
    try:
        assert net(tg.ones(1, 2)).tape().rows()[0].module == "net"
    finally:
        tg.record_modules(False)
    assert net(tg.ones(1, 2)).tape().rows()[0].module == ""


def test_a_module_that_keeps_its_result_makes_no_cycle(modules_recorded: None) -> None:
    class Keeper(nn.Module):
        def forward(self, x: tg.Tensor) -> tg.Tensor:
            self.__dict__["last"] = x.exp()
            return self.__dict__["last"]

    net = Keeper()
    gone = weakref.ref(net)
    out = net(tg.ones(2, requires_grad=True))
    gc.disable()
    try:
        del net
        assert gone() is None
    finally:
        gc.enable()
    assert [r.module for r in out.tape().rows()] == [""]


def test_results_do_not_depend_on_what_is_noted() -> None:
    def run() -> list[list[float]]:
        tg.manual_seed(0)
        net = Twin()
        hidden, out = net(tg.ones(5, 3))
        (out.mean() + hidden.sum()).backward()
        return [p.grad.flatten().tolist() for p in net.parameters()]

    plain = run()
    with tg.record_modules():
        assert run() == plain


# -- rules and kernels ------------------------------------------------------------------------------


def test_an_entry_shows_its_rule_and_its_kernel() -> None:
    x, c = tg.ones(3, requires_grad=True), tg.ones(3)
    (mul,) = (x * c).tape()
    assert mul.rule == "input: lambda g, other: g * other"
    assert "def mul(" in mul.kernel
    assert "def mul_vjp(" in mul.kernel
    (both,) = (x * x).tape()
    assert both.rule.splitlines() == [
        "input: lambda g, other: g * other",
        "other: lambda g, input: g * input",
    ]
    (total,) = x.sum().tape()
    assert "def _sum(" in total.kernel
    (added,) = (x + c).tape()
    assert "handed through" in added.kernel


def test_derived_and_written_rules() -> None:
    @tg.elementwise
    def swish(v: tg.Tensor, *, beta: float) -> tg.Tensor:
        return v * tg.sigmoid(beta * v)

    class Cube(tg.autograd.Function):
        @staticmethod
        def forward(ctx: tg.autograd.FunctionCtx, x: tg.Tensor) -> tg.Tensor:
            ctx.save_for_backward(x)
            return x * x * x

        @staticmethod
        def backward(ctx: tg.autograd.FunctionCtx, g: tg.Tensor) -> tg.Tensor:
            (x,) = ctx.saved_tensors
            return 3 * x * x * g

    x = tg.ones(3, requires_grad=True)
    (entry,) = swish(x, beta=1.5).tape()
    assert entry.rule.startswith("v: t0 = sigmoid((beta * v)); ")
    assert "(g * t0)" in entry.rule
    (entry,) = Cube.apply(x).tape()
    assert "return 3 * x * x * g" in entry.rule
    assert "ctx.save_for_backward(x)" in entry.kernel


def test_every_op_of_the_library_shows_its_rules() -> None:
    from tapegrad import op, sources

    for name, made in op.registry.items():
        text = sources.rules_text(made, (True,) * max(1, len(made.inputs)))
        assert bool(text) == bool(made.rules), name
        assert "..." not in text.split(":")[-1], name


# -- memory -----------------------------------------------------------------------------------------


def test_a_leak_made_on_purpose_is_found_in_one_call() -> None:
    weight = tg.ones(1000, requires_grad=True)
    losses = []
    for _ in range(5):
        losses.append((weight.exp() * 2).sum())  # leaks
    (where, (count, nbytes)), *_ = tg.live_tape().summary(by="line").items()
    assert f"{HERE}:{_line('leaks')}" in where
    assert (count, nbytes) == (15, 20_000)
    carried = tg.ones(1000)
    for _ in range(6):
        carried = tg.tanh(carried * weight)  # grows
        carried.sum().backward(retain_graph=True)
    grown = tg.live_tape().filter(state="retained", line=f"{HERE}:{_line('grows')}")
    assert len(grown) == 12
    assert "retained" in repr(grown)
    losses.clear()


def test_asking_keeps_nothing_alive() -> None:
    def inner() -> list[weakref.ref[tg.Tensor]]:
        x = tg.ones(3, requires_grad=True)
        y = x.exp()
        repr(y.tape())
        picture, player = y.tape().draw(), y.tape().play()
        tg.explain(y)
        gone = [weakref.ref(y)]
        del y
        assert gone[0]() is None
        assert picture.svg
        assert player.html
        assert not [e for e in tg.live_tape() if e.edges[0] is x]  # a picture keeps no graph
        return gone

    gc.disable()
    try:
        (gone,) = inner()
        assert gone() is None
    finally:
        gc.enable()


def test_a_part_of_a_listing_holds_only_its_part() -> None:
    x = tg.ones(3, requires_grad=True)
    y, z = x.exp(), x.sin()
    gone = weakref.ref(z.grad_fn)
    part = tg.live_tape().filter(op="exp")
    del z
    gc.collect()
    assert gone() is None
    assert "y" in part.draw().svg
    del y


def test_variables_taken_with_locals_stay() -> None:
    value = 3
    mine = locals()
    assert variables_of(sys._getframe(0))["value"] == value
    assert mine["value"] == 3


def test_strange_objects_are_left_alone() -> None:
    class Proxy:
        @property
        def __class__(self) -> type:  # type: ignore[override]
            raise RuntimeError("asked for its class")

    class Dead:
        pass

    proxy, gone = Proxy(), weakref.proxy(Dead())
    held = [proxy, gone]
    y = tg.ones(2, requires_grad=True).exp()
    repr(y.tape()), y.tape().draw(), y.tape().play(), tg.explain(y), tg.explain(y.detach())
    assert len(held) == 2


def test_lines_can_be_switched_off() -> None:
    program = "import tapegrad as tg; print((tg.ones(1, requires_grad=True) * 2).tape())"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={
            "TAPEGRAD_LINES": "0",
            "PATH": "/usr/bin",
            "PYTHONPATH": str(pathlib.Path(tg.__file__).parents[1]),
        },
        capture_output=True,
        text=True,
        check=True,
    )
    assert "lines are not recorded" in done.stdout
