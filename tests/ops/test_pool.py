"""Pooling against PyTorch: windows, indices, dtypes, NaN, every order of derivative."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapegrad as tg
import tapegrad.nn.functional as F
from tapegrad.autograd import gradgradcheck

RANDOM = np.random.default_rng(0)
SHAPES = {1: (2, 3, 11), 2: (2, 3, 9, 10), 3: (2, 2, 6, 7, 5)}


def normal(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape)


MAX_OPTIONS: list[dict[str, Any]] = [
    {"kernel_size": 2},
    {"kernel_size": 3, "stride": 2, "padding": 1},
    {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True},
    {"kernel_size": 2, "stride": 3, "dilation": 2},
    {"kernel_size": 3, "stride": 1, "padding": 1, "dilation": 2},
]


@pytest.mark.parametrize("options", MAX_OPTIONS)
@pytest.mark.parametrize("n", [1, 2, 3])
def test_maximum(n: int, options: dict[str, Any]) -> None:
    torch = pytest.importorskip("torch")
    from .against_torch import assert_same

    theirs, ours = getattr(torch.nn.functional, f"max_pool{n}d"), getattr(F, f"max_pool{n}d")
    for x in (normal(*SHAPES[n]), normal(*SHAPES[n])[0]):
        assert_same(lambda a: theirs(a, **options), lambda a: ours(a, **options), [x])
        values, indices = theirs(torch.tensor(x), **options, return_indices=True)
        mine, places = ours(tg.tensor(x), **options, return_indices=True)
        assert places.dtype is tg.int64
        np.testing.assert_array_equal(mine.numpy(), values.numpy())
        np.testing.assert_array_equal(places.numpy(), indices.numpy())


def test_ties_and_nan_have_pytorchs_indices() -> None:
    torch = pytest.importorskip("torch")
    for x in (
        np.zeros((1, 1, 4, 4)),
        np.full((1, 1, 4, 4), -np.inf),
        np.array([[[[np.nan, 1, 2, 3], [2, np.nan, 4, 4], [1, 1, 1, np.nan], [0, 0, 0, 0]]]]),
    ):
        for options in ({"kernel_size": 2}, {"kernel_size": 3, "stride": 1, "padding": 1}):
            a = torch.nn.functional.max_pool2d(torch.tensor(x), **options, return_indices=True)
            b = F.max_pool2d(tg.tensor(x), **options, return_indices=True)
            np.testing.assert_array_equal(b[0].numpy(), a[0].numpy())
            np.testing.assert_array_equal(b[1].numpy(), a[1].numpy())


AVERAGE_OPTIONS: list[dict[str, Any]] = [
    {"kernel_size": 2},
    {"kernel_size": 3, "stride": 2, "padding": 1},
    {"kernel_size": 3, "stride": 2, "padding": 1, "count_include_pad": False},
    {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True},
    {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True, "count_include_pad": False},
    {"kernel_size": 2, "divisor_override": 3},
    {"kernel_size": 4, "stride": 1},
]


@pytest.mark.parametrize("options", AVERAGE_OPTIONS)
@pytest.mark.parametrize("n", [1, 2, 3])
def test_mean(n: int, options: dict[str, Any]) -> None:
    if n == 1 and "divisor_override" in options:
        pytest.skip("avg_pool1d has no divisor_override")
    torch = pytest.importorskip("torch")
    from .against_torch import assert_same

    theirs, ours = getattr(torch.nn.functional, f"avg_pool{n}d"), getattr(F, f"avg_pool{n}d")
    x = normal(*SHAPES[n])
    assert_same(lambda a: theirs(a, **options), lambda a: ours(a, **options), [x])
    assert_same(
        lambda a: theirs(a, **options), lambda a: ours(a, **options), [x[0].astype("f")], tolerance=1e-5
    )


@pytest.mark.parametrize("kind", ["avg", "max"])
@pytest.mark.parametrize(
    ("n", "size"), [(1, 4), (1, 1), (2, (3, 4)), (2, (None, 7)), (2, 12), (3, (2, 3, None)), (3, 1)]
)
def test_adaptive(kind: str, n: int, size: Any) -> None:
    torch = pytest.importorskip("torch")
    from .against_torch import assert_same

    name = f"adaptive_{kind}_pool{n}d"
    theirs, ours = getattr(torch.nn.functional, name), getattr(F, name)
    for x in (normal(*SHAPES[n]), normal(*SHAPES[n])[0]):
        assert_same(lambda a: theirs(a, size), lambda a: ours(a, size), [x])
    if kind == "max":
        x = normal(*SHAPES[n])
        places = theirs(torch.tensor(x), size, return_indices=True)[1]
        np.testing.assert_array_equal(
            ours(tg.tensor(x), size, return_indices=True)[1].numpy(), places.numpy()
        )


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("p", [2, 3, 1.5])
def test_power_means(n: int, p: float) -> None:
    torch = pytest.importorskip("torch")
    from .against_torch import assert_same

    theirs, ours = getattr(torch.nn.functional, f"lp_pool{n}d"), getattr(F, f"lp_pool{n}d")
    x = abs(normal(*SHAPES[n])) + 0.1
    assert_same(lambda a: theirs(a, p, 3, 2), lambda a: ours(a, p, 3, 2), [x])
    assert_same(lambda a: theirs(a, p, 2, None, True), lambda a: ours(a, p, 2, None, True), [x])


@pytest.mark.parametrize("n", [1, 2, 3])
def test_unpooling(n: int) -> None:
    torch = pytest.importorskip("torch")
    from .against_torch import assert_same

    x = normal(*SHAPES[n])
    pooled, index = getattr(F, f"max_pool{n}d")(tg.tensor(x), 2, return_indices=True)
    theirs, ours = getattr(torch.nn.functional, f"max_unpool{n}d"), getattr(F, f"max_unpool{n}d")
    given = [pooled.numpy(), index.numpy()]
    size = x.shape[2:]
    assert_same(
        lambda a, i: theirs(a, i, 2, output_size=size), lambda a, i: ours(a, i, 2, output_size=size), given
    )
    even = x[(..., *[slice(0, 4)] * n)]
    pooled, index = getattr(F, f"max_pool{n}d")(tg.tensor(even), 2, return_indices=True)
    assert_same(lambda a, i: theirs(a, i, 2), lambda a, i: ours(a, i, 2), [pooled.numpy(), index.numpy()])


def test_second_order() -> None:
    x = tg.tensor(normal(1, 2, 5, 5), requires_grad=True)
    assert gradgradcheck(lambda a: F.max_pool2d(a, 2, 1) ** 2, (x,))
    assert gradgradcheck(lambda a: F.avg_pool2d(a, 3, 2, 1) ** 3, (x,))
    assert gradgradcheck(lambda a: F.adaptive_avg_pool2d(a, 3) ** 2, (x,))


def test_dtypes() -> None:
    x = tg.tensor([[[[1, 5], [7, 2]]]])
    assert F.max_pool2d(x, 2).tolist() == [[[[7]]]]
    half = x.half()
    assert F.avg_pool2d(half, 2).dtype is tg.float16
    assert F.max_pool2d(half, 2).dtype is tg.float16
    for call in (
        lambda: F.avg_pool2d(x, 2),
        lambda: F.max_pool1d(x[0], 2),
        lambda: F.adaptive_avg_pool2d(x, 1),
    ):
        with pytest.raises(NotImplementedError):
            call()


def test_empty_batch_and_strided_input() -> None:
    assert F.max_pool2d(tg.zeros(0, 3, 8, 8), 2).shape == (0, 3, 4, 4)
    assert F.adaptive_avg_pool2d(tg.zeros(2, 3, 8, 8), 0).shape == (2, 3, 0, 0)
    x = tg.tensor(normal(6, 8, 3, 2)).permute(3, 2, 0, 1)
    for pool in (
        lambda a: F.max_pool2d(a, 2),
        lambda a: F.avg_pool2d(a, 2),
        lambda a: F.adaptive_max_pool2d(a, 3),
    ):
        np.testing.assert_array_equal(pool(x).numpy(), pool(x.contiguous()).numpy())


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda z: F.max_pool2d(z(8, 8), 2), RuntimeError, "Expected 3D or 4D"),
        (lambda z: F.max_pool2d(z(2, 0, 8, 8), 2), RuntimeError, "only the batch may be empty"),
        (lambda z: F.max_pool2d(z(2, 3, 8, 8), (2, 2, 2)), RuntimeError, "tuple of 2 ints"),
        (lambda z: F.max_pool2d(z(2, 3, 8, 8), 0), RuntimeError, "greater than zero"),
        (lambda z: F.max_pool2d(z(2, 3, 8, 8), 2, 0), RuntimeError, "stride"),
        (lambda z: F.max_pool2d(z(2, 3, 8, 8), 2, padding=2), RuntimeError, "at most half"),
        (lambda z: F.max_pool2d(z(2, 3, 8, 8), 2, padding=-1), RuntimeError, "non-negative"),
        (lambda z: F.max_pool2d(z(2, 3, 8, 8), 2, dilation=0), RuntimeError, "dilation"),
        (lambda z: F.max_pool2d(z(2, 3, 1, 1), 2), RuntimeError, "Output size is too small"),
        (
            lambda z: F.avg_pool2d(z(2, 3, 8, 8), 2, divisor_override=0),
            RuntimeError,
            "divisor must be not zero",
        ),
        (lambda z: F.max_pool2d(z(2, 3, 8, 8), 1.5), TypeError, "int"),
        (lambda z: F.max_pool2d(3, 2), TypeError, "must be Tensor"),
        (lambda z: F.adaptive_avg_pool2d(z(8, 8), 2), RuntimeError, "Expected 3D or 4D"),
        (lambda z: F.adaptive_avg_pool2d(z(2, 3, 8, 8), -1), RuntimeError, "greater than or equal to 0"),
        (lambda z: F.adaptive_max_pool2d(z(2, 3, 0, 8), 2), RuntimeError, "dimension 2 being empty"),
        (lambda z: F.max_unpool2d(z(2, 3, 4, 4), z(2, 3, 4, 4).int(), 2), RuntimeError, "int64"),
        (
            lambda z: F.max_unpool2d(z(2, 3, 4, 4), z(2, 3, 4, 3).long(), 2),
            RuntimeError,
            "same as that of the input",
        ),
        (
            lambda z: F.max_unpool2d(z(2, 3, 4, 4), z(2, 3, 4, 4).long() + 100, 2),
            RuntimeError,
            "invalid max index: 100",
        ),
        (
            lambda z: F.max_unpool2d(z(2, 3, 4, 4), z(2, 3, 4, 4).long(), 2, output_size=(19, 9)),
            ValueError,
            "between 6 and 10",
        ),
    ],
)
def test_errors(call: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        call(tg.zeros)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_windows_that_meet_padding_alone(n):
    options = {"padding": 1, "dilation": 2, "ceil_mode": True}
    x = tg.full((1, 2, *(1,) * n), 3.0, requires_grad=True)
    out = getattr(F, f"max_pool{n}d")(x, 3, **options)
    assert (out == -float("inf")).all()
    out.sum().backward()
    assert (x.grad == 0).all()
    if n > 1:
        whole = getattr(F, f"max_pool{n}d")(tg.ones(1, 1, *(1,) * n, dtype=tg.int64), 3, **options)
        assert (whole == tg.iinfo(tg.int64).min).all()
