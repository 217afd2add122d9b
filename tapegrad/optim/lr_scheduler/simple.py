"""Schedules given by one formula."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from ..optimizer import Optimizer
from .base import Rate, Schedule, own_state

Factor = Callable[[int], float]


class _ByFunction(Schedule):
    """Rates from one function of the epoch for all groups, or from one per group."""

    def __init__(self, optimizer: Optimizer, lr_lambda: Factor | list[Factor], last_epoch: int = -1) -> None:
        self.optimizer = optimizer
        groups = len(optimizer.param_groups)
        if isinstance(lr_lambda, (list, tuple)):
            if len(lr_lambda) != groups:
                raise ValueError(f"Expected {groups} lr_lambdas, but got {len(lr_lambda)}")
            self.lr_lambdas = list(lr_lambda)
        else:
            self.lr_lambdas = [lr_lambda] * groups
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Rate]:
        """The rates for ``last_epoch``; called by ``step``."""
        known, groups = len(self.lr_lambdas), len(self.optimizer.param_groups)
        if known != groups:
            raise ValueError(
                f"{type(self).__name__} has {known} functions for {groups} parameter groups: after adding a group make "
                "a new schedule"
            )
        return super().get_lr()

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer; of the functions only callable objects, by their attributes."""
        state = super().state_dict()
        state["lr_lambdas"] = [own_state(fn) for fn in self.lr_lambdas]
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over a ``state_dict()``."""
        self.__dict__.update({k: v for k, v in state_dict.items() if k != "lr_lambdas"})
        for fn, saved in zip(self.lr_lambdas, state_dict["lr_lambdas"], strict=True):
            if saved is not None:
                fn.__dict__.update(saved)


class LambdaLR(_ByFunction):
    """The initial rate times a function of the epoch."""

    def _next(self, lr: Rate, base: Rate, index: int) -> Rate:
        return base * self.lr_lambdas[index](self.last_epoch)


class MultiplicativeLR(_ByFunction):
    """The last rate times a function of the epoch."""

    def _next(self, lr: Rate, base: Rate, index: int) -> Rate:
        return lr if self._is_initial else lr * self.lr_lambdas[index](self.last_epoch)


class _ByFormula(Schedule):
    """Also knows the rate of any epoch directly."""

    def _at(self, base: Rate) -> Rate:
        raise NotImplementedError

    def _get_closed_form_lr(self) -> list[Rate]:
        return [self._at(base) for base in self.base_lrs]


class StepLR(_ByFormula):
    """Times ``gamma`` every ``step_size`` epochs."""

    def __init__(
        self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.step_size = step_size
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def _next(self, lr: Rate, base: Rate, index: int) -> Rate:
        return lr if self.last_epoch == 0 or self.last_epoch % self.step_size != 0 else lr * self.gamma

    def _at(self, base: Rate) -> Rate:
        return base * self.gamma ** (self.last_epoch // self.step_size)


class MultiStepLR(_ByFormula):
    """Times ``gamma`` at each of the ``milestones``."""

    def __init__(
        self, optimizer: Optimizer, milestones: Iterable[int], gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.milestones = Counter(milestones)
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over a ``state_dict()``; milestones that come from a file are a plain dict."""
        super().load_state_dict(state_dict)
        self.milestones = Counter(self.milestones)

    def _next(self, lr: Rate, base: Rate, index: int) -> Rate:
        return (
            lr * self.gamma ** self.milestones[self.last_epoch] if self.last_epoch in self.milestones else lr
        )

    def _at(self, base: Rate) -> Rate:
        return base * self.gamma ** bisect_right(sorted(self.milestones.elements()), self.last_epoch)


class ConstantLR(_ByFormula):
    """Times ``factor`` for the first ``total_iters`` epochs."""

    def __init__(
        self, optimizer: Optimizer, factor: float = 1.0 / 3, total_iters: int = 5, last_epoch: int = -1
    ) -> None:
        if factor > 1.0 or factor < 0:
            raise ValueError("Constant multiplicative factor expected to be between 0 and 1.")
        self.factor = factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def _next(self, lr: Rate, base: Rate, index: int) -> Rate:
        if self.last_epoch == 0:
            return lr * self.factor
        return lr if self.last_epoch != self.total_iters else lr * (1.0 / self.factor)

    def _at(self, base: Rate) -> Rate:
        return base * (self.factor + (self.last_epoch >= self.total_iters) * (1 - self.factor))


class LinearLR(_ByFormula):
    """Times a factor that goes linearly from ``start_factor`` to ``end_factor`` in ``total_iters`` epochs."""

    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = 1.0 / 3,
        end_factor: float = 1.0,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        if start_factor > 1.0 or start_factor <= 0:
            raise ValueError(
                "Starting multiplicative factor expected to be greater than 0 and less or equal to 1."
            )
        if end_factor > 1.0 or end_factor < 0:
            raise ValueError("Ending multiplicative factor expected to be between 0 and 1.")
        self.start_factor = start_factor
        self.end_factor = end_factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def _next(self, lr: Rate, base: Rate, index: int) -> Rate:
        if self.last_epoch == 0:
            return lr * self.start_factor
        if self._is_initial or self.last_epoch > self.total_iters:
            return lr
        rise = self.end_factor - self.start_factor
        return lr * (1.0 + rise / (self.total_iters * self.start_factor + (self.last_epoch - 1) * rise))

    def _at(self, base: Rate) -> Rate:
        rise = self.end_factor - self.start_factor
        return base * (self.start_factor + rise * min(self.total_iters, self.last_epoch) / self.total_iters)


class ExponentialLR(_ByFormula):
    """Times ``gamma`` every epoch."""

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def _next(self, lr: Rate, base: Rate, index: int) -> Rate:
        return lr if self._is_initial else lr * self.gamma

    def _at(self, base: Rate) -> Rate:
        return base * self.gamma**self.last_epoch


class PolynomialLR(_ByFormula):
    """Times (1 - epoch / total_iters) ** power."""

    def __init__(
        self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1
    ) -> None:
        self.total_iters = total_iters
        self.power = power
        super().__init__(optimizer, last_epoch)

    def _next(self, lr: Rate, base: Rate, index: int) -> Rate:
        if self._is_initial or self.last_epoch > self.total_iters:
            return lr
        now, before = (1.0 - (self.last_epoch - back) / self.total_iters for back in (0, 1))
        return lr * (now / before) ** self.power

    def _at(self, base: Rate) -> Rate:
        return base * (1.0 - min(self.total_iters, self.last_epoch) / self.total_iters) ** self.power


class CosineAnnealingLR(_ByFormula):
    """Down to ``eta_min`` in ``T_max`` epochs along a half cosine, and up again in as many."""

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1) -> None:
        self.T_max = T_max
        self.eta_min = eta_min
        super().__init__(optimizer, last_epoch)

    def _next(self, lr: Rate, base: Rate, index: int) -> Rate:
        if self._is_initial:
            return lr
        if self._step_count == 1 and self.last_epoch > 0:
            return self._at(base)
        if (self.last_epoch - 1 - self.T_max) % (2 * self.T_max) == 0:
            # Leaving the bottom: the ratio below would be 0 / 0.
            return lr + (base - self.eta_min) * (1 - math.cos(math.pi / self.T_max)) / 2
        now, before = (1 + math.cos(math.pi * (self.last_epoch - back) / self.T_max) for back in (0, 1))
        return now / before * (lr - self.eta_min) + self.eta_min

    def _at(self, base: Rate) -> Rate:
        return (
            self.eta_min + (base - self.eta_min) * (1 + math.cos(math.pi * self.last_epoch / self.T_max)) / 2
        )
