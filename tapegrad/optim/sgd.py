"""Stochastic gradient descent."""

from __future__ import annotations

from typing import Any

from .fused import FusedOptimizer, Runner, like, not_negative, number, one_element


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
        momentum = group["momentum"]
        sign = -1.0 if group["maximize"] else 1.0
        numbers = [number(group["lr"]), number(group["weight_decay"]), sign]
        if momentum == 0:
            run = Runner("sgd", 2, mark, numbers)
            for param in group["params"]:
                if param._grad is not None:
                    run(param, ())
            return
        numbers += [momentum, 1 - group["dampening"], float(group["nesterov"])]
        go_on = Runner("sgd_momentum", 3, mark, numbers, flags=(0,))
        start = Runner("sgd_momentum", 3, mark, numbers, flags=(1,))
        states = self.state
        for param in group["params"]:
            if param._grad is None:
                continue
            state = states[param]
            buffer = state.get("momentum_buffer")
            if buffer is None:
                buffer = state["momentum_buffer"] = like(param)
                start(param, (buffer,))
            else:
                go_on(param, (buffer,))
