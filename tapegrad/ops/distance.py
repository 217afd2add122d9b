"""Norms, distances and angles between vectors, and forms of two of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..tape import Value
from .arithmetic import div
from .clamping import clamp
from .matmul import matmul
from .pick import index_select
from .reduce import sum as total
from .reduce import vector_norm
from .shape import broadcast_tensors, expand_as, permute, reshape, unsqueeze

__all__ = ["bilinear", "cosine_similarity", "pairwise_distance", "pdist"]


def normalize(input: Any, p: float = 2.0, dim: Any = 1, eps: float = 1e-12, out: Any = None) -> Any:
    """input / max(p-norm along ``dim``, eps)."""
    size = expand_as(clamp(vector_norm(input, p, dim, True), min=eps), input)
    return div(input, size, out=out)


def cosine_similarity(x1: Any, x2: Any, dim: int = 1, eps: float = 1e-8) -> Any:
    """x1 . x2 / (max(|x1|, eps) * max(|x2|, eps)) along ``dim``, with broadcasting."""
    for name, x in (("x1", x1), ("x2", x2)):
        if not isinstance(x, Value):
            raise TypeError(
                f"cosine_similarity(): argument {name!r} must be a tensor, not {type(x).__name__}"
            )
        if x._array.dtype.kind != "f":
            raise RuntimeError(f"cosine_similarity: {name} must be floating, got {x._array.dtype}")
    x1, x2 = broadcast_tensors(x1, x2)
    first = clamp(vector_norm(x1, 2, dim, True), min=eps)
    second = clamp(vector_norm(x2, 2, dim, True), min=eps)
    return total((x1 / first) * (x2 / second), dim)


def pairwise_distance(x1: Any, x2: Any, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Any:
    """The p-norm of x1 - x2 + eps along the last dimension, with broadcasting."""
    return vector_norm(x1 - x2 + eps, p, -1, keepdim)


def pdist(input: Any, p: float = 2) -> Any:
    """The p-norm distances of all pairs of rows: (N, M) to (N * (N - 1) / 2,)."""
    if input._array.ndim != 2:
        raise RuntimeError(f"pdist only supports 2D tensors, got: {input._array.ndim}D")
    if p < 0:
        raise RuntimeError("pdist only supports non-negative p values")
    pairs = np.triu_indices(input._array.shape[0], 1)
    first, second = (index_select(input, 0, input._make(i.astype(np.int64))) for i in pairs)
    return vector_norm(first - second, p, 1)


def bilinear(input1: Any, input2: Any, weight: Any, bias: Any = None) -> Any:
    """input1 (*, I), weight (O, I, J) and input2 (*, J) give (*, O), plus ``bias`` (O,)."""
    first, second, form = input1._array.shape, input2._array.shape, weight._array.shape
    if len(form) != 3:
        raise RuntimeError(f"bilinear(): weight must be 3-d (out, in1, in2), got {list(form)}")
    if len(first) != len(second) or first[:-1] != second[:-1]:
        raise RuntimeError(
            f"bilinear(): input batch dimensions do not match: {list(first)} and {list(second)}"
        )
    if not first or first[-1] != form[1] or second[-1] != form[2]:
        raise RuntimeError(
            f"bilinear(): inputs of shapes {list(first)} and {list(second)} do not fit a weight {list(form)}"
        )
    if bias is not None and bias._array.shape != form[:1]:
        raise RuntimeError(
            f"bilinear(): bias must have the shape {list(form[:1])}, got {list(bias._array.shape)}"
        )
    outputs, n, m = form
    # One matrix product for all outputs, then a product and a sum over the second input.
    flat = reshape(permute(weight, (1, 0, 2)), (n, outputs * m))
    joined = reshape(matmul(input1, flat), (*first[:-1], outputs, m))
    out = total(joined * unsqueeze(input2, -2), -1)
    return out if bias is None else out + bias
