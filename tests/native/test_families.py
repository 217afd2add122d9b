"""Families of operations in recorded steps: what they find in indices, windows and random words is found anew."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapegrad as tg
import tapegrad.nn.functional as F

RANDOM = np.random.default_rng(5)


def tensor(*shape: int, grad: bool = False) -> tg.Tensor:
    return tg.from_numpy(RANDOM.standard_normal(shape)).requires_grad_(grad)


def numbers(*shape: int, below: int) -> tg.Tensor:
    return tg.from_numpy(RANDOM.integers(0, below, shape))


def steps_in_python(compiled: Any) -> list[str]:
    recordings = [r for found in compiled.recordings.values() for r in found]
    return [step.name for r in recordings for step in r.recorder.steps if step.kind == "host"]


# -- indices ---------------------------------------------------------------------------------------------

LOOKUPS: dict[str, Callable[[Any, Any], Any]] = {
    "x[i]": lambda x, i: x[i],
    "x[:, i]": lambda x, i: x[:, i],
    "x[i, i]": lambda x, i: x[i, i],
    "index_select": lambda x, i: x.index_select(0, i),
    "index_add": lambda x, i: x.index_add(0, i, x[: len(i)]),
    "index_copy": lambda x, i: x.index_copy(0, i, x[: len(i)]),
    "index_fill": lambda x, i: x.index_fill(0, i, 3.0),
    "take": lambda x, i: x.take(i),
    "gather": lambda x, i: x.gather(0, i[:, None]),
    "scatter_add": lambda x, i: x.scatter_add(0, i[:, None], x[:, :1]),
    "embedding": lambda x, i: F.embedding(i, x),
    "padding_idx": lambda x, i: F.embedding(i, x, padding_idx=1, scale_grad_by_freq=True),
    "one_hot": lambda x, i: F.one_hot(i, len(x)) * 1.0,
    "take_along_dim": lambda x, i: tg.take_along_dim(x, i[:, None], 0),
}


@pytest.mark.parametrize("name", LOOKUPS)
def test_an_index_is_looked_at_in_each_run(name: str) -> None:
    lookup = LOOKUPS[name]
    x = tensor(5, 5, grad=True)

    def program(i: Any) -> Any:
        found = lookup(x, i)
        return found.detach(), tg.autograd.grad((found * found).sum(), x) if found.requires_grad else ()

    compiled = tg.compile(program)
    for _ in range(4):
        i = tg.from_numpy(RANDOM.permutation(5)[:5])
        for a, b in zip(program(i), compiled(i), strict=True):
            np.testing.assert_array_equal(np.asarray(a), np.asarray(b))
    assert not steps_in_python(compiled)


@pytest.mark.parametrize("bad", [99, -99])
@pytest.mark.parametrize("name", LOOKUPS)
def test_a_bad_index_is_the_eager_error_in_a_replay(name: str, bad: int) -> None:
    lookup = LOOKUPS[name]
    x, good = tensor(5, 5), numbers(5, below=5)
    wrong = good.clone()
    wrong[2] = bad
    compiled = tg.compile(lambda i: lookup(x, i))
    compiled(good)
    with pytest.raises((IndexError, RuntimeError)) as eager:
        lookup(x, wrong)
    with pytest.raises(type(eager.value)) as replayed:
        compiled(wrong)
    assert str(replayed.value) == str(eager.value)
    np.testing.assert_array_equal(np.asarray(compiled(good)), np.asarray(lookup(x, good)))


def assign(key: Callable[[Any, Any], Any], value: Callable[[Any], Any]) -> Callable[[Any, Any, Any], Any]:
    def program(x: Any, i: Any, m: Any) -> Any:
        y = x * 2
        y[key(i, m)] = value(x)
        return y

    return program


ASSIGNMENTS = {
    "part": assign(lambda i, m: (slice(1, 3), 0), lambda x: 4.0),
    "rows": assign(lambda i, m: i, lambda x: x[:2]),
    "pairs": assign(lambda i, m: (i, i), lambda x: 1.0),
    "mask": assign(lambda i, m: m, lambda x: 7.0),
    "mask of rows": assign(lambda i, m: m[:, 0], lambda x: 7.0),
    "mask by a tensor": assign(lambda i, m: m, lambda x: x.sum()),
}


@pytest.mark.parametrize("name", ASSIGNMENTS)
def test_assignments_to_parts(name: str) -> None:
    program = ASSIGNMENTS[name]
    compiled = tg.compile(program)
    for _ in range(4):
        given = tensor(4, 4), tg.from_numpy(RANDOM.permutation(4)[:2]), tensor(4, 4) > 0
        np.testing.assert_array_equal(np.asarray(compiled(*given)), np.asarray(program(*given)))
    assert not steps_in_python(compiled)


# -- convolution and batch norm ----------------------------------------------------------------------------

GEOMETRIES = [
    (3, 8, 1, 1, 1, 1),
    (4, 6, 2, 2, 1, 0),
    (4, 6, 2, 1, 2, 2),
    (16, 32, 1, 2, 1, 1),
    (1, 1, 1, 3, 1, 0),
]


@pytest.mark.parametrize(("channels", "outs", "groups", "stride", "dilation", "padding"), GEOMETRIES)
def test_a_convolutional_step(
    channels: int, outs: int, groups: int, stride: int, dilation: int, padding: int
) -> None:
    w, b = tensor(outs, channels // groups, 3, 3, grad=True), tensor(outs, grad=True)
    gain, shift = tensor(outs, grad=True), tensor(outs, grad=True)

    def program(x: Any, mean: Any, var: Any) -> Any:
        y = F.conv2d(x, w, b, stride, padding, dilation, groups)
        y = F.relu(F.batch_norm(y, mean, var, gain, shift, True))
        loss = (F.avg_pool2d(F.max_pool2d(y, 2, 1), 2, 1) ** 2).sum()
        return loss.detach(), *tg.autograd.grad(loss, [x, w, b, gain, shift])

    compiled = tg.compile(program)
    zeros, ones = tg.zeros(outs, dtype=tg.float64), tg.ones(outs, dtype=tg.float64)
    state, other = (zeros.clone(), ones.clone()), (zeros.clone(), ones.clone())
    for _ in range(3):
        x = tensor(3, channels, 11, 11, grad=True)
        for a, c in zip((*program(x, *state), *state), (*compiled(x, *other), *other), strict=True):
            np.testing.assert_allclose(np.asarray(c), np.asarray(a), 1e-10, 1e-12)
    assert not steps_in_python(compiled)


@pytest.mark.parametrize("what", [np.nan, np.inf])
@pytest.mark.parametrize(("channels", "outs", "groups", "stride", "dilation", "padding"), GEOMETRIES)
def test_what_is_not_finite_stays_in_the_weights_that_met_it(
    channels: int, outs: int, groups: int, stride: int, dilation: int, padding: int, what: float
) -> None:
    w = tensor(outs, channels // groups, 3, 3, grad=True)

    def program(x: Any, g: Any) -> Any:
        return tg.autograd.grad(F.conv2d(x, w, None, stride, padding, dilation, groups), w, g)[0]

    compiled = tg.compile(program)
    x = tensor(2, channels, 9, 9)
    g = tensor(*F.conv2d(x, w, None, stride, padding, dilation, groups).shape)
    compiled(x, g)
    x[0, 0, 0, 0] = what
    g[1, 0, -1, -1] = what
    expected = np.asarray(program(x, g))
    np.testing.assert_allclose(np.asarray(compiled(x, g)), expected, 1e-10, 1e-10)
    assert outs == 1 or np.isfinite(expected).any()


# -- reductions that are cut into parts --------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(2, 300_000), (300, 40, 30), (70_000, 3)])
def test_large_reductions(shape: tuple[int, ...]) -> None:
    outer = (0, len(shape) - 1)

    def program(x: Any) -> Any:
        most, where = x.max(-1)
        whole = (x * 9).long()
        return [
            most, where, x.argmin(), x.var(-1), x.std(outer), tg.var_mean(x, 0)[0], x.logsumexp(0), x.norm(3),
            tg.linalg.vector_norm(x, 0, -1), whole.sum(0), whole.amax(-1), (x > 0).any(0), (x > -9).all(),
            x.count_nonzero(0), x.nansum(), x.aminmax(dim=0)[1], (whole % 3 + 1).prod(-1),
        ]  # fmt: skip

    compiled = tg.compile(program)
    for _ in range(3):
        x = tensor(*shape)
        for a, b in zip(program(x), compiled(x), strict=True):
            np.testing.assert_allclose(np.asarray(b), np.asarray(a), 1e-9, 1e-12)
    assert not steps_in_python(compiled)


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("kind", [np.float32, np.int64, np.bool_])
def test_sorting_is_stable_and_puts_nan_last(kind: Any, descending: bool) -> None:
    def program(x: Any) -> Any:
        values, places = x.sort(1, descending=descending, stable=True)
        return [values, places, x.argsort(0, descending=descending, stable=True)]

    compiled = tg.compile(program)
    for _ in range(3):
        array = RANDOM.integers(0, 4, (5, 37)).astype(kind)
        if kind is np.float32:
            array[RANDOM.random(array.shape) < 0.1] = np.nan
        x = tg.from_numpy(array)
        for a, b in zip(program(x), compiled(x), strict=True):
            np.testing.assert_array_equal(np.asarray(b), np.asarray(a))
    assert not steps_in_python(compiled)


# -- random numbers ----------------------------------------------------------------------------------------

DRAWS: dict[str, Callable[[Any], Any]] = {
    "bernoulli": lambda x: tg.bernoulli(x, 0.3),
    "bernoulli by a tensor": lambda x: tg.bernoulli(x),
    "normal": lambda x: tg.normal(x, x),
    "exponential": lambda x: tg.empty(5).exponential_(2.0),
    "geometric": lambda x: tg.empty(5).geometric_(0.3),
    "log normal": lambda x: tg.empty(5).log_normal_(),
    "cauchy": lambda x: tg.empty(5).cauchy_(),
    "half": lambda x: tg.rand(5, dtype=tg.float16),
    "integers": lambda x: tg.randint(0, 9, (5,), dtype=tg.int32),
    "permutation": lambda x: tg.randperm(9, dtype=tg.int32),
    "multinomial": lambda x: tg.multinomial(x, 3),
    "one of each row": lambda x: tg.multinomial(x, 1),
    "with replacement": lambda x: tg.multinomial(x, 8, True),
    "poisson": lambda x: tg.poisson(x * 9),
    "gumbel": lambda x: F.gumbel_softmax(x),
    "channels": lambda x: F.dropout1d(x[None].expand(3, 6, 5)),
    "alpha of channels": lambda x: F.feature_alpha_dropout(x[None], training=True),
}


@pytest.mark.parametrize("name", DRAWS)
def test_draws_go_on_from_run_to_run(name: str) -> None:
    draw, x = DRAWS[name], tg.from_numpy(RANDOM.random((6, 5)))
    compiled = tg.compile(draw)
    tg.manual_seed(3)
    eager = [draw(x) for _ in range(4)]
    tg.manual_seed(3)
    for expected in eager:
        np.testing.assert_array_equal(np.asarray(compiled(x)), np.asarray(expected))


def test_a_buffer_that_is_filled_with_noise_is_state() -> None:
    noise = tg.zeros(4)
    compiled = tg.compile(lambda x: x + noise.normal_())
    tg.manual_seed(3)
    results = [compiled(tg.zeros(4)) for _ in range(3)]
    np.testing.assert_array_equal(np.asarray(noise), np.asarray(results[-1]))
    assert not tg.equal(results[0], results[1])
