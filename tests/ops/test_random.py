"""Random numbers: Philox's published words, distributions, generators, threads, and dropout."""

from __future__ import annotations

import copy
import math
import pickle
import threading
from typing import Any

import numpy as np
import pytest

import tapegrad as tg
import tapegrad.nn.functional as F
from tapegrad import kernels
from tapegrad.autograd import gradcheck, gradgradcheck

N = 100_000


@pytest.fixture(autouse=True)
def _seeded() -> Any:
    with tg.random.fork_rng():
        tg.manual_seed(0)
        yield


def _philox(block: int, key0: int, key1: int) -> list[int]:
    """Philox4x32-10 with Python's whole numbers: the twin of the kernel."""
    c = [block & 0xFFFFFFFF, block >> 32, 0, 0]
    for r in range(10):
        k0, k1 = (key0 + r * 0x9E3779B9) & 0xFFFFFFFF, (key1 + r * 0xBB67AE85) & 0xFFFFFFFF
        p0, p1 = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(p1 >> 32) ^ c[1] ^ k0, p1 & 0xFFFFFFFF, (p0 >> 32) ^ c[3] ^ k1, p0 & 0xFFFFFFFF]
    return c


def _words(n: int, key0: int, key1: int, offset: int) -> list[int]:
    out = np.empty(n, np.uint32)
    kernels.random.words(out, n, key0, key1, offset, 0.0, 0.0, 0, n // 64 + 1)
    return out.tolist()


def test_words_are_those_of_philox() -> None:
    # The first of the known answers that come with Random123.
    known = [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
    assert _philox(0, 0, 0) == known
    assert _words(64, 0, 0, 0)[::16] == known
    for key0, key1, offset in ((1, 2, 3), (0xFFFFFFFF, 0xDEADBEEF, 2**40 + 7)):
        blocks = np.array([_philox(offset + b, key0, key1) for b in range(48)])
        expected = blocks.reshape(3, 16, 4).transpose(0, 2, 1).reshape(-1).tolist()
        for n in (1, 7, 20, 63, 64, 65, 150, 192):
            assert _words(n, key0, key1, offset) == expected[:n]


def _check_moments(values: np.ndarray, mean: float, std: float) -> None:
    values = values.astype(np.float64)
    assert abs(values.mean() - mean) < 5 * std / math.sqrt(values.size)
    assert abs(values.std() - std) < 0.03 * std


@pytest.mark.parametrize("dtype", [tg.float16, tg.float32, tg.float64])
def test_rand_and_randn(dtype: Any) -> None:
    uniform = tg.rand(N, dtype=dtype).numpy()
    assert 0 <= uniform.min() < 0.001
    assert 0.999 < uniform.max() < 1
    _check_moments(uniform, 0.5, math.sqrt(1 / 12))
    normal = tg.randn(N, dtype=dtype).numpy()
    _check_moments(normal, 0, 1)
    inside = np.mean(np.abs(normal) < 1)
    assert abs(inside - 0.6827) < 0.01
    assert 3.5 < np.abs(normal).max() < 7


def test_neighbouring_normals_are_independent() -> None:
    x = tg.randn(2 * N).numpy().reshape(-1, 2)
    assert abs(np.corrcoef(x.T)[0, 1]) < 0.02
    assert abs(np.corrcoef(np.abs(x).T)[0, 1]) < 0.02


@pytest.mark.parametrize(
    ("low", "high"), [(0, 2), (-5, 10), (0, 1000), (-(2**63), 2**63 - 1), (2**40, 2**40 + 3)]
)
def test_randint(low: int, high: int) -> None:
    x = tg.randint(low, high, (N,)).numpy()
    assert x.dtype == np.int64
    assert low <= x.min()
    assert x.max() < high
    if high - low <= 1000:
        counts = np.bincount(x - low, minlength=high - low)
        assert counts.min() > 0.5 * N / (high - low)
    _check_moments(
        x / 1.0, (low + high - 1) / 2, (high - low) / math.sqrt(12) if high - low > 15 else x.std()
    )


def test_forms_of_randint() -> None:
    assert tg.randint(3, (2, 4)).shape == (2, 4)
    assert tg.randint(high=3, size=(2,)).shape == (2,)
    assert tg.randint(1, 3, (2,), dtype=tg.float32).dtype == tg.float32
    assert tg.randint_like(tg.zeros(2, 3), 5).dtype == tg.float32
    with pytest.raises(RuntimeError, match="from"):
        tg.randint(3, 3, (2,))
    with pytest.raises(RuntimeError, match="out of bounds"):
        tg.randint(0, 300, (2,), dtype=tg.uint8)
    with pytest.raises(TypeError, match="size"):
        tg.randint(3, 2)


def test_randperm() -> None:
    for n in (0, 1, 2, 7, 1000):
        assert sorted(tg.randperm(n).tolist()) == list(range(n))
    first = [tg.randperm(4)[0].item() for _ in range(2000)]
    assert np.bincount(first, minlength=4).min() > 400
    orders = {tuple(tg.randperm(3).tolist()) for _ in range(200)}
    assert len(orders) == 6
    with pytest.raises(RuntimeError, match="negative"):
        tg.randperm(-1)
    with pytest.raises(RuntimeError, match="overflow"):
        tg.randperm(300, dtype=tg.uint8)


def test_distributions_in_place() -> None:
    x = tg.empty(N)
    _check_moments(x.uniform_(-2, 4).numpy(), 1, math.sqrt(36 / 12))
    _check_moments(x.normal_(3, 2).numpy(), 3, 2)
    _check_moments(x.exponential_(2.0).numpy(), 0.5, 0.5)
    _check_moments(x.geometric_(0.25).numpy(), 4, math.sqrt(0.75) / 0.25)
    _check_moments(x.log_normal_(0.0, 0.25).log().numpy(), 0, 0.25)
    _check_moments(x.bernoulli_(0.3).numpy(), 0.3, math.sqrt(0.21))
    _check_moments(x.random_(10).numpy(), 4.5, math.sqrt(99 / 12))
    assert abs(np.median(x.cauchy_(1.0, 2.0).numpy()) - 1) < 0.1
    assert set(tg.empty(100, dtype=tg.int64).random_(3, 5).tolist()) == {3, 4}
    assert tg.empty(1000, dtype=tg.uint8).random_().max() > 200
    assert tg.empty(3, dtype=tg.int64).bernoulli_(1.0).tolist() == [1, 1, 1]
    p = tg.tensor([0.0, 1.0, 0.0])
    assert tg.empty(2, 3).bernoulli_(p).tolist() == [[0, 1, 0]] * 2


def test_every_layout_gets_the_same_numbers() -> None:
    a = tg.empty(4, 6).uniform_(generator=tg.Generator().manual_seed(1))
    b = tg.empty(6, 4).T.uniform_(generator=tg.Generator().manual_seed(1))
    np.testing.assert_array_equal(a.numpy(), b.numpy())


def test_a_draw_cuts_the_gradient() -> None:
    for draw in ("uniform_", "normal_", "exponential_", "random_", "bernoulli_", "cauchy_"):
        x = tg.ones(3, requires_grad=True)
        y = x * 2
        getattr(y, draw)()
        (y * x).sum().backward()
        np.testing.assert_array_equal(x.grad.numpy(), y.detach().numpy())
        with pytest.raises(RuntimeError, match="leaf"):
            getattr(x, draw)()


def test_bernoulli_poisson_and_normal_around_tensors() -> None:
    p = tg.full((N,), 0.2, requires_grad=True)
    drawn = tg.bernoulli(p)
    _check_moments(drawn.detach().numpy(), 0.2, 0.4)
    drawn.sum().backward()
    assert not p.grad.any()
    for rate in (0.5, 3.5, 50.0, 5000.0):
        _check_moments(tg.poisson(tg.full((N,), rate)).numpy(), rate, math.sqrt(rate))
    assert tg.poisson(tg.zeros(3)).tolist() == [0, 0, 0]
    mean = tg.arange(4.0)
    x = tg.normal(mean.expand(N, 4), 0.5)
    np.testing.assert_allclose(x.numpy().mean(0), [0, 1, 2, 3], atol=0.02)
    assert tg.normal(0.0, tg.ones(3)).shape == (3,)
    assert tg.normal(1, 2, (2, 3)).shape == (2, 3)
    assert tg.normal(mean, tg.ones(2, 1)).shape == (2, 4)


def test_multinomial() -> None:
    weights = tg.tensor([[0.0, 1.0, 3.0], [2.0, 0.0, 2.0]])
    drawn = tg.multinomial(weights.expand(2, 3), N, replacement=True).numpy()
    shares = np.stack([np.bincount(row, minlength=3) / N for row in drawn])
    np.testing.assert_allclose(shares, [[0, 0.25, 0.75], [0.5, 0, 0.5]], atol=0.01)
    for _ in range(50):
        row = tg.multinomial(weights[0], 2).tolist()
        assert sorted(row) == [1, 2]
    first = [tg.multinomial(weights[0], 2)[0].item() for _ in range(1000)]
    assert 0.2 < np.mean(np.array(first) == 1) < 0.3
    for args, words in (
        ((tg.ones(3), 4), "n_sample > prob_dist"),
        ((tg.ones(3), 0), "n_sample <= 0"),
        ((-tg.ones(3), 1), "element < 0"),
        ((tg.zeros(3), 1), "sum of probabilities"),
        ((tg.ones(3, dtype=tg.int64), 1), "floating-point"),
        ((tg.ones(2, 2, 2), 1), "1 or 2 dim"),
    ):
        with pytest.raises(RuntimeError, match=words):
            tg.multinomial(*args)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: tg.rand(2, dtype=tg.int64), NotImplementedError),
        (lambda: tg.randn(2, dtype=tg.int64), NotImplementedError),
        (lambda: tg.rand(-1), RuntimeError),
        (lambda: tg.rand(), TypeError),
        (lambda: tg.zeros(3).uniform_(2, 1), RuntimeError),
        (lambda: tg.zeros(3).normal_(0, -1), RuntimeError),
        (lambda: tg.zeros(3, dtype=tg.int64).normal_(), NotImplementedError),
        (lambda: tg.zeros(3).exponential_(0), RuntimeError),
        (lambda: tg.zeros(3).geometric_(1.0), RuntimeError),
        (lambda: tg.zeros(3).bernoulli_(1.5), RuntimeError),
        (lambda: tg.zeros(3).cauchy_(0, 0), RuntimeError),
        (lambda: tg.zeros(3, dtype=tg.int64).cauchy_(), RuntimeError),
        (lambda: tg.normal(tg.zeros(2), -1.0), RuntimeError),
        (lambda: tg.normal(tg.zeros(2), tg.ones(3)), RuntimeError),
        (lambda: tg.normal(0.0, 1.0), TypeError),
        (lambda: tg.bernoulli(tg.tensor([2.0])), RuntimeError),
        (lambda: tg.bernoulli(tg.tensor([1])), NotImplementedError),
        (lambda: tg.poisson(tg.tensor([-1.0])), RuntimeError),
        (lambda: tg.rand(2, generator=3), TypeError),
        (lambda: F.dropout(tg.ones(3), 1.5), ValueError),
        (lambda: tg.dropout(tg.ones(3), 1.5, True), RuntimeError),
        (lambda: F.dropout1d(tg.ones(3)), RuntimeError),
        (lambda: tg.feature_dropout(tg.ones(3), 0.5, True), RuntimeError),
    ],
)
def test_wrong_arguments(call: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        call()


# -- generators ----------------------------------------------------------------------------------------


def test_a_seed_fixes_all_that_follows() -> None:
    def draw(g: Any) -> list[Any]:
        return [
            tg.rand(5, generator=g),
            tg.randn(3, generator=g),
            tg.randint(9, (4,), generator=g),
            tg.randperm(6, generator=g),
            tg.zeros(3).exponential_(generator=g),
            tg.bernoulli(tg.full((4,), 0.5), generator=g),
            tg.multinomial(tg.ones(5), 3, generator=g),
            tg.poisson(tg.full((4,), 20.0), g),
        ]

    g = tg.Generator().manual_seed(7)
    first = [x.tolist() for x in draw(g)]
    assert [x.tolist() for x in draw(g)] != first
    assert [x.tolist() for x in draw(tg.Generator().manual_seed(7))] == first
    tg.manual_seed(7)
    assert [x.tolist() for x in draw(None)] == first
    assert tg.initial_seed() == 7


def test_states_and_copies() -> None:
    g = tg.Generator()
    assert g.initial_seed() == 67280421310721
    assert g.device.type == "cpu"
    tg.rand(5, generator=g)
    state = g.get_state()
    assert state.dtype == tg.uint8
    copies = [g.clone_state(), copy.deepcopy(g), pickle.loads(pickle.dumps(g))]
    expected = tg.rand(4, generator=g).tolist()
    for other in copies:
        assert tg.rand(4, generator=other).tolist() == expected
    g.set_state(state)
    assert tg.rand(4, generator=g).tolist() == expected
    assert tg.Generator().manual_seed(-1).initial_seed() == 2**64 - 1
    assert g.seed() == g.initial_seed()
    with pytest.raises(ValueError, match="Overflow"):
        g.manual_seed(2**64)
    with pytest.raises(TypeError, match="ByteTensor"):
        g.set_state(tg.zeros(16))
    with pytest.raises(RuntimeError, match="state of 16 bytes"):
        g.set_state(tg.zeros(3, dtype=tg.uint8))
    with pytest.raises(RuntimeError, match="CPU only"):
        tg.Generator("cuda")


def test_fork_rng_restores_the_default_generator() -> None:
    state = tg.get_rng_state()
    with tg.random.fork_rng():
        tg.manual_seed(5)
        inside = tg.rand(3).tolist()
    after = tg.rand(3).tolist()
    tg.set_rng_state(state)
    assert tg.rand(3).tolist() == after
    assert inside != after


def test_numbers_do_not_depend_on_the_number_of_threads() -> None:
    def draw() -> list[Any]:
        tg.manual_seed(11)
        x = tg.ones(301, 401, requires_grad=True)
        y = tg.dropout(x, 0.3, True)
        y.sum().backward()
        return [
            tg.rand(200_001),
            tg.randn(200_003),
            tg.randint(7, (100_001,)),
            tg.bernoulli(tg.full((90_001,), 0.5)),
            y,
            x.grad,
        ]

    with tg.threads(1):
        one = [x.detach().numpy() for x in draw()]
    with tg.threads(2):
        two = [x.detach().numpy() for x in draw()]
    for a, b in zip(one, two, strict=True):
        np.testing.assert_array_equal(a, b)


def test_threads_never_share_numbers() -> None:
    found: list[list[float]] = []

    def work() -> None:
        found.append([x for _ in range(200) for x in tg.rand(8, dtype=tg.float64).tolist()])

    workers = [threading.Thread(target=work) for _ in range(4)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    numbers = [x for part in found for x in part]
    assert len(set(numbers)) == len(numbers) == 4 * 200 * 8


# -- dropout -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_dropout_scales_what_it_keeps(p: float) -> None:
    x = tg.ones(N, requires_grad=True)
    y = F.dropout(x, p)
    kept = y.detach().numpy()
    np.testing.assert_allclose(np.unique(kept), [0, 1 / (1 - p)], rtol=1e-6)
    _check_moments(kept != 0, 1 - p, math.sqrt(p * (1 - p)))
    (y * 3).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 3 * kept, rtol=1e-6)


def test_dropout_at_the_edges() -> None:
    x = tg.ones(4, requires_grad=True)
    assert F.dropout(x, 0.5, training=False) is x
    assert F.dropout(x, 0.0) is x
    gone = F.dropout(x, 1.0)
    gone.sum().backward()
    assert gone.tolist() == x.grad.tolist() == [0, 0, 0, 0]
    assert F.dropout(tg.zeros(0), 0.5).shape == (0,)
    assert F.dropout(tg.tensor(1.0), 0.5).shape == ()
    for dtype in (tg.float16, tg.float64):
        assert set(F.dropout(tg.ones(100, dtype=dtype)).tolist()) == {0, 2}
    y = x * 1
    z = F.dropout(y, 0.5, inplace=True)
    assert z is y
    strided = F.dropout(tg.ones(5, 7).T, 0.5)
    assert strided.shape == (7, 5)


@pytest.mark.parametrize(
    ("function", "shape"),
    [
        (F.dropout1d, (6, 5, 7)),
        (F.dropout1d, (50, 7)),
        (F.dropout2d, (6, 5, 7, 2)),
        (F.dropout3d, (6, 5, 3, 2, 2)),
        (F.dropout3d, (30, 3, 2, 2)),
    ],
)
def test_channels_are_dropped_as_a_whole(function: Any, shape: tuple[int, ...]) -> None:
    x = tg.ones(*shape, requires_grad=True)
    y = function(x, 0.5)
    y.sum().backward()
    channels = 2 if len(shape) in (3, 5) or function is F.dropout2d else 1
    rows = y.detach().numpy().reshape(math.prod(shape[:channels]), -1)
    assert set(rows[:, 0].tolist()) == {0, 2}
    assert (rows == rows[:, :1]).all()
    np.testing.assert_array_equal(x.grad.numpy(), y.detach().numpy())


@pytest.mark.parametrize("function", [F.alpha_dropout, F.feature_alpha_dropout])
def test_alpha_dropout_keeps_mean_and_variance(function: Any) -> None:
    x = tg.randn(200, 500, 2)
    y = function(x, 0.3, True).numpy()
    assert abs(y.mean()) < 0.02
    assert abs(y.std() - 1) < 0.02


def test_second_order_through_dropout() -> None:
    x = tg.from_numpy(np.random.default_rng(0).normal(size=(4, 3, 2))).requires_grad_()

    def same_draw(function: Any) -> Any:
        def run(a: Any) -> Any:
            tg.manual_seed(3)
            return function(a * a, 0.4, True)

        return run

    for function in (F.dropout, F.alpha_dropout, F.dropout1d, F.feature_alpha_dropout):
        assert gradcheck(same_draw(function), (x,))
        assert gradgradcheck(same_draw(function), (x,))
