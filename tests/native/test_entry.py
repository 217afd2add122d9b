"""The short way into a program: that it is taken, and that it leaves whenever a call is unlike the recorded one.

Each case is compared with the function itself, run eagerly on a twin of its arguments.
"""

from __future__ import annotations

import contextlib
import random
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapegrad as tg
import tapegrad.nn.functional as F
from tapegrad import nn
from tapegrad.kernels.recording import RecordingError
from tapegrad.native.entry import OTHER
from tapegrad.nn.modules.module import register_module_forward_hook
from tapegrad.tape import Value


def tensor(*shape: int, seed: int = 0, dtype: Any = np.float32, grad: bool = False) -> tg.Tensor:
    made = tg.from_numpy(np.random.default_rng(seed).standard_normal(shape).astype(dtype))
    return made.requires_grad_() if grad else made


def same(a: Any, b: Any) -> None:
    """Equal trees of tensors: structure, dtype, shape, values, need of gradients."""
    assert type(a) is type(b)
    if isinstance(a, (tuple, list)):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            same(x, y)
    elif isinstance(a, dict):
        assert list(a) == list(b)
        same(list(a.values()), list(b.values()))
    elif isinstance(a, Value):
        assert a.dtype == b.dtype
        assert a.shape == b.shape
        assert a.requires_grad == b.requires_grad
        np.testing.assert_allclose(b.detach().numpy(), a.detach().numpy(), rtol=2e-6, atol=2e-6)
    else:
        assert a == b


def short(fn: Any, *args: Any, **kwargs: Any) -> tuple[Any, bool]:
    """The result of a call, and whether it came the short way."""
    enter, taken = fn._enter, [False]

    def noted(given: tuple[Any, ...]) -> Any:
        result = enter(given)
        taken[0] = result is not OTHER
        return result

    if enter is not None:
        fn._enter = noted
    try:
        return fn(*args, **kwargs), taken[0]
    finally:
        if fn._enter is noted:
            fn._enter = enter


def warmed(plain: Callable[..., Any], make: Callable[[int], tuple[Any, ...]]) -> Any:
    """The function compiled, recorded, and called until it comes the short way."""
    fn = tg.compile(plain)
    for seed in range(3):
        fn(*make(seed))
    assert fn._enter is not None, "there is a short way"
    return fn


def check(fn: Any, *args: Any, short_way: bool | None = True, twins: tuple[Any, ...] | None = None) -> Any:
    """Compare a call with the function itself; ``twins`` are other arguments for the latter."""
    expected = fn.function(*(args if twins is None else twins))
    found, taken = short(fn, *args)
    same(expected, found)
    if short_way is not None:
        assert taken is short_way
    return found


# -- for whom there is a short way ------------------------------------------------------------------------------


Make = Callable[[int], tuple[Any, ...]]


def _two(seed: int) -> tuple[Any, ...]:
    return tensor(4, 3, seed=seed), tensor(3, seed=seed + 50)


def _leaf_and_plain(seed: int) -> tuple[Any, ...]:
    return tensor(4, 3, seed=seed, grad=True), tensor(3, seed=seed + 50)


WEIGHT = tensor(3, 3, seed=7, grad=True)


def _backward_inside(x: Any, y: Any) -> Any:
    loss = (x * y).tanh().sum()
    loss.backward()
    return loss.detach()


RESULTS: dict[str, tuple[Callable[..., Any], Make]] = {
    "plain tensors": (lambda x, y: (x * y + 1).tanh().sum(0), _two),
    "no arguments": (lambda: WEIGHT.detach() * 2, lambda seed: ()),
    "no result": (lambda x: None, lambda seed: (tensor(3, seed=seed),)),
    "twenty arguments": (lambda *xs: sum(xs), lambda seed: tuple(tensor(3, seed=seed + j) for j in range(20))),
    "a leaf": (lambda x, y: (x * y).exp(), _leaf_and_plain),
    "a parameter outside": (lambda x: x @ WEIGHT, lambda seed: (tensor(2, 3, seed=seed),)),
    "a tuple": (lambda x, y: (x + y, x * y), _two),
    "a list": (lambda x, y: [x + y, x * y], _two),
    "nested": (lambda x, y: (x + y, [x * y, (x - y,)], []), _two),
    "views": (lambda x, y: ((z := x * y)[1:], z.T, z.reshape(-1), z[:, 1]), _two),
    "a part that is not whole": (lambda x, y: (x * y)[::2, 1:], _two),
    "a view of an argument": (lambda x, y: (x[1:], x.T, x * y), _two),
    "an argument": (lambda x, y: (x, x * y, y), _two),
    "an argument alone": (lambda x, y: y, _two),
    "a result twice": (lambda x, y: (z := x + y, z), _two),
    "a tensor from outside": (lambda x, y: (WEIGHT, x * y), _two),
    "a part of a tensor from outside": (lambda x, y: (WEIGHT[1:], WEIGHT.detach(), WEIGHT.T, x * y), _two),
    "a part of a leaf": (lambda x, y: (x[1:], x.detach(), y[:2], x * y), _leaf_and_plain),
    "a constant twice": (lambda x, y: (z := tg.zeros(2), [z], x * y), _two),
    "a constant": (lambda x, y: (tg.arange(3), x * y), _two),
    "a scalar": (lambda x, y: (x * y).mean(), _two),
    "looked-up classes": (lambda x, t: F.cross_entropy(x, t), lambda seed: (tensor(4, 3, seed=seed), tg.tensor([0, 1, 2, seed % 3]))),
    "nothing in it": (lambda x: x * 2, lambda seed: (tensor(0, 3, seed=seed),)),
}  # fmt: skip


