"""Schedules that go up and down: warm restarts, cycles, one cycle."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ...kernels.recording import repeated
from ..optimizer import Optimizer
from .base import LRScheduler, Rate, check_optimizer, own_state, per_group, set_option


def set_momentum(group: dict[str, Any], value: float) -> None:
    """Set a group's momentum, which is the first beta of Adam's relatives."""
    if "betas" in group:
        group["betas"] = (value, *group["betas"][1:])
    else:
        group["momentum"] = value


def _start_momentum(optimizer: Optimizer, bases: list[float], tops: list[float]) -> None:
    for group, base, top in zip(optimizer.param_groups, bases, tops, strict=True):
        set_momentum(group, top)
        group["max_momentum"] = top
        group["base_momentum"] = base


def _check_momentum(optimizer: Optimizer) -> None:
    if "momentum" not in optimizer.defaults and "betas" not in optimizer.defaults:
        raise ValueError(
            "optimizer must support momentum or beta1 with `cycle_momentum` option enabled: pass "
            "cycle_momentum=False"
        )


class CosineAnnealingWarmRestarts(LRScheduler):
    """A half cosine down to ``eta_min``, restarted after T_0 epochs, then after T_mult times as many, ..."""

    def __init__(
        self, optimizer: Optimizer, T_0: int, T_mult: int = 1, eta_min: float = 0.0, last_epoch: int = -1
    ) -> None:
        if type(T_0) is not int or T_0 <= 0:
            raise ValueError(f"Expected positive integer T_0, but got {T_0}")
        if type(T_mult) is not int or T_mult < 1:
            raise ValueError(f"Expected integer T_mult >= 1, but got {T_mult}")
        if not isinstance(eta_min, (float, int)):
            raise ValueError(f"Expected float or int eta_min, but got {eta_min} of type {type(eta_min)}")
        self.T_0 = T_0
        self.T_i = T_0
        self.T_mult = T_mult
        self.eta_min = eta_min
        self.T_cur: float = last_epoch
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Rate]:
        """The rates for the present place in the cycle."""
        self._warn_outside()
        height = (1 + math.cos(math.pi * self.T_cur / self.T_i)) / 2
        return [self.eta_min + (base - self.eta_min) * height for base in self.base_lrs]

    @repeated
    def step(self, epoch: float | None = None) -> None:
        """Go to the next epoch, or to a given one, which may be a fraction (epoch + batch / batches)."""
        if epoch is None and self.last_epoch < 0:
            epoch = 0
        if epoch is None:
            epoch = self.last_epoch + 1
            self.T_cur += 1
            if self.T_cur >= self.T_i:
                self.T_cur %= self.T_i
                self.T_i *= self.T_mult
        elif epoch < 0:
            raise ValueError(f"Expected non-negative epoch, but got {epoch}")
        else:
            self._find_cycle(epoch)
        self.last_epoch = math.floor(epoch)
        with self._inside_step():
            values = self.get_lr()
        self._set(values)

    def _find_cycle(self, epoch: float) -> None:
        if epoch < self.T_0:
            self.T_i, self.T_cur = self.T_0, epoch
        elif self.T_mult == 1:
            self.T_cur = epoch % self.T_0
        else:
            # The cycles before number n take T_0 (T_mult^n - 1) / (T_mult - 1) epochs.
            n = int(math.log(epoch / self.T_0 * (self.T_mult - 1) + 1, self.T_mult))
            self.T_cur = epoch - self.T_0 * (self.T_mult**n - 1) / (self.T_mult - 1)
            self.T_i = self.T_0 * self.T_mult**n


class CyclicLR(LRScheduler):
    """Between ``base_lr`` and ``max_lr``, up in step_size_up and down in step_size_down steps.

    The height of a cycle stays ("triangular"), halves with each cycle ("triangular2"), shrinks by gamma
    with each step ("exp_range"), or is what ``scale_fn`` says. Momentum goes the other way.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        base_lr: float | list[float],
        max_lr: float | list[float],
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: str = "triangular",
        gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: str = "cycle",
        cycle_momentum: bool = True,
        base_momentum: float = 0.8,
        max_momentum: float = 0.9,
        last_epoch: int = -1,
    ) -> None:
        check_optimizer(optimizer)
        self.optimizer = optimizer
        base_lrs = per_group("base_lr", optimizer, base_lr)
        if last_epoch == -1:
            for lr, group in zip(base_lrs, optimizer.param_groups, strict=True):
                set_option(group, "lr", lr)
        self.max_lrs = per_group("max_lr", optimizer, max_lr)
        down = step_size_up if step_size_down is None else step_size_down
        self.total_size = float(step_size_up) + float(down)
        self.step_ratio = step_size_up / self.total_size
        if mode not in ("triangular", "triangular2", "exp_range") and scale_fn is None:
            raise ValueError("mode is invalid and scale_fn is None")
        self.mode = mode
        self.gamma = gamma
        self._scale_fn_custom = scale_fn
        self.scale_mode = scale_mode
        if scale_fn is None:
            self.scale_mode = "iterations" if mode == "exp_range" else "cycle"
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            _check_momentum(optimizer)
            self.use_beta1 = "betas" in optimizer.defaults
            self.base_momentums = per_group("base_momentum", optimizer, base_momentum)
            self.max_momentums = per_group("max_momentum", optimizer, max_momentum)
            if last_epoch == -1:
                _start_momentum(optimizer, self.base_momentums, self.max_momentums)
        super().__init__(optimizer, last_epoch)
        self.base_lrs = base_lrs

    def scale_fn(self, x: float) -> Any:
        """The height of the cycle number, or of the step number, x."""
        if self._scale_fn_custom is not None:
            return self._scale_fn_custom(x)
        if self.mode == "triangular":
            return 1.0
        return 1 / float(2.0 ** (x - 1)) if self.mode == "triangular2" else float(self.gamma**x)

    def get_lr(self) -> list[Rate]:
        """The rates for ``last_epoch``; sets the momentum as well."""
        self._warn_outside()
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        x = 1.0 + self.last_epoch / self.total_size - cycle
        height = x / self.step_ratio if x <= self.step_ratio else (x - 1) / (self.step_ratio - 1)
        height *= self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.cycle_momentum:
            momenta = zip(self.optimizer.param_groups, self.base_momentums, self.max_momentums, strict=True)
            for group, low, high in momenta:
                set_momentum(group, high - (high - low) * height)
        return [low + (high - low) * height for low, high in zip(self.base_lrs, self.max_lrs, strict=True)]

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer; of ``scale_fn`` only a callable object's attributes."""
        state = super().state_dict()
        fn = self._scale_fn_custom
        state["_scale_fn_custom"] = None if fn is None else own_state(fn)
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over a ``state_dict()``."""
        saved = state_dict.get("_scale_fn_custom")
        self.__dict__.update({k: v for k, v in state_dict.items() if k != "_scale_fn_custom"})
        if saved is not None and self._scale_fn_custom is not None:
            self._scale_fn_custom.__dict__.update(saved)


class OneCycleLR(LRScheduler):
    """One cycle over all steps: up to ``max_lr``, then down to far below the start.

    Starts at max_lr / div_factor, peaks after ``pct_start`` of the steps, ends at the start's rate
    / final_div_factor; ``three_phase`` returns to the start's rate first. Momentum goes the other way.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float | list[float],
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.85,
        max_momentum: float | list[float] = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        check_optimizer(optimizer)
        self.optimizer = optimizer
        self.total_steps = _total(total_steps, epochs, steps_per_epoch)
        if type(pct_start) is not float or pct_start < 0 or pct_start > 1:
            raise ValueError(f"Expected float between 0 and 1 pct_start, but got {pct_start}")
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(
                f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}"
            )
        self._schedule_phases = _phases(self.total_steps, pct_start, three_phase)
        self._anneal_func_type = anneal_strategy
        if last_epoch == -1:
            for top, group in zip(
                per_group("max_lr", optimizer, max_lr), optimizer.param_groups, strict=True
            ):
                group["initial_lr"] = top / div_factor
                group["max_lr"] = top
                group["min_lr"] = group["initial_lr"] / final_div_factor
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            _check_momentum(optimizer)
            self.use_beta1 = "betas" in optimizer.defaults
            tops = per_group("max_momentum", optimizer, max_momentum)
            bases = per_group("base_momentum", optimizer, base_momentum)
            if last_epoch == -1:
                _start_momentum(optimizer, bases, tops)
        super().__init__(optimizer, last_epoch)

    def _between(self, start: float, end: float, part: float) -> float:
        if self._anneal_func_type == "linear":
            return (end - start) * part + start
        return end + (start - end) / 2.0 * (math.cos(math.pi * part) + 1)

    def get_lr(self) -> list[Rate]:
        """The rates for ``last_epoch``; sets the momentum as well."""
        self._warn_outside()
        step = self.last_epoch
        if step > self.total_steps:
            raise ValueError(
                f"Tried to step {step} times. The specified number of total steps is {self.total_steps}"
            )
        begin = 0.0
        phase = self._schedule_phases[-1]
        for candidate in self._schedule_phases:
            phase = candidate
            if step <= candidate["end_step"]:
                break
            if candidate is not self._schedule_phases[-1]:
                begin = candidate["end_step"]
        part = (step - begin) / (phase["end_step"] - begin)
        values = []
        for group in self.optimizer.param_groups:
            values.append(self._between(group[phase["start_lr"]], group[phase["end_lr"]], part))
            if self.cycle_momentum:
                momentum = self._between(group[phase["start_momentum"]], group[phase["end_momentum"]], part)
                set_momentum(group, momentum)
        return values


