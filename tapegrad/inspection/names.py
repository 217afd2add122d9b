"""What things on the tape are called: the user's variables, the parameters of modules, the modules' paths.

Names are taken from the variables that the caller of ``tape()`` can see, and from the modules whose calls were
recorded. Only what the entries of a tape own is named, so an id cannot come to mean something else.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Sequence
from typing import Any

from ..scopes import Call, calls_around
from ..tape import Entry, Value, saved_arrays

MOST_ITEMS = 20  # of a list or tuple of tensors that are named


class Names:
    """Names for the leaves, results, saved arrays and modules of one listing."""

    def __init__(self, entries: Sequence[Entry], variables: dict[str, Any]) -> None:
        self._entries = entries
        self.leaves: dict[int, str] = {}
        self.results: dict[tuple[int, int], str] = {}
        self.arrays: dict[int, str] = {}
        self._variables: dict[int, str] = {}
        self._calls: dict[Entry, list[Call]] | None = None
        self._paths: dict[int, dict[int, str]] = {}
        modules = []
        for name, value in variables.items():
            if name.startswith("_"):
                continue
            # By type, not isinstance(): a stranger's proxy may do anything when it is asked for its class.
            if issubclass(type(value), Value):
                self._name(name, value)
            elif _is_module(value):
                self._variables.setdefault(id(value), name)
                modules.append((name, value))
            elif type(value) in (list, tuple) and len(value) <= MOST_ITEMS:
                for j, item in enumerate(value):
                    if issubclass(type(item), Value):
                        self._name(f"{name}[{j}]", item)
        self._name_parameters(modules)

    def _name(self, name: str, value: Value) -> None:
        node = value._node
        if type(node) is Entry:
            self.results.setdefault((id(node), value._index), name)
        elif node is not None:
            self.leaves.setdefault(id(value), name)
        self.arrays.setdefault(id(value._array), name)

    def _name_parameters(self, variables: list[tuple[str, Any]]) -> None:
        # Roots are the modules that are not part of another; those called and those held by a variable.
        found: dict[int, tuple[str, Any]] = {}
        for name, module in variables:
            found.setdefault(id(module), (name, module))
        for calls in self.calls.values():
            found.setdefault(id(calls[0].module), (type(calls[0].module).__name__, calls[0].module))
        inner = {id(part) for _, module in found.values() for part in module.modules() if part is not module}
        used = {id(edge) for e in self._entries for edge in e.edges if isinstance(edge, Value)}
        used |= {id(array) for e in self._entries for _, array in saved_arrays(e)}  # frozen parameters
        roots = [item for key, item in found.items() if key not in inner]
        roots = [
            (n, m) for n, m in roots if any(id(p) in used or id(p._array) in used for p in m.parameters())
        ]
        called = {id(calls[0].module) for calls in self.calls.values()}
        self._one_root = len(called | {id(m) for _, m in roots}) == 1
        for name, module in roots:
            prefix = "" if self._one_root else f"{name}."
            for path, parameter in module.named_parameters():
                self.leaves.setdefault(id(parameter), prefix + path)
                self.arrays.setdefault(id(parameter._array), prefix + path)

    @property
    def calls(self) -> dict[Entry, list[Call]]:
        """Per entry, the recorded calls of modules around it, outermost first."""
        if self._calls is None:
            self._calls = calls_around(self._entries)
        return self._calls

    def module(self, entry: Entry) -> str:
        """The dotted path of the innermost module that recorded an entry, "" if none was noted."""
        calls = self.calls.get(entry)
        return self._path(calls, len(calls)) if calls else ""

    def module_path(self, entry: Entry) -> list[str]:
        """The paths of all modules around an entry, outermost first."""
        calls = self.calls.get(entry, [])
        return [self._path(calls, depth) for depth in range(1, len(calls) + 1)]

    def module_type(self, entry: Entry) -> str:
        """The class of the innermost module."""
        calls = self.calls.get(entry)
        return type(calls[-1].module).__name__ if calls else ""

    def _path(self, calls: list[Call], depth: int) -> str:
        root = calls[0].module
        if id(root) not in self._paths:
            self._paths[id(root)] = {id(m): path for path, m in root.named_modules()}
        path = self._paths[id(root)].get(id(calls[depth - 1].module), type(calls[depth - 1].module).__name__)
        if self._one_root and path:
            return path
        own = self._variables.get(id(root), type(root).__name__)
        return f"{own}.{path}" if path else own

    def leaf(self, leaf: Value) -> str:
        """A leaf's name, "" if it has none."""
        return self.leaves.get(id(leaf), "")

    def result(self, entry: Entry, index: int = 0) -> str:
        """The name of an entry's output, "" if it has none."""
        return self.results.get((id(entry), index), "")

    def array(self, array: Any) -> str:
        """The name of a constant by its array, "" if it has none."""
        return self.arrays.get(id(array), "")


def _is_module(value: Any) -> bool:
    # Modules stand on a floor above; these three methods are what is used of them.
    return all(hasattr(type(value), n) for n in ("named_modules", "named_parameters", "parameters"))


def visible(frame: Any) -> dict[str, Any]:
    """The variables that a frame can see, its own first."""
    found = variables_of(frame)
    for name, value in frame.f_globals.items():
        found.setdefault(name, value)
    return found


def variables_of(frame: Any) -> dict[str, Any]:
    """A copy of a frame's own variables, which leaves nothing alive behind."""
    own = frame.f_locals
    found = dict(own)
    # Until Python 3.13 a function's f_locals is a snapshot that its frame holds: tensors in it would outlive their variables.
    # It is emptied, unless somebody else has it too (from locals()): the three are the frame, this function and the call.
    snapshot = sys.version_info < (3, 13) and frame.f_code.co_flags & inspect.CO_OPTIMIZED
    if snapshot and sys.getrefcount(own) <= 3:
        own.clear()
    return found