@pytest.mark.parametrize("name", RESULTS)
def test_the_short_way_is_taken(name: str) -> None:
    plain, make = RESULTS[name]
    fn = warmed(plain, make)
    kept = []
    for seed in range(10, 14):
        args = make(seed)
        kept.append((fn.function(*args), check(fn, *args)))
    for expected, found in kept:  # nobody writes into what was handed out
        same(expected, found)
    assert sum(map(len, fn.recordings.values())) == 1


def test_results_that_are_arguments_are_the_arguments() -> None:
    fn = warmed(lambda x, y: (x, [y, x * y]), _two)
    x, y = _two(20)
    (first, (second, _)), taken = short(fn, x, y)
    assert taken
    assert first is x
    assert second is y


def test_a_result_that_occurs_twice_is_one_tensor() -> None:
    def plain(x: Any, y: Any) -> Any:
        total, zeros = x + y, tg.zeros(2)
        return total, [total, zeros], zeros

    fn = warmed(plain, _two)
    for seed in range(3):
        (a, (b, zeros), same_zeros), taken = short(fn, *_two(seed))
        assert taken
        assert a is b
        assert zeros is same_zeros
        assert zeros.tolist() == [0.0, 0.0]
        a += 1
        zeros += 1


def test_results_that_exist_outside_are_those() -> None:
    layer, held, kept = nn.Linear(3, 2), [tensor(3)], {"w": tensor(3, grad=True)}

    def plain(x: Any) -> Any:
        return layer.weight, held[0], [kept["w"]], layer(x)

    def parts(x: Any) -> Any:
        return held[0][1:], held[0].detach(), kept["w"][:2], layer.bias.detach()

    fn, other = (warmed(f, lambda seed: (tensor(4, 3, seed=seed),)) for f in (plain, parts))
    for seed in range(3):
        (weight, first, (w,), _), taken = short(fn, tensor(4, 3, seed=seed))
        assert taken
        assert weight is layer.weight
        assert first is held[0]
        assert w is kept["w"]
        found = check(other, tensor(4, 3, seed=seed))
        found[0][0] = 5.0 + seed
        assert held[0][1].item() == 5.0 + seed
        with tg.no_grad():
            layer.bias += 1
        same(layer.bias.detach(), found[3])
        kept["w"].grad = None
        found[2].sum().backward()
        assert kept["w"].grad.tolist() == [1.0, 1.0, 0.0]  # type: ignore[union-attr]
    saved = held[0] * kept["w"]
    check(other, tensor(4, 3))[1].add_(1)
    with pytest.raises(RuntimeError, match="modified by an in-place operation"):
        saved.sum().backward()


def test_views_in_a_result_share_memory() -> None:
    def plain(x: Any, y: Any) -> Any:
        z = x * y
        return z, z[1]

    fn = warmed(plain, _two)
    for run in (plain, fn):
        z, row = run(*_two(5))
        z[1] = 7.0
        assert row.tolist() == [7.0, 7.0, 7.0]


def test_a_constant_is_new_each_time() -> None:
    fn = warmed(lambda x: (tg.zeros(2), x * 2), lambda seed: (tensor(2, seed=seed),))
    for seed in range(3):
        (zeros, _), taken = short(fn, tensor(2, seed=seed))
        assert taken
        assert zeros.tolist() == [0.0, 0.0]
        zeros += 5


@pytest.mark.parametrize("inside", [False, True])
def test_gradients_of_arguments(inside: bool) -> None:
    plain = _backward_inside if inside else lambda x, y: (x * y).tanh().sum()
    fn = warmed(plain, _leaf_and_plain)
    for seed in range(20, 24):
        grads = []
        for run in (plain, lambda *a: short(fn, *a)):
            x, y = _leaf_and_plain(seed)
            loss = run(x, y)
            if run is not plain:
                loss, taken = loss
                assert taken
            if not inside:
                loss.backward()
            grads.append((loss, x.grad))
        same(*grads)


def test_gradients_of_parameters() -> None:
    layer, twin = nn.Linear(3, 2), nn.Linear(3, 2)
    twin.load_state_dict(layer.state_dict())

    def loss_of(layer: Any) -> Any:
        return lambda x: layer(x).tanh().sum()

    fn = warmed(loss_of(layer), lambda seed: (tensor(5, 3, seed=seed),))
    layer.zero_grad()
    for seed in range(4):
        x = tensor(5, 3, seed=seed)
        found, taken = short(fn, x)
        assert taken
        found.backward()
        loss_of(twin)(x).backward()
        for p, q in zip(layer.parameters(), twin.parameters(), strict=True):
            same(q.grad, p.grad)


@pytest.mark.parametrize("own", [False, True])
def test_random_numbers_go_on(own: bool) -> None:
    generator = tg.Generator() if own else tg.default_generator
    if own:
        plain: Any = lambda x: x + tg.rand(4, generator=generator)  # noqa: E731
    else:
        plain = lambda x: F.dropout(x, 0.5)  # noqa: E731
    fn = warmed(plain, lambda seed: (tensor(4, seed=seed),))
    runs = []
    for run in (plain, fn):
        generator.manual_seed(5)
        runs.append([run(tensor(4, seed=s)) for s in range(4)] + [tg.rand(2, generator=generator)])
    same(*runs)
    generator.manual_seed(6)
    first, taken = short(fn, tensor(4))
    assert taken
    generator.manual_seed(6)
    state = generator.get_state()
    same(first, plain(tensor(4)))
    generator.set_state(state)
    same(first, fn(tensor(4)))


