"""LRScheduler: sets the learning rates of an optimizer's groups, step by step."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ...kernels.recording import repeated
from ...tensor import Tensor
from ..optimizer import Optimizer

Rate = Any  # a float, or a Tensor of one element


class LRScheduler:
    """Base of the schedules. Call ``scheduler.step()`` after ``optimizer.step()``.

    Subclasses write ``get_lr``, which returns the rates for ``last_epoch``, one per group.
    """

    optimizer: Optimizer
    base_lrs: list[Rate]
    last_epoch: int
    _last_lr: list[Rate]
    _step_count: int
    _get_lr_called_within_step: bool = False
    _is_initial: bool = False

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        check_optimizer(optimizer)
        self.optimizer = optimizer
        for i, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                rate = group["lr"]
                group.setdefault("initial_lr", rate.clone() if isinstance(rate, Tensor) else rate)
            elif "initial_lr" not in group:
                raise KeyError(
                    f"param 'initial_lr' is not specified in param_groups[{i}] when resuming a scheduler "
                    "with "
                    "last_epoch >= 0: load the optimizer's state first, or start with last_epoch=-1"
                )
        self.base_lrs = rates(optimizer, "initial_lr")
        self.last_epoch = last_epoch
        self._initial_step()

    def _initial_step(self) -> None:
        """Set the rates for the first epoch."""
        self._step_count = 0
        self._is_initial = True
        try:
            self.step()
        finally:
            self._is_initial = False

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer."""
        return {key: value for key, value in self.__dict__.items() if key != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over a ``state_dict()``."""
        self.__dict__.update(state_dict)

    def get_last_lr(self) -> list[Rate]:
        """The rates that were set last, one per group."""
        return self._last_lr

    def get_lr(self) -> list[Rate]:
        """The rates for ``last_epoch``; called by ``step``."""
        raise NotImplementedError(f"{type(self).__name__} does not define get_lr()")

    @repeated
    def step(self, epoch: int | None = None) -> None:
        """Go to the next epoch and set its rates."""
        replaced = "step" in self.optimizer.__dict__
        if self._step_count == 1 and not replaced and not getattr(self.optimizer, "_stepped", False):
            warnings.warn(
                "Detected call of `lr_scheduler.step()` before `optimizer.step()`. Call them in the "
                "opposite order, "
                "else the first value of the schedule is skipped.",
                UserWarning,
                stacklevel=2,
            )
        self._step_count += 1
        if epoch is not None:
            warnings.warn(
                "The epoch parameter of `scheduler.step()` is deprecated; call it without arguments.",
                UserWarning,
                stacklevel=2,
            )
        self._update_lr(epoch)

    def _update_lr(self, epoch: int | None = None) -> None:
        with self._inside_step():
            if epoch is None:
                self.last_epoch += 1
                values = self.get_lr()
            else:
                self.last_epoch = epoch
                closed = getattr(self, "_get_closed_form_lr", None)
                values = self.get_lr() if closed is None else closed()
        self._set(values)

    def _set(self, values: list[Rate]) -> None:
        for group, value in zip(self.optimizer.param_groups, values, strict=True):
            set_option(group, "lr", value)
        self._last_lr = rates(self.optimizer, "lr")

    @contextmanager
    def _inside_step(self) -> Iterator[None]:
        self._get_lr_called_within_step = True
        try:
            yield
        finally:
            self._get_lr_called_within_step = False

    def _warn_outside(self) -> None:
        if not self._get_lr_called_within_step:
            warnings.warn(
                "To get the last learning rate computed by the scheduler, please use `get_last_lr()`.",
                UserWarning,
                stacklevel=4,
            )


class Schedule(LRScheduler):
    """A schedule given by a rule for one group.

    ``_next`` computes the rate from the group's present one, so that schedules can be chained and
    rates changed by hand.
    """

    def get_lr(self) -> list[Rate]:
        """The rates for ``last_epoch``; called by ``step``."""
        self._warn_outside()
        groups = self.optimizer.param_groups
        # A group that was added later starts from the rate that it came with.
        self.base_lrs += [group["lr"] for group in groups[len(self.base_lrs) :]]
        return [
            self._next(group["lr"], base, i)
            for i, (group, base) in enumerate(zip(groups, self.base_lrs, strict=True))
        ]

    def _next(self, lr: Rate, base: Rate, index: int) -> Rate:
        raise NotImplementedError


def check_optimizer(optimizer: Any) -> None:
    """Refuse anything but an Optimizer."""
    if not isinstance(optimizer, Optimizer):
        raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")


def rates(optimizer: Optimizer, key: str) -> list[Rate]:
    """An option of all groups; tensors as copies."""
    found = (group[key] for group in optimizer.param_groups)
    return [value.clone() if isinstance(value, Tensor) else value for value in found]


def set_option(group: dict[str, Any], key: str, value: Rate) -> None:
    """Set an option of a group; a tensor keeps being that tensor."""
    if isinstance(group[key], Tensor):
        group[key].fill_(float(value))
    else:
        group[key] = value


def per_group(name: str, optimizer: Optimizer, value: Any) -> list[Any]:
    """One value per group from a list of them or from a single one."""
    groups = optimizer.param_groups
    if not isinstance(value, (list, tuple)):
        return [value] * len(groups)
    if len(value) != len(groups):
        raise ValueError(
            f"{name} must have the same length as optimizer.param_groups: expected {len(groups)}, got "
            f"{len(value)}"
        )
    return list(value)


def own_state(fn: Any) -> dict[str, Any] | None:
    """The attributes of a callable object, to be saved; None for plain functions, which have none."""
    return (
        dict(fn.__dict__)
        if hasattr(fn, "__dict__") and type(fn).__name__ not in ("function", "method")
        else None
    )
