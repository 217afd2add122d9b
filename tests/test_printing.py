"""The printed form of tensors against PyTorch: recorded strings, and PyTorch itself where it is installed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy import inf, nan

import tapegrad as tg
from tapegrad import dtypes
from tapegrad.printing import format_tensor, get_printoptions, printoptions, set_printoptions

RECORDED = [
    (np.float32(3.5), "tensor(3.5000)"),
    (np.int64(7), "tensor(7)"),
    (np.bool_(True), "tensor(True)"),
    (np.float64(1.5), "tensor(1.5000, dtype=tapegrad.float64)"),
    (np.float32(nan), "tensor(nan)"),
    (np.float32(2), "tensor(2.)"),
    (np.float32(1e-5), "tensor(1.0000e-05)"),
    (np.array([1.0, 2, 3], "f4"), "tensor([1., 2., 3.])"),
    (np.array([1.0, 2.5, -3], "f4"), "tensor([ 1.0000,  2.5000, -3.0000])"),
    (np.array([0.0, -0.0], "f4"), "tensor([0., -0.])"),
    (np.array([nan, inf, -inf], "f4"), "tensor([nan, inf, -inf])"),
    (np.array([nan, inf, 1], "f4"), "tensor([nan, inf, 1.])"),
    (np.array([nan, -inf, 0.5], "f4"), "tensor([   nan,   -inf, 0.5000])"),
    (np.array([1e-5, 1], "f4"), "tensor([1.0000e-05, 1.0000e+00])"),
    (np.array([1, 1001], "f4"), "tensor([1.0000e+00, 1.0010e+03])"),
    (np.array([1.5, 1001], "f4"), "tensor([   1.5000, 1001.0000])"),
    (np.array([1e9, 2e9], "f4"), "tensor([1.0000e+09, 2.0000e+09])"),
    (np.array([123456.789, 5000], "f4"), "tensor([123456.7891,   5000.0000])"),
    (np.array([1e-40, 0], "f4"), "tensor([9.9999e-41, 0.0000e+00])"),
    (np.array([1e308, 5e-324]), "tensor([1.0000e+308, 4.9407e-324], dtype=tapegrad.float64)"),
    (np.array([True, False]), "tensor([ True, False])"),
    (np.array([1, -20, 300], "i8"), "tensor([  1, -20, 300])"),
    (np.array([1, 2], "i4"), "tensor([1, 2], dtype=tapegrad.int32)"),
    (np.array([0.1, 0.2], "f2"), "tensor([0.1000, 0.2000], dtype=tapegrad.float16)"),
    (np.array([1, 255], "u1"), "tensor([  1, 255], dtype=tapegrad.uint8)"),
    (np.zeros(0, "f4"), "tensor([])"),
    (np.zeros(0, "i8"), "tensor([], dtype=tapegrad.int64)"),
    (np.zeros((0, 3), "f4"), "tensor([], size=(0, 3))"),
    (np.zeros((2, 0), "f8"), "tensor([], size=(2, 0), dtype=tapegrad.float64)"),
    (np.zeros((0, 2), "?"), "tensor([], size=(0, 2), dtype=tapegrad.bool)"),
    (
        np.arange(6, dtype="f4").reshape(2, 3),
        "tensor([[0., 1., 2.],\n        [3., 4., 5.]])",
    ),
    (
        np.arange(8, dtype="f4").reshape(2, 2, 2) / 4,
        (
            "tensor([[[0.0000, 0.2500],\n"
            "         [0.5000, 0.7500]],\n"
            "\n"
            "        [[1.0000, 1.2500],\n"
            "         [1.5000, 1.7500]]])"
        ),
    ),
    (
        np.arange(16, dtype="i8").reshape(2, 2, 2, 2),
        (
            "tensor([[[[ 0,  1],\n"
            "          [ 2,  3]],\n"
            "\n"
            "         [[ 4,  5],\n"
            "          [ 6,  7]]],\n"
            "\n"
            "\n"
            "        [[[ 8,  9],\n"
            "          [10, 11]],\n"
            "\n"
            "         [[12, 13],\n"
            "          [14, 15]]]])"
        ),
    ),
    (np.arange(1001, dtype="f4"), "tensor([   0.,    1.,    2.,  ...,  998.,  999., 1000.])"),
    (np.arange(1001, dtype="i8"), "tensor([   0,    1,    2,  ...,  998,  999, 1000])"),
    (
        np.arange(1100, dtype="f8").reshape(11, 100) / 8,
        (
            "tensor([[0.0000e+00, 1.2500e-01, 2.5000e-01,  ..., 1.2125e+01, 1.2250e+01,\n"
            "         1.2375e+01],\n"
            "        [1.2500e+01, 1.2625e+01, 1.2750e+01,  ..., 2.4625e+01, 2.4750e+01,\n"
            "         2.4875e+01],\n"
            "        [2.5000e+01, 2.5125e+01, 2.5250e+01,  ..., 3.7125e+01, 3.7250e+01,\n"
            "         3.7375e+01],\n"
            "        ...,\n"
            "        [1.0000e+02, 1.0012e+02, 1.0025e+02,  ..., 1.1212e+02, 1.1225e+02,\n"
            "         1.1238e+02],\n"
            "        [1.1250e+02, 1.1262e+02, 1.1275e+02,  ..., 1.2462e+02, 1.2475e+02,\n"
            "         1.2488e+02],\n"
            "        [1.2500e+02, 1.2512e+02, 1.2525e+02,  ..., 1.3712e+02, 1.3725e+02,\n"
            "         1.3738e+02]], dtype=tapegrad.float64)"
        ),
    ),
    (
        np.arange(30, dtype="f4") / 7,
        (
            "tensor([0.0000, 0.1429, 0.2857, 0.4286, 0.5714, 0.7143, 0.8571, 1.0000, 1.1429,\n"
            "        1.2857, 1.4286, 1.5714, 1.7143, 1.8571, 2.0000, 2.1429, 2.2857, 2.4286,\n"
            "        2.5714, 2.7143, 2.8571, 3.0000, 3.1429, 3.2857, 3.4286, 3.5714, 3.7143,\n"
            "        3.8571, 4.0000, 4.1429])"
        ),
    ),
]


@pytest.fixture(autouse=True)
def default_options() -> Iterator[None]:
    with printoptions(profile="default"):
        yield


@pytest.mark.parametrize(("array", "printed"), RECORDED)
def test_recorded(array: Any, printed: str) -> None:
    assert format_tensor(np.asarray(array)) == printed


@pytest.mark.parametrize(
    ("options", "printed"),
    [
        ({"precision": 2}, "tensor([0.00, 0.14, 0.29])"),
        ({"sci_mode": True}, "tensor([0.0000e+00, 1.4286e-01, 2.8571e-01])"),
        ({"threshold": 2, "edgeitems": 1}, "tensor([0.0000,  ..., 0.2857])"),
        ({"threshold": 2, "edgeitems": 0}, "tensor([...], size=(3,))"),
        ({"linewidth": 20}, "tensor([0.0000,\n        0.1429,\n        0.2857])"),
        ({"profile": "short"}, "tensor([0.00, 0.14, 0.29])"),
        ({"profile": "short", "precision": 3}, "tensor([0.000, 0.143, 0.286])"),
    ],
)
def test_options(options: dict[str, Any], printed: str) -> None:
    with printoptions(**options):
        assert format_tensor(np.arange(3, dtype="f4") / 7) == printed


def test_set_and_get_options() -> None:
    set_printoptions(precision=7, sci_mode=False)
    set_printoptions(edgeitems=2)
    expected = {"precision": 7, "threshold": 1000, "edgeitems": 2, "linewidth": 80, "sci_mode": None}
    assert get_printoptions() == expected
    set_printoptions(profile="full")
    assert get_printoptions() == {**expected, "precision": 4, "threshold": inf, "edgeitems": 3}
    with pytest.raises(ValueError, match="'default', 'short', 'full'"):
        set_printoptions(profile="long")


def test_suffixes_follow_the_dtype_and_wrap_at_the_line_width() -> None:
    one = np.ones(1)
    assert (
        format_tensor(one, ["requires_grad=True"])
        == "tensor([1.], dtype=tapegrad.float64, requires_grad=True)"
    )
    many = np.arange(11, dtype="f4") / 8
    assert format_tensor(many, ["grad_fn=<MulBackward0>"]) == (
        "tensor([0.0000, 0.1250, 0.2500, 0.3750, 0.5000, 0.6250, 0.7500, 0.8750, 1.0000,\n"
        "        1.1250, 1.2500], grad_fn=<MulBackward0>)"
    )
    row = np.full((2, 8), 0.5, "f4")
    assert format_tensor(row, ["grad_fn=<DivBackward0>"], prefix="MyTensor(") == (
        "MyTensor([[0.5000, 0.5000, 0.5000, 0.5000, 0.5000, 0.5000, 0.5000, 0.5000],\n"
        "          [0.5000, 0.5000, 0.5000, 0.5000, 0.5000, 0.5000, 0.5000, 0.5000]],\n"
        "         grad_fn=<DivBackward0>)"
    )


def test_the_default_dtype_is_not_named() -> None:
    try:
        dtypes.set_default_dtype(dtypes.float64)
        assert format_tensor(np.ones(2)) == "tensor([1., 1.])"
        assert format_tensor(np.ones(2, "f4")) == "tensor([1., 1.], dtype=tapegrad.float32)"
    finally:
        dtypes.set_default_dtype(dtypes.float32)


ELEMENTS = st.one_of(
    st.floats(width=32),
    st.integers(-2000, 2000).map(float),
    st.floats(-100, 100, width=16),
    st.sampled_from([0.0, -0.0, inf, -inf, nan, 1e-4, 1e8, 1e-5]),
)
FLOATS = st.sampled_from(["f4", "f8"]).flatmap(
    lambda d: hnp.arrays(
        d, hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=7), elements=ELEMENTS
    )
)
HALVES = hnp.arrays("f2", hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=7))
OTHERS = st.sampled_from(["i8", "i4", "i2", "i1", "u1", "?"]).flatmap(
    lambda d: hnp.arrays(d, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=9))
)
OPTIONS = st.fixed_dictionaries(
    {
        "precision": st.integers(0, 6),
        "linewidth": st.integers(10, 100),
        "sci_mode": st.sampled_from([None, True, False]),
    },
    optional={"threshold": st.integers(0, 50), "edgeitems": st.integers(0, 3)},
)


@given(array=st.one_of(FLOATS, HALVES, OTHERS), options=OPTIONS)
@settings(max_examples=400, deadline=None)
def test_against_torch(array: np.ndarray, options: dict[str, Any]) -> None:
    torch = pytest.importorskip("torch", reason="compares with PyTorch, which is not installed")
    theirs = torch.from_numpy(np.array(array))
    words = []
    if theirs.is_floating_point():
        theirs = theirs.requires_grad_() * 1
        words = ["grad_fn=<MulBackward0>"]
    torch.set_printoptions(profile="default")
    torch.set_printoptions(**options)
    try:
        expected = repr(theirs)
    finally:
        torch.set_printoptions(profile="default")
    with printoptions(**options), pytest.MonkeyPatch.context() as patch:
        # Lines break by the length of the dtype's name, and PyTorch's own name is shorter.
        patch.setattr(dtypes.dtype, "__repr__", lambda d: f"torch.{d.name}")
        assert format_tensor(theirs.detach().numpy(), words) == expected


def test_in_format_strings() -> None:
    torch = pytest.importorskip("torch", reason="compares with PyTorch, which is not installed")

    def seen(lib: Any) -> list[str]:
        w = lib.tensor(0.1, requires_grad=True)
        numbers = [w, w * 2, w.detach(), lib.tensor(3), lib.tensor(True)]
        return [
            *(f"{x}" for x in numbers),
            *("%s" % x for x in numbers),  # noqa: UP031
            *(f"{x!s} {x!r}" for x in numbers),
            *(f"{x:.3f}" for x in numbers[:3]),
            f"{lib.nn.Parameter(w)} {lib.ones(2)} {lib.tensor(3):>5}",
        ]

    assert seen(tg) == seen(torch)
    for lib in (tg, torch):
        for wrong in (lib.ones(2), lib.ones(1), lib.nn.Parameter(lib.tensor(1.0))):
            with pytest.raises(TypeError, match="unsupported format string"):
                f"{wrong:.2f}"
