"""Every tile of the convolution kernels against sums written down in NumPy, and against its plain twin."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tapegrad import kernels
from tapegrad.ops import conv_arrays, conv_choice
from tapegrad.ops.windows import Windows

RANDOM = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing goes over panels, which have their own tests."""
    monkeypatch.setattr(conv_choice, "_possible", lambda w, lanes: False)
    for choose in (conv_choice.forward, conv_choice.input_adjoint, conv_choice.weight_adjoint):
        monkeypatch.setattr(conv_choice, choose.__name__, choose.__wrapped__)


# Wide and narrow lines, gaps between lines, phases, several dimensions.
WINDOWS = [
    Windows((5, 40), (5, 40), (3, 3), (1, 1), (1, 1), (1, 1)),
    Windows((7, 7), (7, 7), (3, 3), (1, 1), (1, 1), (1, 1)),
    Windows((9, 11), (4, 5), (3, 2), (2, 2), (0, 0), (1, 1)),
    Windows((33,), (16,), (4,), (2,), (1,), (1,)),
    Windows((3, 4, 5), (3, 4, 4), (1, 2, 3), (1, 1, 1), (0, 1, 1), (1, 2, 1)),
]


def reference(x: np.ndarray, weight: np.ndarray, w: Windows) -> np.ndarray:
    """The definition, tap by tap, with every group alone."""
    pads = [(p, max(0, (m - 1) * s + (k - 1) * d + 1 - p - n)) for n, m, k, s, p, d in zip(*w, strict=True)]
    padded = np.pad(x, [(0, 0), (0, 0), *pads])
    groups = x.shape[1] // weight.shape[1]
    out = np.zeros((x.shape[0], weight.shape[0], *w.out))
    for tap in np.ndindex(*w.kernel):
        cut = tuple(
            slice(k * d, k * d + (m - 1) * s + 1, s)
            for k, d, m, s in zip(tap, w.dilation, w.out, w.stride, strict=True)
        )
        part = padded[(..., *cut)].reshape(x.shape[0], groups, -1, *w.out)
        taken = weight[(..., *tap)].reshape(groups, -1, weight.shape[1])
        out += np.einsum("ngc...,goc->ngo...", part, taken).reshape(out.shape)
    return out


