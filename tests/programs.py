"""Random programs that run in tapegrad and in PyTorch alike: arithmetic, views, writes in place, hooks.

A program is drawn from a seed; each step picks an operation and operands from what exists so far. Steps
that one library refuses must be refused by the other one too, with an error of the same class.
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

SHAPES = [(2, 3), (3,), (2, 1), (1, 3), (), (3, 2), (6,), (2, 3, 1), (4, 3)]
ERRORS = (RuntimeError, IndexError, TypeError, ValueError)


class Machine:
    """The state of one program in one library: tensors made so far, leaves first."""

    def __init__(self, lib: Any, seed: int) -> None:
        self.lib = lib
        rng = np.random.default_rng(seed)
        self.pool: list[Any] = []
        self.leaves: list[Any] = []
        self.retained: list[Any] = []
        self.handles: list[Any] = []
        self.fired: list[Any] = []
        self.hooked: list[Any] = []  # views that hooks were registered on
        self.aliased = False  # whether the current step reads what it writes, or writes to one place twice
        for k in range(4):
            shape = SHAPES[int(rng.integers(len(SHAPES)))]
            array = rng.uniform(0.5, 2.0, shape)
            t = lib.tensor(array.tolist(), dtype=lib.float64 if k != 3 else lib.float32)
            if k < 3:
                t.requires_grad_()
                self.leaves.append(t)
            self.pool.append(t)


Step = Callable[[Machine, random.Random], Any]


def _pick(m: Machine, r: random.Random) -> Any:
    return m.pool[r.randrange(len(m.pool))]


def _dim(t: Any, r: random.Random) -> int:
    return r.randrange(t.dim()) if t.dim() else 0


def _unary(name: str) -> Step:
    return lambda m, r: getattr(_pick(m, r), name)()


def _binary(name: str) -> Step:
    def step(m: Machine, r: random.Random) -> Any:
        a, b = _pick(m, r), _pick(m, r)
        return getattr(a, name)(b)

    return step


def _number(name: str) -> Step:
    def step(m: Machine, r: random.Random) -> Any:
        t, number = _pick(m, r), r.choice([2, 0.5, 1.5, -1, 3])
        return getattr(t, name)(number)

    return step


def _view(m: Machine, r: random.Random) -> Any:
    t = _pick(m, r)
    kind = r.randrange(11)
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
    if kind == 8:
        return t.diagonal() if t.dim() >= 2 else t.unsqueeze(0)
    if kind == 9:
        return t.narrow(_dim(t, r), 0, 1) if t.dim() else t.view(1)
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


def _together(m: Machine, r: random.Random) -> Any:
    items = [_pick(m, r) for _ in range(r.randrange(1, 4))]
    return (m.lib.cat if r.random() < 0.5 else m.lib.stack)(items, r.randrange(2))


def _choose(m: Machine, r: random.Random) -> Any:
    a, b = _pick(m, r), _pick(m, r)
    kind = r.randrange(9)
    if kind == 0:
        return m.lib.where(a > b, a, b)
    if kind == 1:
        return m.lib.where(a > 1.0, a, 0.5)
    if kind == 2:
        return a.clamp(0.75, 1.5)
    if kind == 3:
        return a.clamp(min=b)
    if kind == 4:
        return m.lib.maximum(a, b)
    if kind == 5:
        return a.max()
    if kind == 6:
        return a.max(_dim(a, r))[0] if a.dim() else a.min()
    if kind == 7:
        return a.amin(_dim(a, r), keepdim=True) if a.dim() else a.amax()
    return a.masked_fill(a > 1.0, 0.25)


def _gather(m: Machine, r: random.Random) -> Any:
    t = _pick(m, r)
    lib = m.lib
    kind = r.randrange(6)
    if kind == 0:
        return t[lib.tensor([0, 0, -1])]
    if kind == 1:
        return t[t > 1.0]
    if kind == 2:
        return t[..., lib.tensor([[0], [0]])]
    if kind == 3:
        return t.index_select(_dim(t, r), lib.tensor([0, 0]))
    if kind == 4:
        return t.roll(1, _dim(t, r))
    return t.flip(_dim(t, r))


def _multiply(m: Machine, r: random.Random) -> Any:
    a, b = _pick(m, r), _pick(m, r)
    kind = r.randrange(3)
    if kind == 0:
        return a @ b
    if kind == 1:
        return a.reshape(1, -1) @ a.reshape(-1, 1)
    return m.lib.matmul(a, b.transpose(-1, -2)) if b.dim() >= 2 else m.lib.matmul(a, b)


def _repeats(t: Any) -> bool:
    """Whether several elements of a tensor are one place in memory."""
    return any(step == 0 and n > 1 for step, n in zip(t.stride(), t.shape, strict=True))


def _places(a: np.ndarray) -> np.ndarray:
    """The address of each element."""
    steps = [np.arange(n) * step for n, step in zip(a.shape, a.strides, strict=True)]
    return a.ctypes.data + sum(np.ix_(*steps), np.zeros(a.shape, np.int64))


def _depends_on_order(t: Any, v: Any) -> bool:
    """Whether a write of ``v`` into ``t`` overwrites elements that it still has to read for other places.

    PyTorch refuses that if both tensors lie densely in memory. If one does not, as in ``x.add_(x.diagonal())``, it does not
    look for it ("too hard", says the source) and reads what its loop has written so far: no value to compare with.
    """
    to, read = t.detach().numpy(), v.detach().numpy()
    if not np.shares_memory(to, read):
        return False
    while read.ndim > to.ndim and read.shape[0] == 1:  # as an assignment to an index does
        read = read[0]
    try:
        read = np.broadcast_to(read, to.shape)
    except ValueError:
        return False  # refused
    target, source = _places(to), _places(read)
    return bool(np.isin(source, target)[source != target].any())


def _write(m: Machine, r: random.Random) -> Any:
    t, v = _pick(m, r), _pick(m, r)
    _ = t.grad_fn  # PyTorch finds out about a view's new history when asked for it, but not in a write
    kind = r.randrange(13)
    if kind in (9, 10, 11) and _repeats(t):
        return t  # PyTorch still writes into expanded tensors here and warns that it will not for long
    if kind in (0, 1, 2, 6, 8):
        if _depends_on_order(t.detach()[0] if kind == 6 and t.dim() and t.shape[0] else t, v):
            return t
        m.aliased = np.may_share_memory(t.detach().numpy(), v.detach().numpy())
    if kind == 3:
        m.aliased = _repeats(t)
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
    if kind == 8:
        return t.sub_(v)
    if kind == 9:
        t[t > 1.0] = 0.5
        return t
    if kind == 10:
        return t.masked_fill_(t > 1.25, 0.75)
    if kind == 11:
        t[m.lib.tensor([0, -1])] = 1.75
        return t
    return t.clamp_(0.5, 1.25)


def _unrecorded_write(m: Machine, r: random.Random) -> Any:
    t, v = _pick(m, r), _pick(m, r)
    kind = r.randrange(3)
    if any(np.may_share_memory(t.detach().numpy(), h.detach().numpy()) for h in m.hooked):
        # PyTorch cannot tell afterwards whether a write was recorded: it gives all views a new node, without their hooks.
        return t
    with m.lib.no_grad():
        if kind == 0:
            return t.mul_(0.75)
        if kind == 1:
            if _depends_on_order(t, v):
                return t
            m.aliased = np.may_share_memory(t.detach().numpy(), v.detach().numpy())
            return t.add_(v)
        t[..., :1] = 1.5
        return t


def _cut(m: Machine, r: random.Random) -> Any:
    t = _pick(m, r)
    kind = r.randrange(5)
    if kind == 0:
        return t.detach()
    if kind == 1:
        return t.clone()
    if kind == 2:
        with m.lib.no_grad():
            return t * 2
    if kind == 3:
        return t.contiguous()
    return t.detach().requires_grad_()


def _cast(m: Machine, r: random.Random) -> Any:
    t = _pick(m, r)
    name = r.choice(["double", "float", "double", "long"])
    return getattr(t, name)()


def _reduce(m: Machine, r: random.Random) -> Any:
    t = _pick(m, r)
    kind = r.randrange(5)
    if kind == 0:
        return t.sum()
    if kind == 1:
        return t.mean(_dim(t, r), keepdim=True) if t.dim() else t.mean()
    if kind == 2:
        return t.sum(-1) if t.dim() else t.sum()
    if kind == 3:
        return t.cumsum(_dim(t, r))
    return t.sum((0,)) if t.dim() else t.sum()


def _watch(m: Machine, r: random.Random) -> Any:
    """Hooks, and gradients that are kept; the tensor itself is the result."""
    t = _pick(m, r)
    kind = r.randrange(4)
    # A hook on a view whose base was changed goes to the old node in PyTorch (or crashes it) if it was not asked for first.
    if t.grad_fn is not None and t._base is not None and kind in (1, 2):
        m.hooked.append(t)
    if kind == 0:
        t.retain_grad()
        if t.requires_grad:
            m.retained.append(t)
    elif kind == 1:
        m.handles.append(t.register_hook(lambda g: g * 0.5))
    elif kind == 2:
        fired = m.fired
        m.handles.append(t.register_hook(lambda g: fired.append(list(g.shape))))
    elif m.handles:
        r.choice(m.handles).remove()
    return t


STEPS: list[Step] = [
    _binary("add"), _binary("mul"), _binary("sub"), _binary("div"), _unary("exp"), _unary("tanh"), _unary("sin"),
    _unary("abs"), _number("mul"), _number("add"), _number("pow"), _view, _view, _view, _several, _write, _write,
    _write, _unrecorded_write, _cut, _reduce, _together, _choose, _choose, _gather, _multiply, _cast, _watch, _watch,
]  # fmt: skip


def run(lib: Any, seed: int) -> list[Any]:
    """Run a program; what it shows is compared between libraries: values, flags, gradients, errors."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return _run(lib, seed)


