"""Compiled functions do what eager ones do: values, gradients, state, errors."""

from __future__ import annotations

import gc
import threading
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapegrad as tg
import tapegrad.nn.functional as F
from tapegrad import nn
from tapegrad.kernels.recording import RecordingError
from tapegrad.native.passes import PASSES


def tensor(*shape: int, seed: int = 0, dtype: Any = np.float32, grad: bool = False) -> tg.Tensor:
    made = tg.from_numpy(np.random.default_rng(seed).standard_normal(shape).astype(dtype))
    return made.requires_grad_() if grad else made


def same(a: Any, b: Any, tolerance: float = 1e-6) -> None:
    np.testing.assert_allclose(np.asarray(b.detach()), np.asarray(a.detach()), rtol=tolerance, atol=tolerance)


def recordings(fn: Any) -> list[Any]:
    return [r for found in fn.recordings.values() for r in found]


# -- functions -------------------------------------------------------------------------------------------


def test_later_calls_use_the_values_of_their_arguments() -> None:
    def plain(x: tg.Tensor, y: tg.Tensor) -> tg.Tensor:
        return (x * y + 1).sigmoid() - x.exp().sum(1, keepdim=True)

    compiled = tg.compile(plain)
    for seed in range(4):
        x, y = tensor(5, 3, seed=seed), tensor(3, seed=seed + 9)
        same(plain(x, y), compiled(x, y))
    assert len(recordings(compiled)) == 1


def test_results_of_one_call_are_not_touched_by_the_next() -> None:
    compiled = tg.compile(lambda x: (x * 2, x.sum()))
    kept = [compiled(tensor(4, seed=s)) for s in range(5)]
    for seed, (double, total) in enumerate(kept):
        same(tensor(4, seed=seed) * 2, double)
        same(tensor(4, seed=seed).sum(), total)


def test_trees_in_and_out() -> None:
    @tg.compile
    def fn(batch: dict[str, Any], *, scale: float) -> dict[str, Any]:
        a, (b, name) = batch["a"], batch["rest"]
        return {"sum": a + b * scale, "name": name, "pair": [a, (b - a,)]}

    for seed in range(3):
        a, b = tensor(3, seed=seed), tensor(3, seed=seed + 5)
        out = fn({"a": a, "rest": (b, "here")}, scale=2.0)
        assert out["name"] == "here"
        assert out["pair"][0] is a
        same(a + b * 2, out["sum"])
        same(b - a, out["pair"][1][0])
    same(tensor(3) + tensor(3) * 3, fn({"a": tensor(3), "rest": (tensor(3), "here")}, scale=3.0)["sum"])


def test_numbers_in_the_closure_are_part_of_the_signature() -> None:
    factor = 2.0

    def plain(x: tg.Tensor) -> tg.Tensor:
        return x * factor

    compiled = tg.compile(plain)
    for factor in (2.0, 2.0, 3.0, 3.0, 2.0):
        same(tensor(3) * factor, compiled(tensor(3)))


def test_shapes_dtypes_and_strides_get_programs_of_their_own() -> None:
    compiled = tg.compile(lambda x: x.tanh().sum(0))
    for made in (
        tensor(3, 4),
        tensor(5, 4),
        tensor(3, 4, dtype=np.float64),
        tensor(4, 3).T,
        tensor(8, 4)[::2],
    ):
        for _ in range(3):
            same(made.tanh().sum(0), compiled(made))
    assert len(recordings(compiled)) == 5


def test_constants_made_inside_are_new_each_time() -> None:
    compiled = tg.compile(lambda x: (tg.ones(3), x + tg.arange(3)))
    for _ in range(3):
        ones, total = compiled(tensor(3))
        assert ones.tolist() == [1, 1, 1]
        ones.zero_()
        same(tensor(3) + tg.arange(3), total)