def test_dropout_whose_backward_draws_again() -> None:
    fn = warmed(lambda x: F.dropout(x * 2, 0.5), lambda seed: (tensor(50, seed=seed, grad=True),))
    grads = []
    for run in (fn.function, fn):
        tg.manual_seed(3)
        xs = [tensor(50, seed=s, grad=True) for s in range(3)]
        outs = [run(x) for x in xs]
        tg.rand(7)
        for out in reversed(outs):
            out.sum().backward()
        grads.append((outs, [x.grad for x in xs]))
    same(*grads)


# -- what it has to notice ----------------------------------------------------------------------------------------


def test_grad_modes() -> None:
    fn = warmed(lambda x: (x * WEIGHT).sum(), lambda seed: (tensor(3, seed=seed),))
    for mode in (tg.no_grad, tg.inference_mode, tg.enable_grad, lambda: tg.set_grad_enabled(False)):
        for seed in range(3):
            with mode():  # type: ignore[operator]
                found = check(fn, tensor(3, seed=seed), short_way=None)
            same_graph = mode is tg.enable_grad
            assert found.requires_grad == same_graph
    assert check(fn, tensor(3), short_way=None).requires_grad
    with tg.no_grad():
        fn(tensor(3)), fn(tensor(3))
        assert not check(fn, tensor(3)).requires_grad
        with tg.enable_grad():
            assert check(fn, tensor(3), short_way=False).requires_grad


def test_the_default_dtype() -> None:
    fn = warmed(lambda x: x + tg.rand(2) * 0 + tg.full((2,), 1.5), lambda seed: (tg.tensor([1, 2]),))
    before = tg.get_default_dtype()
    try:
        tg.set_default_dtype(tg.float64)
        found = check(fn, tg.tensor([3, 4]), short_way=False)
        assert found.dtype == tg.float64
    finally:
        tg.set_default_dtype(before)
    assert check(fn, tg.tensor([3, 4]), short_way=None).dtype == tg.float32


class Marked(tg.Tensor):
    """A kind of tensor of the user's own."""


def test_classes_of_arguments() -> None:
    fn = warmed(lambda x: (x * 2, x), lambda seed: (tensor(3, seed=seed),))
    parameter = nn.Parameter(tensor(3, seed=9))
    check(fn, parameter, short_way=False)
    check(fn, parameter, short_way=None)
    check(fn, tensor(3), short_way=None)
    marked = Marked._make(tensor(3, seed=4)._array)
    for _ in range(3):
        found = check(fn, marked, short_way=None)
        assert type(found[0]) is type(fn.function(marked)[0])
        assert found[1] is marked
    found = check(fn, tensor(3), short_way=None)
    assert type(found[0]) is tg.Tensor


@pytest.mark.parametrize("grad", [False, True])
def test_parameters_as_arguments(grad: bool) -> None:
    fn = warmed(
        lambda p: (p * p).sum(), lambda seed: (nn.Parameter(tensor(3, seed=seed), requires_grad=grad),)
    )
    p = nn.Parameter(tensor(3, seed=9), requires_grad=grad)
    check(fn, p)
    check(fn, p.detach(), short_way=False)
    p.requires_grad_(not grad)
    check(fn, p, short_way=None)
    check(fn, p, short_way=None)


def test_numbers_and_tensors_in_the_closure() -> None:
    factor, table, held = 2.0, {"a": 1.0}, tensor(3, seed=1)

    def plain(x: Any) -> Any:
        return x * factor + table["a"] + held

    fn = warmed(plain, lambda seed: (tensor(3, seed=seed),))
    check(fn, tensor(3))
    factor = 3.0
    check(fn, tensor(3), short_way=False)
    table["a"] = 5.0
    check(fn, tensor(3), short_way=False)
    held = tensor(3, seed=2)
    check(fn, tensor(3), short_way=False)
    held.add_(1)
    check(fn, tensor(3), short_way=None)
    held.data = tensor(3, seed=3)
    check(fn, tensor(3), short_way=False)
    factor = 2
    found = check(fn, tg.tensor([1, 2, 3]), short_way=False)
    assert found.dtype == tg.float32


FACTOR = 2.0


def test_numbers_among_globals(monkeypatch: pytest.MonkeyPatch) -> None:
    fn = warmed(lambda x: x * FACTOR, lambda seed: (tensor(3, seed=seed),))
    check(fn, tensor(3))
    monkeypatch.setattr(f"{__name__}.FACTOR", 4.0)
    check(fn, tensor(3), short_way=False)


def test_training_and_evaluation() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.5))
    twin = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.5))
    twin.load_state_dict(model.state_dict())
    fn = tg.compile(lambda x: model(x))
    seen = set()
    for at, training in enumerate([True] * 3 + [False] * 3 + [True, True, False, False, False]):
        model.train(training), twin.train(training)
        x = tensor(6, 3, seed=at)
        tg.manual_seed(at)
        expected = twin(x)
        tg.manual_seed(at)
        found, taken = short(fn, x)
        same(expected, found)
        seen.add((training, taken))
        for a, b in zip(twin.state_dict().values(), model.state_dict().values(), strict=True):
            same(a, b)
    assert {(True, True), (False, True)} <= seen
    model[2].train()  # one part only
    twin[2].train()
    for at in range(3):
        tg.manual_seed(at)
        expected = twin(x)
        tg.manual_seed(at)
        same(expected, fn(x))


