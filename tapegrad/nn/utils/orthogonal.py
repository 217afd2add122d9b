"""A parametrization by matrices with orthonormal columns (or rows).

Mario Lezcano-Casado, "Trivializations for gradient-based optimization on manifolds", 2019.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import linalg
from ...creation import eye
from ...modes import no_grad
from ...ops.arithmetic import where
from ...ops.shape import cat
from ...tensor import Tensor
from ..module import Module
from . import parametrize

MAPS = ("matrix_exp", "cayley", "householder")


class _Orthogonal(Module):
    """Any matrix of the weight's shape to an orthogonal one; with ``base``, near that one."""

    base: Tensor | None

    def __init__(self, weight: Tensor, orthogonal_map: str, *, use_trivialization: bool = True) -> None:
        super().__init__()
        self.shape = weight.shape
        self.orthogonal_map = orthogonal_map
        if use_trivialization:
            self.register_buffer("base", None)

    def forward(self, X: Tensor) -> Any:
        wide = X.shape[-2] < X.shape[-1]
        tall = X.mT if wide else X
        Q = self._reflected(tall) if self.orthogonal_map == "householder" else self._from_skew(tall)
        if hasattr(self, "base"):
            Q = self.base @ Q
        return Q.mT if wide else Q

    def _from_skew(self, X: Any) -> Any:
        """The exponential of a skew-symmetric matrix, or (I - A/2)^-1 (I + A/2); the first columns of it."""
        n, k = X.shape[-2:]
        X = X.tril()
        if n != k:
            X = cat([X, X.new_zeros((*X.shape[:-2], n, n - k))], -1)
        A = X - X.mT
        if self.orthogonal_map == "matrix_exp":
            return linalg.matrix_exp(A)[..., :k]
        one = eye(n, dtype=A.dtype)
        return linalg.solve(one - A / 2, one + A / 2)[..., :k]

    def _reflected(self, X: Any) -> Any:
        """The product of reflections along the columns below the diagonal, whose signs scale the columns."""
        n, k = X.shape[-2:]
        V = X.tril(-1) + eye(n, k, dtype=X.dtype)
        scale = 2.0 / (V * V).sum(-2)
        Q = eye(n, k, dtype=X.dtype).expand(X.shape)
        for i in reversed(range(k)):
            v = V[..., i : i + 1]
            Q = Q - scale[..., i, None, None] * v * (v.mT @ Q)
        return Q * X.detach().diagonal(0, -2, -1).int().unsqueeze(-2)

    @no_grad()
    def right_inverse(self, Q: Tensor) -> Any:
        """With ``base``: keep the nearest orthogonal matrix there, and start at minus the unit matrix."""
        if tuple(Q.shape) != tuple(self.shape):
            raise ValueError(
                f"Expected a matrix or batch of matrices of shape {self.shape}. Got a tensor of shape {Q.shape}."
            )
        wide = Q.shape[-2] < Q.shape[-1]
        tall = Q.mT if wide else Q
        if not hasattr(self, "base"):
            if self.orthogonal_map != "householder":
                raise NotImplementedError(
                    "It is not possible to assign to the matrix exponential or the Cayley parametrizations when "
                    "use_trivialization=False."
                )
            found = _reflections(tall)
            return found.mT if wide else found
        n, k = tall.shape[-2:]
        if n != k:
            tall = cat([tall, tall.new_empty((*tall.shape[:-2], n, n - k)).normal_()], -1)
        self.base = tall.clone() if n == k and _is_orthogonal(tall) else _orthonormal(tall)
        start = Q.new_zeros(Q.shape)
        start.diagonal(0, -2, -1).fill_(-1.0)
        return start


def _is_orthogonal(Q: Any) -> bool:
    n, k = Q.shape[-2:]
    one = eye(k, dtype=Q.dtype)
    eps = 10.0 * n * np.finfo(Q._array.dtype).eps
    return bool((Q.mT @ Q - one).abs().max() <= eps) if Q.numel() else True


def _orthonormal(A: Any) -> Any:
    """The orthogonal factor whose triangular one has a positive diagonal."""
    Q, R = linalg.qr(A)
    return Q * R.diagonal(0, -2, -1).sign().unsqueeze(-2)


def _reflections(Q: Any) -> Any:
    """What ``_reflected`` makes this matrix (or the orthogonal factor of it) of."""
    raw, tau = np.linalg.qr(Q._array, mode="raw")
    A = Q._make(np.ascontiguousarray(np.swapaxes(raw, -1, -2)))
    diagonal = A.diagonal(0, -2, -1)
    signs = diagonal.sign()
    # LAPACK says by exactly zero that it did not reflect.
    diagonal.copy_(where(Q._make(tau == 0.0), -signs, signs))
    return A


def orthogonal(
    module: Module,
    name: str = "weight",
    orthogonal_map: str | None = None,
    *,
    use_trivialization: bool = True,
) -> Module:
    """Keep a weight orthogonal: Q^T Q = 1, or Q Q^T = 1 if it is wider than tall.

    ``orthogonal_map`` is "matrix_exp" (default for square ones), "cayley" or "householder".
    """
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    if weight.dim() < 2:
        raise ValueError(
            f"Expected a matrix or batch of matrices. Got a tensor of {weight.dim()} dimensions."
        )
    if orthogonal_map is None:
        orthogonal_map = "matrix_exp" if weight.shape[-2] == weight.shape[-1] else "householder"
    if orthogonal_map not in MAPS:
        raise ValueError(
            f'orthogonal_map has to be one of "matrix_exp", "cayley", "householder". Got: {orthogonal_map}'
        )
    made = _Orthogonal(weight, orthogonal_map, use_trivialization=use_trivialization)
    parametrize.register_parametrization(module, name, made, unsafe=True)
    return module
