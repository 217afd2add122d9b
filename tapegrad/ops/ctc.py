"""Connectionist temporal classification: a loss over all alignments of a target with a longer input."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import dtypes, kernels
from ..kernels import launch_lazily as launch
from ..kernels.recording import hosted
from ..op import kernel_op
from ..tape import Value
from .arithmetic import div, eq, where
from .fused import fused
from .gather import gather, scatter_add
from .maths import exp
from .reduce import logsumexp
from .reduction import REDUCTIONS, reduced
from .shape import cat, expand, flip, squeeze, stack, unsqueeze

_NEVER = -1e30  # the logarithm of no probability, in expressions: differences of it stay finite


def _ints(x: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(x, np.int64)


def _doubled(log_probs: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(log_probs, np.float32 if log_probs.dtype.char == "e" else None)


def _starts(targets: np.ndarray, sizes: np.ndarray) -> Any:
    """Where the target of each sequence begins in the flat array of targets."""
    if targets.ndim == 2:
        return np.arange(len(sizes)) * targets.shape[1]
    return np.cumsum(sizes) - sizes


# -- the occupancy as an expression ---------------------------------------------------------------------


@kernel_op(outputs=("symbols", "jumps", "first", "last"), name="ctc_states")
def _states(targets: Any, sizes: Any, *, blank: Any) -> Any:
    """Per sequence and state: its class, whether a jump leads to it, whether one may begin or end there."""
    starts, width = _starts(targets, sizes), 2 * int(sizes.max(initial=0)) + 1
    state = np.arange(width)[None, :]
    labels = (state < 2 * sizes[:, None]) & (state % 2 == 1)
    place = np.where(labels, starts[:, None] + state // 2, 0)
    flat = targets.reshape(-1)
    symbols = np.where(labels, flat[place] if flat.size else 0, blank).astype(np.int64)
    jumps = labels.copy()
    jumps[:, :2] = False
    jumps[:, 2:] &= symbols[:, 2:] != symbols[:, :-2]
    last = (state == 2 * sizes[:, None]) | (state == 2 * sizes[:, None] - 1)
    return symbols, jumps, np.broadcast_to(state < 2, symbols.shape).copy(), last


@kernel_op(outputs=("inside", "ending"), name="ctc_steps")
def _steps(steps: Any, *, longest: Any) -> Any:
    """Per step and sequence: whether it belongs to the input, and whether it is its last."""
    t = np.arange(longest)[:, None, None]
    return t < steps[None, :, None], t == steps[None, :, None] - 1


def _shifted(x: Any, by: int) -> Any:
    """Each state's value from ``by`` states before."""
    n, width = x._array.shape
    edge = x.new_zeros((n, by)) + _NEVER
    return cat([edge, x], 1)[:, :width]


def _slope(
    g: Any, log_probs: Any, targets: Any, steps: Any, sizes: Any, alpha: Any, loss: Any, blank: int
) -> Any:
    """g * (exp(log_probs) - occupancy) by recursions over states, as an expression."""
    longest = log_probs._array.shape[0]
    symbols, jumps, first, last = _states(targets, sizes, blank=blank)
    inside, ending = _steps(steps, longest=longest)
    index = expand(unsqueeze(symbols, 0), (longest, *symbols._array.shape))
    picked = gather(log_probs, 2, index)
    never = picked.new_zeros(symbols._array.shape) + _NEVER
    forward = _recursion(picked, where(first, 0.0, never), jumps, None)
    # Backwards: the same recursion over reversed steps and states, begun anew at each sequence's end.
    back = _recursion(
        flip(picked, 0, 2), where(flip(last, 1), 0.0, never), _reversed_jumps(jumps), flip(ending, 0)
    )  # fmt: skip
    through = forward + flip(back, 0, 2) - picked
    share = exp(through - logsumexp(through, 2, keepdim=True))
    occupancy = scatter_add(log_probs * 0, 2, index, share)
    return where(inside, (exp(log_probs) - occupancy) * unsqueeze(unsqueeze(g, 0), 2), 0.0)


def _reversed_jumps(jumps: Any) -> Any:
    """Jumps out of a state in reversed order: those into the state two before it."""
    n, width = jumps._array.shape
    turned = flip(jumps, 1)
    return cat([jumps.new_zeros((n, min(2, width))), turned], 1)[:, :width]


def _recursion(picked: Any, start: Any, jumps: Any, restart: Any) -> Any:
    """log of the probability of all alignments up to each step and state; they begin anew at ``restart``."""
    rows: list[Any] = []
    for t in range(picked._array.shape[0]):
        if not rows:
            row = start
        else:
            x = rows[-1]
            two = where(jumps, _shifted(x, 2), _NEVER)
            row = logsumexp(stack([x, _shifted(x, 1), two]), 0)
        if restart is not None:
            row = where(restart[t], start, row)
        rows.append(row + picked[t])
    return stack(rows)


# -- ops ---------------------------------------------------------------------------------------------


@fused(_slope, name="ctc_loss_backward")
def ctc_slope(
    g: Any, log_probs: Any, targets: Any, steps: Any, sizes: Any, alpha: Any, loss: Any, *, blank: Any
) -> Any:
    """The cotangent of ctc_rows' log_probs."""
    x = _doubled(log_probs)
    longest, batch, classes = x.shape
    out = np.empty(x.shape, x.dtype)
    width = alpha.shape[2]
    beta = np.empty((batch, 2, width))
    args = (
        x, _ints(targets), _starts(targets, sizes), steps, sizes, alpha, loss,
        np.ascontiguousarray(g, np.float64),
        beta, out, batch, classes, longest, width, blank,
    )  # fmt: skip
    launch(kernels.ctc.ctc_slope, args, batch, alpha.size)
    return out.astype(log_probs.dtype, copy=False)


