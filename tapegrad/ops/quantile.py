"""Quantiles: between the sorted elements that lie around a rank."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..op import kernel_op
from ..tape import Value
from .along import take_along
from .arithmetic import mul, sub
from .blends import mixed
from .dims import wrap_dim
from .out import into
from .shape import movedim, reshape, select, unsqueeze
from .sort import sort

__all__ = ["nanquantile", "quantile"]

_INTERPOLATIONS = ("linear", "lower", "higher", "midpoint", "nearest")


@kernel_op(name="quantile_ranks", outputs=("below", "above", "last"))
def _ranks(lanes: Any, q: Any, *, skip_nan: Any, interpolation: Any) -> Any:
    """Per lane (the last dimension, sorted) and quantile: the two places around it; and the last place."""
    n = lanes.shape[-1]
    last = np.full((*lanes.shape[:-1], 1), n - 1, lanes.dtype)
    bad = np.isnan(lanes).sum(axis=-1, keepdims=True)
    if skip_nan:
        last = np.maximum(last - bad.astype(lanes.dtype), 0)
    rank = q * last
    if not skip_nan:
        rank = np.where(bad > 0, last, rank)  # where the NaN are
    if interpolation == "lower":
        rank = np.floor(rank)
    elif interpolation == "higher":
        rank = np.ceil(rank)
    elif interpolation == "nearest":
        rank = np.rint(rank)
    return np.floor(rank).astype(np.int64), np.ceil(rank).astype(np.int64), last


def _quantile(
    input: Any, q: Any, dim: Any, keepdim: bool, interpolation: str, out: Any, skip_nan: bool, name: str
) -> Any:
    x = input._array
    if not x.size:
        raise RuntimeError(f"{name}() input tensor must be non-empty")
    if x.dtype.char not in "fd":
        raise RuntimeError(f"{name}() input tensor must be either float or double dtype")
    if interpolation not in _INTERPOLATIONS:
        raise RuntimeError(
            f"{name}() interpolation must be one of linear, lower, higher, midpoint or nearest, but got "
            f"{interpolation}"
        )
    q = _levels(q, input, name)
    d = 0 if dim is None else wrap_dim(dim, x.ndim)
    source = reshape(input, (-1,)) if dim is None or not x.ndim else input
    lanes = sort(movedim(source, d, -1), -1)[0]
    levels = reshape(q, (-1,)) if q._array.ndim else unsqueeze(q, 0)
    below, above, last = _ranks(lanes, levels, skip_nan=skip_nan, interpolation=interpolation)
    low = take_along(lanes, below, dim=lanes._array.ndim - 1)
    result = low
    if interpolation in ("linear", "midpoint"):
        high = take_along(lanes, above, dim=lanes._array.ndim - 1)
        weight = 0.5 if interpolation == "midpoint" else sub(mul(levels, last), below)
        result = mixed(low, high, weight)
    # (..., levels) becomes (levels, ...) with the dimension itself as PyTorch wants it.
    if keepdim:
        kept = [1] * x.ndim if dim is None else [1 if k == d else n for k, n in enumerate(x.shape)]
        result = reshape(movedim(result, -1, 0), (-1, *kept))
    else:
        result = movedim(result, -1, 0)
    return into(select(result, 0, 0) if not q._array.ndim else result, out, name)


def _levels(q: Any, input: Any, name: str) -> Any:
    """The quantiles that are asked for, as a tensor."""
    if not isinstance(q, Value):
        q = input._make(np.asarray(float(q), input._array.dtype))
    levels = q._array
    if levels.ndim > 1:
        raise RuntimeError(f"{name}() q must be a scalar or 1D tensor")
    if levels.dtype != input._array.dtype:
        raise RuntimeError(f"{name}() q tensor must be same dtype as the input tensor")
    if levels.size and not ((levels >= 0) & (levels <= 1)).all():
        raise RuntimeError(f"{name}() q values must be in the range [0, 1]")
    return q


def quantile(
    input: Any,
    q: Any,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    interpolation: str = "linear",
    out: Any = None,
) -> Any:
    """The q-th quantiles of all elements or along a dimension; NaN where there is one."""
    return _quantile(input, q, dim, keepdim, interpolation, out, False, "quantile")


def nanquantile(
    input: Any,
    q: Any,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    interpolation: str = "linear",
    out: Any = None,
) -> Any:
    """The q-th quantiles of what is not NaN."""
    return _quantile(input, q, dim, keepdim, interpolation, out, True, "nanquantile")


class QuantileMethods:
    """a.quantile(0.5)"""

    __slots__ = ()

    quantile, nanquantile = quantile, nanquantile
