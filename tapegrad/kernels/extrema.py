"""Where the largest or smallest element lies, along the middle of contiguous (outer, n, inner) arrays.

The first of equal elements is meant, and the first NaN if there is one. A row is searched twice: for
the value by blocks, then within the one block that holds it for the place, since only searches
that keep no place along the way use the machine's vectors. Short rows are searched once, many side by side.
"""

from __future__ import annotations

from functools import cache as once
from typing import Any

import numpy as np

from . import index, launch
from .jit import Kernel, fast, from_text
from .reduction import BLOCK, CHUNK, TILE, is_short
from .scalar_bits import maximum, minimum

_FAST = {"fastmath": {"contract", "nsz"}}  # which zero is the larger one is left open
_block = fast("contract", "nsz")

_ROWS = """
@block
def best_of(x, first, last):
    total = x[first]
    for i in range(first, last):  # again the first, which keeps vectors inside of cache lines
        total = {pair}
    return total

@block
def place_of(x, best, first, last):
    place = i4(last - first)
    for i in range(first, last):
        v = x[i]
        hit = (v == best) | ((v != v) & (best != best))
        place = min(place, i4(i - first) if hit else i4(last - first))
    return place

def arg_rows(x, values, places, n, chunk, start, stop):
    chunks = (n + chunk - 1) // chunk
    o = start // chunks
    c = start - o * chunks
    for r in range(start, stop):
        base = o * n
        at = base + c * chunk
        c += 1
        if c == chunks:
            c = 0
            o += 1
        last = min(at + chunk, base + n)
        found = at
        best = best_of(x, at, min(at + {block}, last))
        at += {block}
        while at < last:
            v = best_of(x, at, min(at + {block}, last))
            if v {sign} best or (v != v and best == best):
                best = v
                found = at
            at += {block}
        values[r] = best
        places[r] = found - base + place_of(x, best, found, min(found + {block}, last))
"""

_COLUMNS = """
def arg_columns(x, values, places, n, inner, width, start, stop):
    tiles = (inner + width - 1) // width
    for tile in range(start, stop):
        o = tile // tiles
        left = (tile - o * tiles) * width
        m = min(width, inner - left)
        row = o * n * inner + left
        to = o * inner + left
        for j in range(m):
            values[to + j] = x[row + j]
            places[to + j] = 0
        for k in range(1, n):
            row += inner
            for j in range(m):
                v = x[row + j]
                best = values[to + j]
                better = (v {sign} best) | ((v != v) & (best == best))
                values[to + j] = v if better else best
                places[to + j] = k if better else places[to + j]
"""

_SHORT = """
def arg_short(x, values, places, start, stop):
    for r in range(start, stop):
        at = r * {n}
        best = x[at]
        place = i8(0)
"""
_SHORT_STEP = """        v = x[at + {k}]
        better = (v {sign} best) | ((v != v) & (best == best))
        best = v if better else best
        place = i8({k}) if better else place
"""
_SHORT_END = """        values[r] = best
        places[r] = place
"""

_made: dict[tuple[str, bool, bool], Kernel] = {}
_SIGNS = {"max": ">", "min": "<"}


@once
def _short(which: str, n: int) -> Kernel:
    steps = [_SHORT_STEP.format(k=k, sign=_SIGNS[which]) for k in range(1, n)]
    text = _SHORT.format(n=n).lstrip() + "".join(steps) + _SHORT_END
    return from_text("arg_short", text, {"i8": np.int64}, **_FAST)


def _kernel(which: str, floating: bool, rows: bool) -> Kernel:
    found = _made.get((which, floating, rows))
    if found is None:
        sign = _SIGNS[which]
        pair = f"{which}imum(total, x[i])" if floating else f"x[i] if x[i] {sign} total else total"
        text = (_ROWS if rows else _COLUMNS).format(sign=sign, pair=pair, block=BLOCK).lstrip()
        namespace: dict[str, Any] = {"block": _block, "maximum": maximum, "minimum": minimum, "i4": np.int32}
        found = from_text("arg_rows" if rows else "arg_columns", text, namespace, **_FAST)
        _made[which, floating, rows] = found
    return found


def find(
    which: str, x: np.ndarray, values: np.ndarray, places: np.ndarray, sizes: tuple[int, int, int]
) -> None:
    """Fill flat ``values`` and int64 ``places`` with the "max" or "min" of x as (outer, n, inner), n > 0."""
    outer, n, inner = sizes
    if not values.size:
        return
    kernel = _kernel(which, x.dtype.kind == "f", inner == 1)
    if inner > 1:
        width = min(inner, TILE)
        launch.start(kernel, (x, values, places, n, inner, width), outer * -(-inner // width), x.size)
        return
    if is_short(x, outer, n):
        launch.start(_short(which, n), (x, values, places), outer, x.size)
        return
    chunk = n if n <= 2 * CHUNK else CHUNK
    chunks = -(-n // chunk)
    if chunks == 1:
        launch.start(kernel, (x, values, places, n, chunk), outer, x.size)
        return
    best, found = np.empty((outer, chunks), values.dtype), np.empty((outer, chunks), np.int64)
    launch.start(kernel, (x, best, found, n, chunk), outer * chunks, x.size)
    at = np.empty(outer, np.int64)  # in which chunk
    launch.start(kernel, (best, values, at, chunks, chunks), outer, best.size)
    launch.start(index.take_along, (found, at, places, chunks, 1, 1), outer, outer)
