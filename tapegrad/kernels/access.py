"""Which arrays a kernel reads and which it writes, found in its source text.

A parameter that is stored to with ``name[...] = `` is written, one whose elements appear in an expression is read, and one
that is handed on to another function as a whole is what that function makes of it (both, if its text cannot be had).
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable
from typing import Any

_BOTH = (True, True)
_found: dict[Any, tuple[tuple[bool, bool], ...]] = {}


def access(kernel: Any) -> tuple[tuple[bool, bool], ...]:
    """Per parameter: whether its elements are read, and whether they are written."""
    if getattr(kernel, "writes", None) is not None:
        code = kernel.fn.__code__
        return tuple((True, name in kernel.writes) for name in code.co_varnames[: code.co_argcount])
    return _access(getattr(kernel, "fn", kernel))


def _access(function: Callable[..., Any]) -> tuple[tuple[bool, bool], ...]:
    function = getattr(function, "py_func", function)
    known = _found.get(function)
    if known is None:
        _found[function] = known = _inspected(function)
    return known


def _inspected(function: Any) -> tuple[tuple[bool, bool], ...]:
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, SyntaxError):
        return (_BOTH,) * len(names)
    definitions = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)]
    named = [d for d in definitions if d.name == function.__name__]
    definition = next(iter(named or definitions), None)
    if definition is None:  # a lambda
        return (_BOTH,) * len(names)
    search = _Search(function, set(names))
    for statement in definition.body:
        search.visit(statement)
    return tuple((n in search.read, n in search.written) for n in names)


class _Search(ast.NodeVisitor):
    def __init__(self, function: Any, names: set[str]) -> None:
        self.scope = dict(function.__globals__)
        closure = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
        self.scope.update({name: cell.cell_contents for name, cell in closure})
        self.names = names
        self.read: set[str] = set()
        self.written: set[str] = set()

    def visit_Subscript(self, node: ast.Subscript) -> None:
        self.visit(node.slice)
        if isinstance(node.value, ast.Name) and node.value.id in self.names:
            (self.read if isinstance(node.ctx, ast.Load) else self.written).add(node.value.id)
        else:
            self.visit(node.value)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        if isinstance(node.target, ast.Subscript) and isinstance(node.target.value, ast.Name):
            self.read.add(node.target.value.id)
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        called = self.scope.get(node.func.id) if isinstance(node.func, ast.Name) else None
        inner = _access(called) if hasattr(called, "py_func") else None
        for j, argument in enumerate(node.args):
            if isinstance(argument, ast.Name) and argument.id in self.names:
                reads, writes = _BOTH if inner is None or j >= len(inner) else inner[j]
                if inner is None and _is_number_function(node.func):
                    reads, writes = False, False
                self.read |= {argument.id} if reads else set()
                self.written |= {argument.id} if writes else set()
            else:
                self.visit(argument)

    def visit_Name(self, node: ast.Name) -> None:
        if node.id in self.names and isinstance(node.ctx, ast.Load):
            self.read.add(node.id)  # a number, or an array under another name: see visit_Assign

    def visit_Assign(self, node: ast.Assign) -> None:
        value = node.value
        if isinstance(value, ast.Name) and value.id in self.names:
            self.written.add(value.id)  # under its new name it may be written to
        self.generic_visit(node)


def _is_number_function(function: ast.expr) -> bool:
    """range, min, float and the like, which take numbers."""
    return isinstance(function, ast.Name) and function.id in {"range", "min", "max", "float", "int", "abs"}
