"""Many rows of few elements are reduced side by side, by kernels for their very length."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.kernels.reduction import MANY, is_short

RANDOM = np.random.default_rng(0)
ROWS = MANY + 5
LENGTHS = (1, 2, 3, 5, 7, 8, 9)

EVERY_TYPE: dict[str, tuple[Callable[[Any], Any], Callable[[np.ndarray], Any]]] = {
    "sum": (lambda x: x.sum(1), lambda x: x.sum(1)),
    "prod": (lambda x: x.prod(1), lambda x: x.prod(1)),
    "any": (lambda x: x.any(1), lambda x: x.any(1)),
    "all": (lambda x: x.all(1), lambda x: x.all(1)),
    "count_nonzero": (lambda x: tg.count_nonzero(x, 1), lambda x: np.count_nonzero(x, 1)),
    "amax": (lambda x: x.amax(1), lambda x: x.max(1)),
    "amin": (lambda x: x.amin(1), lambda x: x.min(1)),
    "max": (lambda x: x.max(1).values, lambda x: x.max(1)),
    "place of max": (lambda x: x.max(1).indices, lambda x: x.argmax(1)),
    "place of min": (lambda x: x.min(1).indices, lambda x: x.argmin(1)),
    "cumsum": (lambda x: x.cumsum(1), lambda x: x.cumsum(1)),
}
FLOATS = {
    "mean": (lambda x: x.mean(1), lambda x: x.mean(1)),
    "var": (lambda x: x.var(1, correction=0), lambda x: x.var(1)),
    "norm": (lambda x: x.norm(dim=1), lambda x: np.sqrt((x * x).sum(1))),
    "logsumexp": (lambda x: x.logsumexp(1), lambda x: np.log(np.exp(x).sum(1))),
    "cumprod": (lambda x: x.cumprod(1), lambda x: x.cumprod(1)),
    "logcumsumexp": (lambda x: x.logcumsumexp(1), lambda x: np.log(np.exp(x).cumsum(1))),
}


def draw(n: int, dtype: str) -> np.ndarray:
    """Rows of few different numbers, some of them equal, zero or negative."""
    x = RANDOM.integers(0 if dtype in ("uint8", "bool") else -3, 4, (ROWS, n))
    return (x > 0) if dtype == "bool" else x.astype(dtype)


def same(ours: Any, theirs: Any) -> None:
    theirs = np.asarray(theirs)
    assert ours.shape == theirs.shape
    if ours.dtype.is_floating_point:
        np.testing.assert_allclose(ours.numpy(), theirs, rtol=1e-5 if ours.dtype is tg.float32 else 1e-13)
    else:
        np.testing.assert_array_equal(ours.numpy().astype(np.int64), theirs.astype(np.int64))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "int32", "int16", "int8", "uint8", "bool"])
@pytest.mark.parametrize("name", EVERY_TYPE)
def test_every_element_type(name: str, dtype: str) -> None:
    ours, theirs = EVERY_TYPE[name]
    for n in LENGTHS:
        x = draw(n, dtype)
        same(ours(tg.from_numpy(x)), theirs(x))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", FLOATS)
def test_floats(name: str, dtype: str) -> None:
    ours, theirs = FLOATS[name]
    for n in LENGTHS:
        x = draw(n, dtype) + np.dtype(dtype).type(0.25)
        same(ours(tg.from_numpy(x)), theirs(x.astype("d")))


@pytest.mark.parametrize("name", ["sum", "any", "prod", "amax", "count_nonzero"])
@pytest.mark.parametrize("dtype", ["float32", "int32", "bool"])
def test_a_recorded_step_does_the_same(name: str, dtype: str) -> None:
    ours = EVERY_TYPE[name][0]
    step = tg.compile(ours)
    for shape in ((ROWS, 3), (5, 40), (2, 70_000)):
        x = tg.from_numpy(RANDOM.integers(0, 2, shape).astype(dtype))
        expected = ours(x)
        for _ in range(2):
            made = step(x)
            assert made.dtype is expected.dtype
            assert made.numpy().tobytes() == expected.numpy().tobytes()


def test_backwards_scans_of_short_rows() -> None:
    x = tg.from_numpy(draw(3, "float64")).requires_grad_()
    g = tg.from_numpy(draw(3, "float64"))
    x.cumsum(1).backward(g)
    np.testing.assert_array_equal(x.grad.numpy(), g.numpy()[:, ::-1].cumsum(1)[:, ::-1])


def test_nan_is_the_extremum_of_its_row_and_the_first_of_equals_is_meant() -> None:
    x = np.tile(
        np.array([[1, np.nan, 3], [2, 2, 1], [0.0, -0.0, np.nan], [np.nan, 5, np.nan]], "f"), (MANY, 1)
    )
    assert is_short(x, len(x), 3)
    values, places = tg.from_numpy(x).max(1)
    np.testing.assert_array_equal(places.numpy().reshape(-1, 4), np.tile([1, 0, 2, 0], (MANY, 1)))
    np.testing.assert_array_equal(values.numpy(), x.max(1))
    np.testing.assert_array_equal(tg.from_numpy(x).amin(1).numpy(), x.min(1))
    np.testing.assert_array_equal(tg.from_numpy(x).min(1).indices.numpy()[:4], [1, 2, 2, 0])


def test_whole_numbers_wrap_around() -> None:
    high = np.iinfo(np.int64).max
    for rows in (2, ROWS):
        x = tg.from_numpy(np.full((rows, 3), high))
        assert x.sum(1).tolist() == [high - 2] * rows
        assert x.prod(1).tolist() == [high] * rows
    assert tg.full((300,), 1, dtype=tg.uint8).sum().item() == 300
    assert tg.full((ROWS, 3), 100, dtype=tg.int8).sum(1)[0].item() == 300


def test_sums_and_products_of_type_bool() -> None:
    x = tg.ones(256, 2, dtype=tg.int64)
    assert x.sum(0, dtype=tg.bool).tolist() == [True, True]
    assert (x * 0).sum(0, dtype=tg.bool).tolist() == [False, False]
    assert x.prod(0, dtype=tg.bool).tolist() == [True, True]