def test_decorator_methods_and_names() -> None:
    class Model:
        weight = 2.0

        @tg.compile
        def double(self, x: tg.Tensor) -> tg.Tensor:
            """Twice."""
            return x * 2

    model = Model()
    assert model.double.func.__doc__ == "Twice."
    for _ in range(3):
        same(tensor(3) * 2, model.double(tensor(3)))


def test_arguments_that_share_memory() -> None:
    compiled = tg.compile(lambda a, b: a * 2 + b)
    base = tensor(6, 4)
    for k in range(3):
        a, b = base[2 * k : 2 * k + 2, :3], base[2 * k : 2 * k + 2, 1:]
        same(a * 2 + b, compiled(a, b))
    other = tensor(6, 4, seed=3)
    same(base[:2, :3] * 2 + other[:2, 1:], compiled(base[:2, :3], other[:2, 1:]))
    x = tensor(2, 3)
    for _ in range(3):
        same(x * 3, compiled(x, x))


def test_arguments_are_changed_in_place() -> None:
    @tg.compile
    def grow(x: tg.Tensor) -> None:
        x.mul_(2).add_(1)

    x, expected = tensor(4), tensor(4)
    for _ in range(4):
        grow(x)
        expected.mul_(2).add_(1)
        same(expected, x)


# -- gradients --------------------------------------------------------------------------------------------


def test_value_and_grad() -> None:
    def plain(w: tg.Tensor, x: tg.Tensor) -> Any:
        loss = ((x @ w).tanh() ** 2).mean()
        return loss, tg.autograd.grad(loss, w)[0]

    compiled = tg.compile(plain)
    for seed in range(4):
        w, x = tensor(4, 3, seed=seed, grad=True), tensor(8, 4, seed=seed + 3)
        for a, b in zip(plain(w, x), compiled(w, x), strict=True):
            same(a, b)
        assert w.grad is None


@pytest.mark.parametrize("cleared", ["inside", "outside", "never", "zeros"])
def test_grad_of_leaves_accumulates_as_in_eager_mode(cleared: str) -> None:
    def make() -> tuple[tg.Tensor, Callable[[tg.Tensor], Any]]:
        w = tensor(3, grad=True)

        def step(x: tg.Tensor) -> Any:
            if cleared == "inside":
                w.grad = None
            if cleared == "zeros" and w.grad is not None:
                w.grad.zero_()
            loss = (w * x).sin().sum()
            loss.backward()
            return loss

        return w, step

    (w, plain), (v, fn) = make(), make()
    compiled = tg.compile(fn)
    held = []
    for seed in range(6):
        x = tensor(3, seed=seed)
        if cleared == "outside":
            w.grad = v.grad = None
        same(plain(x), compiled(x))
        same(w.grad, v.grad)
        held.append((v.grad, v.grad.clone()))
        if cleared in ("inside", "outside"):  # gradients that somebody holds keep their values
            for grad, copy in held:
                assert grad.tolist() == copy.tolist()


def test_higher_derivatives() -> None:
    def plain(x: tg.Tensor) -> tg.Tensor:
        (g,) = tg.autograd.grad((x**3).sum(), x, create_graph=True)
        (h,) = tg.autograd.grad((g * g).sum(), x)
        return h

    compiled = tg.compile(plain)
    for seed in range(3):
        x = tensor(5, seed=seed, dtype=np.float64, grad=True)
        same(plain(x), compiled(x), 1e-12)


def test_several_losses_and_retain_graph() -> None:
    w, v = tensor(3, grad=True), tensor(3, grad=True)

    def step(leaf: tg.Tensor, x: tg.Tensor) -> None:
        leaf.grad = None
        y = leaf * x
        y.sum().backward(retain_graph=True)
        (y * y).sum().backward()

    compiled = tg.compile(lambda x: step(v, x))
    for seed in range(4):
        x = tensor(3, seed=seed)
        step(w, x)
        compiled(x)
        same(w.grad, v.grad)


