"""Derivatives of formulas that come without rules.

The formula is called with :class:`Expr` objects, which note the ops that it applies instead of
computing. Reverse mode over that little graph, with the ops' own rules, gives expressions for
the cotangents. They are made of ops again, so they can be emitted as one fused kernel, recorded on the
tape, and derived once more.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from .op import Rule

_SIGNS = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "div": "/",
    "pow": "**",
    "lt": "<",
    "le": "<=",
    "gt": ">",
    "ge": ">=",
}


class Expr:
    """A symbol, or an op applied to symbols and numbers."""

    __slots__ = ("args", "name", "op", "params")

    # Arithmetic on symbols goes through the ops of these names; ops/elementwise.py fills them in.
    table: ClassVar[dict[str, Any]] = {}

    def __init__(self, op: Any, args: tuple[Any, ...], params: dict[str, Any], name: str = "") -> None:
        self.op = op
        self.args = args
        self.params = params
        self.name = name

    @classmethod
    def symbol(cls, name: str) -> Expr:
        return cls(None, (), {}, name)

    @classmethod
    def of(cls, op: Any, args: tuple[Any, ...], params: dict[str, Any]) -> Expr:
        return cls(op, args, params)

    def _apply(self, name: str, *args: Any) -> Expr:
        return Expr.of(Expr.table[name].op, args, {})

    def __add__(self, other: Any) -> Expr:
        return self._apply("add", self, other)

    def __radd__(self, other: Any) -> Expr:
        return self._apply("add", other, self)

    def __sub__(self, other: Any) -> Expr:
        return self._apply("sub", self, other)

    def __rsub__(self, other: Any) -> Expr:
        return self._apply("sub", other, self)

    def __mul__(self, other: Any) -> Expr:
        return self._apply("mul", self, other)

    def __rmul__(self, other: Any) -> Expr:
        return self._apply("mul", other, self)

    def __truediv__(self, other: Any) -> Expr:
        return self._apply("div", self, other)

    def __rtruediv__(self, other: Any) -> Expr:
        return self._apply("div", other, self)

    def __pow__(self, other: Any) -> Expr:
        return self._apply("pow", self, other)

    def __rpow__(self, other: Any) -> Expr:
        return self._apply("pow", other, self)

    def __mod__(self, other: Any) -> Expr:
        return self._apply("remainder", self, other)

    def __neg__(self) -> Expr:
        return self._apply("neg", self)

    def __abs__(self) -> Expr:
        return self._apply("abs", self)

    def __lt__(self, other: Any) -> Expr:
        return self._apply("lt", self, other)

    def __le__(self, other: Any) -> Expr:
        return self._apply("le", self, other)

    def __gt__(self, other: Any) -> Expr:
        return self._apply("gt", self, other)

    def __ge__(self, other: Any) -> Expr:
        return self._apply("ge", self, other)

    def __eq__(self, other: Any) -> Expr:  # type: ignore[override]
        return self._apply("eq", self, other)

    def __ne__(self, other: Any) -> Expr:  # type: ignore[override]
        return self._apply("ne", self, other)

    def __and__(self, other: Any) -> Expr:
        return self._apply("logical_and", self, other)

    def __or__(self, other: Any) -> Expr:
        return self._apply("logical_or", self, other)

    def __invert__(self) -> Expr:
        return self._apply("logical_not", self)

    def __hash__(self) -> int:
        return id(self)

    def __bool__(self) -> bool:
        raise TypeError(
            "the derivative of this formula is to be derived, but the formula asks for a truth value (if, and, or, min, max): "
            "write tapegrad.where(condition, a, b), or give the derivative"
        )

    def __float__(self) -> float:
        raise TypeError(
            "the derivative of this formula is to be derived, but the formula calls a function of plain Python numbers "
            "(math.*?): use the functions of tapegrad, e.g. tapegrad.sin, or give the derivative"
        )

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        name = {"absolute": "abs", "multiply": "mul", "subtract": "sub", "divide": "div", "power": "pow"}.get(
            ufunc.__name__, ufunc.__name__
        )
        if method != "__call__" or kwargs or name not in Expr.table:
            raise TypeError(
                f"numpy.{ufunc.__name__} cannot be used in a formula; use the functions of tapegrad"
            )
        return self._apply(name, *inputs)

    def __str__(self) -> str:
        """The expression as text; what is used more than once is named first."""
        order = self.order()
        uses: dict[int, int] = {}
        for node in order:
            for arg in node.args:
                uses[id(arg)] = uses.get(id(arg), 0) + 1
        text: dict[int, str] = {}
        named: list[str] = []
        for node in order:
            written = node._written(text)
            if node.op is not None and uses.get(id(node), 0) > 1:
                named.append(f"t{len(named)} = {written}")
                written = f"t{len(named) - 1}"
            text[id(node)] = written
        return "; ".join([*named, text[id(self)]])

    def _written(self, text: dict[int, str]) -> str:
        if self.op is None:
            return self.name
        args = [text[id(a)] if isinstance(a, Expr) else repr(a) for a in self.args]
        sign = _SIGNS.get(self.op.name)
        if sign is not None and len(args) == 2:
            return f"({args[0]} {sign} {args[1]})"
        args += [f"{k}={v.name if isinstance(v, Expr) else v!r}" for k, v in self.params.items()]
        return f"-{args[0]}" if self.op.name == "neg" else f"{self.op.name}({', '.join(args)})"

    # -- reverse mode -----------------------------------------------------------------------------

    def order(self) -> list[Expr]:
        """This expression and all below it, arguments first."""
        done: dict[int, Expr] = {}
        stack: list[tuple[Expr, bool]] = [(self, False)]
        while stack:
            node, ready = stack.pop()
            if id(node) in done:
                continue
            if ready:
                done[id(node)] = node
            else:
                stack.append((node, True))
                stack += [(a, False) for a in node.args if isinstance(a, Expr)]
        return list(done.values())

    def cotangents(self, g: Expr, inputs: list[Expr]) -> list[Any]:
        """Expressions for the cotangents of ``inputs``, None where there is no dependence."""
        order = self.order()
        depends = {id(x) for x in inputs}
        for node in order:
            if any(isinstance(a, Expr) and id(a) in depends for a in node.args):
                depends.add(id(node))
        total: dict[int, Any] = {id(self): g}
        for node in reversed(order):
            arriving = total.get(id(node))
            if arriving is None or node.op is None:
                continue
            given = {
                **dict(zip(node.op.inputs, node.args, strict=True)),
                **node.params,
                "out": node,
                "g": arriving,
            }
            for name, arg in zip(node.op.inputs, node.args, strict=True):
                if isinstance(arg, Expr) and id(arg) in depends and name in node.op.rules:
                    rule = node.op.rules[name]
                    part = rule.fn(*[given[n] for n in rule.names])
                    if part is not None:
                        had = total.get(id(arg))
                        total[id(arg)] = part if had is None else had + part
        return [total.get(id(x)) for x in inputs]

    def evaluate(self, given: dict[str, Any]) -> Any:
        """The expression's value with its symbols replaced, each op called once."""
        made: dict[int, Any] = {}
        for node in self.order():
            if node.op is None:
                made[id(node)] = given[node.name]
            else:
                args = [made[id(a)] if isinstance(a, Expr) else a for a in node.args]
                params = {k: made[id(v)] if isinstance(v, Expr) else v for k, v in node.params.items()}
                made[id(node)] = node.op.function(*args, **params)
        return made[id(self)]

    def symbols(self) -> set[str]:
        """Names of the symbols that the expression contains."""
        found = set()
        for node in self.order():
            if node.op is None:
                found.add(node.name)
            found |= {v.name for v in node.params.values() if isinstance(v, Expr) and v.op is None}
        return found


def derived_rules(
    formula: Callable[..., Any], inputs: tuple[str, ...], params: tuple[str, ...]
) -> dict[str, Any]:
    """A rule per input of a formula, by reverse mode over it."""
    symbols = {name: Expr.symbol(name) for name in (*inputs, *params)}
    result = formula(*[symbols[n] for n in inputs], **{n: symbols[n] for n in params})
    if isinstance(result, (bool, int, float)):
        return {}
    if not isinstance(result, Expr):
        raise TypeError(
            f"a formula must return one expression of its parameters, not {type(result).__name__}"
        )
    wanted = [symbols[n] for n in inputs]
    found = result.cotangents(Expr.symbol("g"), wanted)
    rules = {}
    for name, expression in zip(inputs, found, strict=True):
        if isinstance(expression, Expr):
            names = tuple(sorted(expression.symbols()))
            rules[name] = Rule(_evaluator(expression, names), names, expression)
    return rules


def _evaluator(expression: Expr, names: tuple[str, ...]) -> Callable[..., Any]:
    return lambda *values: expression.evaluate(dict(zip(names, values, strict=True)))
