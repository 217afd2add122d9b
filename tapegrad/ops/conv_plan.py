"""The geometry of convolutions in a padded copy of the input: where vectors of outputs begin, how far taps shift them."""

from __future__ import annotations

import itertools
import math
from functools import lru_cache
from typing import Any

import numpy as np

from .windows import Windows


class Runs:
    """Outputs in vectors, each a run of neighbours in the padded copy.

    Either every line of outputs is cut into vectors, or the copy is, from the first line to the last, with
    what lies between lines left out of the results: whichever takes fewer vectors.
    """

    def __init__(self, p: Plan, lanes: int) -> None:
        depth, lines, width = p.out
        _, height, pitch = p.sizes
        across, through = p.ways(lanes)
        length = (lines - 1) * pitch + width
        self.flat = through < lines * across
        self.pitch = pitch if self.flat else across * lanes
        self.room = (through if self.flat else lines * across) * lanes
        table: list[tuple[int, int, int]] = []
        parts: list[tuple[int, int, int]] = []
        for z in range(depth):
            base = z * height * pitch
            begins = range(0, length, lanes) if self.flat else range(0, lines * self.pitch, lanes)
            for q in begins:
                first = len(parts)
                line, place = divmod(q, self.pitch)
                x = base + (q if self.flat else line * pitch + place)
                while line < lines and line * self.pitch < q + lanes:
                    low = max(0, line * self.pitch - q)
                    high = min(lanes, line * self.pitch + width - q)
                    if low < high:
                        parts.append((low, high, (z * lines + line) * width + q - line * self.pitch))
                    line += 1
                table.append((x, first, len(parts)))
        self.count = len(table)
        table += [(table[0][0], len(parts), len(parts))] * 8  # what fills the last tile is not stored
        self.table = np.array(table, dtype=np.int64)
        self.parts = np.array(parts, dtype=np.int64)

    def places(self) -> np.ndarray:
        """Where vectors begin in the copy of an image."""
        return self.table[: self.count, 0]


class Plan:
    """What kernels need to know of a geometry: how the padded copy is laid out, and what is where in it."""

    def __init__(self, w: Windows) -> None:
        more = 3 - len(w.size)
        fill = (1, 1, 1, 1, 0, 1)
        parts = [(one,) * more + part for part, one in zip(w, fill, strict=True)]
        size, out, kernel, stride, pad, dilation = parts
        # Tap k meets phase k * dilation % stride, shifted by k * dilation // stride.
        dims = list(zip(kernel, dilation, stride, strict=True))
        steps = [[divmod(k * d, s) for k in range(n)] for n, d, s in dims]
        phases = [sorted({phase for _, phase in step}) for step in steps]
        sizes = [n + max(q for q, _ in step) for n, step in zip(out, steps, strict=True)]
        self.out, self.sizes = out, sizes
        # Without padding and phases the copy is the input.
        self.as_it_is = set(pad) == {0} and set(stride) == {1} and sizes == list(size)
        self.places = math.prod(out)
        self.plane = math.prod(len(p) * n for p, n in zip(phases, sizes, strict=True))
        numbers = [*size, *sizes, *stride, *pad, *map(len, phases), *itertools.chain(*phases)]
        self.table = np.array(numbers, dtype=np.int64)
        block = math.prod(sizes)
        self.taps = []
        for (qd, rd), (qh, rh), (qw, rw) in itertools.product(*steps):
            phase = phases[0].index(rd) * len(phases[1]) + phases[1].index(rh)
            phase = phase * len(phases[2]) + phases[2].index(rw)
            self.taps.append(phase * block + (qd * sizes[1] + qh) * sizes[2] + qw)
        self._shifts: dict[tuple[int, int], np.ndarray] = {}
        self._runs: dict[int, Runs] = {}
        self._lines: dict[tuple[int, int, int], np.ndarray] = {}
        self._each: dict[tuple[int, int], np.ndarray] = {}

    def ways(self, lanes: int) -> tuple[int, int]:
        """How many vectors a line of outputs takes, and how many all lines of a slice do that are cut as one."""
        lines, width = self.out[1:]
        return -(-width // lanes), -(-((lines - 1) * self.sizes[2] + width) // lanes)

    def vectors(self, lanes: int) -> int:
        """The number of vectors of outputs."""
        across, through = self.ways(lanes)
        return self.out[0] * min(through, self.out[1] * across)

    def shifts(self, channels: int, multiple: int = 1) -> np.ndarray:
        """Per (channel of a group, tap), repeated at the end up to a multiple."""
        found = self._shifts.get((channels, multiple))
        if found is None:
            made = [c * self.plane + t for c in range(channels) for t in self.taps]
            made += made[-1:] * (-len(made) % multiple)
            found = self._shifts[channels, multiple] = np.array(made, dtype=np.int64)
        return found

    def runs(self, lanes: int) -> Runs:
        """The vectors of outputs."""
        found = self._runs.get(lanes)
        if found is None:
            found = self._runs[lanes] = Runs(self, lanes)
        return found

    def each_place(self, images: int, step: int) -> np.ndarray:
        """Where each output of some images begins, ``step`` apart in the copy."""
        found = self._each.get((images, step))
        if found is None:
            grid = np.ix_(*[np.arange(n, dtype=np.int64) for n in self.out])
            one = (grid[0] * self.sizes[1] + grid[1]) * self.sizes[2] + grid[2]
            made = np.arange(images, dtype=np.int64)[:, None] * step + one.ravel()
            found = self._each[images, step] = made.ravel()
        return found

    def lines(self, lanes: int, images: int, step: int) -> np.ndarray:
        """The places of all vectors of some images, ``step`` apart in the copy."""
        found = self._lines.get((lanes, images, step))
        if found is None:
            made = np.arange(images, dtype=np.int64)[:, None] * step + self.runs(lanes).places()
            found = self._lines[lanes, images, step] = made.ravel()
        return found


plan = lru_cache(maxsize=256)(Plan)


@lru_cache(maxsize=256)
def residues(w: Windows) -> list[tuple[Any, Windows, Any]]:
    """The transposed map, cut into maps of stride 1.

    Inputs i with (i + padding) % stride == r meet those taps k alone with k * dilation % stride == r, and
    among themselves they do so with stride 1. Per r: the inputs, the geometry, the taps (in reverse order).
    """
    per_dim = []
    for n, m, kernel, s, p, d in zip(*w, strict=True):
        found = []
        for r in range(s):
            taps = [k for k in range(kernel) if k * d % s == r]
            first = -(-(p - r) // s)
            count = (n - 1 + p - r) // s - first + 1
            if not taps or count < 1:
                continue
            apart = d // math.gcd(d, s)
            last = (taps[-1] * d - r) // s
            begin = s * first + r - p
            step = taps[1] - taps[0] if len(taps) > 1 else 1
            stop = taps[0] - step
            found.append(
                (
                    slice(begin, None, s),
                    (m, count, len(taps), 1, last - first, apart),
                    slice(taps[-1], None if stop < 0 else stop, -step),
                )
            )
        per_dim.append(found)
    made: list[tuple[Any, Windows, Any]] = []
    for chosen in itertools.product(*per_dim):
        places, numbers, taps = zip(*chosen, strict=True)
        made.append(((..., *places), Windows(*zip(*numbers, strict=True)), (..., *taps)))
    return made
