"""Losses over classes: negative log-likelihood and cross entropy."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...ops.arithmetic import where
from ...tensor import Tensor
from .reduction import chosen_reduction, reduced


def _classes_last_but(input: Tensor) -> int:
    """The dimension of the classes: the only one of (C,), else the second of (N, C, ...)."""
    return 0 if input.dim() == 1 else 1


def _check_target(name: str, input: Tensor, target: Tensor, weight: Tensor | None) -> int:
    """Shapes and types of class indices; the dimension of the classes."""
    if input.dim() == 0:
        raise ValueError(f"{name}: expected 1 or more dimensions (got 0)")
    dim = _classes_last_but(input)
    wanted = tuple(n for d, n in enumerate(input.shape) if d != dim)
    if tuple(target.shape) != wanted:
        if input.dim() > 1 and target.dim() and input.shape[0] != target.shape[0]:
            raise ValueError(
                f"Expected input batch_size ({input.shape[0]}) to match target batch_size ({target.shape[0]})."
            )
        raise RuntimeError(f"{name}: expected target of size {list(wanted)}, got {list(target.shape)} for input of size {list(input.shape)}")
    if target._array.dtype.kind not in "iu" or target._array.dtype.itemsize < 8 and target._array.dtype.char != "B":
        raise RuntimeError(f"{name}: expected target of class indices to have dtype int64 (or uint8), got {target.dtype}; use .long()")
    if weight is not None and (weight.dim() != 1 or weight.shape[0] != input.shape[dim]):
        raise RuntimeError(
            f"{name}: weight tensor should be defined either for all {input.shape[dim]} classes or no classes but got "
            f"weight tensor of shape: {list(weight.shape)}"
        )
    return dim


def _taken(target: Tensor, ignore_index: int, classes: int) -> tuple[Tensor, Tensor | None]:
    """Target with ignored places pointing to class 0, and which places count (None: all)."""
    values = target._array
    counts = values != ignore_index
    bad = counts & ((values < 0) | (values >= classes))
    if bad.any():
        raise IndexError(f"Target {int(values[bad][0])} is out of bounds for {classes} classes.")
    if counts.all():
        return target.long(), None
    safe: Tensor = Tensor._make(np.where(counts, values, 0).astype(np.int64))
    return safe, Tensor._make(counts)


def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """-input[target] of log-probabilities (N, C, ...) at class indices (N, ...), reduced.

    The mean is over the weights of the targets that are not ``ignore_index``.
    """
    reduction = chosen_reduction(size_average, reduce, reduction)
    dim = _check_target("nll_loss", input, target, weight)
    index, counts = _taken(target, ignore_index, input.shape[dim])
    return _likelihood(input, index, counts, dim, weight, reduction)


def _likelihood(
    input: Tensor, index: Tensor, counts: Tensor | None, dim: int, weight: Tensor | None, reduction: str
) -> Tensor:
    loss: Any = -input.gather(dim, index.unsqueeze(dim)).squeeze(dim)
    share: Any = None
    if weight is not None:
        share = weight.detach()[index]
    if counts is not None:
        share = counts.to(loss.dtype) if share is None else where(counts, share, 0.0)
        loss = where(counts, loss, 0.0)
    if weight is not None:
        loss = loss * share
    if reduction == "mean" and share is not None:
        made: Tensor = loss.sum() / share.sum()
        return made
    return reduced(loss, reduction)


def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """-log_softmax(input)[target] of logits (N, C, ...) or (C,), reduced.

    ``target`` holds class indices (N, ...), or probabilities of the shape of input. ``label_smoothing`` mixes
    the target with the uniform distribution.
    """
    reduction = chosen_reduction(size_average, reduce, reduction)
    if not 0.0 <= label_smoothing <= 1.0:
        raise RuntimeError(f"label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing}")
    if target.is_floating_point():
        return _cross_probabilities(input, target, weight, ignore_index, reduction, label_smoothing)
    dim = _check_target("cross_entropy", input, target, weight)
    classes = input.shape[dim]
    index, counts = _taken(target, ignore_index, classes)
    log_probabilities = input.log_softmax(dim)
    loss = _likelihood(log_probabilities, index, counts, dim, weight, reduction)
    if label_smoothing == 0.0:
        return loss
    spread = log_probabilities if weight is None else log_probabilities * _along(weight, dim, input.dim())
    smooth: Any = -spread.sum(dim)
    if counts is not None:
        smooth = where(counts, smooth, 0.0)
    if reduction == "mean":
        if weight is not None:
            share = weight[index]
            smooth = smooth.sum() / (share if counts is None else where(counts, share, 0.0)).sum()
        elif counts is not None:
            smooth = smooth.sum() / counts.sum()
        else:
            smooth = smooth.mean()
    else:
        smooth = reduced(smooth, reduction)
    return loss * (1 - label_smoothing) + smooth * (label_smoothing / classes)


def _cross_probabilities(
    input: Tensor, target: Tensor, weight: Tensor | None, ignore_index: int, reduction: str, smoothing: float
) -> Tensor:
    if ignore_index >= 0:
        raise RuntimeError("ignore_index is not supported for floating point target")
    if input.shape != target.shape:
        raise RuntimeError(
            f"cross_entropy: expected floating point target with the size of the input {list(input.shape)}, got "
            f"{list(target.shape)}"
        )
    dim = _classes_last_but(input)
    if smoothing > 0.0:
        target = target * (1 - smoothing) + smoothing / input.shape[dim]
    product = input.log_softmax(dim) * target
    if weight is not None:
        product = product * _along(weight, dim, input.dim())
    if reduction == "none":
        return -product.sum(dim)
    total = -product.sum()
    if reduction == "sum":
        return total
    made: Tensor = total / (input.numel() // input.shape[dim])
    return made


def _along(weight: Tensor, dim: int, rank: int) -> Tensor:
    """One weight per class, shaped to broadcast over the other dimensions."""
    shape = [1] * rank
    shape[dim] = -1
    made: Tensor = weight.view(*shape)
    return made