def _run(lib: Any, seed: int) -> list[Any]:
    r = random.Random(seed)
    m = Machine(lib, seed)
    seen: list[Any] = []
    for _ in range(r.randrange(2, 13)):
        step = r.choice(STEPS)
        # Draws of its own, since a library that refuses may do so before all of them are made.
        draws = random.Random(r.getrandbits(64))
        m.aliased = False
        try:
            out = step(m, draws)
            kind = str(out.dtype).split(".")[1]
            shown = ["step", list(out.shape), kind, out.requires_grad, out.is_leaf, m.aliased]
        except ERRORS as err:
            seen.append(["refused", type(err).__name__, m.aliased or _of_several(err)])
        else:
            if out.numel() <= 300:
                m.pool.append(out)
            seen.append(shown)
    total: Any = 0
    try:
        for k, t in enumerate(m.pool):
            seen.append(["value", t.requires_grad, t.is_leaf, t.detach().double().reshape(-1).tolist()])
            total = total + t.double().sum() * (1 + 0.1 * k)
    except RuntimeError as err:
        seen.append(["refused", type(err).__name__, _of_several(err)])
        return seen
    (_twice if seed % 2 else _accumulated)(m, total, seen)
    if seen[-1][0] != "refused backward":  # how far a backward came before it failed is not compared
        seen.append(["hooks", sorted(m.fired)])
    return seen


