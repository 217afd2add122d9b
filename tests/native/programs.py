"""Random programs of tensors for compiled functions: what one run of them does depends on a seed and on shapes alone.

A program has parameters (leaves that live outside), an optimizer over them, and arguments. It draws operations from the
list of tests/programs.py, apart from those that need values in Python, and ends with one of several ways to differentiate.
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import tapegrad as tg
from tapegrad import nn
from tapegrad.kernels.recording import RecordingError
from tests import programs as base
from tests.programs import ERRORS, Machine, Step

OPTIMIZERS: list[Callable[..., Any]] = [
    lambda p: tg.optim.SGD(p, 0.01),
    lambda p: tg.optim.SGD(p, 0.01, momentum=0.9, weight_decay=0.1),
    lambda p: tg.optim.Adam(p, 0.01),
    lambda p: tg.optim.AdamW(p, 0.01, amsgrad=True),
    lambda p: tg.optim.RMSprop(p, 0.01, centered=True, momentum=0.5),
    lambda p: tg.optim.Adagrad(p, 0.01),
    lambda p: tg.optim.Adadelta(p),
    lambda p: tg.optim.Adamax(p, 0.01),
    lambda p: tg.optim.NAdam(p, 0.01),
    lambda p: tg.optim.RAdam(p, 0.01),
    lambda p: tg.optim.ASGD(p, 0.01),
    lambda p: tg.optim.Rprop(p, 0.01),
]


def shapes(n: int) -> list[tuple[int, ...]]:
    """The shapes that a program starts from; n is the size that may differ between calls."""
    return [(n, 3), (3,), (n, 1), (1, 3), (), (3, n), (n * 3,), (n, 3, 1), (4, 3)]


def _random(m: Machine, r: random.Random) -> Any:
    """Random numbers and constants."""
    t = base._pick(m, r)
    kind = r.randrange(6)
    if kind == 0:
        return tg.rand(t.shape, dtype=tg.float64) + 0.5
    if kind == 1:
        return nn.functional.dropout(t, 0.5) if t.is_floating_point() else t
    if kind == 2:
        return tg.zeros_like(t, dtype=tg.float64) + 1.5
    if kind == 3:
        return tg.full((3,), 1.25, dtype=tg.float64).add_(t.detach().sum())
    if kind == 4:
        return tg.zeros(2, 3, dtype=tg.float64).add_(t.double().mean())
    return tg.arange(1.0, 4.0, dtype=tg.float64) * t.double().mean()


def _network(m: Machine, r: random.Random) -> Any:
    """Ops of networks, whose kernels are not loops over elements."""
    t = base._pick(m, r).double()
    kind = r.randrange(8)
    if kind == 0:
        return t.softmax(base._dim(t, r)) if t.dim() else t
    if kind == 1:
        return nn.functional.layer_norm(t, t.shape[-1:]) if t.dim() else t
    if kind == 2:
        return nn.functional.gelu(t)
    if kind == 3:
        return t.var(unbiased=False)
    if kind == 4:
        return nn.functional.linear(t.reshape(-1, 1), tg.ones(4, 1, dtype=tg.float64) * 0.5)
    if kind == 5:
        return nn.functional.cross_entropy(t.reshape(1, -1), tg.tensor([0]))
    if kind == 6:
        return t.logsumexp(base._dim(t, r)) if t.dim() else t
    return t.norm()


def _write(m: Machine, r: random.Random) -> Any:
    """Writes in place, also through views and over memory that is read."""
    t, v = base._pick(m, r), base._pick(m, r)
    kind = r.randrange(12)
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
        return t.abs_().add_(0.5).sqrt_()
    if kind == 6:
        t[0] = v
        return t
    if kind == 7:
        t[..., -1] = 0.75
        return t
    if kind == 8:
        return t.sub_(v)
    if kind == 9:
        return t.masked_fill_(t > 1.25, 0.75)
    if kind == 10:
        t[tg.tensor([0, -1])] = 1.75
        return t
    return t.clamp_(0.5, 1.25)


def _unrecorded_write(m: Machine, r: random.Random) -> Any:
    t, v = base._pick(m, r), base._pick(m, r)
    kind = r.randrange(4)
    with tg.no_grad():
        if kind == 0:
            return t.mul_(0.75)
        if kind == 1:
            return t.add_(v)
        if kind == 2:
            return t.zero_()
        t[..., :1] = 1.5
        return t


def _gather(m: Machine, r: random.Random) -> Any:
    t = base._pick(m, r)
    kind = r.randrange(5)
    if kind == 0:
        return t[tg.tensor([0, 0, -1])]
    if kind == 1:
        return t[..., tg.tensor([[0], [0]])]
    if kind == 2:
        return t.index_select(base._dim(t, r), tg.tensor([0, 0]))
    if kind == 3:
        return t.roll(1, base._dim(t, r))
    return t.flip(base._dim(t, r))


def _keep(m: Machine, r: random.Random) -> Any:
    """A gradient in the middle that is kept, and a hook that computes."""
    t = base._pick(m, r)
    if t.requires_grad and not t.is_leaf:
        if r.random() < 0.5:
            t.retain_grad()
            m.retained.append(t)
        else:
            t.register_hook(lambda g: g * 0.5)
    return t


_OTHERS = {"_write": _write, "_unrecorded_write": _unrecorded_write, "_gather": _gather, "_watch": _keep}
STEPS: list[Step] = [_OTHERS.get(s.__name__, s) for s in base.STEPS] + [_random, _network, _network]


def _plain(p: Program, m: Machine, total: Any) -> list[Any]:
    """No derivative."""
    return [total.detach() if isinstance(total, tg.Tensor) else tg.tensor(total)]


def _trained(p: Program, m: Machine, total: Any) -> list[Any]:
    """A training step."""
    p.optimizer.zero_grad()
    total.backward()
    p.optimizer.step()
    return [total.detach()]


def _accumulated(p: Program, m: Machine, total: Any) -> list[Any]:
    """Two losses that share a graph, gradients that are never cleared, and a step."""
    total.backward(retain_graph=True)
    (total * total).backward()
    p.optimizer.step()
    return [total.detach()]


def _penalised(p: Program, m: Machine, total: Any) -> list[Any]:
    """A loss that contains its own gradient."""
    p.optimizer.zero_grad(set_to_none=False)
    grads = tg.autograd.grad(total, m.leaves, create_graph=True, allow_unused=True)
    penalty = sum((g.square().sum() for g in grads if g is not None), tg.zeros((), dtype=tg.float64))
    (total + penalty).backward()
    p.optimizer.step()
    return [g if g is None else g.detach() for g in grads]


def _twice(p: Program, m: Machine, total: Any) -> list[Any]:
    """First and second derivatives, and no step."""
    grads = tg.autograd.grad(total, m.leaves, create_graph=True, allow_unused=True)
    live = [g for g in grads if g is not None and g.requires_grad]
    shown = [g if g is None else g.detach() for g in grads]
    if live:
        shown += tg.autograd.grad(sum((g * g).sum() for g in live), m.leaves, allow_unused=True)
    return shown


def _handed_out(p: Program, m: Machine, total: Any) -> list[Any]:
    """The caller differentiates the result."""
    return [total]


ENDINGS = [_plain, _trained, _trained, _accumulated, _penalised, _twice, _handed_out, _handed_out]


class Program:
    """A program with what lives outside of the function: parameters and an optimizer. ``step`` is the function."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        numbers = np.random.default_rng(seed)
        chosen = [(3,), (2, 3), (), (1, 3), (4, 3)]
        self.params = [
            tg.tensor(numbers.uniform(0.5, 2.0, chosen[numbers.integers(len(chosen))])).requires_grad_()
            for _ in range(2)
        ]
        self.optimizer = OPTIMIZERS[seed % len(OPTIMIZERS)](self.params)
        self.ending = ENDINGS[int(numbers.integers(len(ENDINGS)))]
        self.leaf = bool(numbers.integers(3) == 0)  # whether an argument is a leaf that wants gradients
        self.where = [int(numbers.integers(9)) for _ in range(3)]

    def arguments(self, call: int, n: int) -> list[tg.Tensor]:
        """Fresh arguments for one call."""
        numbers = np.random.default_rng([self.seed, call])
        made = [
            tg.tensor(
                numbers.uniform(0.5, 2.0, shapes(n)[k]),
                dtype=tg.float32 if j == 2 and self.seed % 3 == 0 else tg.float64,
            )
            for j, k in enumerate(self.where)
        ]
        if self.leaf:
            made[0].requires_grad_()
        return made

    def step(self, *args: tg.Tensor) -> list[Any]:
        """One run."""
        r = random.Random(self.seed)
        m = Machine.__new__(Machine)
        m.lib, m.retained, m.handles, m.fired, m.aliased = tg, [], [], [], False
        m.pool = [*args, *self.params]
        m.leaves = [*self.params, *args[: self.leaf]]
        for _ in range(r.randrange(2, 13)):
            step = r.choice(STEPS)
            state = r.getstate()
            try:
                out = step(m, r)
            except RecordingError:
                raise
            except ERRORS:
                pass
            else:
                if out.numel() <= 300:
                    m.pool.append(out)
            r.setstate(state)
            r.random()
        total: Any = 0.0
        for k, t in enumerate(m.pool):
            total = total + t.double().sum() * (1 + 0.1 * k)
        try:
            shown = self.ending(self, m, total.sigmoid() if self.seed % 4 == 0 else total)
        except RecordingError:
            raise
        except RuntimeError as err:  # something that the graph needs was written over
            shown = [type(err).__name__]
        return [[t.detach() for t in m.pool], shown, [t.grad for t in m.retained]]


