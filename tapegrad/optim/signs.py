"""Rprop, which looks at the signs of gradients, and ASGD, which averages parameters."""

from __future__ import annotations

from typing import Any

from ..tensor import Tensor
from .fused import FusedOptimizer, Rule, counter, like, not_negative, number, one_element


class Rprop(FusedOptimizer):
    """Resilient backpropagation: a step size per element, which grows while the gradient keeps its sign.

    For full batches. State: "step", "prev", "step_size".
    """

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50),
        *,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        one_element("lr", lr)
        not_negative("Invalid learning rate", lr)
        if not 0.0 < etas[0] < 1.0 < etas[1]:
            raise ValueError(f"Invalid eta values: {etas[0]}, {etas[1]}")
        super().__init__(
            params,
            {
                "lr": lr,
                "etas": etas,
                "step_sizes": step_sizes,
                "foreach": foreach,
                "maximize": maximize,
                "differentiable": differentiable,
                "capturable": capturable,
            },
        )

    def _start(self, state: dict[str, Any], param: Tensor, group: dict[str, Any]) -> None:
        state["step"] = counter()
        state["prev"] = like(param)
        state["step_size"] = like(param, number(group["lr"]))

    def _update(self, group: dict[str, Any], mark: tuple[str, Any]) -> None:
        sign = -1.0 if group["maximize"] else 1.0
        numbers = [sign, *group["etas"], *group["step_sizes"], 0.0, 1.0]
        rule = Rule("rprop", ("prev", "step_size"), lambda count, state: numbers)
        self._step(group["params"], group, mark, rule)


class ASGD(FusedOptimizer):
    """Averaged stochastic gradient descent. State: "step", "eta", "mu", and the average "ax"."""

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-2,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        one_element("lr", lr)
        not_negative("Invalid learning rate", lr)
        not_negative("Invalid weight_decay value", weight_decay)
        super().__init__(
            params,
            {
                "lr": lr,
                "lambd": lambd,
                "alpha": alpha,
                "t0": t0,
                "weight_decay": weight_decay,
                "foreach": foreach,
                "maximize": maximize,
                "differentiable": differentiable,
                "capturable": capturable,
            },
        )

    def _start(self, state: dict[str, Any], param: Tensor, group: dict[str, Any]) -> None:
        state["step"] = counter()
        state["eta"] = counter(number(group["lr"]))
        state["mu"] = counter(1.0)
        state["ax"] = like(param)

    def _update(self, group: dict[str, Any], mark: tuple[str, Any]) -> None:
        lr, lambd = number(group["lr"]), group["lambd"]
        sign = -1.0 if group["maximize"] else 1.0

        # Parameters mostly have the same past, and then the same numbers.
        known: dict[tuple[float, float], list[float]] = {}

        def numbers(count: float, state: dict[str, Any]) -> list[float]:
            eta, mu = state["eta"]._array, state["mu"]._array
            rate, weight = eta.item(), mu.item()
            made = known.setdefault(
                (rate, weight), [rate, group["weight_decay"], sign, 1 - lambd * rate, weight]
            )
            # Those of the next step.
            eta.fill(lr / (1 + lambd * lr * count) ** group["alpha"])
            mu.fill(1 / max(1, count - group["t0"]))
            return made

        self._step(group["params"], group, mark, Rule("asgd", ("ax",), numbers, shared=False))