# -- training steps -----------------------------------------------------------------------------------------

OPTIMIZERS: dict[str, Callable[..., Any]] = {
    "SGD": lambda p: tg.optim.SGD(p, 0.1, weight_decay=0.01),
    "momentum": lambda p: tg.optim.SGD(p, 0.1, momentum=0.9, nesterov=True),
    "Adam": lambda p: tg.optim.Adam(p, 1e-2),
    "AdamW": lambda p: tg.optim.AdamW(p, 1e-2, amsgrad=True),
    "NAdam": lambda p: tg.optim.NAdam(p),
    "RAdam": lambda p: tg.optim.RAdam(p),
    "Adamax": lambda p: tg.optim.Adamax(p),
    "Adagrad": lambda p: tg.optim.Adagrad(p),
    "Adadelta": lambda p: tg.optim.Adadelta(p),
    "RMSprop": lambda p: tg.optim.RMSprop(p, momentum=0.5, centered=True),
    "Rprop": lambda p: tg.optim.Rprop(p),
    "ASGD": lambda p: tg.optim.ASGD(p),
}


def trained(
    optimizer: Callable[..., Any], compiled: bool, without: tuple[str, ...] = (), steps: int = 12
) -> Any:
    """Losses, parameters and state after some steps of a small network, with a schedule and two sizes of batches."""
    tg.manual_seed(3)
    model = nn.Sequential(
        nn.Linear(4, 8), nn.Tanh(), nn.Dropout(0.3), nn.LayerNorm(8), nn.Linear(8, 3)
    ).double()
    opt = optimizer(model.parameters())
    schedule = tg.optim.lr_scheduler.StepLR(opt, 3, 0.5)

    def step(x: tg.Tensor, t: tg.Tensor) -> tg.Tensor:
        opt.zero_grad()
        loss = F.cross_entropy(model(x), t)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        opt.step()
        schedule.step()
        return loss

    run = tg.compile(step, without=without) if compiled else step
    random = np.random.default_rng(0)
    losses = []
    for k in range(steps):
        n = 5 if k % 4 == 3 else 8
        x, t = random.standard_normal((n, 4)), random.integers(0, 3, n)
        losses.append(run(tg.from_numpy(x), tg.from_numpy(t)).item())
    return losses, list(model.parameters()), opt, schedule.get_last_lr()


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_whole_steps_train_as_eager_ones(name: str) -> None:
    losses, params, opt, rate = trained(OPTIMIZERS[name], False)
    found, ours, own, mine = trained(OPTIMIZERS[name], True)
    np.testing.assert_allclose(found, losses, rtol=1e-9)
    assert mine == rate
    for p, q in zip(params, ours, strict=True):
        same(p, q, 1e-9)
        same(p.grad, q.grad, 1e-9)
        for key, value in opt.state[p].items():
            same(value, own.state[q][key], 1e-9)


@pytest.mark.parametrize("without", [*[(p.__name__,) for p in PASSES], tuple(p.__name__ for p in PASSES)])
def test_every_pass_can_be_left_out(without: tuple[str, ...]) -> None:
    losses, params, *_ = trained(OPTIMIZERS["Adam"], False)
    found, ours, *_ = trained(OPTIMIZERS["Adam"], True, without)
    np.testing.assert_allclose(found, losses, rtol=1e-9)
    for p, q in zip(params, ours, strict=True):
        same(p, q, 1e-9)


