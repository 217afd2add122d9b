"""Checks for the exercises at the end of each notebook."""

from __future__ import annotations

import math
from typing import Any


def check(what: str, answer: Any, expected: Any, hint: str = "") -> None:
    """Say whether an answer is right; ``...`` means that there is none yet.

    ``expected`` is the right answer, or a function that tells whether one is right.
    """
    if answer is ...:
        print(f"{what}: not answered yet")
        return
    right = (
        expected(answer) if callable(expected) and not isinstance(expected, type) else same(answer, expected)
    )
    if not right:
        raise AssertionError(f"{what}: {answer!r} is not right. {hint}")
    print(f"{what}: right")


def same(a: Any, b: Any) -> bool:
    """Equality, for numbers up to rounding; tensors and arrays are compared as lists."""
    a, b = (x.tolist() if hasattr(x, "tolist") else x for x in (a, b))
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b))
    if isinstance(a, float) or isinstance(b, float):
        return math.isclose(a, b, rel_tol=1e-4, abs_tol=1e-6)
    return bool(a == b)