def _of_several(err: Exception) -> bool:
    """Whether something was refused because a view is one of several outputs (of split, unbind)."""
    return "returns multiple views" in str(err)


def _numbers(g: Any) -> Any:
    # The sum makes numbers of PyTorch's tensors that stand for zeros without memory.
    return None if g is None else (g.detach() + 0).double().reshape(-1).tolist()


def _twice(m: Machine, total: Any, seen: list[Any]) -> None:
    """First and second derivatives by autograd.grad."""
    lib = m.lib
    try:
        grads = lib.autograd.grad(total, m.leaves, create_graph=True, allow_unused=True)
        seen.append(["grad", *map(_numbers, grads)])
        live = [g for g in grads if g is not None and g.requires_grad]
        for handle in m.handles:
            handle.remove()  # which hooks a second derivative passes depends on how the first one is written down
        if live:
            second = lib.autograd.grad(sum((g * g).sum() for g in live), m.leaves, allow_unused=True)
            seen.append(["second", *map(_numbers, second)])
    except RuntimeError as err:
        seen.append(["refused backward", type(err).__name__])


def _accumulated(m: Machine, total: Any, seen: list[Any]) -> None:
    """Gradients that backward leaves, and whether the graph can be used again."""
    try:
        total.backward()
        seen.append(["leaves", *(_numbers(x.grad) for x in m.leaves)])
        seen.append(["retained", *(_numbers(x.grad) for x in m.retained)])
    except RuntimeError as err:
        seen.append(["refused backward", type(err).__name__])
        return
    try:
        total.backward()
        seen.append(["again", *(_numbers(x.grad) for x in m.leaves)])
    except RuntimeError:
        seen.append(["not again"])


