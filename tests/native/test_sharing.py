"""Compiled functions and memory that several tensors lie in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapegrad as tg
from tapegrad import nn
from tests.native.calls import check, same, short, tensor, warmed


def test_arguments_that_are_one_tensor_or_share_memory() -> None:
    def plain(a: Any, b: Any) -> Any:
        twice = b * 2
        a.add_(1)
        return twice + b * 2, a - b

    fn = warmed(plain, lambda seed: (tensor(6, seed=seed), tensor(6, seed=seed + 9)))

    def both(make: Callable[[], tuple[Any, Any]], short_way: bool | None) -> None:
        check(fn, *make(), twins=make(), short_way=short_way)

    def one() -> tuple[Any, Any]:
        x = tensor(6, seed=3)
        return x, x

    def overlapping() -> tuple[Any, Any]:
        x = tensor(8, seed=3)
        return x[:6], x[2:]

    def all_of_it() -> tuple[Any, Any]:
        x = tensor(6, seed=3)
        return x, x[:]

    def beside() -> tuple[Any, Any]:
        x = tensor(12, seed=3)
        return x[:6], x[6:]

    def apart() -> tuple[Any, Any]:
        return tensor(6, seed=3), tensor(6, seed=4)

    for _ in range(3):
        for make in (one, overlapping, all_of_it, beside, apart, overlapping, one):
            both(make, None)
    both(apart, None)
    both(apart, True)
    both(one, False)


def test_an_argument_in_memory_that_the_function_also_uses_by_itself() -> None:
    w = tensor(3, 3, seed=7)
    layer = nn.Linear(3, 3)
    for plain in (lambda x: x * w + 1, lambda x: layer(x)):
        given = w if plain.__code__.co_freevars == ("w",) else layer.weight.detach()
        fn = tg.compile(plain)
        for at in range(16):  # at the recording, and later
            x = tensor(3, 3, seed=at) if at // 4 % 2 else given if at % 2 else given.detach()
            check(fn, x, short_way=None)
        check(fn, tensor(3, 3))


def test_an_argument_in_memory_that_the_function_changes_by_itself() -> None:
    def made() -> tuple[Any, Any]:
        total = tg.zeros(4)

        def add(x: Any) -> Any:
            total[1:].add_(x)
            return x * total[1:]

        return total, add

    ways: list[Callable[[Any], Any]] = [lambda t: tensor(3), lambda t: t[1:], lambda t: t.detach()[1:]]
    for order in ((0, 0, 0, 1, 2, 0, 1), (1, 1, 1, 0, 2, 0, 0), (2, 2, 1, 0, 0, 0, 2)):
        (total, add), (twin, plain) = made(), made()
        twin += 1
        total += 1
        fn = tg.compile(add)
        for way in order:
            same((plain(ways[way](twin)), twin), (fn(ways[way](total)), total))

    def read(x: Any) -> Any:
        x.add_(1)
        return total.sum()

    fn = tg.compile(read)
    for _ in range(3):
        fn(tensor(4))
    with pytest.raises(RuntimeError, match="also uses by itself"):
        fn(total[1:])
    expected = (total + 1).sum()
    same(expected, fn(total))
    fn(tensor(4))
    same(expected, total.sum())


def test_tensors_elsewhere_leave_programs_alone() -> None:
    data = tensor(100, 3)
    fn = warmed(lambda x: x * data.sum(), lambda seed: (tensor(3, seed=seed),))
    for at in range(20):  # programs come and go, and their tensors with them
        w = tensor(3, seed=at, grad=True)
        other = tg.compile(lambda x, w=w: x * w)
        other(tensor(3)), other(tensor(3))
        del w, other
        tensor(3, seed=at).requires_grad_()
        data[5 * at : 5 * at + 4].requires_grad_()  # a leaf of its own over a part
        check(fn, tensor(3, seed=at))
    data[:].requires_grad_()
    check(fn, tensor(3), short_way=False)


def test_a_gradient_that_somebody_keeps_is_not_written_over() -> None:
    w = tensor(3, grad=True)

    def step(x: Any) -> Any:
        w.grad = None
        loss = (w * x).sum()
        loss.backward()
        return loss.detach()

    fn = warmed(step, lambda seed: (tensor(3, seed=seed),))
    _, taken = short(fn, tensor(3, seed=1))
    assert taken
    kept, memory, view = w.grad, w.grad.numpy(), w.grad[1:]
    fn(tensor(3, seed=2))
    assert kept is not None
    same(kept, tensor(3, seed=1))
    same(w.grad, tensor(3, seed=2))
    assert np.array_equal(memory, tensor(3, seed=1).numpy())
    del kept
    fn(tensor(3, seed=3))
    same(view, tensor(3, seed=1)[1:])
    memory = w.grad.numpy()
    fn(tensor(3, seed=4))
    assert np.array_equal(memory, tensor(3, seed=3).numpy())
