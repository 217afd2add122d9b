"""Arrays to look at: small ones as numbers, large ones as a histogram; and which results are still to be had."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from .. import printing, tape
from ..elementwise import Elementwise
from ..modes import modes, set_grad
from ..op import ViewOp
from ..ops.direct import DirectOp
from ..ops.reducing import ReduceOp
from ..tape import Entry, Value
from .rows import kind, saved_input

SMALL = 24  # elements that are shown as numbers
BINS = 24


def known_values(entries: Iterable[Entry]) -> dict[tuple[int, int], np.ndarray]:
    """Results by (position, output): what an entry or its users saved, and what a living tensor holds.

    The tape keeps only what rules need, so not every result is among them.
    """
    found: dict[tuple[int, int], np.ndarray] = {}
    inside = set()
    for entry in entries:
        inside.add(entry)
        outputs = getattr(entry.op, "outputs", ("out",))
        for name, array in tape.saved_arrays(entry):
            if name in outputs:
                found[entry.position, outputs.index(name)] = array
        for j, edge in enumerate(entry.edges):
            if type(edge) is Entry and (saved := saved_input(entry, j)) is not None:
                found[edge.position, entry.indices[j]] = saved
    for value in tape.live_values():
        if type(value._node) is Entry and value._node in inside:
            found[value._node.position, value._index] = value._array
    return found


def computed_again(
    entries: Sequence[Entry], known: dict[tuple[int, int], np.ndarray]
) -> dict[tuple[int, int], np.ndarray]:
    """Results that nobody keeps, computed anew where all operands are known.

    Of formulas, views, reductions, products and the like: ops that only compute, so that running them again changes nothing.
    """
    found: dict[tuple[int, int], np.ndarray] = {}
    before = modes.grad
    set_grad(False)
    try:
        for entry in entries:
            if (entry.position, 0) not in known and isinstance(entry.op, PURE):
                operands = [_operand(entry, j, {**known, **found}) for j in range(len(entry.op.inputs))]
                if all(x is not None for x in operands):
                    found[entry.position, 0] = _computed(entry, operands)
    finally:
        set_grad(before)
    return found


PURE = (Elementwise, ViewOp, ReduceOp, DirectOp)


def _operand(entry: Entry, j: int, known: dict[tuple[int, int], np.ndarray]) -> Any:
    """An input's array or number, None if it is not known."""
    edge = entry.edges[j] if j < len(entry.edges) else None
    if isinstance(edge, Value):
        return edge._array
    if edge is not None:
        return known.get((edge.position, entry.indices[j]))
    array = saved_input(entry, j)
    if array is None and not entry.truncated and entry.op.inputs[j] in entry.op.slots:
        number = entry.saved[entry.op.slots.index(entry.op.inputs[j])]
        return number if isinstance(number, (int, float)) else None
    return array


def _computed(entry: Entry, operands: list[Any]) -> np.ndarray:
    params = entry.params if isinstance(entry.params, dict) else {}
    if isinstance(entry.op, Elementwise):
        wrapped = [entry.op.wrap_saved(x) if isinstance(x, np.ndarray) else x for x in operands]
        made = entry.op.general(*wrapped, **params)._array
    else:
        made = entry.op.forward(*operands, **params)
        if isinstance(made, tuple):  # with residuals
            made = made[0]
    return np.asarray(made)


def shown(array: np.ndarray) -> dict[str, Any]:
    """What a page needs to show an array: its kind, and its numbers or a histogram with the extremes and the mean."""
    made: dict[str, Any] = {"kind": kind(array.shape, array.dtype), "bytes": array.nbytes}
    if array.size <= SMALL:
        text = printing.format_tensor(array, prefix=" " * 7).strip().removesuffix(")")
        made["numbers"] = text.split(", dtype=")[0].replace("\n" + " " * 7, "\n").replace("\n\n", "\n")
        return made
    values = array.ravel().astype(np.float64)
    finite = values[np.isfinite(values)]
    made["nan"] = int(np.isnan(values).sum())
    made["inf"] = int(np.isinf(values).sum())
    if finite.size:
        counts, edges = np.histogram(finite, bins=BINS)
        made["histogram"] = counts.tolist()
        made["low"], made["high"] = float(edges[0]), float(edges[-1])
        made["mean"], made["norm"] = float(finite.mean()), float(np.sqrt(np.square(finite).sum()))
    return made
