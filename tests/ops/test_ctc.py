"""ctc_loss against PyTorch, and its derivatives through a log_softmax."""

from __future__ import annotations

import numpy as np
import pytest

import tapegrad as tg
import tapegrad.nn.functional as F
from tapegrad.autograd import gradcheck, gradgradcheck

RANDOM = np.random.default_rng(0)
STEPS, BATCH, CLASSES = 12, 4, 6
LOGITS = RANDOM.standard_normal((STEPS, BATCH, CLASSES))
LOG_PROBS = LOGITS - np.log(np.exp(LOGITS).sum(2, keepdims=True))
TARGETS = np.vstack([[2, 2, 2, 3], RANDOM.integers(1, CLASSES, (BATCH - 1, 4))])
INPUTS, SIZES = np.array([12, 9, 10, 12]), np.array([4, 0, 3, 2])
JOINED = np.concatenate([row[:n] for row, n in zip(TARGETS, SIZES, strict=True)])


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("targets", [TARGETS, JOINED], ids=["padded", "joined"])
@pytest.mark.parametrize(("dtype", "tolerance"), [("float64", 1e-9), ("float32", 1e-4)])
def test_values_and_gradients(reduction: str, targets: np.ndarray, dtype: str, tolerance: float) -> None:
    torch = pytest.importorskip("torch")
    from .against_torch import assert_same

    assert_same(
        lambda x, t, i, s: torch.nn.functional.ctc_loss(x, t, i, s, reduction=reduction),
        lambda x, t, i, s: F.ctc_loss(x, t, i, s, reduction=reduction),
        [LOG_PROBS.astype(dtype), targets, INPUTS, SIZES],
        tolerance=tolerance,
        second=False,
    )


def test_the_kernel_of_the_derivative_equals_its_expression() -> None:
    x = tg.tensor(LOG_PROBS, requires_grad=True)
    loss = F.ctc_loss(x, tg.tensor(TARGETS), tg.tensor(INPUTS), tg.tensor(SIZES))
    (plain,) = tg.autograd.grad(loss, x, retain_graph=True)
    (recorded,) = tg.autograd.grad(loss, x, create_graph=True)
    np.testing.assert_allclose(recorded.detach().numpy(), plain.numpy(), rtol=1e-10, atol=1e-12)


def test_derivatives_through_log_softmax() -> None:
    x = tg.tensor(RANDOM.standard_normal((5, 2, 4)), requires_grad=True)

    def loss(x):
        return F.ctc_loss(F.log_softmax(x, 2), tg.tensor([[1, 2], [3, 3]]), (5, 4), (2, 2), reduction="none")

    assert gradcheck(loss, (x,))
    assert gradgradcheck(loss, (x,))


def test_a_target_that_cannot_be_aligned() -> None:
    x = tg.tensor(LOG_PROBS[:3, :1], requires_grad=True)
    target = tg.tensor([[2, 2, 2]])
    assert F.ctc_loss(x, target, (3,), (3,), reduction="none").item() == np.inf
    loss = F.ctc_loss(x, target, (3,), (3,), zero_infinity=True)
    assert loss.item() == 0
    loss.backward()
    assert not x.grad.numpy().any()


def test_one_sequence_without_a_batch() -> None:
    x = tg.tensor(LOG_PROBS[:, 0])
    one = F.ctc_loss(x, tg.tensor(TARGETS[0]), tg.tensor(12), tg.tensor(4), reduction="none")
    batch = F.ctc_loss(x.unsqueeze(1), tg.tensor(TARGETS[:1]), (12,), (4,), reduction="none")
    assert one.shape == ()
    assert one.item() == batch.item()


def test_wrong_calls() -> None:
    x = tg.tensor(LOG_PROBS)
    good = (tg.tensor(TARGETS), tg.tensor(INPUTS), tg.tensor(SIZES))
    with pytest.raises(RuntimeError, match="label range"):
        F.ctc_loss(x, *good, blank=CLASSES)
    with pytest.raises(RuntimeError, match="at most 12"):
        F.ctc_loss(x, good[0], good[1] + 1, good[2])
    with pytest.raises(RuntimeError, match="batch_size"):
        F.ctc_loss(x, good[0], (12,), good[2])
    with pytest.raises(RuntimeError, match="target"):
        F.ctc_loss(x, good[0], good[1], good[2] + 1)
    with pytest.raises(RuntimeError, match="in range"):
        F.ctc_loss(x, good[0] + CLASSES, *good[1:])
    with pytest.raises(ValueError, match="reduction"):
        F.ctc_loss(x, *good, reduction="average")
