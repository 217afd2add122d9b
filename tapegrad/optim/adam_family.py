"""NAdam, RAdam and Adamax: relatives of Adam."""

from __future__ import annotations

import math
from typing import Any

from ..tensor import Tensor
from .fused import (
    FusedOptimizer,
    Rule,
    check_betas,
    counter,
    like,
    not_negative,
    number,
    one_element,
)


def _check(lr: Any, betas: tuple[float, float], eps: float, weight_decay: float) -> None:
    one_element("lr", lr)
    not_negative("Invalid learning rate", lr)
    not_negative("Invalid epsilon value", eps)
    check_betas(betas)
    not_negative("Invalid weight_decay value", weight_decay)


def _moments(group: dict[str, Any]) -> list[float]:
    beta1, beta2 = group["betas"]
    return [1 - beta1, beta2, 1 - beta2]


def _decay(group: dict[str, Any]) -> tuple[float, float, float]:
    """What is added to the gradient, its sign, and what the parameter is multiplied by."""
    decay = group["weight_decay"]
    sign = -1.0 if group["maximize"] else 1.0
    if group.get("decoupled_weight_decay"):
        return 0.0, sign, 1 - number(group["lr"]) * decay
    return decay, sign, 1.0


class NAdam(FusedOptimizer):
    """Adam with Nesterov momentum. State: "step", "mu_product", "exp_avg", "exp_avg_sq"."""

    def __init__(
        self,
        params: Any,
        lr: Any = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum_decay: float = 4e-3,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        _check(lr, betas, eps, weight_decay)
        not_negative("Invalid momentum_decay value", momentum_decay)
        super().__init__(
            params,
            {
                "lr": lr,
                "betas": betas,
                "eps": eps,
                "weight_decay": weight_decay,
                "momentum_decay": momentum_decay,
                "decoupled_weight_decay": decoupled_weight_decay,
                "maximize": maximize,
                "foreach": foreach,
                "capturable": capturable,
                "differentiable": differentiable,
            },
        )

    def _start(self, state: dict[str, Any], param: Tensor, group: dict[str, Any]) -> None:
        state["step"] = counter()
        state["mu_product"] = counter(1.0)
        state["exp_avg"] = like(param)
        state["exp_avg_sq"] = like(param)

    def _update(self, group: dict[str, Any], mark: tuple[str, Any]) -> None:
        lr = number(group["lr"])
        beta1, beta2 = group["betas"]
        decay, sign, shrink = _decay(group)
        fixed = [decay, sign, *_moments(group)]

        def momentum(count: float) -> float:
            return beta1 * (1.0 - 0.5 * 0.96 ** (count * group["momentum_decay"]))  # type: ignore[no-any-return]

        # Parameters mostly have the same past, and then the same numbers.
        known: dict[tuple[float, ...], tuple[float, list[float]]] = {}

        def numbers(count: float, state: dict[str, Any]) -> list[float]:
            array = state["mu_product"]._array
            past = (count, array.item(), array.itemsize)
            if past in known:
                product, found = known[past]
                array.fill(product)
                return found
            mu, mu_next = momentum(count), momentum(count + 1)
            array *= mu
            product = array.item()
            rates = lr * (1 - mu) / (1 - product), lr * mu_next / (1 - product * mu_next)
            found = [rates[0], *fixed, 1 - beta2**count, group["eps"], shrink, rates[1]]
            known[past] = product, found
            return found

        rule = Rule("nadam", ("exp_avg", "exp_avg_sq"), numbers, shared=False)
        self._step(group["params"], group, mark, rule)


class RAdam(FusedOptimizer):
    """Adam that takes plain momentum steps until its second moment can be trusted."""

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        _check(lr, betas, eps, weight_decay)
        super().__init__(
            params,
            {
                "lr": lr,
                "betas": betas,
                "eps": eps,
                "weight_decay": weight_decay,
                "maximize": maximize,
                "foreach": foreach,
                "capturable": capturable,
                "decoupled_weight_decay": decoupled_weight_decay,
                "differentiable": differentiable,
            },
        )

    def _start(self, state: dict[str, Any], param: Tensor, group: dict[str, Any]) -> None:
        state["step"] = counter()
        state["exp_avg"] = like(param)
        state["exp_avg_sq"] = like(param)

    def _update(self, group: dict[str, Any], mark: tuple[str, Any]) -> None:
        rule = Rule("radam", ("exp_avg", "exp_avg_sq"), lambda count, _: _radam_numbers(group, count))
        self._step(group["params"], group, mark, rule)


def _radam_numbers(group: dict[str, Any], count: float) -> list[float]:
    beta1, beta2 = group["betas"]
    decay, sign, shrink = _decay(group)
    rate = number(group["lr"]) / (1 - beta1**count)
    correction = 1 - beta2**count
    longest = 2 / (1 - beta2) - 1
    # Length of the simple moving average that the exponential one stands for.
    length = longest - 2 * count * beta2**count / correction
    rectified = length > 5.0
    if rectified:
        rate *= math.sqrt(correction) * math.sqrt(
            (length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length)
        )
    return [rate, decay, sign, *_moments(group), float(rectified), group["eps"], shrink]


class Adamax(FusedOptimizer):
    """Adam with the infinity norm in place of the second moment. State: "step", "exp_avg", "exp_inf"."""

    def __init__(
        self,
        params: Any,
        lr: Any = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        _check(lr, betas, eps, weight_decay)
        super().__init__(
            params,
            {
                "lr": lr,
                "betas": betas,
                "eps": eps,
                "weight_decay": weight_decay,
                "foreach": foreach,
                "maximize": maximize,
                "differentiable": differentiable,
                "capturable": capturable,
            },
        )

    def _start(self, state: dict[str, Any], param: Tensor, group: dict[str, Any]) -> None:
        state["step"] = counter()
        state["exp_avg"] = like(param)
        state["exp_inf"] = like(param)

    def _update(self, group: dict[str, Any], mark: tuple[str, Any]) -> None:
        beta1, beta2 = group["betas"]
        decay, sign, _ = _decay(group)
        lr = number(group["lr"])

        def numbers(count: float, state: dict[str, Any]) -> list[float]:
            return [lr / (1 - beta1**count), decay, sign, 1 - beta1, beta2, group["eps"]]

        self._step(group["params"], group, mark, Rule("adamax", ("exp_avg", "exp_inf"), numbers))
