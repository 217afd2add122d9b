"""Compiled functions beside eager ones while anything happens around them, in any order."""

from __future__ import annotations

import contextlib
import random
from typing import Any

import pytest

import tapegrad as tg
from tapegrad import nn
from tapegrad.kernels.recording import RecordingError
from tests.native.calls import double, same


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
    history: list[Any] = []
    kept: list[Any] = []
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
        if number == 0 and at % 3 and isinstance(results[0], tuple):
            for out, *_ in results:  # differentiated outside
                if out.requires_grad:
                    out.tanh().sum().backward()
        kept.append(results)
        try:
            same(*results)
            same(eager.seen(), compiled.seen())
        except AssertionError as err:
            raise AssertionError(f"step {at}: {history[-5:]}") from err
    for results in kept:  # what was handed out changes only as it does in eager mode
        same(*results)
