"""Compiled functions in several threads at once."""

from __future__ import annotations

import contextlib
import sys
import threading
from typing import Any

import numpy as np
import pytest

import tapegrad as tg
from tests.native.calls import check, same, tensor, warmed

WEIGHT = tensor(3, 3, seed=7, grad=True)


def test_two_threads_at_once() -> None:
    w = tensor(64, 64, seed=1)
    fn = warmed(lambda x: (x @ w).tanh().sum(1), lambda seed: (tensor(16, 64, seed=seed),))
    inputs = [tensor(16, 64, seed=s) for s in range(8)]
    expected = [fn.function(x) for x in inputs]
    wrong: list[Any] = []

    def work(number: int) -> None:
        for turn in range(60):
            at = (number + turn) % len(inputs)
            with tg.no_grad() if turn % 5 == 4 else contextlib.nullcontext():
                found = fn(inputs[at])
            if not np.allclose(found.numpy(), expected[at].numpy(), atol=1e-5):
                wrong.append((number, turn))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong
    check(fn, inputs[0], short_way=None)


def test_threads_that_record_at_the_same_time() -> None:
    # While one of them records, another one must not give the ops their short ways back, which nobody would see.
    for _ in range(3):
        (tensor(5) * tensor(5) + 1).tanh() - tensor(5) / tensor(5)  # the ops learn their short ways
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    wrong: list[Any] = []

    def work(number: int) -> None:
        for turn in range(40):
            fn = tg.compile(lambda x, y: (x * y + number).tanh() - x / y)
            for seed in range(3):
                x, y = tensor(5, seed=seed), tensor(5, seed=seed + 20)
                found = fn(x, y)
                if not np.allclose(found.numpy(), fn.function(x, y).numpy(), atol=1e-5):
                    wrong.append((number, turn, seed))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(3)]
    try:
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    finally:
        sys.setswitchinterval(before)
    assert not wrong


def test_threads_that_use_a_recording_for_the_first_time_at_once() -> None:
    wrong: list[Any] = []
    for turn in range(20):
        fn = tg.compile(lambda x: (x * (tg.arange(8.0) * 2 + 1) + turn).tanh() * tg.ones(8))  # noqa: B023
        x = tensor(8, seed=turn)
        expected = fn(x)
        barrier = threading.Barrier(3)

        def work(fn: Any = fn, x: Any = x, expected: Any = expected, barrier: Any = barrier) -> None:
            barrier.wait()
            try:
                same([expected] * 3, [fn(x) for _ in range(3)])
            except (AssertionError, AttributeError, RuntimeError) as err:
                wrong.append(err)

        threads = [threading.Thread(target=work) for _ in range(3)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert not wrong
        assert sum(map(len, fn.recordings.values())) == 1


@pytest.mark.parametrize("short_way", [True, False])
def test_threads_draw_other_random_numbers(short_way: bool) -> None:
    generator = tg.Generator()

    def plain(x: Any) -> Any:
        return x + tg.rand(50_000, generator=generator)

    fn = tg.compile(plain if short_way else lambda x: {"sum": plain(x)})
    x = tg.zeros(50_000)
    for _ in range(3):
        fn(x)
    assert (fn._enter is not None) == short_way
    generator.manual_seed(1)
    expected = {tuple(plain(x)[:4].tolist()) for _ in range(60)}
    generator.manual_seed(1)
    drawn: list[Any] = []

    def work() -> None:
        for _ in range(20):
            found = fn(x)
            drawn.append(tuple((found if short_way else found["sum"])[:4].tolist()))

    threads = [threading.Thread(target=work) for _ in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(drawn) == 60
    assert set(drawn) == expected, "in some order, those of one thread"


def test_threads_with_grad_modes_of_their_own() -> None:
    fn = warmed(lambda x: (x * WEIGHT).sum(), lambda seed: (tensor(3, seed=seed),))
    needs: list[bool] = []

    def work() -> None:
        with tg.no_grad():
            needs.extend(fn(tensor(3, seed=s)).requires_grad for s in range(20))

    thread = threading.Thread(target=work)
    thread.start()
    mine = [fn(tensor(3, seed=s)).requires_grad for s in range(20)]
    thread.join()
    assert not any(needs)
    assert all(mine)


@pytest.mark.parametrize("short_way", [True, False])
def test_threads_that_add_to_one_gradient(short_way: bool) -> None:
    w = tg.ones(12_000, requires_grad=True)
    x = tg.ones(12_000)

    def plain(x: Any) -> Any:
        (w * x).sum().backward()
        return None if short_way else {"done": x}

    fn = tg.compile(plain)
    for _ in range(4):
        fn(x)
    assert w.grad is not None
    assert (fn._enter is not None) == short_way
    w.grad.zero_()
    threads = [threading.Thread(target=lambda: [fn(x) for _ in range(1500)]) for _ in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert np.array_equal(w.grad.numpy(), np.full(12_000, 4500.0, np.float32))
