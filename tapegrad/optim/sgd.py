"""Stochastic gradient descent."""

from __future__ import annotations

from typing import Any

from ..tensor import Tensor
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

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for own in self.state.values():
            if own.get("momentum_buffer", self) is None:  # so PyTorch may say that there is none yet
                del own["momentum_buffer"]

    def _start(self, state: dict[str, Any], param: Tensor, group: dict[str, Any]) -> None:
        state["momentum_buffer"] = like(param)

    def _update(self, group: dict[str, Any], mark: tuple[str, Any]) -> None:
        params, momentum = group["params"], group["momentum"]
        numbers = [number(group["lr"]), number(group["weight_decay"]), -1.0 if group["maximize"] else 1.0]
        if momentum == 0:
            self._step(params, group, mark, Rule("sgd", (), lambda count, state: numbers, counted=False))
            return
        numbers += [momentum, 1 - group["dampening"], float(group["nesterov"])]
        first: list[Tensor] = []
        if group["dampening"]:  # the first gradient is taken whole; else a buffer of zeros comes to the same
            first = [p for p in params if p._grad is not None and "momentum_buffer" not in self.state[p]]
        chosen = set(first)
        for some, flag in ((first, 1), ([p for p in params if p not in chosen] if first else params, 0)):
            rule = Rule("sgd_momentum", ("momentum_buffer",), lambda *_: numbers, (flag,), counted=False)
            self._step(some, group, mark, rule)
