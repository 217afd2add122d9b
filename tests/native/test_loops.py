"""scan and while_loop against the same loops written in Python."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.kernels.recording import RecordingError


def tensor(*shape: int, seed: int = 0, grad: bool = False) -> tg.Tensor:
    made = tg.from_numpy(np.random.default_rng(seed).standard_normal(shape))
    return made.requires_grad_() if grad else made


def same(a: Any, b: Any, tolerance: float = 1e-10) -> None:
    np.testing.assert_allclose(np.asarray(b.detach()), np.asarray(a.detach()), rtol=tolerance, atol=tolerance)


def unrolled(body: Any, carry: Any, xs: tg.Tensor) -> tuple[Any, tg.Tensor]:
    ys = []
    for x in xs:
        carry, y = body(carry, x)
        ys.append(y)
    return carry, tg.stack(ys)


W = tensor(3, 3, seed=7)


def cell(carry: Any, x: tg.Tensor) -> tuple[Any, tg.Tensor]:
    h, c = carry
    h = (h @ W + x).tanh()
    c = c * 0.5 + h.sum()
    return (h, c), h * c


@pytest.mark.parametrize("memory", [1 << 30, 700, 1])
def test_values_and_gradients_are_those_of_the_unrolled_loop(memory: int) -> None:
    found = []
    W.requires_grad_()
    for run in (unrolled, lambda b, c, x: tg.scan(b, c, x, memory=memory)):
        h, c, xs = tensor(2, 3, grad=True), tensor(1, seed=2, grad=True), tensor(17, 2, 3, seed=3, grad=True)
        W.grad = None
        (last, count), ys = run(cell, (h, c), xs)
        (last.sin().sum() + count.sum() * 0.1 + (ys * ys).sum() * 0.01).backward()
        found.append([last, count, ys, h.grad, c.grad, xs.grad, W.grad])
    for a, b in zip(*found, strict=True):
        same(a, b)


def test_a_body_without_inputs_and_a_long_simulation() -> None:
    def euler(state: tuple[tg.Tensor, tg.Tensor]) -> tuple[tg.Tensor, tg.Tensor]:
        x, v = state
        return x + 1e-4 * v, v - 1e-4 * x

    x, v = tensor(1, grad=True), tensor(1, seed=1)
    (last, _), nothing = tg.scan(euler, (x, v), length=100_000, memory=1 << 16)
    assert nothing is None
    t = 10.0
    expected = x.item() * np.cos(t) + v.item() * np.sin(t)
    assert abs(last.item() - expected) < 2e-3
    last.backward()
    assert abs(x.grad.item() - np.cos(t)) < 2e-3


def test_programs_are_found_again() -> None:
    from tapegrad.native import loops

    def body(carry: tg.Tensor, x: tg.Tensor) -> tuple[tg.Tensor, tg.Tensor]:
        return carry + x, carry

    tg.scan(body, tensor(3), tensor(5, 3))
    count = len(loops._bodies)
    for n in range(1, 6):
        last, ys = tg.scan(body, tensor(3), tensor(n, 3, seed=n))
        same(tensor(3) + tensor(n, 3, seed=n).sum(0), last)
        same(tensor(3), ys[0])
    assert len(loops._bodies) == count


def test_swapped_carries() -> None:
    (a, b), _ = tg.scan(lambda c: (c[1], c[0] + c[1]), (tg.tensor(1.0), tg.tensor(1.0)), length=10)
    assert (a.item(), b.item()) == (89.0, 144.0)


def test_while_loop_and_its_derivative() -> None:
    def halve(x: tg.Tensor) -> tg.Tensor:
        return x * 0.5

    x = tg.tensor(100.0, dtype=tg.float64, requires_grad=True)
    last = tg.while_loop(lambda v: v > 1.0, halve, x)
    assert last.item() == 100 / 2**7
    last.backward()
    assert x.grad.item() == 2.0**-7
    same(tg.tensor(0.5), tg.while_loop(lambda v: v > 1.0, halve, tg.tensor(0.5)))
    with pytest.raises(RuntimeError, match="still holds after 10 steps"):
        tg.while_loop(lambda v: v > 0.0, halve, tg.tensor(1.0), limit=10)


def test_rules_of_the_tape() -> None:
    x = tensor(3, grad=True)
    last, _ = tg.scan(lambda c: c.sin(), x, length=4)
    last.sum().backward(retain_graph=True)
    first = x.grad.clone()
    last.sum().backward()
    same(first * 2, x.grad)
    with pytest.raises(RuntimeError, match="a second time"):
        last.sum().backward()
    with tg.no_grad():
        assert not tg.scan(lambda c: c.sin(), x, length=4)[0].requires_grad
    with pytest.raises(RuntimeError, match="create_graph"):
        tg.autograd.grad(tg.scan(lambda c: c.sin(), x, length=2)[0].sum(), x, create_graph=True)


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda: tg.scan(lambda c: c, tensor(2)), ValueError, "length"),
        (lambda: tg.scan(lambda c, x: (c, x), tensor(2), tensor(3), length=4), ValueError, "agreeing"),
        (lambda: tg.scan(lambda c: c[:1], tensor(2), length=3), RuntimeError, "one shape and dtype"),
        (lambda: tg.scan(lambda c, x: c, tensor(2), tensor(3)), TypeError, "pair"),
        (lambda: tg.scan(lambda c: (c, c), tensor(2), length=3), TypeError, "structure"),
        (lambda: tg.scan(lambda c: c, 3.0, length=3), ValueError, "holds no tensor"),
        (lambda: tg.scan(lambda c: c * tg.rand(2), tensor(2), length=3), RecordingError, "random numbers"),
        (
            lambda: tg.scan(lambda c: c if c.sum() > 0 else -c, tensor(2), length=3),
            RecordingError,
            "depends|decision",
        ),
        (lambda: tg.while_loop(lambda c: True, lambda c: c, tensor(2)), TypeError, "tensor of one element"),
    ],
)
def test_errors(call: Any, error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        call()
