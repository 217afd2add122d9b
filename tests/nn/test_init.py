"""Initialisers: ranges, moments and structure, and gains as PyTorch's."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tapegrad as tg

init = tg.nn.init


@pytest.fixture(autouse=True)
def _seed():
    tg.manual_seed(0)


def filled(fn, *args, shape=(200, 300), **kwargs):
    t = tg.empty(*shape, dtype=tg.float64)
    assert fn(t, *args, **kwargs) is t
    return t.numpy()


def test_uniform_and_normal():
    u = filled(init.uniform_, -2.0, 3.0)
    assert u.min() >= -2
    assert u.max() < 3
    assert u.mean() == pytest.approx(0.5, abs=0.03)
    assert u.std() == pytest.approx(5 / math.sqrt(12), rel=0.02)
    n = filled(init.normal_, 1.0, 2.0)
    assert n.mean() == pytest.approx(1.0, abs=0.03)
    assert n.std() == pytest.approx(2.0, rel=0.02)


def test_truncated_normal():
    stats = pytest.importorskip("scipy.stats")
    t = filled(init.trunc_normal_, 0.5, 2.0, -1.0, 3.0)
    assert t.min() >= -1
    assert t.max() <= 3
    wanted = stats.truncnorm((-1 - 0.5) / 2, (3 - 0.5) / 2, 0.5, 2.0)
    assert t.mean() == pytest.approx(wanted.mean(), abs=0.02)
    assert t.std() == pytest.approx(wanted.std(), rel=0.02)


@pytest.mark.parametrize("mode", ["fan_in", "fan_out"])
@pytest.mark.parametrize(
    ("nonlinearity", "a"), [("relu", 0), ("leaky_relu", 0.3), ("tanh", 0), ("linear", 0)]
)
def test_xavier_and_kaiming(mode, nonlinearity, a):
    shape = (60, 40, 3, 5)
    fan_in, fan_out = 40 * 15, 60 * 15
    gain = init.calculate_gain(nonlinearity, a)
    fan = fan_in if mode == "fan_in" else fan_out
    u = filled(init.kaiming_uniform_, a, mode, nonlinearity, shape=shape)
    assert np.abs(u).max() == pytest.approx(gain * math.sqrt(3 / fan), rel=1e-3)
    n = filled(init.kaiming_normal_, a, mode, nonlinearity, shape=shape)
    assert n.std() == pytest.approx(gain / math.sqrt(fan), rel=0.02)
    x = filled(init.xavier_uniform_, 1.5, shape=shape)
    assert np.abs(x).max() == pytest.approx(1.5 * math.sqrt(6 / (fan_in + fan_out)), rel=1e-3)
    x = filled(init.xavier_normal_, 1.5, shape=shape)
    assert x.std() == pytest.approx(1.5 * math.sqrt(2 / (fan_in + fan_out)), rel=0.02)


def test_constants_and_structure():
    assert (filled(init.constant_, 0.3) == 0.3).all()
    assert (filled(init.ones_) == 1).all()
    assert (filled(init.zeros_) == 0).all()
    assert (filled(init.eye_, shape=(3, 5)) == np.eye(3, 5)).all()
    for shape in ((6, 4), (4, 6), (5, 2, 3)):
        q = filled(init.orthogonal_, 2.0, shape=shape).reshape(shape[0], -1)
        small = q @ q.T if q.shape[0] <= q.shape[1] else q.T @ q
        np.testing.assert_allclose(small, 4 * np.eye(len(small)), atol=1e-12)
    s = filled(init.sparse_, 0.3, 2.0, shape=(50, 20))
    assert ((s == 0).sum(0) == 15).all()
    assert s[s != 0].std() == pytest.approx(2.0, rel=0.1)


def test_dirac_and_gains_as_in_pytorch():
    torch = pytest.importorskip("torch")
    for shape, groups in (((4, 3, 3), 1), ((4, 2, 3, 5), 2), ((6, 2, 2, 3, 4), 3)):
        mine, theirs = tg.empty(*shape), torch.empty(*shape)
        init.dirac_(mine, groups)
        torch.nn.init.dirac_(theirs, groups)
        assert mine.tolist() == theirs.tolist()
    for name, param in [
        ("linear", None),
        ("conv2d", None),
        ("sigmoid", None),
        ("tanh", None),
        ("relu", None),
    ]:
        assert init.calculate_gain(name, param) == torch.nn.init.calculate_gain(name, param)
    for param in (None, 0.2, 3):
        assert init.calculate_gain("leaky_relu", param) == torch.nn.init.calculate_gain("leaky_relu", param)
    assert init.calculate_gain("selu") == torch.nn.init.calculate_gain("selu")


def test_nothing_is_recorded_and_generators_repeat():
    w = tg.nn.Parameter(tg.empty(3, 4))
    for fn in (init.xavier_normal_, init.kaiming_uniform_, init.orthogonal_, init.zeros_):
        fn(w)
        assert w.is_leaf
        assert w.grad_fn is None
    made = []
    for _ in range(2):
        generator = tg.Generator().manual_seed(3)
        made.append(
            [f(tg.empty(3, 4), generator=generator).tolist() for f in (init.normal_, init.orthogonal_)]
        )
    assert made[0] == made[1]


@pytest.mark.parametrize(
    "call",
    [
        lambda: init.calculate_gain("nope"),
        lambda: init.calculate_gain("leaky_relu", "x"),
        lambda: init.xavier_uniform_(tg.empty(3)),
        lambda: init.kaiming_normal_(tg.empty(3, 3), mode="fan_side"),
        lambda: init.eye_(tg.empty(3)),
        lambda: init.dirac_(tg.empty(3, 3)),
        lambda: init.dirac_(tg.empty(3, 3, 3), groups=2),
        lambda: init.orthogonal_(tg.empty(3)),
        lambda: init.sparse_(tg.empty(3), 0.1),
    ],
)
def test_wrong_input_is_a_value_error(call):
    with pytest.raises(ValueError, match="."):
        call()


def test_layers_start_in_pytorchs_ranges():
    for layer, bound in [
        (tg.nn.Linear(16, 300), 0.25),
        (tg.nn.Conv2d(4, 50, 2), 0.25),
        (tg.nn.LSTM(3, 16), 0.25),
        (tg.nn.GRUCell(3, 16), 0.25),
        (tg.nn.Bilinear(16, 3, 50), 0.25),
    ]:
        values = np.concatenate([p.detach().numpy().reshape(-1) for p in layer.parameters()])
        assert np.abs(values).max() <= bound
        assert np.abs(values).max() > 0.98 * bound
    table = tg.nn.Embedding(400, 30, padding_idx=3).weight.detach().numpy()
    assert table.std() == pytest.approx(1.0, rel=0.05)
    assert (table[3] == 0).all()


@pytest.mark.parametrize(
    "name",
    [
        *(
            "uniform",
            "normal",
            "constant",
            "eye",
            "dirac",
            "xavier_uniform",
            "xavier_normal",
            "kaiming_uniform",
        ),
        *("kaiming_normal", "orthogonal", "sparse"),
    ],
)
def test_old_names(name):
    torch = pytest.importorskip("torch", reason="compares with PyTorch, which is not installed")
    for lib in (tg, torch):
        tensor = lib.zeros(3, 3, 1) if name == "dirac" else lib.zeros(3, 3)
        more = {"constant": (2.0,), "sparse": (0.3,)}.get(name, ())
        with pytest.warns(FutureWarning, match=f"nn.init.{name}_"):
            assert getattr(lib.nn.init, name)(tensor, *more) is tensor
        assert (tensor != 0).any()
