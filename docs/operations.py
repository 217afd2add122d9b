"""Writes operations.md, the table of all operations: ``python docs/operations.py`` (``--check`` only compares).

Everything in it is read from the library (its registry of ops and its public names) and from the record of the last
comparison with PyTorch's table of operator samples, which ``python -m tests.opinfo.report --record`` wrote.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import sys
from collections.abc import Iterator
from typing import Any

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import tapegrad as tg  # noqa: E402 - the checkout that this file belongs to
from tapegrad.elementwise import Elementwise  # noqa: E402
from tapegrad.op import Op, ViewOp, ViewsOp, registry  # noqa: E402
from tests.samples import SAMPLES  # noqa: E402

RECORD = HERE.parent / "tests" / "opinfo" / "record.json"

HEAD = """\
# All operations

Made by `python docs/operations.py` from the registry of ops, the public names, and the record of the last comparison with
PyTorch's own table of operator samples; a test compares it with the library.

"""

FUNCTIONS = """\
## Functions

`T` in *forms* says that the function is also a method of Tensor, `T_` that the method has an in-place form. *Samples* are those of
PyTorch's table (float32 and float64) that give PyTorch's values / gradients / second-order gradients; `-` where that table has
nothing under the name.

| function | family | forms | samples: values | gradients | second order |
| --- | --- | --- | --- | --- | --- |
"""

OPS = """\
## Ops on the tape

What functions are made of, and what a tape lists. *Rules* are the inputs that have a derivative rule. *Order* is the highest order of
derivative that the tests compare, with finite differences or with PyTorch; an order above it follows from the same rules.

| op | family | kind | rules | node | order |
| --- | --- | --- | --- | --- | --- |
"""

NOTES = """\
## Where PyTorch differs

* Complex numbers, sparse, quantized and nested tensors, and devices other than the CPU are refused with an error.
* float16 is stored and computed by way of float32; there is no bfloat16.
* `igamma` and `igammac` have a derivative in their second argument; that in the first one is an error, as in PyTorch.
* In-place forms of `transpose_`, `squeeze_` and their like are refused while other views of the same memory exist.
* `x.mul_(x)`: PyTorch's backward refuses an operand that was overwritten with itself, tapegrad gives the gradient.
"""


def functions() -> Iterator[tuple[str, Any]]:
    """Public functions by the name that a user writes after ``tg.``."""
    spaces = (
        ("", tg),
        ("linalg.", tg.linalg),
        ("special.", tg.special),
        ("nn.functional.", tg.nn.functional),
    )
    seen: set[int] = set()
    for prefix, space in spaces:
        for name, value in sorted(vars(space).items()):
            module = getattr(value, "__module__", "") or ""
            if name.startswith("_") or isinstance(value, type) or not callable(value):
                continue
            if not module.startswith(("tapegrad.ops.", "tapegrad.creation", "tapegrad.nn.functional")):
                continue
            if name.endswith("_") and hasattr(space, name[:-1]):
                continue  # in-place forms stand beside the function
            if id(value) not in seen:
                seen.add(id(value))
                yield prefix + name, value


def function_rows() -> Iterator[str]:
    """One row per public function."""
    samples = json.loads(RECORD.read_text())["samples"]
    for name, value in functions():
        short = name.rpartition(".")[2]
        forms = "T" * hasattr(tg.Tensor, short)
        if hasattr(tg.Tensor, f"{short}_"):
            forms += ", T_" if forms else "T_"
        counts = [_count(samples, name, stage) for stage in ("forward", "gradient", "second")]
        family = value.__module__.removeprefix("tapegrad.").removeprefix("ops.")
        yield f"| `{name}` | {family} | {forms or '-'} | {' | '.join(counts)} |"


def _count(samples: dict[str, Any], name: str, stage: str) -> str:
    """Samples that passed of those that were tried, over all variants of a function."""
    tried = [v[stage] for key, v in samples.items() if _is_variant(key, name) and stage in v]
    if not tried:
        return "-"
    good, total = (sum(column) for column in zip(*tried, strict=True))
    return str(total) if good == total else f"{good} of {total}"


def _is_variant(key: str, name: str) -> bool:
    return key == name or (key.startswith(f"{name}.") and name not in ("nn", "linalg", "special"))


def op_rows() -> Iterator[str]:
    """One row per op of the registry."""
    orders = json.loads(RECORD.read_text())["orders"]
    for name, op in registry.items():
        order = orders.get(name, 0)
        if name in SAMPLES and op.rules:
            order = 2
        rules = ", ".join(op.inputs) if "all" in op.rules else ", ".join(op.rules)
        node = op.node_name if op.rules else "-"
        yield f"| `{name}` | {op.module.rpartition('.')[2]} | {_kind(op)} | {rules or '-'} | {node} | {order or '-'} |"


def _kind(op: Op) -> str:
    if isinstance(op, Elementwise):
        return "elementwise"
    return "view" if isinstance(op, (ViewOp, ViewsOp)) else "kernel"


def text() -> str:
    """The page."""
    parts = [HEAD, FUNCTIONS, "\n".join(function_rows()), "\n\n", OPS, "\n".join(op_rows()), "\n\n", NOTES]
    return "".join(parts)


def main() -> int:
    """Write or compare the page; the exit status tells whether it was as it is now."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="only compare")
    page, made = HERE / "operations.md", text()
    same = page.exists() and page.read_text() == made
    if not parser.parse_args().check:
        page.write_text(made)
        return 0
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
