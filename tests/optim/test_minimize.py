"""Minimisation by SciPy: known minima by every method, trees, bounds, modules, errors."""

from __future__ import annotations

import collections
import itertools
import sys
import threading

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.optim import hvp, minimize, value_and_grad
from tapegrad.optim.minimize import BOUNDED, METHODS, Objective, _blas_of_scipy, _one_blas_thread

pytest.importorskip("scipy", reason="SciPy is what is tested with")


def rosenbrock(x):
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


def quadratic(p):
    return ((p["a"] - tg.tensor([1.0, 2.0], dtype=tg.float64)) ** 2).sum() + (p["b"][0] + 3) ** 2


@pytest.mark.parametrize("method", METHODS)
def test_every_method_finds_the_minimum(method):
    limit = {"maxfun" if method == "tnc" else "maxiter": 2000}
    found = minimize(rosenbrock, tg.tensor([1.1, 1.1]), method=method, options=limit, tol=1e-6)
    assert found.x.dtype == tg.float64
    np.testing.assert_allclose(found.x.numpy(), 1, atol=5e-2 if method == "cobyla" else 1e-3)
    assert found.fun == pytest.approx(0, abs=1e-3 if method == "cobyla" else 1e-6)
    assert type(found.fun) is float
    assert 0 < found.nfev <= found.scipy.nfev, "the same point is not evaluated twice"
    if method in ("nelder-mead", "powell", "cobyla", "cobyqa"):
        assert found.grad is None
        assert found.nhev == 0
    else:
        assert found.grad.abs().max() < 1e-2
    assert (found.nhev > 0) == (
        method in ("newton-cg", "trust-ncg", "trust-krylov", "trust-constr", "dogleg", "trust-exact")
    )


@pytest.mark.parametrize("method", ["L-BFGS-B", "trust-krylov"])
def test_as_scipy_does_with_derivatives_by_hand(method):
    from scipy.optimize import minimize as scipy_minimize
    from scipy.optimize import rosen, rosen_der, rosen_hess_prod

    start = np.linspace(-1, 1, 8)
    hess = {"hessp": rosen_hess_prod} if method == "trust-krylov" else {}
    theirs = scipy_minimize(rosen, start, method=method, jac=rosen_der, **hess)
    mine = minimize(rosenbrock, tg.tensor(start), method=method)
    assert mine.nit == theirs.nit
    assert mine.nfev == theirs.nfev
    np.testing.assert_allclose(mine.x.numpy(), theirs.x, rtol=1e-6)


def test_a_tree_of_parameters_comes_back_as_it_was():
    Pair = collections.namedtuple("Pair", "left right")
    start = {"one": [tg.zeros(2, 3), 4.0], "two": Pair(np.ones(2), (tg.zeros(()),))}
    seen = []

    def fn(p):
        seen.append(p)
        one, two = p["one"], p["two"]
        return (
            ((one[0] - 1) ** 2).sum()
            + (one[1] - 2) ** 2
            + ((two.left - 3) ** 2).sum()
            + (two.right[0] - 4) ** 2
        )

    found = minimize(fn, start)
    for p in (seen[0], found.x, found.grad):
        assert list(p) == ["one", "two"]
        assert type(p["one"]) is list
        assert type(p["two"]) is Pair
        assert type(p["two"].right) is tuple
        assert p["one"][0].shape == (2, 3)
        assert p["one"][0].dtype == tg.float64
        assert p["one"][1].shape == ()
    np.testing.assert_allclose(found.x["one"][0].numpy(), np.ones((2, 3)), atol=1e-6)
    np.testing.assert_allclose(found.x["two"].left.numpy(), [3, 3], atol=1e-6)
    assert found.x["two"].right[0].item() == pytest.approx(4, abs=1e-6)
    assert not found.x["one"][0].requires_grad
    assert start["one"][0].sum() == 0, "the start is not written to"


def test_a_parameter_that_is_not_used_stays():
    found = minimize(lambda p: (p[0] - 1) ** 2, [0.0, tg.ones(3)])
    assert found.x[0].item() == pytest.approx(1)
    np.testing.assert_array_equal(found.x[1].numpy(), 1)
    np.testing.assert_array_equal(found.grad[1].numpy(), 0)


@pytest.mark.parametrize("method", BOUNDED)
def test_bounds(method):
    start = {"a": tg.tensor([0.0, 0.5]), "b": [0.0]}
    bounds = ({"a": 0, "b": [-1.0]}, {"a": tg.tensor([0.5, np.inf]), "b": None})
    found = minimize(quadratic, start, method=method, bounds=bounds, tol=1e-8)
    np.testing.assert_allclose(found.x["a"].numpy(), [0.5, 2], atol=1e-4)
    assert found.x["b"][0].item() == pytest.approx(-1, abs=1e-4)
    assert found.x["a"][0] <= 0.5 + 1e-12


