"""Filling arrays with random numbers: what the methods and functions of random.py share."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import buffers, dtypes, kernels
from ..kernels import launch_lazily as launch
from ..kernels.arrays import cast, contiguous, filled
from ..kernels.recording import active, hosted
from .generator import Draw, Generator

_TOP = 0x7FFF_FFFF_FFFF_FFFF
_SMALL = 10_000  # below, the call is what costs
_entries: dict[tuple[str, str], Any] = {}


def words_blocks(n: int) -> int:
    """How many blocks n elements of one word each take: whole chunks of 16 blocks."""
    return 16 * -(-n // 64)


def _run(kernel: Any, out: np.ndarray, per_block: int, generator: Generator, a: Any, b: Any) -> None:
    n = out.size
    if not n:
        return
    blocks = words_blocks(n) if per_block == 4 else -(-n // per_block)
    draw = generator.draw(blocks)
    count = blocks // 16 if per_block == 4 else blocks
    args = (out, n, draw.key0, draw.key1, draw.offset, a, b)
    if n < _SMALL and not active:
        key = (kernel.label, out.dtype.char)
        entry = _entries.get(key)
        if entry is None:
            kind = "int" if type(a) is int else "float"
            chars = (out.dtype.char, *["int"] * 4, kind, kind, "int", "int")
            entry = _entries[key] = kernel.entry(chars)
        entry(*args, 0, count)
    else:
        launch(kernel, args, count, 2 * n)


def uniform(
    shape: tuple[int, ...], dtype: np.dtype, generator: Generator, low: float = 0.0, high: float = 1.0
) -> np.ndarray:
    """Uniform in [low, high)."""
    if dtype.char == "e":
        # In steps of 2**-11, since rounding a finer number could give 1.
        return _coarse(uniform(shape, np.dtype("f"), generator), low, high)
    return fill_uniform(buffers.empty(shape, dtype), generator, low, high)


@hosted
def _coarse(unit: np.ndarray, low: float, high: float) -> np.ndarray:
    steps = np.floor(unit * 2048) * np.float32(2**-11)
    return (steps * np.float32(high - low) + np.float32(low)).astype(np.float16)  # type: ignore[no-any-return]


def fill_uniform(out: np.ndarray, generator: Generator, low: float, high: float) -> np.ndarray:
    """Uniform in [low, high), written over a contiguous float32 or float64 array."""
    random = kernels.random
    if out.dtype.char == "f":
        _run(random.uniform_f4, out, 4, generator, float(low), float(high))
    else:
        _run(random.uniform_f8, out, 2, generator, float(low), float(high))
    return out


def normal(
    shape: tuple[int, ...], dtype: np.dtype, generator: Generator, mean: float = 0.0, std: float = 1.0
) -> np.ndarray:
    """Normal."""
    if dtype.char == "e":
        return cast(normal(shape, np.dtype("f"), generator, mean, std), dtype)
    return fill_normal(buffers.empty(shape, dtype), generator, mean, std)


def fill_normal(out: np.ndarray, generator: Generator, mean: float, std: float) -> np.ndarray:
    """Normal, written over a contiguous float32 or float64 array."""
    random = kernels.random
    if out.dtype.char == "f":
        _run(random.normal_f4, out, 4, generator, float(mean), float(std))
    else:
        _run(random.normal_f8, out, 2, generator, float(mean), float(std))
    return out


def integers(shape: tuple[int, ...], generator: Generator, low: int, high: int) -> np.ndarray:
    """Whole numbers in [low, high), int64."""
    span = high - low
    out = buffers.empty(shape, np.int64)
    if span > _TOP:  # as the signed number with the same bits; 2**64 becomes 0, which stands for it
        span -= 2**64
    _run(kernels.random.integers, out, 2, generator, low, span)
    return out


def below(p: np.ndarray, generator: Generator) -> np.ndarray:
    """1 with probability p, else 0, in the dtype of p."""
    wide = contiguous(p, np.float64 if p.dtype.char == "d" else np.float32)
    out = np.empty(p.shape, wide.dtype)
    if p.size:
        draw = generator.draw(words_blocks(p.size))
        args = (wide, out, p.size, draw.key0, draw.key1, draw.offset)
        launch(kernels.random.below, args, p.size // 64 + 1, 2 * p.size)
    return cast(out, p.dtype)


def chance(shape: tuple[int, ...], p: float, generator: Generator) -> np.ndarray:
    """1 with probability p, else 0, as uint8."""
    out = buffers.empty(shape, np.uint8)
    _run(kernels.random.chance, out, 4, generator, p * 2.0**32, 0.0)
    return out


def unit(shape: tuple[int, ...], generator: Generator) -> np.ndarray:
    """Uniform in (0, 1), float64, neither end included."""
    out = np.empty(shape, np.float64)
    _run(kernels.random.open_f8, out, 2, generator, 0.0, 0.0)
    return out


def permutation(n: int, generator: Generator) -> np.ndarray:
    """A random order of 0..n-1, int64."""
    out = np.empty(n, np.int64)
    if n:
        picks = np.empty(n, np.int64)
        _run(kernels.random.picks, picks, 2, generator, 0, 0)
        kernels.random.shuffle(picks, out, n, 0, 1)
    return out


def poisson(rate: np.ndarray, generator: Generator) -> np.ndarray:
    """Poisson distributed with the given means, in their dtype."""
    wide = contiguous(rate, np.float64)
    out = np.empty(rate.shape, np.float64)
    if rate.size:
        draw = generator.draw(rate.size)
        launch(
            kernels.random.poisson, (wide, out, draw.key0, draw.key1, draw.offset), rate.size, 64 * rate.size
        )
    return cast(out, rate.dtype)


def exponential(shape: tuple[int, ...], generator: Generator, lambd: float) -> np.ndarray:
    """Exponential with rate lambd, float64."""
    return _waiting(unit(shape, generator), lambd)


def geometric(shape: tuple[int, ...], generator: Generator, p: float) -> np.ndarray:
    """The number of trials up to the first success, float64."""
    return _trials(unit(shape, generator), p)


def cauchy(shape: tuple[int, ...], generator: Generator, median: float, sigma: float) -> np.ndarray:
    """Cauchy, float64."""
    return _turned(unit(shape, generator), median, sigma)


@hosted
def _waiting(u: np.ndarray, lambd: float) -> np.ndarray:
    return -np.log(u) / lambd  # type: ignore[no-any-return]


@hosted
def _trials(u: np.ndarray, p: float) -> np.ndarray:
    return np.ceil(np.log(u) / math.log1p(-p))  # type: ignore[no-any-return]


@hosted
def _turned(u: np.ndarray, median: float, sigma: float) -> np.ndarray:
    return median + sigma * np.tan(math.pi * (u - 0.5))


def log_normal(shape: tuple[int, ...], generator: Generator, mean: float, std: float) -> np.ndarray:
    """exp of normal numbers, float64."""
    return _exponentials(normal(shape, np.dtype(np.float64), generator, mean, std))


@hosted
def _exponentials(x: np.ndarray) -> np.ndarray:
    return np.exp(x)  # type: ignore[no-any-return]


def integer_limits(dtype: dtypes.dtype) -> tuple[int, int]:
    """The whole numbers that a dtype holds exactly, from 0 on for those that random_() draws."""
    if dtype.category == dtypes.FLOATING:
        top = 2 ** {2: 11, 4: 24, 8: 53}[dtype.itemsize]
        return -top, top
    if dtype.category == dtypes.BOOL:
        return 0, 1
    info = np.iinfo(dtype.numpy)
    return int(info.min), int(info.max)


def dropped(
    x: np.ndarray, draw: Draw, p: float, inner: int, scale: float, shift: float, fill: float
) -> np.ndarray:
    """scale * x + shift with probability 1 - p, else fill; ``inner`` neighbours share their fate."""
    half = x.dtype.char == "e"
    x = contiguous(x, np.float32 if half else None)
    out = buffers.empty(x.shape, x.dtype)
    hyper = np.array([scale, shift, fill], x.dtype)
    if inner > 1:
        rows = x.size // inner
        kept = dropped(filled((rows,), 1.0, x.dtype), draw, p, 1, 1.0, 0.0, 0.0)
        launch(kernels.random.drop_rows, (x, kept, out, inner, hyper), rows, x.size)
    elif x.size:
        args = (x, out, x.size, draw.key0, draw.key1, draw.offset, round(p * 2.0**32), hyper)
        launch(kernels.random.dropout, args, x.size // 64 + 1, 2 * x.size)
    return cast(out, np.float16) if half else out
