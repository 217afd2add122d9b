"""Convolution of arrays: the bilinear form and its two adjoints.

All three read and write (image, channel, *spatial) arrays and weights (out, in per group, *kernel), and share
one geometry. A few images at a time are copied with their padding, so that every tap of a window is a
constant shift; then tiles of products are read in place (kernels/conv.py).
"""

from __future__ import annotations

import itertools
import math
import threading
from functools import lru_cache
from typing import Any

import numpy as np

from .. import buffers, kernels
from ..kernels import launch_lazily as launch
from ..kernels.arrays import cast, contiguous, copy, zeros
from ..kernels.recording import hosted, now
from .windows import Windows

# Elements of the padded copy of some images: few enough to stay in the caches that cores share.
BLOCK = 1 << 19
# Vectors that a tile of sums runs over before it is added up: many enough for that not to count, few enough
# to be in the first caches when the next tile runs over them.
LONG = 512


class _Scratch(threading.local):
    """Working memory of one thread, kept: fresh pages cost more than the arithmetic."""

    def __init__(self) -> None:
        self.buffers: dict[tuple[str, str], np.ndarray] = {}

    def take(self, use: str, size: int, dtype: np.dtype) -> np.ndarray:
        if now() is not None:  # a recorded step has memory of its own
            return np.empty(size, dtype)
        have = self.buffers.get((use, dtype.char))
        if have is None or have.size < size:
            have = self.buffers[use, dtype.char] = buffers.aligned(size, dtype)
        return have[:size]


_scratch = _Scratch()


