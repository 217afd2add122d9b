"""Calls of compiled functions, compared with the functions themselves, and whether they come the short way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import tapegrad as tg
from tapegrad.native.entry import OTHER
from tapegrad.tape import Value


def tensor(*shape: int, seed: int = 0, dtype: Any = np.float32, grad: bool = False) -> tg.Tensor:
    made = tg.from_numpy(np.random.default_rng(seed).standard_normal(shape).astype(dtype))
    return made.requires_grad_() if grad else made


def double(*shape: int, seed: int = 0, grad: bool = False) -> tg.Tensor:
    return tensor(*shape, seed=seed, dtype=np.float64, grad=grad)


def same(a: Any, b: Any) -> None:
    """Equal trees of tensors: structure, dtype, shape, values, need of gradients."""
    assert type(a) is type(b)
    if isinstance(a, (tuple, list)):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            same(x, y)
    elif isinstance(a, dict):
        assert list(a) == list(b)
        same(list(a.values()), list(b.values()))
    elif isinstance(a, Value):
        assert a.dtype == b.dtype
        assert a.shape == b.shape
        assert a.requires_grad == b.requires_grad
        np.testing.assert_allclose(b.detach().numpy(), a.detach().numpy(), rtol=2e-6, atol=2e-6)
    else:
        assert a == b


def short(fn: Any, *args: Any, **kwargs: Any) -> tuple[Any, bool]:
    """The result of a call, and whether it came the short way."""
    enter, taken = fn._enter, [False]

    def noted(given: tuple[Any, ...]) -> Any:
        result = enter(given)
        taken[0] = result is not OTHER
        return result

    if enter is not None:
        fn._enter = noted
    try:
        return fn(*args, **kwargs), taken[0]
    finally:
        if fn._enter is noted:
            fn._enter = enter


def warmed(plain: Callable[..., Any], make: Callable[[int], tuple[Any, ...]]) -> Any:
    """The function compiled, recorded, and called until it comes the short way."""
    fn = tg.compile(plain)
    for seed in range(3):
        fn(*make(seed))
    assert fn._enter is not None, "there is a short way"
    return fn


def check(fn: Any, *args: Any, short_way: bool | None = True, twins: tuple[Any, ...] | None = None) -> Any:
    """Compare a call with the function itself; ``twins`` are other arguments for the latter."""
    expected = fn.function(*(args if twins is None else twins))
    found, taken = short(fn, *args)
    same(expected, found)
    if short_way is not None:
        assert taken is short_way
    return found


Make = Callable[[int], tuple[Any, ...]]


def two(seed: int) -> tuple[Any, ...]:
    return tensor(4, 3, seed=seed), tensor(3, seed=seed + 50)


def leaf_and_plain(seed: int) -> tuple[Any, ...]:
    return tensor(4, 3, seed=seed, grad=True), tensor(3, seed=seed + 50)
