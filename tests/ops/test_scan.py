"""Scans: sums, products, extrema and log-sum-exps so far, differences and trapezoids."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.autograd import gradcheck, gradgradcheck

RANDOM = np.random.default_rng(0)
SCANS = {
    "cumsum": (tg.cumsum, np.cumsum),
    "cumprod": (tg.cumprod, np.cumprod),
    "cummax": (lambda x, d: tg.cummax(x, d).values, lambda x, axis: np.maximum.accumulate(x, axis)),
    "cummin": (lambda x, d: tg.cummin(x, d).values, lambda x, axis: np.minimum.accumulate(x, axis)),
    "logcumsumexp": (tg.logcumsumexp, lambda x, axis: np.logaddexp.accumulate(x, axis)),
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", SCANS)
def test_values_in_every_layout(name: str, dtype: str) -> None:
    ours, numpys = SCANS[name]
    x = RANDOM.uniform(-1.5, 1.5, (4, 30, 3)).astype(dtype)
    for array in (x, np.asfortranarray(x), np.repeat(x, 2, 1)[:, ::2]):
        for dim in (0, 1, 2, -1):
            got = ours(tg.from_numpy(array), dim).numpy()
            np.testing.assert_allclose(got, numpys(x.astype("float64"), axis=dim), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", SCANS)
def test_gradients_to_second_order(name: str) -> None:
    ours, _ = SCANS[name]
    x = tg.from_numpy(RANDOM.uniform(0.5, 2, (2, 4, 2))).requires_grad_()
    for dim in (1, -1):
        assert gradcheck(lambda t, d=dim: ours(t, d), [x])
        assert gradgradcheck(lambda t, d=dim: ours(t * t, d), [x])


@pytest.mark.parametrize("zeros", [(), (1,), (0, 2), (0, 1, 2, 3)])
def test_cumprod_through_zeros(zeros: tuple[int, ...]) -> None:
    x = np.array([[2.0, -3.0, 0.5, 1.5]])
    x[0, list(zeros)] = 0
    t = tg.from_numpy(x).requires_grad_()
    assert gradcheck(lambda a: a.cumprod(1), [t])
    assert gradgradcheck(lambda a: a.cumprod(1), [t])


def test_log_cum_sum_exp_is_stable() -> None:
    x = tg.tensor([-math.inf, 1000.0, 1000.0, -1000.0, -math.inf], dtype=tg.float64, requires_grad=True)
    y = x.logcumsumexp(0)
    top = 1000 + math.log(2)
    assert y.tolist() == [-math.inf, 1000, top, top, top]
    y[1:].sum().backward()
    assert x.grad.tolist() == pytest.approx([0, 2.5, 1.5, 0, 0])
    assert tg.tensor([math.inf, 0.0]).logcumsumexp(0).tolist() == [math.inf, math.inf]


def test_edges() -> None:
    for name, (ours, _) in SCANS.items():
        assert ours(tg.empty(2, 0), 1).shape == (2, 0), name
        assert ours(tg.tensor(3.0), 0).item() == pytest.approx(3.0), name
        with pytest.raises(IndexError):
            ours(tg.ones(2), 1)
    assert tg.tensor([True, True]).cumsum(0).tolist() == [1, 2]
    assert tg.tensor([2, 3]).cumprod(0, dtype=tg.float32).dtype is tg.float32
    assert tg.tensor([3, 1, 3]).cummax(0).indices.tolist() == [0, 0, 2]
    assert tg.ones(5000, dtype=tg.float16).cumsum(0)[-1].item() == 5000


def test_in_place() -> None:
    x = tg.tensor([1.0, 2.0, 3.0])
    y = (x.requires_grad_() * 2).cumsum_(0)
    y.sum().backward()
    assert y.tolist() == [2, 6, 12]
    assert x.grad.tolist() == [6, 4, 2]
    assert tg.tensor([2.0, 3.0]).cumprod_(0).tolist() == [2, 6]
    with pytest.raises(RuntimeError, match="dtype"):
        tg.tensor([1.0]).cumsum_(0, dtype=tg.float64)


def test_differences() -> None:
    x = RANDOM.standard_normal((3, 5))
    t = tg.from_numpy(x).requires_grad_()
    edge = tg.from_numpy(x[:, :1])
    for n in (0, 1, 2, 7):
        np.testing.assert_allclose(t.diff(n).detach().numpy(), np.diff(x, n))
    got = tg.diff(t, dim=1, prepend=edge, append=edge).detach().numpy()
    np.testing.assert_allclose(got, np.diff(x, prepend=x[:, :1], append=x[:, :1]))
    assert gradcheck(lambda a: a.diff(2, 0), [t])
    assert tg.tensor([True, False, False]).diff().tolist() == [True, False]
    with pytest.raises(RuntimeError, match="one-dimensional"):
        tg.tensor(1.0).diff()
    with pytest.raises(RuntimeError, match="shape"):
        tg.diff(t, dim=1, prepend=tg.ones(2, 1, dtype=tg.float64))


def test_trapezoids() -> None:
    y, x = RANDOM.standard_normal((3, 6)), np.sort(RANDOM.standard_normal(6))
    t, points = tg.from_numpy(y).requires_grad_(), tg.from_numpy(x).requires_grad_()
    np.testing.assert_allclose(tg.trapezoid(t, points).detach().numpy(), np.trapezoid(y, x))
    np.testing.assert_allclose(tg.trapz(t, dx=0.5, dim=0).detach().numpy(), np.trapezoid(y, dx=0.5, axis=0))
    cumulative = tg.cumulative_trapezoid(t, points).detach().numpy()
    np.testing.assert_allclose(cumulative[:, -1], np.trapezoid(y, x))
    assert gradcheck(tg.trapezoid, [t, points])
    assert gradgradcheck(tg.cumulative_trapezoid, [t, points])
    with pytest.raises(TypeError):
        tg.trapezoid(t, points, dx=1)