def observed(seed: int, calls: list[int], compiled: bool, without: tuple[str, ...] = ()) -> list[Any]:
    """What calls of a program with arguments of the given sizes show: results, arguments, gradients, parameters, state."""
    tg.manual_seed(seed)
    program = Program(seed)
    run = tg.compile(program.step, without=without) if compiled else program.step
    seen = []
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # about .grad of what was written over
        for call, n in enumerate(calls):
            args = program.arguments(call, n)
            made = run(*args)
            if (
                program.ending is _handed_out
                and isinstance(made[1][0], tg.Tensor)
                and made[1][0].requires_grad
            ):
                try:
                    made[1][0].backward()
                except RuntimeError:  # out of date; which gradients arrive before the error is no promise
                    return [np.array(np.inf)]
            seen.append(_numbers([made, args, [t.grad for t in (*args, *program.params)], program.params]))
            state = program.optimizer.state
            seen.append(_numbers([[v for _, v in sorted(state[p].items())] for p in program.params]))
    seen.append(tg.rand(2).tolist())
    return seen


def _numbers(x: Any) -> Any:
    """Tensors as NumPy arrays, that later calls do not touch."""
    if isinstance(x, tg.Tensor):
        return x.detach().numpy().copy()
    return [_numbers(v) for v in x] if isinstance(x, list | tuple) else x


