"""Convolutions with the ReLU in the same pass: bit for bit what the two give one after the other, derivatives included."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapegrad as tg
import tapegrad.nn.functional as F
from tapegrad import kernels
from tapegrad.autograd import gradcheck, gradgradcheck
from tapegrad.ops import conv_arrays, conv_choice

from ..native.calls import same
from .test_conv import CASES, normal

PATHS = {"over panels": (True, False), "channels in the lanes": (False, True), "in place": (False, False)}


@pytest.fixture(params=PATHS)
def path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Every convolution goes one way."""
    panels, lanes = PATHS[request.param]
    monkeypatch.setattr(conv_choice, "forward", lambda *given: panels)
    monkeypatch.setattr(conv_choice, "few_places", lambda *given: lanes)
    return str(request.param)


def bits(x: Any) -> bytes:
    return bytes(x.detach().numpy().tobytes())


def both(n: int, options: dict[str, Any]) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """The fused convolution, and the two functions one after the other."""
    conv = getattr(F, f"conv{n}d")
    return lambda *a: conv(*a, **options, activation="relu"), lambda *a: F.relu(conv(*a, **options))


def operands(case: Any, dtype: str) -> list[Any]:
    _, x, w, _ = case
    return [tg.from_numpy(normal(*s).astype(dtype)).requires_grad_() for s in (x, w, (w[0],))]


@pytest.mark.parametrize("dtype", ["f", "d"])
@pytest.mark.parametrize("case", CASES)
def test_bit_for_bit(path: str, case: Any, dtype: str) -> None:
    if path == "over panels" and kernels.tile.lanes(np.dtype(dtype).itemsize) < kernels.gemm_tile.HEIGHT:
        pytest.skip("this machine's vectors are shorter than tiles are high: nothing goes over panels")
    fused, plain = both(case[0], case[3])
    for given in (operands(case, dtype), operands(case, dtype)[:2]):
        a, b = fused(*given), plain(*given)
        assert bits(a) == bits(b)
        assert 0 < (a == 0).sum() < a.numel()
        g = tg.randn(*a.shape, dtype=a.dtype)
        for p, q in zip(tg.autograd.grad(a, given, g), tg.autograd.grad(b, given, g), strict=True):
            assert bits(p) == bits(q)


@pytest.mark.parametrize("dtype", ["f", "d"])
def test_nan_and_the_sign_of_zero(path: str, dtype: str) -> None:
    x, w = np.zeros((8, 8, 6, 6), dtype), -np.abs(normal(16, 8, 3, 3)).astype(dtype)
    x[0, 0, 0, 0], x[1, 0, 0, 0], x[2, 0, 0, 0] = np.nan, np.inf, -np.inf
    w[:3] *= -1
    b = np.full(16, -0.0, dtype)
    fused, plain = both(2, {"padding": 1})
    a, expected = (f(*map(tg.from_numpy, (x, w, b))) for f in (fused, plain))
    assert bits(a) == bits(expected)
    made = a.numpy()
    assert np.isnan(made).any()
    assert np.isinf(made).any()
    assert (np.signbit(made) & (made == 0)).any()


@pytest.mark.parametrize("case", [CASES[1], CASES[5], CASES[14]])
def test_other_types_and_empty_arrays(case: Any) -> None:
    n, _, _, options = case
    fused, plain = both(n, options)
    with tg.no_grad():
        for dtype in (tg.float16, tg.int64, tg.int8):
            given = [(3 * x).to(dtype) for x in operands(case, "f")]
            a, b = fused(*given), plain(*given)
            assert a.dtype is b.dtype is dtype
            assert bits(a) == bits(b)
    tiny = tg.tensor([[[1e-5]]], dtype=tg.float16)  # the product is rounded to -0.0
    assert bits(F.conv1d(tiny, -tiny * 1e-2, activation="relu")) == bits(F.relu(F.conv1d(tiny, -tiny * 1e-2)))
    b = tg.tensor([-1.0, 2.0], requires_grad=True)
    made = F.conv1d(tg.zeros(3, 0, 5), tg.zeros(2, 0, 3), b, activation="relu")
    assert made[0].tolist() == [[0.0] * 3, [2.0] * 3]
    made.sum().backward()
    assert b.grad.tolist() == [0.0, 9.0]
    assert F.conv1d(tg.zeros(0, 1, 5), tg.zeros(2, 1, 3), activation="relu").shape == (0, 2, 3)


def test_strided_operands() -> None:
    fused, plain = both(2, {})
    x, w = tg.tensor(normal(8, 8, 3, 2)).permute(3, 2, 0, 1), tg.tensor(normal(4, 3, 3, 3))
    assert bits(fused(x, w)) == bits(plain(x, w))


@pytest.mark.parametrize("sizes", [(16, 64, 14, 64), (4, 8, 40, 24), (2, 3, 9, 70)])
def test_threads_do_not_change_a_bit(monkeypatch: pytest.MonkeyPatch, sizes: tuple[int, ...]) -> None:
    n, c, side, outs = sizes
    monkeypatch.setattr(kernels.launch.config, "grain", 1)
    x, w = normal(n, c, side, side).astype("f"), normal(outs, c, 3, 3).astype("f")
    found = []
    for threads in (1, 2):
        monkeypatch.setattr(kernels.launch.config, "threads", threads)
        found.append(bits(F.conv2d(*map(tg.from_numpy, (x, w)), padding=1, activation="relu")))
    assert found[0] == found[1]