@pytest.mark.parametrize(
    ("bounds", "error", "message"),
    [
        (3, TypeError, r"a pair \(lower, upper\)"),
        ((1.0, None), ValueError, r"the start of \['a'\] lies outside"),
        ((0, -1), ValueError, r"a lower bound of \['a'\] is above the upper"),
        ((float("nan"), None), ValueError, r"lower bound of \['a'\] is NaN"),
        (({"a": 0}, None), ValueError, r"lower bounds differ .* a dict with keys \['a'\] for a dict with"),
        ((None, {"a": 0, "b": [1, 2]}), ValueError, r"at params\['b'\]: a list of 2 for a list of 1"),
        (({"a": np.zeros(3), "b": 0}, None), ValueError, r"shape \[3\], which does not broadcast .* \[2\]"),
        (({"a": "x", "b": 0}, None), ValueError, r"at params\['a'\]: a str for a Tensor"),
    ],
)
def test_bad_bounds(bounds, error, message):
    with pytest.raises(error, match=message):
        minimize(quadratic, {"a": tg.zeros(2), "b": [0.0]}, bounds=bounds)


def test_methods_without_bounds_say_so():
    with pytest.raises(ValueError, match="'trust-krylov' takes no bounds; those that do are nelder-mead"):
        minimize(rosenbrock, tg.zeros(2), method="trust-krylov", bounds=(0, 1))


@pytest.mark.parametrize(
    ("fn", "start", "error", "message"),
    [
        (lambda p: p * 1, tg.zeros(2), TypeError, r"one element, got a tensor of shape \[2\]"),
        (lambda p: 1.0, tg.zeros(2), TypeError, "one element, got float"),
        (lambda p: p.detach().sum(), tg.zeros(2), RuntimeError, "no_grad, from detached tensors"),
        (lambda p: p.sum(), tg.zeros(2, dtype=tg.int64), TypeError, "params has dtype int64"),
        (lambda p: p["a"], {"a": "x"}, TypeError, r"\['a'\] is a str"),
        (lambda p: p["a"], {"a": True}, TypeError, r"\['a'\] is a bool"),
        (lambda p: p["a"], {"a": None}, TypeError, r"\['a'\] is a NoneType"),
        (lambda p: p.log().sum(), tg.tensor([-1.0]), ValueError, "the function is nan at the start"),
        (
            lambda p: (p * 0).nan_to_num(0.0).sum(),
            tg.tensor([np.inf]),
            ValueError,
            "value that is not finite",
        ),
        (lambda p: p, [], ValueError, "there are no parameters"),
    ],
)
def test_errors(fn, start, error, message):
    with pytest.raises(error, match=message):
        minimize(fn, start)


def test_unknown_method():
    with pytest.raises(ValueError, match="unknown method 'adam'; there are nelder-mead, "):
        minimize(rosenbrock, tg.zeros(2), method="adam")


def test_without_scipy(monkeypatch):
    monkeypatch.setitem(sys.modules, "scipy.optimize", None)
    with pytest.raises(ModuleNotFoundError, match="minimize needs SciPy: pip install scipy"):
        minimize(rosenbrock, tg.zeros(2))


def test_an_exception_in_the_function_arrives():
    def fn(p):
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        minimize(fn, tg.zeros(2))


def network():
    tg.manual_seed(0)
    model = tg.nn.Sequential(tg.nn.Linear(1, 8), tg.nn.Tanh(), tg.nn.Linear(8, 1)).double()
    x = tg.linspace(-2, 2, 40, dtype=tg.float64).reshape(-1, 1)
    return model, lambda m: ((m(x) - x.sin()) ** 2).mean()


@pytest.mark.parametrize("method", ["L-BFGS-B", "trust-krylov"])
def test_a_module_is_trained_in_place(method):
    model, loss = network()
    model[0].bias.requires_grad_(False)
    frozen = model[0].bias.clone()
    found = minimize(loss, model, method=method, options={"maxiter": 60})
    assert found.x is model
    assert found.fun < 1e-3
    assert loss(model).item() == pytest.approx(found.fun, rel=1e-12)
    assert list(found.grad) == ["0.weight", "2.weight", "2.bias"]
    assert all(p.grad is None for p in model.parameters())
    assert (model[0].bias == frozen).all()


def test_a_module_is_as_before_after_an_exception():
    model, loss = network()
    before = [p.clone() for p in model.parameters()]
    calls = itertools.count()

    def fails(m):
        if next(calls) == 4:
            raise KeyboardInterrupt
        return loss(m)

    with pytest.raises(KeyboardInterrupt):
        minimize(fails, model)
    assert all((p == b).all() for p, b in zip(model.parameters(), before, strict=True))


def test_a_module_has_to_be_float64():
    with pytest.raises(TypeError, match=r"parameter weight is .*float32; .* call module.double\(\) first"):
        minimize(lambda m: m.weight.sum(), tg.nn.Linear(2, 1))


