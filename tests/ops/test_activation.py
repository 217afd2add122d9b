"""Activations: kinks, edges, in-place forms, arguments. Formulas and derivatives are in tests/samples.py."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import special

import tapegrad as tg
import tapegrad.nn.functional as F
from tapegrad.autograd import gradcheck, gradgradcheck

POINTS = [-800.0, -30.0, -6.0, -3.0, -1.0, -0.5, -1e-8, 0.0, 1e-8, 0.5, 1.0, 3.0, 6.0, 19.0, 30.0, 800.0]
NAMES = [
    "relu", "relu6", "leaky_relu", "elu", "selu", "celu", "gelu", "silu", "mish", "softplus", "softsign",
    "logsigmoid", "hardtanh", "hardsigmoid", "hardswish", "hardshrink", "softshrink", "tanhshrink", "sigmoid", "tanh",
]  # fmt: skip
INPLACE = [
    "relu",
    "relu6",
    "leaky_relu",
    "elu",
    "selu",
    "celu",
    "silu",
    "mish",
    "hardtanh",
    "hardsigmoid",
    "hardswish",
]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("dtype", "tolerance"), [("float64", 1e-11), ("float32", 2e-6)])
def test_values_and_gradients_at_kinks_and_far_out(name: str, dtype: str, tolerance: float) -> None:
    torch = pytest.importorskip("torch")
    x = np.array(POINTS, dtype)
    theirs, ours = torch.tensor(x, requires_grad=True), tg.tensor(x, requires_grad=True)
    a, b = getattr(torch.nn.functional, name)(theirs), getattr(F, name)(ours)
    np.testing.assert_allclose(b.detach().numpy(), a.detach().numpy(), rtol=tolerance, atol=tolerance)
    if name == "hardsigmoid":
        tolerance = 1e-8  # torch has 1 / 6 in float32
    (p,), (q,) = torch.autograd.grad(a.sum(), theirs), tg.autograd.grad(b.sum(), ours)
    np.testing.assert_allclose(q.numpy(), p.numpy(), rtol=10 * tolerance, atol=10 * tolerance)


@pytest.mark.parametrize("name", NAMES)
def test_second_derivatives_stay_finite_far_out(name: str) -> None:
    x = tg.tensor(POINTS, dtype=tg.float64, requires_grad=True)
    (slope,) = tg.autograd.grad(getattr(F, name)(x).sum(), x, create_graph=True)
    (bend,) = tg.autograd.grad(slope.sum(), x)
    assert np.isfinite(bend.numpy()).all()


@pytest.mark.parametrize(
    "name", ["relu", "relu6", "leaky_relu", "hardtanh", "hardshrink", "softshrink", "hardsigmoid"]
)
def test_the_second_derivative_of_a_piecewise_linear_function_is_zero_not_an_error(name: str) -> None:
    x = tg.tensor([-4.0, 0.2, 4.0], requires_grad=True)
    (slope,) = tg.autograd.grad(getattr(F, name)(x).sum(), x, create_graph=True)
    (bend,) = tg.autograd.grad(slope.sum(), x)
    assert bend.tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize(
    "name", [n for n in NAMES if n not in ("softsign", "gelu", "silu", "mish", "hardswish")]
)
def test_missing_and_infinite_numbers(name: str) -> None:
    torch = pytest.importorskip("torch")
    x = np.array([np.nan, np.inf, -np.inf])
    expected = getattr(torch.nn.functional, name)(torch.tensor(x)).numpy()
    np.testing.assert_array_equal(getattr(F, name)(tg.tensor(x)).numpy(), expected)


@pytest.mark.parametrize("name", INPLACE)
def test_in_place(name: str) -> None:
    function = getattr(F, name)
    start = tg.tensor([-4.0, -0.5, 0.5, 4.0], dtype=tg.float64, requires_grad=True)
    x = start * 1.5
    assert function(x, inplace=True) is x
    (got,) = tg.autograd.grad((x * x).sum(), start)
    (expected,) = tg.autograd.grad((function(start * 1.5) ** 2).sum(), start)
    assert tg.equal(got, expected)


def test_forms_with_an_underscore() -> None:
    for name in ("relu_", "elu_", "celu_", "selu_", "leaky_relu_", "hardtanh_"):
        x = tg.tensor([-2.0, 0.5])
        assert getattr(F, name)(x) is x
        assert tg.equal(x, getattr(F, name[:-1])(tg.tensor([-2.0, 0.5])))
    x = tg.tensor([-1.0, 2.0])
    assert tg.threshold_(x, 0.0, 7.0) is x
    assert x.tolist() == [7.0, 2.0]
    assert tg.relu(tg.tensor([-1.0, 2.0])).relu_().tolist() == [0.0, 2.0]


def test_arguments() -> None:
    x = tg.tensor(np.linspace(-3, 3, 7), requires_grad=True)
    for f in (
        lambda x: F.leaky_relu(x, 0.3),
        lambda x: F.elu(x, 0.7),
        lambda x: F.celu(x, 1.7),
        lambda x: F.softplus(x, 2.0, 3.0),
        lambda x: F.gelu(x, approximate="tanh"),
        lambda x: F.hardtanh(x, -1.5, 2.5),
        lambda x: F.hardshrink(x, 1.5),
        lambda x: F.softshrink(x, 1.5),
        lambda x: F.threshold(x, 0.5, -2.0),
        lambda x: F.glu(x[:6].reshape(2, 3), 0),
    ):
        point = (x.detach() + 0.13).requires_grad_()  # away from the kinks
        assert gradcheck(f, (point,))
        assert gradgradcheck(f, (point,))


def test_gelu_has_the_digits_of_the_normal_distribution() -> None:
    x = np.concatenate([np.linspace(-12, 12, 48_001), [0.0, -0.0, 1e-30, 1e30, -1e30]]).astype(np.float32)
    wide = x.astype(np.float64)
    below = special.ndtr(wide)
    input = tg.from_numpy(x).requires_grad_()
    out = F.gelu(input)
    out.sum().backward()
    assert (abs(out.detach().numpy() - wide * below) <= 1.2e-7 * abs(wide)).all()
    slope = below + wide * np.exp(-wide * wide / 2) / np.sqrt(2 * np.pi)
    assert abs(input.grad.numpy() - slope).max() < 3e-7
    ends = F.gelu(tg.tensor([math.inf, -math.inf, math.nan]))
    assert ends[0] == math.inf
    assert ends.isnan().tolist() == [False, True, True]  # -inf * 0, as in PyTorch


def test_prelu() -> None:
    x = tg.tensor(np.random.default_rng(0).standard_normal((2, 3, 4)), requires_grad=True)
    for weight in ([0.25], [0.1, 0.2, 0.3]):
        w = tg.tensor(weight, dtype=tg.float64, requires_grad=True)
        assert gradcheck(F.prelu, (x, w))
        assert gradgradcheck(F.prelu, (x, w))
    assert tg.equal(x.prelu(w), F.prelu(x, w))
    for bad in (tg.ones(2), tg.ones(3, 1)):
        with pytest.raises(RuntimeError, match="prelu"):
            F.prelu(tg.ones(2, 3), bad)


def test_rrelu() -> None:
    x = tg.tensor([-2.0, 3.0])
    assert tg.allclose(F.rrelu(x, 0.1, 0.3), tg.tensor([-0.4, 3.0]))
    tg.manual_seed(0)
    drawn = F.rrelu(-tg.ones(1000), 0.1, 0.3, training=True)
    assert -0.3 <= drawn.min().item() < -0.28
    assert -0.12 < drawn.max().item() <= -0.1
    leaf = tg.ones(3, requires_grad=True)
    F.rrelu(leaf * -1.0, training=True).sum().backward()
    assert ((leaf.grad <= -1 / 8) & (leaf.grad >= -1 / 3)).all()


def test_integers() -> None:
    x = tg.tensor([-7, 3, 9])
    assert F.relu(x).tolist() == [0, 3, 9]
    assert F.relu6(x).tolist() == [0, 3, 6]
    assert F.hardtanh(x, -2, 4).tolist() == [-2, 3, 4]
    assert F.hardtanh(x).dtype is tg.int64
    assert F.threshold(x, 3, 20).tolist() == [20, 20, 9]
    assert F.softsign(x).dtype is tg.float32
    for name in (
        "elu",
        "gelu",
        "silu",
        "mish",
        "softplus",
        "logsigmoid",
        "leaky_relu",
        "hardsigmoid",
        "softshrink",
    ):
        with pytest.raises(NotImplementedError, match="convert with"):
            getattr(F, name)(x)


def test_wrong_calls() -> None:
    x = tg.ones(3)
    with pytest.raises(TypeError):
        F.relu([1.0])
    with pytest.raises(TypeError):
        F.relu([1.0], inplace=True)
    with pytest.raises(ValueError, match="min_val"):
        F.hardtanh(x, 2, 1)
    with pytest.raises(RuntimeError, match="alpha cannot be 0"):
        F.celu(x, 0.0)
    with pytest.raises(RuntimeError, match="approximate"):
        F.gelu(x, approximate="erf")
    with pytest.raises(RuntimeError, match="lambda"):
        F.softshrink(x, -1.0)
    with pytest.raises(RuntimeError, match="must be even"):
        F.glu(x)
    with pytest.raises(RuntimeError, match="upper bound"):
        F.rrelu(x, 2.0, 1.0, training=True)
    with pytest.raises(RuntimeError, match="Boolean"):
        F.relu(tg.tensor([True]))
