"""Optimizers that treat a parameter as a matrix: Adafactor and Muon."""

from __future__ import annotations

import math
from typing import Any

from .. import dtypes
from ..modes import no_grad
from ..tensor import Tensor
from .fused import FusedOptimizer, counted, counter, number, one_element


class Adafactor(FusedOptimizer):
    """Adaptive steps whose second moments are kept as a row and a column per matrix.

    Noam Shazeer and Mitchell Stern, arXiv:1804.04235. ``lr`` bounds the relative step size rho_t = min(lr,
    1/sqrt(t)). ``eps`` holds the least second moment's root (None: the dtype's epsilon) and the least scale
    of a parameter, ``d`` the root mean square at which an update is clipped. State: "step", and "row_var",
    "col_var", or "variance" for vectors.
    """

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-2,
        beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3),
        d: float = 1.0,
        weight_decay: float = 0.0,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
    ) -> None:
        one_element("lr", lr)
        _at_least("Learning rate", lr)
        if not beta2_decay <= 0.0:
            raise ValueError(f"beta2_decay should be <= 0 but is: {beta2_decay}")
        if eps[0] is not None:
            _at_least("epsilon1", eps[0])
        _at_least("epsilon2", eps[1])
        if not d >= 1.0:
            raise ValueError(f"Clipping threshold d should be >= 1 but is: {d}")
        _at_least("weight_decay", weight_decay)
        super().__init__(
            params,
            {
                "lr": lr,
                "beta2_decay": beta2_decay,
                "eps": eps,
                "d": d,
                "weight_decay": weight_decay,
                "foreach": foreach,
                "maximize": maximize,
            },
        )

    @no_grad()
    def _update(self, group: dict[str, Any], mark: tuple[str, Any]) -> None:
        lr = number(group["lr"])
        for param in group["params"]:
            if param.grad is None:
                continue
            grad = -param.grad if group["maximize"] else param.grad
            state = self.state[param]
            if not state:
                self._start(state, param, group)
            count = counted(state)
            eps1, eps2 = group["eps"]
            if eps1 is None:
                eps1 = dtypes.finfo(param.dtype).eps
            size = param.norm(2) / math.sqrt(param.numel())
            rate = size.clamp(min=eps2) * min(lr, 1 / math.sqrt(count))
            if group["weight_decay"]:
                param.mul_(1 - lr * group["weight_decay"])
            estimate = self._second_moment(state, grad, count ** group["beta2_decay"], eps1)
            update = estimate.clamp_(min=eps1 * eps1).rsqrt_().mul_(grad)
            excess = update.norm(2) / (math.sqrt(update.numel()) * group["d"])
            param.sub_(update * (rate / excess.clamp(min=1.0)))

    def _start(self, state: dict[str, Any], param: Tensor, group: dict[str, Any]) -> None:
        state["step"] = counter()
        if param.dim() > 1:
            *lead, rows, columns = param.shape
            state["row_var"] = param.new_zeros((*lead, rows, 1))
            state["col_var"] = param.new_zeros((*lead, 1, columns))
        else:
            state["variance"] = param.new_zeros(param.shape)

    @staticmethod
    def _second_moment(state: dict[str, Any], grad: Tensor, weight: float, eps1: float) -> Any:
        """What stands for the running mean of grad^2: the product of its row and column means, scaled."""
        squared = grad * grad
        if "variance" in state:
            return state["variance"].lerp_(squared, weight).clone()
        rows = state["row_var"].lerp_(squared.mean(-1, keepdim=True), weight)
        columns = state["col_var"].lerp_(squared.mean(-2, keepdim=True), weight)
        return (rows @ columns).div_(rows.mean(-2, keepdim=True).clamp_(min=eps1))


class Muon(FusedOptimizer):
    """Momentum whose update is made orthogonal, for the matrices of hidden layers.

    Keller Jordan, "Muon: An optimizer for hidden layers in neural networks", 2024. A few Newton-Schulz steps
    X <- a X + (b G + c G G) X with G = X X^T bring all singular values near 1. They run in float32 (in
    PyTorch in bfloat16). ``adjust_lr_fn``: "original" scales by sqrt(max(1, rows / columns)),
    "match_rms_adamw" by 0.2 sqrt(max(rows, columns)). State: "momentum_buffer".
    """

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = (3.4445, -4.7750, 2.0315),
        eps: float = 1e-7,
        ns_steps: int = 5,
        adjust_lr_fn: str | None = None,
    ) -> None:
        one_element("lr", lr)
        _at_least("Learning rate", lr)
        _at_least("momentum", momentum)
        _at_least("weight decay", weight_decay)
        if adjust_lr_fn not in (None, "original", "match_rms_adamw"):
            raise ValueError(f"Adjust learning rate function {adjust_lr_fn} is not supported")
        super().__init__(
            params,
            {
                "lr": lr,
                "weight_decay": weight_decay,
                "momentum": momentum,
                "nesterov": nesterov,
                "ns_coefficients": ns_coefficients,
                "eps": eps,
                "ns_steps": ns_steps,
                "adjust_lr_fn": adjust_lr_fn,
            },
        )
        for group in self.param_groups:
            for param in group["params"]:
                if param.dim() != 2:
                    raise ValueError(
                        "Muon only supports 2D parameters whereas we found a parameter with size: "
                        f"{param.size()}; give the others to another optimizer, AdamW say"
                    )

    @no_grad()
    def _update(self, group: dict[str, Any], mark: tuple[str, Any]) -> None:
        lr, momentum = number(group["lr"]), group["momentum"]
        for param in group["params"]:
            if param.grad is None:
                continue
            state = self.state[param]
            if "momentum_buffer" not in state:
                state["momentum_buffer"] = param.grad.new_zeros(param.grad.shape)
            buffer = state["momentum_buffer"].lerp_(param.grad, 1 - momentum)
            update = param.grad.lerp(buffer, momentum) if group["nesterov"] else buffer
            update = _orthogonal(update, group["ns_coefficients"], group["ns_steps"], group["eps"])
            rows, columns = param.shape
            scale = math.sqrt(max(1, rows / columns))
            if group["adjust_lr_fn"] == "match_rms_adamw":
                scale = 0.2 * math.sqrt(max(rows, columns))
            param.mul_(1 - lr * group["weight_decay"])
            param.add_(update.to(param.dtype), alpha=-lr * scale)


def _orthogonal(x: Any, coefficients: tuple[float, ...], steps: int, eps: float) -> Any:
    """A matrix with the singular vectors of ``x`` and singular values near 1."""
    if steps >= 100:
        raise ValueError("Number of steps must be less than 100 for computational efficiency")
    if len(coefficients) != 3:
        raise ValueError("Coefficients must be a tuple of exactly 3 values")
    a, b, c = coefficients
    tall = x.shape[0] > x.shape[1]
    x = x.float()
    x = x.T if tall else x  # the smaller Gram matrix
    x = x / x.norm().clamp(min=eps)
    for _ in range(steps):
        gram = x @ x.T
        x = a * x + (b * gram + c * (gram @ gram)) @ x
    return x.T if tall else x


class SparseAdam:
    """Refused: there are no sparse gradients."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise RuntimeError(
            "SparseAdam is for sparse gradients, which tapegrad does not have (embeddings make dense ones): use Adam"
        )


def _at_least(what: str, value: Any) -> None:
    if not value >= 0.0:
        raise ValueError(f"{what} should be >= 0 but is: {value}")
