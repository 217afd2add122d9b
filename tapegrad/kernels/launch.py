"""Serial or parallel: the one place that starts threads.

A kernel works on a range; the launcher runs it whole, or splits the range over numba's threads.
Kernels never look at the number of threads, so results do not depend on it.

Two situations make a parallel region unsafe, and both run serially instead: a child process
made by fork after threads were started (they do not exist in the child), and a second Python thread
that arrives while the first is inside a parallel region (not every threading layer of numba
allows that). Where other programs take the cores, it is of no use, and kernels run serially for a while (retreat.py).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from functools import cache as once
from typing import Any

import numba
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.typing import signature as typed
from numba.extending import intrinsic

from .. import config
from .jit import PLAIN, Kernel, from_text, signature
from .recording import active, here
from .retreat import retreat

_region = threading.Lock()
_home: int | None = None  # the process in which numba's threads live, once they were started


def run(kernel: Kernel, chars: tuple[str, ...], args: Sequence[Any], count: int, work: int) -> None:
    """Run a kernel over ``range(count)``; ``work`` is its total size in elements."""
    if active and here.recorder is not None:
        here.recorder.call(kernel, chars, args, 0, count, work)
    large = work >= config.grain and count > 1
    if not (large and in_region(work, lambda parts: _parallel(kernel, chars, args, count, parts))):
        kernel.entry(chars)(*args, 0, count)


def in_region(work: int, region: Callable[[int], None]) -> bool:
    """Run ``region(parts)``, which uses several threads, if the work is worth it and it is safe; else False."""
    if work < config.grain or config.threads <= 1 or PLAIN or not _region.acquire(blocking=False):
        return False
    try:
        if not _ready():
            return False
        if not retreat.possible():
            return False
        region(config.threads)
        retreat.consider()
    finally:
        _region.release()
    return True


def start(kernel: Kernel, args: tuple[Any, ...], count: int, work: int) -> None:
    """Like :func:`run`, with the signature taken from the arguments."""
    if count:
        run(kernel, (*signature(args), "int", "int"), args, count, work)


def _ready() -> bool:
    """Whether this process has numba's threads; sets how many of them work."""
    global _home
    if _home is None:
        _home = os.getpid()
        _start_threads()
    elif _home != os.getpid():
        return False
    limit = min(config.threads, numba.config.NUMBA_NUM_THREADS)
    if numba.get_num_threads() != limit:
        numba.set_num_threads(limit)
    return True


def _start_threads() -> None:
    """Start numba's threads so that they sleep after a while of waiting.

    The OpenMP library of GCC lets them spin for milliseconds, at every start and end of a parallel loop. On cores
    that have other work as well, that is the time which the awaited thread needs: a training step
    becomes a hundred times slower. To be woken takes a thread some 50 us, though, so they wait for about twice as long; where
    that is too long, retreat.py helps. The library reads its setting once, when it is loaded, which happens here.
    """
    if "GOMP_SPINCOUNT" in os.environ or "OMP_WAIT_POLICY" in os.environ:
        numba.get_num_threads()
        return
    os.environ["GOMP_SPINCOUNT"] = "10000"
    try:
        numba.get_num_threads()
    finally:
        del os.environ["GOMP_SPINCOUNT"]


def _parallel(kernel: Kernel, chars: tuple[str, ...], args: Sequence[Any], count: int, parts: int) -> None:
    kinds = tuple("p" if c not in ("int", "float") else c[0] for c in chars[:-2])
    entry = _launcher(kinds)
    entry(kernel.address(chars), *args, count, min(parts, count))


def launcher(kinds: str) -> tuple[int, str]:
    """Address and kinds of arguments of the parallel loop over kernels of some kinds: kernel, arguments, count, parts."""
    signature = ("int", *(_CHARS[k] for k in kinds), "int", "int")
    made = _launch_kernel(tuple(kinds))
    # Its last two numbers stand where those of a kernel do, so its kinds are those of all but two, and two more.
    return made.address(signature), f"i{kinds}ii"


_CHARS = {"p": "B", "i": "int", "f": "float", "b": "bases"}


@once
def _launcher(kinds: tuple[str, ...]) -> Any:
    made = _launch_kernel(kinds)
    return made.entry(("int", *(_CHARS[k] for k in kinds), "int", "int"))


@once
def _launch_kernel(kinds: tuple[str, ...]) -> Kernel:
    """A parallel loop that calls a kernel by its address, for one kind of argument list."""
    names = [f"a{j}" for j in range(len(kinds))]
    given = [f"w{j}" if k == "p" else f"a{j}" for j, k in enumerate(kinds)]
    lines = [f"def launch({', '.join(['address', *names, 'count', 'parts'])}):"]
    # Pointers cross into the parallel region as integers, which numba can pass to its threads.
    lines += [f"    w{j} = as_integer(a{j})" for j, k in enumerate(kinds) if k == "p"]
    call = f"call(address, {_tuple(given)}, count * part // parts, count * (part + 1) // parts)"
    lines += ["    for part in prange(parts):", f"        {call}"]
    scope = {"as_integer": as_integer, "call": call_address, "prange": numba.prange}
    return from_text("launch", "\n".join(lines) + "\n", scope, parallel=True)


def _tuple(items: list[str]) -> str:
    return f"({', '.join(items)},)"


@intrinsic
def as_integer(typingctx, pointer):
    """The address held by a data pointer."""

    def codegen(context, builder, sig, args):
        return builder.ptrtoint(args[0], ir.IntType(64))

    return typed(types.int64, pointer), codegen


@intrinsic
def call_address(typingctx, address, args, start, stop):
    """Call compiled code by its address: numba passes (result, exception, arguments)."""

    def codegen(context, builder, sig, values):
        pointer = ir.IntType(8).as_pointer()
        words = [pointer, pointer]
        given = [cgutils.get_null_value(pointer), cgutils.get_null_value(pointer)]
        # Neither result nor exception is ever written: kernels return nothing and cannot raise.
        slot = cgutils.alloca_once(builder, pointer)
        given = [builder.bitcast(slot, pointer), builder.bitcast(slot, pointer)]
        for j, kind in enumerate(sig.args[1].types):
            value = builder.extract_value(values[1], j)
            words.append(context.get_value_type(kind))
            given.append(value)
        for bound in values[2:]:
            words.append(ir.IntType(64))
            given.append(bound)
        function = ir.FunctionType(ir.IntType(32), words).as_pointer()
        builder.call(builder.inttoptr(values[0], function), given)
        return context.get_dummy_value()

    return typed(types.none, address, args, types.int64, types.int64), codegen
