"""The house decorators: how a Python function becomes machine code.

A *device* function works on single numbers and is inlined into what calls it. A *kernel*
receives arrays as bare data pointers, then numbers, and as its last two numbers the range
``start, stop`` that it shall work on; it fills its output arrays and returns nothing.

Pointers instead of numba's array structures: a call from Python costs 0.1 us instead of 0.2,
one compiled kernel serves every number of dimensions, and its address can be called with
nothing but machine words. What an array structure would have checked (dtype, contiguity or
explicit strides, size) is checked by the callers.

With ``NUMBA_DISABLE_JIT=1`` every kernel runs as plain Python over flat NumPy views.
"""

from __future__ import annotations

import hashlib
import linecache
import re
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from numba import types
from numba.core import cgutils
from numba.core.datamodel import models, register_default
from numba.extending import NativeValue, unbox

from .. import locks
from . import cache
from .loading import loaded
from .recording import Live, active, here

# contract lets a*b+c become one fused instruction. arcp would make division inexact, nsz would
# lose the sign of zero, and nnan and ninf would break the propagation of NaN and infinity.
FLAGS: dict[str, Any] = {"fastmath": {"contract"}, "error_model": "numpy", "boundscheck": False}
PLAIN = bool(numba.config.DISABLE_JIT)
# Compiling is rare and numba's compiler is not made for many threads at once.
_compiling = locks.shared


class Data(types.CPointer):
    """The data pointer of a NumPy array, taken from the array object itself."""


register_default(Data)(models.PointerModel)


@unbox(Data)
def _data_pointer(typ, obj, c):
    # A NumPy array object starts with its reference count and its type; the third word is the
    # address of its first element. NumPy keeps this layout stable for compiled extensions.
    words = c.builder.bitcast(obj, c.context.get_value_type(typ).as_pointer())
    return NativeValue(c.builder.load(cgutils.gep_inbounds(c.builder, words, 2)))


TYPES: dict[str, types.Type] = {
    **{char: Data(numba.from_dtype(np.dtype(char))) for char in "bhilqBHILQfd"},
    "?": Data(types.uint8),  # numba cannot store its one-bit bool behind a pointer
    "int": types.int64,
    "bases": types.int64,  # the address of a program's table: see machine.py
    "float": types.float64,
}


def device(fn: Callable[..., Any]) -> Any:
    """Compile a function of numbers that kernels call; always inlined, or the loop around it stays scalar."""
    return fast("contract")(fn)


