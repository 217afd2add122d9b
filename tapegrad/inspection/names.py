"""What things on the tape are called: the user's variables, the parameters of modules, the modules' paths.

Names are taken from the variables that the caller of ``tape()`` can see, and from the modules whose calls were
recorded.
"""

from __future__ import annotations

import inspect
import sys
import weakref
from collections.abc import Sequence
from typing import Any

from ..scopes import calls_around
from ..tape import Entry, Value, saved_arrays

MOST_ITEMS = 20  # of a list or tuple of tensors that are named


class Names:
    """Names for the leaves, results, saved arrays and modules of one listing."""

    def __init__(self, entries: Sequence[Entry], variables: dict[str, Any]) -> None:
        self.leaves: dict[
            int, tuple[Any, str]
        ] = {}  # a weak reference tells whether an id still means the same
        self.results: dict[tuple[int, int], str] = {}  # by position and output
        self.arrays: dict[int, str] = {}  # asked for arrays that the entries hold, so no id is used again
        self._variables: dict[int, str] = {}
        # By position: the modules whose calls were noted around an entry, outermost first. Entries are not held here: a part
        # of a listing shares its names, and must not keep the rest alive.
        self.modules = {e.position: [c.module for c in calls] for e, calls in calls_around(entries).items()}
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
        self._name_parameters(modules, entries)

    def _name(self, name: str, value: Value) -> None:
        node = value._node
        if type(node) is Entry:
            self.results.setdefault((node.position, value._index), name)
        elif node is not None:
            self.leaves.setdefault(id(value), (weakref.ref(value), name))
        self.arrays.setdefault(id(value._array), name)

    def _name_parameters(self, variables: list[tuple[str, Any]], entries: Sequence[Entry]) -> None:
        # Roots are the modules that are not part of another; those called and those held by a variable.
        found: dict[int, tuple[str, Any]] = {}
        for name, module in variables:
            found.setdefault(id(module), (name, module))
        for root, *_ in self.modules.values():
            found.setdefault(id(root), (type(root).__name__, root))
        inner = {id(part) for _, module in found.values() for part in module.modules() if part is not module}
        used = {id(edge) for e in entries for edge in e.edges if isinstance(edge, Value)}
        used |= {id(array) for e in entries for _, array in saved_arrays(e)}  # frozen parameters
        roots = [item for key, item in found.items() if key not in inner]
        roots = [
            (n, m) for n, m in roots if any(id(p) in used or id(p._array) in used for p in m.parameters())
        ]
        called = {id(root) for root, *_ in self.modules.values()}
        self._one_root = len(called | {id(m) for _, m in roots}) == 1
        for name, module in roots:
            prefix = "" if self._one_root else f"{name}."
            for path, parameter in module.named_parameters():
                self.leaves.setdefault(id(parameter), (weakref.ref(parameter), prefix + path))
                self.arrays.setdefault(id(parameter._array), prefix + path)

    def module(self, entry: Entry) -> str:
        """The dotted path of the innermost module that recorded an entry, "" if none was noted."""
        paths = self.module_path(entry)
        return paths[-1] if paths else ""

    def module_path(self, entry: Entry) -> list[str]:
        """The paths of all modules around an entry, outermost first."""
        modules = self.modules.get(entry.position, [])
        return [self._path(modules[0], module) for module in modules]

    def module_type(self, entry: Entry) -> str:
        """The class of the innermost module."""
        modules = self.modules.get(entry.position)
        return type(modules[-1]).__name__ if modules else ""

    def _path(self, root: Any, module: Any) -> str:
        if id(root) not in self._paths:
            self._paths[id(root)] = {id(m): path for path, m in root.named_modules()}
        path = self._paths[id(root)].get(id(module), type(module).__name__)
        if self._one_root and path:
            return path
        own = self._variables.get(id(root), type(root).__name__)
        return f"{own}.{path}" if path else own

    def leaf(self, leaf: Value) -> str:
        """A leaf's name, "" if it has none."""
        reference, name = self.leaves.get(id(leaf), (None, ""))
        return name if reference is not None and reference() is leaf else ""

    def result(self, entry: Entry, index: int = 0) -> str:
        """The name of an entry's output, "" if it has none."""
        return self.results.get((entry.position, index), "")

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
