"""What a program has to notice around it, by the short way and the long one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapegrad as tg
from tapegrad import nn
from tapegrad.nn.modules.module import register_module_forward_hook
from tests.native.calls import check, same, short, tensor, two, warmed

WEIGHT = tensor(3, 3, seed=7, grad=True)


def _backward_inside(x: Any, y: Any) -> Any:
    loss = (x * y).tanh().sum()
    loss.backward()
    return loss.detach()


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


def test_needs_of_gradients_of_arguments() -> None:
    fn = warmed(lambda x, y: (x * y).sum(), two)
    x, y = two(4)
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


def test_wrong_arguments_raise_as_the_function_does() -> None:
    fn = warmed(lambda x, y: x * y, two)
    x, y = two(5)
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
