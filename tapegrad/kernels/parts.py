"""Partial results become one: contiguous (outer, count, inner) arrays, combined along the middle in order."""

from __future__ import annotations

import numpy as np

from . import launch
from .jit import Kernel, device

WIDTH = 1024  # columns that are summed side by side, so that their sums stay in the first cache


@device
def added(a, b):
    """a + b"""
    return a + b


@device
def multiplied(a, b):
    """a * b"""
    return a * b


@device
def _larger(a, b):
    return a if a >= b or a != a else b  # NaN if there is one


@device
def _smaller(a, b):
    return a if a <= b or a != a else b


def _parts_kernel(name, combine):
    def parts_kernel(parts, totals, out, count, inner, width, start, stop):
        """out[o, j] = parts[o, 0, j], parts[o, 1, j], ... combined in this order

        ``totals`` is like ``out``, of the type of the parts. The range counts tiles of ``width`` columns.
        """
        tiles = (inner + width - 1) // width
        for tile in range(start, stop):
            o = tile // tiles
            left = (tile - o * tiles) * width
            m = min(width, inner - left)
            at = o * count * inner + left
            to = o * inner + left
            if inner == 1:
                total = parts[at]
                for k in range(1, count):
                    total = combine(total, parts[at + k])
                out[to] = total
                continue
            for j in range(m):
                totals[to + j] = parts[at + j]
            for k in range(1, count):  # along the rows, as they lie in memory
                row = at + k * inner
                for j in range(m):
                    totals[to + j] = combine(totals[to + j], parts[row + j])
            for j in range(m):
                out[to + j] = totals[to + j]

    return Kernel(parts_kernel, f"parts.{name}")


_FOLDS = {
    "add": _parts_kernel("add_parts", added),
    "mul": _parts_kernel("multiply_parts", multiplied),
    "max": _parts_kernel("largest_parts", _larger),
    "min": _parts_kernel("smallest_parts", _smaller),
}


def fold(combine: str, parts: np.ndarray, out: np.ndarray, sizes: tuple[int, int, int]) -> None:
    """Fill ``out`` (outer, inner) with the parts (outer, count, inner), all of them contiguous, combined in order."""
    outer, count, inner = sizes
    width = min(WIDTH, inner)
    totals = out if out.dtype == parts.dtype else np.empty(out.size, parts.dtype)
    tiles = outer * -(-inner // width)
    launch.start(_FOLDS[combine], (parts, totals, out, count, inner, width), tiles, parts.size)