def test_parameters_that_are_replaced_frozen_and_moved() -> None:
    layer = nn.Linear(3, 2)
    fn = warmed(lambda x: layer(x).tanh(), lambda seed: (tensor(4, 3, seed=seed),))
    x = tensor(4, 3)
    check(fn, x)
    layer.weight = nn.Parameter(tensor(2, 3, seed=8))
    check(fn, x, short_way=False)
    check(fn, x, short_way=None)
    check(fn, x)
    layer.bias.requires_grad_(False)
    check(fn, x, short_way=False)
    fn(x).sum().backward()
    assert layer.bias.grad is None
    layer.weight.requires_grad_(False)
    assert not check(fn, x, short_way=None).requires_grad
    layer.weight.data = tensor(2, 3, seed=4)
    check(fn, x, short_way=None)
    check(fn, x, short_way=None)
    layer.bias = None
    check(fn, x, short_way=False)
    layer.double()
    check(fn, x.double(), short_way=False)
    layer.load_state_dict({"weight": tensor(2, 3, seed=3, dtype=np.float64)})
    check(fn, x.double(), short_way=None)


def test_what_changes_between_the_recording_and_the_first_replay() -> None:
    for change in (
        lambda layer: layer.weight.requires_grad_(False),
        lambda layer: layer.requires_grad_(False),
        lambda layer: setattr(layer.weight, "data", tensor(2, 3, seed=5)),
        lambda layer: setattr(layer, "bias", None),
        lambda layer: layer.eval(),
        lambda layer: layer.register_forward_hook(lambda m, i, o: o * 2),
    ):
        layer = nn.Linear(3, 2)
        fn = tg.compile(lambda x, layer=layer: layer(x).tanh())
        fn(tensor(4, 3))
        change(layer)
        for seed in range(3):
            check(fn, tensor(4, 3, seed=seed), short_way=None)


def test_tensors_elsewhere_leave_programs_alone() -> None:
    data = tensor(100, 3)
    fn = warmed(lambda x: x * data.sum(), lambda seed: (tensor(3, seed=seed),))
    for at in range(20):  # programs come and go, and their tensors with them
        w = tensor(3, seed=at, grad=True)
        other = tg.compile(lambda x, w=w: x * w)
        other(tensor(3)), other(tensor(3))
        del w, other
        tensor(3, seed=at).requires_grad_()
        data[5 * at : 5 * at + 4].requires_grad_()  # a leaf of its own over a part
        check(fn, tensor(3, seed=at))
    data[:].requires_grad_()
    check(fn, tensor(3), short_way=False)


def test_needs_of_gradients_of_arguments() -> None:
    fn = warmed(lambda x, y: (x * y).sum(), _two)
    x, y = _two(4)
    check(fn, x, y)
    x.requires_grad_()
    check(fn, x, y, short_way=False)
    check(fn, x, y, short_way=None)
    check(fn, x, y)
    with_history = x * 2
    check(fn, with_history, y, short_way=False)
    fn(with_history, y).backward()
    same(x.grad, (y * 2).expand(4, 3))
    x.requires_grad_(False)
    check(fn, x, y, short_way=False)
    view = tensor(6, 3, seed=8)[:4]
    check(fn, view, y, short_way=None)
    base = tensor(4, 3, seed=8)
    part = base[:]
    check(fn, part, y, short_way=None)
    base.mul_(WEIGHT.sum())  # gives the view a history
    for _ in range(3):
        found = check(fn, part, y, short_way=None)
        assert found.requires_grad


def test_gradients_that_are_there_or_not() -> None:
    plain = _backward_inside
    fn = tg.compile(plain)
    x, twin = tensor(4, 3, grad=True), tensor(4, 3, grad=True)
    y = tensor(3, seed=1)
    taken = []
    for at in range(12):
        if at in (4, 5, 6, 9):
            x.grad = twin.grad = None
        if at == 8:
            x.grad, twin.grad = tensor(4, 3, seed=5), tensor(4, 3, seed=5)
        expected = plain(twin, y)
        found, way = short(fn, x, y)
        taken.append(way)
        same((expected, twin.grad), (found, x.grad))
    for at in range(3):  # other arguments, without gradients
        a, b = tensor(4, 3, seed=at, grad=True), tensor(4, 3, seed=at, grad=True)
        plain(b, y), fn(a, y)
        same(b.grad, a.grad)


@pytest.mark.parametrize("to_none", [True, False])
def test_gradients_of_parameters_that_are_there_or_not(to_none: bool) -> None:
    w, twin = tensor(3, grad=True), tensor(3, grad=True)

    def step_of(w: Any) -> Any:
        def step(x: Any) -> Any:
            loss = (w * x).sin().sum()
            loss.backward()
            return loss.detach()

        return step

    plain, fn = step_of(twin), tg.compile(step_of(w))
    kept = []
    for at in range(12):
        if at in (3, 4, 5, 8, 9):
            w.grad = twin.grad = None
        elif not to_none and at in (6, 7):
            w.grad.zero_(), twin.grad.zero_()  # type: ignore[union-attr]
        if at == 10:
            w.grad, twin.grad = tensor(3, seed=2), tensor(3, seed=2)
        x = tensor(3, seed=at)
        same((plain(x), twin.grad), (fn(x), w.grad))
        kept.append((twin.grad, w.grad))  # somebody keeps them
    for a, b in kept:
        same(a, b)


