"""What a compiled function sees besides its arguments: tensors in its variables and in modules, with their names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..tape import Value

MOST_ITEMS = 20  # of a list, tuple or dict of tensors that are named


def outside_values(function: Any, recording: Any) -> Iterator[tuple[Value, str]]:
    """Tensors that a function reaches by its variables or by the modules that it called, and their names."""
    roots: list[tuple[str, Any]] = []
    for name, value in _variables(function):
        if isinstance(value, Value):
            yield value, name
        elif _is_module(value):
            roots.append((name, value))
        elif isinstance(value, (list, tuple)) and len(value) <= MOST_ITEMS:
            yield from ((v, f"{name}[{j}]") for j, v in enumerate(value) if isinstance(v, Value))
        elif type(value) is dict and len(value) <= MOST_ITEMS:
            yield from ((v, f"{name}[{k!r}]") for k, v in value.items() if isinstance(v, Value))
    known = {id(part) for _, module in roots for part in module.modules()}
    for module, _ in recording.modules:
        if id(module) not in known:
            roots.append((type(module).__name__, module))
    inner = {id(part) for _, module in roots for part in module.modules() if part is not module}
    roots = [(name, module) for name, module in roots if id(module) not in inner]
    for name, module in roots:
        prefix = "" if len(roots) == 1 else f"{name}."
        for path, value in (*module.named_parameters(), *module.named_buffers()):
            yield value, prefix + path


def _variables(function: Any) -> Iterator[tuple[str, Any]]:
    """What a function sees from outside: itself or its object, its closure, and the globals that it names."""
    if _is_module(function):
        yield "self", function
        return
    owner = getattr(function, "__self__", None)
    if owner is not None:
        yield "self", owner
        yield from ((f"self.{name}", value) for name, value in getattr(owner, "__dict__", {}).items())
    function = getattr(function, "__func__", function)
    code = getattr(function, "__code__", None)
    if code is None:
        return
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield name, cell.cell_contents
        except ValueError:  # a variable that has no value yet
            continue
    yield from ((n, function.__globals__[n]) for n in code.co_names if n in function.__globals__)


def _is_module(value: Any) -> bool:
    # Modules stand on a floor above; these methods are what is used of them.
    return all(hasattr(type(value), n) for n in ("named_parameters", "named_buffers", "modules"))
