"""Samples of categories that gradients pass through."""

from __future__ import annotations

import warnings

from ...tensor import Tensor


def gumbel_softmax(
    logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1
) -> Tensor:
    """softmax((logits + Gumbel noise) / tau) along ``dim``; ``hard``: one-hot values with that gradient."""
    if eps != 1e-10:
        warnings.warn("`eps` parameter is deprecated and has no effect.", stacklevel=2)
    noise = -logits.detach().new_empty(logits.shape).exponential_().log()
    soft: Tensor = ((logits + noise) / tau).softmax(dim)
    if not hard:
        return soft
    index = soft.detach().argmax(dim, keepdim=True)
    one_hot = soft.detach().new_zeros(soft.shape).scatter_(dim, index, 1.0)
    made: Tensor = one_hot - soft.detach() + soft
    return made
