"""One step of each recurrent cell, and the loop over the steps of a layer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ...ops import shape as shapes
from ...tensor import Tensor
from .. import functional as F

State = tuple[Tensor, ...]


class Weights(NamedTuple):
    """The parameters of one layer in one direction."""

    ih: Tensor
    hh: Tensor
    b_ih: Tensor | None
    b_hh: Tensor | None
    hr: Tensor | None

    @classmethod
    def of(cls, module: Any, names: Sequence[str]) -> Weights:
        """Read them from a module by their names, e.g. "weight_ih_l0"."""
        found = {name.rpartition("_l")[0]: getattr(module, name) for name in names}
        keys = ("weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr")
        return cls(*(found.get(key) for key in keys))  # type: ignore[arg-type]


def tanh(gates: Tensor, state: State, w: Weights) -> State:
    """h' = tanh(gates + W_hh h + b_hh)"""
    return ((gates + F.linear(state[0], w.hh, w.b_hh)).tanh(),)


def relu(gates: Tensor, state: State, w: Weights) -> State:
    """h' = relu(gates + W_hh h + b_hh)"""
    return ((gates + F.linear(state[0], w.hh, w.b_hh)).relu(),)


def lstm(gates: Tensor, state: State, w: Weights) -> State:
    """c' = f c + i g, h' = o tanh(c'), optionally projected."""
    h, c = state
    i, f, g, o = (gates + F.linear(h, w.hh, w.b_hh)).chunk(4, 1)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    h = o.sigmoid() * c.tanh()
    return (h if w.hr is None else F.linear(h, w.hr)), c


def gru(gates: Tensor, state: State, w: Weights) -> State:
    """n = tanh(x_n + r h_n), h' = n + z (h - n)"""
    (h,) = state
    x_r, x_z, x_n = gates.chunk(3, 1)
    h_r, h_z, h_n = F.linear(h, w.hh, w.b_hh).chunk(3, 1)
    r = (x_r + h_r).sigmoid()
    z = (x_z + h_z).sigmoid()
    n = (x_n + r * h_n).tanh()
    return (n + z * (h - n),)


def run(
    cell: Callable[[Tensor, State, Weights], State],
    data: Tensor,
    sizes: Sequence[int] | None,
    weights: Weights,
    state: State,
    reverse: bool,
) -> tuple[Tensor, State]:
    """One layer in one direction: its outputs, in the form of ``data``, and its last state.

    ``data`` is (T, N, F), or (sum of sizes, F) if ``sizes`` gives the number of running sequences per
    step. The inputs' share of the gates is computed for all steps at once.
    """
    gates = F.linear(data, weights.ih, weights.b_ih)
    steps = list(gates.unbind(0) if sizes is None else gates.split(list(sizes)))
    outputs, last = (_backward if reverse else _forward)(cell, steps, weights, state)
    return (shapes.stack(outputs) if sizes is None else shapes.cat(outputs)), last


def _forward(cell: Any, steps: list[Tensor], weights: Weights, state: State) -> tuple[list[Tensor], State]:
    outputs = []
    ended: list[State] = []  # states of sequences that are over, the shortest first
    running = len(state[0])
    for gates in steps:
        if len(gates) < running:
            running = len(gates)
            ended.append(tuple(s[running:] for s in state))
            state = tuple(s[:running] for s in state)
        state = cell(gates, state, weights)
        outputs.append(state[0])
    if ended:
        state = tuple(shapes.cat(parts) for parts in zip(state, *reversed(ended), strict=True))
    return outputs, state


def _backward(cell: Any, steps: list[Tensor], weights: Weights, first: State) -> tuple[list[Tensor], State]:
    outputs = []
    running = len(steps[-1])
    state = tuple(s[:running] for s in first) if running < len(first[0]) else first
    for gates in reversed(steps):
        if len(gates) > running:
            state = tuple(shapes.cat([s, f[running : len(gates)]]) for s, f in zip(state, first, strict=True))
            running = len(gates)
        state = cell(gates, state, weights)
        outputs.append(state[0])
    outputs.reverse()
    return outputs, state