class Runs:
    """Outputs in vectors, each a run of neighbours in the padded copy.

    Either every line of outputs is cut into vectors, or the copy is, from the first line to the last, with
    what lies between lines left out of the results: whichever takes fewer vectors.
    """

    def __init__(self, p: Plan, lanes: int) -> None:
        depth, lines, width = p.out
        _, height, pitch = p.sizes
        across = -(-width // lanes)
        length = (lines - 1) * pitch + width
        through = -(-length // lanes)
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


def _wide(*arrays: np.ndarray) -> tuple[np.ndarray, ...]:
    """Contiguous, and float16 as float32."""
    return tuple([contiguous(a, np.float32 if a.dtype.char == "e" else None) for a in arrays])


def _dealt(x: np.ndarray, p: Plan) -> np.ndarray:
    """The padded copy of some images."""
    planes = x.shape[0] * x.shape[1]
    size = planes * p.plane
    out = _scratch.take("images", size + 128, x.dtype)
    copy(out[size:], 0)  # the last vectors read past the end
    launch(kernels.conv.deal, (x, out, p.table), planes, size)
    return out


# -- the three maps --------------------------------------------------------------------------------------


def forward(
    x: np.ndarray, weight: np.ndarray, bias: np.ndarray | None, w: Windows, groups: int
) -> np.ndarray:
    """out[n, o, t] = bias[o] + sum of weight[o, c, k] * x[n, c, t * stride - padding + k * dilation]"""
    dtype = x.dtype
    x, weight = _wide(x, weight)
    out = buffers.empty((x.shape[0], weight.shape[0], *w.out), x.dtype)
    if not out.size:
        return cast(out, dtype)
    if not x.size or not weight.size:
        copy(out, 0 if bias is None else bias.reshape(-1, *[1] * len(w.out)))
    elif x.dtype.kind != "f":
        return _integers(x, weight, bias, w, groups)
    else:
        correlate = _correlate_lanes if _few_places(x, weight, w, groups) else _correlate
        correlate(x, weight, bias, out, w, groups)
    return cast(out, dtype)


def _correlate(
    x: np.ndarray, weight: np.ndarray, bias: np.ndarray | None, out: np.ndarray, w: Windows, groups: int
) -> None:
    images, channels = x.shape[:2]
    tile, conv = kernels.tile, kernels.conv
    per_group = weight.shape[0] // groups
    rows, lanes = tile.fitting(per_group, tile.PRODUCTS), tile.lanes(x.itemsize)
    p = plan(w)
    tiles = groups * -(-per_group // rows)
    n = weight.size // weight.shape[0]
    packed = _scratch.take("weight", tiles * rows * n, x.dtype)
    launch(conv.pack_rows, (weight, packed, per_group, n, rows), tiles, packed.size)
    start = zeros((groups, tiles // groups * rows), x.dtype)
    if bias is not None:
        copy(start[:, :per_group], bias.reshape(groups, per_group))
    shifts, runs = p.shifts(channels // groups), p.runs(lanes)
    count, each = runs.count, channels * p.plane
    step = max(1, min(images, BLOCK // each))
    # An image is cut up where there are too few of them to go round.
    cuts = max(1, min(count // 16, -(-16 // step)))
    for a in range(0, images, step):
        b = min(a + step, images)
        dealt = _dealt(x[a:b], p)
        arrays = (dealt, packed, start, out[a:b], shifts, runs.table, runs.parts)
        numbers = (n, groups, per_group, count, p.places, each, cuts)
        launch(conv.correlate[rows], (*arrays, *numbers), (b - a) * cuts, (b - a) * count * tiles * n)


def _few_places(x: np.ndarray, weight: np.ndarray, w: Windows, groups: int) -> bool:
    """Whether channels fill vectors better than places do, by enough to pay for turning the result."""
    lanes = kernels.tile.lanes(x.itemsize)
    p = plan(w)
    per_group = weight.shape[0] // groups
    by_channels = per_group / (-(-per_group // lanes) * lanes)
    by_places = p.places / (p.runs(lanes).count * lanes)
    return bool(by_channels * 0.85 > by_places)


def _correlate_lanes(
    x: np.ndarray, weight: np.ndarray, bias: np.ndarray | None, out: np.ndarray, w: Windows, groups: int
) -> None:
    """The same with channels in the lanes of a vector."""
    images, channels = x.shape[:2]
    conv = kernels.conv_lanes
    lanes = kernels.tile.lanes(x.itemsize)
    p = plan(w)
    per_group = weight.shape[0] // groups
    vectors = -(-per_group // lanes)
    n = weight.size // weight.shape[0]
    packed = _scratch.take("weight", groups * vectors * n * lanes, x.dtype)
    launch(conv.pack_lanes, (weight, packed, per_group, n, lanes), groups * vectors, packed.size)
    start = zeros((groups, vectors * lanes), x.dtype)
    if bias is not None:
        copy(start[:, :per_group], bias.reshape(groups, per_group))
    each = channels * p.plane
    # Elements are read one by one, none outside: without padding and phases the input needs no copy.
    as_it_is = set(w.padding) == {0} and set(w.stride) == {1} and p.sizes[3 - len(w.size) :] == list(w.size)
    step = images if as_it_is else max(1, min(images, BLOCK // each))
    tasks = min(64, -(-step * p.places // lanes))
    room = _scratch.take("tiles", tasks * lanes * lanes * kernels.gemm_tile.WINDOW_WIDTH, x.dtype)
    shifts = p.shifts(channels // groups)
    for a in range(0, images, step):
        b = min(a + step, images)
        given = x[a:b] if as_it_is else _dealt(x[a:b], p)
        arrays = (given, packed, start, out[a:b], room, p.each_place(b - a, each), shifts)
        total = (b - a) * p.places
        numbers = (n, groups, per_group, p.places, total, each // groups, tasks, lanes)
        launch(conv.correlate_lanes, (*arrays, *numbers), tasks, out[a:b].size * n // lanes)


@hosted
def _integers(
    x: np.ndarray, weight: np.ndarray, bias: np.ndarray | None, w: Windows, groups: int
) -> np.ndarray:
    """Windows laid out as columns, for the sake of completeness: whole numbers have no fast product."""
    out = buffers.empty((x.shape[0], weight.shape[0], *w.out), x.dtype)
    cols = buffers.empty((groups, x.shape[1] // groups * w.taps(), w.outputs()), x.dtype)
    matrix = weight.reshape(groups, weight.shape[0] // groups, -1)
    for image, result in zip(x, out, strict=True):
        launch(kernels.columns.columns, (image, cols, w.geo()), x.shape[1], cols.size)
        result[...] = np.matmul(matrix, cols).reshape(result.shape)
    if bias is not None:
        out += bias.reshape(-1, *[1] * len(w.out))
    return out


def input_adjoint(
    g: np.ndarray, weight: np.ndarray, bias: np.ndarray | None, w: Windows, groups: int
) -> np.ndarray:
    """x[n, c, t * stride - padding + k * dilation] += weight[o, c, k] * g[n, o, t], from bias[c]."""
    dtype = g.dtype
    g, weight = _wide(g, weight)
    images, outs = g.shape[:2]
    channels = weight.shape[1] * groups
    # In and out change places.
    turned = weight.reshape(groups, outs // groups, weight.shape[1], *w.kernel).swapaxes(1, 2)

    def part(inner: Windows, taps: Any) -> np.ndarray:
        matrix = contiguous(turned[taps]).reshape(channels, outs // groups, *inner.kernel)
        return forward(g, matrix, bias, inner, groups)

    if set(w.stride) == {1}:
        ((_, inner, taps),) = _residues(w)
        return cast(part(inner, taps), dtype)
    x = zeros((images, channels, *w.size), g.dtype)
    if bias is not None:
        copy(x, bias.reshape(-1, *[1] * len(w.size)))
    if g.size and weight.size:
        for place, inner, taps in _residues(w):
            copy(x[place], part(inner, taps))
    return cast(x, dtype)


@lru_cache(maxsize=256)
def _residues(w: Windows) -> list[tuple[Any, Windows, Any]]:
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


def weight_adjoint(x: np.ndarray, g: np.ndarray, w: Windows, groups: int) -> np.ndarray:
    """weight[o, c, k] = sum over n and t of g[n, o, t] * x[n, c, t * stride - padding + k * dilation]"""
    dtype = x.dtype
    x, g = _wide(x, g)
    channels = x.shape[1]
    outs, per_group = g.shape[1], channels // groups
    shape = (outs, per_group, *w.kernel)
    if not math.prod(shape) or not x.size or not g.size:
        return zeros(shape, dtype)
    total = _contract(x, g, w, groups)
    height, n = outs // groups, per_group * w.taps()
    # Beside every line of outputs neighbours were multiplied by zero, and a NaN there has spread.
    if now() is not None:
        _, padded, row = total.shape
        args = (x, g, total, w.geo(), x.shape[0], channels, per_group, height, padded, row)
        launch(kernels.conv.mend, args, outs, total.size)
    made = total[:, :height, :n]
    if now() is None and not np.isfinite(made).all():
        made = _contract_columns(x, g, w, groups)
    weight = np.empty(shape, x.dtype)
    copy(weight.reshape(made.shape), made)
    return cast(weight, dtype)


def _contract(x: np.ndarray, g: np.ndarray, w: Windows, groups: int) -> np.ndarray:
    tile, conv = kernels.tile, kernels.conv
    lanes = tile.lanes(x.itemsize)
    images, channels = x.shape[:2]
    p = plan(w)
    n = channels // groups * w.taps()
    height = g.shape[1] // groups
    rows = tile.fitting(height, tile.GRAMS)
    tall, broad = -(-height // rows), -(-n // tile.GRAMS[rows])
    padded = tall * rows
    total = zeros((groups, padded, broad * tile.GRAMS[rows]), np.dtype(np.float64))
    shifts = p.shifts(channels // groups, tile.GRAMS[rows])
    runs = p.runs(lanes)
    each, vectors = channels * p.plane, runs.count
    step = max(1, min(images, BLOCK // each))
    slices, count, width = p.out
    for a in range(0, images, step):
        b = min(a + step, images)
        dealt = _dealt(x[a:b], p)
        size = (b - a) * vectors * lanes
        lined = _scratch.take("lines", groups * padded * size, g.dtype)
        args = (g[a:b], lined, b - a, height, padded, slices, count, width, runs.pitch, runs.room, g.shape[1])
        launch(conv.line_up, args, groups * padded, lined.size)
        lines = p.lines(lanes, b - a, each)
        given = (dealt, lined, total, shifts, lines, len(lines), lanes, LONG, tall, broad, each // groups)
        launch(conv.contract[rows], given, groups * tall * broad, len(lines) * groups * tall * broad * 32)
    return total


def _contract_columns(x: np.ndarray, g: np.ndarray, w: Windows, groups: int) -> np.ndarray:
    """The same sums from windows laid out as columns, so that nothing else comes in."""
    cols = buffers.empty((groups, x.shape[1] // groups * w.taps(), w.outputs()), x.dtype)
    total: np.ndarray = np.zeros((groups, g.shape[1] // groups, cols.shape[1]))
    with np.errstate(all="ignore"):
        for image, part in zip(x, g, strict=True):
            launch(kernels.columns.columns, (image, cols, w.geo()), x.shape[1], cols.size)
            total += np.matmul(part.reshape(groups, -1, w.outputs()), cols.swapaxes(1, 2))
    return total


# -- the bias --------------------------------------------------------------------------------------------


def channel_sums(g: np.ndarray) -> np.ndarray:
    """The sum per channel of (image, channel, ...)."""
    dtype = g.dtype
    (g,) = _wide(g)
    out = np.empty(g.shape[1], g.dtype) if g.size else zeros((g.shape[1],), g.dtype)
    if g.size:
        images, channels = g.shape[:2]
        n = math.prod(g.shape[2:])
        launch(kernels.conv.sum_channels, (g, out, images, channels, n), channels, g.size)
    return cast(out, dtype)