def _total(total_steps: int | None, epochs: int | None, steps_per_epoch: int | None) -> int:
    named = {"total_steps": total_steps}
    if total_steps is None:
        if epochs is None or steps_per_epoch is None:
            raise ValueError("You must define either total_steps OR (epochs AND steps_per_epoch)")
        named = {"epochs": epochs, "steps_per_epoch": steps_per_epoch}
    for name, value in named.items():
        if not isinstance(value, int) or value <= 0:
            raise ValueError(f"Expected positive integer {name}, but got {value}")
    return math.prod(v for v in named.values() if v is not None)


def _phases(total: int, pct_start: float, three: bool) -> list[dict[str, Any]]:
    """Where each phase ends, and which of the group's options it goes between."""
    up = ("initial_lr", "max_lr", "max_momentum", "base_momentum")
    rows: list[tuple[float, tuple[str, str, str, str]]] = [(pct_start * total - 1, up)]
    if three:
        rows.append((2 * pct_start * total - 2, ("max_lr", "initial_lr", "base_momentum", "max_momentum")))
        rows.append((total - 1, ("initial_lr", "min_lr", "max_momentum", "max_momentum")))
    else:
        rows.append((total - 1, ("max_lr", "min_lr", "base_momentum", "max_momentum")))
    names = ("start_lr", "end_lr", "start_momentum", "end_momentum")
    return [{"end_step": end, **dict(zip(names, keys, strict=True))} for end, keys in rows]
