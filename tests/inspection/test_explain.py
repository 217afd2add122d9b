"""``tg.explain`` and the errors that tell what can be found out."""

from __future__ import annotations

import pathlib

import pytest

import tapegrad as tg

HERE = pathlib.Path(__file__).name


def test_constants() -> None:
    x = tg.ones(2, requires_grad=True)
    y = x * 2
    cut = y.detach()
    text = tg.explain(cut)
    assert text.splitlines()[0] == "cut: float32 [2]"
    assert "cut off by detach()" in text
    assert "the result [2] of mul" in text
    assert f"{HERE}:" in text
    with tg.no_grad():
        view = y.view(2, 1)
        assert "Grad mode is off here" in tg.explain(view)
    assert "a view, made under no_grad(), of the result [2] of mul" in tg.explain(view)
    assert "dtype int64" in tg.explain(x.long())
    assert "no_grad()" in tg.explain(tg.ones(2))
    assert ".data, numpy()" in tg.explain(x.data)
    with pytest.raises(TypeError, match="not float"):
        tg.explain(1.0)


def test_leaves() -> None:
    x = tg.ones(2, requires_grad=True)
    assert "no living entry uses it" in tg.explain(x)
    loss = (x * x).sum()
    text = tg.explain(x)
    assert "no backward() has reached it yet" in text
    assert "Used by 1 living entry:" in text
    tg.autograd.grad(loss, x)
    assert "autograd.grad" in tg.explain(x)
    (x * x).sum().backward()
    assert "It has a gradient." in tg.explain(x)
    (x * x).sum().backward()
    assert "added to 1 more time" in tg.explain(x)


def test_results() -> None:
    x = tg.ones(1000, requires_grad=True)
    y = x.exp()
    losses = [y.sum()]
    text = tg.explain(y)
    assert "y.retain_grad()" in text
    assert "No backward has gone" in text
    assert "reaches 1 leaf: x" in text
    assert "1 entry that keeps 4,000 bytes" in text
    assert "Held by y: as long as" in text
    losses[0].backward(retain_graph=True)
    assert "retain_graph=True at" in tg.explain(losses[0])
    assert "Held by losses[0]" in tg.explain(losses[0])
    losses[0].backward()
    text = tg.explain(losses[0])
    assert "was released by the backward at" in text
    assert f"{HERE}:" in text
    y.retain_grad()
    assert "retain_grad() was called" in tg.explain(y)


def test_the_error_about_a_constant_says_how_it_came_to_be_one() -> None:
    x = tg.ones(2, requires_grad=True)
    with pytest.raises(
        RuntimeError, match=r"does not require grad.*cut off by detach\(\): it lies in the memory of a leaf"
    ):
        x.detach().backward(tg.ones(2))
    y = x.exp()
    with pytest.raises(
        RuntimeError, match=r"the result \[2\] of exp \(entry #\d+, recorded at .*test_explain.py"
    ):
        y.detach().backward(tg.ones(2))


def test_anomaly_mode_names_the_numbers() -> None:
    x = tg.tensor([1.0, 0.0, 4.0], requires_grad=True)
    with pytest.raises(RuntimeError) as caught, tg.autograd.detect_anomaly():
        (x.sqrt() * 0).sum().backward()  # NaN
    text = str(caught.value)
    assert "SqrtBackward0" in text
    assert "x.sqrt()" in text
    assert "1 of 3 values are NaN" in text
    assert "at index [1] was made of: the cotangent that arrived = 0.0, saved out = 0.0" in text
