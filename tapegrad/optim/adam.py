"""Adam and AdamW."""

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


class Adam(FusedOptimizer):
    """Adam; with ``amsgrad`` the denominator uses the largest second moment so far.

    ``weight_decay`` is added to the gradient (L2), or with ``decoupled_weight_decay`` shrinks the
    parameter directly, as AdamW does. State: "step", "exp_avg", "exp_avg_sq" (and "max_exp_avg_sq").
    """

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-3,
        betas: tuple[Any, Any] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:
        one_element("lr", lr)
        not_negative("Invalid learning rate", lr)
        not_negative("Invalid epsilon value", eps)
        check_betas(betas)
        not_negative("Invalid weight_decay value", weight_decay)
        if isinstance(betas[0], Tensor) != isinstance(betas[1], Tensor):
            raise ValueError("betas must be either both floats or both Tensors")
        for name, value in (("lr", lr), ("betas[0]", betas[0]), ("betas[1]", betas[1])):
            one_element(name, value)
            if foreach and isinstance(value, Tensor):
                raise ValueError(f"{name} as a Tensor is not supported for capturable=False and foreach=True")
        if isinstance(betas[0], Tensor):
            betas = (float(betas[0]), float(betas[1]))
        super().__init__(
            params,
            {
                "lr": lr,
                "betas": betas,
                "eps": eps,
                "weight_decay": weight_decay,
                "amsgrad": amsgrad,
                "maximize": maximize,
                "foreach": foreach,
                "capturable": capturable,
                "differentiable": differentiable,
                "fused": fused,
                "decoupled_weight_decay": decoupled_weight_decay,
            },
        )

    def _start(self, state: dict[str, Any], param: Tensor, group: dict[str, Any]) -> None:
        state["step"] = counter()
        state["exp_avg"] = like(param)
        state["exp_avg_sq"] = like(param)
        if group["amsgrad"]:
            state["max_exp_avg_sq"] = like(param)

    def _update(self, group: dict[str, Any], mark: tuple[str, Any]) -> None:
        names = ("exp_avg", "exp_avg_sq")
        if group["amsgrad"]:
            rule = Rule("adam_amsgrad", (*names, "max_exp_avg_sq"), lambda count, _: _numbers(group, count))
        else:
            rule = Rule("adam", names, lambda count, _: _numbers(group, count))
        self._step(group["params"], group, mark, rule)


def _numbers(group: dict[str, Any], count: float) -> list[float]:
    lr, decay = number(group["lr"]), group["weight_decay"]
    beta1, beta2 = number(group["betas"][0]), number(group["betas"][1])
    decoupled = group["decoupled_weight_decay"]
    return [
        lr / (1 - beta1**count),
        0.0 if decoupled else decay,
        -1.0 if group["maximize"] else 1.0,
        1 - beta1,
        beta2,
        1 - beta2,
        math.sqrt(1 - beta2**count),
        group["eps"],
        1 - lr * decay if decoupled else 1.0,
    ]


class AdamW(Adam):
    """Adam with decoupled weight decay: ``p *= 1 - lr * weight_decay`` apart from the gradient."""

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-3,
        betas: tuple[Any, Any] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        super().__init__(
            params,
            lr,
            betas,
            eps,
            weight_decay,
            amsgrad,
            foreach=foreach,
            maximize=maximize,
            capturable=capturable,
            differentiable=differentiable,
            fused=fused,
            decoupled_weight_decay=True,
        )

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            group["decoupled_weight_decay"] = True
