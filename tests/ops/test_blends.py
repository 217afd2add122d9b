"""clamp, round, lerp, addcmul, isclose and the special functions: types, edges, in-place forms, errors."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.special as sp

import tapegrad as tg
from tapegrad.autograd import gradcheck, gradgradcheck

INF, NAN = math.inf, math.nan


# -- bounds and rounding -------------------------------------------------------------------------------


def test_bounds_may_be_numbers_tensors_or_absent() -> None:
    x = tg.tensor([-2.0, 0.5, 3.0])
    low, high = tg.tensor([-1.0, 1.0, 0.0]), tg.tensor(2.0)
    assert x.clamp(-1, 1).tolist() == [-1, 0.5, 1]
    assert x.clamp(min=0).tolist() == [0, 0.5, 3]
    assert tg.clip(x, max=1).tolist() == [-2, 0.5, 1]
    assert x.clamp(low, high).tolist() == [-1, 1, 2]
    assert x.clamp(low, 0.25).tolist() == [-1, 0.25, 0.25]  # where min > max, max wins
    assert tg.tensor([1, 5]).clamp(2, 3).tolist() == [2, 3]
    assert tg.tensor([1, 5]).clamp(min=2.5).dtype is tg.float32
    assert tg.tensor([NAN]).clamp(0, 1).isnan().item()
    with pytest.raises(RuntimeError, match="At least one"):
        x.clamp()
    with pytest.raises(TypeError):
        x.clamp("0", 1)


def test_clamp_passes_the_gradient_at_the_bounds() -> None:
    x = tg.tensor([-1.0, 0.0, 0.5, 1.0, 2.0], requires_grad=True)
    x.clamp(0, 1).sum().backward()
    assert x.grad.tolist() == [0, 1, 1, 1, 0]
    low = tg.tensor(0.25, requires_grad=True)
    x.detach().clamp(low, 1).sum().backward()
    assert low.grad.item() == 2


def test_clamp_in_place() -> None:
    x = tg.tensor([-2.0, 0.5, 3.0], requires_grad=True)
    y = x * 1
    assert y.clamp_(0, 1) is y
    y.sum().backward()
    assert x.grad.tolist() == [0, 1, 0]
    assert tg.tensor([-2.0, 3.0]).clamp_min_(0).clamp_max_(1).tolist() == [0, 1]
    assert tg.tensor([-2, 3]).clip_(max=0).tolist() == [-2, 0]
    with pytest.raises(RuntimeError, match="cast"):
        tg.tensor([1]).clamp_(0.5)


def test_replacing_nan_and_infinities() -> None:
    x = tg.tensor([NAN, INF, -INF, 1.0], requires_grad=True)
    big = tg.finfo(tg.float32).max
    assert x.nan_to_num().tolist() == [0, big, -big, 1]
    y = tg.nan_to_num(x, 5.0, 6.0, 7.0)
    assert y.tolist() == [5, 6, 7, 1]
    y.sum().backward()
    assert x.grad.tolist() == [0, 0, 0, 1]
    assert tg.nan_to_num(tg.tensor([1, 2])).tolist() == [1, 2]
    assert tg.tensor([NAN]).nan_to_num_(3).item() == 3
    assert tg.tensor([INF], dtype=tg.float16).nan_to_num().item() == 65504


def test_rounding_to_decimals() -> None:
    x = tg.tensor([1.25, -2.675, 1234.5], dtype=tg.float64)
    assert x.round(decimals=1).tolist() == [1.2, -2.7, 1234.5]
    assert x.round(decimals=-2).tolist() == [0, 0, 1200]
    assert tg.tensor([0.5, 1.5, -0.5]).round().tolist() == [0, 2, 0]
    assert tg.tensor([1.25]).round_(decimals=1).item() == pytest.approx(1.2)
    with pytest.raises(RuntimeError, match="not implemented"):
        tg.tensor([12]).round(decimals=-1)


def test_heaviside() -> None:
    x, values = tg.tensor([-1.0, 0.0, 2.0]), tg.tensor(0.5)
    assert tg.heaviside(x, values).tolist() == [0, 0.5, 1]
    with pytest.raises(RuntimeError, match="dtypes"):
        tg.heaviside(x, tg.tensor(1))


# -- several operands ----------------------------------------------------------------------------------


def test_lerp() -> None:
    a, b = tg.tensor([0.0, 10.0]), tg.tensor([4.0, 20.0])
    assert tg.lerp(a, b, 0.25).tolist() == [1, 12.5]
    assert a.lerp(b, tg.tensor([0.0, 1.0])).tolist() == [0, 20]
    assert a.clone().lerp_(b, 0.5).tolist() == [2, 15]
    with pytest.raises(RuntimeError, match="dtype"):
        a.lerp(b.double(), 0.5)
    with pytest.raises(TypeError):
        a.lerp(1.0, 0.5)


def test_addcmul_and_addcdiv() -> None:
    a, b, c = tg.tensor([1.0, 2.0]), tg.tensor([3.0, 4.0]), tg.tensor([2.0, 8.0])
    assert tg.addcmul(a, b, c, value=0.5).tolist() == [4, 18]
    assert tg.addcdiv(a, b, c).tolist() == [2.5, 2.5]
    assert a.clone().addcmul_(b, c).addcdiv_(b, c, value=2).tolist() == [10, 35]
    whole = tg.tensor([1])
    assert tg.addcmul(whole, whole, whole, value=2).tolist() == [3]
    with pytest.raises(RuntimeError, match="Integer division"):
        tg.addcdiv(whole, whole, whole)
    x = tg.tensor([[1.0], [2.0]], requires_grad=True)
    (x.detach() * tg.ones(2, 2)).addcmul_(x, x).sum().backward()
    assert x.grad.tolist() == [[4], [8]]


def test_logarithms_of_sums() -> None:
    a, b = tg.tensor([1000.0, -INF, INF, 0.0]), tg.tensor([1000.0, -INF, INF, -INF])
    assert tg.logaddexp(a, b).tolist() == pytest.approx([1000 + math.log(2), -INF, INF, 0])
    assert tg.logaddexp2(tg.tensor(3.0), tg.tensor(3.0)).item() == 4
    with pytest.raises(RuntimeError, match="not implemented"):
        tg.logaddexp(tg.tensor(1), tg.tensor(1))
    x = tg.tensor([800.0, -5.0], dtype=tg.float64, requires_grad=True)
    assert gradcheck(tg.logaddexp, [x, x.detach() - 1])


def test_x_log_y() -> None:
    x = tg.tensor([0.0, 0.0, 2.0], requires_grad=True)
    y = tg.tensor([0.0, NAN, math.e])
    assert tg.xlogy(x, y).isnan().tolist() == [False, True, False]
    tg.xlogy(x[::2], y[::2]).sum().backward()
    assert x.grad.tolist() == pytest.approx([0, 0, 1])
    assert tg.xlogy(2.0, tg.tensor(math.e)).item() == pytest.approx(2)


def test_powers_and_divisors() -> None:
    assert tg.float_power(tg.tensor([2]), 3).dtype is tg.float64
    assert tg.ldexp(tg.tensor([1.5]), tg.tensor([3])).item() == 12
    assert tg.gcd(tg.tensor([12, 18]), tg.tensor(8)).tolist() == [4, 2]
    assert tg.lcm(tg.tensor([4]), tg.tensor([6])).item() == 12
    assert tg.deg2rad(tg.tensor([180])).item() == pytest.approx(math.pi)
    with pytest.raises(RuntimeError, match="bool"):
        +tg.tensor([True])
    x = tg.tensor(3.0, dtype=tg.float64, requires_grad=True)
    assert gradgradcheck(lambda t: 2.0**t, [x])


# -- questions -----------------------------------------------------------------------------------------


def test_closeness() -> None:
    a = tg.tensor([1.0, INF, NAN])
    b = tg.tensor([1.0 + 1e-6, INF, NAN])
    assert tg.isclose(a, b).tolist() == [True, True, False]
    assert tg.allclose(a, b, equal_nan=True)
    assert not tg.allclose(a[:1], b[:1], rtol=0, atol=1e-8)
    assert tg.isclose(tg.tensor([100]), tg.tensor([101]), rtol=0.1).item()
    assert tg.equal(a[:2], a[:2].clone())
    assert not a.equal(a)
    assert not tg.equal(tg.ones(2), tg.ones(3))
    with pytest.raises(RuntimeError, match="did not match"):
        tg.isclose(a, b.double())
    with pytest.raises(RuntimeError, match="rtol"):
        tg.isclose(a, b, rtol=-1)


def test_signs() -> None:
    x = tg.tensor([-INF, -1.0, -0.0, 0.0, 2.0, INF])
    assert x.signbit().tolist() == [True, True, True, False, False, False]
    assert x.isneginf().tolist() == [True] + [False] * 5
    assert x.isposinf().tolist() == [False] * 5 + [True]
    assert x.sgn().tolist() == [-1, -1, 0, 0, 1, 1]
    assert x.isreal().all().item()
    assert tg.tensor([-1, 1]).signbit().tolist() == [True, False]


# -- special functions ---------------------------------------------------------------------------------


def test_logit() -> None:
    x = tg.tensor([-0.5, 0.0, 0.25, 1.0], dtype=tg.float64, requires_grad=True)
    assert x.logit().isnan().tolist() == [True, False, False, False]
    x.logit(0.1).sum().backward()
    assert x.grad.tolist() == pytest.approx([0, 0, 16 / 3, 0])
    assert tg.tensor([0.5]).logit_().item() == 0


def test_far_out_and_at_the_edges() -> None:
    x = np.array([-40.0, -5.0, -1.0, 0.0, 1.0, 5.0, 30.0])
    t = tg.from_numpy(x)
    for name in ("log_ndtr", "ndtr", "erfcx", "i0e", "i1e"):
        got = getattr(tg.special, name)(t).numpy()
        np.testing.assert_allclose(got, getattr(sp, name)(x), rtol=1e-13, atol=1e-300, err_msg=name)
    p = np.array([0.0, 1e-300, 1e-9, 0.3, 0.5, 0.9, 1 - 1e-12, 1.0])
    np.testing.assert_allclose(tg.special.ndtri(tg.from_numpy(p)).numpy(), sp.ndtri(p), rtol=1e-13)
    for n in (0, 1, 2, 5):
        np.testing.assert_allclose(
            tg.polygamma(n, tg.from_numpy(p[1:] + 1)).numpy(), sp.polygamma(n, p[1:] + 1), rtol=1e-12
        )
    assert tg.special.entr(tg.tensor([0.0, -1.0])).tolist() == [0, -INF]
    assert tg.sinc(tg.tensor([0, 1])).tolist() == pytest.approx([1, 0], abs=1e-6)


def test_gamma_functions_of_two_arguments() -> None:
    a, x = np.array([0.5, 2.0, 3.0]), np.array([1.0, 0.3, 7.0])
    s, t = tg.from_numpy(a), tg.from_numpy(x).requires_grad_()
    np.testing.assert_allclose(tg.special.gammainc(s, t).detach().numpy(), sp.gammainc(a, x))
    np.testing.assert_allclose(tg.special.zeta(s + 1, t).detach().numpy(), sp.zeta(a + 1, x))
    np.testing.assert_allclose(
        tg.mvlgamma(s + 3, 3).numpy(),
        sp.multigammaln(a[0] + 3, 3) * 0 + [sp.multigammaln(v + 3, 3) for v in a],
    )
    for function in (tg.special.gammainc, tg.special.gammaincc, lambda b, y: tg.special.zeta(b + 1, y)):
        assert gradcheck(lambda y, f=function: f(s, y), [t])
        assert gradgradcheck(lambda y, f=function: f(s, y), [t])
    with pytest.raises(NotImplementedError, match="first argument"):
        tg.special.gammainc(s.requires_grad_(), t).sum().backward()


@pytest.mark.parametrize("function", [tg.sinc, tg.i0, tg.special.i1, tg.special.i0e, tg.special.i1e])
def test_derivatives_at_zero(function: object) -> None:
    x = tg.zeros(1, dtype=tg.float64, requires_grad=True)
    (g,) = tg.autograd.grad(function(x).sum(), x, create_graph=True)
    (h,) = tg.autograd.grad(g.sum(), x, allow_unused=True, materialize_grads=True)
    assert g.isfinite().all()
    assert h.isfinite().all()


def test_polygamma_needs_a_whole_order() -> None:
    with pytest.raises(TypeError, match="int"):
        tg.polygamma(1.5, tg.tensor(1.0))
    with pytest.raises(RuntimeError, match="negative"):
        tg.polygamma(-1, tg.tensor(1.0))
