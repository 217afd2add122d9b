"""Formulas for one number, written down as source text.

An elementwise operation is a Python function of single numbers, for example
``lambda x: x / (1 + abs(x))``. To emit a loop for it, the function is called with :class:`Scalar`
objects: each arithmetic operator writes one assignment and returns the Scalar that names it.
For float32 the example gives::

    t0 = abs(x)
    t1 = f4(1) + t0
    t2 = x / t1

Writing text settles two things that calling the formula from compiled code would not: literals get
the type of their partner (a Python literal widens float32 to float64, at four times the
cost), and equal subexpressions are computed once, also across the several outputs of a derivative.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

# Names of the element types in emitted text, by NumPy character.
TYPE_NAMES = {"?": "b1", "b": "i1", "h": "i2", "i": "i4", "l": "i8", "B": "u1", "f": "f4", "d": "f8"}
TYPES: dict[str, Any] = {name: np.dtype(char).type for char, name in TYPE_NAMES.items()}
_RANK = "?Bbhilfd"


class Emitter:
    """Collects assignments; equal right-hand sides share one name."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.calls: set[str] = set()
        self._names: dict[str, str] = {}

    def assign(self, text: str, char: str) -> Scalar:
        name = self._names.get(text)
        if name is None:
            name = self._names[text] = f"t{len(self.lines)}"
            self.lines.append(f"{name} = {text}")
        return Scalar(self, name, char)

    def call(self, function: str, args: tuple[Any, ...]) -> Scalar:
        """A call of a device function from scalar.py, named ``function_f4`` or ``_f8``."""
        first = next(a for a in args if type(a) is Scalar)
        char = first.char if first.char in "fd" else "d"
        full = f"{function}_{TYPE_NAMES[char]}"
        self.calls.add(full)
        texts = ", ".join(self.operand(a, char) for a in args)
        return self.assign(f"{full}({texts})", "?" if function.startswith("is") else char)

    def operand(self, value: Any, char: str) -> str:
        """Text of an operand converted to a type."""
        if type(value) is Scalar:
            if value.char == char:
                return value.text
            return f"{TYPE_NAMES[char]}({value.text})"
        return literal(value, char)


def literal(value: Any, char: str) -> str:
    """A Python number as a typed constant."""
    if char == "?":
        return repr(bool(value))
    if char in "fd":
        number = float(value)
        text = repr(number) if np.isfinite(number) else f"'{number}'"
        if text.startswith("'"):
            text = {"inf": "INF", "-inf": "-INF"}.get(str(number), "NAN")
        return f"{TYPE_NAMES[char]}({text})"
    return f"{TYPE_NAMES[char]}({int(value)})"


def _wider(a: Any, b: Any) -> str:
    """The type in which two operands meet; a number takes the type of the Scalar."""
    chars = [x.char for x in (a, b) if type(x) is Scalar]
    char = max(chars, key=_RANK.index)
    if char == "?" and not all(type(x) is Scalar or isinstance(x, bool) for x in (a, b)):
        char = "l"
    if char not in "fd" and any(isinstance(x, float) for x in (a, b)):
        char = "d"
    return char


