"""Connectionist temporal classification: the recursions over alignments, in logarithms.

A sequence of target labels l1, l2, ... has the states blank, l1, blank, l2, ..., blank. From one step to
the next an alignment stays in its state, goes to the next, or jumps over a blank between two different
labels. ``log_probs`` is (steps, batch, classes); targets of sequence n start at ``starts[n]``. Everything
between is float64.
"""

from __future__ import annotations

import math

import numpy as np

from . import scalar
from .jit import device, kernel

_exp, _log = scalar.exp_f8, scalar.log_f8


@device
def _symbol(targets, start, state, blank):
    return targets[start + state // 2] if state & 1 else blank


@device
def _jumps(targets, start, state):
    """Whether an alignment may come to a state from the one two before it."""
    return state & 1 and state > 1 and targets[start + state // 2] != targets[start + state // 2 - 1]


@device
def _log_sum(a, b, c):
    top = max(a, b, c)
    base = top if top > -math.inf else 0.0  # infinities must not be subtracted from each other
    return top + _log(_exp(a - base) + _exp(b - base) + _exp(c - base)) if top > -math.inf else top


@kernel
def ctc_losses(
    log_probs, targets, starts, steps, sizes, alpha, loss, batch, classes, longest, width, blank, start, stop
):
    """loss[n] = -log of the summed probability of all alignments; the range counts sequences

    alpha[n, t, s] is the logarithm of the probability of all beginnings that are in state s at step t;
    there are ``longest`` steps and ``width`` states.
    """
    for n in range(start, stop):
        first = starts[n]
        states = 2 * sizes[n] + 1
        base = n * longest * width
        if steps[n] == 0:
            loss[n] = 0.0 if states == 1 else math.inf
            continue
        for s in range(states):
            begins = s < 2
            at = n * classes + _symbol(targets, first, s, blank) if begins else 0
            alpha[base + s] = np.float64(log_probs[at]) if begins else -math.inf
        for t in range(1, steps[n]):
            now = base + t * width
            row = (t * batch + n) * classes
            for s in range(states):
                before = now - width + s
                one = alpha[before - 1] if s else -math.inf
                two = alpha[before - 2] if _jumps(targets, first, s) else -math.inf
                alpha[now + s] = _log_sum(alpha[before], one, two) + np.float64(
                    log_probs[row + _symbol(targets, first, s, blank)]
                )
        last = base + (steps[n] - 1) * width + states - 1
        loss[n] = -_log_sum(alpha[last], alpha[last - 1] if states > 1 else -math.inf, -math.inf)


@kernel
def ctc_slope(
    log_probs, targets, starts, steps, sizes, alpha, loss, g, beta, out,
    batch, classes, longest, width, blank, start, stop,
):  # fmt: skip
    """out[t, n] = g[n] * (exp(log_probs[t, n]) - the probability of each class at step t given the target)

    beta holds two rows of ``width`` states per sequence: the logarithm of the probability of all endings.
    """
    for n in range(start, stop):
        first = starts[n]
        states = 2 * sizes[n] + 1
        base = n * longest * width
        share = np.float64(g[n])
        for t in range(longest):
            row = (t * batch + n) * classes
            inside = t < steps[n] and share != 0.0
            for c in range(classes):
                out[row + c] = share * _exp(np.float64(log_probs[row + c])) if inside else 0.0
        if share == 0.0:
            continue
        for back in range(steps[n]):
            t = steps[n] - 1 - back
            now = n * 2 * width + (back & 1) * width
            later = n * 2 * width + ((back + 1) & 1) * width
            row = (t * batch + n) * classes
            for s in range(states):
                if back == 0:
                    ending = 0.0 if s >= states - 2 else -math.inf
                else:
                    one = beta[later + s + 1] if s + 1 < states else -math.inf
                    two = (
                        beta[later + s + 2] if s + 2 < states and _jumps(targets, first, s + 2) else -math.inf
                    )
                    ending = _log_sum(beta[later + s], one, two)
                symbol = _symbol(targets, first, s, blank)
                # alpha holds the symbol of step t already; beta takes it for the step before.
                through = _exp(alpha[base + t * width + s] + ending + loss[n])
                out[row + symbol] -= share * through
                beta[now + s] = ending + np.float64(log_probs[row + symbol])