def test_options_of_the_optimizer_are_read_at_every_step() -> None:
    w, v = tensor(3, grad=True), tensor(3, grad=True)
    a, b = tg.optim.SGD([w], 0.1), tg.optim.SGD([v], 0.1)

    def step(leaf: tg.Tensor, opt: Any) -> None:
        opt.zero_grad()
        (leaf * leaf).sum().backward()
        opt.step()

    compiled = tg.compile(lambda: step(v, b))
    for k in range(8):
        for opt in (a, b):
            opt.param_groups[0].update(lr=0.1 / (k + 1), weight_decay=0.01 * (k // 3), maximize=k == 6)
        step(w, a)
        compiled()
        same(w, v)


def test_state_that_was_loaded_is_used() -> None:
    w = tensor(3, grad=True)
    opt = tg.optim.Adam([w], 0.1)

    @tg.compile
    def step() -> None:
        opt.zero_grad()
        (w * w).sum().backward()
        opt.step()

    def advanced() -> np.ndarray:
        for _ in range(3):
            step()
        return w.detach().numpy().copy()

    advanced()
    saved = [w.detach().clone(), opt.state_dict()]
    saved = [saved[0], __import__("copy").deepcopy(saved[1])]
    first = advanced()
    with tg.no_grad():
        w.copy_(saved[0])
    opt.load_state_dict(saved[1])
    np.testing.assert_array_equal(advanced(), first)


def test_two_networks_and_optimizers() -> None:
    def losses(compiled: bool) -> list[float]:
        tg.manual_seed(0)
        g, d = nn.Linear(2, 3).double(), nn.Linear(3, 1).double()
        og, od = tg.optim.Adam(g.parameters(), 0.01), tg.optim.SGD(d.parameters(), 0.1, momentum=0.5)

        def step(noise: tg.Tensor, real: tg.Tensor) -> Any:
            fake = g(noise)
            od.zero_grad()
            cost = F.softplus(-d(real)).mean() + F.softplus(d(fake.detach())).mean()
            cost.backward()
            od.step()
            og.zero_grad()
            gain = F.softplus(-d(fake)).mean()
            gain.backward()
            og.step()
            return cost, gain

        run = tg.compile(step) if compiled else step
        random = np.random.default_rng(1)
        return [
            x.item()
            for _ in range(8)
            for x in run(
                tg.from_numpy(random.standard_normal((4, 2))), tg.from_numpy(random.standard_normal((4, 3)))
            )
        ]

    np.testing.assert_allclose(losses(True), losses(False), rtol=1e-9)


def test_batch_norm_moves_its_buffers_and_modes_have_programs_of_their_own() -> None:
    a, b = nn.BatchNorm1d(3), nn.BatchNorm1d(3)
    compiled = tg.compile(lambda x: b(x))
    for k in range(9):
        training = k % 3 != 2
        a.train(training), b.train(training)
        x = tensor(6, 3, seed=k)
        same(a(x), compiled(x))
        for p, q in zip(a.buffers(), b.buffers(), strict=True):
            same(p, q)
    assert len(recordings(compiled)) == 2


def test_random_numbers_are_those_of_eager_mode() -> None:
    def plain(x: tg.Tensor) -> tg.Tensor:
        return F.dropout(x, 0.5) + tg.rand(4) + tg.randn(4) * tg.bernoulli(tg.full((4,), 0.5))

    compiled = tg.compile(plain)
    for draw in (plain, compiled):
        tg.manual_seed(5)
        made = [draw(tg.ones(4)).tolist() for _ in range(5)]
        if draw is plain:
            expected, after = made, tg.rand(3).tolist()
    np.testing.assert_allclose(made, expected, rtol=1e-6)
    assert tg.rand(3).tolist() == after
    assert len({tuple(m) for m in made}) == 5


def test_hooks_that_were_there_at_the_recording_are_called_each_time() -> None:
    w = tensor(3, grad=True)
    seen: list[Any] = []
    w.register_hook(lambda g: (seen.append(g.tolist()), g * 2)[1])
    after: list[Any] = []
    w.register_post_accumulate_grad_hook(lambda leaf: after.append(leaf.grad.tolist()))

    @tg.compile
    def step(x: tg.Tensor) -> None:
        w.grad = None
        (w * x).sum().backward()

    for seed in range(4):
        x = tensor(3, seed=seed)
        step(x)
        same(x * 2, w.grad)
        assert seen[-1] == x.tolist()
        assert after[-1] == w.grad.tolist()
    assert len(seen) == len(after) == 4


# -- what changes outside -----------------------------------------------------------------------------------


def test_parameters_may_be_replaced_and_frozen() -> None:
    model = nn.Linear(2, 1)

    @tg.compile
    def step(x: tg.Tensor) -> tg.Tensor:
        model.zero_grad()
        loss = model(x).sum()
        loss.backward()
        return loss

    x = tensor(3, 2)
    for _ in range(3):
        same(model(x).sum(), step(x))
    model.weight.data = tensor(1, 2, seed=4)
    for _ in range(3):
        same(model(x).sum(), step(x))
    model.bias.requires_grad_(False)
    for _ in range(3):
        step(x)
        assert model.bias.grad is None
        assert model.weight.grad is not None


def test_tensors_and_attributes_from_outside_may_be_replaced() -> None:
    w, rest = tensor(3), [tensor(3, seed=1)]
    compiled = tg.compile(lambda x: x * w + rest[0])
    for k in range(6):
        if k == 2:
            w = tensor(3, seed=5)
        if k == 4:
            rest[0] = tensor(3, seed=6)
        same(tensor(3) * w + rest[0], compiled(tensor(3)))

    model = nn.Sequential(nn.LeakyReLU(0.1), nn.Linear(3, 2))
    run = tg.compile(lambda x: model(x))
    for k in range(8):
        if k == 2:
            model[0].negative_slope = 0.5
        if k == 4:
            model[1] = nn.Linear(3, 2)
        if k == 6:
            model[1].weight = nn.Parameter(tensor(2, 3, seed=8))
        same(model(tensor(5, 3)), run(tensor(5, 3)))


def test_a_compiled_module_is_still_one_to_its_users() -> None:
    model = nn.Linear(2, 3)
    compiled = tg.compile(model)
    opt = tg.optim.SGD(compiled.parameters(), 0.1)
    for _ in range(3):
        opt.zero_grad()
        compiled(tensor(4, 2)).sum().backward()
        opt.step()
        same(model(tensor(4, 2)), compiled(tensor(4, 2)))
    with pytest.raises(AttributeError, match="nothing"):
        _ = compiled.nothing


def test_setting_a_tensor_on_a_module_is_refused() -> None:
    class Keeps(nn.Module):
        def forward(self, x: tg.Tensor) -> tg.Tensor:
            self.last = x * 2
            return self.last

    with pytest.raises(RecordingError, match="copy_ into a buffer"):
        tg.compile(Keeps())(tensor(3))


def test_grad_modes_have_programs_of_their_own() -> None:
    w = tensor(3, grad=True)
    compiled = tg.compile(lambda x: (w * x).sum())
    for _ in range(3):
        with tg.no_grad():
            assert not compiled(tensor(3)).requires_grad


def test_replays_from_several_threads() -> None:
    compiled = tg.compile(lambda x: (x.exp() / x.exp().sum(1, keepdim=True)) @ x.T)
    xs = [tensor(16, 16, seed=s) for s in range(4)]
    expected = [compiled(x).numpy().copy() for x in xs]
    expected = [compiled(x).numpy().copy() for x in xs]
    wrong: list[int] = []

    def work(j: int) -> None:
        for _ in range(200):
            if not np.array_equal(compiled(xs[j]).numpy(), expected[j]):
                wrong.append(j)

    threads = [threading.Thread(target=work, args=(j,)) for j in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_many_sizes_leave_memory_and_kernels_alone() -> None:
    from tapegrad.kernels import jit

    compiled = tg.compile(lambda x: (x.tanh() * 2).sum(1).exp())
    for n in range(1, 100):
        compiled(tensor(n, 3)), compiled(tensor(n, 3))
    gc.collect()
    kernels, kept = len(jit._from_text), len(recordings(compiled))
    for n in range(100, 300):
        compiled(tensor(n, 3)), compiled(tensor(n, 3))
    assert len(jit._from_text) == kernels
    assert len(recordings(compiled)) == kept


# -- errors -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: x * x.sum().item(),
        lambda x: x if x.sum() > 0 else -x,
        lambda x: tg.tensor(x.numpy() * 2),
        lambda x: x[x > 0],
        lambda x: x.unique(),
        lambda x: x * float(x[0]),
        lambda x: tg.tensor([x[0], x[1]]),
        lambda x: tg.manual_seed(0) and x,
    ],
)
def test_what_needs_values_is_an_error_that_names_the_line(fn: Callable[..., Any]) -> None:
    with pytest.raises(RecordingError, match=r"test_compile\.py:\d+"):
        tg.compile(fn)(tensor(3))
    same(tensor(3) * 2, tensor(3) * 2)  # and nothing is left behind
    with pytest.warns(RuntimeWarning, match="runs eagerly"):
        eager = tg.compile(fn, fallback="eager")(tensor(3))
    same(fn(tensor(3)), eager)


def test_bad_values_raise_as_in_eager_mode() -> None:
    embedding = nn.Embedding(4, 2)
    compiled = tg.compile(
        lambda x, i, t: (embedding(i).sum() + F.cross_entropy(x, t), x.gather(1, i[:, None]))
    )
    x, good = tensor(3, 3), tg.tensor([0, 1, 2])
    for _ in range(2):
        compiled(x, good, good)
    with pytest.raises(IndexError):
        compiled(x, good, tg.tensor([0, 1, 7]))
    with pytest.raises(IndexError):
        compiled(x, tg.tensor([0, 1, 9]), good)
    same(compiled(x, good, good)[0], embedding(good).sum() + F.cross_entropy(x, good))


def test_exceptions_of_the_function_pass_through() -> None:
    @tg.compile
    def broken(x: tg.Tensor) -> tg.Tensor:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        broken(tensor(3))
    same(tensor(3) + 1, tensor(3) + 1)
    assert not tg.kernels.recording.active


def test_wrong_arguments_of_compile() -> None:
    with pytest.raises(ValueError, match="there is no pass nothing"):
        tg.compile(lambda x: x, without=["nothing"])
    with pytest.raises(ValueError, match="choose None or 'eager'"):
        tg.compile(lambda x: x, fallback="silent")
    with pytest.raises(TypeError, match="takes a function"):
        tg.compile(3)


# -- looking inside -------------------------------------------------------------------------------------------


def test_report_tape_and_kernels() -> None:
    @tg.compile
    def chain(x: tg.Tensor) -> tg.Tensor:
        return (x * 2 + 1).tanh().sum()

    with pytest.raises(RuntimeError, match="has not been called"):
        _ = chain.tape
    chain(tensor(10)), chain(tensor(10))
    assert "mul + add + tanh" in repr(chain.tape)
    assert "test_compile.py" in repr(chain.tape)
    assert any("tanh_f4" in text for text in chain.kernels.values())
    report = chain.report(profile=True)
    assert "fuse" in report
    assert "us" in report


def test_fusion_makes_one_loop_of_a_chain_and_its_derivative() -> None:
    @tg.compile
    def chain(x: tg.Tensor) -> Any:
        y = F.gelu(x * 2) * x.sigmoid() + x.tanh()
        return y.detach(), tg.autograd.grad(y, x, tg.ones_like(y))[0]

    for seed in range(3):
        chain(tensor(50, seed=seed, grad=True))
    assert [s.kind for s in chain.tape] == ["map"]


def test_compiling_can_be_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tg.config, "compiling", False)
    seen = []
    fn = tg.compile(lambda x: seen.append(1) or x * 2)
    for _ in range(3):
        fn(tensor(2))
    assert len(seen) == 3


