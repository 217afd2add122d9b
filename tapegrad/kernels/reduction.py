"""From a formula for one number to a compiled reduction of its values.

A :class:`Reduction` is ``out[o, j] = sum over k of formula(x[o, k, j])`` (or the largest or smallest
of them) over contiguous (outer, n, inner) arrays. For each combination of element types it emits
source text and compiles it, as loop.py does for elementwise operations. The sum of squares of float32 rows::

    @block
    def squares_rows_block(x, o, first, last):
        total = f4(0)
        for i in range(first, last):
            x0 = x[i]
            t0 = x0 * x0
            total = total + t0
        return total

Sums are taken in blocks: within a block in the type of the computation, with as many partial sums as
the machine has vector lanes, across blocks in float64. Blocks and chunks are cut by the sizes alone,
so the result does not depend on the number of threads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from . import launch
from .arrays import contiguous, copy
from .formula import TYPE_NAMES, TYPES, Emitter, Scalar
from .jit import FLAGS, Kernel, fast, from_text
from .loop import device_functions
from .parts import WIDTH, fold
from .scalar_bits import maximum, minimum

BLOCK = 1024  # of a row, summed with reordering allowed: 16 terms per lane where there are 64 lanes
CHUNK = 65_536  # elements that are one unit of work for one thread
ROW_CHUNK = 16_384  # of a long row: as much as fits beside what it is computed from into a second cache (native/passes/bands.py)
TILE = 512  # columns of a unit of work that takes all rows
UNROLL = 8  # rows that are combined before they meet the sums
_COLUMN_SIZES = "n, inner, step, chunk, width, start, stop"
SHORT = 8  # rows of no more elements are worked on side by side, as many as a vector has lanes: see is_short
MANY = 4096  # rows that are worth a kernel for their very length
_NARROW = 32  # with up to this many columns, neighbouring rows are laid side by side

# Which zero is the larger one is left open: with -0 < 0 the comparison takes twice the time.
_FLAGS = {
    "add": {"contract", "reassoc"},
    "mul": {"contract", "reassoc"},
    "max": {"contract", "nsz"},
    "min": {"contract", "nsz"},
}
# Sums and products start from a neutral element and go on in float64 (whole numbers in int64, where they wrap around);
# extrema start from the first element.
_SYMBOLS = {"add": "+", "mul": "*"}
_NEUTRAL = {"add": 0, "mul": 1}
_BLOCKS = {combine: fast(*flags) for combine, flags in _FLAGS.items()}


def is_short(x: np.ndarray, rows: int, n: int) -> bool:
    """Whether rows of n elements have a kernel for their very length, whose loop over rows works on vectors."""
    # LLVM has no shuffles for eight rows of eight words, and would fetch them one by one.
    return rows >= MANY and n <= (SHORT if x.itemsize < 8 else SHORT - 1)


class Reduction:
    """A reduction with a formula that is applied to every element first.

    ``formula(*scalars)`` receives one Scalar per array, per *kept* array (one number per result, such
    as the mean that is subtracted) and per number, and returns one. ``combine`` is "add", "mul", "max" or
    "min".
    """

    def __init__(
        self,
        name: str,
        formula: Callable[..., Any] = lambda x: x,
        arrays: tuple[str, ...] = ("x",),
        kept: tuple[str, ...] = (),
        numbers: tuple[str, ...] = (),
        combine: str = "add",
    ) -> None:
        self.name = name
        self.formula = formula
        self.arrays = arrays
        self.kept = kept
        self.numbers = numbers
        self.combine = combine
        self.folds = combine in _SYMBOLS
        self.place = ""  # its name in reduce.py
        self._kernels: dict[tuple[str, str, str], tuple[Kernel, tuple[str, ...]]] = {}
        self._small: dict[tuple[bool, str, str], Callable[..., None]] = {}

    def kernel(self, shape: str, compute: str, chars: str) -> tuple[Kernel, tuple[str, ...]]:
        """The kernel for "rows", "columns" or rows of "1" to "8" elements and types of (arrays, kept ones, out), and its signature."""
        found = self._kernels.get((shape, compute, chars))
        if found is None:
            text, calls = self.source(shape, compute, chars)
            namespace: dict[str, Any] = {**TYPES, "INF": float("inf"), "NAN": float("nan")}
            namespace.update(block=_BLOCKS[self.combine], maximum=maximum, minimum=minimum)
            if calls:
                namespace.update(device_functions(calls))
            fastmath = FLAGS["fastmath"] if self.folds else _FLAGS[self.combine]
            made = from_text(f"{self.name}_{shape}", text, namespace, fastmath=fastmath)
            made.origin = (self.place, shape, compute, chars) if self.place else None
            made.rows = (*self.arrays, *self.kept, "out") if shape != "columns" else ()
            sizes = {"rows": 2, "columns": 5}.get(shape, 0)
            number = "float" if compute in "fd" else "int"
            signature = (*chars, *[number] * len(self.numbers), *["int"] * (sizes + 2))
            found = self._kernels[shape, compute, chars] = (made, signature)
        return found

    def flat(self, char: str) -> Callable[..., None]:
        """The C function (x, out, n, n, 0, 1) for one short row of one array."""
        made, signature = self.kernel("rows", char, char + char)
        return made.entry(signature)

    def run(
        self,
        arrays: Sequence[np.ndarray],
        out: np.ndarray,
        sizes: tuple[int, int, int],
        kept: Sequence[np.ndarray] = (),
        numbers: Sequence[float] = (),
        compute: str | None = None,
    ) -> None:
        """Fill ``out`` (outer * inner elements) from contiguous (outer, n, inner) arrays, n > 0."""
        outer, n, inner = sizes
        if not out.size:
            return
        compute = compute or self.type_for(arrays[0].dtype.char)
        given = [float(v) if compute in "fd" else int(v) for v in numbers]
        if inner == 1:
            self._rows(arrays, out, outer, n, kept, given, compute)
        else:
            self._columns(arrays, out, sizes, kept, given, compute)

    def small(
        self, x: np.ndarray, out: np.ndarray, sizes: tuple[int, int, int], numbers: Sequence[float] = ()
    ) -> None:
        """run() for one contiguous array that is not worth threads."""
        outer, n, inner = sizes
        if not out.size:
            return
        key = (inner == 1, x.dtype.char, out.dtype.char)
        entry = self._small.get(key)
        if entry is None:
            compute = self.type_for(x.dtype.char)
            wide = self.wide(compute).char if inner > 1 and self.folds else ""
            chars = x.dtype.char + wide + out.dtype.char
            made, signature = self.kernel("rows" if inner == 1 else "columns", compute, chars)
            entry = self._small[key] = made.entry(signature)
        if inner == 1:
            entry(x, out, *numbers, n, n, 0, outer)
        elif self.folds:
            parts = np.empty(out.size, self.wide(x.dtype.char))
            entry(x, parts, out, *numbers, n, inner, n * inner, n, inner, 0, outer)
        else:
            entry(x, out, *numbers, n, inner, n * inner, n, inner, 0, outer)

    def _rows(
        self, arrays: Any, out: Any, outer: int, n: int, kept: Any, given: list[Any], compute: str
    ) -> None:
        if is_short(arrays[0], outer, n):
            self._launch(str(n), compute, [*arrays, *kept, out], given, outer, outer * n)
            return
        chunk = n if n <= 2 * ROW_CHUNK else ROW_CHUNK
        chunks = -(-n // chunk)
        to = out if chunks == 1 else np.empty((outer, chunks), self.wide(compute))
        self._launch("rows", compute, [*arrays, *kept, to], [*given, n, chunk], outer * chunks, outer * n)
        if to is not out:
            self._fold(to, out)

    def _columns(
        self, arrays: Any, out: Any, sizes: tuple[int, int, int], kept: Any, given: list[Any], compute: str
    ) -> None:
        _, n, inner = sizes
        if inner <= _NARROW and n * inner >= 16 * WIDTH and not kept:
            self._folded(arrays, out, sizes, WIDTH // inner, given, compute)
        else:
            self._tiled(arrays, out, sizes, n * inner, kept, given, compute)

    def _tiled(
        self,
        arrays: Any,
        out: Any,
        sizes: tuple[int, int, int],
        step: int,
        kept: Any,
        given: list[Any],
        compute: str,
    ) -> None:
        """Columns, by tiles side by side and chunks below each other; ``step`` elements per outer index."""
        outer, n, inner = sizes
        width = min(WIDTH, inner)
        chunk = max(2 * CHUNK // width, UNROLL)
        chunk = n if n <= 2 * chunk else chunk
        chunks = -(-n // chunk)
        width = width if outer * chunks > 1 else min(TILE, inner)
        tiles = outer * chunks * -(-inner // width)
        parts = np.empty((outer, chunks, inner), self.wide(compute)) if self.folds or chunks > 1 else out
        to = out if chunks == 1 else parts
        results = [parts, to] if self.folds else [to]
        numbers = [*given, n, inner, step, chunk, width]
        self._launch("columns", compute, [*arrays, *kept, *results], numbers, tiles, outer * n * inner)
        if to is not out:
            self._fold(parts, out.reshape(outer, inner))

    def _folded(
        self, arrays: Any, out: Any, sizes: tuple[int, int, int], fold: int, given: list[Any], compute: str
    ) -> None:
        """Few columns: ``fold`` rows at a time are seen as one; its parts are combined at the end."""
        outer, n, inner = sizes
        rows, left = divmod(n, fold)
        wide = self.wide(compute)
        parts = np.empty((outer, fold + (1 if left else 0), inner), wide)
        body = np.empty((outer, fold * inner), wide)
        self._tiled(arrays, body, (outer, rows, fold * inner), n * inner, (), given, compute)
        copy(parts[:, :fold], body.reshape(outer, fold, inner))
        if left:
            tails = [contiguous(a.reshape(outer, n, inner)[:, n - left :]) for a in arrays]
            tail = np.empty((outer, inner), wide)
            self._tiled(tails, tail, (outer, left, inner), left * inner, (), given, compute)
            copy(parts[:, fold], tail)
        self._fold(parts, out.reshape(outer, inner))

    def _launch(
        self, shape: str, compute: str, arrays: list[Any], numbers: list[Any], count: int, work: int
    ) -> None:
        made, signature = self.kernel(shape, compute, "".join([a.dtype.char for a in arrays]))
        launch.run(made, signature, [*arrays, *numbers], count, work)

    def type_for(self, char: str) -> str:
        """The type of the computation for elements of a type: whole numbers are added and multiplied in int64."""
        return "l" if self.folds and char not in "fd" else char

    def wide(self, compute: str) -> np.dtype:
        """The type of partial results."""
        return np.dtype(compute if not self.folds else "d" if compute in "fd" else "l")

    def _fold(self, parts: np.ndarray, out: np.ndarray) -> None:
        """Partial results along the second dimension, combined."""
        outer, count = parts.shape[:2]
        fold(self.combine, parts, out, (outer, count, parts.size // (outer * count)))

    # -- emitting -----------------------------------------------------------------------------

    def source(self, shape: str, compute: str, chars: str) -> tuple[str, set[str]]:
        """Source text of a kernel and the device functions it calls."""
        emitter = Emitter()
        head = [f"k{j} = {TYPE_NAMES[compute]}({n})" for j, n in enumerate(self.numbers)]
        if shape == "columns":
            text = self._columns_text(emitter, head, compute, chars)
        elif shape == "rows":
            text = self._rows_text(emitter, head, compute, chars)
        else:
            text = self._short_text(emitter, head, compute, chars, int(shape))
        return f"# {', '.join(sorted(_FLAGS[self.combine]))}\n{text}", emitter.calls

    def _body(
        self, emitter: Emitter, compute: str, chars: str, at: list[str], kept: str
    ) -> tuple[list[str], list[str]]:
        """Loads and arithmetic for the elements at the given indices, and the names of the results."""
        loads: list[str] = []
        results: list[str] = []
        before = len(emitter.lines)
        for u, index in enumerate(at):
            scalars = []
            for j, name in enumerate((*self.arrays, *self.kept)):
                is_kept = j >= len(self.arrays)
                text = f"{name}[{kept if is_kept else index}]"
                label = f"x{j}" if is_kept or len(at) == 1 else f"x{j}_{u}"
                if chars[j] != compute:
                    text = f"{TYPE_NAMES[compute]}({text})"
                if f"{label} = {text}" not in loads:
                    loads.append(f"{label} = {text}")
                scalars.append(Scalar(emitter, label, compute))
            scalars += [Scalar(emitter, f"k{j}", compute) for j in range(len(self.numbers))]
            results.append(emitter.operand(self.formula(*scalars), compute))
        return [*loads, *emitter.lines[before:]], results

    def _pair(self, a: str, b: str, compute: str) -> str:
        if self.folds:
            return f"({a} {_SYMBOLS[self.combine]} {b})"
        if compute in "fd":
            return f"{self.combine}imum({a}, {b})"
        return f"({a} if {a} {'>' if self.combine == 'max' else '<'} {b} else {b})"

    def _rows_text(self, emitter: Emitter, head: list[str], compute: str, chars: str) -> str:
        name = f"{self.name}_rows"
        inputs = ", ".join([*self.arrays, *self.kept])
        numbers = "".join(f"{n}, " for n in self.numbers)
        lines = ["@block", f"def {name}_block({inputs}, {numbers}o, first, last):"]
        lines += ["    " + h for h in head]
        lines += (self._fold_text if self.folds else self._extremum_text)(emitter, compute, chars)
        lines += ["    return total", "", f"def {name}({inputs}, out, {numbers}n, chunk, start, stop):"]
        # Counted on, since a division takes as long as a short row.
        lines += [
            "    chunks = (n + chunk - 1) // chunk",
            "    o = start // chunks",
            "    c = start - o * chunks",
        ]
        lines += [
            "    for r in range(start, stop):",
            "        at = o * n + c * chunk",
            "        last = min(at + chunk, (o + 1) * n)",
        ]
        wide = TYPE_NAMES[self.wide(compute).char]
        part = f"{name}_block({inputs}, {numbers}o, at, min(at + {BLOCK}, last))"
        lines += [
            f"        total = {f'{wide}({part})' if self.folds else part}",
            f"        at += {BLOCK}",
            "        while at < last:",
        ]
        if self.folds:
            lines += [f"            total = total {_SYMBOLS[self.combine]} {wide}({part})"]
        else:
            lines += [
                f"            part = {part}",
                f"            total = {self._pair('total', 'part', compute)}",
            ]
        lines += [f"            at += {BLOCK}", "        out[r] = total"]
        lines += ["        c += 1", "        if c == chunks:", "            c = 0", "            o += 1"]
        return "\n".join(lines) + "\n"

    def _short_text(self, emitter: Emitter, head: list[str], compute: str, chars: str, n: int) -> str:
        """Rows of a known length: the loop over rows is the one that works on vectors."""
        inputs = ", ".join([*self.arrays, *self.kept, "out", *self.numbers])
        body, results = self._body(emitter, compute, chars, [f"at + {k}" for k in range(n)], "r")
        lines = [f"def {self.name}_{n}({inputs}, start, stop):", *("    " + h for h in head)]
        lines += [
            "    for r in range(start, stop):",
            f"        at = r * {n}",
            *("        " + b for b in body),
        ]
        return "\n".join([*lines, f"        out[r] = {self._combined(results, compute)}"]) + "\n"

    def _combined(self, results: list[str], compute: str) -> str:
        """All of them in pairs, and pairs of pairs."""
        while len(results) > 1:
            pairs = zip(results[::2], results[1::2], strict=False)
            odd = results[-1:] if len(results) % 2 else []
            results = [self._pair(a, b, compute) for a, b in pairs] + odd
        return results[0]

    def _fold_text(self, emitter: Emitter, compute: str, chars: str) -> list[str]:
        body, (result,) = self._body(emitter, compute, chars, ["i"], "o")
        lines = [
            f"    total = {TYPE_NAMES[compute]}({_NEUTRAL[self.combine]})",
            "    for i in range(first, last):",
        ]
        return [
            *lines,
            *("        " + b for b in body),
            f"        total = total {_SYMBOLS[self.combine]} {result}",
        ]

    def _extremum_text(self, emitter: Emitter, compute: str, chars: str) -> list[str]:
        body, (result,) = self._body(emitter, compute, chars, ["i"], "o")
        lines = ["    i = first", *("    " + b for b in body), f"    total = {result}"]
        # Again the first, or vectors would begin one element behind where cache lines do.
        lines += ["    for i in range(first, last):", *("        " + b for b in body)]
        return [*lines, f"        total = {self._pair('total', result, compute)}"]

    def _columns_text(self, emitter: Emitter, head: list[str], compute: str, chars: str) -> str:
        inputs = ", ".join([*self.arrays, *self.kept])
        numbers = "".join(f"{n}, " for n in self.numbers)
        results = "parts, out" if self.folds else "out"
        lines = [f"def {self.name}_columns({inputs}, {results}, {numbers}{_COLUMN_SIZES}):"]
        lines += ["    " + h for h in head]
        lines += ["    tiles = (inner + width - 1) // width", "    chunks = (n + chunk - 1) // chunk"]
        lines += [
            "    for tile in range(start, stop):",
            "        r = tile // tiles",
            "        o = r // chunks",
        ]
        lines += ["        left = (tile - r * tiles) * width", "        m = min(width, inner - left)"]
        lines += ["        k = (r - o * chunks) * chunk", "        last = min(k + chunk, n)"]
        lines += ["        to = r * inner + left"]
        if self.kept:
            lines += ["        kept = o * inner + left"]
        if self.folds:
            lines += ["        for j in range(m):", f"            parts[to + j] = {_NEUTRAL[self.combine]}"]
        else:
            body, (result,) = self._body(emitter, compute, chars, ["row + j"], "kept + j")
            lines += [
                "        row = o * step + k * inner + left",
                "        k += 1",
                "        for j in range(m):",
            ]
            lines += [*("            " + b for b in body), f"            out[to + j] = {result}"]
        for count in (UNROLL, 1):
            lines += [f"        while k + {count} <= last:", "            row = o * step + k * inner + left"]
            lines += [f"            k += {count}", "            for j in range(m):"]
            lines += ["                " + b for b in self._rows_together(emitter, compute, chars, count)]
        if self.folds:
            lines += ["        for j in range(m):", "            out[to + j] = parts[to + j]"]
        return "\n".join(lines) + "\n"

    def _rows_together(self, emitter: Emitter, compute: str, chars: str, count: int) -> list[str]:
        """One column of ``count`` neighbouring rows, combined and added to what was there."""
        own = Emitter()  # names of one loop are not set in another
        at = ["row + j" if not u else f"row + {u} * inner + j" for u in range(count)]
        body, results = self._body(own, compute, chars, at, "kept + j")
        emitter.calls |= own.calls
        total = self._combined(results, compute)
        if self.folds:
            wide = TYPE_NAMES[self.wide(compute).char]
            return [*body, f"parts[to + j] = parts[to + j] {_SYMBOLS[self.combine]} {wide}({total})"]
        return [*body, f"part = {total}", f"out[to + j] = {self._pair('out[to + j]', 'part', compute)}"]
