"""Layers that module_db does not cover: fractional pooling with given places, adaptive softmax, old names."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import tapegrad as tg  # noqa: E402
from tapegrad.autograd import gradcheck, gradgradcheck  # noqa: E402

from .oracle import agree, compare, load  # noqa: E402

RNG = np.random.default_rng(11)
POOLS = [
    (2, (2, 3, 9, 9), 3, (2, 3)),
    (2, (3, 9, 8), (4, 2), (5, 3)),
    (2, (1, 2, 16, 16), 1, 8),
    (2, (1, 1, 9, 9), 3, 1),
    (2, (0, 3, 9, 9), 3, 2),
    (3, (2, 3, 5, 6, 7), (2, 3, 2), (2, 3, 4)),
    (3, (1, 7, 6, 7), (2, 3, 4), 2),
]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("n", "shape", "kernel", "size"), POOLS)
def test_fractional_pooling_at_equal_places(n, shape, kernel, size, dtype):
    x = RNG.normal(size=shape).astype(dtype)
    places = RNG.random((1 if len(shape) == n + 1 else shape[0], shape[-n - 1], n)).astype(dtype)
    seen = []
    for lib in (tg, torch):
        pool = getattr(lib.nn, f"FractionalMaxPool{n}d")(
            kernel, size, return_indices=True, _random_samples=lib.tensor(places)
        )
        leaf = lib.tensor(x, requires_grad=True)
        values, indices = pool(leaf)
        (values * values).sum().backward()
        seen.append([values.detach().numpy(), indices.numpy(), leaf.grad.numpy()])
        assert "_random_samples" in pool.state_dict()
    for a, b in zip(*seen, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)


def test_fractional_pooling_draws_anew_and_by_the_seed():
    pool = tg.nn.FractionalMaxPool2d(2, output_ratio=0.25)
    x = tg.arange(400.0).reshape(1, 1, 20, 20)
    tg.manual_seed(1)
    first, second = pool(x), pool(x)
    tg.manual_seed(1)
    assert first.shape == (1, 1, 5, 5)
    assert not (first == second).all()
    assert (pool(x) == first).all()
    assert (pool(x) == second).all()


def test_fractional_pooling_to_second_order_and_nan():
    x = tg.tensor(RNG.normal(size=(1, 2, 6, 5)), requires_grad=True)
    places = tg.tensor(RNG.random((1, 2, 2)))
    F = tg.nn.functional
    pool = lambda t: F.fractional_max_pool2d(t, 2, (3, 3), _random_samples=places)  # noqa: E731
    assert gradcheck(pool, (x,))
    assert gradgradcheck(lambda t: pool(t) ** 2, (x,))
    assert F.fractional_max_pool2d(tg.full((1, 4, 4), float("nan")), 2, 2).isnan().all()
    pair = F.fractional_max_pool3d_with_indices(tg.ones(1, 4, 4, 4), 2, 2)
    assert len(pair) == 2
    assert tuple(pair[1].shape) == (1, 2, 2, 2)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda lib: lib.nn.FractionalMaxPool2d(2),
        lambda lib: lib.nn.FractionalMaxPool2d(2, 2, 0.5),
        lambda lib: lib.nn.FractionalMaxPool2d(2, output_ratio=1.5),
        lambda lib: lib.nn.FractionalMaxPool3d(0, 2),
        lambda lib: lib.nn.functional.fractional_max_pool2d(lib.ones(1, 4, 4), 2),
        lambda lib: lib.nn.functional.fractional_max_pool2d(lib.ones(1, 4, 4), 2, 4),
        lambda lib: lib.nn.functional.fractional_max_pool2d(
            lib.ones(1, 4, 4), 2, 2, _random_samples=lib.ones(1, 1, 2, dtype=lib.float64)
        ),
        lambda lib: lib.nn.functional.fractional_max_pool2d(
            lib.ones(1, 4, 4), 2, 2, _random_samples=lib.ones(1, 1, 3)
        ),
    ],
)
def test_errors_of_fractional_pooling(wrong):
    agree(wrong)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(
    "targets", [[0, 3, 19, 7, 1, 12], [0, 1, 2, 0, 1, 2], [19, 18, 17, 19, 18, 16], [5], 8]
)
def test_adaptive_softmax(bias, targets):
    args = (8, 20, [3, 7, 15], 2.0, bias)
    mine, theirs = (lib.nn.AdaptiveLogSoftmaxWithLoss(*args).double() for lib in (tg, torch))
    assert repr(mine) == repr(theirs)
    load(mine, theirs)
    x = RNG.normal(size=(len(targets), 8) if isinstance(targets, list) else (8,))
    compare(mine, theirs, [x, np.array(targets)])
    rows = x.reshape(-1, 8)
    for name in ("log_prob", "predict"):
        a, b = getattr(mine, name)(tg.tensor(rows)), getattr(theirs, name)(torch.tensor(rows))
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-9)
    np.testing.assert_allclose(mine.log_prob(tg.tensor(rows)).exp().sum(1).tolist(), 1.0, rtol=1e-12)
    assert mine(tg.tensor(x), tg.tensor(targets))._fields == ("output", "loss")


def test_predictions_of_all_kinds():
    """Some rows in the head, some in clusters."""
    mine, theirs = (lib.nn.AdaptiveLogSoftmaxWithLoss(4, 12, [4, 8], 1.0).double() for lib in (tg, torch))
    load(mine, theirs)
    x = RNG.normal(size=(200, 4)) * 30
    got, want = mine.predict(tg.tensor(x)), theirs.predict(torch.tensor(x))
    assert got.tolist() == want.tolist()
    assert 0 < (got < 4).sum() < 200


@pytest.mark.parametrize(
    "wrong",
    [
        *(
            lambda lib, c=c: lib.nn.AdaptiveLogSoftmaxWithLoss(4, 9, c)
            for c in ([], [0, 3], [3, 3], [5, 3], [9], [2.5])
        ),
        *(
            lambda lib, a=a, b=b: (
                lib.nn.AdaptiveLogSoftmaxWithLoss(4, 9, [3])(lib.ones(*a), lib.tensor(b)).loss.shape
            )
            for a, b in [
                ((2, 4), [1]),
                ((4,), [1]),
                ((2, 4), [[1]]),
                ((2, 4), 1),
                ((2, 4), [1, 9]),
                ((2, 4), [-1, 0]),
            ]
        ),
    ],
)
def test_errors_of_adaptive_softmax(wrong):
    agree(wrong)


@pytest.mark.parametrize("size", [1, 3, 4, 5])
def test_cross_map_normalisation(size):
    mine, theirs = (lib.nn.CrossMapLRN2d(size, 0.3, 0.8, 2) for lib in (tg, torch))
    assert repr(mine) == repr(theirs)
    x = RNG.normal(size=(2, (size - 1) // 2 + 1, 3, 4))  # few channels: the first one never leaves the window
    np.testing.assert_allclose(mine(tg.tensor(x)).numpy(), theirs(torch.tensor(x)).numpy(), rtol=1e-12)
    x = RNG.normal(size=(2, 9, 3, 4))
    if size % 2:
        local = tg.nn.LocalResponseNorm(size, 0.3, 0.8, 2)
        np.testing.assert_allclose(mine(tg.tensor(x)).numpy(), local(tg.tensor(x)).numpy(), rtol=1e-12)
    agree(lambda lib: lib.nn.CrossMapLRN2d(3)(lib.ones(2, 3, 4)))


def test_data_parallel_is_the_module_itself():
    def seen(lib):
        net = lib.nn.DataParallel(lib.nn.Sequential(lib.nn.Linear(2, 3)))
        return repr(net), list(net.state_dict()), tuple(net(lib.ones(5, 2)).shape), net.device_ids

    agree(seen)


def test_the_old_name_of_nll_loss():
    for lib in (tg, torch):
        with pytest.warns(FutureWarning, match="NLLLoss2d"):
            loss = lib.nn.NLLLoss2d()
        assert loss(lib.zeros(2, 3, 4, 4), lib.zeros(2, 4, 4, dtype=lib.int64)).item() == 0.0


@pytest.mark.parametrize(
    ("more", "bias", "reduction"),
    list(itertools.product([(), (2,), (2, 3)], [False, True], ["mean", "sum", "none"])),
)
def test_linear_cross_entropy(more, bias, reduction):
    options = {"out_features": more, "bias": bias, "reduction": reduction, "label_smoothing": 0.1}
    mine, theirs = (lib.nn.LinearCrossEntropyLoss(4, 5, **options).double() for lib in (tg, torch))
    assert repr(mine) == repr(theirs)
    load(mine, theirs)
    compare(mine, theirs, [RNG.normal(size=(6, 4)), RNG.integers(0, 5, size=(6, *more))])


@pytest.mark.parametrize(
    "wrong",
    [
        lambda lib, f: f(lib.ones(2, 3, 4), lib.ones(5, 4), lib.zeros(2, dtype=lib.int64)),
        lambda lib, f: f(lib.ones(2, 4), lib.ones(4), lib.zeros(2, dtype=lib.int64)),
        lambda lib, f: f(lib.ones(2, 3), lib.ones(5, 4), lib.zeros(2, dtype=lib.int64)),
        lambda lib, f: f(
            lib.ones(2, 4), lib.ones(5, 4), lib.zeros(2, dtype=lib.int64), linear_bias=lib.ones(4)
        ),
        lambda lib, f: f(lib.ones(4), lib.ones(5, 2, 4), lib.zeros(2, dtype=lib.int64)),
        lambda lib, f: f(lib.ones(2, 4), lib.ones(5, 4), lib.ones(2, 5), ignore_index=1),
    ],
)
def test_errors_of_linear_cross_entropy(wrong):
    agree(lambda lib: wrong(lib, lib.nn.functional.linear_cross_entropy).shape)


def test_chunks_of_linear_cross_entropy_are_refused():
    with pytest.raises(RuntimeError, match="options"):
        tg.nn.LinearCrossEntropyLoss(2, 3, options=object())
    with pytest.raises(RuntimeError, match="options"):
        tg.nn.functional.linear_cross_entropy(
            tg.ones(1, 2), tg.ones(3, 2), tg.zeros(1, dtype=tg.int64), options=object()
        )


@pytest.mark.parametrize("pad", [0, 2])
def test_convolution_with_the_time_first(pad):
    arrays = [RNG.normal(size=s) for s in [(7, 2, 3), (3, 3, 4), (4,)]]
    seen = []
    for lib in (tg, torch):
        given = [lib.tensor(a, requires_grad=True) for a in arrays]
        out = lib.nn.functional.conv_tbc(*given, pad)
        out.square().sum().backward()
        seen.append([out.detach().numpy(), *(g.grad.numpy() for g in given)])
    for a, b in zip(*seen, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)
    agree(lambda lib: lib.nn.functional.conv_tbc(lib.ones(2, 3), lib.ones(1, 3, 4), lib.ones(4)))
