"""Largest and smallest elements, order statistics, sorting, searching and counting."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.autograd import gradcheck, gradgradcheck

RANDOM = np.random.default_rng(0)
NAN = math.nan


def leaf(data: object) -> tg.Tensor:
    return tg.tensor(data, dtype=tg.float64, requires_grad=True)


# -- max, min and their kin ----------------------------------------------------------------------------


def test_the_three_forms_of_max_and_min() -> None:
    x, y = tg.tensor([[1.0, 5.0], [3.0, 2.0]]), tg.tensor([4.0, 0.0])
    assert tg.max(x).item() == 5
    assert x.min().item() == 1
    values, indices = x.max(1)
    assert values.tolist() == [5, 3]
    assert indices.tolist() == [1, 0]
    assert x.min(dim=0, keepdim=True).indices.tolist() == [[0, 1]]
    assert tg.max(x, y).tolist() == [[4, 5], [4, 2]]
    assert x.min(other=y).tolist() == [[1, 0], [3, 0]]
    assert repr(x.max(1)) == "tapegrad.return_types.max(\nvalues=tensor([5., 3.]),\nindices=tensor([1, 0]))"
    with pytest.raises(TypeError, match="int"):
        x.max((0, 1))


def test_who_gets_the_gradient_of_an_extremum() -> None:
    x = leaf([1.0, 3.0, 3.0, 2.0])
    for function, expected in (
        (lambda t: t.max(), [0, 0.5, 0.5, 0]),
        (lambda t: t.amax(), [0, 0.5, 0.5, 0]),
        (lambda t: t.max(0).values, [0, 1, 0, 0]),
        (lambda t: t.aminmax()[1], [0, 0.5, 0.5, 0]),
        (lambda t: t.min(), [1, 0, 0, 0]),
        (lambda t: t.median(), [0, 0, 0, 1]),
        (lambda t: t.median(0).values, [0, 0, 0, 1]),
        (lambda t: t.kthvalue(2).values, [0, 0, 0, 1]),
        (lambda t: t.mode().values, [0, 0, 1, 0]),
    ):
        x.grad = None
        function(x).backward()
        assert x.grad.tolist() == expected


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "int8", "uint8"])
def test_places_in_every_layout(dtype: str) -> None:
    x = RANDOM.integers(0, 50, (4, 30, 5)).astype(dtype)
    for array in (x, np.asfortranarray(x), np.repeat(x, 2, 1)[:, ::2]):
        t = tg.from_numpy(array)
        for dim in range(3):
            np.testing.assert_array_equal(t.argmax(dim).numpy(), x.argmax(dim))
            np.testing.assert_array_equal(
                t.argmin(dim, keepdim=True).numpy(), np.expand_dims(x.argmin(dim), dim)
            )
            np.testing.assert_array_equal(t.max(dim).values.numpy(), x.max(dim))
        assert t.argmax().item() == x.argmax()
        assert t.argmin(keepdim=True).shape == (1, 1, 1)


def test_nan_wins() -> None:
    x = tg.tensor([[1.0, NAN, 5.0, NAN], [2.0, 7.0, 3.0, 7.0]])
    assert x.amax(1).isnan().tolist() == [True, False]
    assert x.argmax(1).tolist() == [1, 1]
    assert x.min(1).indices.tolist() == [1, 0]
    assert x.max().isnan().item()
    assert x.median(1).indices.tolist() == [1, 2]
    assert x.nanmedian(1).values.tolist() == [1.0, 3.0]
    assert x.sort(1).indices[0].tolist() == [0, 2, 1, 3]
    assert x.topk(2).indices[0].tolist() == [1, 3]
    assert x.cummax(1).indices[0].tolist() == [0, 1, 1, 3]


def test_nothing_has_no_extremum() -> None:
    x = tg.empty(0, 3)
    for function in (tg.max, tg.min, tg.amax):
        with pytest.raises(RuntimeError, match="dim"):
            function(x)
    for function in (tg.max, tg.amin, tg.argmax, tg.median, tg.mode):
        with pytest.raises(IndexError, match="non-zero size"):
            function(x, 0)
    assert x.max(1).values.shape == (0,)
    assert x.argmin(1).shape == (0,)
    assert x.median().isnan().item()


def test_zero_dimensional() -> None:
    x = leaf(2.0)
    for pair in (x.max(0), x.sort(), x.topk(1), x.kthvalue(1), x.median(-1), x.mode(), x.cummax(0)):
        assert pair[0].shape == pair[1].shape == ()
        assert pair[0].item() == 2.0
        assert pair[1].item() == 0
        x.grad = None
        pair[0].backward()
        assert x.grad.item() == 1.0


@pytest.mark.parametrize(
    "function",
    [
        lambda t: t.max(1).values,
        lambda t: t.amin((0, 2)),
        lambda t: t.aminmax(dim=0),
        lambda t: t.sort(1, descending=True).values,
        lambda t: t.topk(2, 0, largest=False).values,
        lambda t: t.kthvalue(2, 1, True).values,
        lambda t: t.median(2).values,
        lambda t: t.quantile(0.3, 1),
        lambda t: t.quantile(tg.tensor([0.1, 0.8], dtype=tg.float64), interpolation="midpoint"),
        lambda t: t.cummin(1).values,
        lambda t: t.msort(),
    ],
)
def test_gradients_to_second_order(function: object) -> None:
    x = tg.from_numpy(RANDOM.permutation(24).reshape(2, 4, 3) / 5.0).requires_grad_()
    assert gradcheck(function, [x])
    squared = lambda t: function(t * t)  # noqa: E731 (the function alone is linear)
    assert gradgradcheck(squared, [x])


# -- order -----------------------------------------------------------------------------------------


def test_sorting() -> None:
    x = RANDOM.integers(0, 6, (5, 40)).astype("float32")
    t = tg.from_numpy(x)
    for dim in (0, 1, -1):
        values, indices = t.sort(dim)
        np.testing.assert_array_equal(values.numpy(), np.sort(x, dim))
        np.testing.assert_array_equal(indices.numpy(), np.argsort(x, dim, kind="stable"))
        backwards = t.argsort(dim, descending=True)
        np.testing.assert_array_equal(backwards.numpy(), np.argsort(-x, dim, kind="stable"))
    assert tg.sort(tg.tensor([True, False])).values.tolist() == [False, True]


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("k", [0, 1, 7, 40])
def test_topk(k: int, largest: bool) -> None:
    x = RANDOM.permutation(120).reshape(3, 40).astype("float32")
    values, indices = tg.from_numpy(x).topk(k, 1, largest)
    ordered = np.sort(x, 1)
    np.testing.assert_array_equal(values.numpy(), ordered[:, ::-1][:, :k] if largest else ordered[:, :k])
    np.testing.assert_array_equal(np.take_along_axis(x, indices.numpy(), 1), values.numpy())
    with pytest.raises(RuntimeError, match="out of range"):
        tg.from_numpy(x).topk(41, 1)


def test_order_statistics_of_long_lanes() -> None:
    x = RANDOM.standard_normal((4, 501))
    t = tg.from_numpy(x)
    np.testing.assert_array_equal(t.median(1).values.numpy(), np.median(x, 1))
    np.testing.assert_array_equal(t.kthvalue(17, 1).values.numpy(), np.sort(x, 1)[:, 16])
    np.testing.assert_allclose(t.quantile(0.37, 1).numpy(), np.quantile(x, 0.37, 1))
    with pytest.raises(RuntimeError, match="k out of range"):
        t.kthvalue(0, 1)


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("k", [1, 3, 32, 33, 50])
def test_topk_of_equal_elements_and_nan(k: int, largest: bool) -> None:
    x = np.random.default_rng(1).integers(0, 9, (40, 50)).astype("f")
    x[::3, ::7] = np.nan
    x[1], x[2] = np.sort(x[1]), -np.sort(-x[2])
    values, indices = tg.from_numpy(x).topk(k, -1, largest)
    order = np.argsort(-x if largest else x, axis=1, kind="stable")
    if largest:  # NaN comes first
        order = np.argsort(np.where(np.isnan(x), -np.inf, -x), axis=1, kind="stable")
    if k <= 32:
        np.testing.assert_array_equal(indices.numpy(), order[:, :k])
    np.testing.assert_array_equal(np.take_along_axis(x, indices.numpy(), 1), values.numpy())
    np.testing.assert_array_equal(values.numpy(), np.take_along_axis(x, order[:, :k], 1))


@pytest.mark.parametrize("interpolation", ["linear", "lower", "higher", "midpoint", "nearest"])
def test_quantiles(interpolation: str) -> None:
    x = RANDOM.standard_normal((3, 8))
    x[1, 2] = NAN
    q = np.array([0.0, 0.21, 0.5, 1.0])
    t = tg.from_numpy(x)
    for ours, numpys in ((tg.quantile, np.quantile), (tg.nanquantile, np.nanquantile)):
        got = ours(t, tg.from_numpy(q), 1, interpolation=interpolation).numpy()
        np.testing.assert_allclose(got, numpys(x, q, 1, method=interpolation))
    assert t.quantile(0.5, 1, keepdim=True).shape == (3, 1)
    assert t.nanquantile(tg.from_numpy(q), keepdim=True).shape == (4, 1, 1)
    with pytest.raises(RuntimeError, match="0, 1"):
        t.quantile(1.5)
    with pytest.raises(RuntimeError, match="dtype"):
        t.quantile(tg.tensor([0.5]))


# -- searching and counting --------------------------------------------------------------------------------


def test_searching() -> None:
    rows = np.sort(RANDOM.integers(0, 9, (3, 6)), 1)
    wanted = RANDOM.integers(-1, 11, (3, 5))
    for side in ("left", "right"):
        got = tg.searchsorted(tg.from_numpy(rows), tg.from_numpy(wanted), side=side)
        expected = [np.searchsorted(r, w, side) for r, w in zip(rows, wanted, strict=True)]
        np.testing.assert_array_equal(got.numpy(), expected)
        shared = tg.bucketize(tg.from_numpy(wanted), tg.from_numpy(rows[0]), right=side == "right")
        np.testing.assert_array_equal(shared.numpy(), np.searchsorted(rows[0], wanted, side))
    assert tg.searchsorted(tg.tensor([1.0, 3.0]), 2.0).item() == 1
    assert tg.searchsorted(tg.tensor([1.0, 3.0]), NAN).item() == 2
    assert tg.bucketize(tg.tensor([2]), tg.tensor([1.5]), out_int32=True).dtype is tg.int32
    unsorted = tg.tensor([3, 1, 2])
    assert tg.searchsorted(unsorted, tg.tensor([2]), sorter=tg.tensor([1, 2, 0])).tolist() == [1]
    with pytest.raises(RuntimeError, match="opposites"):
        tg.searchsorted(tg.tensor([1]), tg.tensor([1]), right=True, side="left")


def test_distinct_elements() -> None:
    x = tg.tensor([[3, 1, 1], [3, 2, 1]])
    values, inverse, counts = x.unique(return_inverse=True, return_counts=True)
    assert values.tolist() == [1, 2, 3]
    assert counts.tolist() == [3, 1, 2]
    assert values[inverse].tolist() == x.tolist()
    assert tg.unique(tg.tensor([[1, 2], [1, 2], [0, 5]]), dim=0).tolist() == [[0, 5], [1, 2]]
    runs, lengths = tg.unique_consecutive(tg.tensor([1, 1, 2, 1]), return_counts=True)
    assert runs.tolist() == [1, 2, 1]
    assert lengths.tolist() == [2, 1, 1]
    assert tg.tensor([NAN, NAN]).unique().shape == (2,)
    assert tg.isin(x, tg.tensor([1, 2]), invert=True).tolist() == [[True, False, False], [True, False, False]]
    assert tg.isin(3, x).item()


def test_histograms() -> None:
    assert tg.bincount(tg.tensor([1, 2, 2]), minlength=5).tolist() == [0, 1, 2, 0, 0]
    weighted = tg.bincount(tg.tensor([0, 1, 1]), tg.tensor([0.5, 1.0, 2.0]))
    assert weighted.tolist() == [0.5, 3.0]
    assert weighted.dtype is tg.float32
    assert tg.histc(tg.tensor([1.0, 2.0, 1.0]), bins=4, min=0, max=3).tolist() == [0, 2, 1, 0]
    assert tg.histc(tg.tensor([2.0, 2.0]), bins=2).tolist() == [0, 2]
    for call in (
        lambda: tg.bincount(tg.tensor([-1])),
        lambda: tg.bincount(tg.tensor([[1]])),
        lambda: tg.histc(tg.tensor([NAN])),
        lambda: tg.histc(tg.tensor([1.0]), bins=0),
        lambda: tg.histc(tg.tensor([1.0]), min=3, max=1),
    ):
        with pytest.raises(RuntimeError):
            call()
