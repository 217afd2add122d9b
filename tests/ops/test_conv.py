"""Convolutions against PyTorch, their adjoints against each other, and errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapegrad as tg
import tapegrad.nn.functional as F
from tapegrad.autograd import gradgradcheck
from tapegrad.ops import conv_arrays

RANDOM = np.random.default_rng(0)


def normal(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape)


# Input, weight, and the options of conv.
CASES: list[tuple[int, tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    (1, (2, 3, 8), (4, 3, 3), {}),
    (1, (3, 9), (4, 3, 3), {"stride": 2, "padding": 1}),
    (1, (2, 4, 9), (6, 2, 2), {"groups": 2, "dilation": 3, "padding": "same"}),
    (2, (2, 3, 6, 7), (4, 3, 3, 2), {}),
    (2, (3, 6, 7), (4, 3, 3, 3), {"padding": (1, 2)}),
    (2, (2, 4, 7, 8), (6, 2, 3, 3), {"stride": (2, 1), "padding": 1, "groups": 2}),
    (2, (2, 4, 7, 8), (4, 1, 3, 2), {"stride": 2, "padding": 1, "groups": 4}),
    (2, (2, 3, 7, 8), (6, 1, 3, 3), {"padding": "same", "dilation": 2, "groups": 3}),
    (2, (2, 3, 5, 5), (4, 3, 2, 2), {"padding": "same"}),
    (2, (2, 3, 5, 5), (4, 3, 1, 1), {}),
    (2, (2, 4, 5, 5), (4, 2, 1, 1), {"groups": 2}),
    (2, (2, 3, 9, 9), (4, 3, 3, 3), {"stride": 4, "dilation": 2}),
    (2, (2, 1, 4, 4), (3, 1, 4, 4), {"padding": 3}),
    (2, (1, 2, 5, 12), (3, 2, 1, 7), {"padding": (0, 3)}),
    (3, (2, 2, 4, 5, 4), (3, 2, 2, 3, 2), {"padding": (1, 0, 1), "stride": (1, 2, 1)}),
    (3, (4, 3, 4, 4), (4, 1, 2, 2, 2), {"groups": 4}),
]

TRANSPOSED: list[tuple[int, tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    (1, (2, 3, 8), (3, 4, 3), {}),
    (1, (3, 5), (3, 4, 3), {"stride": 3, "output_padding": 2, "padding": 1}),
    (2, (2, 4, 4, 5), (4, 3, 3, 2), {"groups": 2, "stride": 2, "padding": 1, "output_padding": (1, 0)}),
    (2, (2, 4, 4, 5), (4, 1, 3, 3), {"groups": 4, "dilation": 2}),
    (2, (2, 3, 4, 4), (3, 5, 1, 1), {}),
    (3, (1, 2, 3, 3, 3), (2, 2, 2, 2, 2), {"stride": 2}),
]


@pytest.mark.filterwarnings("ignore:Using padding='same'")
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("case", CASES)
def test_convolutions(case: Any, bias: bool) -> None:
    torch = pytest.importorskip("torch")
    from .against_torch import assert_same

    n, x, w, options = case
    arrays = [normal(*x), normal(*w), *([normal(w[0])] if bias else [])]
    theirs, ours = getattr(torch.nn.functional, f"conv{n}d"), getattr(F, f"conv{n}d")
    wrt = tuple(range(len(arrays)))
    assert_same(lambda *a: theirs(*a, **options), lambda *a: ours(*a, **options), arrays, wrt=wrt)
    single = [a.astype("f") for a in arrays]
    assert_same(
        lambda *a: theirs(*a, **options), lambda *a: ours(*a, **options), single, wrt=wrt, tolerance=1e-3
    )


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("case", TRANSPOSED)
def test_transposed_convolutions(case: Any, bias: bool) -> None:
    torch = pytest.importorskip("torch")
    from .against_torch import assert_same

    n, x, w, options = case
    arrays = [normal(*x), normal(*w), *([normal(w[1] * options.get("groups", 1))] if bias else [])]
    theirs, ours = getattr(torch.nn.functional, f"conv_transpose{n}d"), getattr(F, f"conv_transpose{n}d")
    assert_same(
        lambda *a: theirs(*a, **options),
        lambda *a: ours(*a, **options),
        arrays,
        wrt=tuple(range(len(arrays))),
    )


@pytest.mark.parametrize("block", [1, 900, 5000])
def test_results_do_not_depend_on_the_blocks(monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    x, w, g = normal(5, 4, 9, 8), normal(6, 2, 3, 2), normal(5, 6, 10, 9)
    windows = conv_arrays.Windows((9, 8), (10, 9), (3, 2), (1, 1), (1, 1), (1, 1))
    whole = (
        conv_arrays.forward(x, w, None, windows, 2),
        conv_arrays.input_adjoint(g, w, None, windows, 2),
        conv_arrays.weight_adjoint(x, g, windows, 2),
    )
    monkeypatch.setattr(conv_arrays, "BLOCK", block)
    monkeypatch.setattr(conv_arrays, "LONG", 1)
    parts = (
        conv_arrays.forward(x, w, None, windows, 2),
        conv_arrays.input_adjoint(g, w, None, windows, 2),
        conv_arrays.weight_adjoint(x, g, windows, 2),
    )
    for a, b in zip(whole, parts, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("groups", [1, 2, 4])
def test_the_three_maps_are_adjoint(groups: int) -> None:
    x, w, g = normal(2, 4, 7, 6), normal(8, 4 // groups, 3, 2), normal(2, 8, 4, 6)
    windows = conv_arrays.Windows((7, 6), (4, 6), (3, 2), (2, 1), (1, 1), (1, 1))
    product = (conv_arrays.forward(x, w, None, windows, groups) * g).sum()
    np.testing.assert_allclose((conv_arrays.input_adjoint(g, w, None, windows, groups) * x).sum(), product)
    np.testing.assert_allclose((conv_arrays.weight_adjoint(x, g, windows, groups) * w).sum(), product)


def test_second_order() -> None:
    x, w, b = (tg.tensor(normal(*s), requires_grad=True) for s in ((1, 2, 4, 4), (2, 2, 2, 2), (2,)))
    assert gradgradcheck(lambda *a: F.conv2d(*a, stride=2, padding=1) ** 2, (x, w, b))
    assert gradgradcheck(lambda *a: F.conv_transpose2d(*a, stride=2), (x, w, b))


def test_empty_batches_and_strided_inputs() -> None:
    w = tg.tensor(normal(4, 3, 3, 3), requires_grad=True)
    made = F.conv2d(tg.zeros(0, 3, 8, 8, dtype=tg.float64), w)
    assert made.shape == (0, 4, 6, 6)
    made.sum().backward()
    assert not w.grad.numpy().any()
    assert F.conv2d(tg.zeros(2, 0, 8, 8), tg.zeros(4, 0, 3, 3)).shape == (2, 4, 6, 6)
    x = tg.tensor(normal(8, 8, 3, 2)).permute(3, 2, 0, 1)
    np.testing.assert_allclose(F.conv2d(x, w).detach().numpy(), F.conv2d(x.contiguous(), w).detach().numpy())
    wide = tg.tensor(normal(1, 3, 1, 1)).expand(2, 3, 5, 5)
    np.testing.assert_allclose(
        F.conv2d(wide, w).detach().numpy(), F.conv2d(wide.contiguous(), w).detach().numpy()
    )


def test_other_dtypes() -> None:
    x, w = tg.ones(1, 1, 4, dtype=tg.int64), tg.ones(2, 1, 3, dtype=tg.int64)
    assert F.conv1d(x, w).tolist() == [[[3, 3], [3, 3]]]
    half = F.conv1d(tg.ones(1, 1, 4, dtype=tg.float16), tg.ones(1, 1, 3, dtype=tg.float16))
    assert half.dtype is tg.float16
    assert half.tolist() == [[[3.0, 3.0]]]


def test_nan_stays_where_it_belongs() -> None:
    x = tg.ones(1, 1, 5, 5)
    x[0, 0, 0, 0] = float("nan")
    made = F.conv2d(x, tg.ones(1, 1, 2, 2))
    assert made.isnan().sum().item() == 1


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (
            lambda z: F.conv2d(z(8, 8), z(4, 3, 3, 3)),
            r"Expected 3D \(unbatched\) or 4D \(batched\) input to conv2d",
        ),
        (lambda z: F.conv2d(z(2, 3, 8, 8), z(4, 2, 3, 3)), "to have 2 channels, but got 3 channels instead"),
        (lambda z: F.conv2d(z(2, 3, 8, 8), z(4, 3, 3)), "weight should have 4 dimensions"),
        (
            lambda z: F.conv2d(z(2, 3, 8, 8), z(4, 3, 9, 3)),
            "Kernel size can't be greater than actual input size",
        ),
        (
            lambda z: F.conv2d(z(2, 3, 8, 8), z(4, 3, 3, 3), z(5)),
            "expected bias to be 1-dimensional with 4 elements",
        ),
        (
            lambda z: F.conv2d(z(2, 3, 8, 8), z(4, 3, 3, 3).double()),
            r"\(FloatTensor\) and weight type \(DoubleTensor\)",
        ),
        (lambda z: F.conv2d(z(2, 3, 8, 8), z(4, 3, 3, 3), stride=0), "non-positive stride"),
        (lambda z: F.conv2d(z(2, 3, 8, 8), z(4, 3, 3, 3), padding=-1), "negative padding"),
        (
            lambda z: F.conv2d(z(2, 3, 8, 8), z(4, 3, 3, 3), dilation=0),
            "dilation should be greater than zero",
        ),
        (lambda z: F.conv2d(z(2, 3, 8, 8), z(4, 3, 3, 3), groups=0), "non-positive groups"),
        (lambda z: F.conv2d(z(2, 4, 8, 8), z(3, 2, 3, 3), groups=2), "divisible by 2 at dimension 0"),
        (lambda z: F.conv2d(z(2, 3, 8, 8), z(4, 3, 3, 3), padding="full"), "Invalid padding string"),
        (lambda z: F.conv2d(z(2, 3, 8, 8), z(4, 3, 3, 3), padding="same", stride=2), "strided convolutions"),
        (lambda z: F.conv2d(z(2, 3, 8, 8), z(4, 3, 3, 3), stride=(1, 2, 3)), "list of 2 values"),
        (
            lambda z: F.conv_transpose2d(z(2, 3, 8, 8), z(3, 4, 3, 3), output_padding=1),
            "output padding must be smaller",
        ),
        (lambda z: F.conv_transpose2d(z(2, 3, 1, 1), z(3, 4, 3, 3), padding=2), "Output size is too small"),
        (lambda z: F.conv_transpose2d(z(2, 3, 8, 8), z(4, 3, 3, 3)), "to have 4 channels, but got 3"),
    ],
)
def test_errors(call: Any, words: str) -> None:
    with pytest.raises(RuntimeError, match=words):
        call(tg.zeros)


def test_type_errors() -> None:
    with pytest.raises(TypeError):
        F.conv2d(3, tg.zeros(4, 3, 3, 3))
    with pytest.raises(TypeError):
        F.conv2d(tg.zeros(2, 3, 8, 8), tg.zeros(4, 3, 3, 3), stride=1.5)
    with pytest.raises(NotImplementedError):
        F.conv1d(tg.ones(1, 1, 4).bool(), tg.ones(1, 1, 3).bool())
