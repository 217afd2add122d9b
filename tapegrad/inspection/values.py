"""Arrays to look at: small ones as numbers, large ones as a histogram; and which results are still to be had."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from .. import printing, tape
from ..tape import Entry
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
