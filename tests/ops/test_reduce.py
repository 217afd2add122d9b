"""Sums, means, products, norms, moments and counting: against NumPy, in every layout, to second order."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.autograd import gradcheck, gradgradcheck

RANDOM = np.random.default_rng(0)
DTYPES = ["float32", "float64"]

REDUCTIONS = {
    "sum": (tg.sum, np.sum),
    "mean": (tg.mean, np.mean),
    "prod": (lambda x, d, k: tg.prod(x, d, k), np.prod),
    "amax": (tg.amax, np.max),
    "amin": (tg.amin, np.min),
    "var": (lambda x, d, k: tg.var(x, d, keepdim=k, correction=0), np.var),
    "std": (lambda x, d, k: tg.std(x, d, keepdim=k, correction=0), np.std),
    "norm": (
        lambda x, d, k: tg.norm(x, 2, d, k),
        lambda x, axis, keepdims: np.sqrt((x * x).sum(axis, keepdims=keepdims)),
    ),
    "l1": (
        lambda x, d, k: tg.norm(x, 1, d, k),
        lambda x, axis, keepdims: np.abs(x).sum(axis, keepdims=keepdims),
    ),
    "l3": (
        lambda x, d, k: tg.norm(x, 3, d, k),
        lambda x, axis, keepdims: (np.abs(x) ** 3).sum(axis, keepdims=keepdims) ** (1 / 3),
    ),
    "logsumexp": (tg.logsumexp, lambda x, axis, keepdims: np.log(np.exp(x).sum(axis, keepdims=keepdims))),
    "nansum": (tg.nansum, np.nansum),
    "count_nonzero": (
        lambda x, d, k: tg.count_nonzero(x, d),
        lambda x, axis, keepdims: np.count_nonzero(x, axis),
    ),
    "all": (tg.all, np.all),
    "any": (tg.any, np.any),
}
DIFFERENTIABLE = [n for n in REDUCTIONS if n not in ("count_nonzero", "all", "any")]


def layouts(x: np.ndarray) -> dict[str, np.ndarray]:
    """The same numbers, laid out in several ways."""
    return {
        "contiguous": x,
        "fortran": np.asfortranarray(x),
        "sliced": np.repeat(x, 2, axis=-1)[..., ::2],
        "turned": np.ascontiguousarray(x.transpose(1, 2, 0)).transpose(2, 0, 1),
    }


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", REDUCTIONS)
def test_every_choice_of_dims_in_every_layout(name: str, dtype: str) -> None:
    ours, numpys = REDUCTIONS[name]
    x = RANDOM.uniform(-2, 2, (3, 4, 5)).astype(dtype)
    choices = [d for n in (1, 2, 3) for d in itertools.combinations(range(3), n)]
    if name == "prod":
        choices = [(0,), (1,), (2,)]
    for label, array in layouts(x).items():
        for dims in choices:
            for keepdim in (False, True):
                dim = dims[0] if len(dims) == 1 else dims
                got = ours(tg.from_numpy(array), dim, keepdim).numpy()
                want = numpys(x.astype("float64"), axis=dims, keepdims=keepdim)
                assert got.shape == np.shape(want), (label, dims)
                np.testing.assert_allclose(got, want, rtol=3e-6, atol=3e-6, err_msg=f"{label} {dims}")


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_gradients_to_second_order(name: str) -> None:
    ours, _ = REDUCTIONS[name]
    x = tg.from_numpy(RANDOM.uniform(0.3, 2, (2, 3, 2))).requires_grad_()
    for dims in (1, -1) if name == "prod" else (1, (0, 2), (0, 1, 2)):
        assert gradcheck(lambda t, d=dims: ours(t, d, False), [x])
        assert gradgradcheck(lambda t, d=dims: ours(t, d, True), [x])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "sizes", [(1, 300_000, 1), (3, 140_000, 1), (1, 5_000, 40), (2, 9_000, 3), (700, 90, 1), (5, 31, 600)]
)
def test_large_arrays_are_accurate(sizes: tuple[int, int, int], dtype: str) -> None:
    """Chunks, tiles, folded rows and what is left over of them."""
    x = (RANDOM.standard_normal(sizes) + 3).astype(dtype)
    t, wide = tg.from_numpy(x), x.astype("float64")
    tolerance = 1e-6 if dtype == "float32" else 1e-13
    np.testing.assert_allclose(t.sum(1).numpy(), wide.sum(1), rtol=tolerance)
    np.testing.assert_array_equal(t.amax(1).numpy(), x.max(1))
    np.testing.assert_array_equal(t.amin(1).numpy(), x.min(1))
    np.testing.assert_array_equal(t.argmax(1).numpy(), x.argmax(1))
    np.testing.assert_array_equal(t.min(1).indices.numpy(), x.argmin(1))
    np.testing.assert_allclose(t.var(1).numpy(), wide.var(1, ddof=1), rtol=tolerance)
    np.testing.assert_allclose(tg.var_mean(t, 1)[1].numpy(), wide.mean(1), rtol=tolerance)
    np.testing.assert_allclose(t.norm(2, 1).numpy(), np.sqrt((wide * wide).sum(1)), rtol=tolerance)
    top = wide.max(1, keepdims=True)
    expected = np.log(np.exp(wide - top).sum(1)) + top[:, 0]
    np.testing.assert_allclose(t.logsumexp(1).numpy(), expected, rtol=tolerance)


def test_results_do_not_depend_on_threads() -> None:
    x = tg.from_numpy(RANDOM.standard_normal((7, 40_000)).astype("float32"))
    functions = [tg.sum, tg.var, tg.norm, lambda t, d=None: tg.logsumexp(t, (0, 1) if d is None else d)]
    before = tg.get_num_threads()
    results = []
    for threads in (1, 2, 3):
        tg.set_num_threads(threads)
        results.append([f(x).item() for f in functions] + [f(x, dim=0).sum().item() for f in functions[:2]])
    tg.set_num_threads(before)
    assert results[0] == results[1] == results[2]


def test_variance_far_from_zero_is_stable() -> None:
    x = (RANDOM.standard_normal((4, 5000)) * 1e-3 + 1000).astype("float32")
    for array, dim in ((x, 1), (np.ascontiguousarray(x.T), 0)):
        np.testing.assert_allclose(
            tg.from_numpy(array).var(dim).numpy(), x.astype("float64").var(1, ddof=1), rtol=1e-5
        )


def test_expanded_tensors_are_summed_without_a_copy() -> None:
    row = tg.tensor([1.0, 2.0, 3.0])
    wide = row.expand(10_000, 1_000, 3)  # 120 MB if it were copied
    assert wide.sum((0, 1)).tolist() == [1e7, 2e7, 3e7]
    assert wide.amax((0, 1)).tolist() == [1.0, 2.0, 3.0]
    assert wide.sum(2).shape == (10_000, 1_000)


# -- types -----------------------------------------------------------------------------------------


def test_integers_and_bools_add_up_in_int64() -> None:
    for dtype in (tg.bool, tg.uint8, tg.int8, tg.int32, tg.int64):
        x = tg.tensor([1, 0, 1]).to(dtype)
        for made in (x.sum(), x.prod(), x.cumsum(0), x.nansum(), x.count_nonzero()):
            assert made.dtype is tg.int64
    assert tg.tensor([100, 100], dtype=tg.int8).sum(dtype=tg.int8).item() == -56
    assert tg.tensor([1.7, 1.7]).sum(dtype=tg.int64).item() == 2
    assert tg.tensor([1, 2]).sum(dtype=tg.float64).dtype is tg.float64
    assert tg.ones(70_000, dtype=tg.float16).mean().item() == 1.0
    assert tg.tensor([1, 0], dtype=tg.uint8).all().dtype is tg.uint8


def test_means_of_integers_are_refused() -> None:
    with pytest.raises(RuntimeError, match="dtype"):
        tg.tensor([1, 2]).mean()
    for function in (tg.var, tg.std, tg.nanmean, tg.linalg.vector_norm):
        with pytest.raises(RuntimeError):
            function(tg.tensor([1, 2]))


def test_numpy_names_of_arguments() -> None:
    x = tg.arange(6.0).reshape(2, 3)
    assert x.sum(axis=0).shape == (3,)
    assert x.mean(axis=1, keepdims=True).shape == (2, 1)
    assert x.amax(axis=0, keepdims=True).shape == (1, 3)
    with pytest.raises(TypeError, match="unexpected"):
        x.sum(dims=0)


def test_out() -> None:
    out = tg.empty(0)
    x = tg.arange(6.0).reshape(2, 3)
    assert tg.sum(x, 0, out=out) is out
    assert out.tolist() == [3.0, 5.0, 7.0]
    with pytest.raises(RuntimeError, match="cast"):
        tg.mean(x, out=tg.empty((), dtype=tg.int64))


@pytest.mark.parametrize("function", [tg.sum, tg.mean, tg.amax, tg.var, tg.all, tg.logsumexp])
def test_bad_dims(function: object) -> None:
    x = tg.ones(2, 3)
    with pytest.raises(IndexError, match="out of range"):
        function(x, 2)
    with pytest.raises(RuntimeError, match="multiple times"):
        function(x, (0, -2))
    with pytest.raises(TypeError):
        function(x, 0.5)


# -- edges -----------------------------------------------------------------------------------------


def test_empty() -> None:
    x = tg.empty(0, 3)
    assert x.sum().item() == 0
    assert x.prod().item() == 1
    assert math.isnan(x.mean().item())
    assert x.sum(0).tolist() == [0, 0, 0]
    assert x.sum(1).shape == (0,)
    assert x.logsumexp(0).tolist() == [-math.inf] * 3
    assert x.all().item()
    assert not x.any().item()
    assert x.norm().item() == 0
    with pytest.raises(RuntimeError, match="norm"):
        x.norm(math.inf, 0)


def test_zero_dimensional() -> None:
    x = tg.tensor(3.0, requires_grad=True)
    for function in (tg.sum, tg.mean, tg.prod, tg.amax, lambda t: tg.logsumexp(t, 0), lambda t: t.norm()):
        x.grad = None
        y = function(x)
        assert y.shape == ()
        assert y.item() == pytest.approx(3.0)
        y.backward()
        assert x.grad.item() == pytest.approx(1.0)


@pytest.mark.parametrize("zeros", [0, 1, 2, 3])
def test_products_with_zeros_have_derivatives_of_every_order(zeros: int) -> None:
    x = np.array([2.0, -3.0, 0.5, 1.5])
    x[:zeros] = 0
    t = tg.from_numpy(x).requires_grad_()
    (g,) = tg.autograd.grad(t.prod(), t, create_graph=True)
    np.testing.assert_allclose(g.detach().numpy(), [np.prod(np.delete(x, j)) for j in range(4)])
    for j in range(4):
        (h,) = tg.autograd.grad(g[j], t, create_graph=True)
        expected = [0 if k == j else np.prod(np.delete(x, [j, k])) for k in range(4)]
        np.testing.assert_allclose(h.detach().numpy(), expected)
        k = (j + 1) % 4
        (third,) = tg.autograd.grad(h[k], t, retain_graph=True)
        expected = [0 if m in (j, k) else np.prod(np.delete(x, [j, k, m])) for m in range(4)]
        np.testing.assert_allclose(third.numpy(), expected)


@pytest.mark.parametrize("p", [0, 0.5, 1, 1.5, 2, 3, math.inf, -math.inf])
def test_norms_have_no_slope_at_the_origin(p: float) -> None:
    x = tg.zeros(3, dtype=tg.float64, requires_grad=True)
    x.norm(p).backward()
    assert not x.grad.isnan().any()
    if p != -math.inf:
        assert x.grad.tolist() == [0.0, 0.0, 0.0]


def test_norm_and_std_at_zero_have_finite_second_derivatives() -> None:
    x = tg.zeros(3, dtype=tg.float64, requires_grad=True)
    for y in (x.norm(), x.std()):
        (g,) = tg.autograd.grad(y, x, create_graph=True)
        (h,) = tg.autograd.grad(g.sum(), x, allow_unused=True, materialize_grads=True)
        assert h.isfinite().all()


def test_log_sum_exp_of_infinities() -> None:
    for row, value, slope in (
        ([-math.inf, -math.inf], -math.inf, [0.0, 0.0]),
        ([-math.inf, 1.0], 1.0, [0.0, 1.0]),
        ([800.0, 800.0], 800.0 + math.log(2), [0.5, 0.5]),
    ):
        x = tg.tensor(row, dtype=tg.float64, requires_grad=True)
        y = x.logsumexp(0)
        assert y.item() == value
        y.backward()
        assert x.grad.tolist() == pytest.approx(slope)


def test_nan() -> None:
    x = tg.tensor([[1.0, math.nan, 3.0], [4.0, 5.0, 6.0]], requires_grad=True)
    assert x.sum(1).isnan().tolist() == [True, False]
    assert x.nansum(1).tolist() == [4.0, 15.0]
    assert x.nanmean(1).tolist() == [2.0, 5.0]
    x.nanmean().backward()
    np.testing.assert_allclose(x.grad.numpy(), [[0.2, 0.0, 0.2], [0.2, 0.2, 0.2]], rtol=1e-6)


def test_too_few_degrees_of_freedom_warn() -> None:
    with pytest.warns(UserWarning, match="degrees of freedom"):
        assert tg.tensor([1.0]).var().isnan().item()
    with pytest.warns(UserWarning, match="degrees of freedom"):
        assert tg.var_mean(tg.tensor([1.0]))[1].item() == 1.0


def test_forms_of_unbiased() -> None:
    x = tg.arange(6.0).reshape(2, 3)
    assert x.var(False).item() == pytest.approx(35 / 12)
    assert x.var(1, False).tolist() == pytest.approx([2 / 3, 2 / 3])
    assert x.var(1, True, True).shape == (2, 1)
    assert x.std(dim=1, correction=2).tolist() == pytest.approx([2**0.5] * 2)
    with pytest.raises(TypeError, match="combination"):
        tg.var(x, 1, unbiased=True, correction=0)


def test_covariance_and_correlation() -> None:
    x = RANDOM.standard_normal((3, 8))
    weights = np.array([1, 2, 1, 0, 3, 1, 1, 2])
    t = tg.from_numpy(x).requires_grad_()
    np.testing.assert_allclose(tg.cov(t).detach().numpy(), np.cov(x))
    got = tg.cov(t, fweights=tg.from_numpy(weights), aweights=tg.from_numpy(weights / 2), correction=0)
    np.testing.assert_allclose(
        got.detach().numpy(), np.cov(x, fweights=weights, aweights=weights / 2, ddof=0)
    )
    np.testing.assert_allclose(tg.corrcoef(t).detach().numpy(), np.corrcoef(x))
    assert gradcheck(tg.cov, [t])
    assert gradgradcheck(tg.cov, [t])
    assert gradcheck(lambda a: tg.corrcoef(a)[0, 1], [t])


def test_distances() -> None:
    a, b = RANDOM.standard_normal((4, 3)), RANDOM.standard_normal((5, 3))
    x, y = tg.from_numpy(a).requires_grad_(), tg.from_numpy(b).requires_grad_()
    for p in (1.0, 2.0, 3.0):
        expected = (np.abs(a[:, None] - b[None]) ** p).sum(-1) ** (1 / p)
        np.testing.assert_allclose(tg.cdist(x, y, p).detach().numpy(), expected)
        assert gradcheck(lambda s, t, p=p: tg.cdist(s, t, p), [x, y])
    tg.cdist(x, x.detach()).sum().backward()  # distance 0 to itself
    assert x.grad.isfinite().all()
    assert tg.dist(x, x).item() == 0
    with pytest.raises(RuntimeError, match="columns"):
        tg.cdist(x, tg.ones(2, 2, dtype=tg.float64))
