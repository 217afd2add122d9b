"""nn.utils.prune beside PyTorch."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch.nn.utils import prune as _  # noqa: E402, F401  # only loaded when asked for

import tapegrad as tg  # noqa: E402

from .oracle import agree  # noqa: E402

WEIGHT = np.random.default_rng(0).normal(size=(4, 6))


def linear(lib):
    layer = lib.nn.Linear(6, 4).double()
    layer.load_state_dict({"weight": lib.tensor(WEIGHT), "bias": lib.tensor([0.5, -2.0, 1.0, -0.1]).double()})
    return layer


def state(layer):
    return {k: np.round(v.detach().numpy(), 12).tolist() for k, v in layer.state_dict().items()}


def after(lib, layer):
    """The state, the weight, and gradients of a use."""
    layer(lib.ones(2, 6, dtype=lib.float64)).sum().backward()
    grads = {n: p.grad.tolist() for n, p in layer.named_parameters()}
    return state(layer), layer.weight.tolist(), grads, lib.nn.utils.prune.is_pruned(layer)


WAYS = {
    "identity": lambda p, m: p.identity(m, "weight"),
    "share": lambda p, m: p.l1_unstructured(m, "weight", 0.3),
    "number": lambda p, m: p.l1_unstructured(m, "weight", 5),
    "nothing": lambda p, m: p.l1_unstructured(m, "weight", 0),
    "bias": lambda p, m: p.l1_unstructured(m, "bias", 2),
    "rows": lambda p, m: p.ln_structured(m, "weight", 0.5, 2, 0),
    "columns": lambda p, m: p.ln_structured(m, "weight", 2, 1, -1),
    "largest": lambda p, m: p.ln_structured(m, "weight", 2, float("inf"), 1),
    "twice": lambda p, m: p.l1_unstructured(p.l1_unstructured(m, "weight", 4), "weight", 0.5),
    "rows, then elements": lambda p, m: p.l1_unstructured(p.ln_structured(m, "weight", 1, 2, 0), "weight", 3),
    "elements, then rows": lambda p, m: p.ln_structured(p.l1_unstructured(m, "weight", 3), "weight", 1, 2, 0),
}


@pytest.mark.parametrize("way", WAYS)
def test_as_pytorch(way):
    def seen(lib):
        layer = linear(lib)
        WAYS[way](lib.nn.utils.prune, layer)
        first = after(lib, layer)
        layer.zero_grad()
        lib.nn.utils.prune.remove(layer, "bias" if way == "bias" else "weight")
        return first, after(lib, layer), repr(layer)

    agree(seen)


def test_by_a_mask_and_by_scores():
    def seen(lib):
        prune, layer = lib.nn.utils.prune, linear(lib)
        prune.custom_from_mask(layer, "weight", lib.tensor(WEIGHT > 0))
        scored = prune.l1_unstructured(
            linear(lib), "weight", 5, importance_scores=lib.tensor(WEIGHT[::-1].copy())
        )
        rows = prune.ln_structured(linear(lib), "weight", 2, 2, 0, lib.tensor(WEIGHT[::-1].copy()))
        values = prune.L1Unstructured(3).prune(lib.tensor(WEIGHT))
        return after(lib, layer), after(lib, scored), after(lib, rows), values.tolist()

    agree(seen)


def test_over_several_parameters():
    def seen(lib):
        prune = lib.nn.utils.prune
        net = lib.nn.Sequential(linear(lib), linear(lib))
        with lib.no_grad():
            net[1].weight.mul_(0.5)
        pairs = [(net[0], "weight"), (net[1], "weight"), (net[1], "bias")]
        prune.global_unstructured(pairs, prune.L1Unstructured, amount=0.3)
        first = state(net)
        prune.global_unstructured(pairs, prune.L1Unstructured, amount=4)
        return first, state(net), prune.is_pruned(net), prune.is_pruned(lib.nn.Linear(2, 2))

    agree(seen)


@pytest.mark.parametrize("amount", [0.25, 6])
def test_at_random(amount):
    prune = tg.nn.utils.prune
    layer = prune.random_unstructured(linear(tg), "weight", amount)
    assert (layer.weight == 0).sum() == 6
    layer = prune.random_structured(linear(tg), "weight", 2, 1)
    assert ((layer.weight == 0).sum(0) == 4).sum() == 2
    tg.manual_seed(0)
    first = prune.random_unstructured(linear(tg), "weight", amount).weight_mask
    tg.manual_seed(0)
    assert (prune.random_unstructured(linear(tg), "weight", amount).weight_mask == first).all()


def test_an_own_method_and_containers():
    def seen(lib):
        prune = lib.nn.utils.prune

        class EveryOther(prune.BasePruningMethod):
            PRUNING_TYPE = "unstructured"

            def compute_mask(self, t, default_mask):
                mask = default_mask.clone()
                mask.view(-1)[::2] = 0
                return mask

        layer = linear(lib)
        hook = EveryOther.apply(layer, "weight")
        again = EveryOther.apply(layer, "weight")
        kinds = type(hook).__name__, type(again).__name__, len(again), type(again[1]).__name__
        return after(lib, layer), kinds, [type(m).__name__ for m in again]

    agree(seen)


def test_training_moves_what_is_left():
    layer = tg.nn.utils.prune.l1_unstructured(linear(tg), "weight", 0.5)
    optimizer = tg.optim.SGD(layer.parameters(), lr=0.1)
    before = layer.weight.detach().clone()
    layer(tg.ones(2, 6, dtype=tg.float64)).square().sum().backward()
    optimizer.step()
    layer(tg.ones(2, 6, dtype=tg.float64))
    assert ((layer.weight == 0) == (before == 0)).all()
    assert ((layer.weight != before) == (before != 0)).all()


@pytest.mark.parametrize("twin", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_copies(twin):
    layer = tg.nn.utils.prune.l1_unstructured(linear(tg), "weight", 0.5)
    with tg.no_grad():
        layer(tg.ones(1, 6, dtype=tg.float64))
    layer.weight = layer.weight.detach()  # a result cannot be copied, as in PyTorch
    other = twin(layer)
    assert tg.nn.utils.prune.is_pruned(other)
    assert state(other) == state(layer)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda p, m, lib: p.l1_unstructured(m, "weight", 1.5),
        lambda p, m, lib: p.l1_unstructured(m, "weight", -1),
        lambda p, m, lib: p.l1_unstructured(m, "weight", "all"),
        lambda p, m, lib: p.l1_unstructured(m, "weight", 25),
        lambda p, m, lib: p.l1_unstructured(m, "nothing", 2),
        lambda p, m, lib: p.ln_structured(m, "bias", 1, 2, 0),
        lambda p, m, lib: p.ln_structured(m, "weight", 1, 2, 2),
        lambda p, m, lib: p.ln_structured(m, "weight", 9, 2, 0),
        lambda p, m, lib: p.remove(m, "weight"),
        lambda p, m, lib: p.l1_unstructured(m, "weight", 1, importance_scores=lib.ones(2)),
        lambda p, m, lib: p.global_unstructured([(m, "weight")], p.LnStructured, amount=1, n=2),
        lambda p, m, lib: p.global_unstructured(3, p.L1Unstructured, amount=1),
        lambda p, m, lib: p.global_unstructured(
            [(m, "weight")], p.L1Unstructured, importance_scores=[1], amount=1
        ),
        lambda p, m, lib: p.PruningContainer().add_pruning_method(3),
    ],
)
def test_errors(wrong):
    def seen(lib):
        layer = linear(lib)
        try:
            wrong(lib.nn.utils.prune, layer, lib)
        finally:
            assert list(layer.state_dict()) == ["weight", "bias"] or lib is torch
        return state(layer)

    agree(seen)
