"""Functions of functions: vector-Jacobian and Jacobian-vector products, Jacobians and Hessians."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..engine import grad
from ..modes import enable_grad
from ..ops.shape import reshape, stack
from ..tape import Value
from ..tensor import Tensor


def _tuple(x: Any, name: str, where: str) -> tuple[bool, tuple[Any, ...]]:
    """Whether x was a tuple, and x as a tuple of tensors."""
    was = isinstance(x, tuple)
    items = x if was else (x,)
    for j, item in enumerate(items):
        if not isinstance(item, Value):
            raise TypeError(
                f"The {where} given to {name} must be either a Tensor or a tuple of Tensors but the value at index {j} has type {type(item).__name__}."
            )
    return was, tuple(items)


def _inputs(inputs: tuple[Any, ...], create_graph: bool) -> tuple[Any, ...]:
    """Inputs that are recorded: cut from their past unless that is to be differentiated too."""
    made = []
    for x in inputs:
        if create_graph:
            made.append(x.view_as(x) if x.requires_grad else x.detach().requires_grad_())
        else:
            made.append(x.detach().requires_grad_())
    return tuple(made)


def _outputs(result: Any, name: str, strict: bool) -> tuple[bool, tuple[Any, ...]]:
    was, outputs = _tuple(result, name, "outputs of the user-provided function")
    if strict:
        for j, o in enumerate(outputs):
            if not o.requires_grad:
                raise RuntimeError(
                    f"Output {j} of the user-provided function does not require gradients. The outputs must be computed in a differentiable manner from the input when running in strict mode."
                )
    return was, outputs


def _zeros(x: Any) -> Any:
    return Tensor._make(np.zeros(x._array.shape, x._array.dtype))


def _grads(
    outputs: Any, inputs: Any, weights: Any, create_graph: bool, strict: bool, name: str, retain: bool = True
) -> tuple[Any, ...]:
    live = [(o, w) for o, w in zip(outputs, weights, strict=True) if o.requires_grad]
    if not live:
        return tuple(_zeros(x) for x in inputs)
    found = grad(
        [o for o, _ in live],
        list(inputs),
        [w for _, w in live],
        retain_graph=retain,
        create_graph=create_graph,
        allow_unused=True,
    )
    for j, g in enumerate(found):
        if strict and g is None:
            raise RuntimeError(
                f"{name}: The output of the user-provided function is independent of input {j}. This is not allowed in strict mode."
            )
    return tuple(_zeros(x) if g is None else g for g, x in zip(found, inputs, strict=True))


def _weights(v: Any, like: tuple[Any, ...], name: str) -> tuple[Any, ...]:
    if v is None:
        if len(like) != 1 or like[0]._array.size != 1:
            raise RuntimeError(
                f"The vector v can only be None if the user-provided function ({name}) has a single element."
            )
        return (Tensor._make(np.ones(like[0]._array.shape, like[0]._array.dtype)),)
    _, items = _tuple(v, name, "v")
    if len(items) != len(like) or any(
        a._array.shape != b._array.shape for a, b in zip(items, like, strict=True)
    ):
        raise RuntimeError(
            f"{name}: v has invalid size: should be {[list(x._array.shape) for x in like]} but got {[list(x._array.shape) for x in items]}"
        )
    return items


def _final(items: tuple[Any, ...], create_graph: bool, was_tuple: bool) -> Any:
    if not create_graph:
        items = tuple(x.detach() for x in items)
    return items if was_tuple else items[0]


def vjp(
    func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """``(func(inputs), v^T J)``."""
    with enable_grad():
        many, given = _tuple(inputs, "vjp", "inputs")
        xs = _inputs(given, create_graph)
        many_out, outputs = _outputs(func(*xs), "vjp", strict)
        found = _grads(outputs, xs, _weights(v, outputs, "vjp"), create_graph, strict, "vjp")
    return _final(outputs, create_graph, many_out), _final(found, create_graph, many)


def jvp(
    func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """``(func(inputs), J v)``, by differentiating the vector-Jacobian product, which is linear in its weights."""
    with enable_grad():
        _, given = _tuple(inputs, "jvp", "inputs")
        directions = _weights(v, given, "jvp") if v is not None else _weights(None, given, "jvp")
        xs = _inputs(given, create_graph)
        many_out, outputs = _outputs(func(*xs), "jvp", strict)
        dummies = tuple(_zeros(o).requires_grad_() for o in outputs)
        pulled = _grads(outputs, xs, dummies, True, strict, "jvp")
        found = _grads(pulled, dummies, directions, create_graph, False, "jvp")
    return _final(outputs, create_graph, many_out), _final(found, create_graph, many_out)


def jacobian(
    func: Callable[..., Any],
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:
    """All partial derivatives: for each output and input a tensor of shape output.shape + input.shape."""
    if strategy not in ("reverse-mode", "forward-mode"):
        raise RuntimeError(f"jacobian: unknown strategy {strategy!r}")
    if strategy == "forward-mode":
        raise RuntimeError(
            "jacobian: tapegrad computes Jacobians in reverse mode only; use strategy='reverse-mode'"
        )
    with enable_grad():
        many, given = _tuple(inputs, "jacobian", "inputs")
        xs = _inputs(given, create_graph)
        many_out, outputs = _outputs(func(*xs), "jacobian", strict)
        rows = tuple(_jacobian_rows(o, xs, create_graph, strict) for o in outputs)
    if not create_graph:
        rows = tuple(tuple(x.detach() for x in row) for row in rows)
    if not many:
        flat = tuple(row[0] for row in rows)
        return flat if many_out else flat[0]
    return rows if many_out else rows[0]


def _jacobian_rows(output: Any, xs: tuple[Any, ...], create_graph: bool, strict: bool) -> tuple[Any, ...]:
    shape = output._array.shape
    columns: list[list[Any]] = [[] for _ in xs]
    for position in np.ndindex(shape):
        weight = np.zeros(shape, output._array.dtype)
        weight[position] = 1
        found = _grads((output,), xs, (Tensor._make(weight),), create_graph, strict, "jacobian")
        for column, g in zip(columns, found, strict=True):
            column.append(g)
    return tuple(
        reshape(stack(c), (*shape, *x._array.shape))
        if c
        else Tensor._make(np.zeros((*shape, *x._array.shape), x._array.dtype))
        for c, x in zip(columns, xs, strict=True)
    )


def _scalar(func: Callable[..., Any], name: str) -> Callable[..., Any]:
    def run(*xs: Any) -> Any:
        result = func(*xs)
        if not isinstance(result, Value) or result._array.size != 1:
            raise RuntimeError(
                f"The function given to {name} must return a single Tensor with a single element"
            )
        return result.reshape(())  # type: ignore[attr-defined]

    return run


def hessian(
    func: Callable[..., Any],
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:
    """All second partial derivatives of a function with one output element."""
    many, given = _tuple(inputs, "hessian", "inputs")
    scalar = _scalar(func, "hessian")

    def gradient(*xs: Any) -> Any:
        found = jacobian(scalar, tuple(xs), create_graph=True, strict=strict)
        return tuple(found)

    result = jacobian(
        gradient, given, create_graph=create_graph, strict=strict, strategy=outer_jacobian_strategy
    )
    return result if many else result[0][0]


def vhp(
    func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """``(func(inputs), v^T H)`` for a function with one output element."""
    with enable_grad():
        many, given = _tuple(inputs, "vhp", "inputs")
        weights = _weights(v, given, "vhp")
        xs = _inputs(given, create_graph)
        output = _scalar(func, "vhp")(*xs)
        first = _grads((output,), xs, (_zeros(output) + 1,), True, strict, "vhp")
        found = _grads(first, xs, weights, create_graph, strict, "vhp")
    return _final((output,), create_graph, False), _final(found, create_graph, many)


def hvp(
    func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """``(func(inputs), H v)`` for a function with one output element; the Hessian is symmetric, so this is vhp."""
    return vhp(func, inputs, v, create_graph, strict)