def difference(a: Any, b: Any) -> str | None:
    """The first place at which two observations differ by more than rounding; None if there is no such place."""
    return _difference(a, b, 1e-4 if _narrow(a) else 1e-9, "")


def _narrow(x: Any) -> bool:
    """Whether there are numbers of type float32: products of such may be added up in another order."""
    return (
        x.dtype == np.float32 if isinstance(x, np.ndarray) else isinstance(x, list) and any(map(_narrow, x))
    )


def _difference(a: Any, b: Any, tolerance: float, path: str) -> str | None:
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        if a.shape != b.shape or a.dtype != b.dtype:
            return f"{path}: {a.dtype}{a.shape} or {b.dtype}{b.shape}"
        with np.errstate(all="ignore"):
            same = np.allclose(a, b, rtol=tolerance, atol=tolerance, equal_nan=True)
        return None if same else f"{path}: {a} or {b}"
    if isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        found = (
            _difference(x, y, tolerance, f"{path}[{j}]") for j, (x, y) in enumerate(zip(a, b, strict=True))
        )
        return next((f for f in found if f is not None), None)
    return (
        None
        if type(a) is type(b) and not isinstance(a, np.ndarray | list) and a == b
        else f"{path}: {a} or {b}"
    )


def wild(x: Any) -> bool:
    """Whether numbers have grown so far that rounding decides about what comes of them."""
    if isinstance(x, np.ndarray):
        return bool(x.size and x.dtype.kind == "f" and (~(np.abs(x) < 1e6)).any())
    return isinstance(x, list) and any(map(wild, x))
