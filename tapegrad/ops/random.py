"""Random numbers written into tensors, or drawn with the help of one.

A draw does not depend on what was there before: recorded in place, it cuts the gradient (gives zero).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .. import dtypes, kernels
from ..kernels import launch_lazily as launch
from ..kernels.arrays import cast, contiguous, copy
from ..kernels.recording import active, hosted, now
from ..modes import modes
from ..op import check_inplace, kernel_op
from ..tape import Value
from . import draws
from .arithmetic import zeros_for
from .convert import copied_into
from .generator import Generator, chosen
from .inplace import kernel_inplace
from .shape import broadcast_shapes
from .sort import FEW, first_of_rows

__all__ = ["bernoulli", "multinomial", "poisson"]


def _write(
    self: Any, name: str, generator: Any, make: Callable[[tuple[int, ...], Generator], np.ndarray]
) -> Any:
    """Draw an array and write it over the tensor."""
    drawn = make(self._array.shape, chosen(generator))
    if modes.grad and self._source() is not None:
        return kernel_inplace(copied_into, self, self._make(drawn))
    check_inplace(self, name)
    if active and (recorder := now()) is not None:
        recorder.touch(self._array)
    copy(self._array, drawn)
    self._bump(name)
    return self


def _fill(
    self: Any,
    name: str,
    generator: Any,
    fill: Callable[..., np.ndarray],
    make: Callable[..., np.ndarray],
    a: float,
    b: float,
) -> Any:
    """Like _write, but straight into the tensor's memory where type, layout and tape allow it."""
    array = self._array
    if (
        array.dtype.char not in "fd"
        or not array.flags.c_contiguous
        or (modes.grad and self._source() is not None)
    ):
        return _write(self, name, generator, lambda shape, g: make(shape, array.dtype, g, a, b))
    check_inplace(self, name)
    if active and (recorder := now()) is not None:
        recorder.touch(array)
    fill(array, chosen(generator), a, b)
    self._bump(name)
    return self


def require_floating(dtype: np.dtype, what: str) -> None:
    """NotImplementedError unless the dtype is floating."""
    if dtype.kind != "f":
        raise NotImplementedError(
            f'"{what}" not implemented for {dtypes.BY_CHAR[dtype.char].short!r}: it needs a floating dtype'
        )


def _continuous(self: Any, name: str) -> None:
    d = dtypes.of(self._array)
    if not d.is_floating_point:
        raise RuntimeError(
            f"{name} distribution is a continuous probability distribution. dtype must be a floating point "
            f"but you specified {d.short}"
        )


def check_std(std: float) -> None:
    """RuntimeError for a negative standard deviation."""
    if not std >= 0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {std}")


def check_probability(p: float, name: str) -> float:
    """p as a float; RuntimeError unless it lies in [0, 1]."""
    if not 0 <= p <= 1:
        raise RuntimeError(f"{name} expects p to be in [0, 1], but got p={p}")
    return float(p)


def uniform_(self: Any, from_: float = 0.0, to: float = 1.0, *, generator: Any = None, **named: Any) -> Any:
    """In place: uniform in [from, to)."""
    low = _from_argument(from_, named, "uniform_")
    require_floating(self._array.dtype, "uniform_")
    if low > to:
        raise RuntimeError(f"uniform_ expects to return a [from, to) range, but found from={low} > to={to}")
    return _fill(self, "uniform_", generator, draws.fill_uniform, draws.uniform, float(low), float(to))


def _from_argument(value: Any, named: dict[str, Any], name: str) -> Any:
    """``from`` is a word of Python: it can only arrive among the other keywords."""
    value = named.pop("from", value)
    if named:
        raise TypeError(f"{name}() got an unexpected keyword argument {next(iter(named))!r}")
    return value


def normal_(self: Any, mean: float = 0.0, std: float = 1.0, *, generator: Any = None) -> Any:
    """In place: normal with this mean and standard deviation."""
    require_floating(self._array.dtype, "normal_kernel_cpu")
    check_std(std)
    return _fill(self, "normal_", generator, draws.fill_normal, draws.normal, float(mean), float(std))


def bernoulli_(self: Any, p: Any = 0.5, *, generator: Any = None) -> Any:
    """In place: 1 with probability p (a number, or a tensor that broadcasts), else 0."""
    if isinstance(p, Value):
        given = np.broadcast_to(_probabilities(p), self._array.shape)
        return _write(self, "bernoulli_", generator, lambda _, g: draws.below(given, g))
    p = check_probability(p, "bernoulli_")
    return _write(self, "bernoulli_", generator, lambda shape, g: draws.chance(shape, p, g))


