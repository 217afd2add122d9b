"""Steps that take turns over blocks of rows: the same bits as one after the other, with less memory."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.kernels.jit import PLAIN
from tapegrad.native.passes import bands
from tapegrad.native.steps import Band
from tapegrad.nn import functional as F

from . import programs

pytestmark = pytest.mark.skipif(PLAIN, reason="a band is machine code that calls machine code")
passes = sys.modules[bands.__module__]


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bands also where little memory is touched, and of few rows."""
    monkeypatch.setattr(passes, "LEAST", 0)
    monkeypatch.setattr(passes, "BLOCK", 1)


@pytest.fixture
def threads() -> Iterator[Callable[[int], None]]:
    before = tg.get_num_threads()
    yield tg.set_num_threads
    tg.set_num_threads(before)


def draw(*shape: int, seed: int = 0) -> Any:
    return tg.from_numpy(np.random.default_rng(seed).standard_normal(shape).astype(np.float32))


def bits(results: Any) -> list[bytes]:
    return [
        r.detach().numpy().tobytes() for r in (results if isinstance(results, (tuple, list)) else [results])
    ]


def both(function: Callable[..., Any], *args: Any) -> tuple[Any, Any]:
    """The function compiled without and with bands, called twice each and with the same bits."""
    plain, banded = tg.compile(function, without=("bands",)), tg.compile(function)
    for _ in range(2):
        expected, found = bits(plain(*args)), bits(banded(*args))
        assert found == expected
    assert not any(isinstance(s, Band) for s in plain.tape)
    return plain, banded


def found(compiled: Any) -> list[str]:
    return [s.name for s in compiled.tape if isinstance(s, Band)]


