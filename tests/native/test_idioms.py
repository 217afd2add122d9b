"""What people write in training steps does the same compiled: each idiom makes a step around a small network."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapegrad as tg
import tapegrad.nn.functional as F
from tapegrad import nn
from tapegrad.utils.checkpoint import checkpoint

Step = Callable[[tg.Tensor], Any]


class TripleSlope(tg.autograd.Function):
    """x * x with another derivative."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return 3 * g * x


def backward_of(m: nn.Module, loss_of: Callable[[tg.Tensor], Any]) -> Step:
    def step(x: tg.Tensor) -> Any:
        m.zero_grad()
        loss = loss_of(x)
        loss.backward()
        return loss.detach()

    return step


def descent(m: nn.Module, optimizer: Any, after: Callable[[], Any] = lambda: None) -> Step:
    def step(x: tg.Tensor) -> Any:
        optimizer.zero_grad()
        loss = m(x).square().mean()
        loss.backward()
        optimizer.step()
        after()
        return loss.detach()

    return step


def in_parts(m: nn.Module) -> Step:
    optimizer = tg.optim.SGD(m.parameters(), 0.1)

    def step(x: tg.Tensor) -> Any:
        total = tg.zeros((), dtype=tg.float64)
        for part in (x, x * 2):
            loss = m(part).square().mean() / 2
            loss.backward()
            total += loss.detach()
        optimizer.step()
        optimizer.zero_grad()
        return total

    return step


def by_hand(m: nn.Module) -> Step:
    def step(x: tg.Tensor) -> Any:
        loss = m(x).square().mean()
        grads = tg.autograd.grad(loss, list(m.parameters()))
        with tg.no_grad():
            for p, g in zip(m.parameters(), grads, strict=True):
                p.sub_(0.1 * g)
        return loss.detach()

    return step


def through_data(m: nn.Module) -> Step:
    def step(x: tg.Tensor) -> Any:
        m.zero_grad()
        loss = m(x).square().mean()
        loss.backward()
        for p in m.parameters():
            p.data -= 0.1 * p.grad
        return loss.detach()

    return step


def groups(m: Any) -> Step:
    optimizer = tg.optim.AdamW(
        [{"params": m[0].parameters(), "lr": 0.1}, {"params": m[2].parameters(), "weight_decay": 0.3}],
        lr=0.01,
    )
    return descent(m, optimizer)


def moving_average(m: nn.Module) -> Step:
    other = copy.deepcopy(m)

    def move() -> None:
        with tg.no_grad():
            for p, q in zip(other.parameters(), m.parameters(), strict=True):
                p.mul_(0.9).add_(q, alpha=0.1)

    inner = descent(m, tg.optim.SGD(m.parameters(), 0.1), move)
    return lambda x: (inner(x), other(x).detach())


def target_network(m: nn.Module) -> Step:
    target, optimizer = copy.deepcopy(m), tg.optim.Adam(m.parameters(), 0.1)

    def step(x: tg.Tensor) -> Any:
        with tg.no_grad():
            best = target(x).max(1)[0]
        chosen = m(x).gather(1, tg.zeros(len(x), 1, dtype=tg.long)).squeeze(1)
        loss = F.smooth_l1_loss(chosen, best)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        for p, q in zip(target.parameters(), m.parameters(), strict=True):
            p.data.lerp_(q.data, 0.05)
        return loss.detach()

    return step


def inner_step(m: Any) -> Step:
    optimizer = tg.optim.SGD(m.parameters(), 0.1)

    def step(x: tg.Tensor) -> Any:
        w, b = m[0].weight, m[0].bias
        gw, gb = tg.autograd.grad(F.linear(x, w, b).square().mean(), [w, b], create_graph=True)
        loss = F.linear(x, w - 0.1 * gw, b - 0.1 * gb).sin().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def counting(m: nn.Module) -> Step:
    m.register_buffer("count", tg.zeros((), dtype=tg.long))

    def step(x: tg.Tensor) -> Any:
        m.count += 1
        return x * m.count

    return step


def frozen(m: Any) -> Step:
    m[0].requires_grad_(False)
    return descent(m, tg.optim.Adam([p for p in m.parameters() if p.requires_grad], 0.1))


def scheduled(m: nn.Module) -> Step:
    optimizer = tg.optim.SGD(m.parameters(), 0.1, momentum=0.9)
    return descent(m, optimizer, tg.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, 20).step)


def both_modes(m: nn.Module) -> Step:
    drop = nn.Dropout(0.5)

    def step(x: tg.Tensor) -> Any:
        drop.eval()
        calm = drop(x)
        drop.train()
        return calm + drop(x)

    return step


def hooked(m: Any) -> Step:
    m[0].register_forward_hook(lambda module, args, out: out * 2)
    m[0].register_full_backward_hook(lambda module, into, out: None)
    return backward_of(m, lambda x: m(x).sum())


def norms(m: nn.Module) -> Step:
    def step(x: tg.Tensor) -> Any:
        m.zero_grad()
        m(x).square().mean().backward()
        norm = nn.utils.clip_grad_norm_(m.parameters(), 0.5)
        return norm, nn.utils.parameters_to_vector([p.grad for p in m.parameters()])

    return step


functional = tg.autograd.functional
IDIOMS: dict[str, Callable[[Any], Step]] = {
    "checkpoint": lambda m: backward_of(m, lambda x: checkpoint(m, x, use_reentrant=False).square().sum()),
    "Function": lambda m: backward_of(m, lambda x: TripleSlope.apply(m(x)).sum()),
    "in parts": in_parts,
    "by hand": by_hand,
    "through data": through_data,
    "groups": groups,
    "moving average": moving_average,
    "target network": target_network,
    "inner step": inner_step,
    "counting": counting,
    "frozen": frozen,
    "scheduled": scheduled,
    "both modes": both_modes,
    "hooks": hooked,
    "norms": norms,
    "compiled inside": lambda m: backward_of(m, tg.compile(lambda x: m(x).tanh().sum())),
    "jacobian": lambda m: lambda x: functional.jacobian(lambda v: m(v).sum(0), x),
    "vjp": lambda m: lambda x: functional.vjp(lambda v: m(v).sum(0), x, tg.ones(2, dtype=tg.float64))[1],
    "jvp": lambda m: lambda x: functional.jvp(lambda v: m(v).sum(0), x, tg.ones_like(x))[1],
    "hvp": lambda m: lambda x: functional.hvp(lambda v: m(v).square().sum(), x, tg.ones_like(x))[1],
}


@pytest.mark.parametrize("name", IDIOMS)
def test_idioms(name: str) -> None:
    steps, networks = [], []
    for _ in range(2):
        tg.manual_seed(0)
        networks.append(nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 2)).double())
        steps.append(IDIOMS[name](networks[-1]))
    plain, compiled = steps[0], tg.compile(steps[1])
    for k in range(5):
        x = np.random.default_rng(k).standard_normal((4 + (k == 2), 3))
        shown = []
        for step, network in zip((plain, compiled), networks, strict=True):
            tg.manual_seed(k)
            made = step(tg.tensor(x))
            seen = [*(made if isinstance(made, tuple) else [made]), *network.parameters(), *network.buffers()]
            shown.append(
                [t.detach().numpy().copy() for t in [*seen, *[p.grad for p in seen if p.grad is not None]]]
            )
        assert len(shown[0]) == len(shown[1])
        for a, b in zip(*shown, strict=True):
            np.testing.assert_allclose(b, a, rtol=1e-9, atol=1e-10)
    # Gradients that are not there yet are another start than those that are.
    assert 2 <= sum(len(found) for found in compiled.recordings.values()) <= 3
