"""Changes in place of tensors with a history: hooks that were registered before, memory that is written twice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapegrad as tg

torch = pytest.importorskip("torch", reason="PyTorch is the oracle here")

WRITES: dict[str, Callable[[Any], Any]] = {
    "elementwise": lambda v: v.mul_(3),
    "elementwise that saves": lambda v: v.sqrt_(),
    "with itself": lambda v: v.add_(v),
    "kernel": lambda v: v.fill_(3),
    "copy": lambda v: v.copy_(v.detach() + 1),
    "assignment": lambda v: v.__setitem__(0, 5.0),
    "part": lambda v: v[1:3].mul_(3),
    "again": lambda v: v.mul_(3).mul_(2),
}
VIEWS: dict[str, Callable[[Any], Any]] = {
    "a view": lambda b: b.view(-1),
    "a view of a view": lambda b: b.t()[1],
    "the tensor itself": lambda b: b,
}


def _hooked(lib: Any, view: str, write: str) -> Any:
    x = lib.ones(2, 3, requires_grad=True)
    base = x * 2
    v = VIEWS[view](base)
    seen: list[Any] = []
    v.register_hook(lambda g: seen.append(g.tolist()) or g * 0.5)
    used = v * 7
    WRITES[write](v)
    v.retain_grad()
    ((base * lib.arange(6.0).view(2, 3)).sum() + used.sum() + v.sum()).backward()
    return seen, x.grad.tolist(), v.grad.tolist()


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("view", VIEWS)
def test_hooks_of_a_view_see_what_was_made_from_it_before_it_was_changed(view: str, write: str) -> None:
    expected = _hooked(torch, view, write)
    for ours, theirs in zip(_hooked(tg, view, write), expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)


def test_a_write_through_a_view_goes_past_the_hooks_of_the_view() -> None:
    x = tg.ones(2, 3, requires_grad=True)
    base = x * 2
    row = base[0]
    fired: list[Any] = []
    row.register_hook(fired.append)
    row[1:].mul_(3)
    base.sum().backward()
    assert not fired
    assert x.grad.tolist() == [[2, 6, 6], [2, 2, 2]]


class Tripled(tg.autograd.Function):
    """Three times its argument, in place."""

    @staticmethod
    def forward(ctx: Any, a: Any) -> Any:
        a.mul_(3)
        ctx.mark_dirty(a)
        return a

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * 3


def test_a_function_that_changes_its_argument_goes_past_the_hooks_of_the_view() -> None:
    x = tg.ones(2, 3, requires_grad=True)
    base = x * 2
    fired: list[Any] = []
    row = base[0]
    row.register_hook(fired.append)
    Tripled.apply(row)
    base.sum().backward()
    assert not fired
    assert x.grad.tolist() == [[6, 6, 6], [2, 2, 2]]


@pytest.mark.parametrize("lib", [tg, torch], ids=["tapegrad", "PyTorch"])
def test_expanded_tensors_take_one_number_everywhere(lib: Any) -> None:
    base = lib.zeros(3)
    wide = base.expand(2, 3)
    assert wide.fill_(1.5).tolist() == [[1.5] * 3] * 2
    assert base.tolist() == [1.5] * 3
    assert wide.zero_().tolist() == [[0.0] * 3] * 2
    recorded = lib.ones(3, requires_grad=True) * 1
    for x in (wide, recorded.expand(2, 3)):
        with pytest.raises(RuntimeError, match="single memory"):
            x[:, 1] = 1.0
        with pytest.raises(RuntimeError, match="single memory"):
            x.mul_(2.0)
        with pytest.raises(RuntimeError, match="single memory"):
            x.fill_(lib.tensor(2.5))


def test_filling_an_expanded_tensor_cuts_it_from_what_it_was() -> None:
    x = tg.ones(3, requires_grad=True)
    base = x * 2
    base.expand(2, 3).fill_(1.5)
    (base * base).sum().backward()
    assert x.grad.tolist() == [0, 0, 0]


def test_an_operand_in_the_same_memory_is_read_before_it_is_overwritten() -> None:
    x = tg.arange(9.0).view(3, 3)
    expected = x + x.diagonal()
    assert x.add_(x.diagonal()).tolist() == expected.tolist()  # PyTorch's result depends on its loop's order
    x = tg.arange(9.0).view(3, 3)
    expected = x.t().clone()
    assert x.copy_(x.t()).tolist() == expected.tolist()