def test_bounds_of_a_module():
    model, loss = network()
    model.requires_grad_(False)
    model[2].requires_grad_()
    found = minimize(loss, model, bounds=({"2.weight": None, "2.bias": -1}, {"2.weight": 1, "2.bias": 1}))
    assert model[2].weight.max() <= 1
    assert found.success


def test_callback_sees_iterates_and_may_stop():
    seen = []

    def callback(x):
        seen.append(rosenbrock(x).item())
        if len(seen) == 5:
            raise StopIteration

    found = minimize(rosenbrock, tg.tensor([-1.0, 2.0]), callback=callback)
    assert len(seen) == 5 == found.nit
    assert seen == sorted(seen, reverse=True)
    assert not found.success
    assert seen[-1] == found.fun


def test_options_arrive():
    found = minimize(rosenbrock, tg.tensor([-1.0, 2.0]), options={"maxiter": 2})
    assert found.nit == 2
    assert not found.success
    assert "no success: " in repr(found)
    assert "nit=2" in repr(found)


def test_inside_no_grad():
    with tg.no_grad():
        assert minimize(rosenbrock, tg.zeros(2)).success


def test_the_graph_of_the_gradient_is_recorded_once_per_point():
    calls = itertools.count()

    def fn(x):
        next(calls)
        return rosenbrock(x)

    objective = Objective(fn, tg.tensor([0.5, 0.25, 0.1]), gradients=True)
    full = objective.hessian(objective.start)
    assert next(calls) == 1
    expected = tg.autograd.functional.hessian(rosenbrock, tg.tensor(objective.start))
    np.testing.assert_allclose(full, expected.numpy(), rtol=1e-12)


def test_value_and_grad_and_hvp():
    tree = {"w": tg.tensor([1.0, 2.0]), "rest": (tg.tensor(3.0), tg.ones(2))}

    def fn(p, scale, *, shift=0.0):
        return scale * (p["w"] ** 3).sum() * p["rest"][0] + shift

    value, grads = value_and_grad(fn)(tree, 2.0, shift=1.0)
    assert value.item() == 55
    assert not value.requires_grad
    assert value.dtype == tg.float32
    np.testing.assert_array_equal(grads["w"].numpy(), [18, 72])
    assert grads["rest"][0].item() == 18
    np.testing.assert_array_equal(grads["rest"][1].numpy(), 0)
    assert grads["w"].dtype == tg.float32
    assert tree["w"].grad is None

    direction = {"w": tg.tensor([1.0, 0.0]), "rest": (tg.tensor(1.0), tg.zeros(2))}
    product = hvp(fn)(tree, direction, 2.0)
    np.testing.assert_array_equal(product["w"].numpy(), [36 + 6, 24])
    assert product["rest"][0].item() == 6
    np.testing.assert_array_equal(product["rest"][1].numpy(), 0)
    with pytest.raises(ValueError, match="the direction must be a tree of tensors with the shapes"):
        hvp(fn)(tree, {"w": tg.ones(3)}, 2.0)
    linear = hvp(lambda x: x.sum())(tg.ones(2), tg.ones(2))
    np.testing.assert_array_equal(linear.numpy(), 0)


def test_value_and_grad_of_a_module():
    model, loss = network()
    value, grads = value_and_grad(loss)(model)
    assert all(p.grad is None for p in model.parameters())
    expected = loss(model)
    expected.backward()
    assert value.item() == expected.item()
    for name, p in model.named_parameters():
        np.testing.assert_allclose(grads[name].numpy(), p.grad.numpy(), rtol=1e-12)
    ones = {name: tg.ones_like(p) for name, p in model.named_parameters()}
    assert list(hvp(loss)(model, ones)) == list(grads)


@pytest.mark.parametrize(
    ("leaf", "shown"), [(tg.ones(2, dtype=tg.int64), "int64"), (1.0, "float"), (np.ones(2), "ndarray")]
)
def test_value_and_grad_of_what_has_none(leaf, shown):
    with pytest.raises(TypeError, match=f"{shown}; the parameters must be floating tensors"):
        value_and_grad(lambda p: p.sum())(leaf)


def test_scipys_blas_uses_one_thread_until_the_last_one_is_through():
    libraries = _blas_of_scipy()
    if not libraries:
        pytest.skip("SciPy shares NumPy's BLAS here")
    before = [c.get_num_threads() for c in libraries]
    inside, leave = threading.Event(), threading.Event()

    def other():
        with _one_blas_thread():
            inside.set()
            leave.wait()

    thread = threading.Thread(target=other)
    with _one_blas_thread():
        thread.start()
        inside.wait()
        assert [c.get_num_threads() for c in libraries] == [1] * len(libraries)
    assert [c.get_num_threads() for c in libraries] == [1] * len(libraries)
    leave.set()
    thread.join()
    assert [c.get_num_threads() for c in libraries] == before
