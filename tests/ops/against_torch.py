"""A function in both libraries: values, gradients and second-order gradients must agree."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import tapegrad as tg

# Tests take this module in themselves, so that each of them is skipped.
torch = pytest.importorskip("torch", reason="PyTorch is the oracle")


def assert_same(
    theirs: Callable[..., Any],
    ours: Callable[..., Any],
    arrays: Sequence[Any],
    wrt: Sequence[int] = (0,),
    tolerance: float = 1e-9,
    second: bool = True,
) -> None:
    """Compare ``theirs`` on torch's tensors of the arrays with ``ours`` on tapegrad's."""
    a, b = _run(torch, theirs, arrays, wrt, second), _run(tg, ours, arrays, wrt, second)
    for what, p, q in zip(_names(len(wrt), second), a, b, strict=True):
        if p is None or q is None:  # no gradient and a gradient of zero are the same
            assert not np.any(p) or p is None, what
            assert not np.any(q) or q is None, what
            continue
        assert p.shape == q.shape, what
        assert p.dtype == q.dtype, what
        np.testing.assert_allclose(q, p, rtol=10 * tolerance, atol=tolerance, err_msg=what)


def _names(n: int, second: bool) -> list[str]:
    names = ["value", *(f"gradient {j}" for j in range(n)), *(f"recorded gradient {j}" for j in range(n))]
    return names + ([f"second-order gradient {j}" for j in range(n + 1)] if second else [])


def _run(
    lib: Any, fn: Any, arrays: Sequence[Any], wrt: Sequence[int], second: bool
) -> list[np.ndarray | None]:
    random = np.random.default_rng(1)

    def direction(like: Any) -> Any:
        return lib.tensor(random.standard_normal(tuple(like.shape)), dtype=like.dtype)

    inputs = [None if a is None else lib.tensor(a, requires_grad=j in wrt) for j, a in enumerate(arrays)]
    leaves = [inputs[j] for j in wrt]
    value = fn(*inputs)
    cotangent = direction(value).requires_grad_()
    plain = lib.autograd.grad(value, leaves, cotangent, retain_graph=True, allow_unused=True)
    recorded = lib.autograd.grad(value, leaves, cotangent, create_graph=second, allow_unused=True)
    results = [value, *plain, *recorded]
    if second:
        chosen = [g for g in recorded if g is not None and g.requires_grad]
        directions = [direction(g) for g in chosen]
        results += lib.autograd.grad(chosen, [*leaves, cotangent], directions, allow_unused=True)
    return [None if r is None else r.detach().numpy(force=True) for r in results]
