"""The machine of the native tape: a loop that calls kernels by their addresses.

A program is a row of 64-bit words, instruction after instruction::

    trampoline, kernel, n, word 1, ..., word n

The trampoline knows of what kind each word is and calls the kernel with them: "i" a whole number, "f" the bits of a float64, "p" a
place in memory, "r" the number of a base that is itself the argument, "b" stands for the table of bases. A place has the number of a
*base* in its upper 16 bits and an offset in the lower 48; the bases are a table of addresses of its own for each run, so one
program serves any arguments and several threads at once. Base 0 is address 0: memory that stays where it is.

numba's calling convention for kernels is: two pointers for results and errors, which kernels never use, and the arguments.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from llvmlite import ir

from .. import locks
from .assembled import assembled
from .jit import PLAIN, Kernel, from_text
from .launch import as_integer, call_address
from .rows import word as address_word

SHIFT = 48
_I64, _I32, _F64 = ir.IntType(64), ir.IntType(32), ir.DoubleType()
_POINTER = ir.IntType(8).as_pointer()
_WORDS = _I64.as_pointer()
_JUMP = ir.FunctionType(ir.VoidType(), [_I64, _WORDS, _WORDS])

_trampolines: dict[str, int] = {}
_loop = 0


def word(base: int, offset: int) -> int:
    """A place in memory."""
    return (base << SHIFT) | offset


def trampolines(kinds: Iterable[str]) -> dict[str, int]:
    """Addresses of the functions that call kernels with words of the given kinds."""
    with locks.shared:
        missing = sorted(set(kinds) - _trampolines.keys())
        if missing:
            module = ir.Module("tapegrad_trampolines")
            for kind in missing:
                _trampoline(module, kind)
            engine = assembled(module)
            for kind in missing:
                _trampolines[kind] = engine.get_function_address(f"call_{kind}")
    return _trampolines


def loop() -> int:
    """Address of the loop over instructions, in numba's calling convention: (code, bases, start, stop)."""
    global _loop
    with locks.shared:
        if not _loop:
            module = ir.Module("tapegrad_loop")
            _run(module)
            _loop = assembled(module).get_function_address("run")
    return _loop


def _trampoline(module: ir.Module, kinds: str) -> None:
    function = ir.Function(module, _JUMP, f"call_{kinds}")
    kernel, words, bases = function.args
    b = ir.IRBuilder(function.append_basic_block())
    slot = b.bitcast(b.alloca(_POINTER), _POINTER)
    types, given = [_POINTER, _POINTER], [slot, slot]
    for j, kind in enumerate(kinds):
        value = b.load(b.gep(words, [ir.Constant(_I64, j)]))
        if kind == "p":
            base = b.load(b.gep(bases, [b.lshr(value, ir.Constant(_I64, SHIFT))]))
            offset = b.and_(value, ir.Constant(_I64, (1 << SHIFT) - 1))
            value = b.inttoptr(b.add(base, offset), _POINTER)
        elif kind == "r":
            value = b.load(b.gep(bases, [value]))
        elif kind == "b":
            value = b.ptrtoint(bases, _I64)
        elif kind == "f":
            value = b.bitcast(value, _F64)
        types.append(value.type)
        given.append(value)
    target = ir.FunctionType(_I32, types).as_pointer()
    b.call(b.inttoptr(kernel, target), given)
    b.ret_void()


