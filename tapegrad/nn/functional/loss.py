"""Losses between numbers: elementwise distances and likelihoods."""

from __future__ import annotations

import math
import warnings
from typing import Any

from ...fastpath import elementwise
from ...ops.activation import log1p_exp as _softplus1
from ...ops.arithmetic import where
from ...ops.maths import abs as absolute
from ...ops.maths import exp, log, sign
from ...ops.maths import sigmoid as logistic
from ...ops.reduction import chosen_reduction, reduced, warn_sizes
from ...tensor import Tensor


@elementwise(
    kind="floating",
    name="mse_loss",
    input=lambda g, input, target: g * ((input - target) * 2),
    target=lambda g, input, target: g * ((target - input) * 2),
)
def _squared(input: Any, target: Any) -> Any:
    """(input - target)^2"""
    d = input - target
    return d * d


@elementwise(
    kind="float",
    name="l1_loss",
    input=lambda g, input, target: g * sign(input - target),
    target=lambda g, input, target: g * sign(target - input),
)
def _distance(input: Any, target: Any) -> Any:
    """|input - target|"""
    return absolute(input - target)


def _huber_slope(g: Any, d: Any, delta: Any) -> Any:
    return g * where(absolute(d) <= delta, d, sign(d) * delta)


@elementwise(
    kind="floating",
    name="huber_loss",
    input=lambda g, input, target, delta: _huber_slope(g, input - target, delta),
    target=lambda g, input, target, delta: _huber_slope(g, target - input, delta),
)
def _huber(input: Any, target: Any, *, delta: Any) -> Any:
    """d^2 / 2 for |d| <= delta, else delta * (|d| - delta / 2), with d = input - target."""
    d = absolute(input - target)
    return where(d <= delta, d * d * 0.5, (d - delta * 0.5) * delta)


def _smooth_slope(g: Any, d: Any, beta: Any) -> Any:
    return g * where(absolute(d) < beta, d / beta, sign(d))


@elementwise(
    kind="floating",
    name="smooth_l1_loss",
    input=lambda g, input, target, beta: _smooth_slope(g, input - target, beta),
    target=lambda g, input, target, beta: _smooth_slope(g, target - input, beta),
)
def _smooth(input: Any, target: Any, *, beta: Any) -> Any:
    """d^2 / (2 beta) for |d| < beta, else |d| - beta / 2, with d = input - target."""
    d = absolute(input - target)
    return where(d < beta, d * d * 0.5 / beta, d - beta * 0.5)


@elementwise(
    kind="floating",
    name="binary_cross_entropy",
    input=lambda g, input, target: g * ((input - target) / _kept((1 - input) * input)),
    target=lambda g, input: g * (_bounded_log(1 - input) - _bounded_log(input)),
)
def _cross(input: Any, target: Any) -> Any:
    """-(target log input + (1 - target) log(1 - input)), with logs kept above -100."""
    return (target - 1) * _bounded_log(1 - input) - target * _bounded_log(input)


def _kept(x: Any) -> Any:
    """x, but at least 1e-12: the denominator at probabilities 0 and 1."""
    return where(x < 1e-12, 1e-12, x)


def _bounded_log(x: Any) -> Any:
    y = log(x)
    return where(y < -100.0, -100.0, y)


@elementwise(
    kind="float",
    name="binary_cross_entropy_with_logits",
    input=lambda g, input, target: g * (logistic(input) - target),
    target=lambda g, input: -(g * input),
)
def _logit_cross(input: Any, target: Any) -> Any:
    """log(1 + exp(input)) - target * input"""
    return _softplus1(input) - target * input


@elementwise(
    kind="float",
    name="binary_cross_entropy_with_logits",
    input=lambda g, input, target, weight: (
        g * ((1 - target) - ((1 - target) + target * weight) * logistic(-input))
    ),
    target=lambda g, input, weight: g * (weight * _softplus1(-input) - input - _softplus1(-input)),
    weight=lambda g, input, target: g * (target * _softplus1(-input)),
)
def _weighted_logit_cross(input: Any, target: Any, weight: Any) -> Any:
    """(1 - target) * input + ((1 - target) + target * weight) * log(1 + exp(-input))"""
    return (1 - target) * input + ((1 - target) + target * weight) * _softplus1(-input)


def _weighted(loss: Any, weight: Tensor | None, reduction: str) -> Any:
    """Losses of single elements, weighted and reduced; the mean is over the weights."""
    if weight is None:
        return reduced(loss, reduction)
    loss = loss * weight
    return loss.sum() / weight.expand_as(loss).sum() if reduction == "mean" else reduced(loss, reduction)


def mse_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Any:
    """(input - target)^2, reduced."""
    if reduction != "mean" or size_average is not None or reduce is not None:
        reduction = chosen_reduction(size_average, reduce, reduction)
    if input._array.shape != target._array.shape:
        warn_sizes("mse_loss", input, target)
    return _weighted(_squared(input, target), weight, reduction)


def l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Any:
    """|input - target|, reduced."""
    reduction = chosen_reduction(size_average, reduce, reduction)
    warn_sizes("l1_loss", input, target)
    return _weighted(_distance(input, target), weight, reduction)


def smooth_l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    beta: float = 1.0,
) -> Any:
    """Squared below ``beta``, absolute above; reduced."""
    reduction = chosen_reduction(size_average, reduce, reduction)
    warn_sizes("smooth_l1_loss", input, target)
    if beta < 0:
        raise RuntimeError(f"smooth_l1_loss does not support negative values for beta, got {beta}")
    if beta == 0:
        return reduced(_distance(input, target), reduction)
    return reduced(_smooth(input, target, beta=beta), reduction)


