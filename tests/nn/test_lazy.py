"""Lazy modules: before, at and after their first call, and their saving, beside PyTorch."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref

import numpy as np
import pytest

import tapegrad as tg

torch = pytest.importorskip("torch")

from .oracle import agree  # noqa: E402

LAYERS = [
    ("LazyLinear", (3,), (5, 4)),
    ("LazyLinear", (3, False), (4,)),
    *[(f"LazyConv{d}d", (4, 2), (2, 6, *(5,) * d)) for d in (1, 2, 3)],
    ("LazyConv2d", (4, 2, 1, 1, 1, 2), (6, 5, 5)),
    *[(f"LazyConvTranspose{d}d", (4, 2), (2, 6, *(5,) * d)) for d in (1, 2, 3)],
    *[(f"LazyBatchNorm{d}d", (), (3, 6, *(5,) * d)) for d in (1, 2, 3)],
    ("LazyBatchNorm1d", (1e-3, 0.2, False), (3, 6)),
    ("LazyBatchNorm1d", (1e-3, 0.2, True, False), (3, 6)),
    *[(f"LazyInstanceNorm{d}d", (), (3, 6, *(5,) * d)) for d in (1, 2, 3)],
]


@pytest.mark.parametrize(("name", "args", "shape"), LAYERS, ids=[f"{n}-{a}" for n, a, _ in LAYERS])
def test_as_the_plain_layer_after_the_first_call(name, args, shape):
    mine, theirs = getattr(tg.nn, name)(*args), getattr(torch.nn, name)(*args)
    assert repr(mine) == repr(theirs)
    assert str(mine.state_dict()) == str(theirs.state_dict())
    assert mine.has_uninitialized_params() == theirs.has_uninitialized_params()
    mine.double(), theirs.double()
    x = np.random.default_rng(0).normal(size=shape)
    held = list(mine.parameters())
    mine(tg.tensor(x)), theirs(torch.tensor(x))
    assert type(mine).__name__ == type(theirs).__name__ == name.removeprefix("Lazy")
    assert repr(mine) == repr(theirs)
    assert all(a is b for a, b in zip(held, mine.parameters(), strict=True))
    assert all(p.dtype is tg.float64 for p in held)
    assert {k: tuple(v.shape) for k, v in mine.state_dict().items()} == {
        k: tuple(v.shape) for k, v in theirs.state_dict().items()
    }
    mine.load_state_dict({k: tg.tensor(v.numpy().copy()) for k, v in theirs.state_dict().items()})
    got, want = mine(tg.tensor(x)), theirs(torch.tensor(x))
    np.testing.assert_allclose(got.detach().numpy(), want.detach().numpy(), rtol=1e-9, atol=1e-12)
    assert "_initialize_hook" not in vars(mine)


def test_equal_numbers_as_the_plain_layer_from_one_seed():
    tg.manual_seed(3)
    lazy = tg.nn.LazyConv2d(4, 3)
    lazy(tg.ones(1, 5, 6, 6))
    tg.manual_seed(3)
    plain = tg.nn.Conv2d(5, 4, 3)
    assert (lazy.weight == plain.weight).all()


def test_an_optimizer_made_before_the_first_call_trains_it():
    net = tg.nn.Sequential(tg.nn.LazyLinear(4), tg.nn.ReLU(), tg.nn.LazyLinear(1))
    opt = tg.optim.SGD(net.parameters(), lr=0.1)
    net(tg.ones(2, 3)).sum().backward()
    before = net[2].bias.item()
    opt.step()
    assert net[2].bias.item() == pytest.approx(before - 0.2)


def test_what_may_be_asked_of_uninitialized_parameters():
    def seen(lib):
        p = lib.nn.LazyLinear(2, dtype=lib.float64).weight
        b = lib.nn.LazyBatchNorm1d().running_mean
        return (
            *(repr(p), repr(b), p.requires_grad, b.requires_grad, p.is_floating_point()),
            *(str(p.dtype).split(".")[1], str(p.to(lib.float16).dtype).split(".")[1], p.grad),
            *(
                lib.nn.parameter.is_lazy(p),
                lib.nn.parameter.is_lazy(b),
                lib.nn.parameter.is_lazy(lib.ones(1)),
            ),
            *(isinstance(p, lib.nn.Parameter), type(pickle.loads(pickle.dumps(p))).__name__, p.is_leaf),
        )

    assert seen(tg) == seen(torch)


@pytest.mark.parametrize(
    "use",
    [
        lambda lib, p: p + 1,
        lambda lib, p: p * p,
        lambda lib, p: lib.exp(p),
        lambda lib, p: p.sum(),
        lambda lib, p: lib.cat([p, p]),
        lambda lib, p: p.numel(),
        lambda lib, p: p[0],
        lambda lib, p: p.tolist(),
        lambda lib, p: p.shape,
        lambda lib, p: lib.nn.functional.linear(lib.ones(2, 3), p),
        lambda lib, p: lib.nn.init.normal_(p),
        lambda lib, p: lib.nn.utils.parameters_to_vector([p]),
    ],
)
def test_using_them_is_an_error(use):
    def seen(lib):
        use(lib, lib.nn.LazyLinear(2).weight)

    agree(seen)


def test_errors_of_the_first_call():
    class Forgets(tg.nn.modules.lazy.LazyModuleMixin, tg.nn.Linear):
        def __init__(self):
            super().__init__(1, 1, False)
            self.weight = tg.nn.UninitializedParameter()

        def initialize_parameters(self, input):
            pass

    with pytest.raises(RuntimeError, match="not been fully initialized"):
        Forgets()(tg.ones(1))
    with pytest.raises(NotImplementedError, match="initialize_parameters"):
        tg.nn.modules.lazy.LazyModuleMixin()(1)
    for lib in (tg, torch):
        with pytest.raises(ValueError, match="divisible"):
            lib.nn.LazyConv1d(4, 2, groups=2)(lib.ones(1, 3, 5))
        with pytest.raises(RuntimeError, match="Expected 2D"):
            lib.nn.LazyConv1d(4, 2)(lib.ones(1, 3, 5, 5))


def test_states_of_all_kinds_of_pairs():
    def pair(lib, first, second):
        made = []
        for ready in (first, second):
            net = lib.nn.Sequential(lib.nn.LazyLinear(2), lib.nn.LazyBatchNorm1d())
            if ready:
                net(lib.ones(3, 4))
            made.append(net)
        return made

    def load(lib, first, second):
        source, target = pair(lib, first, second)
        result = target.load_state_dict(source.state_dict())
        again = target(lib.ones(3, 4))
        return repr(result), tuple(again.shape), type(target[0]).__name__

    for first in (False, True):
        for second in (False, True):
            agree(lambda lib, a=first, b=second: load(lib, a, b))


@pytest.mark.parametrize("twin", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_copies_are_lazy_on_their_own(twin):
    lazy = tg.nn.LazyConv1d(4, 2)
    other = twin(lazy)
    other(tg.ones(1, 3, 5))
    assert repr(other) == "Conv1d(3, 4, kernel_size=(2,), stride=(1,))"
    assert lazy.has_uninitialized_params()
    lazy(tg.ones(1, 5, 5))
    assert repr(lazy) == "Conv1d(5, 4, kernel_size=(2,), stride=(1,))"


def test_an_unused_one_is_gone_at_once():
    gc.collect()
    gc.disable()
    try:
        lazy = tg.nn.LazyLinear(3)
        alive = weakref.ref(lazy)
        del lazy
        assert alive() is None
    finally:
        gc.enable()


def test_a_hook_of_a_pickled_module_keeps_its_place():
    linear = tg.nn.Linear(2, 2)
    for key in range(5000, 9000):
        linear._forward_pre_hooks[key] = print
    before = len(linear._forward_pre_hooks)
    handle = linear.register_forward_pre_hook(print)
    assert handle.id not in range(5000, 9000)
    assert len(linear._forward_pre_hooks) == before + 1


def test_frozen_before_the_first_call():
    lazy = tg.nn.LazyLinear(2).requires_grad_(False)
    assert not lazy.weight.requires_grad
    lazy(tg.ones(1, 3))
    assert not any(p.requires_grad for p in lazy.parameters())
    lazy = tg.nn.LazyLinear(2).requires_grad_(False).requires_grad_()
    lazy(tg.ones(1, 3)).sum().backward()
    assert lazy.weight.grad is not None


def test_they_cannot_be_saved(tmp_path):
    with pytest.raises(ValueError, match="uninitialized parameter"):
        tg.save(tg.nn.LazyLinear(2).state_dict(), tmp_path / "file")


def test_a_summary_materializes_them():
    net = tg.nn.Sequential(
        tg.nn.LazyConv1d(4, 3), tg.nn.LazyBatchNorm1d(), tg.nn.Dropout(), tg.nn.Flatten(), tg.nn.LazyLinear(2)
    )
    text = str(tg.summary(net, (2, 3, 8)))
    assert "Conv1d" in text
    assert "Lazy" not in text
    assert net[1].num_batches_tracked.item() == 0
    assert net.training
    assert all(m.training for m in net.modules())
