"""Adagrad, Adadelta and RMSprop: steps divided by a running size of the gradient."""

from __future__ import annotations

from typing import Any

from ..tensor import Tensor
from .fused import FusedOptimizer, Rule, counter, like, not_negative, number, one_element


def _sign(group: dict[str, Any]) -> float:
    return -1.0 if group["maximize"] else 1.0


class Adagrad(FusedOptimizer):
    """Divides by the root of the sum of all squared gradients. State (from the start): "step", "sum"."""

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-2,
        lr_decay: float = 0,
        weight_decay: float = 0,
        initial_accumulator_value: float = 0,
        eps: float = 1e-10,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        one_element("lr", lr)
        not_negative("Invalid learning rate", lr)
        not_negative("Invalid lr_decay value", lr_decay)
        not_negative("Invalid weight_decay value", weight_decay)
        not_negative("Invalid initial_accumulator_value value", initial_accumulator_value)
        not_negative("Invalid epsilon value", eps)
        super().__init__(
            params,
            {
                "lr": lr,
                "lr_decay": lr_decay,
                "eps": eps,
                "weight_decay": weight_decay,
                "initial_accumulator_value": initial_accumulator_value,
                "foreach": foreach,
                "maximize": maximize,
                "differentiable": differentiable,
                "fused": fused,
            },
        )
        for group in self.param_groups:
            for param in group["params"]:
                self._start(self.state[param], param, group)

    def _start(self, state: dict[str, Any], param: Tensor, group: dict[str, Any]) -> None:
        state["step"] = counter()
        # The optimizer's value, whatever a group says: so it is in PyTorch.
        state["sum"] = like(param, self.defaults["initial_accumulator_value"])

    def share_memory(self) -> None:
        """Refused: tensors live in the memory of one process."""
        raise RuntimeError("share_memory is not supported: tapegrad's tensors belong to one process")

    def _update(self, group: dict[str, Any], mark: tuple[str, Any]) -> None:
        lr = number(group["lr"])

        def numbers(count: float, state: dict[str, Any]) -> list[float]:
            rate = lr / (1 + (count - 1) * group["lr_decay"])
            return [rate, group["weight_decay"], _sign(group), group["eps"]]

        self._step(group["params"], group, mark, Rule("adagrad", ("sum",), numbers))


class Adadelta(FusedOptimizer):
    """Steps in units of earlier steps. State: "step", "square_avg", "acc_delta"."""

    def __init__(
        self,
        params: Any,
        lr: Any = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        capturable: bool = False,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        one_element("lr", lr)
        not_negative("Invalid learning rate", lr)
        if not 0.0 <= rho <= 1.0:
            raise ValueError(f"Invalid rho value: {rho}")
        not_negative("Invalid epsilon value", eps)
        not_negative("Invalid weight_decay value", weight_decay)
        super().__init__(
            params,
            {
                "lr": lr,
                "rho": rho,
                "eps": eps,
                "weight_decay": weight_decay,
                "maximize": maximize,
                "capturable": capturable,
                "foreach": foreach,
                "differentiable": differentiable,
            },
        )

    def _start(self, state: dict[str, Any], param: Tensor, group: dict[str, Any]) -> None:
        state["step"] = counter()
        state["square_avg"] = like(param)
        state["acc_delta"] = like(param)

    def _update(self, group: dict[str, Any], mark: tuple[str, Any]) -> None:
        rho = group["rho"]
        numbers = [number(group["lr"]), group["weight_decay"], _sign(group), rho, 1 - rho, group["eps"]]
        rule = Rule("adadelta", ("square_avg", "acc_delta"), lambda count, state: numbers)
        self._step(group["params"], group, mark, rule)


class RMSprop(FusedOptimizer):
    """Divides by a running root mean square of the gradient.

    ``centered`` subtracts the squared mean gradient. State: "step", "square_avg", with momentum
    "momentum_buffer", with centered "grad_avg".
    """

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        one_element("lr", lr)
        not_negative("Invalid learning rate", lr)
        not_negative("Invalid epsilon value", eps)
        not_negative("Invalid momentum value", momentum)
        not_negative("Invalid weight_decay value", weight_decay)
        not_negative("Invalid alpha value", alpha)
        super().__init__(
            params,
            {
                "lr": lr,
                "momentum": momentum,
                "alpha": alpha,
                "eps": eps,
                "centered": centered,
                "weight_decay": weight_decay,
                "capturable": capturable,
                "foreach": foreach,
                "maximize": maximize,
                "differentiable": differentiable,
            },
        )

    def _start(self, state: dict[str, Any], param: Tensor, group: dict[str, Any]) -> None:
        state["step"] = counter()
        state["square_avg"] = like(param)
        if group["momentum"] > 0:
            state["momentum_buffer"] = like(param)
        if group["centered"]:
            state["grad_avg"] = like(param)

    def _update(self, group: dict[str, Any], mark: tuple[str, Any]) -> None:
        alpha, momentum = group["alpha"], group["momentum"]
        numbers = [number(group["lr"]), group["weight_decay"], _sign(group), alpha, 1 - alpha]
        numbers += [group["eps"], momentum]
        # An array that the flags leave untouched is represented by another one.
        names = (
            "square_avg",
            "grad_avg" if group["centered"] else "square_avg",
            "momentum_buffer" if momentum > 0 else "square_avg",
        )
        flags = (int(group["centered"]), int(momentum > 0))
        rule = Rule("rmsprop", names, lambda count, state: numbers, flags)
        self._step(group["params"], group, mark, rule)