def fast(*flags: str) -> Callable[[Callable[..., Any]], Any]:
    """:func:`device` with other freedoms for floating numbers than contraction."""
    # Kernels alone call it: without the wrappers for Python and C it compiles in two thirds of the time.
    alone = {"forceinline": True, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    return numba.njit(**{**FLAGS, **alone, "fastmath": set(flags)})  # type: ignore[no-any-return]


# The kernels that were written, not generated, of the modules that are loaded.
library: dict[str, Kernel] = {}


class Kernel:
    """A function over data pointers and numbers, compiled once per combination of dtypes.

    ``label`` names the function for good: its module and name, or its name and a hash of its text. ``writes``
    names the arrays that it writes, where its text does not show it (see access.py). ``rows`` names arrays of which item i of
    the range touches the i-th of as many equal parts only: steps over the same rows can take turns (native/passes/bands.py).
    """

    def __init__(
        self,
        fn: Callable[..., None],
        label: str,
        generated: bool = False,
        writes: tuple[str, ...] | None = None,
        rows: tuple[str, ...] = (),
        **flags: Any,
    ) -> None:
        self.fn = fn
        self.writes = writes
        self.rows = rows
        self.origin: Any = None  # where the library has a generated kernel: see native/export.py
        self.label = label
        # numba names machine code by the function's qualified name and a count that starts anew in every process. Two
        # kernels of one name that different processes compiled would be taken for one another where both are loaded.
        fn.__qualname__ = re.sub(r"\W", "_", label)
        self.generated = generated
        if not generated:
            library[label] = self
        self.__doc__ = fn.__doc__
        self.flags = {**FLAGS, "nogil": True, **flags}
        self.entries: dict[tuple[str, ...], Callable[..., None]] = {}
        self.made: dict[tuple[str, ...], Any] = {}
        self.addresses: dict[tuple[str, ...], int] = {}

    def __call__(self, *args: Any) -> None:
        chars = signature(args)
        if active and here.recorder is not None:
            *given, start, stop = args
            here.recorder.call(self, chars, given, start, stop, 0)
        (self.entries.get(chars) or self.entry(chars))(*args)

    def entry(self, chars: tuple[str, ...]) -> Callable[..., None]:
        """The C function for one signature; it takes Python objects and checks nothing."""
        found = self.entries.get(chars)
        if found is None:
            with _compiling:
                found = self.entries.get(chars) or self._compile(chars)
        return found

    def _compile(self, chars: tuple[str, ...]) -> Callable[..., None]:
        if PLAIN:
            entry = _plain(self.fn)
        else:
            label = f"{self.label}-{'.'.join(chars).replace('?', 'b1')}"
            made = cache.load(label, self.generated)
            if made is None:
                signature = tuple(TYPES[c] for c in chars)
                dispatcher = numba.njit(no_cfunc_wrapper=True, **self.flags)(self.fn)
                dispatcher.compile(signature)
                made = dispatcher.overloads[signature]
                cache.save(label, self.generated, made)
            self.made[chars] = made
            entry = made.entry_point
        self.entries[chars] = entry
        return entry

    def address(self, chars: tuple[str, ...]) -> int:
        """Address of the machine code, in numba's calling convention."""
        found = self.addresses.get(chars)
        if found is None:
            self.entry(chars)
            made = self.made[chars]
            found = made.library.get_pointer_to_function(made.fndesc.llvm_func_name)
            self.addresses[chars] = found
        return found


def signature(args: tuple[Any, ...]) -> tuple[str, ...]:
    """dtype characters of arrays, "int" and "float" of numbers."""
    return tuple([a.dtype.char if type(a) is np.ndarray else _KINDS[type(a)] for a in args])


# Anything else than a number or an array would be read as one, and crash.
_KINDS = {int: "int", float: "float", Live: "int"}


def kernel(fn: Any = None, *, writes: tuple[str, ...] | None = None, rows: tuple[str, ...] = ()) -> Any:
    """Mark ``fn(arrays..., numbers..., start, stop)`` as a kernel; ``writes`` and ``rows``: see :class:`Kernel`."""
    if fn is None:
        return lambda fn: kernel(fn, writes=writes, rows=rows)
    return Kernel(fn, f"{fn.__module__.rpartition('.')[2]}.{fn.__name__}", writes=writes, rows=rows)


# numba never frees machine code: one kernel per text, however often the text is emitted.
_from_text: dict[str, Kernel] = {}


def from_text(name: str, text: str, namespace: dict[str, Any], **flags: Any) -> Kernel:
    """A kernel from generated source text that defines the function ``name``."""
    how = [
        f"{key}={sorted(value) if isinstance(value, set) else value}" for key, value in sorted(flags.items())
    ]
    label = f"{name}-{hashlib.sha256(' '.join([text, *how]).encode()).hexdigest()[:20]}"
    if label in _from_text:
        return _from_text[label]
    filename = f"<tapegrad kernel {label}>"
    # numba finds the globals of a function that it loads from the cache by their module's name.
    scope = {"__name__": __name__, **namespace}
    exec(compile(text, filename, "exec"), scope)
    linecache.cache[filename] = (len(text), None, text.splitlines(True), filename)
    made = _from_text[label] = Kernel(scope[name], label, True, **flags)
    return made


def span(array: np.ndarray) -> np.ndarray:
    """All memory from an array's first element to its last, as a flat view."""
    if array.size == 0:
        return array.reshape(-1)
    reach = 1 + sum((n - 1) * s for n, s in zip(array.shape, array.strides, strict=True)) // array.itemsize
    return np.lib.stride_tricks.as_strided(array, (reach,), (array.itemsize,))


def _plain(fn: Callable[..., None]) -> Callable[..., None]:
    def run(*args: Any) -> None:
        with np.errstate(all="ignore"):  # machine code does not warn either
            fn(*[span(a) if isinstance(a, np.ndarray) else a for a in args])

    return run


if not PLAIN:
    loaded()