def _probabilities(p: Value) -> np.ndarray:
    array = p._array
    require_floating(array.dtype, "bernoulli_tensor_cpu_p_")
    _check_probabilities(array)
    return array


@hosted
def _check_probabilities(array: np.ndarray) -> None:
    if array.size and not bool(((array >= 0) & (array <= 1)).all()):
        raise RuntimeError("bernoulli expects all probabilities to be in [0, 1]")


def random_(
    self: Any, from_: int | None = None, to: int | None = None, *, generator: Any = None, **named: Any
) -> Any:
    """In place: whole numbers in [from, to), in [0, to), or in all of the dtype that are not negative."""
    low = _from_argument(from_, named, "random_")
    if low is not None and to is None and "from" not in named:
        low, to = 0, low  # one number is the end
    least, most = draws.integer_limits(dtypes.of(self._array))
    if to is None:
        low, to = low or 0, most + 1
    else:
        low = 0 if low is None else low
        check_range(low, to, dtypes.of(self._array), least, most)
    return _write(self, "random_", generator, lambda shape, g: draws.integers(shape, g, int(low), int(to)))


def check_range(low: int, high: int, dtype: dtypes.dtype, least: int, most: int) -> None:
    """RuntimeError unless [low, high) is a range of numbers that the dtype holds."""
    if low >= high:
        raise RuntimeError(f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}")
    if low < least:
        raise RuntimeError(f"from is out of bounds for {dtype}: {low} < {least}")
    if high - 1 > most:
        raise RuntimeError(f"to - 1 is out of bounds for {dtype}: {high - 1} > {most}")


def exponential_(self: Any, lambd: float = 1.0, *, generator: Any = None) -> Any:
    """In place: exponential with rate lambd."""
    _continuous(self, "Exponential")
    if not lambd > 0:
        raise RuntimeError(f"exponential_ expects lambda > 0.0, but found lambda={lambd}")
    return _write(self, "exponential_", generator, lambda shape, g: draws.exponential(shape, g, lambd))


def geometric_(self: Any, p: float, *, generator: Any = None) -> Any:
    """In place: the number of trials up to the first success of probability p."""
    if not 0 < p < 1:
        raise RuntimeError(f"geometric_ expects p to be in (0, 1), but got p={p}")
    return _write(self, "geometric_", generator, lambda shape, g: draws.geometric(shape, g, p))


def log_normal_(self: Any, mean: float = 1.0, std: float = 2.0, *, generator: Any = None) -> Any:
    """In place: exp of normal numbers with this mean and standard deviation."""
    require_floating(self._array.dtype, "log_normal_cpu")
    if not std > 0:
        raise RuntimeError(f"log_normal_ expects std > 0.0, but found std={std}")
    return _write(self, "log_normal_", generator, lambda shape, g: draws.log_normal(shape, g, mean, std))


def cauchy_(self: Any, median: float = 0.0, sigma: float = 1.0, *, generator: Any = None) -> Any:
    """In place: Cauchy with this median and width."""
    _continuous(self, "Cauchy")
    if not sigma > 0:
        raise RuntimeError(f"cauchy_ expects sigma > 0.0, but found sigma={sigma}")
    return _write(self, "cauchy_", generator, lambda shape, g: draws.cauchy(shape, g, median, sigma))


# -- new tensors -----------------------------------------------------------------------------------------


@kernel_op(input=zeros_for, name="bernoulli", native=True)
def _bernoulli(input: np.ndarray, *, values: np.ndarray) -> np.ndarray:
    """Draws that the input decided on; their gradient is zero."""
    return values


@kernel_op(input=zeros_for, name="poisson", native=True)
def _poisson(input: np.ndarray, *, values: np.ndarray) -> np.ndarray:
    """Draws that the input decided on; their gradient is zero."""
    return values


def bernoulli(input: Any, p: Any = None, *, generator: Any = None, out: Any = None) -> Any:
    """1 with probability input (or with probability p, in the shape of input), else 0."""
    shape = input._array.shape
    if p is None:
        values = draws.below(_probabilities(input), chosen(generator))
    else:
        values = draws.chance(shape, check_probability(p, "bernoulli"), chosen(generator))
    result = _bernoulli(input, values=cast(values, input._array.dtype))
    return result if out is None else out.copy_(result)


@kernel_op(mean=zeros_for, std=zeros_for, name="normal", native=True)
def _normal(mean: Any, std: Any, *, values: np.ndarray) -> np.ndarray:
    """Draws around a mean; their gradient is zero."""
    return values


