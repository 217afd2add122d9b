"""Convolution over panels against sums written down tap by tap, and its kernels against their plain twins."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from tapegrad import kernels
from tapegrad.ops import conv_arrays, conv_choice, conv_panels
from tapegrad.ops.windows import Windows

RANDOM = np.random.default_rng(0)
WINDOWS = [
    Windows((7, 7), (7, 7), (3, 3), (1, 1), (1, 1), (1, 1)),
    Windows((9, 11), (4, 5), (3, 2), (2, 2), (0, 0), (1, 1)),
    Windows((8, 6), (3, 6), (3, 3), (3, 1), (2, 2), (1, 2)),
    Windows((3, 3), (7, 7), (1, 1), (1, 1), (2, 2), (1, 1)),  # outputs that meet nothing
    Windows((2, 5), (2, 5), (5, 1), (1, 1), (2, 0), (1, 1)),  # taps that meet nothing
    Windows((33,), (16,), (4,), (2,), (1,), (1,)),
    Windows((3, 4, 5), (3, 4, 4), (1, 2, 3), (1, 1, 1), (0, 1, 1), (1, 2, 1)),
]
# Images, groups, channels and outputs of a group: full and partial tiles, one vector and several panels.
SIZES = [(1, 1, 1, 1), (3, 2, 3, 5), (4, 1, 17, 33), (9, 3, 2, 1), (17, 1, 8, 50), (20, 2, 9, 16)]


def meetings(w: Windows) -> Iterator[tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]]:
    """Outputs, taps and inputs that meet, one by one."""
    for out in np.ndindex(*w.out):
        for tap in np.ndindex(*w.kernel):
            at = tuple(
                t * s - p + k * d
                for t, k, s, p, d in zip(out, tap, w.stride, w.padding, w.dilation, strict=True)
            )
            if all(0 <= a < n for a, n in zip(at, w.size, strict=True)):
                yield out, tap, at


Operands = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def operands(w: Windows, sizes: tuple[int, int, int, int], dtype: str) -> Operands:
    """An input, a weight, a gradient, and numbers per channel of results and of inputs."""
    images, groups, channels, outs = sizes
    shapes = [(images, groups * channels, *w.size), (groups * outs, channels, *w.kernel)]
    shapes += [(images, groups * outs, *w.out), (groups * outs,), (groups * channels,)]
    x, weight, g, bias, back = (RANDOM.standard_normal(s).astype(dtype) for s in shapes)
    return x, weight, g, bias, back


def written_down(w: Windows, groups: int, given: Operands) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The three maps from their definition, in float64."""
    x, weight, g, bias, back = (a.astype("d") for a in given)
    dims = (1,) * len(w.size)
    out = np.zeros(g.shape) + bias.reshape(-1, *dims)
    inputs, weights = np.zeros(x.shape) + back.reshape(-1, *dims), np.zeros(weight.shape)
    outs, channels = len(weight) // groups, weight.shape[1]
    for t, k, at in meetings(w):
        for j in range(groups):
            o, c = slice(j * outs, (j + 1) * outs), slice(j * channels, (j + 1) * channels)
            taken = weight[(o, slice(None), *k)]
            out[(slice(None), o, *t)] += x[(slice(None), c, *at)] @ taken.T
            inputs[(slice(None), c, *at)] += g[(slice(None), o, *t)] @ taken
            weights[(o, slice(None), *k)] += g[(slice(None), o, *t)].T @ x[(slice(None), c, *at)]
    return out, inputs, weights


def over_panels(w: Windows, groups: int, given: Operands) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The three maps, into memory full of NaN."""
    x, weight, g, bias, back = given
    if kernels.tile.lanes(x.itemsize) < kernels.gemm_tile.HEIGHT:
        pytest.skip("this machine's vectors are shorter than tiles are high: nothing goes over panels")
    out, inputs, weights = (np.full_like(a, np.nan) for a in (g, x, weight))
    conv_panels.forward(x, weight, bias, out, w, groups)
    conv_panels.input_adjoint(g, weight, back, inputs, w, groups)
    conv_panels.weight_adjoint(x, g, weights, w, groups)
    return out, inputs, weights


def compare(made: tuple[np.ndarray, ...], expected: tuple[np.ndarray, ...], dtype: str) -> None:
    for a, b in zip(made, expected, strict=True):
        np.testing.assert_allclose(a, b, atol=(1e-4 if dtype == "f" else 1e-12) * max(1, np.abs(b).max()))


@pytest.mark.parametrize("dtype", ["f", "d"])
@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("w", WINDOWS)
def test_the_three_maps(w: Windows, sizes: tuple[int, int, int, int], dtype: str) -> None:
    given = operands(w, sizes, dtype)
    compare(over_panels(w, sizes[1], given), written_down(w, sizes[1], given), dtype)


def test_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Images that do not fit into one block, and sums in many chunks."""
    w, sizes = WINDOWS[0], (37, 2, 3, 17)
    given = operands(w, sizes, "d")
    monkeypatch.setattr(conv_panels, "BLOCK", 1)
    monkeypatch.setattr(conv_panels, "LONG", 7)
    compare(over_panels(w, 2, given), written_down(w, 2, given), "d")


