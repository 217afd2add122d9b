"""Clipping of gradients, in place."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable

import numpy as np

from ...kernels.recording import active, now, refuse
from ...ops.clamping import clamp
from ...ops.reduce import vector_norm
from ...ops.shape import stack
from ...tensor import Tensor


def _grads(parameters: Tensor | Iterable[Tensor]) -> list[Tensor]:
    params = [parameters] if isinstance(parameters, Tensor) else parameters
    return [p.grad for p in params if p.grad is not None]


def get_total_norm(
    tensors: Tensor | Iterable[Tensor],
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """The norm of all tensors together, as if they were one vector; a 0-d tensor."""
    items = [tensors] if isinstance(tensors, Tensor) else list(tensors)
    order = float(norm_type)
    if not items:
        zero: Tensor = Tensor._make(np.array(0.0, np.float32))
        return zero
    if active and now() is not None:
        if error_if_nonfinite:
            refuse("error_if_nonfinite=True")
        return vector_norm(stack([vector_norm(t.detach(), order) for t in items]), order)  # type: ignore[no-any-return]
    kind = np.result_type(*[t._array.dtype for t in items])
    # float32 gradients are added up in float64: large networks have many of them.
    norms = np.array([_norm(t._array, order) for t in items])
    total = np.array(_norm(norms, order), kind)
    if error_if_nonfinite and not np.isfinite(total):
        raise RuntimeError(
            f"The total norm of order {order} for gradients from `parameters` is non-finite, so it cannot "
            "be clipped. "
            "To disable this error and scale the gradients by the non-finite norm anyway, set "
            "`error_if_nonfinite=False`"
        )
    made: Tensor = Tensor._make(total)
    return made


def _norm(x: np.ndarray, order: float) -> float:
    if not x.size:
        return 0.0
    if order == 2.0:
        flat = x.reshape(-1)
        return math.sqrt(
            float(np.dot(flat, flat))
            if flat.dtype == np.float64
            else float((flat.astype(np.float64) ** 2).sum())
        )
    size = np.abs(x.astype(np.float64, copy=False))
    if math.isinf(order):
        return float(size.max() if order > 0 else size.min())
    if order == 0:
        return float(np.count_nonzero(size))
    return float((size**order).sum() ** (1.0 / order))


def clip_grads_with_norm_(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    total_norm: Tensor,
    foreach: bool | None = None,
) -> None:
    """Scale the gradients by max_norm / total_norm if that is below 1."""
    if active and now() is not None:
        scale = clamp(float(max_norm) / (total_norm + 1e-6), max=1.0)
        for grad in _grads(parameters):
            grad.detach().mul_(scale)
        return
    factor = float(max_norm) / (float(total_norm) + 1e-6)
    # A NaN has to reach the gradients, as min would not let it.
    factor = min(factor, 1.0)
    if factor == 1.0:
        return
    for grad in _grads(parameters):
        grad.detach().mul_(factor)


def clip_grad_norm_(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Scale all gradients so that their norm as one vector is at most ``max_norm``; returns what it was."""
    params = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    total = get_total_norm(_grads(params), norm_type, error_if_nonfinite, foreach)
    clip_grads_with_norm_(params, max_norm, total, foreach)
    return total


def clip_grad_norm(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """The old name of ``clip_grad_norm_``."""
    warnings.warn(
        "`nn.utils.clip_grad_norm` is now deprecated in favor of `nn.utils.clip_grad_norm_`.",
        FutureWarning,
        stacklevel=2,
    )
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite, foreach)


def clip_grad_value_(
    parameters: Tensor | Iterable[Tensor], clip_value: float, foreach: bool | None = None
) -> None:
    """Keep every element of the gradients within [-clip_value, clip_value]."""
    limit = float(clip_value)
    for grad in _grads(parameters):
        grad.detach().clamp_(min=-limit, max=limit)
