"""L-BFGS, with an optional line search for the strong Wolfe conditions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..modes import enable_grad
from ..tape import site
from ..tensor import Tensor
from .fused import not_negative, number, one_element
from .optimizer import Optimizer
from .wolfe import Point, strong_wolfe


class LBFGS(Optimizer):
    """Quasi-Newton steps from the last ``history_size`` gradients, for full batches.

    One ``step(closure)`` does up to ``max_iter`` iterations and calls the closure up to ``max_eval``
    times (5/4 of max_iter unless given); it stops early once the largest gradient element is at most
    ``tolerance_grad``, or the function value or the parameters change by less than
    ``tolerance_change``. ``line_search_fn`` is None (steps of ``lr``) or "strong_wolfe". All parameters
    form one group.
    """

    def __init__(
        self,
        params: Any,
        lr: Any = 1,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:
        one_element("lr", lr)
        not_negative("Invalid learning rate", lr)
        if line_search_fn not in (None, "strong_wolfe"):
            raise RuntimeError(f"only 'strong_wolfe' is supported as line_search_fn, got {line_search_fn!r}")
        super().__init__(
            params,
            {
                "lr": lr,
                "max_iter": max_iter,
                "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
                "tolerance_grad": tolerance_grad,
                "tolerance_change": tolerance_change,
                "history_size": history_size,
                "line_search_fn": line_search_fn,
            },
        )
        if len(self.param_groups) != 1:
            raise ValueError("LBFGS doesn't support per-parameter options (parameter groups)")
        self._params: list[Tensor] = self.param_groups[0]["params"]

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Minimise; ``closure`` clears the gradients, computes the loss, calls backward and returns it."""
        if closure is None:
            raise TypeError(
                "LBFGS.step() needs a closure that computes the loss: it evaluates it several times"
            )
        group = self.param_groups[0]
        # All of the state is the first parameter's, so that load_state_dict converts it.
        state = self.state[self._params[0]]
        state.setdefault("func_evals", 0)
        state.setdefault("n_iter", 0)
        run = _Run(self._params, closure, group, state)
        loss = run.minimise()
        run.keep(state)
        return loss


