"""Norms, distances and angles between vectors."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...tensor import Tensor


def vector_norm(x: Tensor, p: float, dim: Any, keepdim: bool = False) -> Tensor:
    """The p-norm along a dimension, whose gradient at 0 is 0."""
    made: Tensor = x.norm(p=p, dim=dim, keepdim=keepdim)
    return made


def normalize(
    input: Tensor, p: float = 2.0, dim: Any = 1, eps: float = 1e-12, out: Tensor | None = None
) -> Any:
    """input / max(p-norm along ``dim``, eps)."""
    size = vector_norm(input, p, dim, keepdim=True).clamp(min=eps).expand_as(input)
    made = input / size
    return made if out is None else out.copy_(made)


def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """x1 . x2 / (max(|x1|, eps) * max(|x2|, eps)) along ``dim``, with broadcasting."""
    first = vector_norm(x1, 2, dim, keepdim=True).clamp(min=eps)
    second = vector_norm(x2, 2, dim, keepdim=True).clamp(min=eps)
    made: Tensor = ((x1 / first) * (x2 / second)).sum(dim)
    return made


def pairwise_distance(
    x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False
) -> Tensor:
    """The p-norm of x1 - x2 + eps along the last dimension, with broadcasting."""
    return vector_norm(x1 - x2 + eps, p, -1, keepdim)


def pdist(input: Tensor, p: float = 2) -> Tensor:
    """The p-norm distances of all pairs of rows (N, M): (N * (N - 1) / 2)."""
    if input.dim() != 2:
        raise RuntimeError(f"pdist only supports 2D tensors, got: {input.dim()}D")
    if p < 0:
        raise RuntimeError("pdist only supports non-negative p values")
    first, second = np.triu_indices(input.shape[0], 1)
    rows = [input.index_select(0, Tensor._make(i.astype(np.int64))) for i in (first, second)]
    return vector_norm(rows[0] - rows[1], p, 1)