@kernel_op(
    log_probs=lambda g, log_probs, targets, steps, sizes, alpha, loss, blank: ctc_slope(
        g, log_probs, targets, steps, sizes, alpha, loss, blank=blank
    ),
    # Only the kernel reads them; the expression makes its own.
    residuals={"alpha": lambda log_probs: None, "loss": lambda log_probs: None},
    name="ctc_loss",
)
def ctc_rows(log_probs: Any, targets: Any, steps: Any, sizes: Any, *, blank: Any) -> Any:
    """-log of the probability of all alignments of each target, (T, N, C) to (N,).

    Its cotangent is that of log_probs that are normalised (a log_softmax), as in PyTorch. Hands out
    the forward recursion and the losses in float64.
    """
    x = _doubled(log_probs)
    longest, batch, classes = x.shape
    width = 2 * int(sizes.max(initial=0)) + 1
    alpha, loss = np.empty((batch, longest, width)), np.empty(batch)
    args = (
        x, _ints(targets), _starts(targets, sizes), steps, sizes, alpha, loss, batch, classes, longest, width,
        blank,
    )  # fmt: skip
    launch(kernels.ctc.ctc_losses, args, batch, alpha.size)
    return loss.astype(log_probs.dtype), alpha, loss


# -- PyTorch's face ------------------------------------------------------------------------------------


def _lengths(given: Any, like: Any, batch: int, name: str) -> Any:
    if not isinstance(given, Value):
        given = like._make(np.asarray(given, np.int64).reshape(-1))
    array = given._array
    if array.dtype.kind not in "iu":
        raise RuntimeError(f"ctc_loss: {name} must be integral, got {array.dtype}")
    if array.size != batch:
        raise RuntimeError(f"ctc_loss: {name} must be of size batch_size ({batch}), got {array.size}")
    if array.size and array.min() < 0:
        raise RuntimeError(f"ctc_loss: Expected {name} to have value at least 0, but got value {array.min()}")
    return given.reshape(-1).to(dtypes.int64)


def _check(x: Any, targets: Any, steps: Any, sizes: Any, blank: int) -> None:
    _check_arrays(x._array.shape, targets._array, steps._array, sizes._array, blank)


@hosted
def _check_arrays(
    have: tuple[int, ...], targets: np.ndarray, steps: np.ndarray, sizes: np.ndarray, blank: int
) -> None:
    longest, batch, classes = have
    if not 0 <= blank < classes:
        raise RuntimeError(f"ctc_loss: blank must be in label range [0, {classes}), got {blank}")
    most = steps.max(initial=0)
    if most > longest:
        raise RuntimeError(
            f"ctc_loss: Expected input_lengths to have value at most {longest}, but got value {most}"
        )
    shape, most = targets.shape, int(sizes.max(initial=0))
    if len(shape) == 2 and (shape[0] != batch or shape[1] < most):
        raise RuntimeError(
            f"ctc_loss: Expected targets of size ({batch}, at least {most}) for the given target_lengths, got "
            f"{list(shape)}"
        )
    if len(shape) == 1 and shape[0] != sizes.sum():
        raise RuntimeError(
            f"ctc_loss: Expected joined targets of the total length {sizes.sum()}, but got {shape[0]}"
        )
    if len(shape) not in (1, 2):
        raise RuntimeError(f"ctc_loss: targets must be (N, S) or (sum of lengths,), got {list(shape)}")
    if targets.dtype.char not in "il":
        raise RuntimeError(f"ctc_loss: targets must have dtype int32 or int64, got {targets.dtype}")
    labels = targets
    if labels.size and (labels.min() < 0 or labels.max() >= classes):
        raise RuntimeError(
            f"ctc_loss: targets must be in range [0, {classes}), got {labels.min()} to {labels.max()}"
        )


def ctc_loss(
    log_probs: Any,
    targets: Any,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Any:
    """-log of the probability of all alignments of the targets with the inputs.

    ``log_probs`` (T, N, C) or (T, C), normalised over C; ``targets`` (N, S), or all of them joined (sum of
    lengths,); lengths (N,). The mean divides each loss by its target length first. A target that cannot be
    aligned costs infinity, or 0 with ``zero_infinity``.
    """
    if reduction not in REDUCTIONS:
        raise ValueError(f"{reduction} is not a valid value for reduction: use 'none', 'mean' or 'sum'")
    if log_probs._array.ndim not in (2, 3):
        raise RuntimeError(
            f"ctc_loss: log_probs must be (T, N, C) or (T, C), got {list(log_probs._array.shape)}"
        )
    if log_probs._array.dtype.kind != "f":
        raise RuntimeError(f"ctc_loss: log_probs must be floating, got {log_probs._array.dtype}")
    single = log_probs._array.ndim == 2
    x = unsqueeze(log_probs, 1) if single else log_probs
    batch = x._array.shape[1]
    steps = _lengths(input_lengths, x, batch, "input_lengths")
    sizes = _lengths(target_lengths, x, batch, "target_lengths")
    _check(x, targets, steps, sizes, blank)
    losses = ctc_rows(x, targets, steps, sizes, blank=blank)
    if zero_infinity:
        losses = where(eq(losses, math.inf), 0.0, losses)
    if reduction == "mean":
        losses = div(losses, where(sizes < 1, 1, sizes).to(x.dtype))
    return reduced(squeeze(losses, 0) if single and reduction == "none" else losses, reduction)
