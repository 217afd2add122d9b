"""Scans: what has been accumulated so far, along the middle of contiguous (outer, n, inner) arrays.

The accumulator is a float64, in a register for rows and in the array ``acc`` for columns that are scanned
side by side. With ``reverse`` the scan starts at the end.
"""

from __future__ import annotations

import numpy as np

from . import launch
from .jit import Kernel, from_text
from .reduction import TILE
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
        self.texts = {
            rows: (_ROWS if rows else _COLUMNS)
            .format(
                name=name,
                arrays=", ".join(arrays),
                initial=initial,
                update=update,
                update_column=update.replace("acc", "acc[to + j]"),
            )
            .lstrip()
            for rows in (True, False)
        }
        self._made: dict[bool, Kernel] = {}

    def _kernel(self, rows: bool) -> Kernel:
        if rows not in self._made:
            namespace = {"f8": np.float64, "log_add": log_add, "INF": float("inf")}
            name = f"{self.name}_{'rows' if rows else 'columns'}"
            self._made[rows] = from_text(name, self.texts[rows], namespace)
        return self._made[rows]

    def run(
        self, arrays: tuple[np.ndarray, ...], out: np.ndarray, sizes: tuple[int, int, int], reverse: bool
    ) -> None:
        """Fill ``out`` from contiguous arrays of ``sizes`` (outer, n, inner)."""
        outer, n, inner = sizes
        if not out.size:
            return
        if inner == 1:
            launch.start(self._kernel(True), (*arrays, out, n, int(reverse)), outer, out.size)
            return
        width = min(inner, TILE)
        acc = np.empty(outer * inner)
        tiles = outer * -(-inner // width)
        launch.start(self._kernel(False), (*arrays, out, acc, n, inner, width, int(reverse)), tiles, out.size)


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
