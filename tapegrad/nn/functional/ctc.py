"""Connectionist temporal classification."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...ops import shape as shapes
from ...ops.arithmetic import where
from ...tensor import Tensor
from .reduction import REDUCTIONS

# Stands for log(0): small enough to vanish beside every possible path, and differences stay finite.
_NEVER = -1e30


def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    """-log of the probability of all alignments of the targets with the inputs.

    ``log_probs`` (T, N, C) or (T, C); ``targets`` (N, S), or all of them joined (sum of lengths,); lengths (N,).
    The mean divides each loss by its target length first. A target that cannot be aligned costs
    infinity, or 0 with ``zero_infinity``.
    """
    if reduction not in REDUCTIONS:
        raise ValueError(f"{reduction} is not a valid value for reduction")
    single = log_probs.dim() == 2
    x = log_probs.unsqueeze(1) if single else log_probs
    if x.dim() != 3:
        raise RuntimeError(f"ctc_loss: log_probs must be (T, N, C) or (T, C), got {list(log_probs.shape)}")
    steps, batch, classes = x.shape
    if not 0 <= blank < classes:
        raise RuntimeError(f"ctc_loss: blank must be in label range [0, {classes}), got {blank}")
    inputs = _lengths(input_lengths, batch, "input_lengths")
    sizes = _lengths(target_lengths, batch, "target_lengths")
    if inputs.size and inputs.max() > steps:
        raise RuntimeError(f"ctc_loss: Expected input_lengths to have value at most {steps}, but got value {inputs.max()}")
    labels = _padded(targets._array, sizes)
    losses = _losses(x, labels, inputs, sizes, blank)
    if zero_infinity:
        losses = where(losses == math.inf, 0.0, losses)
    if reduction == "none":
        return losses.squeeze(0) if single else losses
    if reduction == "sum":
        total: Tensor = losses.sum()
        return total
    weights: Tensor = Tensor._make(np.maximum(sizes, 1).astype(x._array.dtype))
    mean: Tensor = (losses / weights).mean()
    return mean


def _lengths(given: Any, batch: int, name: str) -> np.ndarray:
    values = np.asarray(given._array if isinstance(given, Tensor) else given, np.int64).reshape(-1)
    if len(values) != batch:
        raise RuntimeError(f"ctc_loss: {name} must be of size batch_size ({batch}), got {len(values)}")
    if values.size and values.min() < 0:
        raise RuntimeError(f"ctc_loss: Expected {name} to have value at least 0, but got value {values.min()}")
    return values


def _padded(targets: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Targets as (N, longest), whatever stands behind their ends."""
    longest = int(sizes.max()) if sizes.size else 0
    if targets.ndim == 2:
        if targets.shape[0] != len(sizes) or targets.shape[1] < longest:
            raise RuntimeError(
                f"ctc_loss: Expected tensor to have size at least {longest} at dimension 1, but got size "
                f"{list(targets.shape)} for argument targets"
            )
        return targets[:, :longest]
    if targets.ndim != 1 or targets.shape[0] != sizes.sum():
        raise RuntimeError(
            f"ctc_loss: targets must be (N, S) or of the total target length ({sizes.sum()},), got {list(targets.shape)}"
        )
    rows = np.zeros((len(sizes), longest), np.int64)
    rows[np.arange(longest)[None, :] < sizes[:, None]] = targets
    return rows


def _losses(x: Tensor, labels: np.ndarray, inputs: np.ndarray, sizes: np.ndarray, blank: int) -> Tensor:
    """The loss of each sequence, by the forward recursion over the states blank, l1, blank, l2, ..., blank."""
    batch, longest = labels.shape
    states = 2 * longest + 1
    symbols = np.full((batch, states), blank, np.int64)
    symbols[:, 1::2] = np.where(np.arange(longest)[None, :] < sizes[:, None], labels, blank)
    # A label may follow the one before it directly unless they are equal.
    jumps = np.zeros((batch, states), bool)
    jumps[:, 3::2] = symbols[:, 3::2] != symbols[:, 1:-2:2]
    index: Tensor = Tensor._make(symbols)
    may_jump: Tensor = Tensor._make(jumps)
    steps = x.shape[0]
    kind = x._array.dtype
    alpha = where(Tensor._make(np.arange(states)[None, :] < 2), x[0].gather(1, index), _NEVER) if steps else None
    ends = [alpha]
    gap: Tensor = Tensor._make(np.full((batch, 2), _NEVER, kind))
    for t in range(1, steps):
        wide = shapes.cat([gap, alpha], 1)
        jumped = where(may_jump, wide[:, :states], _NEVER)
        alpha = shapes.stack([alpha, wide[:, 1:-1], jumped]).logsumexp(0) + x[t].gather(1, index)
        ends.append(alpha)
    # Each sequence is read off where it ends, in one of its last two states.
    last = shapes.stack([_row(ends, int(n) - 1, i) for i, n in enumerate(inputs)])
    final = np.stack([2 * sizes, np.maximum(2 * sizes - 1, 0)], 1)
    pair = last.gather(1, Tensor._make(final))
    pair = where(Tensor._make(np.stack([np.ones(batch, bool), sizes > 0], 1)), pair, _NEVER)
    losses = -pair.logsumexp(1)
    made: Tensor = where(losses > -0.5 * _NEVER, math.inf, losses)
    return made


def _row(ends: list[Any], t: int, i: int) -> Tensor:
    row: Tensor = ends[t][i]
    return row
