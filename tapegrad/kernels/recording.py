"""Whether this thread records a step for the native tape, and who does it.

A recorder sees what reaches the kernels: loops, launches, copies, and the forward functions of ops that are not made of
those alone. Nobody records most of the time, so the places that report ask the list ``active`` first, which costs a few
nanoseconds; its items are the threads that record.
"""

from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

F = TypeVar("F", bound=Callable[..., Any])


class _Thread(threading.local):
    recorder: Any = None


here = _Thread()
active: list[None] = []
# Memory that programs use where it lies, by the array that owns it: a weak reference and the ranges of bytes. And how often
# one of the tensors there has changed since in a way that programs do not see: other memory, another need of gradients, hooks.
known: dict[int, tuple[weakref.ref[np.ndarray], set[tuple[int, int]]]] = {}
epoch = [0]
# Modules that recorded steps have called.
modules: weakref.WeakSet[Any] = weakref.WeakSet()


def now() -> Any:
    """This thread's recorder, or None."""
    return here.recorder if active else None


class RecordingError(RuntimeError):
    """Something that a recorded step cannot do again."""


class StaleError(Exception):
    """What a program found outside of its arguments when it was recorded is no longer so: it has to be recorded anew."""


class Live(int):
    """A whole number that is read anew whenever the recorded step is replayed."""

    source: Any  # called with nothing; gives the number

    def __new__(cls, value: int, source: Any) -> Live:
        made = super().__new__(cls, value)
        made.source = source
        return made


_SIMPLE = (bool, int, float, str, type(None))


def assigned(module: Any, name: str, old: Any, value: Any) -> None:
    """An attribute of a module is being set: programs that have called it are out of date, unless nothing changes."""
    if module not in modules or name == "training":  # which programs look at themselves
        return
    if active and here.recorder is not None:
        if hasattr(value, "_array"):
            here.recorder.refuse(
                f"setting the attribute {name!r} of a module to a tensor (copy_ into a buffer instead)"
            )
    elif old is not value and not (type(old) in _SIMPLE and type(value) is type(old) and old == value):
        epoch[0] += 1


class paused:
    """Within the block this thread does not record: what happens inside was reported as a whole."""

    __slots__ = ("_before",)

    def __enter__(self) -> None:
        self._before = here.recorder
        here.recorder = None

    def __exit__(self, *exc: object) -> None:
        here.recorder = self._before


def hooked(module: Any) -> None:
    """A module, or every one (None), gets a hook or loses it: programs that have called it are out of date."""
    if module in modules if module is not None else len(modules):
        epoch[0] += 1


def root_of(array: np.ndarray) -> np.ndarray:
    """The array that owns the memory, or the outermost one over memory of somebody else."""
    while True:
        base: Any = array.base
        if not isinstance(base, np.ndarray):
            base = getattr(base, "base", None)  # as_strided puts an object between an array and its view
            if not isinstance(base, np.ndarray):
                return array
        array = base


def use(root: np.ndarray, low: int, high: int) -> None:
    """Note that a program uses bytes from ``low`` to ``high`` of an array's memory where they lie."""
    key = id(root)
    if key not in known:
        known[key] = (weakref.ref(root, lambda _: known.pop(key, None)), set())
    known[key][1].add((low, high))


def changed(array: np.ndarray) -> None:
    """A tensor over this array gets other memory, starts or stops requiring grad, or gets a hook."""
    if not known:
        return
    found = known.get(id(root_of(array)))
    if found is not None:
        first, end = np.lib.array_utils.byte_bounds(array)
        if any(first <= low and high <= end for low, high in found[1]):
            epoch[0] += 1


def forward(op: Any, arrays: Any, params: dict[str, Any]) -> Any:
    """The forward function of an op over arrays, reported if this thread records."""
    recorder = here.recorder
    if recorder is None:
        return op.forward(*arrays, **params)
    return recorder.forward(op, arrays, params)


def refuse(what: str) -> None:
    """Raise if this thread records: ``what`` cannot be done again by a recorded step."""
    if active and here.recorder is not None:
        here.recorder.refuse(what)


def repeated(method: F) -> F:
    """Let a recorded step call a method of Python objects again, with the same arguments, after each replay."""

    @functools.wraps(method)
    def call(*args: Any, **given: Any) -> Any:
        recorder = here.recorder if active else None
        if recorder is None:
            return method(*args, **given)
        recorder.repeat(lambda: method(*args, **given))
        with paused():
            return method(*args, **given)

    return call  # type: ignore[return-value]


def hosted(function: F) -> F:
    """Let a recorded step call a function from arrays to arrays again, in Python, each time it is replayed."""

    @functools.wraps(function)
    def call(*args: Any, **given: Any) -> Any:
        if active and here.recorder is not None:
            return here.recorder.host(function, args, given)
        return function(*args, **given)

    return call  # type: ignore[return-value]
