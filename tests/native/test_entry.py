"""The short way into a program is taken, and gives what the function gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tapegrad as tg
import tapegrad.nn.functional as F
from tapegrad import nn
from tests.native.calls import Make, check, leaf_and_plain, same, short, tensor, two, warmed

WEIGHT = tensor(3, 3, seed=7, grad=True)


def _backward_inside(x: Any, y: Any) -> Any:
    loss = (x * y).tanh().sum()
    loss.backward()
    return loss.detach()


RESULTS: dict[str, tuple[Callable[..., Any], Make]] = {
    "plain tensors": (lambda x, y: (x * y + 1).tanh().sum(0), two),
    "no arguments": (lambda: WEIGHT.detach() * 2, lambda seed: ()),
    "no result": (lambda x: None, lambda seed: (tensor(3, seed=seed),)),
    "twenty arguments": (lambda *xs: sum(xs), lambda seed: tuple(tensor(3, seed=seed + j) for j in range(20))),
    "a leaf": (lambda x, y: (x * y).exp(), leaf_and_plain),
    "a parameter outside": (lambda x: x @ WEIGHT, lambda seed: (tensor(2, 3, seed=seed),)),
    "a tuple": (lambda x, y: (x + y, x * y), two),
    "a list": (lambda x, y: [x + y, x * y], two),
    "nested": (lambda x, y: (x + y, [x * y, (x - y,)], []), two),
    "views": (lambda x, y: ((z := x * y)[1:], z.T, z.reshape(-1), z[:, 1]), two),
    "a part that is not whole": (lambda x, y: (x * y)[::2, 1:], two),
    "a view of an argument": (lambda x, y: (x[1:], x.T, x * y), two),
    "an argument": (lambda x, y: (x, x * y, y), two),
    "an argument alone": (lambda x, y: y, two),
    "a result twice": (lambda x, y: (z := x + y, z), two),
    "a tensor from outside": (lambda x, y: (WEIGHT, x * y), two),
    "a part of a tensor from outside": (lambda x, y: (WEIGHT[1:], WEIGHT.detach(), WEIGHT.T, x * y), two),
    "a part of a leaf": (lambda x, y: (x[1:], x.detach(), y[:2], x * y), leaf_and_plain),
    "a constant twice": (lambda x, y: (z := tg.zeros(2), [z], x * y), two),
    "a constant": (lambda x, y: (tg.arange(3), x * y), two),
    "a scalar": (lambda x, y: (x * y).mean(), two),
    "looked-up classes": (lambda x, t: F.cross_entropy(x, t), lambda seed: (tensor(4, 3, seed=seed), tg.tensor([0, 1, 2, seed % 3]))),
    "nothing in it": (lambda x: x * 2, lambda seed: (tensor(0, 3, seed=seed),)),
}  # fmt: skip


@pytest.mark.parametrize("name", RESULTS)
def test_the_short_way_is_taken(name: str) -> None:
    plain, make = RESULTS[name]
    fn = warmed(plain, make)
    kept = []
    for seed in range(10, 14):
        args = make(seed)
        kept.append((fn.function(*args), check(fn, *args)))
    for expected, found in kept:  # nobody writes into what was handed out
        same(expected, found)
    assert sum(map(len, fn.recordings.values())) == 1


def test_results_that_are_arguments_are_the_arguments() -> None:
    fn = warmed(lambda x, y: (x, [y, x * y]), two)
    x, y = two(20)
    (first, (second, _)), taken = short(fn, x, y)
    assert taken
    assert first is x
    assert second is y


def test_a_result_that_occurs_twice_is_one_tensor() -> None:
    def plain(x: Any, y: Any) -> Any:
        total, zeros = x + y, tg.zeros(2)
        return total, [total, zeros], zeros

    fn = warmed(plain, two)
    for seed in range(3):
        (a, (b, zeros), same_zeros), taken = short(fn, *two(seed))
        assert taken
        assert a is b
        assert zeros is same_zeros
        assert zeros.tolist() == [0.0, 0.0]
        a += 1
        zeros += 1


def test_results_that_exist_outside_are_those() -> None:
    layer, held, kept = nn.Linear(3, 2), [tensor(3)], {"w": tensor(3, grad=True)}

    def plain(x: Any) -> Any:
        return layer.weight, held[0], [kept["w"]], layer(x)

    def parts(x: Any) -> Any:
        return held[0][1:], held[0].detach(), kept["w"][:2], layer.bias.detach()

    fn, other = (warmed(f, lambda seed: (tensor(4, 3, seed=seed),)) for f in (plain, parts))
    for seed in range(3):
        (weight, first, (w,), _), taken = short(fn, tensor(4, 3, seed=seed))
        assert taken
        assert weight is layer.weight
        assert first is held[0]
        assert w is kept["w"]
        found = check(other, tensor(4, 3, seed=seed))
        found[0][0] = 5.0 + seed
        assert held[0][1].item() == 5.0 + seed
        with tg.no_grad():
            layer.bias += 1
        same(layer.bias.detach(), found[3])
        kept["w"].grad = None
        found[2].sum().backward()
        assert kept["w"].grad.tolist() == [1.0, 1.0, 0.0]  # type: ignore[union-attr]
    saved = held[0] * kept["w"]
    check(other, tensor(4, 3))[1].add_(1)
    with pytest.raises(RuntimeError, match="modified by an in-place operation"):
        saved.sum().backward()


def test_views_in_a_result_share_memory() -> None:
    def plain(x: Any, y: Any) -> Any:
        z = x * y
        return z, z[1]

    fn = warmed(plain, two)
    for run in (plain, fn):
        z, row = run(*two(5))
        z[1] = 7.0
        assert row.tolist() == [7.0, 7.0, 7.0]


def test_a_constant_is_new_each_time() -> None:
    fn = warmed(lambda x: (tg.zeros(2), x * 2), lambda seed: (tensor(2, seed=seed),))
    for seed in range(3):
        (zeros, _), taken = short(fn, tensor(2, seed=seed))
        assert taken
        assert zeros.tolist() == [0.0, 0.0]
        zeros += 5


@pytest.mark.parametrize("inside", [False, True])
def test_gradients_of_arguments(inside: bool) -> None:
    plain = _backward_inside if inside else lambda x, y: (x * y).tanh().sum()
    fn = warmed(plain, leaf_and_plain)
    for seed in range(20, 24):
        grads = []
        for run in (plain, lambda *a: short(fn, *a)):
            x, y = leaf_and_plain(seed)
            loss = run(x, y)
            if run is not plain:
                loss, taken = loss
                assert taken
            if not inside:
                loss.backward()
            grads.append((loss, x.grad))
        same(*grads)


def test_gradients_of_parameters() -> None:
    layer, twin = nn.Linear(3, 2), nn.Linear(3, 2)
    twin.load_state_dict(layer.state_dict())

    def loss_of(layer: Any) -> Any:
        return lambda x: layer(x).tanh().sum()

    fn = warmed(loss_of(layer), lambda seed: (tensor(5, 3, seed=seed),))
    layer.zero_grad()
    for seed in range(4):
        x = tensor(5, 3, seed=seed)
        found, taken = short(fn, x)
        assert taken
        found.backward()
        loss_of(twin)(x).backward()
        for p, q in zip(layer.parameters(), twin.parameters(), strict=True):
            same(q.grad, p.grad)


@pytest.mark.parametrize("own", [False, True])
def test_random_numbers_go_on(own: bool) -> None:
    generator = tg.Generator() if own else tg.default_generator
    if own:
        plain: Any = lambda x: x + tg.rand(4, generator=generator)  # noqa: E731
    else:
        plain = lambda x: F.dropout(x, 0.5)  # noqa: E731
    fn = warmed(plain, lambda seed: (tensor(4, seed=seed),))
    runs = []
    for run in (plain, fn):
        generator.manual_seed(5)
        runs.append([run(tensor(4, seed=s)) for s in range(4)] + [tg.rand(2, generator=generator)])
    same(*runs)
    generator.manual_seed(6)
    first, taken = short(fn, tensor(4))
    assert taken
    generator.manual_seed(6)
    state = generator.get_state()
    same(first, plain(tensor(4)))
    generator.set_state(state)
    same(first, fn(tensor(4)))


def test_dropout_whose_backward_draws_again() -> None:
    fn = warmed(lambda x: F.dropout(x * 2, 0.5), lambda seed: (tensor(50, seed=seed, grad=True),))
    grads = []
    for run in (fn.function, fn):
        tg.manual_seed(3)
        xs = [tensor(50, seed=s, grad=True) for s in range(3)]
        outs = [run(x) for x in xs]
        tg.rand(7)
        for out in reversed(outs):
            out.sum().backward()
        grads.append((outs, [x.grad for x in xs]))
    same(*grads)