@pytest.mark.filterwarnings("ignore:Using padding='same'")
@pytest.mark.parametrize("case", CASES[::3])
def test_against_torch(case: Any) -> None:
    torch = pytest.importorskip("torch")
    from .against_torch import assert_same

    n, x, w, options = case
    conv = getattr(torch.nn.functional, f"conv{n}d")
    arrays = [normal(*x), normal(*w), normal(w[0])]
    assert_same(lambda *a: torch.relu(conv(*a, **options)), both(n, options)[0], arrays, wrt=(0, 1, 2))


# -- the graph -------------------------------------------------------------------------------------------


def test_every_order_of_derivative() -> None:
    x, w, b = (tg.tensor(normal(*s), requires_grad=True) for s in ((2, 2, 4, 4), (3, 2, 2, 2), (3,)))
    fused, plain = both(2, {"stride": 2, "padding": 1})
    assert gradcheck(fused, (x, w, b))
    assert gradgradcheck(lambda *a: fused(*a) ** 2, (x, w, b))
    results = []
    for f in (fused, plain):
        first = tg.autograd.grad((f(x, w, b) ** 3).sum(), (x, w, b), create_graph=True)
        second = tg.autograd.grad(sum((g**2).sum() for g in first), (x, w, b), create_graph=True)
        third = tg.autograd.grad(sum((g**2).sum() for g in second), (x, w, b))
        results.append([bits(g) for g in (*first, *second, *third)])
    assert results[0] == results[1]


@pytest.mark.parametrize("shape", [(2, 3, 6), (3, 6)])
def test_the_graph_reads_as_if_they_followed_one_another(shape: tuple[int, ...]) -> None:
    x, w = tg.randn(*shape, requires_grad=True), tg.randn(4, 3, 3, requires_grad=True)

    def names(made: Any) -> list[str]:
        found = [made.grad_fn]
        while found[-1].next_functions:
            found.append(found[-1].next_functions[0][0])
        return [node.name() for node in found]

    fused, plain = both(1, {})
    a, b = fused(x, w), plain(x, w)
    assert names(a) == names(b)
    assert names(a)[0] == "ReluBackward0"
    assert not a._is_view()
    assert bits(a.grad_fn._saved_result) == bits(a)
    assert "convolution" in str(a.tape())
    assert not fused(x.detach(), w.detach()).requires_grad
    with tg.no_grad():
        assert not fused(x, w).requires_grad


def test_a_result_that_is_changed_afterwards() -> None:
    x, w = tg.randn(2, 3, 6, requires_grad=True), tg.randn(4, 3, 3, requires_grad=True)
    for f in both(1, {}):
        made = f(x, w)
        made.mul_(2)
        with pytest.raises(RuntimeError, match=r"ReluBackward0.*saved 'out' at version 0"):
            made.sum().backward()
        made = f(x, w)
        made[0].zero_()
        with pytest.raises(RuntimeError, match=r"ReluBackward0.*saved 'out' at version 0"):
            made.sum().backward()


def test_hooks_and_what_is_saved() -> None:
    x, w = tg.randn(2, 3, 6, requires_grad=True), tg.randn(4, 3, 3, requires_grad=True)
    found = []
    for f in both(1, {}):
        packed: list[tuple[int, ...]] = []
        seen: list[bytes] = []

        def pack(t: Any, packed: list[tuple[int, ...]] = packed) -> Any:
            packed.append(tuple(t.shape))
            return t

        with tg.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
            made = f(x, w)
        made.register_hook(lambda g: g * 2)
        made.grad_fn.register_prehook(lambda gs, seen=seen: seen.append(bits(gs[0])))
        made.grad_fn.next_functions[0][0].register_prehook(lambda gs, seen=seen: seen.append(bits(gs[0])))
        made.retain_grad()
        with tg.autograd.detect_anomaly():
            seen += [bits(g) for g in tg.autograd.grad((made**2).sum(), (x, w))]
        found.append((packed, seen))
    assert found[0] == found[1]
    assert len(found[0][1]) == 4


def test_one_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bound reaches the arrays, and a recorded step has no relu of its own."""
    given: list[Any] = []
    forward = conv_arrays.forward
    monkeypatch.setattr(conv_arrays, "forward", lambda *a: (given.append(a[5:]), forward(*a))[1])
    x, w = tg.randn(2, 3, 6), tg.randn(4, 3, 3)
    compiled = tg.compile(both(1, {})[0])
    assert bits(compiled(x, w)) == bits(F.relu(F.conv1d(x, w)))
    assert given == [(0.0,), (-np.inf,)]
    assert not any(step.name.startswith("relu") for step in compiled.tape)


@pytest.mark.parametrize("bad", ["tanh", "", True, F.relu])
def test_no_other_activation(bad: Any) -> None:
    with pytest.raises(ValueError, match="conv2d: activation should be None or 'relu', but got"):
        F.conv2d(tg.zeros(1, 1, 3, 3), tg.zeros(1, 1, 3, 3), activation=bad)


# -- compiled --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", [CASES[2], CASES[4], CASES[5], CASES[14]])
def test_compiled(path: str, case: Any) -> None:
    fused, _ = both(case[0], case[3])
    x, w, b = operands(case, "d")

    def step(x: Any) -> Any:
        made = fused(x, w, b)
        loss = (made**2).sum()
        return made.detach(), *tg.autograd.grad(loss, [w, b])

    compiled = tg.compile(step)
    for _ in range(3):
        given = tg.randn(*x.shape, dtype=tg.float64)
        same(step(given), compiled(given))

    forward = tg.compile(lambda x, w, b: fused(x, w, b))  # differentiated outside
    for _ in range(3):
        a, e = forward(x, w, b), fused(x, w, b)
        same(a, e)
        g = tg.randn(*a.shape, dtype=tg.float64)
        same(tg.autograd.grad(a, (x, w, b), g), tg.autograd.grad(e, (x, w, b), g))
