"""Padding, interpolation, sampling, shuffles and sliding blocks against PyTorch."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

import tapegrad as tg
import tapegrad.nn.functional as F
from tapegrad.autograd import gradcheck, gradgradcheck

RANDOM = np.random.default_rng(0)


def normal(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape)


PADS: list[tuple[tuple[int, ...], tuple[int, ...], str, Any]] = [
    ((2, 3, 4), (1, 2), "constant", None),
    ((2, 3, 4), (1, 2, -1, 3), "constant", 2.5),
    ((2, 3, 4), (-1, -2, 0, 0, 2, 1), "constant", -1.0),
    ((2, 3, 4), (0, 0), "constant", None),
    ((4,), (2, 1), "constant", 1.0),
    ((2, 3, 5), (2, 4), "reflect", None),
    ((3, 5), (4, 1), "reflect", None),
    ((2, 3, 5, 4), (3, 2, 1, 4), "reflect", None),
    ((2, 3, 4, 4), (1, -1, 2, 0), "reflect", None),
    ((2, 2, 3, 4, 3), (1, 2, 1, 0, 2, 1), "reflect", None),
    ((2, 3, 5), (2, 7), "replicate", None),
    ((2, 3, 5, 4), (3, 0, 1, 9), "replicate", None),
    ((2, 2, 3, 4, 3), (1, 2, 1, 0, 2, 1), "replicate", None),
    ((2, 3, 5), (2, 5), "circular", None),
    ((2, 3, 5, 4), (3, 2, 1, 4), "circular", None),
    ((1, 3, 4, 4), (-1, 1, -2, 1), "circular", None),
]


@pytest.mark.parametrize("case", PADS)
def test_pad(case: Any) -> None:
    torch = pytest.importorskip("torch")
    from .against_torch import assert_same

    shape, sides, mode, value = case
    assert_same(
        lambda x: torch.nn.functional.pad(x, sides, mode, value),
        lambda x: F.pad(x, sides, mode, value),
        [normal(*shape)],
    )


def test_pad_of_other_dtypes_and_strides() -> None:
    assert F.pad(tg.tensor([1, 2]), (1, 1)).tolist() == [0, 1, 2, 0]
    assert F.pad(tg.tensor([1, 2]), (1, 1), value=7.9).tolist() == [7, 1, 2, 7]
    assert F.pad(tg.tensor([True]), (1, 0)).tolist() == [False, True]
    assert F.pad(tg.tensor([[1, 2, 3]]), (2, 2), "reflect").tolist() == [[3, 2, 1, 2, 3, 2, 1]]
    x = tg.tensor(normal(4, 3, 2)).permute(2, 1, 0)
    np.testing.assert_array_equal(
        F.pad(x, (2, 1), "reflect").numpy(), F.pad(x.contiguous(), (2, 1), "reflect").numpy()
    )


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda z: F.pad(z(2, 3, 4), (1,)), RuntimeError, "divisible by 2"),
        (
            lambda z: F.pad(z(2, 3), (1,) * 6),
            RuntimeError,
            "less than or equal to two times the input dimension",
        ),
        (lambda z: F.pad(z(2, 3, 4), (-2, -3)), RuntimeError, "negative output size"),
        (
            lambda z: F.pad(z(2, 3, 4), (4, 1), "reflect"),
            RuntimeError,
            "less than the corresponding input dimension",
        ),
        (lambda z: F.pad(z(2, 3, 4), (5, 1), "circular"), RuntimeError, "wrapping around more than once"),
        (lambda z: F.pad(z(2, 3, 4), (-2, -2), "replicate"), RuntimeError, "too small"),
        (
            lambda z: F.pad(z(2, 3, 4), (1, 1), "mirror"),
            NotImplementedError,
            "Unrecognised padding mode mirror",
        ),
        (lambda z: F.pad(z(2, 3, 4), (1, 1), "reflect", 1), RuntimeError, "doesn't take in value"),
        (lambda z: F.pad(z(4), (1, 1), "reflect"), NotImplementedError, "not supported for 1D"),
        (lambda z: F.pad(z(2, 0, 4), (1, 1), "reflect"), RuntimeError, "non-zero dimensions"),
        (lambda z: F.pad(z(2, 3, 4), (1.5, 1)), TypeError, "float at pos 0"),
        (lambda z: F.interpolate(z(2, 3, 8)), ValueError, "either size or scale_factor"),
        (lambda z: F.interpolate(z(2, 3, 8), 2, 2), ValueError, "only one of size or scale_factor"),
        (lambda z: F.interpolate(z(2, 3, 8), (2, 2)), ValueError, "same number of spatial dimensions"),
        (lambda z: F.interpolate(z(2, 3, 8), 2, mode="bilinear"), NotImplementedError, "needs 4D input"),
        (lambda z: F.interpolate(z(2, 3, 8), 2, mode="smooth"), NotImplementedError, "got smooth"),
        (lambda z: F.interpolate(z(2, 3, 8), 2, align_corners=True), ValueError, "align_corners"),
        (lambda z: F.interpolate(z(2, 3, 8), 0), RuntimeError, "greater than 0"),
        (lambda z: F.interpolate(z(2, 3, 8).long(), 2), NotImplementedError, "not implemented"),
        (lambda z: F.grid_sample(z(2, 3, 4, 4), z(2, 5, 5, 3)), RuntimeError, "size 2 in last dimension"),
        (lambda z: F.grid_sample(z(2, 3, 4, 4), z(3, 5, 5, 2)), RuntimeError, "same batch size"),
        (lambda z: F.grid_sample(z(2, 3, 4, 4), z(2, 5, 5, 2), mode="smooth"), ValueError, "expected mode"),
        (lambda z: F.affine_grid(z(2, 3), (2, 3, 4, 4)), ValueError, "Nx2x3"),
        (lambda z: F.affine_grid(z(2, 2, 3), (2, 3, 4)), NotImplementedError, "4D and 5D sizes"),
        (lambda z: F.pixel_shuffle(z(2, 7, 3, 3), 2), RuntimeError, "not divisible by 4"),
        (lambda z: F.pixel_unshuffle(z(2, 2, 5, 6), 2), RuntimeError, "not divisible by 2"),
        (lambda z: F.channel_shuffle(z(2, 6, 3, 3), 4), RuntimeError, "divisible by groups"),
        (lambda z: F.unfold(z(2, 3, 2, 2), 3), RuntimeError, "at least one"),
        (lambda z: F.unfold(z(2, 3, 6, 6), 0), RuntimeError, "greater than zero"),
        (lambda z: F.fold(z(2, 26, 16), (6, 6), 3), RuntimeError, "divisible by the product of kernel_size"),
        (lambda z: F.fold(z(2, 27, 15), (6, 6), 3), RuntimeError, "number of sliding blocks 4 \\* 4 = 16"),
    ],
)
def test_errors(call: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        call(tg.zeros)


RESIZES: list[tuple[tuple[int, ...], dict[str, Any]]] = [
    *[
        ((2, 3, 7), {"size": n, "mode": m})
        for n in (3, 7, 15)
        for m in ("nearest", "nearest-exact", "linear", "area")
    ],
    *[
        ((2, 2, 5, 6), {"size": s, "mode": m})
        for s in ((3, 9), (10, 3))
        for m in ("nearest", "bilinear", "bicubic", "area")
    ],
    *[
        ((2, 2, 5, 6), {"scale_factor": f, "mode": m})
        for f in (2, (0.7, 1.6))
        for m in ("nearest", "nearest-exact", "bilinear")
    ],
    *[((2, 2, 5, 6), {"size": (8, 4), "mode": m, "align_corners": True}) for m in ("bilinear", "bicubic")],
    ((2, 2, 5, 6), {"scale_factor": 1.7, "mode": "bilinear", "recompute_scale_factor": True}),
    ((2, 2, 5, 6), {"size": (1, 1), "mode": "bilinear", "align_corners": True}),
    ((2, 2, 3, 4, 5), {"size": (5, 3, 7), "mode": "trilinear"}),
    ((2, 2, 3, 4, 5), {"size": (5, 3, 7), "mode": "trilinear", "align_corners": True}),
    ((2, 2, 3, 4, 5), {"scale_factor": (2, 1, 0.5), "mode": "nearest"}),
]


@pytest.mark.parametrize("case", RESIZES)
def test_interpolate(case: Any) -> None:
    torch = pytest.importorskip("torch")
    from .against_torch import assert_same

    shape, options = case
    x = normal(*shape)
    theirs, ours = torch.nn.functional.interpolate, F.interpolate
    assert_same(lambda a: theirs(a, **options), lambda a: ours(a, **options), [x])
    assert_same(lambda a: theirs(a, **options), lambda a: ours(a, **options), [x.astype("f")], tolerance=1e-5)


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("size", [(3, 4), (11, 5), (2, 20)])
@pytest.mark.parametrize("align", [False, True])
def test_interpolate_without_aliasing(mode: str, size: Any, align: bool) -> None:
    torch = pytest.importorskip("torch")
    from .against_torch import assert_same

    options = {"size": size, "mode": mode, "antialias": True, "align_corners": align}
    theirs, ours = torch.nn.functional.interpolate, F.interpolate
    assert_same(lambda a: theirs(a, **options), lambda a: ours(a, **options), [normal(2, 2, 9, 10)])


@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
@pytest.mark.parametrize("padding_mode", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("align", [False, True])
def test_grid_sample(mode: str, padding_mode: str, align: bool) -> None:
    torch = pytest.importorskip("torch")
    from .against_torch import assert_same

    options = {"mode": mode, "padding_mode": padding_mode, "align_corners": align}
    x, grid = normal(2, 3, 5, 6), 1.2 * normal(2, 4, 7, 2)
    theirs, ours = torch.nn.functional.grid_sample, F.grid_sample
    assert_same(
        lambda a, g: theirs(a, g, **options),
        lambda a, g: ours(a, g, **options),
        [x, grid],
        wrt=(0, 1),
        second=False,
    )
    if mode != "bicubic":
        x, grid = normal(1, 2, 3, 4, 5), normal(1, 2, 3, 2, 3)
        assert_same(
            lambda a, g: theirs(a, g, **options),
            lambda a, g: ours(a, g, **options),
            [x, grid],
            wrt=(0, 1),
            second=False,
        )


def test_grid_sample_has_second_derivatives() -> None:
    x = tg.tensor(normal(1, 1, 4, 4), requires_grad=True)
    grid = tg.tensor(RANDOM.uniform(-0.9, 0.9, (1, 2, 2, 2)), requires_grad=True)
    for mode in ("bilinear", "bicubic"):
        assert gradcheck(partial(F.grid_sample, mode=mode, align_corners=False), (x, grid))
        assert gradgradcheck(partial(F.grid_sample, mode=mode, align_corners=False), (x, grid))


@pytest.mark.filterwarnings("ignore:Since version 1.3.0, affine_grid")
@pytest.mark.parametrize("size", [(2, 3, 4, 5), (2, 3, 3, 4, 5), (2, 1, 1, 3)])
@pytest.mark.parametrize("align", [False, True])
def test_affine_grid(size: tuple[int, ...], align: bool) -> None:
    torch = pytest.importorskip("torch")
    from .against_torch import assert_same

    k = len(size) - 2
    assert_same(
        lambda t: torch.nn.functional.affine_grid(t, size, align),
        lambda t: F.affine_grid(t, size, align),
        [normal(2, k, k + 1)],
    )


def test_shuffles() -> None:
    torch = pytest.importorskip("torch")
    from .against_torch import assert_same

    for shape in ((2, 8, 3, 4), (8, 3, 4), (2, 1, 4, 2, 2)):
        x = normal(*shape)
        assert_same(lambda a: torch.nn.functional.pixel_shuffle(a, 2), lambda a: F.pixel_shuffle(a, 2), [x])
    for shape in ((2, 3, 4, 6), (3, 4, 6)):
        x = normal(*shape)
        assert_same(
            lambda a: torch.nn.functional.pixel_unshuffle(a, 2), lambda a: F.pixel_unshuffle(a, 2), [x]
        )
    assert_same(
        lambda a: torch.nn.functional.channel_shuffle(a, 3),
        lambda a: F.channel_shuffle(a, 3),
        [normal(2, 6, 3, 2)],
    )


@pytest.mark.parametrize(
    "options",
    [
        {"kernel_size": 2},
        {"kernel_size": (3, 2), "padding": 1, "stride": 2},
        {"kernel_size": 2, "dilation": 2, "padding": (0, 1), "stride": (1, 3)},
    ],
)
def test_sliding_blocks(options: dict[str, Any]) -> None:
    torch = pytest.importorskip("torch")
    from .against_torch import assert_same

    for x in (normal(2, 3, 6, 7), normal(3, 6, 7)):
        assert_same(partial(torch.nn.functional.unfold, **options), partial(F.unfold, **options), [x])
        blocks = F.unfold(tg.tensor(x), **options).numpy()
        assert_same(
            lambda a: torch.nn.functional.fold(a, (6, 7), **options),
            lambda a: F.fold(a, (6, 7), **options),
            [blocks],
        )


@pytest.mark.parametrize(("size", "factor"), [(3, 1.3), (3, 2.3), (5, 2.15), (4, 1.0), (4, 1.9)])
def test_images_that_keep_or_double_their_size(size, factor):
    torch = pytest.importorskip("torch", reason="compares with PyTorch, which is not installed")
    seen = []
    for lib in (tg, torch):
        x = lib.arange(2.0 * size).reshape(1, 1, 2, size).requires_grad_()
        out = lib.nn.functional.interpolate(x, scale_factor=(1.0, factor), mode="nearest")
        (out * out).sum().backward()
        seen.append((out.tolist(), x.grad.tolist()))
    assert seen[0] == seen[1]