def test_warnings_are_not_raised_by_replays() -> None:
    compiled = tg.compile(lambda x: (x / 0).sum())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(3):
            compiled(tensor(3))


# -- differentiated outside -----------------------------------------------------------------------------------


def test_results_can_be_differentiated_outside() -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3)).double()
    compiled = tg.compile(lambda x, t: (F.cross_entropy(model(x), t), model(x)))
    for seed in range(4):
        x = tensor(5, 4, seed=seed, dtype=np.float64, grad=True)
        t = tg.from_numpy(np.random.default_rng(seed).integers(0, 3, 5))
        found = []
        for run in (lambda x, t: (F.cross_entropy(model(x), t), model(x)), compiled):
            model.zero_grad()
            x.grad = None
            loss, out = run(x * 2, t)
            (loss * 3 + out.sum() * 0.1).backward()
            found.append([loss, x.grad.clone(), *[p.grad.clone() for p in model.parameters()]])
        for a, b in zip(*found, strict=True):
            same(a, b, 1e-9)


def test_graphs_of_several_calls_are_alive_at_once() -> None:
    w = tensor(3, grad=True, dtype=np.float64)
    compiled = tg.compile(lambda x: (w * x).sin() * F.dropout(x, 0.5))
    tg.manual_seed(0)
    xs = [tensor(3, seed=s, dtype=np.float64) for s in range(4)]
    outs = [compiled(x) for x in xs]
    grads = [tg.autograd.grad(o.sum(), w)[0] for o in reversed(outs)][::-1]
    tg.manual_seed(0)
    for x, g in zip(xs, grads, strict=True):
        expected = tg.autograd.grad(((w * x).sin() * F.dropout(x, 0.5)).sum(), w)[0]
        same(expected, g, 1e-12)


