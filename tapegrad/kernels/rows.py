"""One call of a kernel for many sets of arrays: all parameters of an optimizer's step.

A list holds, row by row, NumPy arrays: what one run of the kernel works on, and perhaps a counter. Machine
code reads the list and the arrays' own fields: whether every row is as kernels need it. It counts, and calls
the kernel row by row, on several threads if there is enough to do. Python pays for building the list only.
"""

from __future__ import annotations

from functools import cache as once
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core.typing import signature as typed
from numba.extending import intrinsic

from . import launch
from .jit import FLAGS, PLAIN, Kernel, from_text, kernel

# Bytes from an array object's start to its fields, which NumPy keeps stable for compiled extensions
# (PyArrayObject_fields).
_HEAD = object.__basicsize__
DATA, NDIM, SHAPE, DTYPE, FLAG = _HEAD, _HEAD + 8, _HEAD + 16, _HEAD + 40, _HEAD + 48
# And from a list object's start to the address of its items (PyListObject ends with that address and the
# space for items).
ITEMS = list.__basicsize__ - 16
_READ, _WRITE = 0x001 | 0x100, 0x001 | 0x100 | 0x400  # C-contiguous and aligned, and also writeable


def _loader(bits: int) -> Any:
    @intrinsic
    def load(typingctx, address, offset):
        """The whole number at an address."""

        def codegen(context, builder, sig, args):
            kind = ir.IntType(bits)
            pointer = builder.inttoptr(builder.add(args[0], args[1]), kind.as_pointer())
            value = builder.load(pointer)
            return value if bits == 64 else builder.sext(value, ir.IntType(64))

        return typed(types.int64, types.int64, types.int64), codegen

    return load


def _adder(kind: Any) -> Any:
    @intrinsic
    def add_one(typingctx, address):
        """Add one to the floating number at an address, and return the sum."""

        def codegen(context, builder, sig, args):
            pointer = builder.inttoptr(args[0], kind.as_pointer())
            value = builder.fadd(builder.load(pointer), ir.Constant(kind, 1.0))
            builder.store(value, pointer)
            return value if isinstance(kind, ir.DoubleType) else builder.fpext(value, ir.DoubleType())

        return typed(types.float64, types.int64), codegen

    return add_one


word, half_word = _loader(64), _loader(32)
add_one_single, add_one_double = _adder(ir.FloatType()), _adder(ir.DoubleType())


@kernel
def examine(items, offsets, verdict, width, columns, counted, dtype, single, double, start, stop):
    """The first row that a kernel cannot work on, or -1; and where each row's elements start in the count of all.

    Wanted: ``columns`` arrays of one shape and of ``dtype``, C-contiguous, all but the second writeable;
    then, if ``counted``, a 0-d array of one of two dtypes. The list and the types are given as addresses of
    their objects.
    """
    table = word(items, ITEMS)
    verdict[0] = -1
    offsets[start] = 0
    for r in range(start, stop):
        first = word(table, 8 * r * width)
        ndim, shape = half_word(first, NDIM), word(first, SHAPE)
        good = True
        for c in range(columns):
            this = word(table, 8 * (r * width + c))
            needed = _READ if c == 1 else _WRITE
            if (
                word(this, DTYPE) != dtype
                or half_word(this, NDIM) != ndim
                or half_word(this, FLAG) & needed != needed
            ):
                good = False
            else:
                sizes = word(this, SHAPE)
                for d in range(ndim):
                    if word(sizes, 8 * d) != word(shape, 8 * d):
                        good = False
        if counted:
            this = word(table, 8 * (r * width + columns))
            kind = word(this, DTYPE)
            if (
                half_word(this, NDIM) != 0
                or half_word(this, FLAG) & _WRITE != _WRITE
                or (kind != single and kind != double)
            ):
                good = False
        if not good:
            verdict[0] = r
            break
        size = 1
        for d in range(ndim):
            size *= word(shape, 8 * d)
        offsets[r + 1] = offsets[r] + size


@kernel
def count_up(items, counts, width, column, single, start, stop):
    """counts = (each row's counter += 1)."""
    table = word(items, ITEMS)
    for r in range(start, stop):
        this = word(table, 8 * (r * width + column))
        if word(this, DTYPE) == single:
            counts[r] = add_one_single(word(this, DATA))
        else:
            counts[r] = add_one_double(word(this, DATA))