def gradient(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function's value and the gradient of its first argument."""

    def both(x: Any, *args: Any) -> Any:
        x = x.detach().requires_grad_()
        y = function(x, *args)
        return (y.detach(), *tg.autograd.grad(y, [x], tg.ones(*y.shape)))

    return both


def standardised(x: Any) -> Any:
    return ((x - x.mean(1, keepdim=True)) / x.std(1, keepdim=True)).relu()


def manual_softmax(x: Any) -> Any:
    e = (x - x.amax(1, keepdim=True)).exp()
    return e / e.sum(1, keepdim=True)


def cross_entropy(x: Any) -> Any:
    return F.cross_entropy(x * 2, tg.arange(len(x)) % x.shape[1], reduction="none") * 3


CASES: dict[str, tuple[Callable[..., Any], set[str]]] = {
    "loss": (lambda x: ((x - 1) ** 2).mean(), {"sums_rows"}),
    "rows": (lambda x: (x * x).sum(1).sqrt(), {"sums_rows"}),
    "softmax": (lambda x: F.softmax(x * 0.5 + 1, -1), {"softmax_rows"}),
    "log_softmax": (lambda x: F.log_softmax(x * 0.5, -1).exp(), {"log_softmax_rows"}),
    "softmax_grad": (gradient(lambda x: F.softmax(x * 0.5, -1).square()), {"softmax_rows", "softmax_grad_rows"}),
    "log_softmax_grad": (gradient(lambda x: F.log_softmax(x * 0.5, -1) * x), {"log_softmax_grad_rows"}),
    "cross_entropy": (cross_entropy, {"cross_entropy_rows"}),
    "cross_entropy_grad": (gradient(lambda x: cross_entropy(x).square()), {"cross_entropy_grad_rows"}),
    "layer_norm": (lambda x: F.layer_norm(x + x.tanh(), x.shape[1:]), {"normalize_rows"}),
    "layer_norm_grad": (gradient(lambda x: F.layer_norm(x.tanh(), x.shape[1:]).square()), {"normalize_rows_grad"}),
    "manual softmax": (manual_softmax, {"largest_rows", "sums_rows"}),
    "standardised": (standardised, {"moments_rows", "finish_moments"}),
    "logsumexp": (lambda x: (x * 2).logsumexp(1), set()),
    "norm": (lambda x: x / x.square().sum(1, keepdim=True).sqrt(), {"sums_rows"}),
    "broadcast row": (lambda x: (x * x[0]).sum(1), {"sums_rows"}),
}  # fmt: skip


@pytest.mark.usefixtures("narrow")
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("shape", [(64, 33), (37, 5), (9, 700)])
def test_the_same_bits(name: str, shape: tuple[int, int]) -> None:
    function, wanted = CASES[name]
    _, banded = both(function, draw(*shape))
    inside = {k for name in found(banded) for k in name.split(" | ")}
    if name != "loss":  # of so few elements that they are no rows
        assert wanted <= inside, banded.tape


@pytest.mark.usefixtures("narrow")
@pytest.mark.parametrize("size", [40_000, 65_536, 65_537, 200_001])
def test_a_loss_over_chunks(size: int) -> None:
    _, banded = both(lambda x, y: ((x - y) ** 2).mean(), draw(size), draw(size, seed=1))
    assert found(banded) == ["fused | sums_rows"]


@pytest.mark.parametrize("count", [1, 2, 3, 8])
def test_any_number_of_threads(count: int, threads: Callable[[int], None]) -> None:
    x, y = draw(4097, 517), draw(4097, 517, seed=1)
    threads(1)
    expected = bits(F.softmax(x * y, -1))
    threads(count)
    compiled = tg.compile(lambda x, y: F.softmax(x * y, -1))
    for _ in range(3):
        assert bits(compiled(x, y)) == expected
    assert found(compiled) == ["mul | softmax_rows"]
    assert compiled.tape.program.arena_size < x.numel()  # a quarter of the product's bytes


def test_small_steps_are_left_alone() -> None:
    _, banded = both(lambda x: F.softmax(x * 2, -1), draw(64, 64))
    assert not found(banded)


@pytest.mark.usefixtures("narrow")
def test_what_other_rows_need_is_made_before() -> None:
    def mixed(x: Any) -> Any:
        y = x * 2
        return y.sum(1), (y.flip(0) + y).exp().sum(1), (y.t() * y).amax(1)

    both(mixed, draw(40, 40))


@pytest.mark.usefixtures("narrow")
def test_writes_in_place_and_views() -> None:
    def step(x: Any) -> Any:
        y = x.clone()
        y.mul_(2)
        rest = y[:, 3:].softmax(1)
        y[:, :3] = rest[:, :3]
        return y.tanh().sum(1), y, rest

    both(step, draw(50, 20))


@pytest.mark.usefixtures("narrow")
def test_threads_of_python_at_once() -> None:
    compiled = tg.compile(lambda x: F.softmax(x * 3, -1).square().sum(1))
    inputs = [draw(300, 70, seed=s) for s in range(4)]
    expected = [bits(compiled(x)) for x in inputs]
    wrong: list[int] = []

    def work(j: int) -> None:
        for _ in range(50):
            if bits(compiled(inputs[j])) != expected[j]:
                wrong.append(j)

    workers = [threading.Thread(target=work, args=(j,)) for j in range(4)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    assert not wrong
    assert found(compiled)


@pytest.mark.usefixtures("narrow")
def test_saved_and_loaded(tmp_path: Any) -> None:
    compiled = tg.compile(lambda x: F.softmax(x * 3, -1).square().sum(1))
    x = draw(60, 20)
    expected = [bits(compiled(x)) for _ in range(2)][-1]
    compiled.save(tmp_path / "program")
    loaded = tg.load_compiled(tmp_path / "program")
    assert bits(loaded(x)) == expected
    assert any(isinstance(s, Band) for s in loaded.program.steps)


@pytest.mark.usefixtures("narrow")
def test_the_body_of_a_scan() -> None:
    x = y = draw(20, 30)
    last, sums = tg.scan(lambda c, step: (F.softmax(c * 1.5 * step, -1), c.sum(1)), x, tg.ones(5))
    for j in range(5):
        assert tg.allclose(sums[j], y.sum(1))
        y = F.softmax(y * 1.5, -1)
    assert tg.allclose(last, y)


@pytest.mark.usefixtures("narrow")
@pytest.mark.parametrize("chunk", range(4))
def test_random_programs(chunk: int) -> None:
    compared = 0
    for seed in range(5000 + 8 * chunk, 5008 + 8 * chunk):
        eager = programs.observed(seed, [2, 2, 3, 2], False)
        if not programs.wild(eager):
            compared += 1
            difference = programs.difference(eager, programs.observed(seed, [2, 2, 3, 2], True))
            assert difference is None, f"seed {seed}: {difference}"
    assert compared > 4


@pytest.mark.usefixtures("narrow")
def test_report_names_the_steps_and_their_kernels() -> None:
    compiled = tg.compile(lambda x: F.softmax(x * 3, -1))
    compiled(draw(60, 20)), compiled(draw(60, 20))
    assert "mul | softmax_rows" in repr(compiled.tape)
    assert "mul | softmax_rows" in compiled.report(profile=True)
    assert [k.split("-")[0] for k in sorted(compiled.kernels)] == ["band", "mul", "softmax.softmax_rows_f4"]
    assert "in a band" in compiled.report(profile=True)
    drawing = compiled.tape.draw()._repr_svg_()
    assert "band of rows" in drawing
    assert "softmax_rows(" in drawing
