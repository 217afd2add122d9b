"""gradcheck and gradgradcheck: derivatives against finite differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..engine import grad
from ..modes import enable_grad, no_grad
from ..tape import Value
from ..tensor import Tensor


class GradcheckError(RuntimeError):
    """A derivative differs from its finite difference."""


def _tuple(x: Any) -> tuple[Any, ...]:
    return tuple(x) if isinstance(x, (tuple, list)) else (x,)


def _differentiable(outputs: Any) -> list[Any]:
    return [o for o in _tuple(outputs) if isinstance(o, Value) and o.requires_grad]  # type: ignore[attr-defined]


def _numerical(
    fn: Callable[..., Any], inputs: tuple[Any, ...], j: int, eps: float, which: list[int]
) -> list[np.ndarray]:
    """Jacobians of the chosen outputs with respect to input j, by central differences: (inputs, outputs)."""
    x = inputs[j]
    flat = x._array.reshape(-1) if x._array.flags.c_contiguous else None
    columns: list[list[np.ndarray]] = [[] for _ in which]
    positions = list(np.ndindex(x._array.shape))
    for k, position in enumerate(positions):
        sides = []
        for sign in (1.0, -1.0):
            kept = x._array[position]
            with no_grad():
                if flat is not None:
                    flat[k] = kept + sign * eps
                else:
                    x._array[position] = kept + sign * eps
                outs = _tuple(fn(*inputs))
                sides.append([outs[w]._array.astype(np.float64).reshape(-1).copy() for w in which])
                x._array[position] = kept
        for column, up, down in zip(columns, *sides, strict=True):
            column.append((up - down) / (2 * eps))
    return [np.array(c).reshape(len(positions), -1) for c in columns]


def _analytical(output: Any, inputs: list[Any]) -> list[np.ndarray]:
    """Jacobians of one output with respect to all inputs by one replay per element: (inputs, outputs)."""
    shape = output._array.shape
    jacobians = [np.zeros((x._array.size, output._array.size)) for x in inputs]
    for k, position in enumerate(np.ndindex(shape)):
        g = np.zeros(shape, output._array.dtype)
        g[position] = 1
        found = grad(output, inputs, Tensor._make(g), retain_graph=True, allow_unused=True)
        for jacobian, x in zip(jacobians, found, strict=True):
            if x is not None:
                jacobian[:, k] = x._array.reshape(-1)
    return jacobians


def gradcheck(
    func: Callable[..., Any],
    inputs: Any,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    fast_mode: bool = False,
) -> bool:
    """Compare the gradients of ``func`` at ``inputs`` with central differences of step ``eps``.

    Inputs that require grad should be float64. Returns True; on a difference beyond
    ``atol + rtol * |numerical|`` raises GradcheckError (or returns False without ``raise_exception``).
    """
    given = _tuple(inputs)
    try:
        _check(func, given, eps, atol, rtol, nondet_tol)
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def _check(
    func: Callable[..., Any], given: tuple[Any, ...], eps: float, atol: float, rtol: float, nondet_tol: float
) -> None:
    places = [j for j, x in enumerate(given) if isinstance(x, Value) and x.requires_grad]  # type: ignore[attr-defined]
    if not places:
        raise ValueError(
            "gradcheck expects at least one input tensor to require gradient, but none of the them have requires_grad=True."
        )
    for j in places:
        array = given[j]._array
        if array.dtype.itemsize < 8:
            raise GradcheckError(
                f"gradcheck: input {j} is {array.dtype}; finite differences need float64. Use .double() inputs."
            )
        if (
            0 in array.strides
            and array.size > 1
            and any(s == 0 and n > 1 for s, n in zip(array.strides, array.shape, strict=True))
        ):
            raise RuntimeError(
                f"The {j}th input has a dimension with stride 0. gradcheck only supports inputs that are non-overlapping"
            )
    with enable_grad():
        outputs = _tuple(func(*given))
    which = [k for k, o in enumerate(outputs) if isinstance(o, Value) and o.requires_grad]  # type: ignore[attr-defined]
    targets = [given[j] for j in places]
    numerical = [_numerical(func, given, j, eps, which or _floating(outputs)) for j in places]
    if not which:
        for j, jacobians in zip(places, numerical, strict=True):
            if any(np.abs(n).max(initial=0) > atol for n in jacobians):
                raise GradcheckError(
                    f"Numerical gradient for input {j} expected to be zero, since no output requires grad"
                )
        return
    for k, w in enumerate(which):
        analytical = _analytical(outputs[w], targets)
        if nondet_tol == 0.0:
            again = _analytical(outputs[w], targets)
            if any(not np.array_equal(a, b, equal_nan=True) for a, b in zip(analytical, again, strict=True)):
                raise GradcheckError(
                    "Backward is not reentrant, i.e., running backward with same input and grad_output multiple times gives different values"
                )
        for i, j in enumerate(places):
            a, n = analytical[i], numerical[i][k]
            if not np.allclose(a, n, rtol, atol, equal_nan=True):
                raise GradcheckError(
                    f"Jacobian mismatch for output {w} with respect to input {j},\nnumerical:{n}\nanalytical:{a}\n"
                )


def _floating(outputs: tuple[Any, ...]) -> list[int]:
    return [k for k, o in enumerate(outputs) if isinstance(o, Value) and o._array.dtype.kind == "f"]


def gradgradcheck(
    func: Callable[..., Any],
    inputs: Any,
    grad_outputs: Any = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    gen_non_contig_grad_outputs: bool = False,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    fast_mode: bool = False,
) -> bool:
    """gradcheck of the gradient of ``func``: second derivatives against finite differences of first ones."""
    given = _tuple(inputs)
    with enable_grad():
        outputs = _differentiable(func(*given))
    if not outputs:
        raise ValueError("gradgradcheck: no output of func requires grad")
    if grad_outputs is None:
        random = np.random.default_rng(0)
        weights = [
            Tensor._make(random.standard_normal(o._array.shape).astype(o._array.dtype)).requires_grad_()
            for o in outputs
        ]
    else:
        weights = [
            w if w.requires_grad else w.detach().clone().requires_grad_() for w in _tuple(grad_outputs)
        ]
    count = len(given)
    places = [j for j, x in enumerate(given) if isinstance(x, Value) and x.requires_grad]  # type: ignore[attr-defined]

    def first(*everything: Any) -> tuple[Any, ...]:
        args, gs = everything[:count], everything[count:]
        with enable_grad():
            outs = _differentiable(func(*args))
            found = grad(outs, [args[j] for j in places], list(gs), create_graph=True, allow_unused=True)
        return tuple(f for f in found if f is not None)

    return gradcheck(
        first,
        (*given, *weights),
        eps=eps,
        atol=atol,
        rtol=rtol,
        raise_exception=raise_exception,
        nondet_tol=nondet_tol,
    )