@numba.njit(**FLAGS)
def _first_row(offsets, count, low):
    """The row that element ``low`` of all belongs to."""
    first, last = 0, count
    while first < last:
        middle = (first + last) // 2
        if word(offsets, 8 * (middle + 1)) <= low:
            first = middle + 1
        else:
            last = middle
    return first


@once
def _walker(columns: int, flags: int, parallel: bool) -> Kernel:
    """A loop over rows that calls a kernel of ``columns`` arrays, its numbers, and some flags, by its address."""
    extra = [f"f{j}" for j in range(flags)]
    given = [f"word(word(t, 8 * (r * width + {c})), {DATA})" for c in range(columns)]
    given += ["h + stride * word(i, 8 * r)", *extra]
    lines = [
        f"def walk({', '.join(['address, items, offsets, hyper, index, count, width, stride', *extra, 'total, parts'])}):",
        # Pointers cross into the parallel region as integers, which numba can pass to its threads.
        "    o, h, i = as_integer(offsets), as_integer(hyper), as_integer(index)",
        f"    t = word(items, {ITEMS})",
        "    for part in prange(parts):",
        "        low, high = total * part // parts, total * (part + 1) // parts",
        "        for r in range(first_row(o, count, low), count):",
        "            begin, end = word(o, 8 * r), word(o, 8 * (r + 1))",
        "            if begin >= high:",
        "                break",
        "            if begin < end:",
        f"                call(address, ({', '.join(given)},), max(low, begin) - begin, min(high, end) - begin)",
    ]
    scope = {
        "as_integer": launch.as_integer,
        "call": launch.call_address,
        "first_row": _first_row,
        "prange": numba.prange,
        "word": word,
    }
    return from_text("walk", "\n".join(lines) + "\n", scope, parallel=parallel)


_SINGLE, _DOUBLE = np.dtype(np.float32), np.dtype(np.float64)


class Rows:
    """``arrays``: row after row of ``columns`` arrays, the second only read, and a counter if ``counted``."""

    def __init__(self, arrays: list[np.ndarray], columns: int, counted: bool) -> None:
        self.arrays = arrays  # which keeps them alive
        self.columns = columns
        self.width = columns + counted
        self.count = len(arrays) // self.width
        self.dtype = arrays[0].dtype
        self.offsets = np.empty(self.count + 1, np.int64)

    def plain(self) -> bool:
        """Whether machine code can work on all rows: float32 or float64, contiguous, of equal shapes in a row."""
        if PLAIN or self.dtype.char not in "fd":
            return False
        dtype = _SINGLE if self.dtype.char == "f" else _DOUBLE
        verdict = np.empty(1, np.int64)
        kinds = (id(dtype), id(_SINGLE), id(_DOUBLE))
        shape = (self.width, self.columns, self.width - self.columns)
        examine(id(self.arrays), self.offsets, verdict, *shape, *kinds, 0, self.count)
        return bool(verdict[0] < 0)

    def count_up(self) -> np.ndarray:
        """Add one to the counters; the counts, float64."""
        counts = np.empty(self.count)
        count_up(id(self.arrays), counts, self.width, self.columns, id(_SINGLE), 0, self.count)
        return counts

    def run(self, of: Kernel, hyper: np.ndarray, index: np.ndarray, flags: tuple[int, ...]) -> None:
        """Run a kernel on every row; row r takes its numbers from ``hyper[index[r]]``."""
        char = self.dtype.char
        address = of.address((*char * (self.columns + 1), *("int",) * len(flags), "int", "int"))
        total = int(self.offsets[-1])
        chars = ("int", "int", "q", char, "q", "int", "int", "int", *("int",) * len(flags), "int", "int")
        args = (
            address,
            id(self.arrays),
            self.offsets,
            hyper,
            index,
            self.count,
            self.width,
            hyper.strides[0],
            *flags,
        )

        def walk(parts: int) -> None:
            _walker(self.columns, len(flags), parts > 1).entry(chars)(*args, total, parts)

        if total and not launch.in_region(total, walk):
            walk(1)
