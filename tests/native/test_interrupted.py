"""Programs that raise or are stopped on their way, and what others see of a run."""

from __future__ import annotations

from typing import Any

import pytest

import tapegrad as tg
import tapegrad.nn.functional as F
from tests.native.calls import check, same, short, tensor, warmed


def test_bad_values_raise_and_leave_everything_as_it_was() -> None:
    w = tensor(3, 3, grad=True)

    def plain(x: Any, t: Any) -> Any:
        loss = F.cross_entropy(x @ w, t)
        loss.backward()
        return loss.detach()

    good, bad = tg.tensor([0, 1, 2, 0]), tg.tensor([0, 1, 9, 0])
    fn = tg.compile(plain)
    for seed in range(4):
        w.grad = None
        fn(tensor(4, 3, seed=seed), good)
    w.grad = None
    _, taken = short(fn, tensor(4, 3), good)
    assert taken
    w.grad = None
    for _ in range(2):
        with pytest.raises(IndexError):
            fn(tensor(4, 3), bad)
        assert w.grad is None
        found, _ = short(fn, tensor(4, 3, seed=1), good)
        grad, w.grad = w.grad, None
        expected = plain(tensor(4, 3, seed=1), good)
        same((expected, w.grad), (found, grad))
        w.grad = None


def test_a_program_that_is_stopped_runs_again(monkeypatch: pytest.MonkeyPatch) -> None:
    w = tensor(3, grad=True)

    def plain(x: Any) -> Any:
        w.grad = None
        loss = (w * x).sum()
        loss.backward()
        return loss.detach()

    fn = warmed(plain, lambda seed: (tensor(3, seed=seed),))
    ((recording,),) = fn.recordings.values()
    spaces = len(recording.program.spaces)
    scope = fn._enter.__globals__
    machine = scope["program"]

    def stopped(*args: Any) -> None:
        raise KeyboardInterrupt

    before = w.grad
    monkeypatch.setitem(scope, "program", stopped)
    with pytest.raises(KeyboardInterrupt):
        fn(tensor(3, seed=5))
    assert w.grad is before
    monkeypatch.setitem(scope, "program", machine)
    assert len(recording.program.spaces) == spaces
    found, taken = short(fn, tensor(3, seed=5))
    assert taken
    grad = w.grad
    same((plain(tensor(3, seed=5)), w.grad), (found, grad))


def test_versions_of_what_is_changed_in_place() -> None:
    counter = tg.zeros(3)

    def plain(x: Any) -> Any:
        counter.add_(x)
        return counter * 2

    fn = warmed(plain, lambda seed: (tg.ones(3),))
    w = tg.ones(3, requires_grad=True)
    saved = w * counter
    _, taken = short(fn, tg.ones(3))
    assert taken
    assert counter.tolist() == [4.0, 4.0, 4.0]
    with pytest.raises(RuntimeError, match="modified by an in-place operation"):
        saved.sum().backward()


def test_anomalies_and_saved_tensors_hooks_inside() -> None:
    fn = warmed(lambda x: (x * x).sum(), lambda seed: (tensor(3, seed=seed, grad=True),))
    x = tensor(3, seed=3, grad=True)
    with tg.autograd.detect_anomaly():
        found, _ = short(fn, x)
        found.backward()
    same(x.grad, x.detach() * 2)


def test_compiled_functions_inside_of_others_and_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    inner = warmed(lambda x: x * 2, lambda seed: (tensor(3, seed=seed),))
    outer = warmed(lambda x: inner(x) + 1, lambda seed: (tensor(3, seed=seed),))
    check(inner, tensor(3), short_way=None)
    check(inner, tensor(3))
    check(outer, tensor(3))
    seen = []
    fn = tg.compile(lambda x: seen.append(1) or x * 2)
    for _ in range(3):
        fn(tensor(3))
    count = len(seen)
    monkeypatch.setattr(tg.config, "compiling", False)
    fn(tensor(3)), fn(tensor(3))
    assert len(seen) == count + 2
