"""What is unreachable is gone: no array outlives its last user, with Python's collector switched off."""

from __future__ import annotations

import gc
import tracemalloc
import weakref
from collections.abc import Iterator

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.tape import live_entries


@pytest.fixture(autouse=True)
def _without_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


class _Watch:
    """Counts arrays of one unusual size that are alive."""

    def __init__(self) -> None:
        self.size = 4_321
        self.before = self.count()

    def make(self, requires_grad: bool = True) -> tg.Tensor:
        return tg.ones(self.size, requires_grad=requires_grad)

    def count(self) -> int:
        return sum(1 for o in gc.get_objects() if isinstance(o, tg.Tensor) and o.numel() == self.size)

    def alive(self) -> int:
        return self.count() - self.before


def _entries_alive(action) -> int:
    """Entries that are left after an action, beyond those that were there before."""
    action()
    before = len(live_entries())
    action()
    return len(live_entries()) - before


def _peak_growth(action) -> int:
    """Bytes that a second run of an action leaves allocated."""
    action()
    tracemalloc.start()
    try:
        action()
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(5):
            action()
        return tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()


def test_forward_only_loops_keep_nothing() -> None:
    x = tg.ones(50_000, requires_grad=True)

    def run() -> None:
        y = x
        for _ in range(20):
            y = (y * 1.01).tanh()

    assert _entries_alive(run) == 0
    assert _peak_growth(run) < 50_000


def test_a_graph_goes_with_its_last_output() -> None:
    x = tg.ones(1000, requires_grad=True)
    inner = x * 2
    gone = weakref.ref(inner)
    entry = weakref.ref(inner.grad_fn)
    loss = (inner * inner).sum()
    del inner
    assert entry() is not None
    del loss
    assert gone() is None
    assert entry() is None


def test_exceptions_in_hooks_and_rules_leave_nothing_behind() -> None:
    x = tg.ones(50_000, requires_grad=True)

    class Failing(tg.autograd.Function):
        @staticmethod
        def forward(ctx, t):
            ctx.save_for_backward(t)
            return t * 1

        @staticmethod
        def backward(ctx, g):
            raise KeyError("deliberate")

    def hooked() -> None:
        y = x * x
        y.register_hook(lambda g: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            (y * 3).sum().backward()

    def failing() -> None:
        with pytest.raises(KeyError):
            Failing.apply(x * x).sum().backward()

    for run in (hooked, failing):
        assert _entries_alive(run) == 0
        assert _peak_growth(run) < 50_000
    assert tg.is_grad_enabled()


def test_retained_and_created_graphs_go_when_they_are_dropped() -> None:
    x = tg.ones(50_000, requires_grad=True)

    def retained() -> None:
        loss = (x * x).exp().sum()
        loss.backward(retain_graph=True)
        x.grad = None

    def created() -> None:
        (g,) = tg.autograd.grad((x * x * x).sum(), x, create_graph=True)
        (g * g).sum().backward()
        x.grad = None

    def inplace() -> None:
        y = x * 2
        y[10:20].mul_(3)
        y.add_(1)
        y.sum().backward()
        x.grad = None

    for run in (retained, created, inplace):
        assert _entries_alive(run) == 0, run.__name__
        assert _peak_growth(run) < 50_000, run.__name__


def test_functions_and_checkpoints_make_no_cycles() -> None:
    x = tg.ones(50_000, requires_grad=True)

    class Square(tg.autograd.Function):
        @staticmethod
        def forward(ctx, t):
            out = t * t
            ctx.save_for_backward(t, out)
            return out

        @staticmethod
        def backward(ctx, g):
            t, _ = ctx.saved_tensors
            return 2 * t * g

    def function() -> None:
        Square.apply(x).sum().backward()
        Square.apply(x).sum()
        x.grad = None

    assert _entries_alive(function) == 0
    assert _peak_growth(function) < 50_000


def test_saved_arrays_are_given_up_as_the_replay_goes() -> None:
    """With n saved arrays of one size, the peak during backward stays near n, not 2n."""
    size, depth = 200_000, 20
    x = tg.ones(size, requires_grad=True)

    def build() -> tg.Tensor:
        y = x
        for _ in range(depth):
            y = y.sin()
        return y.sum()

    build().backward()
    x.grad = None
    loss = build()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        loss.backward()
        peak = tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
    # One array per step is made; unless an old one goes for each, they add up to depth * size * 4 bytes.
    assert peak < 6 * size * 4
    x.grad = None


def test_truncated_entries_hold_no_arrays() -> None:
    x = tg.ones(1000, requires_grad=True)
    loss = (x * x).exp().sum()
    assert loss.tape().nbytes > 0
    loss.backward()
    assert loss.tape().nbytes == 0
    assert [e.truncated for e in loss.tape()] == [True, True, False]


def test_rules_keep_only_what_they_name() -> None:
    x, c = tg.ones(10, requires_grad=True), tg.ones(10)
    saved = {
        "mul": (x * c, {"other"}),
        "add": (x + c, set()),
        "tanh": (x.tanh(), {"out"}),
        "sin": (x.sin(), {"input"}),
        "both": (x * x, {"input", "other"}),
        "constant": (c * c, None),
    }
    for name, (out, expected) in saved.items():
        if expected is None:
            assert out.grad_fn is None, name
        else:
            (entry,) = out.tape()
            assert {
                n
                for n, item in zip(entry.op.slots, entry.saved, strict=False)
                if isinstance(item, np.ndarray)
            } == expected, name


def test_a_chain_of_a_hundred_thousand_entries_is_replayed_and_freed() -> None:
    x = tg.ones(1, requires_grad=True)
    y = x
    for _ in range(100_000):
        y = y + x
    y.sum().backward()
    assert x.grad.item() == 100_001
    del y


def test_a_long_chain_is_freed_without_backward() -> None:
    x = tg.ones(1, requires_grad=True)
    y = x
    for _ in range(100_000):
        y = y * x
    del y
    assert not live_entries()
