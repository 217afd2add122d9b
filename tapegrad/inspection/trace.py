"""The reverse replay run for show: the same rules on the same arrays, and nothing is changed.

No hook runs, no ``.grad`` is touched, nothing is released. A rule that a user wrote (autograd.Function) is called.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import replay
from ..engine import Arrays
from ..modes import modes, set_grad
from ..tape import Entry, Value


@dataclass
class Step:
    """One entry's turn in the reverse replay."""

    entry: Entry
    arriving: list[np.ndarray | None]  # per output: the sum of what came
    leaving: list[np.ndarray | None]  # per input
    delivered: list[tuple[Value, np.ndarray]]  # leaves whose gradient was complete after it


def trace(entries: Sequence[Entry], root: Any) -> list[Step]:
    """All turns of a replay from ``root`` (entry, output) with ones for its cotangent; RuntimeError if it was released."""
    if root is None:
        raise RuntimeError(
            "this listing does not belong to one tensor, so there is nowhere to start the replay from: use tensor.tape()"
        )
    start, index = root
    shape, dtype = start.output(index)
    uses: dict[Value, int] = {}
    for entry in entries:
        for edge in entry.edges:
            if isinstance(edge, Value):
                uses[edge] = uses.get(edge, 0) + 1
    algebra = Arrays(next(iter(uses))._result)  # the class of results, which stands on a floor above
    pending = replay._Pending(algebra)
    pending.add(start, index, np.ones(shape, dtype))
    before = modes.grad
    set_grad(False)
    try:
        return [
            step for entry in reversed(entries) if (step := _turn(entry, pending, uses, algebra)) is not None
        ]
    finally:
        set_grad(before)


def _turn(entry: Entry, pending: Any, uses: dict[Value, int], algebra: Arrays) -> Step | None:
    total = pending.totals.pop(entry, None)
    arriving: list[Any] = total if type(total) is list else [total]
    leaving: list[Any] = [None] * len(entry.edges)
    if any(g is not None for g in arriving):
        if entry.truncated:
            raise RuntimeError(replay._truncated_text(entry))
        if entry.stamps:
            replay._check_versions(entry, entry.stamps)
        needs = tuple(edge is not None for edge in entry.edges)
        results = entry.op.vjp(entry, list(arriving), needs, algebra)
        leaving = replay._fitted(entry, results, needs, algebra)
    delivered = []
    for j, edge in enumerate(entry.edges):
        if edge is None:
            continue
        if leaving[j] is not None:
            pending.add(edge, entry.indices[j], leaving[j])
        if isinstance(edge, Value):
            uses[edge] -= 1
            if not uses[edge] and edge in pending.totals:
                delivered.append((edge, np.array(pending.totals.pop(edge))))
    if total is None and not delivered:
        return None
    return Step(entry, arriving, [None if g is None else np.array(g) for g in leaving], delivered)


def norms_of(entries: Sequence[Entry], root: Any) -> dict[tuple[int, int], float]:
    """The Euclidean norm of what each entry sends to each of its inputs."""
    return {
        (step.entry.position, j): norm(g)
        for step in trace(entries, root)
        for j, g in enumerate(step.leaving)
        if g is not None
    }


def norm(array: np.ndarray) -> float:
    """The Euclidean norm, summed in float64."""
    return float(np.sqrt(np.square(array, dtype=np.float64).sum()))
