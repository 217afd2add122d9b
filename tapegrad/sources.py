"""The source text of functions, rules among them: what a reader of the tape wants to see."""

from __future__ import annotations

import ast
import functools
import inspect
import linecache
import textwrap
from collections.abc import Callable, Iterator, Sequence
from typing import Any


def function_text(fn: Callable[..., Any]) -> str:
    """The text of a function as it was written; a line that says so if there is none to be had."""
    if getattr(fn, "__name__", "") == "<lambda>":
        return lambda_text(fn)
    try:
        return textwrap.dedent(inspect.getsource(fn)).rstrip()
    except (OSError, TypeError):
        return f"# {fn!r}: its source is not to be had"


def lambda_text(fn: Callable[..., Any]) -> str:
    """The text of a lambda alone, without the statement that it stands in."""
    code = fn.__code__
    wanted = code.co_varnames[: code.co_argcount]
    for node, text in _lambdas(code.co_filename):
        names = tuple(a.arg for a in node.args.args)
        if node.lineno == code.co_firstlineno and names == wanted and _compiles_to(text, code):
            return " ".join(text.split())
    return f"lambda {', '.join(wanted)}: ..."


def _compiles_to(text: str, code: Any) -> bool:
    made = next(c for c in compile(f"({text})", "", "eval").co_consts if inspect.iscode(c))
    # Names of a scope around the lambda are loaded in other ways, so only what is named is compared.
    named = {*made.co_names, *made.co_varnames, *made.co_cellvars}
    known = {*code.co_names, *code.co_varnames, *code.co_cellvars, *code.co_freevars}
    return named == known and _constants(made) == _constants(code)


def _constants(code: Any) -> list[Any]:
    return [c for c in code.co_consts if not inspect.iscode(c)]


@functools.lru_cache(maxsize=64)
def _lambdas(filename: str) -> tuple[tuple[ast.Lambda, str], ...]:
    text = "".join(linecache.getlines(filename))
    return tuple(_lambdas_in(text))


def _lambdas_in(text: str) -> Iterator[tuple[ast.Lambda, str]]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Lambda):
            yield node, ast.get_source_segment(text, node) or ""


def rules_text(op: Any, needs: Sequence[bool]) -> str:
    """The derivative rules of an op for the inputs that need one, a line each."""
    rules = getattr(op, "rules", None)
    if rules is None:  # a user's Function has its backward instead
        return function_text(op.cls.backward) if hasattr(op, "cls") else ""
    lines = [f"all inputs: {_rule_text(rules['all'])}"] if "all" in rules else []
    for j, need in enumerate(needs):
        name = op.inputs[min(j, len(op.inputs) - 1)]  # a list of inputs has one rule
        if need and name in rules:
            lines.append(f"{name}: {_rule_text(rules[name])}")
    return "\n".join(dict.fromkeys(lines))


def _rule_text(rule: Any) -> str:
    """One rule: as it was written, or as it was derived from the op's formula."""
    return function_text(rule.fn) if rule.derived is None else str(rule.derived)


def kernel_text(op: Any, needs: Sequence[bool]) -> str:
    """What computes an op: its generated loops, or the function over arrays that was written for it."""
    generated = getattr(op, "loops_text", None)
    if generated is not None:
        return str(generated(tuple(needs)))
    for name in ("forward", "pieces"):
        if hasattr(op, name):
            return function_text(getattr(op, name))
    return function_text(op.cls.forward) if hasattr(op, "cls") else ""
