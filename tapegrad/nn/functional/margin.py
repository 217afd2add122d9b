"""Losses that compare scores, distances or angles by a margin."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...ops.arithmetic import where
from ...ops.distance import pairwise_distance
from ...ops.reduction import chosen_reduction, reduced
from ...tensor import Tensor
from .loss import softplus_of


def margin_ranking_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Any:
    """max(-target * (input1 - input2) + margin, 0), reduced."""
    reduction = chosen_reduction(size_average, reduce, reduction)
    if not input1.dim() == input2.dim() == target.dim():
        raise RuntimeError(
            f"margin_ranking_loss : All input tensors should have same dimension but got sizes: input1: "
            f"{list(input1.shape)}, input2: {list(input2.shape)}, target: {list(target.shape)}"
        )
    return reduced((-target * (input1 - input2) + margin).clamp(min=0), reduction)


def hinge_embedding_loss(
    input: Tensor,
    target: Tensor,
    margin: float = 1.0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Any:
    """input where target is 1, max(margin - input, 0) where it is -1; reduced."""
    reduction = chosen_reduction(size_average, reduce, reduction)
    far = where(target != 1, (margin - input).clamp(min=0), 0.0)
    near = where(target != -1, input, 0.0)
    return reduced(far + near, reduction)


def cosine_embedding_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Any:
    """1 - cos where target is 1, max(cos - margin, 0) where it is -1; reduced."""
    reduction = chosen_reduction(size_average, reduce, reduction)
    if target.dim() not in (0, 1):
        raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
    if input1.dim() != target.dim() + 1 or input2.dim() != target.dim() + 1:
        raise RuntimeError(
            f"{target.dim()}D target tensor expects {target.dim() + 1}D input tensors, but found inputs "
            "with sizes "
            f"{list(input1.shape)} and {list(input2.shape)}."
        )
    # Not cosine_similarity: here both squared norms get an epsilon, and the product its root.
    dot = (input1 * input2).sum(target.dim())
    sizes = ((input1 * input1).sum(target.dim()) + 1e-12) * ((input2 * input2).sum(target.dim()) + 1e-12)
    cosine = dot / sizes.sqrt()
    near = where(target == 1, 1 - cosine, 0.0)
    far = where(target == -1, (cosine - margin).clamp(min=0), 0.0)
    return reduced(near + far, reduction)


def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Any:
    """max(d(anchor, positive) - d(anchor, negative) + margin, 0) with the p-norm distance; reduced."""
    reduction = chosen_reduction(size_average, reduce, reduction)
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    if not anchor.dim() == positive.dim() == negative.dim():
        raise RuntimeError(
            "The anchor, positive, and negative tensors are expected to have the same number of "
            "dimensions, but got: "
            f"anchor {anchor.dim()}D, positive {positive.dim()}D, and negative {negative.dim()}D inputs"
        )

    def distance(a: Tensor, b: Tensor) -> Tensor:
        between: Tensor = pairwise_distance(a, b, p, eps)
        return between

    return _triplet(anchor, positive, negative, distance, margin, swap, reduction)


def triplet_margin_with_distance_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    *,
    distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Any:
    """triplet_margin_loss with any distance function."""
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"{reduction} is not a valid value for reduction")
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    distance = pairwise_distance if distance_function is None else distance_function
    return _triplet(anchor, positive, negative, distance, margin, swap, reduction)


def _triplet(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    distance: Callable[[Tensor, Tensor], Any],
    margin: float,
    swap: bool,
    reduction: str,
) -> Any:
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = far.minimum(distance(positive, negative))
    return reduced((margin + near - far).clamp(min=0), reduction)


def multi_margin_loss(
    input: Tensor,
    target: Tensor,
    p: int = 1,
    margin: float = 1.0,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Any:
    """Sum over wrong classes i of max(margin - x[target] + x[i], 0)^p / number of classes; reduced."""
    reduction = chosen_reduction(size_average, reduce, reduction)
    if p not in (1, 2):
        raise ValueError("only p == 1 and p == 2 supported")
    if weight is not None and weight.dim() != 1:
        raise ValueError("weight must be one-dimensional")
    single = input.dim() == 1
    x = input.unsqueeze(0) if input.dim() < 2 else input
    y = target.reshape(-1)
    if x.dim() != 2 or y.shape[0] != x.shape[0]:
        raise RuntimeError(
            f"multi_margin_loss: inconsistent target size {list(target.shape)} for an input of size "
            f"{list(input.shape)}"
        )
    classes = x.shape[1]
    column = y.unsqueeze(1)
    gap = (margin - x.gather(1, column) + x).clamp(min=0)
    if p == 2:
        gap = gap * gap
    if weight is not None:
        gap = gap * weight[y].unsqueeze(1)
    wrong = column != target.new_tensor(range(classes)).unsqueeze(0)
    loss = where(wrong, gap, 0.0).sum(1) / classes
    made = reduced(loss, reduction)
    return made.squeeze(0) if single and reduction == "none" else made


def multilabel_margin_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Any:
    """Sum over targets j and others i of max(1 - (x[j] - x[i]), 0) / classes; a row's targets end at a -1."""
    reduction = chosen_reduction(size_average, reduce, reduction)
    if input.shape != target.shape or input.dim() not in (1, 2):
        raise RuntimeError(
            f"multilabel_margin_loss: inconsistent target size {list(target.shape)} for input size "
            f"{list(input.shape)}"
        )
    x = input.unsqueeze(0) if input.dim() == 1 else input
    y = target.unsqueeze(0) if target.dim() == 1 else target
    classes = x.shape[1]
    listed = (y < 0).cumsum(1) == 0
    index = where(listed, y, 0)
    is_target = x.detach().new_zeros(x.shape).scatter_add(1, index, listed.to(x.dtype)) > 0
    scores = x.gather(1, index)
    gap = (1 - (scores.unsqueeze(2) - x.unsqueeze(1))).clamp(min=0)
    counted = listed.unsqueeze(2) & ~is_target.unsqueeze(1)
    loss = where(counted, gap, 0.0).sum((1, 2)) / classes
    made = reduced(loss, reduction)
    return made.squeeze(0) if input.dim() == 1 and reduction == "none" else made


def multilabel_soft_margin_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Any:
    """Mean over classes of the binary cross entropy of sigmoid(input); reduced over the rest."""
    reduction = chosen_reduction(size_average, reduce, reduction)
    loss = target * softplus_of(-input) + (1 - target) * softplus_of(input)
    if weight is not None:
        loss = loss * weight
    return reduced(loss.sum(-1) / input.shape[-1], reduction)
