"""Variance and standard deviation, alone and together with the mean."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

from .. import dtypes, kernels
from ..kernels import launch_lazily as launch
from ..kernels.arrays import cast, contiguous, filled
from ..op import KernelOp
from .arithmetic import div, mul, sub
from .axes import count_of, final_shape, in_memory_order, kept, kept_shape, numpy_names, run_sizes, widened
from .out import into
from .reduce import averaged_over, safe_quotient
from .reducing import ReduceOp, plan

__all__ = ["std", "std_mean", "var", "var_mean"]

_DOUBLE = np.dtype(np.float64)

# -- ops -----------------------------------------------------------------------------------------------


def _moments(x: np.ndarray, dims: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Means and sums of squared deviations over dims in float64, flat or in the shape of what is left."""
    if not x.size:
        left = final_shape(x.shape, dims, False)
        return filled(left, np.nan, _DOUBLE), filled(left, np.nan, _DOUBLE)
    y, inside, restore = (x, dims, None) if x.flags.c_contiguous else in_memory_order(x, dims)
    sizes, rest = run_sizes(y.shape, inside)
    mean, m2 = kernels.reduce.moments(y, sizes)
    if rest:
        # The other dimensions: few numbers are left of each run.
        shape = kept_shape(y.shape, tuple(d for d in inside if d not in rest))
        order = [*[d for d in range(y.ndim) if d not in rest], *rest]
        mean, m2 = (contiguous(a.reshape(shape).transpose(order)) for a in (mean, m2))
        mean, m2 = kernels.reduce.merged(mean, m2, count_of(y.shape, rest), sizes[1], sizes[1])
    if restore is None:
        return mean, m2
    shape = final_shape(y.shape, inside, False)
    return restore(mean.reshape(shape)), restore(m2.reshape(shape))


def _forward(root: bool, pair: bool) -> Any:
    def forward(x: np.ndarray, *, dims: Any, correction: float, shape: Any) -> tuple[np.ndarray, np.ndarray]:
        """Variance (or its root) and mean over dims."""
        mean, m2 = _moments(widened(x), dims)
        freedom = float(max(count_of(x.shape, dims) - correction, 0.0))
        made = _DOUBLE if x.dtype.char == "e" else x.dtype
        result, average = np.empty(m2.shape, made), np.empty(m2.shape, made)
        args = (mean, m2, result, average, freedom, int(root))
        launch(kernels.reduce.finish_moments, args, m2.size, m2.size)
        result, average = cast(result, x.dtype), cast(average, x.dtype)
        return result.reshape(shape), average.reshape(shape if pair else kept_shape(x.shape, dims))

    return forward


def _mean(x: Any, dims: Any) -> Any:
    shape = x._array.shape
    return averaged_over(x, dims=dims, shape=kept_shape(shape, dims), dtype=x._array.dtype)


def _per_freedom(x: Any, dims: Any, correction: float) -> float:
    """1 / (n - correction)"""
    freedom = count_of(x._array.shape, dims) - correction
    return 1 / freedom if freedom else math.inf


def _var_rule(g: Any, x: Any, average: Any, dims: Any, correction: float) -> Any:
    return mul(mul(kept(g, x._array.shape, dims), 2 * _per_freedom(x, dims, correction)), sub(x, average))


def _std_rule(g: Any, x: Any, out: Any, average: Any, dims: Any, correction: float) -> Any:
    shape = x._array.shape
    # The root has no slope at zero; PyTorch and this library take zero.
    slope = safe_quotient(kept(g, shape, dims), kept(out, shape, dims))
    return mul(mul(slope, _per_freedom(x, dims, correction)), sub(x, average))


def _var_mean_rule(gs: Any, x: Any, average: Any, dims: Any, correction: float) -> Any:
    shape = x._array.shape
    first = _var_rule(gs[0], x, kept(average, shape, dims), dims, correction)
    return first + div(kept(gs[1], shape, dims), count_of(shape, dims))


def _std_mean_rule(gs: Any, x: Any, deviation: Any, average: Any, dims: Any, correction: float) -> Any:
    shape = x._array.shape
    first = _std_rule(gs[0], x, deviation, kept(average, shape, dims), dims, correction)
    return first + div(kept(gs[1], shape, dims), count_of(shape, dims))


_RESIDUAL = {"average": _mean}
variance = ReduceOp(_forward(False, False), {"x": _var_rule}, "VarBackward0", "var", _RESIDUAL, True)
deviation = ReduceOp(_forward(True, False), {"x": _std_rule}, "StdBackward0", "std", _RESIDUAL, True)
variance_and_mean = KernelOp(
    _forward(False, True),
    {"x": _var_mean_rule},
    ("variance", "average"),
    {},
    "VarMeanBackward0",
    "var_mean",
    True,
)
deviation_and_mean = KernelOp(
    _forward(True, True),
    {"x": _std_mean_rule},
    ("deviation", "average"),
    {},
    "StdMeanBackward0",
    "std_mean",
    True,
)


# -- PyTorch's faces -----------------------------------------------------------------------------------


def _run(op: KernelOp, input: Any, dim: Any, unbiased: Any, keepdim: bool, correction: Any, name: str) -> Any:
    if isinstance(dim, bool):  # var(input, unbiased)
        dim, unbiased = None, dim
    if unbiased is not None and correction is not None:
        raise TypeError(
            f"{name}() received an invalid combination of arguments: give unbiased or correction, not both"
        )
    if correction is None:
        correction = 1 if unbiased is None or unbiased else 0
    x = input._array
    have = dtypes.of(x)
    if not have.is_floating_point:
        raise RuntimeError(f"{name} only support floating point and complex dtypes; got {have.short}")
    dims, shape, count = plan(x.shape, dim, keepdim)
    if count <= correction and math.prod(shape):
        warnings.warn(
            f"{name}(): degrees of freedom is <= 0. Correction should be strictly less than the reduction "
            "factor (input numel divided by output numel).",
            UserWarning,
            stacklevel=3,
        )
    return op(input, dims=dims, correction=float(correction), shape=shape)


@numpy_names
def var(
    input: Any,
    dim: Any = None,
    unbiased: Any = None,
    keepdim: bool = False,
    *,
    correction: Any = None,
    out: Any = None,
) -> Any:
    """Variance over all or some dimensions: squared deviations divided by n - correction (1 if not given)."""
    return into(_run(variance, input, dim, unbiased, keepdim, correction, "var"), out, "var")


@numpy_names
def std(
    input: Any,
    dim: Any = None,
    unbiased: Any = None,
    keepdim: bool = False,
    *,
    correction: Any = None,
    out: Any = None,
) -> Any:
    """Standard deviation over all or some dimensions; its gradient at zero is zero."""
    return into(_run(deviation, input, dim, unbiased, keepdim, correction, "std"), out, "std")


@numpy_names
def var_mean(
    input: Any, dim: Any = None, unbiased: Any = None, keepdim: bool = False, *, correction: Any = None
) -> tuple[Any, Any]:
    """Variance and mean in one pass."""
    return _run(variance_and_mean, input, dim, unbiased, keepdim, correction, "var_mean")  # type: ignore[no-any-return]


@numpy_names
def std_mean(
    input: Any, dim: Any = None, unbiased: Any = None, keepdim: bool = False, *, correction: Any = None
) -> tuple[Any, Any]:
    """Standard deviation and mean in one pass."""
    return _run(deviation_and_mean, input, dim, unbiased, keepdim, correction, "std_mean")  # type: ignore[no-any-return]


class MomentMethods:
    """a.var(), a.std(0), ..."""

    __slots__ = ()

    var, std = var, std