def test_rules_of_the_tape_hold_for_compiled_results() -> None:
    w = tensor(3, grad=True)
    compiled = tg.compile(lambda x: (w * x).exp())
    for _ in range(3):
        out = compiled(tensor(3))
    assert out.requires_grad
    assert not out.is_leaf
    assert out.grad_fn.name() == "CompiledBackward"
    out.sum().backward(retain_graph=True)
    out.sum().backward()
    same(2 * tensor(3) * out, w.grad)
    with pytest.raises(RuntimeError, match="a second time"):
        out.sum().backward()
    out = compiled(tensor(3))
    out.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an in-place operation"):
        out.sum().backward()
    out = compiled(tensor(3))
    with tg.no_grad():
        w.add_(1)
    with pytest.raises(RuntimeError, match="modified by an in-place operation"):
        out.sum().backward()
    out = compiled(tensor(3))
    with pytest.raises(RuntimeError, match="Compile the function that takes both"):
        tg.autograd.grad(out.sum(), w, create_graph=True)


def test_a_loss_whose_graph_was_used_up_inside_says_so() -> None:
    w = tensor(3, grad=True)

    @tg.compile
    def step(x: tg.Tensor) -> tg.Tensor:
        w.grad = None
        loss = (w * x).exp().sum()
        loss.backward()
        return loss

    for _ in range(3):
        loss = step(tensor(3))
        assert loss.requires_grad
        with pytest.raises(RuntimeError, match="a second time"):
            loss.backward()


def test_searchsorted_goes_by_the_sorter_of_each_run() -> None:
    def places(s: Any, v: Any, order: Any) -> Any:
        return tg.searchsorted(s, v, sorter=order)

    compiled = tg.compile(places)
    for seed in range(3):
        s, v = tg.randn(10, generator=tg.Generator().manual_seed(seed)), tg.linspace(-2, 2, 7)
        order = s.sort()[1]
        assert compiled(s, v, order).tolist() == places(s, v, order).tolist()
    with pytest.raises((RuntimeError, IndexError), match="out of"):
        compiled(s, v, order + 5)