def huber_loss(
    input: Tensor,
    target: Tensor,
    reduction: str = "mean",
    delta: float = 1.0,
    weight: Tensor | None = None,
) -> Any:
    """Half the square below ``delta``, linear above; reduced."""
    reduction = chosen_reduction(None, None, reduction)
    warn_sizes("huber_loss", input, target)
    if isinstance(delta, complex):
        raise TypeError("huber_loss(): argument 'delta' (position 4) must be float, not complex")
    if delta <= 0:
        raise RuntimeError(f"huber_loss does not support non-positive values for delta, got {delta}")
    return _weighted(_huber(input, target, delta=delta), weight, reduction)


def binary_cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Any:
    """Cross entropy of probabilities with targets from [0, 1], reduced."""
    reduction = chosen_reduction(size_average, reduce, reduction)
    if target.shape != input.shape:
        raise ValueError(
            f"Using a target size ({tuple(target.shape)}) that is different to the input size "
            f"({tuple(input.shape)}) is "
            "deprecated. Please ensure they have the same size."
        )
    values = input._array
    if values.size and not (values.min() >= 0 and values.max() <= 1):
        raise RuntimeError(
            "binary_cross_entropy: all elements of input should be between 0 and 1; use the form with logits"
        )
    loss = _cross(input, target)
    return reduced(loss if weight is None else loss * weight, reduction)


def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Any:
    """Cross entropy of sigmoid(input) with targets from [0, 1], reduced; never overflows."""
    reduction = chosen_reduction(size_average, reduce, reduction)
    if target.shape != input.shape:
        raise ValueError(
            f"Target size ({tuple(target.shape)}) must be the same as input size ({tuple(input.shape)})"
        )
    if pos_weight is None:
        loss = _logit_cross(input, target)
    else:
        loss = _weighted_logit_cross(input, target, pos_weight)
    return reduced(loss if weight is None else loss * weight, reduction)


def kl_div(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    log_target: bool = False,
) -> Any:
    """target * (log target - input) of log-probabilities; also reduction "batchmean", the definition's."""
    if reduction == "batchmean" and size_average is None and reduce is None:
        kind = "sum"
    else:
        kind = chosen_reduction(size_average, reduce, reduction)
        if kind == "mean":
            warnings.warn(
                "reduction: 'mean' divides the total loss by both the batch size and the support size. "
                "'batchmean' "
                "divides only by the batch size, and aligns with the KL div math definition.",
                stacklevel=2,
            )
    if log_target:
        loss = exp(target) * (target - input)
    else:
        # x log x with its limit 0 at 0; the logarithm never sees the 0.
        safe = where(target == 0, 1.0, target)
        loss = where(target == 0, 0.0, target * log(safe)) - target * input
    made = reduced(loss, kind)
    return made / input.shape[0] if reduction == "batchmean" and input.dim() else made


def poisson_nll_loss(
    input: Tensor,
    target: Tensor,
    log_input: bool = True,
    full: bool = False,
    size_average: bool | None = None,
    eps: float = 1e-8,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Any:
    """exp(input) - target * input, or input - target * log(input + eps) unless ``log_input``."""
    reduction = chosen_reduction(size_average, reduce, reduction)
    loss = exp(input) - target * input if log_input else input - target * log(input + eps)
    if full:
        above = where(target > 1, target, 1.0)
        stirling = above * log(above) - above + log(above * (2 * math.pi)) * 0.5
        loss = loss + where(target > 1, stirling, 0.0)
    return reduced(loss, reduction)


def gaussian_nll_loss(
    input: Tensor,
    target: Tensor,
    var: Any,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Any:
    """(log var + (input - target)^2 / var) / 2, with var kept above eps but its gradient as it is.

    ``var`` is a number, or a tensor of the shape of input, or of that shape without its last dimension or
    with one dimension of size 1.
    """
    if isinstance(var, float):
        var = input.new_full(input.shape, var)
    elif not isinstance(var, Tensor):
        raise TypeError(f"gaussian_nll_loss: var must be a Tensor or a float, got {type(var).__name__}")
    if var.shape != input.shape:
        if var.shape == input.shape[:-1]:
            var = var.unsqueeze(-1)
        elif not _broadcasts_once(tuple(var.shape), tuple(input.shape)):
            raise ValueError(
                f"var of size {list(var.shape)} does not fit an input of size {list(input.shape)}"
            )
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"{reduction} is not valid")
    if (var._array < 0).any():
        raise ValueError("var has negative entry/entries")
    # The gradient goes to var itself, also where it is kept above eps.
    kept = var + (var.detach().clamp(min=eps) - var.detach())
    loss = 0.5 * (log(kept) + (input - target) ** 2 / kept)
    if full:
        loss = loss + 0.5 * math.log(2 * math.pi)
    return reduced(loss, reduction)


def _broadcasts_once(shape: tuple[int, ...], wide: tuple[int, ...]) -> bool:
    """Whether the shapes differ in one dimension only, which has size 1."""
    return len(shape) == len(wide) and [a for a, b in zip(shape, wide, strict=True) if a != b] == [1]


def soft_margin_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Any:
    """log(1 + exp(-target * input)), reduced."""
    reduction = chosen_reduction(size_average, reduce, reduction)
    return reduced(softplus_of(-target * input), reduction)


def softplus_of(x: Tensor) -> Any:
    """log(1 + exp(x)) without a threshold."""
    return _softplus1(x)
