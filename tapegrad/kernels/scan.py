"""Scans: what has been accumulated so far, along the middle of contiguous (outer, n, inner) arrays.

The accumulator is a float64, in a register for rows and in the array ``acc`` for columns that are scanned
side by side. With ``reverse`` the scan starts at the end. Many short rows are scanned side by side too, each in registers.
"""

from __future__ import annotations

import numpy as np

from . import launch
from .jit import Kernel, from_text
from .reduction import TILE, is_short
from .scalar_rare import log_add

_ROWS = """
def {name}_rows({arrays}, out, n, reverse, start, stop):
    step = -1 if reverse else 1
    for r in range(start, stop):
        i = r * n + (n - 1 if reverse else 0)
        acc = f8({initial})
        for k in range(n):
            acc = {update}
            out[i] = acc
            i += step
"""

_SHORT = """
def {name}_short({arrays}, out, start, stop):
    for r in range(start, stop):
        at = r * {n}
        acc = f8({initial})
"""
_SHORT_STEP = """        i = at + {k}
        acc = {update}
        out[i] = acc
"""

_COLUMNS = """
def {name}_columns({arrays}, out, acc, n, inner, width, reverse, start, stop):
    tiles = (inner + width - 1) // width
    for tile in range(start, stop):
        o = tile // tiles
        left = (tile - o * tiles) * width
        m = min(width, inner - left)
        to = o * inner + left
        for j in range(m):
            acc[to + j] = {initial}
        for k in range(n):
            row = (o * n + (n - 1 - k if reverse else k)) * inner + left
            for j in range(m):
                i = row + j
                v = {update_column}
                acc[to + j] = v
                out[i] = v
"""


class Scan:
    """acc = update(acc, elements), kept at every step."""

    def __init__(
        self, name: str, update: str, initial: str = "0.0", arrays: tuple[str, ...] = ("x",)
    ) -> None:
        self.name = name
        self.words = {
            "name": name,
            "arrays": ", ".join(arrays),
            "initial": initial,
            "update": update,
            "update_column": update.replace("acc", "acc[to + j]"),
        }
        self._made: dict[str | tuple[int, ...], Kernel] = {}

    def _text(self, which: str | tuple[int, ...]) -> str:
        """Of "rows", of "columns", or of rows of a known length, whose places are given in order."""
        if which == "rows":
            return _ROWS.format(**self.words).lstrip()
        if which == "columns":
            return _COLUMNS.format(**self.words).lstrip()
        head = _SHORT.format(**self.words, n=len(which)).lstrip()
        return head + "".join([_SHORT_STEP.format(**self.words, k=k) for k in which])

    def _kernel(self, which: str | tuple[int, ...]) -> Kernel:
        found = self._made.get(which)
        if found is None:
            namespace = {"f8": np.float64, "log_add": log_add, "INF": float("inf")}
            name = f"{self.name}_{which if isinstance(which, str) else 'short'}"
            found = self._made[which] = from_text(name, self._text(which), namespace)
        return found

    def run(
        self, arrays: tuple[np.ndarray, ...], out: np.ndarray, sizes: tuple[int, int, int], reverse: bool
    ) -> None:
        """Fill ``out`` from contiguous arrays of ``sizes`` (outer, n, inner)."""
        outer, n, inner = sizes
        if not out.size:
            return
        if inner == 1 and is_short(out, outer, n):
            order = tuple(range(n))
            launch.start(self._kernel(order[::-1] if reverse else order), (*arrays, out), outer, out.size)
            return
        if inner == 1:
            launch.start(self._kernel("rows"), (*arrays, out, n, int(reverse)), outer, out.size)
            return
        width = min(inner, TILE)
        acc = np.empty(outer * inner)
        tiles = outer * -(-inner // width)
        numbers = (n, inner, width, int(reverse))
        launch.start(self._kernel("columns"), (*arrays, out, acc, *numbers), tiles, out.size)


SUM = Scan("cumsum", "acc + x[i]")
PRODUCT = Scan("cumprod", "acc * x[i]", "1.0")
LINEAR = Scan("linear_scan", "b[i] + a[i] * acc", arrays=("a", "b"))
LOG_SUM_EXP = Scan("logcumsumexp", "log_add(acc, f8(x[i]))", "-INF")

_EXTREMUM = """
def cum{which}(x, values, places, n, inner, start, stop):
    for r in range(start, stop):
        o = r // inner
        i = o * n * inner + r - o * inner
        best = x[i]
        place = 0
        for k in range(n):
            v = x[i]
            if v != v or (best == best and v {sign}= best):
                best = v
                place = k
            values[i] = best
            places[i] = place
            i += inner
"""

_extremum: dict[str, Kernel] = {}


def extremum(
    which: str, x: np.ndarray, values: np.ndarray, places: np.ndarray, sizes: tuple[int, int, int]
) -> None:
    """The "max" or "min" so far and the last place where it was met; a NaN stays."""
    kernel = _extremum.get(which)
    if kernel is None:
        text = _EXTREMUM.format(which=which, sign={"max": ">", "min": "<"}[which]).lstrip()
        kernel = _extremum[which] = from_text(f"cum{which}", text, {})
    outer, n, inner = sizes
    launch.start(kernel, (x, values, places, n, inner), outer * inner, x.size)
