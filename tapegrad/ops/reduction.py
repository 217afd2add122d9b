"""What losses share: checking ``reduction``, and applying it."""

from __future__ import annotations

import warnings
from typing import Any

from ..tape import Value
from .reduce import mean
from .reduce import sum as total

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
        stacklevel=4,
    )
    return chosen


def chosen_reduction(size_average: bool | None, reduce: bool | None, reduction: str) -> str:
    """The reduction that a loss shall use; ValueError if there is none of that name."""
    name = legacy_reduction(size_average, reduce, reduction)
    if name not in REDUCTIONS:
        raise ValueError(f"{name} is not a valid value for reduction: use 'none', 'mean' or 'sum'")
    return name


def reduced(loss: Any, reduction: str) -> Any:
    """The mean, the sum, or the losses themselves."""
    if reduction == "mean":
        return mean(loss)
    return total(loss) if reduction == "sum" else loss


def constant(value: Any, what: str) -> Any:
    """A tensor argument that no gradient is defined for; RuntimeError if it requires one."""
    if isinstance(value, Value) and value._source() is not None:
        raise RuntimeError(
            f"the derivative for '{what}' is not implemented: it must not require grad, use detach()"
        )
    return value


def warn_sizes(name: str, input: Any, target: Any) -> None:
    """Warn if input and target only fit by broadcasting, which is rarely meant."""
    if input._array.shape != target._array.shape:
        warnings.warn(
            f"{name}: using a target size ({tuple(target._array.shape)}) that is different to the input size "
            f"({tuple(input._array.shape)}). This will likely lead to incorrect results due to broadcasting. "
            "Please ensure they have the same size.",
            stacklevel=3,
        )
