"""Covariance and correlation of variables that are observed together."""

from __future__ import annotations

import warnings
from typing import Any

from ..tape import Value
from .arithmetic import div, mul, sub
from .clamping import clamp
from .maths import sqrt
from .matmul import matmul
from .reduce import sum as total
from .shape import diagonal, reshape, squeeze, t, unsqueeze

__all__ = ["corrcoef", "cov"]


def _weights(w: Any, observations: int, floating: bool, name: str) -> Any:
    if not isinstance(w, Value):
        raise TypeError(f"cov(): argument '{name}' must be Tensor, not {type(w).__name__}")
    x = w._array
    if x.ndim > 1:
        raise RuntimeError(
            f"cov(): expected {name} to have one or fewer dimensions but got {name} with {x.ndim} dimensions"
        )
    if (x.dtype.kind == "f") is not floating or x.dtype.kind == "b":
        kind = "floating point" if floating else "integral"
        raise RuntimeError(f"cov(): expected {name} to have {kind} dtype but got {name} with {x.dtype} dtype")
    if x.size != observations:
        raise RuntimeError(
            f"cov(): expected {name} to have the same numel as there are observations in the input but got "
            f"{x.size} != {observations}"
        )
    if x.size and (x < 0).any():
        raise RuntimeError(f"cov(): {name} cannot be negative")
    return w


def cov(input: Any, *, correction: int = 1, fweights: Any = None, aweights: Any = None) -> Any:
    """Covariances of the rows of ``input`` (variables) over its columns (observations), weighted or not."""
    if input._array.ndim > 2:
        raise RuntimeError(
            "cov(): expected input to have two or fewer dimensions but got an input with "
            f"{input._array.ndim} dimensions"
        )
    if input._array.dtype.char == "?":
        raise RuntimeError("cov(): bool dtype is not supported for input")
    x = input if input._array.ndim == 2 else reshape(input, (1, -1) if input._array.size else (1, 0))
    observations = x._array.shape[1]
    w = None
    if fweights is not None:
        w = _weights(fweights, observations, False, "fweights")
    if aweights is not None:
        a = _weights(aweights, observations, True, "aweights")
        w = a if w is None else mul(w, a)
    weight_sum = total(w) if w is not None else None
    if weight_sum is not None and observations and not weight_sum._array:
        raise RuntimeError("cov(): weights sum to zero, can't be normalized")
    if w is None:
        average = div(total(x, 1), observations)
        freedom: Any = max(observations - correction, 0)
    else:
        average = div(total(mul(x, w), 1), weight_sum)
        if aweights is None or not correction:
            freedom = sub(weight_sum, correction)
        else:
            freedom = sub(weight_sum, div(mul(total(mul(w, aweights)), correction), weight_sum))
        freedom = clamp(freedom, min=0)
    if (freedom if isinstance(freedom, int) else freedom._array) <= 0:
        warnings.warn(
            "cov(): degrees of freedom is <= 0. Correction should be strictly less than the number of "
            "observations.",
            UserWarning,
            stacklevel=2,
        )
    centred = sub(x, unsqueeze(average, 1))
    product = matmul(centred, t(centred if w is None else mul(centred, w)))
    return squeeze(div(product, freedom))


def corrcoef(input: Any) -> Any:
    """Correlation coefficients of the rows of ``input`` over its columns."""
    if input._array.ndim > 2:
        raise RuntimeError(
            "corrcoef(): expected input to have two or fewer dimensions but got an input with "
            f"{input._array.ndim} dimensions"
        )
    c = cov(input)
    if not c._array.ndim:
        return div(c, c)
    deviation = sqrt(diagonal(c))
    return clamp(div(div(c, unsqueeze(deviation, 1)), unsqueeze(deviation, 0)), -1, 1)


class CovarianceMethods:
    """a.cov(), a.corrcoef()"""

    __slots__ = ()

    cov, corrcoef = cov, corrcoef