class Scalar:
    """A number that is being computed by the emitted text."""

    __slots__ = ("char", "emitter", "text")

    def __init__(self, emitter: Emitter, text: str, char: str) -> None:
        self.emitter = emitter
        self.text = text
        self.char = char

    def _binary(self, symbol: str, left: Any, right: Any, result: str | None = None) -> Scalar:
        char = _wider(left, right)
        out = self.emitter
        text = f"{out.operand(left, char)} {symbol} {out.operand(right, char)}"
        # Small integers are widened by numba's arithmetic; the cast wraps them around as NumPy does.
        if result is None and char in "bhiBl" and char != "l":
            text = f"{TYPE_NAMES[char]}({text})"
        return out.assign(text, result or char)

    def __add__(self, other: Any) -> Scalar:
        return self._binary("+", self, other)

    def __radd__(self, other: Any) -> Scalar:
        return self._binary("+", other, self)

    def __sub__(self, other: Any) -> Scalar:
        return self._binary("-", self, other)

    def __rsub__(self, other: Any) -> Scalar:
        return self._binary("-", other, self)

    def __mul__(self, other: Any) -> Scalar:
        return self._binary("*", self, other)

    def __rmul__(self, other: Any) -> Scalar:
        return self._binary("*", other, self)

    def __truediv__(self, other: Any) -> Scalar:
        return self._binary("/", self, other)

    def __rtruediv__(self, other: Any) -> Scalar:
        return self._binary("/", other, self)

    def __floordiv__(self, other: Any) -> Scalar:
        return self._binary("//", self, other)

    def __rfloordiv__(self, other: Any) -> Scalar:
        return self._binary("//", other, self)

    def __mod__(self, other: Any) -> Scalar:
        return self._binary("%", self, other)

    def __rmod__(self, other: Any) -> Scalar:
        return self._binary("%", other, self)

    def __pow__(self, other: Any) -> Scalar:
        return power(self, other)

    def __rpow__(self, other: Any) -> Scalar:
        return power(other, self)

    def __neg__(self) -> Scalar:
        text = f"-{self.text}"
        if self.char in "bhiB":
            text = f"{TYPE_NAMES[self.char]}({text})"
        return self.emitter.assign(text, self.char)

    def __abs__(self) -> Scalar:
        return self.emitter.assign(f"abs({self.text})", self.char) if self.char not in "?B" else self

    def __lt__(self, other: Any) -> Scalar:
        return self._binary("<", self, other, "?")

    def __le__(self, other: Any) -> Scalar:
        return self._binary("<=", self, other, "?")

    def __gt__(self, other: Any) -> Scalar:
        return self._binary(">", self, other, "?")

    def __ge__(self, other: Any) -> Scalar:
        return self._binary(">=", self, other, "?")

    def __eq__(self, other: Any) -> Scalar:  # type: ignore[override]
        return self._binary("==", self, other, "?")

    def __ne__(self, other: Any) -> Scalar:  # type: ignore[override]
        return self._binary("!=", self, other, "?")

    __hash__ = None  # type: ignore[assignment]

    def __and__(self, other: Any) -> Scalar:
        return self._binary("&", self, other)

    def __or__(self, other: Any) -> Scalar:
        return self._binary("|", self, other)

    def __xor__(self, other: Any) -> Scalar:
        return self._binary("^", self, other)

    def __lshift__(self, other: Any) -> Scalar:
        return self._binary("<<", self, other)

    def __rshift__(self, other: Any) -> Scalar:
        return self._binary(">>", self, other)

    def __invert__(self) -> Scalar:
        return self.emitter.assign(f"not {self.text}" if self.char == "?" else f"~{self.text}", self.char)

    def __bool__(self) -> bool:
        raise TypeError(
            "a formula for one number was asked for a truth value (if, and, or, not, min, max): both branches "
            "are computed, so write tapegrad.where(condition, a, b), &, | and ~"
        )

    def __float__(self) -> float:
        raise TypeError(
            "a formula for one number called a function of plain Python numbers (math.*?): use the functions of "
            "tapegrad, e.g. tapegrad.sin"
        )

    __int__ = __index__ = __float__  # type: ignore[assignment]


def select(condition: Scalar, a: Any, b: Any) -> Scalar:
    """a where the condition holds, else b; no branch in the loop."""
    if type(a) is Scalar or type(b) is Scalar:
        char = _wider(a, b)
    else:
        char = "d" if isinstance(a, float) or isinstance(b, float) else "l"
    out = condition.emitter
    test = condition if condition.char == "?" else condition != 0
    return out.assign(f"{out.operand(a, char)} if {test.text} else {out.operand(b, char)}", char)


def cast(x: Any, like: Scalar) -> Any:
    """x in the type of another Scalar."""
    if type(x) is Scalar and x.char != like.char:
        return x.emitter.assign(x.emitter.operand(x, like.char), like.char)
    return x


def constant(value: float, like: Scalar) -> Scalar:
    """A number in the type of a Scalar."""
    return like.emitter.assign(literal(value, like.char), like.char)


def function(name: str) -> Callable[..., Scalar]:
    """The device function of scalar.py of that name, for use in formulas."""

    def call(*args: Any) -> Scalar:
        first = next(a for a in args if type(a) is Scalar)
        return first.emitter.call(name, args)

    call.__name__ = name
    return call


def power(x: Any, y: Any) -> Scalar:
    """x to the power y."""
    first = x if type(x) is Scalar else y
    return first.emitter.call("pow", (x, y))
