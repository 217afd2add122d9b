"""Ops whose rules run on bare arrays keep the promises of the tape."""

from __future__ import annotations

import pytest

import tapegrad as tg
import tapegrad.nn.functional as F
from tapegrad.autograd.graph import saved_tensors_hooks


def test_saved_arrays_pass_through_hooks() -> None:
    x, w, b = (tg.randn(*s, requires_grad=True) for s in ((2, 3), (4, 3), (4,)))
    F.linear(x, w, b).sum().backward()
    expected, x.grad = x.grad, None
    packed = []
    with saved_tensors_hooks(lambda t: packed.append(t.shape) or t.numpy(force=True), tg.from_numpy):
        y = F.linear(x, w, b)
    y.sum().backward()
    assert sorted(packed) == [(2, 3), (4, 3)]
    assert tg.equal(x.grad, expected)


def test_a_changed_operand_is_noticed() -> None:
    x, w = tg.randn(2, 3, requires_grad=True), tg.randn(3, 4, requires_grad=True)
    y = x @ w
    with tg.no_grad():
        w.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an in-place operation"):
        y.sum().backward()


def test_a_constant_is_not_saved_for_what_needs_no_gradient() -> None:
    x, w = tg.randn(2, 3), tg.randn(3, 4, requires_grad=True)
    entry = (x @ w).grad_fn
    saved = dict(zip(entry.op.slots, entry.saved, strict=True))
    assert saved["a"] is not None
    assert saved["b"] is None


def test_a_second_backward_needs_the_graph() -> None:
    x, w = tg.randn(1, 1, 5, 5, requires_grad=True), tg.randn(2, 1, 3, 3, requires_grad=True)
    y = F.conv2d(x, w).sum()
    y.backward(retain_graph=True)
    y.backward()
    with pytest.raises(RuntimeError, match="second time"):
        y.backward()


def test_views_that_became_stale_are_derived_anew() -> None:
    base = tg.randn(3, 4, requires_grad=True)
    x = base * 1
    row = x[1:]
    x.mul_(2)
    (row @ tg.ones(4, 2)).sum().backward()
    assert base.grad.tolist() == [[0.0] * 4, [4.0] * 4, [4.0] * 4]