def normal_around(mean: Any, std: Any, generator: Any) -> Any:
    """Normal numbers where mean, standard deviation or both are tensors."""
    tensors = [v for v in (mean, std) if isinstance(v, Value)]
    for v in tensors:
        require_floating(v._array.dtype, "normal_kernel_cpu")
    if isinstance(std, Value):
        _check_stds(std._array)
    else:
        check_std(std)
    shape = broadcast_shapes(*[v._array.shape for v in tensors])
    to = dtypes.result_type(tensors).numpy
    m, s = (v._array if isinstance(v, Value) else v for v in (mean, std))
    values = _around(draws.normal(shape, to, chosen(generator)), s, m, to)
    given = [v if isinstance(v, Value) else None for v in (mean, std)]
    return _normal(*given, values=values)


@hosted
def _check_stds(array: np.ndarray) -> None:
    if not (array >= 0).all():
        raise RuntimeError("normal expects all elements of std >= 0.0")


@hosted
def _around(unit: np.ndarray, std: Any, mean: Any, to: np.dtype) -> np.ndarray:
    return (unit * std + mean).astype(to, copy=False)  # type: ignore[no-any-return]


@hosted
def _check_rates(array: np.ndarray) -> None:
    if array.size and (array < 0).any():
        raise RuntimeError("invalid Poisson rate, expected rate to be non-negative")


def poisson(input: Any, generator: Any = None) -> Any:
    """Poisson distributed numbers with the means in input."""
    array = input._array
    require_floating(array.dtype, "poisson_cpu")
    _check_rates(array)
    return _poisson(input, values=draws.poisson(array, chosen(generator)))


def multinomial(
    input: Any, num_samples: int, replacement: bool = False, *, generator: Any = None, out: Any = None
) -> Any:
    """Indices drawn with the weights in each row of input, with or without putting them back; int64."""
    weights = input._array
    if weights.ndim not in (1, 2):
        raise RuntimeError("prob_dist must be 1 or 2 dim")
    if weights.dtype.kind != "f":
        raise RuntimeError(
            f"multinomial only supports floating-point dtypes for input, got: {dtypes.of(weights).short}"
        )
    if num_samples <= 0:
        raise RuntimeError("cannot sample n_sample <= 0 samples")
    count = weights.shape[-1]
    if not replacement and num_samples > count:
        raise RuntimeError("cannot sample n_sample > prob_dist.size(-1) samples without replacement")
    rows = contiguous(weights, np.float64).reshape(-1, count) if count else weights.reshape(0, 0)
    _check_weights(rows)
    picked = (_with_replacement if replacement else _without_replacement)(
        rows, int(num_samples), chosen(generator)
    )
    result = input._make(picked.reshape(*weights.shape[:-1], num_samples))
    return result if out is None else out.copy_(result)


@hosted
def _check_weights(rows: np.ndarray) -> None:
    if not np.isfinite(rows).all() or (rows < 0).any():
        raise RuntimeError("probability tensor contains either `inf`, `nan` or element < 0")
    if (rows.sum(1) <= 0).any():
        raise RuntimeError("invalid multinomial distribution (sum of probabilities <= 0)")


@hosted
def _sums(rows: np.ndarray) -> np.ndarray:
    return np.cumsum(rows, 1)


def _with_replacement(rows: np.ndarray, samples: int, generator: Generator) -> np.ndarray:
    units = draws.unit((len(rows), samples), generator)
    out = np.empty(units.shape, np.int64)
    totals = _sums(rows)
    launch(kernels.random.search, (totals, units, out, rows.shape[1], samples), len(rows), 8 * out.size)
    return out


def _without_replacement(rows: np.ndarray, samples: int, generator: Generator) -> np.ndarray:
    # The race of exponential clocks: the order in which they ring is a draw without replacement.
    return _ring(draws.exponential(rows.shape, generator, 1.0), rows, samples)


@hosted
def _ring(waits: np.ndarray, rows: np.ndarray, samples: int) -> np.ndarray:
    """The first clocks of each row; a clock of twice the weight rings twice as often."""
    with np.errstate(divide="ignore"):
        times = waits / rows
    if samples == 1:
        return times.argmin(1)[:, None].astype(np.int64)  # type: ignore[no-any-return]
    if samples <= FEW:
        return first_of_rows(times, samples, False)[1]
    return np.argsort(times, axis=1, kind="stable")[:, :samples].astype(np.int64)


class RandomMethods:
    """a.uniform_(), a.normal_(), a.bernoulli(), ..."""

    __slots__ = ()

    uniform_, normal_, bernoulli_, random_ = uniform_, normal_, bernoulli_, random_
    exponential_, geometric_, log_normal_, cauchy_ = exponential_, geometric_, log_normal_, cauchy_
    bernoulli, multinomial = bernoulli, multinomial
