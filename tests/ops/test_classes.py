"""cross_entropy and nll_loss against PyTorch and against each other."""

from __future__ import annotations

import numpy as np
import pytest

import tapegrad as tg
import tapegrad.nn.functional as F
from tapegrad.autograd import gradgradcheck

REDUCTIONS = ["none", "mean", "sum"]
RANDOM = np.random.default_rng(0)
ROWS, CLASSES = 9, 11
LOGITS = 3 * RANDOM.standard_normal((ROWS, CLASSES)) + 100
TARGET = RANDOM.integers(0, CLASSES, ROWS)
IGNORING = np.where(np.arange(ROWS) % 4 == 0, -100, TARGET)
WEIGHT = RANDOM.random(CLASSES)


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("target", [TARGET, IGNORING], ids=["all", "ignoring"])
@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["plain", "weighted"])
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_cross_entropy_of_rows(
    reduction: str, target: np.ndarray, weight: np.ndarray | None, smoothing: float
) -> None:
    torch = pytest.importorskip("torch")
    from .against_torch import assert_same

    for dtype, tolerance in (("float64", 1e-9), ("float32", 2e-5)):
        w = None if weight is None else weight.astype(dtype)
        assert_same(
            lambda x, t, w: torch.nn.functional.cross_entropy(
                x, t, w, reduction=reduction, label_smoothing=smoothing
            ),
            lambda x, t, w: F.cross_entropy(x, t, w, reduction=reduction, label_smoothing=smoothing),
            [LOGITS.astype(dtype), target, w],
            tolerance=tolerance,
        )


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_more_dimensions_one_row_and_probabilities(reduction: str) -> None:
    torch = pytest.importorskip("torch")
    from .against_torch import assert_same

    many = RANDOM.standard_normal((2, CLASSES, 3, 2))
    for x, t, wrt in (
        (many, RANDOM.integers(0, CLASSES, (2, 3, 2)), (0,)),
        (LOGITS[0], np.array(3), (0,)),
        (LOGITS, RANDOM.random((ROWS, CLASSES)), (0, 1)),
        (many, RANDOM.random(many.shape), (0, 1)),
        (LOGITS[0], RANDOM.random(CLASSES), (0, 1)),
    ):
        for weight in (None, WEIGHT):
            assert_same(
                lambda x, t, w: torch.nn.functional.cross_entropy(x, t, w, reduction=reduction),
                lambda x, t, w: F.cross_entropy(x, t, w, reduction=reduction),
                [x, t, weight],
                wrt=wrt,
            )
            if t.dtype.kind == "i":
                assert_same(
                    lambda x, t, w: torch.nn.functional.nll_loss(x, t, w, reduction=reduction),
                    lambda x, t, w: F.nll_loss(x, t, w, reduction=reduction),
                    [x, t, weight],
                )


def test_one_kernel_equals_the_two_steps() -> None:
    x = tg.tensor(LOGITS, requires_grad=True)
    target, weight = tg.tensor(IGNORING), tg.tensor(WEIGHT)
    one = F.cross_entropy(x, target, weight)
    two = F.nll_loss(F.log_softmax(x, 1), target, weight)
    np.testing.assert_allclose(one.item(), two.item(), rtol=1e-13)
    for a, b in zip(tg.autograd.grad(one, x), tg.autograd.grad(two, x), strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-10, atol=1e-15)


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_second_derivatives(reduction: str) -> None:
    x = tg.tensor(LOGITS[:3, :4], requires_grad=True)
    target = tg.tensor([1, 3, 0])
    assert gradgradcheck(lambda x: F.cross_entropy(x, target, reduction=reduction), (x,))


def test_large_logits_keep_their_digits() -> None:
    x = np.array([[1000.0, 1000.5, 998.0]], np.float32)
    exact = np.log(np.exp(x.astype("d") - 1000).sum()) - (x[0, 2].astype("d") - 1000)
    leaf = tg.tensor(x, requires_grad=True)
    loss = F.cross_entropy(leaf, tg.tensor([2]))
    assert abs(loss.item() - exact) < 3e-7
    loss.backward()
    share = np.exp(x.astype("d") - 1000)
    np.testing.assert_allclose(leaf.grad.numpy(), share / share.sum() - [[0, 0, 1]], rtol=1e-6, atol=1e-7)


def test_nothing_to_average_is_nan_and_nothing_to_add_is_zero() -> None:
    x = tg.ones(2, 3)
    ignored = tg.tensor([-100, -100])
    assert np.isnan(F.cross_entropy(x, ignored).item())
    assert F.cross_entropy(x, ignored, reduction="sum").item() == 0
    assert np.isnan(F.cross_entropy(x[:0], ignored[:0]).item())
    assert F.nll_loss(x[:0], ignored[:0], reduction="sum").item() == 0


def test_wrong_calls() -> None:
    x = tg.ones(2, 3)
    for bad in ([0, 3], [0, -1], [-101, 0]):
        with pytest.raises(IndexError, match="out of bounds for 3 classes"):
            F.cross_entropy(x, tg.tensor(bad))
        with pytest.raises(IndexError, match="out of bounds for 3 classes"):
            F.nll_loss(x, tg.tensor(bad))
    with pytest.raises(ValueError, match="batch_size"):
        F.cross_entropy(x, tg.tensor([0, 1, 2]))
    with pytest.raises(ValueError, match="not a valid value for reduction"):
        F.cross_entropy(x, tg.tensor([0, 1]), reduction="average")
    with pytest.raises(RuntimeError, match="int64"):
        F.cross_entropy(x, tg.tensor([0, 1], dtype=tg.int32))
    with pytest.raises(RuntimeError, match="3 classes"):
        F.cross_entropy(x, tg.tensor([0, 1]), tg.ones(4))
    with pytest.raises(RuntimeError, match="label_smoothing"):
        F.cross_entropy(x, tg.tensor([0, 1]), label_smoothing=1.5)
    with pytest.raises(RuntimeError, match="ignore_index"):
        F.cross_entropy(x, tg.ones(2, 3), ignore_index=1)
    with pytest.raises(RuntimeError, match="'weight' is not implemented"):
        F.cross_entropy(x, tg.tensor([0, 1]), tg.ones(3, requires_grad=True))
    with pytest.warns(UserWarning, match="reduction='sum'"):
        F.cross_entropy(x, tg.tensor([0, 1]), size_average=False)


@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_where_no_target_counts_no_gradient_does(reduction, smoothing):
    x = tg.tensor([[-0.1, 0.8]], requires_grad=True)
    target, weight = tg.tensor([0]), tg.tensor([0.1, 0.3])
    loss = F.cross_entropy(x, target, weight, ignore_index=0, reduction=reduction, label_smoothing=smoothing)
    loss.backward()
    assert loss.isnan() == (reduction == "mean")
    assert x.grad.tolist() == [[0.0, 0.0]]
