"""Cross entropy of a linear map."""

from __future__ import annotations

import math
from typing import Any

from ...ops.classes import cross_entropy
from ...ops.matmul import linear
from ...tensor import Tensor


def linear_cross_entropy(
    input: Tensor,
    linear_weight: Tensor,
    target: Tensor,
    *,
    linear_bias: Tensor | None = None,
    weight: Tensor | None = None,
    reduction: str = "mean",
    ignore_index: int | None = None,
    label_smoothing: float = 0.0,
    options: None = None,
) -> Any:
    """``cross_entropy(linear(input, linear_weight, linear_bias), target, ...)``.

    input (N, F) or (F,), linear_weight (C, F) or (C, d1, ..., F), target (N, d1, ...) or probabilities.
    ``options``, which elsewhere cut the batch in chunks to save memory, must be None.
    """
    if options is not None:
        raise RuntimeError("linear_cross_entropy: options are not supported, the batch is computed in one go")
    if input.dim() not in (1, 2):
        raise RuntimeError(
            f"linear_cross_entropy: expected input with dimensionality 1 or 2, got {input.dim()}"
        )
    if linear_weight.dim() < 2:
        raise RuntimeError(
            f"linear_cross_entropy: expected linear_weight with dimensionality at least 2, got {linear_weight.dim()}"
        )
    classes, *more, features = linear_weight.shape
    if input.shape[-1] != features:
        raise RuntimeError(
            "linear_cross_entropy: expected equal input and linear_weight last dimensions (in_features), got "
            f"{input.shape[-1]} and {features}, respectively"
        )
    if linear_bias is not None and list(linear_bias.shape) != [classes, *more]:
        raise RuntimeError(
            f"linear_cross_entropy: expected linear_bias shape {(classes, *more)}, got {tuple(linear_bias.shape)}"
        )
    if more and input.dim() == 1:
        raise RuntimeError(
            f"linear_cross_entropy: linear_weight of shape {tuple(linear_weight.shape)} requires batched input, "
            f"(N, {features}), got {tuple(input.shape)}"
        )
    shape = (*input.shape[:-1], classes, *more)
    if tuple(target.shape) == shape and ignore_index is not None:
        raise RuntimeError(
            "linear_cross_entropy: ignore_index cannot be specified when target contains probabilities"
        )
    if more:
        linear_weight = linear_weight.reshape(math.prod(more, start=classes), features)
        linear_bias = None if linear_bias is None else linear_bias.reshape(-1)
    logits = linear(input, linear_weight, linear_bias)
    return cross_entropy(
        logits.reshape(shape) if more else logits,
        target,
        weight,
        ignore_index=-100 if ignore_index is None else ignore_index,
        reduction=reduction,
        label_smoothing=label_smoothing,
    )