def test_a_gradient_that_somebody_keeps_is_not_written_over() -> None:
    w = tensor(3, grad=True)

    def step(x: Any) -> Any:
        w.grad = None
        loss = (w * x).sum()
        loss.backward()
        return loss.detach()

    fn = warmed(step, lambda seed: (tensor(3, seed=seed),))
    _, taken = short(fn, tensor(3, seed=1))
    assert taken
    kept, memory, view = w.grad, w.grad.numpy(), w.grad[1:]
    fn(tensor(3, seed=2))
    assert kept is not None
    same(kept, tensor(3, seed=1))
    same(w.grad, tensor(3, seed=2))
    assert np.array_equal(memory, tensor(3, seed=1).numpy())
    del kept
    fn(tensor(3, seed=3))
    same(view, tensor(3, seed=1)[1:])
    memory = w.grad.numpy()
    fn(tensor(3, seed=4))
    assert np.array_equal(memory, tensor(3, seed=3).numpy())


def test_shapes_dtypes_and_strides_in_turn() -> None:
    fn = warmed(lambda x: (x + x.sum()) * 2, lambda seed: (tensor(4, 3, seed=seed),))
    forms = [
        tensor(4, 3), tensor(3, 4), tensor(12), tensor(3, 4).T, tensor(8, 3)[::2], tensor(4, 3, dtype=np.float64),
        tg.arange(12).reshape(4, 3), tensor(), tensor(4, 1).expand(4, 3), tensor(0, 3), tensor(5, 3)[1:], tensor(4, 6)[:, 1::2],
        tensor(4, 3) > 0,
    ]  # fmt: skip
    for _ in range(3):
        for form in forms:
            check(fn, form, short_way=None)
    check(fn, forms[0], short_way=None)
    assert check(fn, forms[0]) is not None
    check(fn, forms[10])  # of the same form, and elsewhere in its memory


def test_arguments_that_are_one_tensor_or_share_memory() -> None:
    def plain(a: Any, b: Any) -> Any:
        twice = b * 2
        a.add_(1)
        return twice + b * 2, a - b

    fn = warmed(plain, lambda seed: (tensor(6, seed=seed), tensor(6, seed=seed + 9)))

    def both(make: Callable[[], tuple[Any, Any]], short_way: bool | None) -> None:
        check(fn, *make(), twins=make(), short_way=short_way)

    def one() -> tuple[Any, Any]:
        x = tensor(6, seed=3)
        return x, x

    def overlapping() -> tuple[Any, Any]:
        x = tensor(8, seed=3)
        return x[:6], x[2:]

    def all_of_it() -> tuple[Any, Any]:
        x = tensor(6, seed=3)
        return x, x[:]

    def beside() -> tuple[Any, Any]:
        x = tensor(12, seed=3)
        return x[:6], x[6:]

    def apart() -> tuple[Any, Any]:
        return tensor(6, seed=3), tensor(6, seed=4)

    for _ in range(3):
        for make in (one, overlapping, all_of_it, beside, apart, overlapping, one):
            both(make, None)
    both(apart, None)
    both(apart, True)
    both(one, False)


def test_an_argument_in_memory_that_the_function_also_uses_by_itself() -> None:
    w = tensor(3, 3, seed=7)
    layer = nn.Linear(3, 3)
    for plain in (lambda x: x * w + 1, lambda x: layer(x)):
        given = w if plain.__code__.co_freevars == ("w",) else layer.weight.detach()
        fn = tg.compile(plain)
        for at in range(16):  # at the recording, and later
            x = tensor(3, 3, seed=at) if at // 4 % 2 else given if at % 2 else given.detach()
            check(fn, x, short_way=None)
        check(fn, tensor(3, 3))


def test_an_argument_in_memory_that_the_function_changes_by_itself() -> None:
    def made() -> tuple[Any, Any]:
        total = tg.zeros(4)

        def add(x: Any) -> Any:
            total[1:].add_(x)
            return x * total[1:]

        return total, add

    ways: list[Callable[[Any], Any]] = [lambda t: tensor(3), lambda t: t[1:], lambda t: t.detach()[1:]]
    for order in ((0, 0, 0, 1, 2, 0, 1), (1, 1, 1, 0, 2, 0, 0), (2, 2, 1, 0, 0, 0, 2)):
        (total, add), (twin, plain) = made(), made()
        twin += 1
        total += 1
        fn = tg.compile(add)
        for way in order:
            same((plain(ways[way](twin)), twin), (fn(ways[way](total)), total))

    def read(x: Any) -> Any:
        x.add_(1)
        return total.sum()

    fn = tg.compile(read)
    for _ in range(3):
        fn(tensor(4))
    with pytest.raises(RuntimeError, match="also uses by itself"):
        fn(total[1:])
    expected = (total + 1).sum()
    same(expected, fn(total))
    fn(tensor(4))
    same(expected, total.sum())


def test_wrong_arguments_raise_as_the_function_does() -> None:
    fn = warmed(lambda x, y: x * y, _two)
    x, y = _two(5)
    for args, kwargs in [((x,), {}), ((x, y, y), {}), ((), {}), ((x, y), {"z": 1}), ((x,), {"x": y})]:
        with pytest.raises(TypeError) as expected:
            fn.function(*args, **kwargs)
        with pytest.raises(TypeError) as found:
            fn(*args, **kwargs)
        assert str(found.value) == str(expected.value)
        check(fn, x, y, short_way=None)
    same(x * y, fn(x, y=y))
    same(x * y, fn(y=y, x=x))
    same(x * 3, fn(x, 3))
    same(x * 3.5, fn(x, 3.5))
    check(fn, x, y, short_way=None)
    check(fn, x, y)
    with pytest.raises(TypeError):
        fn(x, None)
    with pytest.raises(TypeError):
        fn(None, None)
    check(fn, x, y, short_way=None)


