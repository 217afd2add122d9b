"""Random numbers: generators, and the functions that make random tensors.

The numbers of a generator depend on its seed and on the calls before, not on the number of threads.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from . import dtypes
from .creation import _checked, _finish, _float_type, _like, _sizes
from .kernels.arrays import cast
from .ops import draws
from .ops.generator import Generator as Generator
from .ops.generator import chosen
from .ops.generator import default_generator as default_generator
from .ops.random import check_range, check_std, normal_around, require_floating
from .tape import Value
from .tensor import Tensor

__all__ = [
    "Generator",
    "default_generator",
    "fork_rng",
    "get_rng_state",
    "initial_seed",
    "manual_seed",
    "normal",
    "rand",
    "rand_like",
    "randint",
    "randint_like",
    "randn",
    "randn_like",
    "randperm",
    "seed",
    "set_rng_state",
]  # fmt: skip

# -- the default generator -------------------------------------------------------------------------------


def manual_seed(seed: int) -> Generator:
    """Start the default generator anew from a seed."""
    return default_generator.manual_seed(seed)


def seed() -> int:
    """Start the default generator anew from a seed that the operating system gives, and return it."""
    return default_generator.seed()


def initial_seed() -> int:
    """The seed that the default generator started from."""
    return default_generator.initial_seed()


def get_rng_state() -> Tensor:
    """The state of the default generator, as a tensor of bytes."""
    return default_generator.get_state()  # type: ignore[no-any-return]


def set_rng_state(new_state: Any) -> None:
    """Put the default generator back into a state."""
    default_generator.set_state(new_state)


@contextmanager
def fork_rng(
    devices: Any = None,
    enabled: bool = True,
    _caller: str = "fork_rng",
    _devices_kw: str = "devices",
    device_type: str = "cpu",
) -> Iterator[None]:
    """Inside the block the default generator goes its own way; after it, it is where it was."""
    if not enabled:
        yield
        return
    state = default_generator.get_state()
    try:
        yield
    finally:
        default_generator.set_state(state)


# -- functions -------------------------------------------------------------------------------------------


def _into(out: Any, values: np.ndarray, requires_grad: bool) -> Tensor:
    if out is None:
        return _finish(values, requires_grad)
    if out._array.shape != values.shape:
        raise RuntimeError(f"out has shape {list(out._array.shape)}, the result has {list(values.shape)}")
    return out.copy_(Tensor._make(values))  # type: ignore[no-any-return]


def _size_of(size: tuple[Any, ...], named: Any, name: str) -> tuple[int, ...]:
    if named is not None:
        size = (named,)
    if not size:
        raise TypeError(f"{name}() needs a size")
    return _sizes(size)


def rand(
    *sizes: Any,
    size: Any = None,
    generator: Any = None,
    out: Any = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """Uniform numbers in [0, 1)."""
    to = _float_type(_checked(dtype, device, layout, pin_memory))
    require_floating(to, "rand")
    return _into(out, draws.uniform(_size_of(sizes, size, "rand"), to, chosen(generator)), requires_grad)


def randn(
    *sizes: Any,
    size: Any = None,
    generator: Any = None,
    out: Any = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """Normal numbers with mean 0 and standard deviation 1."""
    to = _float_type(_checked(dtype, device, layout, pin_memory))
    require_floating(to, "normal_kernel_cpu")
    return _into(out, draws.normal(_size_of(sizes, size, "randn"), to, chosen(generator)), requires_grad)


def _integers(low: Any, high: Any, size: tuple[int, ...], to: dtypes.dtype, generator: Any) -> np.ndarray:
    check_range(low, high, to, *draws.integer_limits(to))
    return cast(draws.integers(size, chosen(generator), low, high), to.numpy)


def _whole(value: Any, name: str) -> int:
    if isinstance(value, Value):
        value = value.item()  # type: ignore[attr-defined]
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"randint(): argument '{name}' must be int, not {type(value).__name__}") from None


def randint(
    *bounds: Any,
    low: Any = None,
    high: Any = None,
    size: Any = None,
    generator: Any = None,
    out: Any = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """Whole numbers in [low, high), or in [0, high); int64 unless told otherwise.

    Called as ``randint(high, size)`` or ``randint(low, high, size)``.
    """
    given = list(bounds)
    if size is None and given:
        size = given.pop()
    if high is None and given:
        high = given.pop()
    if low is None and given:
        low = given.pop()
    if given or high is None or size is None:
        raise TypeError("randint() takes (high, size) or (low, high, size)")
    if not isinstance(size, (tuple, list)):
        raise TypeError(f"randint(): argument 'size' must be tuple of ints, not {type(size).__name__}")
    to = _checked(dtype, device, layout, pin_memory) or dtypes.int64
    bottom, top = (0 if low is None else _whole(low, "low")), _whole(high, "high")
    return _into(out, _integers(bottom, top, _sizes((size,)), to, generator), requires_grad)


def randperm(
    n: int,
    *,
    generator: Any = None,
    out: Any = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """A random order of 0 to n-1; int64 unless told otherwise."""
    to = _checked(dtype, device, layout, pin_memory) or dtypes.int64
    n = _whole(n, "n")
    if n < 0:
        raise RuntimeError(f"Trying to create tensor with negative dimension {n}: [{n}]")
    if n - 1 > draws.integer_limits(to)[1]:
        raise RuntimeError(
            f"randperm: the numbers up to {n - 1} cannot be converted to {to} without overflow"
        )
    return _into(out, cast(draws.permutation(n, chosen(generator)), to.numpy), requires_grad)


def rand_like(
    input: Any,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    memory_format: Any = None,
    generator: Any = None,
) -> Tensor:
    """Uniform numbers in [0, 1), in the shape of another tensor."""
    to = _like(input, dtype, device)
    require_floating(to, "rand_like")
    return _finish(draws.uniform(input._array.shape, to, chosen(generator)), requires_grad)


def randn_like(
    input: Any,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    memory_format: Any = None,
    generator: Any = None,
) -> Tensor:
    """Normal numbers, in the shape of another tensor."""
    to = _like(input, dtype, device)
    require_floating(to, "normal_kernel_cpu")
    return _finish(draws.normal(input._array.shape, to, chosen(generator)), requires_grad)


def randint_like(
    input: Any,
    *bounds: Any,
    low: Any = None,
    high: Any = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    memory_format: Any = None,
    generator: Any = None,
) -> Tensor:
    """Whole numbers in [low, high), or in [0, high), in the shape of another tensor."""
    given = list(bounds)
    if high is None and given:
        high = given.pop()
    if low is None and given:
        low = given.pop()
    if given or high is None:
        raise TypeError("randint_like() takes (input, high) or (input, low, high)")
    to = dtypes.as_dtype(_like(input, dtype, device))
    bottom, top = (0 if low is None else _whole(low, "low")), _whole(high, "high")
    return _finish(_integers(bottom, top, input._array.shape, to, generator), requires_grad)


def normal(
    mean: Any = 0.0,
    std: Any = 1.0,
    size: Any = None,
    *,
    generator: Any = None,
    out: Any = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """Normal numbers; mean and standard deviation are numbers (with a size), or tensors that broadcast."""
    tensors = [v for v in (mean, std) if isinstance(v, Value)]
    if not tensors:
        check_std(std)
        if size is None:
            raise TypeError("normal() needs a size where mean and std are numbers")
        to = _float_type(_checked(dtype, device, layout, pin_memory))
        require_floating(to, "normal_kernel_cpu")
        return _into(out, draws.normal(_sizes((size,)), to, chosen(generator), mean, std), requires_grad)
    if size is not None or dtype is not None or requires_grad:
        raise TypeError("normal() takes no size, dtype or requires_grad where mean or std is a tensor")
    result = normal_around(mean, std, generator)
    return result if out is None else out.copy_(result)  # type: ignore[no-any-return]
