"""Which module an entry belongs to.

Operations note nothing about modules, which would cost each of them. Instead the call of a module marks the
entry of its result: with the module, and with the highest position among the entries that its arguments came
from. What lies between the two was recorded inside. That is worked out when somebody asks.

A mark holds the module weakly: a module that keeps its result must not make a reference cycle with it. Marking
costs about three microseconds per call of a module, so it is off until :func:`record_modules` switches it on.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from . import config
from .tape import Entry, Value


class record_modules:
    """Note from now on which module each entry belongs to, or stop: at once when called, within a block as a context.

    ``Tape`` then shows the module's path, and large drawings are folded by module. Costs about three microseconds per call of
    a module. The environment variable ``TAPEGRAD_MODULES=1`` switches it on from the start.
    """

    def __init__(self, mode: bool = True) -> None:
        self._before = config.record_modules
        config.record_modules = bool(mode)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exc: object) -> None:
        config.record_modules = self._before


class Call(NamedTuple):
    """A module's call, as its mark on an entry tells."""

    module: Any
    entry: Entry  # that of its result
    floor: int  # recorded inside is what comes after this position


def floor_of(args: Iterable[Any]) -> int:
    """The highest position among the entries that some arguments came from, -1 if none has an entry."""
    floor = -1
    for x in args:
        if isinstance(x, Value):
            node = x._node
            if type(node) is Entry and node.position > floor:
                floor = node.position
        elif isinstance(x, (tuple, list)):
            floor = max(floor, floor_of(x))
        elif isinstance(x, dict):
            floor = max(floor, floor_of(x.values()))
    return floor


def mark(module: Any, floor: int, result: Any) -> None:
    """Note on the entry of a result that this module's call gave it."""
    if isinstance(result, Value):
        node = result._node
        if type(node) is Entry and node.position > floor:
            node.scope = (weakref.ref(module), floor, getattr(node, "scope", None))
    elif isinstance(result, (tuple, list)):
        for x in result:
            mark(module, floor, x)
    elif isinstance(result, dict):
        for x in result.values():
            mark(module, floor, x)


def calls_on(entries: Iterable[Entry]) -> list[Call]:
    """The marked calls of modules that still exist, outer ones before those inside them."""
    found: list[tuple[int, int, int, Call]] = []
    for entry in entries:
        scope, depth = getattr(entry, "scope", None), 0
        while scope is not None:
            reference, floor, scope = scope
            module = reference()
            if module is not None:
                found.append((floor, -entry.position, depth, Call(module, entry, floor)))
            depth += 1
    found.sort(key=lambda item: item[:3])
    return [call for *_, call in found]


def calls_around(entries: Sequence[Entry]) -> dict[Entry, list[Call]]:
    """Per entry, the calls that it was recorded in, outermost first."""
    around: dict[Entry, list[Call]] = {}
    for call in calls_on(entries):
        seen = {call.entry}
        stack = [call.entry]
        while stack:
            entry = stack.pop()
            around.setdefault(entry, []).append(call)
            for edge in entry.edges:
                if type(edge) is Entry and edge.position > call.floor and edge not in seen:
                    seen.add(edge)
                    stack.append(edge)
    return around