def test_hooks_that_are_registered_later() -> None:
    def both(arrange: Callable[[Any, Any, list[str]], Any]) -> None:
        seen: list[list[str]] = []
        results = []
        for compiled in (False, True):
            layer = nn.Linear(3, 2)
            with tg.no_grad():
                layer.weight.copy_(tensor(2, 3, seed=3))
                layer.bias.zero_()
            leaf = tensor(4, 3, seed=2, grad=True)

            def step(x: Any, layer: Any = layer) -> Any:
                layer.zero_grad()
                loss = layer(x).tanh().sum()
                loss.backward()
                return loss.detach()

            run = tg.compile(step) if compiled else step
            for _ in range(3):
                leaf.grad = None
                run(leaf)
            mine: list[str] = []
            handle = arrange(layer, leaf, mine)
            for _ in range(3):
                leaf.grad = None
                results.append((run(leaf), leaf.grad, layer.weight.grad))
            handle.remove()
            leaf.grad = None
            results.append((run(leaf), leaf.grad, layer.weight.grad))
            seen.append(mine)
        assert seen[0] == seen[1]
        half = len(results) // 2
        same(results[:half], results[half:])

    def noting(mine: list[str], name: str, factor: float) -> Any:
        def hook(g: Any) -> Any:
            mine.append(name)
            return g * factor

        return hook

    both(lambda layer, leaf, mine: leaf.register_hook(noting(mine, "leaf", 2)))
    both(lambda layer, leaf, mine: layer.weight.register_hook(noting(mine, "weight", 3)))
    both(lambda layer, leaf, mine: leaf.register_post_accumulate_grad_hook(lambda p: mine.append("post")))
    both(
        lambda layer, leaf, mine: layer.bias.register_post_accumulate_grad_hook(lambda p: mine.append("post"))
    )
    both(lambda layer, leaf, mine: layer.register_forward_hook(lambda m, i, o: o * 2))
    both(lambda layer, leaf, mine: layer.register_forward_pre_hook(lambda m, i: i[0] + 1))
    both(lambda layer, leaf, mine: layer.register_full_backward_pre_hook(lambda m, go: (go[0] * 3,)))
    both(lambda layer, leaf, mine: layer.register_full_backward_hook(lambda m, gi, go: (gi[0] * 2,)))
    both(lambda layer, leaf, mine: register_module_forward_hook(lambda m, i, o: o * 2))


def test_bad_values_raise_and_leave_everything_as_it_was() -> None:
    w = tensor(3, 3, grad=True)

    def plain(x: Any, t: Any) -> Any:
        loss = F.cross_entropy(x @ w, t)
        loss.backward()
        return loss.detach()

    good, bad = tg.tensor([0, 1, 2, 0]), tg.tensor([0, 1, 9, 0])
    fn = tg.compile(plain)
    for seed in range(4):
        w.grad = None
        fn(tensor(4, 3, seed=seed), good)
    w.grad = None
    _, taken = short(fn, tensor(4, 3), good)
    assert taken
    w.grad = None
    for _ in range(2):
        with pytest.raises(IndexError):
            fn(tensor(4, 3), bad)
        assert w.grad is None
        found, _ = short(fn, tensor(4, 3, seed=1), good)
        grad, w.grad = w.grad, None
        expected = plain(tensor(4, 3, seed=1), good)
        same((expected, w.grad), (found, grad))
        w.grad = None


def test_an_optimizer_that_steps_in_another_way() -> None:
    def made() -> tuple[Any, Any, Any]:
        a, b = tensor(3, grad=True), tensor(3, seed=1, grad=True)
        optimizer = tg.optim.SGD([a, b], lr=0.1, momentum=0.5)

        def step(x: Any) -> Any:
            optimizer.zero_grad()
            loss = ((a * x).sin() + b).sum()
            loss.backward()
            optimizer.step()
            return loss.detach()

        return step, optimizer, (a, b)

    (plain, first, ps), (other, second, qs) = made(), made()
    fn = tg.compile(other)
    ways = []
    for at in range(20):
        for optimizer in (first, second):
            if at == 5:
                optimizer.param_groups[0]["lr"] = 0.01
            if at == 8:
                optimizer.param_groups[0]["momentum"] = 0.0
            if at == 11:
                optimizer.param_groups[0]["nesterov"] = False
                optimizer.param_groups[0]["momentum"] = 0.9
            if at == 14:
                optimizer.param_groups[0]["weight_decay"] = 0.1
            if at == 17:
                optimizer.state.clear()
        x = tensor(3, seed=at)
        expected = plain(x)
        found, way = short(fn, x)
        ways.append(way)
        same((expected, [*ps]), (found, [*qs]))
    assert all(ways[3:8]), "numbers of an optimizer are read on the way"


def test_a_program_that_is_stopped_runs_again(monkeypatch: pytest.MonkeyPatch) -> None:
    w = tensor(3, grad=True)

    def plain(x: Any) -> Any:
        w.grad = None
        loss = (w * x).sum()
        loss.backward()
        return loss.detach()

    fn = warmed(plain, lambda seed: (tensor(3, seed=seed),))
    ((recording,),) = fn.recordings.values()
    spaces = len(recording.program.spaces)
    scope = fn._enter.__globals__
    machine = scope["program"]

    def stopped(*args: Any) -> None:
        raise KeyboardInterrupt

    before = w.grad
    monkeypatch.setitem(scope, "program", stopped)
    with pytest.raises(KeyboardInterrupt):
        fn(tensor(3, seed=5))
    assert w.grad is before
    monkeypatch.setitem(scope, "program", machine)
    assert len(recording.program.spaces) == spaces
    found, taken = short(fn, tensor(3, seed=5))
    assert taken
    grad = w.grad
    same((plain(tensor(3, seed=5)), w.grad), (found, grad))