def differs(a: Any, b: Any, scale: float = 1.0) -> bool:
    """Whether two observations differ; numbers within rounding (of numbers of that scale), NaN equal to NaN."""
    if isinstance(a, list) and isinstance(b, list):
        if ["refused"] in (a[:1], b[:1]):
            return a[:2] != b[:2]
        return len(a) != len(b) or any(differs(x, y, scale) for x, y in zip(a, b, strict=True))
    if isinstance(a, float) and isinstance(b, float):
        return not (a == b or (a != a and b != b) or abs(a - b) <= 1e-5 * max(scale, abs(a), abs(b)))
    if (a is None) != (b is None):
        # Zeros where the other says "no gradient": a rule that returns zeros is no difference.
        other = b if a is None else a
        return not isinstance(other, list) or any(other)
    return a != b


def excused(theirs: list[Any], ours: list[Any]) -> bool:
    """Whether the first difference is that PyTorch refuses what is computed here, or lies in how gradients are rounded.

    That is a write to memory that the same step reads, or that it writes to twice (``x.mul_(x)`` and
    ``x.expand(2, 3).fill_(1)`` are errors in backward there, ``x.add_(x[:, ::2])`` at once for an x of one column), or the
    use of one of several views (of split, unbind) whose base was changed after it was made.

    A gradient may be NaN there and a number here: ``amax`` and ``amin`` multiply by a mask there, where ``max`` and ``min``
    select, and an infinite cotangent times zero is NaN. What cancels may leave a rest of the size that float32 rounds
    off the terms, taken to be like the program's largest gradient.
    """
    for a, b in zip(theirs, ours, strict=False):
        if differs(a, b):
            if a[0] == "refused":
                return bool(a[2]) and b[0] != "refused"
            wrote = any(s[0] == "step" and s[-1] for s in theirs)
            if a[0] in ("grad", "second", "leaves", "retained", "again") and a[0] == b[0]:
                return not differs(a, _with_nans_of(a, b), min(_largest(a[1:]), 1e3))
            return a[0] == "refused backward" and wrote
    return False


def _largest(a: Any) -> float:
    """The largest magnitude of the finite numbers in lists."""
    if isinstance(a, list):
        return max(map(_largest, a), default=0.0)
    return abs(a) if isinstance(a, float) and np.isfinite(a) else 0.0


def _with_nans_of(a: Any, b: Any) -> Any:
    """``b`` with NaN in the places where ``a`` has it."""
    if isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        return [_with_nans_of(x, y) for x, y in zip(a, b, strict=True)]
    return a if isinstance(a, float) and isinstance(b, float) and a != a else b
