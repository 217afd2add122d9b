"""Norms of vectors and distances between points."""

from __future__ import annotations

import math
from typing import Any

from .. import dtypes
from ..tape import Value
from .arithmetic import sub
from .axes import numpy_names
from .dims import wrap_dims
from .linalg_measures import nuclear_norm
from .reduce import vector_norm
from .shape import broadcast_shapes, unsqueeze

__all__ = ["cdist", "dist", "norm"]


@numpy_names
def norm(
    input: Any, p: Any = "fro", dim: Any = None, keepdim: bool = False, out: Any = None, dtype: Any = None
) -> Any:
    """The p-norm of all elements or over dimensions; "fro" means 2, "nuc" the sum of singular values."""
    if isinstance(p, str):
        if p == "nuc":
            return nuclear_norm(input, (-2, -1) if dim is None else dim, keepdim, out=out)
        if p != "fro":
            raise RuntimeError(f"norm: p must be a number or 'fro', got {p!r}")
        if dim is not None and len(wrap_dims(dim, input._array.ndim)) > 2:
            raise RuntimeError(f"norm: the Frobenius norm takes one or two dimensions, got {dim}")
        p = 2
    return vector_norm(input, 2 if p is None else p, dim, keepdim, dtype=dtype, out=out)


def dist(input: Any, other: Any, p: float = 2) -> Any:
    """The p-norm of input - other, which broadcast."""
    for name, x in (("input", input), ("other", other)):
        if not isinstance(x, Value):
            raise TypeError(f"dist(): argument '{name}' must be Tensor, not {type(x).__name__}")
    return vector_norm(sub(input, other), p)


def cdist(x1: Any, x2: Any, p: float = 2.0, compute_mode: str = "use_mm_for_euclid_dist_if_necessary") -> Any:
    """p-norm distances between each row of x1 (..., P, M) and each row of x2 (..., R, M): (..., P, R)."""
    modes = ("use_mm_for_euclid_dist_if_necessary", "use_mm_for_euclid_dist", "donot_use_mm_for_euclid_dist")
    if compute_mode not in modes:
        raise ValueError(f"{compute_mode} is not a valid value for compute_mode")
    for name, x in (("X1", x1), ("X2", x2)):
        if x._array.dtype.kind != "f":
            raise RuntimeError(
                f"cdist only supports floating-point dtypes, {name} got: {dtypes.of(x._array).short}"
            )
        if x._array.ndim < 2:
            raise RuntimeError(f"cdist only supports at least 2D tensors, {name} got: {x._array.ndim}D")
    a, b = x1._array.shape, x2._array.shape
    if a[-1] != b[-1]:
        raise RuntimeError(f"X1 and X2 must have the same number of columns. X1: {a[-1]} X2: {b[-1]}")
    if p < 0 or math.isnan(p):
        raise RuntimeError(f"cdist only supports non-negative p values, got {p}")
    broadcast_shapes(a[:-2], b[:-2])
    if not a[-1] and math.isinf(p):
        return x1.new_zeros((*broadcast_shapes(a[:-2], b[:-2]), a[-2], b[-2]))
    return vector_norm(sub(unsqueeze(x1, -2), unsqueeze(x2, -3)), p, -1)


class NormMethods:
    """a.norm(), a.dist(b)"""

    __slots__ = ()

    dist = dist

    def norm(self, p: Any = "fro", dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:
        """The p-norm of all elements or over dimensions."""
        return norm(self, p, dim, keepdim, dtype=dtype)