def test_compiled_functions_inside_of_others_and_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    inner = warmed(lambda x: x * 2, lambda seed: (tensor(3, seed=seed),))
    outer = warmed(lambda x: inner(x) + 1, lambda seed: (tensor(3, seed=seed),))
    check(inner, tensor(3), short_way=None)
    check(inner, tensor(3))
    check(outer, tensor(3))
    seen = []
    fn = tg.compile(lambda x: seen.append(1) or x * 2)
    for _ in range(3):
        fn(tensor(3))
    count = len(seen)
    monkeypatch.setattr(tg.config, "compiling", False)
    fn(tensor(3)), fn(tensor(3))
    assert len(seen) == count + 2


def test_two_threads_at_once() -> None:
    w = tensor(64, 64, seed=1)
    fn = warmed(lambda x: (x @ w).tanh().sum(1), lambda seed: (tensor(16, 64, seed=seed),))
    inputs = [tensor(16, 64, seed=s) for s in range(8)]
    expected = [fn.function(x) for x in inputs]
    wrong: list[Any] = []

    def work(number: int) -> None:
        for turn in range(60):
            at = (number + turn) % len(inputs)
            with tg.no_grad() if turn % 5 == 4 else contextlib.nullcontext():
                found = fn(inputs[at])
            if not np.allclose(found.numpy(), expected[at].numpy(), atol=1e-5):
                wrong.append((number, turn))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong
    check(fn, inputs[0], short_way=None)


def test_threads_that_record_at_the_same_time() -> None:
    # While one of them records, another one must not give the ops their short ways back, which nobody would see.
    for _ in range(3):
        (tensor(5) * tensor(5) + 1).tanh() - tensor(5) / tensor(5)  # the ops learn their short ways
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    wrong: list[Any] = []

    def work(number: int) -> None:
        for turn in range(40):
            fn = tg.compile(lambda x, y: (x * y + number).tanh() - x / y)
            for seed in range(3):
                x, y = tensor(5, seed=seed), tensor(5, seed=seed + 20)
                found = fn(x, y)
                if not np.allclose(found.numpy(), fn.function(x, y).numpy(), atol=1e-5):
                    wrong.append((number, turn, seed))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(3)]
    try:
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    finally:
        sys.setswitchinterval(before)
    assert not wrong