def _run(module: ir.Module) -> None:
    kind = ir.FunctionType(_I32, [_POINTER, _POINTER, _WORDS, _WORDS, _I64, _I64])
    function = ir.Function(module, kind, "run")
    _, _, code, bases, start, stop = function.args
    entry, body, end = (function.append_basic_block(n) for n in ("entry", "body", "end"))
    b = ir.IRBuilder(entry)
    b.cbranch(b.icmp_signed("<", start, stop), body, end)
    b.position_at_end(body)
    at, number = b.phi(_WORDS), b.phi(_I64)
    trampoline, kernel, count = (b.load(b.gep(at, [ir.Constant(_I64, j)])) for j in range(3))
    words = b.gep(at, [ir.Constant(_I64, 3)])
    b.call(b.inttoptr(trampoline, _JUMP.as_pointer()), [kernel, words, bases])
    following, after = b.add(number, ir.Constant(_I64, 1)), b.gep(words, [count])
    at.add_incoming(code, entry)
    at.add_incoming(after, body)
    number.add_incoming(start, entry)
    number.add_incoming(following, body)
    b.cbranch(b.icmp_signed("<", following, stop), body, end)
    b.position_at_end(end)
    b.ret(ir.Constant(_I32, 0))


# -- entering it from Python ---------------------------------------------------------------------------


def _entry_text(count: int) -> str:
    arrays = [f"a{j}" for j in range(count)]
    lines = [f"def enter({', '.join(['loop', 'code', 'bases', 'first', *arrays, 'start', 'stop'])}):"]
    lines += [f"    bases[first + {j}] = as_integer(a{j})" for j in range(count)]
    lines += ["    if stop > start:", "        call_address(loop, (code, bases), start, stop)"]
    return "\n".join(lines) + "\n"


def enter(count: int) -> Any:
    """The C function that puts the addresses of ``count`` arrays into a table and runs a program.

    ``(loop, code, bases, first, array, ..., start, stop)``: they become the bases from ``first`` on. The GIL is released.
    """
    made: Kernel = from_text(
        "enter", _entry_text(count), {"as_integer": as_integer, "call_address": call_address}
    )
    return made.entry(("int", "l", "l", "int", *["B"] * count, "int", "int"))


_REPEAT = """\
def repeat(loop, code, count, bases, moving, strides, n, flag, done, start, stop):
    t = start
    while t < stop and flag[0] != 0:
        call_address(loop, (code, bases), 0, count)
        for j in range(n):
            bases[moving[j]] += strides[j]
        t += 1
    done[0] = t
"""


def repeat() -> Any:
    """The C function that runs a program again and again, moving some bases by strides after each time.

    ``(loop, code, instructions, bases, moving, strides, how many, flag, done, start, stop)``: it stops where the flag, one
    byte that the program may write, is 0; ``done`` becomes the number of the step that would be next.
    """
    made: Kernel = from_text("repeat", _REPEAT, {"call_address": call_address})
    return made.entry(("int", "l", "int", "l", "l", "l", "int", "B", "l", "int", "int"))


_BAND = """\
def band(outer, code, table, scratch, loop, start, stop):
    # table: bases, moved, steps, room, blocks, units, then (place, advance) of what moves and (unit, count) of each step
    bases, moved, steps, blocks, units = table[0], table[1], table[2], table[4], table[5]
    own = start * (table[3] // 8)
    for j in range(bases):
        scratch[own + j] = word(outer, 8 * j)
    own += bases
    address = as_integer(scratch) + 8 * (own - bases)
    for block in range(blocks * start // units, blocks * stop // units):
        at = 6
        for j in range(moved):
            scratch[own + j] = address + table[at] - block * table[at + 1]
            at += 2
        for j in range(steps):
            scratch[own + moved + 2 * j] = block * table[at]
            scratch[own + moved + 2 * j + 1] = min((block + 1) * table[at], table[at + 1])
            at += 2
        call_address(loop, (code, address), 0, steps)
"""
BAND = ("bases", "l", "l", "l", "int", "int", "int")


def band() -> Kernel:
    """The kernel that runs several steps block by block: see native/lower.py. Its range counts units of blocks."""
    scope = {"as_integer": as_integer, "call_address": call_address, "word": address_word}
    return from_text("band", _BAND, scope)


def plain() -> bool:
    """Whether kernels are plain Python, which has no addresses: programs are interpreted then."""
    return PLAIN


def float_bits(value: float) -> int:
    """A float64 as a word."""
    return int(np.float64(value).view(np.int64))
