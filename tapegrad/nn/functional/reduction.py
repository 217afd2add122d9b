"""What losses share: checking ``reduction``, and applying it."""

from __future__ import annotations

import warnings
from typing import Any

from ...tensor import Tensor

REDUCTIONS = ("none", "mean", "sum")


def legacy_reduction(size_average: bool | None, reduce: bool | None, reduction: str) -> str:
    """``reduction``, unless its old spelling (size_average, reduce) is used."""
    if size_average is None and reduce is None:
        return reduction
    average = True if size_average is None else size_average
    if reduce is not None and not reduce:
        chosen = "none"
    else:
        chosen = "mean" if average else "sum"
    warnings.warn(
        f"size_average and reduce args will be deprecated, please use reduction='{chosen}' instead.",
        stacklevel=3,
    )
    return chosen


def chosen_reduction(size_average: bool | None, reduce: bool | None, reduction: str) -> str:
    """The reduction that a loss shall use; ValueError if there is none of that name."""
    name = legacy_reduction(size_average, reduce, reduction)
    if name not in REDUCTIONS:
        raise ValueError(f"{name} is not a valid value for reduction: use 'none', 'mean' or 'sum'")
    return name


def reduced(loss: Tensor, reduction: str) -> Any:
    """The mean, the sum, or the losses themselves."""
    if reduction == "mean":
        return loss.mean()
    return loss.sum() if reduction == "sum" else loss


def weighted(loss: Tensor, weight: Tensor | None, reduction: str) -> Any:
    """Losses of single elements, weighted and reduced; the mean is over the weights."""
    if weight is None:
        return reduced(loss, reduction)
    loss = loss * weight
    if reduction == "mean":
        return loss.sum() / weight.expand_as(loss).sum()
    return reduced(loss, reduction)


def warn_sizes(name: str, input: Tensor, target: Tensor) -> None:
    """Warn if input and target only fit by broadcasting, which is rarely meant."""
    if input.shape != target.shape:
        warnings.warn(
            f"{name}: using a target size ({tuple(target.shape)}) that is different to the input size "
            f"({tuple(input.shape)}). This will likely lead to incorrect results due to broadcasting. "
            "Please ensure "
            "they have the same size.",
            stacklevel=3,
        )