def test_threads_that_use_a_recording_for_the_first_time_at_once() -> None:
    wrong: list[Any] = []
    for turn in range(20):
        fn = tg.compile(lambda x: (x * (tg.arange(8.0) * 2 + 1) + turn).tanh() * tg.ones(8))  # noqa: B023
        x = tensor(8, seed=turn)
        expected = fn(x)
        barrier = threading.Barrier(3)

        def work(fn: Any = fn, x: Any = x, expected: Any = expected, barrier: Any = barrier) -> None:
            barrier.wait()
            try:
                same([expected] * 3, [fn(x) for _ in range(3)])
            except (AssertionError, AttributeError, RuntimeError) as err:
                wrong.append(err)

        threads = [threading.Thread(target=work) for _ in range(3)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert not wrong
        assert sum(map(len, fn.recordings.values())) == 1


@pytest.mark.parametrize("short_way", [True, False])
def test_threads_draw_other_random_numbers(short_way: bool) -> None:
    generator = tg.Generator()

    def plain(x: Any) -> Any:
        return x + tg.rand(50_000, generator=generator)

    fn = tg.compile(plain if short_way else lambda x: {"sum": plain(x)})
    x = tg.zeros(50_000)
    for _ in range(3):
        fn(x)
    assert (fn._enter is not None) == short_way
    generator.manual_seed(1)
    expected = {tuple(plain(x)[:4].tolist()) for _ in range(60)}
    generator.manual_seed(1)
    drawn: list[Any] = []

    def work() -> None:
        for _ in range(20):
            found = fn(x)
            drawn.append(tuple((found if short_way else found["sum"])[:4].tolist()))

    threads = [threading.Thread(target=work) for _ in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(drawn) == 60
    assert set(drawn) == expected, "in some order, those of one thread"


def test_threads_with_grad_modes_of_their_own() -> None:
    fn = warmed(lambda x: (x * WEIGHT).sum(), lambda seed: (tensor(3, seed=seed),))
    needs: list[bool] = []

    def work() -> None:
        with tg.no_grad():
            needs.extend(fn(tensor(3, seed=s)).requires_grad for s in range(20))

    thread = threading.Thread(target=work)
    thread.start()
    mine = [fn(tensor(3, seed=s)).requires_grad for s in range(20)]
    thread.join()
    assert not any(needs)
    assert all(mine)


def test_versions_of_what_is_changed_in_place() -> None:
    counter = tg.zeros(3)

    def plain(x: Any) -> Any:
        counter.add_(x)
        return counter * 2

    fn = warmed(plain, lambda seed: (tg.ones(3),))
    w = tg.ones(3, requires_grad=True)
    saved = w * counter
    _, taken = short(fn, tg.ones(3))
    assert taken
    assert counter.tolist() == [4.0, 4.0, 4.0]
    with pytest.raises(RuntimeError, match="modified by an in-place operation"):
        saved.sum().backward()


def test_anomalies_and_saved_tensors_hooks_inside() -> None:
    fn = warmed(lambda x: (x * x).sum(), lambda seed: (tensor(3, seed=seed, grad=True),))
    x = tensor(3, seed=3, grad=True)
    with tg.autograd.detect_anomaly():
        found, _ = short(fn, x)
        found.backward()
    same(x.grad, x.detach() * 2)


# -- anything, in any order -----------------------------------------------------------------------------------------


def double(*shape: int, seed: int = 0, grad: bool = False) -> tg.Tensor:
    return tensor(*shape, seed=seed, dtype=np.float64, grad=grad)


class World:
    """What a function can see, and what can happen to it; two worlds of one seed go the same way."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.layer = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3), nn.Dropout(0.5)).double()
        for j, p in enumerate(self.layer.parameters()):
            p.data.copy_(double(*p.shape, seed=seed + j))
        self.box = {"held": double(3, seed=seed + 9)}
        self.leaf = double(3, seed=seed + 10, grad=True)
        self.factor = 2.0
        self.x = double(8, 3, seed=seed + 11)
        self.tracked = double(4, 3, seed=seed + 12, grad=True)
        self.optimizer = tg.optim.SGD([*self.layer.parameters(), self.leaf], lr=0.05, momentum=0.5)
        self.handles: list[Any] = []
        self.mode: Any = contextlib.nullcontext
        self.functions = [self.forward(), self.gradients(), self.step(), self.changes()]

    def forward(self) -> Any:
        layer, leaf, box = self.layer, self.leaf, self.box

        def forward(a: Any, b: Any) -> Any:
            return layer(a) * leaf + b, [box["held"]], a

        return forward

    def gradients(self) -> Any:
        leaf, layer = self.leaf, self.layer

        def gradients(a: Any, b: Any) -> Any:
            loss = (layer[0](a) * leaf).tanh().sum() + (a * b).sum()
            if loss.requires_grad:
                loss.backward()
            return loss.detach()

        return gradients

    def step(self) -> Any:
        optimizer, layer, leaf = self.optimizer, self.layer, self.leaf

        def step(a: Any, b: Any) -> Any:
            optimizer.zero_grad()
            loss = (layer(a) * leaf - b).tanh().square().mean()
            if loss.requires_grad:
                loss.backward()
                optimizer.step()
            return (loss.detach(), leaf)

        return step

    def changes(self) -> Any:
        def changes(a: Any, b: Any) -> Any:
            twice = b * 2
            a.detach().add_(1)
            return twice - b * 2, a[1:], b

        return changes

    def act(self) -> Any:
        """Something happens, or a function is called: which, on what, and in which mode."""
        r = self.random
        kind = r.randrange(20)
        if kind == 0:
            self.layer.train(r.random() < 0.5)
        elif kind == 1:
            p = r.choice([*self.layer.parameters(), self.leaf])
            p.requires_grad_(not p.requires_grad)
        elif kind == 2:
            self.layer[0].weight.data = double(3, 3, seed=r.randrange(99))
        elif kind == 3:
            self.layer[0].bias = nn.Parameter(double(3, seed=r.randrange(99)))
        elif kind == 4:
            for p in (*self.layer.parameters(), self.leaf, self.tracked):
                if r.random() < 0.5:
                    p.grad = None
        elif kind == 5 and self.leaf.requires_grad:
            self.leaf.grad = double(3, seed=r.randrange(99))
        elif kind == 6:
            self.box["held"] = double(3, seed=r.randrange(99))
        elif kind == 7:
            self.mode = r.choice([contextlib.nullcontext, contextlib.nullcontext, tg.no_grad])
        elif kind == 8:
            self.optimizer.param_groups[0]["lr"] = r.choice([0.1, 0.01])
        elif kind == 9 and self.leaf.requires_grad:
            self.handles.append(self.leaf.register_hook(lambda g: g * 0.5))
        elif kind == 10:
            self.handles.append(self.layer.register_forward_hook(lambda m, i, o: o * 0.5))
        elif kind == 11 and self.handles:
            self.handles.pop(r.randrange(len(self.handles))).remove()
        return r.randrange(len(self.functions)), self.arguments()

    def arguments(self) -> Any:
        r, x = self.random, self.x
        kind = r.randrange(9)
        if kind == 0:
            return x[:4], x[4:]
        if kind == 1:
            return x[:4], x[2:6]
        if kind == 2:
            return x, x
        if kind == 3:
            return x[::2], x[1::2]
        if kind == 4:
            return self.tracked, x[:4]
        if kind == 5:
            return double(4, 3, seed=r.randrange(99), grad=True), x[:4]
        if kind == 6:
            return self.layer[0].weight.detach(), self.box["held"]
        return double(4, 3, seed=r.randrange(99)), double(r.choice([1, 4]), 3, seed=r.randrange(99))

    def seen(self) -> list[Any]:
        """All that may have changed."""
        tensors = [*self.layer.state_dict().values(), self.box["held"], self.leaf, self.x, self.tracked]
        tensors += [p.grad for p in (*self.layer.parameters(), self.leaf, self.tracked)]
        return [None if t is None else t.detach() for t in tensors]


@pytest.mark.parametrize("seed", range(12))
def test_anything_in_any_order(seed: int) -> None:
    eager, compiled = World(seed), World(seed)
    programs = [tg.compile(f) for f in compiled.functions]
    history = []
    for at in range(60):
        results: list[Any] = []
        for world, functions in ((eager, eager.functions), (compiled, programs)):
            number, args = world.act()
            tg.manual_seed(at)
            try:
                with world.mode():
                    results.append(functions[number](*args))
            except RuntimeError as err:
                if isinstance(err, RecordingError):
                    with world.mode():
                        results.append(compiled.functions[number](*args))
                else:
                    results.append(type(err))
        history.append((number, [tuple(a.shape) for a in args]))
        try:
            same(*results)
            same(eager.seen(), compiled.seen())
        except AssertionError as err:
            raise AssertionError(f"step {at}: {history[-5:]}") from err
