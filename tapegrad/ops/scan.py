"""Scans along a dimension: sums, products, extrema and log-sum-exps so far, differences, and trapezoids."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import buffers, dtypes, kernels, return_types
from ..kernels.arrays import cast, copy, zeros
from ..kernels.recording import hosted
from ..op import kernel_op
from ..tape import Value
from .along import add_along
from .arithmetic import add, div, eq, logical_xor, mul, sub, where
from .axes import lane, numpy_names, widened
from .dims import wrap_dim
from .inplace import kernel_inplace
from .maths import exp
from .out import into
from .shape import cat, clone, narrow, reshape

__all__ = [
    "cummax",
    "cummin",
    "cumprod",
    "cumsum",
    "cumulative_trapezoid",
    "diff",
    "logcumsumexp",
    "trapezoid",
    "trapz",
]  # fmt: skip


def _scan(scan: Any, arrays: tuple[np.ndarray, ...], dim: int, reverse: bool) -> np.ndarray:
    lanes = [lane(widened(a), dim) for a in arrays]
    first, sizes = lanes[0]
    out = buffers.empty(first.shape, first.dtype)
    scan.run(tuple([a for a, _ in lanes]), out, sizes, reverse)
    return out if out.dtype is arrays[0].dtype else cast(out, arrays[0].dtype)


@hosted
def _whole(x: np.ndarray, dim: int, product: bool) -> np.ndarray:
    """Sums or products up to each place of whole numbers."""
    scan = np.cumprod if product else np.cumsum
    return scan(x, axis=dim if x.ndim else None, dtype=x.dtype).reshape(x.shape)


# -- ops ---------------------------------------------------------------------------------------------


@kernel_op(x=lambda g, dim, reverse: summed_up(g, dim=dim, reverse=not reverse), name="cumsum", native=True)
def summed_up(x: Any, *, dim: Any, reverse: Any) -> Any:
    """Sums of what comes up to each place; from the end with ``reverse``."""
    if x.dtype.kind != "f":
        return _whole(x, dim, False)
    return _scan(kernels.scan.SUM, (x,), dim, reverse)


@kernel_op(x=lambda g, dim, by: moved(g, dim=dim, by=-by), name="shift", native=True)
def moved(x: Any, *, dim: Any, by: Any) -> Any:
    """Every element ``by`` places further along a dimension; zeros move in."""
    out = zeros(x.shape, x.dtype)
    if x.ndim and abs(by) < x.shape[dim]:
        lead = (slice(None),) * dim
        to = (*lead, slice(by, None) if by > 0 else slice(None, by))
        copy(out[to], x[(*lead, slice(None, -by) if by > 0 else slice(-by, None))])
    return out


def _recurrence_rule(g: Any, a: Any, out: Any, dim: int, reverse: bool) -> tuple[Any, Any]:
    back = 1 if reverse else -1
    arriving = recurrence(moved(a, dim=dim, by=back), g, dim=dim, reverse=not reverse)
    return mul(arriving, moved(out, dim=dim, by=-back)), arriving


@kernel_op(all=_recurrence_rule, name="linear_recurrence", native=True)
def recurrence(a: Any, b: Any, *, dim: Any, reverse: Any) -> Any:
    """out[k] = b[k] + a[k] * out[k-1] along a dimension (k+1 with ``reverse``)."""
    return _scan(kernels.scan.LINEAR, (a, b), dim, reverse)


def _product_rule(g: Any, x: Any, out: Any, dim: int) -> Any:
    # The product of what comes before a place, times all the ways on from it: right where x is zero,
    # which dividing by x is not.
    later = recurrence(moved(x, dim=dim, by=-1), g, dim=dim, reverse=True)
    return mul(before(x, dim), later)


@kernel_op(x=_product_rule, name="cumprod", native=True)
def multiplied_up(x: Any, *, dim: Any) -> Any:
    """Products of what comes up to each place."""
    if x.dtype.kind != "f":
        return _whole(x, dim, True)
    return _scan(kernels.scan.PRODUCT, (x,), dim, False)


def before(x: Any, dim: int) -> Any:
    """Products of what comes before each place."""
    shape = x._array.shape
    if not shape or not x._array.size:
        return x.new_ones(shape)
    first = x.new_ones((*shape[:dim], 1, *shape[dim + 1 :]))
    return cat([first, multiplied_up(narrow(x, dim, 0, shape[dim] - 1), dim=dim)], dim)


def _log_sum_exp_rule(g: Any, x: Any, out: Any, dim: int) -> Any:
    # exp(out[k] - out[k+1]) is at most 1, so the sum over all later places cannot overflow.
    empty = eq(out, -math.inf)
    safe = where(empty, 0.0, out)
    step = safe - moved(safe, dim=dim, by=-1)  # NaN between two infinities, and meaningless at the last place
    factor = where(empty, 0.0, exp(where(step <= 0, step, 0.0)))
    return mul(where(empty, 0.0, exp(x - safe)), recurrence(factor, g, dim=dim, reverse=True))


@kernel_op(x=_log_sum_exp_rule, name="logcumsumexp", native=True)
def log_summed_up(x: Any, *, dim: Any) -> Any:
    """Logarithms of the sums of the exponentials up to each place."""
    return _scan(kernels.scan.LOG_SUM_EXP, (x,), dim, False)


def _extremes(which: str, x: np.ndarray, dim: int) -> tuple[np.ndarray, np.ndarray]:
    row, sizes = lane(widened(x).view(np.uint8) if x.dtype.char == "?" else widened(x), dim)
    values, places = np.empty(row.shape, row.dtype), np.empty(row.shape, np.int64)
    if values.size:
        kernels.scan.extremum(which, row, values, places, sizes)
    return cast(values, x.dtype), places


def _extremes_rule(gs: Any, indices: Any, x_shape: Any, dim: int) -> Any:
    return add_along(gs[0], indices, shape=x_shape, dim=dim)


@kernel_op(x=_extremes_rule, outputs=("values", "indices"), name="cummax", native=True)
def largest_so_far(x: Any, *, dim: Any) -> Any:
    """The largest element up to each place, and where it is."""
    return _extremes("max", x, dim)


@kernel_op(x=_extremes_rule, outputs=("values", "indices"), name="cummin", native=True)
def smallest_so_far(x: Any, *, dim: Any) -> Any:
    """The smallest element up to each place, and where it is."""
    return _extremes("min", x, dim)


# -- PyTorch's faces -----------------------------------------------------------------------------------


def _accumulated(input: Any, dtype: Any) -> Any:
    """The input in the type of its sums: integers and bools add up in int64."""
    have = dtypes.of(input._array)
    to = dtypes.as_dtype(dtype) if dtype is not None else have if have.is_floating_point else dtypes.int64
    return input if have is to else input.to(to)


@numpy_names
def cumsum(input: Any, dim: int, *, dtype: Any = None, out: Any = None) -> Any:
    """Sums of the elements up to each place along a dimension."""
    dim = wrap_dim(dim, input._array.ndim)
    return into(summed_up(_accumulated(input, dtype), dim=dim, reverse=False), out, "cumsum")


@numpy_names
def cumprod(input: Any, dim: int, *, dtype: Any = None, out: Any = None) -> Any:
    """Products of the elements up to each place along a dimension."""
    dim = wrap_dim(dim, input._array.ndim)
    return into(multiplied_up(_accumulated(input, dtype), dim=dim), out, "cumprod")


def logcumsumexp(input: Any, dim: int, *, out: Any = None) -> Any:
    """Logarithms of the sums of the exponentials of the elements up to each place."""
    dim = wrap_dim(dim, input._array.ndim)
    if input._array.dtype.kind != "f":
        raise RuntimeError(
            f"\"logcumsumexp_out_cpu\" not implemented for '{dtypes.of(input._array).short}'; use .float()"
        )
    return into(log_summed_up(input, dim=dim), out, "logcumsumexp")


def cummax(input: Any, dim: int) -> Any:
    """The largest element up to each place and its index, as (values, indices)."""
    return return_types.cummax(*largest_so_far(input, dim=wrap_dim(dim, input._array.ndim)))


def cummin(input: Any, dim: int) -> Any:
    """The smallest element up to each place and its index, as (values, indices)."""
    return return_types.cummin(*smallest_so_far(input, dim=wrap_dim(dim, input._array.ndim)))


def diff(
    input: Any, n: int = 1, dim: int = -1, prepend: Any = None, append: Any = None, *, out: Any = None
) -> Any:
    """Differences of neighbours along a dimension, ``n`` times over."""
    rank = input._array.ndim
    if not rank:
        raise RuntimeError("diff expects input to be at least one-dimensional")
    if n < 0:
        raise RuntimeError(f"order must be non-negative but got {n}")
    d = wrap_dim(dim, rank)
    for name, x in (("prepend", prepend), ("append", append)):
        if x is not None:
            _check_joinable(input, x, d, name)
    if not n:
        return into(clone(input), out, "diff")
    parts = [x for x in (prepend, input, append) if x is not None]
    result = cat(parts, d) if len(parts) > 1 else input
    difference = logical_xor if input._array.dtype.char == "?" else sub
    for _ in range(min(n, result._array.shape[d])):
        length = result._array.shape[d] - 1
        result = (
            difference(narrow(result, d, 1, length), narrow(result, d, 0, length))
            if length
            else narrow(result, d, 0, 0)
        )
    return into(result, out, "diff")


def _check_joinable(input: Any, x: Any, dim: int, name: str) -> None:
    have, want = x._array.shape, input._array.shape
    if len(have) != len(want):
        raise RuntimeError(
            f"diff expects prepend or append to be the same dimension as input: {name} has {len(have)}, "
            f"input {len(want)}"
        )
    if any(a != b for d, (a, b) in enumerate(zip(have, want, strict=True)) if d != dim):
        raise RuntimeError(
            "diff expects the shape of tensor to prepend or append to match that of input except along the "
            f"differencing dimension: {name} has {list(have)}, input {list(want)}"
        )


# -- trapezoids ----------------------------------------------------------------------------------------


def _neighbours(x: Any, dim: int) -> tuple[Any, Any]:
    last = max(x._array.shape[dim] - 1, 0)
    return narrow(x, dim, 0, last), narrow(x, dim, x._array.shape[dim] - last, last)


def _panels(y: Any, x: Any, dx: Any, dim: int, name: str) -> tuple[Any, int]:
    """Twice the area between each two neighbours, and the dimension they lie along."""
    rank = y._array.ndim
    if not rank:
        wrap_dim(dim, rank, scalar_ok=False)  # says what is wrong
    if x is not None and dx is not None:
        raise TypeError(f"{name}() received an invalid combination of arguments: give x or dx, not both")
    d = wrap_dim(dim, rank)
    for t in (y, x):
        if isinstance(t, Value) and t._array.dtype.char == "?":
            raise RuntimeError(
                f"{name}: received a bool input for `{'y' if t is y else 'x'}`, but bool is not supported"
            )
    left, right = _neighbours(y, d)
    if x is None:
        return mul(add(left, right), 1 if dx is None else dx), d
    if not x._array.ndim:
        raise RuntimeError(f"{name}: The x tensor cannot be a scalar (0-dimensional)")
    n = y._array.shape[d]
    if x._array.ndim == 1:
        if x._array.shape[0] != n:
            raise RuntimeError(
                f"{name}: There must be one `x` value for each sample point: got {x._array.shape[0]} for {n}"
            )
        x = reshape(x, (n, *[1] * (rank - d - 1)))
        at = 0
    else:
        ones = rank - x._array.ndim
        x = reshape(x, (*[1] * ones, *x._array.shape)) if ones > 0 else x
        at = d + max(-ones, 0)
    a, b = _neighbours(x, at)
    return mul(add(left, right), sub(b, a)), d - rank


def trapezoid(y: Any, x: Any = None, *, dx: Any = None, dim: int = -1) -> Any:
    """The integral along a dimension by the trapezoidal rule, over points ``x`` or in steps of ``dx``."""
    if y._array.ndim and not y._array.shape[wrap_dim(dim, y._array.ndim)]:
        d = wrap_dim(dim, y._array.ndim)
        return y.new_zeros((*y._array.shape[:d], *y._array.shape[d + 1 :]))
    panels, d = _panels(y, x, dx, dim, "trapezoid")
    return div(panels.sum(d), 2)


def trapz(y: Any, x: Any = None, *, dx: Any = None, dim: int = -1) -> Any:
    """The same as trapezoid."""
    return trapezoid(y, x, dx=dx, dim=dim)


def cumulative_trapezoid(y: Any, x: Any = None, *, dx: Any = None, dim: int = -1) -> Any:
    """The integral up to each point along a dimension by the trapezoidal rule."""
    panels, d = _panels(y, x, dx, dim, "cumulative_trapezoid")
    return div(cumsum(panels, d), 2)


class ScanMethods:
    """a.cumsum(0), a.diff(), ..."""

    __slots__ = ()

    cumsum, cumprod, cummax, cummin, logcumsumexp, diff = cumsum, cumprod, cummax, cummin, logcumsumexp, diff

    def cumsum_(self, dim: int, *, dtype: Any = None) -> Any:
        """In place: sums of the elements up to each place along a dimension."""
        _same_type(self, dtype, "cumsum_")
        return kernel_inplace(summed_up, self, dim=wrap_dim(dim, self._array.ndim), reverse=False)  # type: ignore[attr-defined]

    def cumprod_(self, dim: int, *, dtype: Any = None) -> Any:
        """In place: products of the elements up to each place along a dimension."""
        _same_type(self, dtype, "cumprod_")
        return kernel_inplace(multiplied_up, self, dim=wrap_dim(dim, self._array.ndim))  # type: ignore[attr-defined]


def _same_type(self: Any, dtype: Any, name: str) -> None:
    if dtype is not None and dtypes.as_dtype(dtype) is not dtypes.of(self._array):
        raise RuntimeError(
            f"Bad in-place call: {name}: input tensor dtype {dtypes.of(self._array)} and output tensor dtype "
            f"{dtype} should match"
        )
