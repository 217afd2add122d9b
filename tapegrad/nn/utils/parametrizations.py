"""Ready-made parametrizations: orthogonal, weight norm and spectral norm."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...modes import no_grad
from ...ops.dims import wrap_dim
from ...tensor import Tensor
from .. import functional as F
from ..layers.conv import ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from ..module import Module
from . import parametrize
from .orthogonal import orthogonal as orthogonal


def norm_except(v: Tensor, dim: int) -> Tensor:
    """The 2-norm over all dimensions but one, which stays; over all of them for -1."""
    if dim == -1:
        whole: Tensor = (v * v).sum().sqrt()
        return whole
    others = tuple(d for d in range(v.dim()) if d != dim)
    made: Tensor = (v * v).sum(others, keepdim=True).sqrt()
    return made


class _WeightNorm(Module):
    """weight = v * (g / |v|): length and direction apart."""

    def __init__(self, dim: int | None = 0) -> None:
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g: Tensor, weight_v: Tensor) -> Any:
        return weight_v * (weight_g / norm_except(weight_v, self.dim))

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        """The length and the weight itself as the direction."""
        return norm_except(weight, self.dim), weight


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Learn the length (original0) and the direction (original1) of a weight apart, per index of ``dim``."""
    parametrize.register_parametrization(module, name, _WeightNorm(dim), unsafe=True)

    def old_names(state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        old = [f"{prefix}{name}_{part}" for part in "gv"]
        if all(key in state_dict for key in old):
            for i, key in enumerate(old):
                state_dict[f"{prefix}parametrizations.{name}.original{i}"] = state_dict.pop(key)

    module._register_load_state_dict_pre_hook(old_names)
    return module


class _SpectralNorm(Module):
    """weight / its largest singular value, found by power iteration in training mode."""

    _u: Tensor
    _v: Tensor

    def __init__(self, weight: Tensor, n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12) -> None:
        super().__init__()
        self.dim = wrap_dim(dim, weight.dim())
        if n_power_iterations <= 0:
            raise ValueError(
                f"Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}"
            )
        self.eps = eps
        if weight.dim() > 1:  # the norm of a vector needs no approximation
            self.n_power_iterations = n_power_iterations
            with no_grad():
                matrix = self._matrix(weight)
                for name, size in zip(("_u", "_v"), matrix.shape, strict=True):
                    start = Tensor._make(np.empty(size, matrix._array.dtype)).normal_(0, 1)
                    self.register_buffer(name, F.normalize(start, dim=0, eps=eps))
                self._power_method(matrix, 15)

    def _matrix(self, weight: Tensor) -> Tensor:
        if self.dim != 0:
            weight = weight.permute(self.dim, *(d for d in range(weight.dim()) if d != self.dim))
        made: Tensor = weight.flatten(1)
        return made

    def _power_method(self, matrix: Tensor, iterations: int) -> None:
        with no_grad():
            for _ in range(iterations):
                self._u.copy_(F.normalize(matrix @ self._v, dim=0, eps=self.eps))
                self._v.copy_(F.normalize(matrix.t() @ self._u, dim=0, eps=self.eps))

    def forward(self, weight: Tensor) -> Any:
        if weight.dim() == 1:
            return F.normalize(weight, dim=0, eps=self.eps)
        matrix = self._matrix(weight)
        if self.training:
            self._power_method(matrix, self.n_power_iterations)
        # Copies: a second forward before the backward changes u and v in place.
        u, v = self._u.clone(), self._v.clone()
        made: Tensor = weight / u.dot(matrix @ v)
        return made

    def right_inverse(self, value: Tensor) -> Tensor:
        """The value itself, which is taken to be normalised."""
        return value


def spectral_norm(
    module: Module,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
) -> Module:
    """Divide a weight by its largest singular value, as a matrix whose rows are the indices of ``dim``."""
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    if dim is None:
        # The outputs of a transposed convolution are its second dimension.
        dim = 1 if isinstance(module, (ConvTranspose1d, ConvTranspose2d, ConvTranspose3d)) else 0
    parametrize.register_parametrization(module, name, _SpectralNorm(weight, n_power_iterations, dim, eps))
    return module
