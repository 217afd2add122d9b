"""What a compiled function writes in place: its own tensors start afresh in each run, those from outside go on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.kernels.recording import RecordingError


def _each(out: tg.Tensor, y: tg.Tensor) -> tg.Tensor:
    for i in range(len(out)):
        out[i] = y * i
    return out


def _set(out: tg.Tensor, key: Any, value: Any) -> tg.Tensor:
    out[key] = value
    return out


def _inner_descent(y: tg.Tensor) -> tg.Tensor:
    w = tg.ones(3, requires_grad=True)
    for _ in range(3):
        (g,) = tg.autograd.grad((w * y).sin().sum(), w)
        with tg.no_grad():
            w -= 0.1 * g
    return w.detach()


def _inner_gradient(y: tg.Tensor) -> Any:
    w = tg.ones(3, requires_grad=True)
    (w * y).sin().sum().backward()
    return w.grad


def _diagonal(y: tg.Tensor) -> tg.Tensor:
    out = tg.zeros(3, 3).fill_diagonal_(1.0)
    out.diagonal().add_(y)
    return out


def _several(y: tg.Tensor) -> Any:
    z = tg.zeros(3)
    z += y
    return [z, z[:2], {"again": z}]


FUNCTIONS: dict[str, Callable[[tg.Tensor], Any]] = {
    "zeros": lambda y: tg.zeros(3).add_(y),
    "tensor": lambda y: tg.tensor([1.0, 2.0, 3.0]).add_(y),
    "full_like": lambda y: tg.full_like(y, 2.0).mul_(y),
    "new_ones": lambda y: y.new_ones(3).add_(y),
    "float16": lambda y: tg.zeros(3, dtype=tg.float16).add_(y.half()),
    "view": lambda y: tg.zeros(2, 3).add_(y)[0],
    "several": _several,
    "empty": lambda y: _each(tg.empty(4, 3), y),
    "diagonal": _diagonal,
    "scatter": lambda y: tg.zeros(3).scatter_add_(0, tg.tensor([0, 0, 2]), y),
    "out": lambda y: tg.add(y, y, out=tg.empty(3)),
    "zeros out": lambda y: tg.zeros(3, out=y * 2) + y,
    "number": lambda y: _set(tg.zeros(3), 1, 7.0),
    "row": lambda y: _set(tg.zeros(2, 3), 0, y),
    "picked": lambda y: _set(tg.zeros(3), tg.tensor([0, 2]), y[:2]),
    "mask": lambda y: _set(y.clone(), y > 2, 0.5),
    "mask and tensor": lambda y: _set(y.clone(), y > 2, tg.tensor(0.25)),
    "argument": lambda y: _set(y, slice(1, None), y[:1]),
    "argument and mask": lambda y: _set(y, y > 2, 0.5),
    "0-d": lambda y: y.sum().flip([]) + y.max().cumsum(0),
    "leaf": _inner_descent,
    "gradient": _inner_gradient,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_tensors_that_a_function_makes_start_afresh(name: str) -> None:
    plain = FUNCTIONS[name]
    compiled = tg.compile(plain)
    for k in range(1, 5):
        x, y = tg.tensor([1.0, 2.0, 3.0]) * k, tg.tensor([1.0, 2.0, 3.0]) * k
        assert str(compiled(y)) == str(plain(x))
        assert y.tolist() == x.tolist()


def _state(later: bool) -> tuple[dict[str, tg.Tensor], Callable[[tg.Tensor], tg.Tensor]]:
    """State that exists before the first call, or is made by it."""
    state: dict[str, tg.Tensor] = {} if later else {"mean": tg.zeros(3)}

    def move(y: tg.Tensor) -> tg.Tensor:
        if "mean" not in state:
            state["mean"] = tg.zeros(3)
        state["mean"].mul_(0.9).add_(y)
        return state["mean"].clone()

    return state, move


@pytest.mark.parametrize("later", [False, True])
def test_state_goes_on(later: bool) -> None:
    (mine, plain), (own, fn) = _state(later), _state(later)
    compiled = tg.compile(fn)
    for k in range(5):
        y = tg.tensor([1.0, 2.0, 3.0]) * k
        assert compiled(y).tolist() == plain(y).tolist()
        np.testing.assert_allclose(own["mean"].numpy(), mine["mean"].numpy(), rtol=1e-6)


def test_an_optimizer_made_inside_is_an_error() -> None:
    def fit(y: tg.Tensor) -> tg.Tensor:
        w = tg.ones(3, requires_grad=True)
        optimizer = tg.optim.Adam([w], 0.1)
        for _ in range(2):
            optimizer.zero_grad()
            (w * y).sin().sum().backward()
            optimizer.step()
        return w.detach()

    with pytest.raises(RecordingError, match=r"makes an optimizer \(Adam\) of its own"):
        tg.compile(fit)(tg.ones(3))


def recorded(fn: Any) -> int:
    """How many recordings a compiled function has made."""
    return sum(len(found) for found in fn.recordings.values())


def test_leaves_of_a_function_need_no_new_recording() -> None:
    """A penalty on the slope makes a leaf in each run, and backward gives it a gradient."""
    w = tg.tensor([1.0, 2.0, 3.0], requires_grad=True)

    def plain(y: tg.Tensor) -> tg.Tensor:
        w.grad = None
        between = (w.detach() + y).requires_grad_()
        (slope,) = tg.autograd.grad((between * w).sin().sum(), between, create_graph=True)
        loss = (slope * slope).sum()
        loss.backward()
        return loss

    compiled = tg.compile(plain)
    for k in range(4):
        y = tg.tensor([0.1, 0.2, 0.3]) * k
        loss, grad = plain(y).item(), w.grad.tolist()
        assert compiled(y).item() == pytest.approx(loss)
        assert w.grad.tolist() == pytest.approx(grad, rel=1e-5)
    assert recorded(compiled) == 1


def test_gradients_of_arguments_are_theirs() -> None:
    compiled = tg.compile(lambda x: (x * x).sum().backward())
    held = []
    for k in range(4):
        x = tg.tensor([1.0, 2.0, k], requires_grad=True)
        compiled(x)
        held.append(x)
    assert [x.grad.tolist() for x in held] == [[2.0, 4.0, 2.0 * k] for k in range(4)]
    assert recorded(compiled) == 1
    compiled(held[1])  # which has a gradient already
    assert held[1].grad.tolist() == [4.0, 8.0, 4.0]


def test_other_memory_for_a_tensor_from_outside_is_an_error() -> None:
    w = tg.tensor([1.0, 2.0, 3.0])

    def move(y: tg.Tensor) -> None:
        w.data -= y  # the same memory

    moved = tg.compile(move)
    for _ in range(3):
        moved(tg.ones(3))
    assert w.tolist() == [-2.0, -1.0, 0.0]

    def assign(y: tg.Tensor) -> None:
        w.data = w + y

    with pytest.raises(RecordingError, match="assigning .data of a tensor from outside"):
        tg.compile(assign)(tg.ones(3))


def test_a_graph_that_is_kept_and_out_of_date_is_an_error_for_who_uses_it() -> None:
    w = tg.tensor([1.0, 2.0, 3.0], requires_grad=True)
    optimizer = tg.optim.SGD([w], 0.1)

    @tg.compile
    def step(y: tg.Tensor) -> tg.Tensor:
        optimizer.zero_grad()
        loss = (w * w * y).sum()
        loss.backward(retain_graph=True)
        optimizer.step()
        return loss

    for _ in range(3):
        loss = step(tg.ones(3))
        assert loss.requires_grad
        with pytest.raises(RuntimeError, match="has been modified by an in-place operation"):
            loss.backward()
    assert recorded(step) <= 2
