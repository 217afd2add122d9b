"""Imports run strictly downwards: read from the source of every module, nothing is executed.

A part of the package is its first name under ``tapegrad`` (``tapegrad/nn/linear.py`` belongs to ``nn``).
A module may import from the floors below its own and from its own part, never from above.
"""

from __future__ import annotations

import ast
import graphlib
import pathlib
import subprocess
import sys
from collections.abc import Iterator
from typing import NamedTuple

import pytest

PACKAGE = pathlib.Path(__file__).resolve().parents[1] / "tapegrad"

# From the ground up. A new part gets its place here.
FLOORS: list[set[str]] = [
    {
        "config",
        "dtypes",
        "device",
        "size",
        "hooks",
        "modes",
        "return_types",
        "formats",
        "locks",
        "sites",
        "sources",
    },
    {"backends", "amp", "accelerator"},
    {"cuda"},
    {"blas", "buffers"},
    {"kernels", "printing", "threads"},
    {"results"},
    {"tape", "replay", "scopes", "reasons"},
    {"op", "derive", "faces"},
    {"elementwise", "fastpath"},
    {"ops", "custom", "special"},
    {"engine", "missing"},
    {"inspection"},
    {"native"},
    {"tensor"},
    {"creation", "linalg", "random", "autograd", "typed", "basics"},
    {"nn", "optim", "data", "io", "testing"},
    {"utils"},
    {"examples"},
]
FLOOR = {part: number for number, parts in enumerate(FLOORS) for part in parts}
NEVER = {"torch", "jax"}
# Loaded at first use only: each costs more than all the rest of `import tapegrad`.
HEAVY = ["numba", "scipy", "sklearn", "matplotlib", "torch", "tqdm"]


class Import(NamedTuple):
    target: str  # a module: "numpy", or one of ours: "tapegrad.tape"
    line: int
    inside: str | None  # the function that the import stands in


def module_name(path: pathlib.Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def part_of(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


def imports_of(module: str) -> Iterator[Import]:
    path = MODULES[module]
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    return imports_in(path.read_text(), package)


def imports_in(source: str, package: str) -> Iterator[Import]:
    """Every import in a module of that package, wherever it stands."""

    def visit(node: ast.AST, inside: str | None) -> Iterator[Import]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Import):
                for alias in child.names:
                    yield Import(alias.name, child.lineno, inside)
            elif isinstance(child, ast.ImportFrom):
                base = child.module or ""
                if child.level:
                    above = package.split(".")
                    base = ".".join([*above[: len(above) - child.level + 1], *filter(None, [base])])
                for alias in child.names:
                    # `from . import tape` names a module, `from .tape import Entry` what is in one.
                    inner = f"{base}.{alias.name}"
                    yield Import(inner if inner in MODULES else base, child.lineno, inside)
            elif isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
                yield from visit(child, getattr(child, "name", "lambda"))
            else:
                yield from visit(child, inside)

    return visit(ast.parse(source), None)


def ours(found: Import) -> bool:
    return found.target.partition(".")[0] == "tapegrad"


@pytest.mark.parametrize("module", [m for m in MODULES if m != "tapegrad"])  # which names all that is public
def test_imports_run_downwards(module: str) -> None:
    part = part_of(module)
    assert part in FLOOR, f"{module}: give {part!r} a floor in {__file__}"
    for found in filter(ours, imports_of(module)):
        where = f"{MODULES[module]}:{found.line} imports {found.target}"
        other = part_of(found.target)
        if other == "":
            assert part == "examples", f"{where}: only examples use the package by its public names"
        elif other != part:
            assert other in FLOOR, f"{where}, which is on no floor"
            assert FLOOR[other] <= FLOOR[part], f"{where}, which is on a floor above"


@pytest.mark.parametrize("module", [m for m in MODULES if part_of(m) == "kernels"])
def test_kernels_know_nothing_above_them(module: str) -> None:
    for found in filter(ours, imports_of(module)):
        where = f"{MODULES[module]}:{found.line} imports {found.target}"
        assert part_of(found.target) in {"kernels", "buffers", "config", "dtypes", "locks"}, where


@pytest.mark.parametrize("module", MODULES)
def test_foreign_libraries(module: str) -> None:
    for found in imports_of(module):
        name = found.target.partition(".")[0]
        where = f"{MODULES[module]}:{found.line} imports {found.target}"
        assert name not in NEVER, where
        if name in {"numba", "llvmlite"}:
            assert part_of(module) == "kernels", f"{where}: only kernels do"


@pytest.mark.parametrize("module", MODULES)
def test_own_modules_are_imported_at_the_top(module: str) -> None:
    for found in filter(ours, imports_of(module)):
        if part_of(module) == part_of(found.target) == "kernels":
            continue  # a kernel may load a large sibling at its first use; circles are looked for below
        assert found.inside is None, (
            f"{MODULES[module]}:{found.line}: {found.inside}() imports {found.target}; import it at the top, "
            "and if that makes a circle, move what both need to a floor below"
        )


def test_no_circular_imports() -> None:
    inner = [module for module in MODULES if module != "tapegrad"]
    assert_no_circle({m: {f.target for f in imports_of(m) if ours(f)} - {m, "tapegrad"} for m in inner})


def test_parts_that_share_a_floor_do_not_import_each_other_in_turn() -> None:
    graph: dict[str, set[str]] = {part_of(module): set() for module in MODULES if module != "tapegrad"}
    for module in MODULES:
        part = part_of(module)
        if part:
            graph[part] |= {part_of(f.target) for f in imports_of(module) if ours(f)} - {"", part}
    assert_no_circle(graph)


def assert_no_circle(graph: dict[str, set[str]]) -> None:
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as err:
        pytest.fail("circular import: " + " -> ".join(err.args[1]))


def test_import_loads_nothing_heavy() -> None:
    program = f"import sys, tapegrad; print(*[name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_the_reader_of_imports_sees_every_form() -> None:
    """The rules above are only as good as what they read."""
    source = """
import numba.core as core, os
from . import jit, names
from .jit import Kernel
from .. import config
from tapegrad import tape
if core:
    from ..op import Op
class Late:
    def method(self):
        return lambda: __import__("os")
    def load(self):
        from .. import tensor
        from ..ops.shape import cat as join
"""
    found = {(i.target, i.inside) for i in imports_in(source, "tapegrad.kernels")}
    assert found == {
        ("numba.core", None),
        ("os", None),
        ("tapegrad.kernels.jit", None),
        ("tapegrad.kernels", None),
        ("tapegrad.config", None),
        ("tapegrad.tape", None),
        ("tapegrad.op", None),
        ("tapegrad.tensor", "load"),
        ("tapegrad.ops.shape", "load"),
    }