def test_plain_twins(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernels' own text with the twins of the vector code."""
    w, sizes = Windows((4, 5), (2, 3), (3, 2), (2, 2), (1, 1), (1, 1)), (5, 2, 3, 18)
    x, weight, _, bias, _ = given = operands(w, sizes, "f")
    bounded, again = np.full((2, *given[2].shape), np.nan, "f")
    conv_panels.forward(x, weight, bias, bounded, w, 2, 0.5)
    module, tile = kernels.conv_panels, kernels.panel_tile
    monkeypatch.setattr(module, "panel_tile", tile._panel_tile_twin)
    monkeypatch.setattr(module, "turn", tile._turn_twin)
    monkeypatch.setattr(module, "unpack", kernels.gemm_tile._unpack_twin)
    for name in ("lay_images", "lay_channels", "lay_weights", "convolve", "contract", "turn_back"):
        monkeypatch.setattr(module, name, kernels.jit._plain(getattr(module, name).fn))
    conv_panels.forward(x, weight, bias, again, w, 2, 0.5)
    np.testing.assert_allclose(again, bounded, atol=1e-4)
    compare(over_panels(w, 2, given), written_down(w, 2, given), "f")


def test_threads_do_not_change_a_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    w, sizes = Windows((9, 9), (9, 9), (3, 3), (1, 1), (1, 1), (1, 1)), (20, 1, 32, 72)
    given = operands(w, sizes, "f")
    results = []
    for n in (1, 2, 3):
        monkeypatch.setattr(kernels.launch.config, "threads", n)
        results.append([a.tobytes() for a in over_panels(w, 1, given)])
    assert results[0] == results[1] == results[2]


def test_what_is_not_finite_stays_where_it_is_met() -> None:
    w, sizes = WINDOWS[0], (3, 1, 5, 21)
    x, weight, g, bias, back = operands(w, sizes, "d")
    x[1, 2, 0, 0] = np.nan
    out, _, weights = over_panels(w, 1, (x, weight, g, bias, back))
    assert np.isnan(out[1, :, :2, :2]).all()
    assert np.isfinite(out[[0, 2]]).all()
    assert np.isfinite(out[1, :, 2:]).all()
    assert np.isnan(weights[:, 2, :2, :2]).all()
    assert np.isfinite(weights[:, [0, 1, 3, 4]]).all()
    assert np.isfinite(weights[:, 2, 2]).all()


# -- the choice ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("w", [*WINDOWS, Windows((5,), (9,), (2,), (3,), (11,), (4,))])
def test_what_meets_is_counted_without_a_table(w: Windows) -> None:
    assert conv_choice.meeting(w) == len(list(meetings(w))) == len(conv_panels._meetings(w)[0])


@pytest.mark.parametrize(
    "choose", [conv_choice.forward, conv_choice.input_adjoint, conv_choice.weight_adjoint]
)
def test_many_images_with_many_channels_go_over_panels(
    choose: Callable[..., bool],
) -> None:
    w = Windows((7, 7), (7, 7), (3, 3), (1, 1), (1, 1), (1, 1))
    assert choose(w, 16, 256, 256, 1, 16)
    assert not choose(w, 1, 1, 1, 1, 16)  # rows and lanes would be empty
    large = Windows((130, 130), (130, 130), (3, 3), (1, 1), (1, 1), (1, 1))
    assert not choose(large, 16, 4, 4, 1, 16)  # its table would be too long
    assert not choose(w._replace(padding=(1, 1)), 16, 256, 256, 1, 2)  # rows do not fit into a vector


def test_a_panel_has_a_largest_size() -> None:
    w = Windows((7, 7), (7, 7), (3, 3), (1, 1), (1, 1), (1, 1))
    assert conv_choice.forward(w, 16, 16, 6000, 1, 16)
    assert not conv_choice.forward(w, 16, 6000, 16, 1, 16)
    assert conv_choice.input_adjoint(w, 16, 6000, 16, 1, 16)
    assert not conv_choice.input_adjoint(w, 16, 16, 6000, 1, 16)


def test_every_map_goes_the_way_that_was_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    w, sizes = WINDOWS[0], (8, 1, 16, 32)
    x, weight, g, bias, back = given = operands(w, sizes, "f")
    taken: list[str] = []

    def watched(name: str, function: Any) -> Any:
        return lambda *args: (taken.append(name), function(*args))[1]

    names = ["forward", "input_adjoint", "weight_adjoint"]
    for name in names:
        monkeypatch.setattr(conv_panels, name, watched(name, getattr(conv_panels, name)))
    for answer in (True, False):
        for name in names:
            monkeypatch.setattr(conv_choice, name, lambda *sizes, answer=answer: answer)
        made = (
            conv_arrays.forward(x, weight, bias, w, 1),
            conv_arrays.input_adjoint(g, weight, back, w, 1),
            conv_arrays.weight_adjoint(x, g, w, 1),
        )
        compare(made, written_down(w, 1, given), "f")
        assert taken == names
