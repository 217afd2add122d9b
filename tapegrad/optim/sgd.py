"""Stochastic gradient descent."""

from __future__ import annotations

from typing import Any

from .fused import FusedOptimizer, Rule, like, not_negative, number, one_element


class SGD(FusedOptimizer):
    """Gradient descent, with momentum and weight decay if asked for.

    With momentum the state of a parameter is "momentum_buffer"; its first step takes the gradient whole.
    """

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: Any = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        one_element("lr", lr)
        not_negative("Invalid learning rate", lr)
        not_negative("Invalid momentum value", momentum)
        not_negative("Invalid weight_decay value", weight_decay)
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        super().__init__(
            params,
            {
                "lr": lr,
                "momentum": momentum,
                "dampening": dampening,
                "weight_decay": weight_decay,
                "nesterov": nesterov,
                "maximize": maximize,
                "foreach": foreach,
                "differentiable": differentiable,
                "fused": fused,
            },
        )

    def _update(self, group: dict[str, Any], mark: tuple[str, Any]) -> None:
        params, momentum = group["params"], group["momentum"]
        numbers = [number(group["lr"]), number(group["weight_decay"]), -1.0 if group["maximize"] else 1.0]
        if momentum == 0:
            self._step(params, group, mark, Rule("sgd", (), lambda count, state: numbers, counted=False))
            return
        numbers += [momentum, 1 - group["dampening"], float(group["nesterov"])]
        first = []
        for param in params:
            if param._grad is not None and self.state[param].get("momentum_buffer") is None:
                self.state[param]["momentum_buffer"] = like(param)
                first.append(param)
        known = [p for p in params if not any(p is q for q in first)] if first else params
        for chosen, flag in ((first, 1), (known, 0)):
            rule = Rule("sgd_momentum", ("momentum_buffer",), lambda *_: numbers, (flag,), counted=False)
            self._step(chosen, group, mark, rule)
