"""Softmax, log_softmax, softmin: values, any order of derivative, edges and errors."""

from __future__ import annotations

import numpy as np
import pytest

import tapegrad as tg
import tapegrad.nn.functional as F
from tapegrad.autograd import gradcheck, gradgradcheck

SHAPES = [
    ((5, 7), -1),
    ((5, 7), 0),
    ((3, 4, 5), 1),
    ((2, 3, 150), 1),
    ((4, 1030), 1),
    ((), 0),
    ((3,), 0),
    ((2, 0), 1),
    ((0, 3), 1),
]


def _twin(x: np.ndarray, dim: int) -> np.ndarray:
    e = np.exp(x - x.max(dim, keepdims=True, initial=-np.inf))
    return e / e.sum(dim, keepdims=True)


@pytest.mark.parametrize(("shape", "dim"), SHAPES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_values(shape: tuple[int, ...], dim: int, dtype: str) -> None:
    x = (3 * np.random.default_rng(0).standard_normal(shape)).astype(dtype)
    tolerance = 2e-6 if dtype == "float32" else 1e-13
    expected = _twin(x.astype("d"), dim) if shape else np.ones(())
    for got, want in (
        (tg.softmax(tg.tensor(x), dim), expected),
        (tg.log_softmax(tg.tensor(x), dim), np.log(expected)),
    ):
        assert str(got.dtype) == f"tapegrad.{dtype}"
        np.testing.assert_allclose(got.numpy(), want, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dim", [0, 1, 2])
@pytest.mark.parametrize("function", [tg.softmax, tg.log_softmax])
def test_derivatives(function, dim: int) -> None:
    x = tg.tensor(np.random.default_rng(1).standard_normal((3, 4, 2)), requires_grad=True)
    assert gradcheck(lambda x: function(x, dim), (x,))
    assert gradgradcheck(lambda x: function(x, dim), (x,))


@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("function", [tg.softmax, tg.log_softmax])
def test_the_kernel_of_the_derivative_equals_its_expression(function, dim: int) -> None:
    x = tg.tensor(np.random.default_rng(1).standard_normal((30, 140)), requires_grad=True)
    g = tg.tensor(np.random.default_rng(2).standard_normal((30, 140)))
    (plain,) = tg.autograd.grad(function(x, dim), x, g)
    (recorded,) = tg.autograd.grad(function(x, dim), x, g, create_graph=True)
    np.testing.assert_allclose(plain.numpy(), recorded.detach().numpy(), rtol=1e-12, atol=1e-14)


def test_layouts_give_the_same_numbers() -> None:
    x = np.random.default_rng(0).standard_normal((6, 5))
    plain = tg.softmax(tg.tensor(x), 1).numpy()
    for other in (np.asfortranarray(x), np.repeat(x, 2, 1)[:, ::2], x[::-1]):
        want = plain[::-1] if other.strides[0] < 0 else plain
        np.testing.assert_array_equal(tg.softmax(tg.from_numpy(other.copy(order="K")), 1).numpy(), want)
    np.testing.assert_allclose(tg.softmax(tg.tensor(x).T, 0).numpy().T, plain, rtol=1e-14)


def test_large_infinite_and_missing_numbers() -> None:
    inf, nan = np.inf, np.nan
    x = tg.tensor([[1e4, 0.0, -1e4], [-inf, 0.0, 0.0], [inf, 0.0, 0.0], [nan, 0.0, 0.0], [-inf, -inf, -inf]])
    nothing = [nan, nan, nan]
    np.testing.assert_array_equal(
        tg.softmax(x, 1).numpy(), [[1, 0, 0], [0, 0.5, 0.5], nothing, nothing, nothing]
    )
    # Numbers side by side take another way through the kernel.
    np.testing.assert_array_equal(tg.softmax(x.T.contiguous(), 0).numpy().T, tg.softmax(x, 1).numpy())


def test_half_precision_and_dtype() -> None:
    x = tg.tensor([1.0, 2.0, 3.0], dtype=tg.float16)
    assert tg.softmax(x, 0).dtype is tg.float16
    assert tg.softmax(x, 0, dtype=tg.float64).dtype is tg.float64
    assert tg.softmax(tg.tensor([1, 2]), 0, dtype=tg.float32).dtype is tg.float32


def test_softmin_and_methods() -> None:
    x = tg.tensor([[1.0, 2.0], [0.5, -3.0]])
    assert tg.equal(F.softmin(x, 1), tg.softmax(-x, 1))
    assert tg.equal(x.softmax(1), F.softmax(x, dim=1))
    assert tg.equal(x.log_softmax(-1), F.log_softmax(x, -1))


def test_wrong_calls() -> None:
    with pytest.raises(IndexError, match="Dimension out of range"):
        tg.softmax(tg.ones(3), 1)
    with pytest.raises(RuntimeError, match="not implemented"):
        tg.softmax(tg.tensor([1, 2]), 0)
    with pytest.raises(TypeError):
        tg.softmax([1.0], 0)
    with pytest.warns(UserWarning, match="Implicit dimension"):
        F.softmax(tg.ones(2, 2))