def operands(
    w: Windows, groups: int, per_group: int, dtype: str
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    x = RANDOM.standard_normal((3, 2 * groups, *w.size)).astype(dtype)
    weight = RANDOM.standard_normal((groups * per_group, 2, *w.kernel)).astype(dtype)
    g = RANDOM.standard_normal((3, groups * per_group, *w.out)).astype(dtype)
    return x, weight, g


@pytest.mark.parametrize("w", [*WINDOWS, Windows((6, 5), (4, 5), (3, 1), (1, 1), (0, 0), (1, 1))])
@pytest.mark.parametrize("dtype", ["f", "d"])
@pytest.mark.parametrize(("groups", "per_group"), [(1, 5), (2, 1), (1, 33), (3, 9), (2, 50)])
def test_products_with_channels_in_the_lanes(
    monkeypatch: pytest.MonkeyPatch, w: Windows, dtype: str, groups: int, per_group: int
) -> None:
    monkeypatch.setattr(conv_choice, "few_places", lambda *given: True)
    x, weight, _ = operands(w, groups, per_group, dtype)
    bias = RANDOM.standard_normal(len(weight)).astype(dtype)
    expected = reference(x.astype("d"), weight.astype("d"), w) + bias.reshape(-1, *[1] * len(w.size))
    np.testing.assert_allclose(
        conv_arrays.forward(x, weight, bias, w, groups), expected, atol=2e-5 if dtype == "f" else 1e-12
    )


@pytest.mark.parametrize("w", WINDOWS)
@pytest.mark.parametrize("dtype", ["f", "d"])
@pytest.mark.parametrize("height", sorted(kernels.tile.PRODUCTS))
@pytest.mark.parametrize(("groups", "per_group"), [(1, 5), (2, 1), (3, 9)])
def test_products(
    monkeypatch: pytest.MonkeyPatch, w: Windows, dtype: str, height: int, groups: int, per_group: int
) -> None:
    monkeypatch.setattr(kernels.tile, "fitting", lambda rows, tiles: height)
    x, weight, _ = operands(w, groups, per_group, dtype)
    bias = RANDOM.standard_normal(len(weight)).astype(dtype)
    expected = reference(x.astype("d"), weight.astype("d"), w) + bias.reshape(-1, *[1] * len(w.size))
    np.testing.assert_allclose(
        conv_arrays.forward(x, weight, bias, w, groups), expected, atol=2e-5 if dtype == "f" else 1e-12
    )


@pytest.mark.parametrize("w", WINDOWS)
@pytest.mark.parametrize("dtype", ["f", "d"])
@pytest.mark.parametrize("height", sorted(kernels.tile.GRAMS))
@pytest.mark.parametrize(("groups", "per_group"), [(1, 5), (2, 1), (3, 9)])
def test_sums_over_lines(
    monkeypatch: pytest.MonkeyPatch, w: Windows, dtype: str, height: int, groups: int, per_group: int
) -> None:
    monkeypatch.setattr(kernels.tile, "fitting", lambda rows, tiles: height)
    x, weight, g = operands(w, groups, per_group, dtype)
    made = conv_arrays.weight_adjoint(x, g, w, groups)
    # The map is linear in the weight: its adjoint is known by what it does to each unit.
    for place in [(0,) * weight.ndim, tuple(n - 1 for n in weight.shape)]:
        unit = np.zeros(weight.shape)
        unit[place] = 1
        expected = (reference(x.astype("d"), unit, w) * g).sum()
        np.testing.assert_allclose(
            made[place], expected, rtol=1e-4 if dtype == "f" else 1e-10, atol=1e-4 if dtype == "f" else 1e-10
        )


def test_channels_in_the_lanes_in_plain_python() -> None:
    """The kernels' own text with the twins of the vector code, against the compiled kernels."""
    w = Windows((5, 6), (4, 5), (2, 2), (1, 1), (0, 0), (1, 1))
    x, weight, _ = operands(w, 2, 19, "f")
    p = conv_arrays.plan(w)
    lane, n, groups, count = kernels.tile.lanes(4), 8, 2, p.places
    vectors = -(-19 // lane)
    scope = dict(vars(kernels.conv_lanes))
    scope |= {name: getattr(kernels.gemm_tile, f"_{name}_twin") for name in ("pack", "unpack", "window_tile")}

    def plain(kernel: Any) -> Any:
        return type(kernel.fn)(kernel.fn.__code__, scope)

    packed, again = np.full((2, groups * vectors * n * lane), np.nan, "f")
    for pack, out in ((kernels.conv_lanes.pack_lanes, packed), (plain(kernels.conv_lanes.pack_lanes), again)):
        pack(weight.reshape(-1), out, 19, n, lane, 0, groups * vectors)
    places, shifts = p.each_place(3, 4 * p.plane), p.shifts(2)
    made, plainly = np.full((2, 3 * 38 * count), np.nan, "f")
    for run, weights, out in (
        (kernels.conv_lanes.correlate_lanes, packed, made),
        (plain(kernels.conv_lanes.correlate_lanes), again, plainly),
    ):
        bias = np.zeros(groups * vectors * lane, "f")  # and nothing below -1
        scratch = np.empty(2 * lane * lane * kernels.gemm_tile.WINDOW_WIDTH, "f")
        tables = (scratch, places, shifts)
        sizes = (-1.0, n, groups, 19, count, 3 * count, 2 * p.plane, 2, lane)
        run(x.reshape(-1), weights, bias, out, *tables, *sizes, 0, 2)
    np.testing.assert_allclose(plainly, made, atol=1e-5)
    expected = np.maximum(reference(x, weight, w), -1)
    np.testing.assert_allclose(made.reshape(3, 38, 4, 5), expected, atol=1e-5)


def twins(monkeypatch: pytest.MonkeyPatch, name: str, table: dict[int, int], make: Any) -> None:
    """Put the plain functions in place of the compiled ones."""
    monkeypatch.setattr(kernels.jit, "PLAIN", True)
    monkeypatch.setattr(kernels.tile, "PLAIN", True)
    monkeypatch.setattr(kernels.conv, name, {height: make(height, width) for height, width in table.items()})


def test_plain_twins(monkeypatch: pytest.MonkeyPatch) -> None:
    w = WINDOWS[0]
    x, weight, g = operands(w, 2, 3, "d")
    out = conv_arrays.forward(x, weight, None, w, 2)
    bounded = conv_arrays.forward(x, weight, None, w, 2, 0.5)
    back = conv_arrays.weight_adjoint(x, g, w, 2)
    conv, tile = kernels.conv, kernels.tile
    twins(monkeypatch, "correlate", tile.PRODUCTS, conv._correlate)
    twins(monkeypatch, "contract", tile.GRAMS, conv._contract)
    np.testing.assert_allclose(conv_arrays.forward(x, weight, None, w, 2), out, atol=1e-12)
    np.testing.assert_allclose(conv_arrays.forward(x, weight, None, w, 2, 0.5), bounded, atol=1e-12)
    np.testing.assert_allclose(conv_arrays.weight_adjoint(x, g, w, 2), back, atol=1e-11)


def test_what_lies_beside_a_line_does_not_leak_into_sums() -> None:
    w = Windows((4, 6), (4, 6), (1, 1), (1, 1), (0, 0), (1, 1))
    x = np.ones((2, 1, 4, 6), "f")
    np.testing.assert_array_equal(conv_arrays.weight_adjoint(x, x, w, 1).ravel(), [48])
    # Working memory is used again: what an earlier call left there must not show.
    conv_arrays.forward(
        np.full((2, 8, 9, 9), np.nan, "f"),
        np.ones((1, 8, 3, 3), "f"),
        None,
        WINDOWS[1]._replace(size=(9, 9), out=(9, 9)),
        1,
    )
    np.testing.assert_array_equal(conv_arrays.weight_adjoint(x, x, w, 1).ravel(), [48])


def test_nan_reaches_only_the_taps_that_see_it() -> None:
    w = Windows((6, 7), (4, 5), (3, 3), (1, 1), (0, 0), (1, 1))
    x, _, g = operands(w, 1, 2, "d")
    x[0, 1, 2, 0] = np.nan  # in the first column, which only the first taps see
    made = conv_arrays.weight_adjoint(x, g, w, 1)
    assert np.isnan(made[:, 1, :, 0]).any()
    assert np.isfinite(made[:, 0]).all()
    assert np.isfinite(made[:, 1, :, 1:]).all()


def test_threads_do_not_change_a_bit() -> None:
    w = Windows((30, 30), (30, 30), (3, 3), (1, 1), (1, 1), (1, 1))
    x, weight, g = operands(w, 1, 12, "f")
    launch = kernels.launch
    before = launch.config.threads
    results = []
    try:
        for n in (1, 2):
            launch.config.threads = n
            results.append(
                (
                    conv_arrays.forward(x, weight, None, w, 1).tobytes(),
                    conv_arrays.input_adjoint(g, weight, None, w, 1).tobytes(),
                    conv_arrays.weight_adjoint(x, g, w, 1).tobytes(),
                )
            )
    finally:
        launch.config.threads = before
    assert results[0] == results[1]
