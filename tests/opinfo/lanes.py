"""One sample on its way through one library: values, gradients, second-order gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import tapegrad as tg

from .samples import Sample, function, rebound


class Beyond(Exception):
    """torch has no second derivative of this."""


class Lane:
    """A library, a call in it, and what came of the call at each stage."""

    def __init__(
        self,
        lib: Any,
        fn: Callable[..., Any],
        args: Any,
        kwargs: Any,
        leaves: list[Any],
        process: Callable[..., Any],
    ) -> None:
        self.lib = lib
        self.call = lambda: process(fn(*args, **kwargs))
        self.leaves = leaves
        self.cotangents: list[Any] = []
        self.values: list[Any] = []
        self.gradients: list[Any] = []
        self.seconds: list[Any] = []

    def forward(self) -> list[Any]:
        """The tensors and numbers in the result."""
        self.values = flat(self.call())
        return self.values

    def gradient(self, places: list[int], arrays: list[np.ndarray], more: bool) -> list[Any]:
        """Gradients of some results for given cotangents; recorded if there shall be ``more``."""
        self.cotangents = [self.lib.tensor(a, requires_grad=True) for a in arrays]
        values = [self.values[j] for j in places]
        self.gradients = list(
            self.lib.autograd.grad(values, self.leaves, self.cotangents, create_graph=more, allow_unused=True)
        )
        return self.gradients

    def second(self, directions: list[np.ndarray | None]) -> list[Any]:
        """Gradients of the gradients, with respect to leaves and cotangents."""
        wrt = [*self.leaves, *self.cotangents]
        chosen = [
            (g, self.lib.tensor(d)) for g, d in zip(self.gradients, directions, strict=True)
            if g is not None and d is not None and g.requires_grad
        ]  # fmt: skip
        if not chosen:
            self.seconds = [None] * len(wrt)
            return self.seconds
        try:
            made = self.lib.autograd.grad(
                [g for g, _ in chosen], wrt, [d for _, d in chosen], allow_unused=True
            )
        except RuntimeError as err:
            if self.lib is torch and "is not implemented" in str(err):
                raise Beyond(f"torch: {err}") from None
            raise
        self.seconds = list(made)
        return self.seconds


def ours(info: Any, sample: Sample) -> Lane:
    """The sample in tapegrad."""
    return Lane(tg, function(info), sample.args, sample.kwargs, sample.leaves, rebound(sample.process))


def theirs(info: Any, sample: Sample) -> Lane:
    """The sample in torch."""
    return Lane(torch, info.op, sample.torch_args, sample.torch_kwargs, sample.torch_leaves, sample.process)


def exact(info: Any, sample: Sample) -> Lane:
    """The sample in torch and float64, whatever its own type is."""
    made: dict[int, torch.Tensor] = {}

    def wide(x: Any) -> Any:
        if isinstance(x, torch.Tensor) and x.is_floating_point():
            if id(x) not in made:
                made[id(x)] = x.detach().double().requires_grad_(x.requires_grad)
            return made[id(x)]
        if isinstance(x, (tuple, list)):
            return type(x)(wide(v) for v in x)
        if isinstance(x, dict):
            return {k: wide(v) for k, v in x.items()}
        return x

    args, kwargs = wide(sample.torch_args), wide(sample.torch_kwargs)
    return Lane(torch, info.op, args, kwargs, [wide(x) for x in sample.torch_leaves], sample.process)


def flat(x: Any) -> list[Any]:
    """The tensors and numbers in a result."""
    if isinstance(x, (tuple, list)):
        return [y for item in x for y in flat(item)]
    return [x]
