"""Random programs that run in tapegrad and in PyTorch alike: arithmetic, views, and writes in place.

A program is a list of integers; each step picks an operation and operands from what exists so far. Steps
that an engine refuses must be refused by the other one too, with an error of the same class.
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

SHAPES = [(2, 3), (3,), (2, 1), (1, 3), (), (3, 2), (6,), (2, 3, 1), (4, 3)]


class Machine:
    """The state of one program in one library: tensors made so far, leaves first."""

    def __init__(self, lib: Any, seed: int) -> None:
        self.lib = lib
        rng = np.random.default_rng(seed)
        self.pool: list[Any] = []
        self.leaves: list[Any] = []
        for k in range(4):
            shape = SHAPES[int(rng.integers(len(SHAPES)))]
            array = rng.uniform(0.5, 2.0, shape)
            t = lib.tensor(array.tolist(), dtype=lib.float64 if k != 3 else lib.float32)
            if k < 3:
                t.requires_grad_()
                self.leaves.append(t)
            self.pool.append(t)


def _pick(m: Machine, r: random.Random) -> Any:
    return m.pool[r.randrange(len(m.pool))]


def _dim(t: Any, r: random.Random) -> int:
    return r.randrange(t.dim()) if t.dim() else 0


def _unary(name: str) -> Callable[[Machine, random.Random], Any]:
    return lambda m, r: getattr(_pick(m, r), name)()


def _binary(name: str) -> Callable[[Machine, random.Random], Any]:
    def step(m: Machine, r: random.Random) -> Any:
        a, b = _pick(m, r), _pick(m, r)
        return getattr(a, name)(b)

    return step


def _number(name: str) -> Callable[[Machine, random.Random], Any]:
    def step(m: Machine, r: random.Random) -> Any:
        t, number = _pick(m, r), r.choice([2, 0.5, 1.5, -1, 3])
        return getattr(t, name)(number)

    return step


def _view(m: Machine, r: random.Random) -> Any:
    t = _pick(m, r)
    kind = r.randrange(9)
    if kind == 0:
        return t.transpose(_dim(t, r), _dim(t, r)) if t.dim() else t.unsqueeze(0)
    if kind == 1:
        return t[r.randrange(t.shape[0])] if t.dim() and t.shape[0] else t.unsqueeze(0)
    if kind == 2:
        return t[: r.randrange(1, 3)] if t.dim() else t.unsqueeze(-1)
    if kind == 3:
        return t.reshape(-1)
    if kind == 4:
        return t.view(-1)
    if kind == 5:
        return t.unsqueeze(r.randrange(t.dim() + 1))
    if kind == 6:
        return t.expand(2, *t.shape)
    if kind == 7:
        return t[..., ::2] if t.dim() else t.squeeze()
    return t.squeeze()


def _several(m: Machine, r: random.Random) -> Any:
    t = _pick(m, r)
    kind = r.randrange(4)
    if kind == 0:
        return r.choice(t.unbind(0))
    if kind == 1:
        return r.choice(t.split(1))
    if kind == 2:
        return r.choice(t.chunk(2))
    return m.lib.cat([t, t], 0)


def _write(m: Machine, r: random.Random) -> Any:
    t, v = _pick(m, r), _pick(m, r)
    kind = r.randrange(9)
    if kind == 0:
        return t.mul_(v)
    if kind == 1:
        return t.add_(v)
    if kind == 2:
        return t.copy_(v)
    if kind == 3:
        return t.fill_(1.25)
    if kind == 4:
        return t.mul_(1.5)
    if kind == 5:
        return t.sqrt_()
    if kind == 6:
        t[0] = v
        return t
    if kind == 7:
        t[..., -1] = 0.75
        return t
    return t.sub_(v)


def _cut(m: Machine, r: random.Random) -> Any:
    t = _pick(m, r)
    kind = r.randrange(4)
    if kind == 0:
        return t.detach()
    if kind == 1:
        return t.clone()
    if kind == 2:
        with m.lib.no_grad():
            return t * 2
    return t.double()


def _reduce(m: Machine, r: random.Random) -> Any:
    t = _pick(m, r)
    kind = r.randrange(4)
    if kind == 0:
        return t.sum()
    if kind == 1:
        return t.mean(_dim(t, r), keepdim=True) if t.dim() else t.mean()
    if kind == 2:
        return t.sum(-1) if t.dim() else t.sum()
    return t.sum((0,)) if t.dim() else t.sum()


STEPS: list[Callable[[Machine, random.Random], Any]] = [
    _binary("add"), _binary("mul"), _binary("sub"), _binary("div"), _unary("exp"), _unary("tanh"), _unary("sin"),
    _number("mul"), _number("add"), _number("pow"), _view, _view, _view, _several, _write, _write, _write, _cut, _reduce,
]  # fmt: skip


def run(lib: Any, seed: int) -> list[Any]:
    """Run a program; what it shows is compared between libraries: values, flags, gradients, errors."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return _run(lib, seed)


def _run(lib: Any, seed: int) -> list[Any]:
    r = random.Random(seed)
    m = Machine(lib, seed)
    seen: list[Any] = []
    for _ in range(r.randrange(2, 13)):
        step = r.choice(STEPS)
        state = r.getstate()
        try:
            out = step(m, r)
        except (RuntimeError, IndexError, TypeError, ValueError) as err:
            seen.append(type(err).__name__)
            r.setstate(state)
            r.random()
            continue
        r.setstate(state)
        r.random()
        if out.numel() > 300:
            continue
        m.pool.append(out)
        seen.append(["step", list(out.shape), out.requires_grad, out.is_leaf])
    seen += [[t.requires_grad, t.is_leaf, t.detach().double().reshape(-1).tolist()] for t in m.pool]
    total: Any = 0
    for k, t in enumerate(m.pool):
        total = total + t.double().sum() * (1 + 0.1 * k)
    try:
        grads = lib.autograd.grad(total, m.leaves, create_graph=True, allow_unused=True)
        seen.append([None if g is None else g.detach().tolist() for g in grads])
        live = [g for g in grads if g is not None and g.requires_grad]
        if live:
            second = lib.autograd.grad(sum((g * g).sum() for g in live), m.leaves, allow_unused=True)
            seen.append([None if g is None else g.tolist() for g in second])
    except RuntimeError as err:
        seen.append("backward " + type(err).__name__)
    return seen


def differs(a: Any, b: Any) -> bool:
    """Whether two observations differ; numbers within rounding, NaN equal to NaN."""
    if isinstance(a, list) and isinstance(b, list):
        return len(a) != len(b) or any(differs(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, float) and isinstance(b, float):
        return not (a == b or (a != a and b != b) or abs(a - b) <= 1e-5 * max(1.0, abs(a), abs(b)))
    if a is None or b is None:
        # Zeros where the other says "no gradient": a rule that returns zeros is no difference.
        other = b if a is None else a
        return other is not None and np.any(np.asarray(other, dtype=float) != 0)
    return a != b
