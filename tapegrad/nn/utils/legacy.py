"""The older weight_norm and spectral_norm, which recompute the weight in a hook before each forward.

They keep the names of their parameters (weight_g, weight_v; weight_orig, weight_u, weight_v), so older
checkpoints load. New programs use ``nn.utils.parametrizations``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...modes import no_grad
from ...tensor import Tensor
from .. import functional as F
from ..layers.conv import ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from ..module import Module
from ..parameter import Parameter
from .parametrizations import norm_except


class WeightNorm:
    """The hook of weight_norm."""

    def __init__(self, name: str, dim: int | None) -> None:
        self.name = name
        self.dim = -1 if dim is None else dim

    def compute_weight(self, module: Any) -> Tensor:
        """v * (g / |v|)"""
        g, v = getattr(module, self.name + "_g"), getattr(module, self.name + "_v")
        made: Tensor = v * (g / norm_except(v, self.dim))
        return made

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module))


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Replace a parameter by its length (NAME_g) and its direction (NAME_v)."""
    if any(isinstance(h, WeightNorm) and h.name == name for h in module._forward_pre_hooks.values()):
        raise RuntimeError(f"Cannot register two weight_norm hooks on the same parameter {name}")
    hook = WeightNorm(name, dim)
    weight = getattr(module, name)
    del module._parameters[name]
    with no_grad():
        length = norm_except(weight, hook.dim)
    module.register_parameter(name + "_g", Parameter(length))
    module.register_parameter(name + "_v", Parameter(weight.detach()))
    setattr(module, name, hook.compute_weight(module))
    module.register_forward_pre_hook(hook)
    return module


def remove_weight_norm(module: Module, name: str = "weight") -> Module:
    """Undo weight_norm; the parameter keeps its value."""
    hook = _taken(module, WeightNorm, name, "weight_norm")
    weight = hook.compute_weight(module)
    delattr(module, name)
    del module._parameters[name + "_g"], module._parameters[name + "_v"]
    setattr(module, name, Parameter(weight.detach()))
    return module


class SpectralNorm:
    """The hook of spectral_norm."""

    def __init__(self, name: str, n_power_iterations: int, dim: int, eps: float) -> None:
        self.name = name
        if n_power_iterations <= 0:
            raise ValueError(
                f"Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}"
            )
        self.n_power_iterations = n_power_iterations
        self.dim = dim
        self.eps = eps

    def matrix(self, weight: Tensor) -> Tensor:
        """The weight with ``dim`` as rows and all else as columns."""
        if self.dim != 0:
            weight = weight.permute(self.dim, *(d for d in range(weight.dim()) if d != self.dim))
        made: Tensor = weight.reshape(weight.shape[0], -1)
        return made

    def compute_weight(self, module: Any, iterate: bool) -> Tensor:
        """weight_orig / its largest singular value."""
        weight, u, v = (getattr(module, self.name + part) for part in ("_orig", "_u", "_v"))
        matrix = self.matrix(weight)
        if iterate:
            with no_grad():
                for _ in range(self.n_power_iterations):
                    v.copy_(F.normalize(matrix.t() @ u, dim=0, eps=self.eps))
                    u.copy_(F.normalize(matrix @ v, dim=0, eps=self.eps))
            u, v = u.clone(), v.clone()  # a later forward changes them in place
        made: Tensor = weight / u.dot(matrix @ v)
        return made

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module, module.training))


def spectral_norm(
    module: Module,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
) -> Module:
    """Replace a parameter by NAME_orig and divide it by its largest singular value before each forward."""
    if any(isinstance(h, SpectralNorm) and h.name == name for h in module._forward_pre_hooks.values()):
        raise RuntimeError(f"Cannot register two spectral_norm hooks on the same parameter {name}")
    if dim is None:
        dim = 1 if isinstance(module, (ConvTranspose1d, ConvTranspose2d, ConvTranspose3d)) else 0
    weight = module._parameters[name]
    if weight is None:
        raise ValueError(f"`SpectralNorm` cannot be applied as parameter `{name}` is None")
    hook = SpectralNorm(name, n_power_iterations, dim, eps)
    del module._parameters[name]
    module.register_parameter(name + "_orig", weight)
    # A plain attribute of that name until the first forward, not a parameter.
    setattr(module, name, weight.detach())
    for part, size in zip(("_u", "_v"), hook.matrix(weight).shape, strict=True):
        start = Tensor._make(np.empty(size, weight._array.dtype)).normal_(0, 1)
        module.register_buffer(name + part, F.normalize(start, dim=0, eps=eps))
    module.register_forward_pre_hook(hook)
    return module


def remove_spectral_norm(module: Module, name: str = "weight") -> Module:
    """Undo spectral_norm; the parameter keeps its value."""
    hook = _taken(module, SpectralNorm, name, "spectral_norm")
    with no_grad():
        weight = hook.compute_weight(module, False)
    delattr(module, name)
    del module._parameters[name + "_orig"]
    for part in ("_u", "_v"):
        delattr(module, name + part)
    module.register_parameter(name, Parameter(weight.detach()))
    return module


def _taken(module: Module, kind: type[Any], name: str, what: str) -> Any:
    """Remove the hook of that kind and return it."""
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, kind) and hook.name == name:
            del module._forward_pre_hooks[key]
            return hook
    raise ValueError(f"{what} of '{name}' not found in {module}")