class _Run:
    """One call of step: the function as one of a flat vector, and the history of its gradients."""

    def __init__(
        self, params: list[Tensor], closure: Callable[[], Any], group: dict[str, Any], state: dict[str, Any]
    ) -> None:
        self.params = params
        self.closure = closure
        self.group = group
        self.state = state
        self.mark = ("LBFGS.step", site())
        self.rate = number(group["lr"])
        self.direction: Any = _array(state.get("d"))
        self.t: float = number(state.get("t", 1.0))
        self.changes: list[np.ndarray] = [_array(v) for v in state.get("old_dirs") or ()]  # of the gradient
        self.moves: list[np.ndarray] = [_array(v) for v in state.get("old_stps") or ()]  # of the parameters
        self.inverse: list[float] = [number(v) for v in state.get("ro") or ()]
        self.scale: float = number(state.get("H_diag", 1.0))
        self.last_grad: Any = _array(state.get("prev_flat_grad"))
        self.last_loss: Any = state.get("prev_loss")

    def minimise(self) -> Any:
        """Iterate until a limit or a tolerance is met; the loss at the start."""
        group, state = self.group, self.state
        first_loss, loss, grad = self._evaluate()
        evaluations = 1
        state["func_evals"] += 1
        if self._flat(grad):
            return first_loss
        for n in range(1, group["max_iter"] + 1):
            state["n_iter"] += 1
            self._choose_direction(grad)
            self.last_grad, self.last_loss = grad, loss
            first = state["n_iter"] == 1
            self.t = min(1.0, 1.0 / float(np.abs(grad).sum())) * self.rate if first else self.rate
            slope = float(grad @ self.direction)
            if slope > -group["tolerance_change"]:
                break
            done = 0
            if group["line_search_fn"] is not None:
                best, done = self._search(loss, grad, slope, group["max_eval"] - evaluations)
                loss, grad, self.t = best.value, best.grad, best.t
                self._move(self.t)
            else:
                self._move(self.t)
                if n != group["max_iter"]:  # after the last iteration nobody needs the new value
                    _, loss, grad = self._evaluate()
                    done = 1
            evaluations += done
            state["func_evals"] += done
            if n == group["max_iter"] or evaluations >= group["max_eval"] or self._flat(grad):
                break
            small = group["tolerance_change"]
            if np.abs(self.direction * self.t).max() <= small or abs(loss - self.last_loss) < small:
                break
        return first_loss

    def keep(self, state: dict[str, Any]) -> None:
        """Put what the next step needs into the optimizer's state."""
        if self.direction is None:
            return
        state["d"] = Tensor._make(self.direction)
        state["t"] = self.t
        state["old_dirs"] = [Tensor._make(v) for v in self.changes]
        state["old_stps"] = [Tensor._make(v) for v in self.moves]
        state["ro"] = list(self.inverse)
        state["H_diag"] = self.scale
        state["prev_flat_grad"] = Tensor._make(self.last_grad)
        state["prev_loss"] = self.last_loss

    def _flat(self, grad: np.ndarray) -> bool:
        return bool(np.abs(grad).max() <= self.group["tolerance_grad"])

    def _choose_direction(self, grad: np.ndarray) -> None:
        """The gradient times minus the inverse Hessian that the history suggests (two-loop recursion)."""
        if self.state["n_iter"] == 1:
            self.direction = -grad
            self.changes, self.moves, self.inverse, self.scale = [], [], [], 1.0
            return
        change, move = grad - self.last_grad, self.direction * self.t
        curvature = float(change @ move)
        if curvature > 1e-10:
            if len(self.changes) == self.group["history_size"]:
                for history in (self.changes, self.moves, self.inverse):
                    history.pop(0)
            self.changes.append(change)
            self.moves.append(move)
            self.inverse.append(1.0 / curvature)
            self.scale = curvature / float(change @ change)
        q = -grad
        weights = []
        history_backwards = zip(
            reversed(self.changes), reversed(self.moves), reversed(self.inverse), strict=True
        )
        for change, move, inverse in history_backwards:
            weights.append(float(move @ q) * inverse)
            q -= weights[-1] * change
        q *= self.scale
        for change, move, inverse in zip(self.changes, self.moves, self.inverse, strict=True):
            q += (weights.pop() - float(change @ q) * inverse) * move
        self.direction = q

    # ---- the function of a flat vector

    def _evaluate(self) -> tuple[Any, float, np.ndarray]:
        with enable_grad():
            result = self.closure()
        parts = [
            np.zeros(p._array.size, p._array.dtype) if p._grad is None else p._grad._array.reshape(-1)
            for p in self.params
        ]
        return result, float(result), np.concatenate(parts)

    def _search(self, loss: float, grad: np.ndarray, slope: float, limit: int) -> tuple[Point, int]:
        start = [p._array.copy() for p in self.params]

        def at(t: float) -> Point:
            self._move(t)
            _, value, there = self._evaluate()
            self._write(start)
            return Point(t, value, there, float(there @ self.direction))

        reach = float(np.abs(self.direction).max())
        return strong_wolfe(at, Point(0.0, loss, grad, slope), self.t, reach, limit)

    def _move(self, t: float) -> None:
        """Add t times the direction to the parameters."""
        offset = 0
        moved = []
        for p in self.params:
            part = self.direction[offset : offset + p._array.size]
            moved.append(p._array + t * part.reshape(p._array.shape))
            offset += p._array.size
        self._write(moved)

    def _write(self, values: list[np.ndarray]) -> None:
        for p, value in zip(self.params, values, strict=True):
            p._array[...] = value
            p._version[0] += 1
            p._version[1] = self.mark


def _array(value: Any) -> Any:
    return value._array if isinstance(value, Tensor) else value
