"""The order of lanes against NumPy's stable sort: all dtypes, special numbers, any number of threads, plain Python."""

from __future__ import annotations

import numpy as np
import pytest

from tapegrad import kernels
from tapegrad.ops import sort

RANDOM = np.random.default_rng(0)
SHAPES = [((1,), 0), ((40,), 0), ((41,), 0), ((3, 700), 1), ((130, 6), 0), ((2, 50, 3), 1), ((70, 1, 5), 1)]


@pytest.fixture(autouse=True)
def by_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sort, "_order_of_few", lambda *given: pytest.fail("not the kernel"))
    monkeypatch.setattr(sort, "_FEW", 0)


def check(x: np.ndarray, dim: int) -> None:
    np.testing.assert_array_equal(sort._order(x, dim, False), np.argsort(x, dim, kind="stable"))
    # From the end, equal elements in reverse: what is turned round twice.
    backwards = np.flip(np.argsort(np.flip(x, dim), dim, kind="stable"), dim)
    np.testing.assert_array_equal(sort._order(x, dim, True), x.shape[dim] - 1 - backwards)


@pytest.mark.parametrize("cut", [False, True])
@pytest.mark.parametrize("char", ["f", "d", "i", "l", "e"])
@pytest.mark.parametrize(("shape", "dim"), SHAPES)
def test_order(
    monkeypatch: pytest.MonkeyPatch, shape: tuple[int, ...], dim: int, char: str, cut: bool
) -> None:
    monkeypatch.setattr(sort, "_cut", lambda lanes, n: cut)
    wide = RANDOM.standard_normal(shape) * 1000
    for x in (wide, np.round(wide / 500), np.zeros(shape), np.arange(wide.size).reshape(shape)):
        check(x.astype(char), dim)
        check(np.flip(x.astype(char)), dim)


@pytest.mark.parametrize("char", ["f", "d", "e"])
@pytest.mark.parametrize("n", [12, 300])
def test_special_numbers(char: str, n: int) -> None:
    """Both zeros are equal, and so are all NaN, whatever their bits."""
    finite = np.finfo(char)
    values = [0.0, -0.0, np.nan, -np.nan, np.inf, -np.inf, 1.0, -1.0, finite.max, finite.min]
    values += [finite.tiny, -finite.tiny, finite.smallest_subnormal]
    x = RANDOM.choice(np.array(values, char), n)
    words = x.view(f"u{x.itemsize}")
    words[np.isnan(x)] += RANDOM.integers(0, 9, np.isnan(x).sum()).astype(words.dtype)
    check(x, 0)


@pytest.mark.parametrize("char", ["i", "l"])
@pytest.mark.parametrize("n", [12, 300])
def test_extreme_integers(char: str, n: int) -> None:
    ends = np.iinfo(char)
    check(RANDOM.integers(ends.min, ends.max, n, dtype=char, endpoint=True), 0)
    check(RANDOM.choice(np.array([ends.min, ends.max, 0, -1, 1], char), n), 0)


def test_small_integers_by_the_kernel() -> None:
    """Whoever records a step has them sorted here too."""
    order = kernels.order
    x = RANDOM.integers(0, 255, (4, 300)).astype(np.uint32)
    out = np.empty(x.shape, np.int64)
    scratch = np.empty(8 * 600, "I"), np.empty(8 * 600, np.int64), np.empty(4 * 4 * 256, np.int64)
    order.order_lanes(x, out, *scratch, 300, 1, 4, 4, 32, order.UNSIGNED, 0, 0, 4)
    np.testing.assert_array_equal(out, np.argsort(x, 1, kind="stable"))


@pytest.mark.parametrize("shape", [(37, 9000), (1, 300_000), (2, 300_000)])
def test_threads_do_not_change_a_place(monkeypatch: pytest.MonkeyPatch, shape: tuple[int, ...]) -> None:
    x = np.round(RANDOM.standard_normal(shape) * 9).astype("f")
    for n in (1, 2, 3):
        monkeypatch.setattr(kernels.launch.config, "threads", n)
        assert sort._cut(*x.shape) == (len(x) < n and x.shape[1] > 9000)
        check(x, 1)


@pytest.mark.parametrize("char", ["f", "l"])
@pytest.mark.parametrize("n", [7, 60])
def test_plain_python(monkeypatch: pytest.MonkeyPatch, char: str, n: int) -> None:
    order = kernels.order
    for name in ("_key", "_digit"):
        monkeypatch.setattr(order, name, getattr(order, name).py_func)
    for name in ("order_lanes", "piece_keys", "piece_counts", "piece_deal"):
        monkeypatch.setattr(order, name, kernels.jit._plain(getattr(order, name).fn))
    x = RANDOM.standard_normal((2, n)) * 9
    x[:, 2] = 0 if char == "l" else np.nan
    for cut in (False, True):
        monkeypatch.setattr(sort, "_cut", lambda lanes, n, cut=cut: cut)
        check(x.astype(char), 1)
