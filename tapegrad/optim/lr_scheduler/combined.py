"""Schedules made of schedules: one after another, or all at once."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

from ...kernels.recording import repeated
from ..optimizer import Optimizer
from .base import LRScheduler, rates, set_option
from .plateau import ReduceLROnPlateau


class _Combined(LRScheduler):
    _schedulers: Sequence[LRScheduler]

    def _check(self, optimizer: Optimizer, schedulers: Sequence[Any]) -> None:
        name = type(self).__name__
        for i, scheduler in enumerate(schedulers):
            if not hasattr(scheduler, "optimizer"):
                raise TypeError(f"{name} at index {i} should have `optimizer` as its attribute.")
            if isinstance(scheduler, ReduceLROnPlateau):
                raise ValueError(
                    f"{name} does not support `ReduceLROnPlateau`, whose step needs a metric, but got one "
                    f"at index {i}."
                )
            if scheduler.optimizer is not optimizer:
                raise ValueError(
                    f"{name} expects all schedulers to belong to the same optimizer, but the one at index "
                    f"{i} belongs "
                    "to another one."
                )

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer, with the states of the schedulers."""
        state = super().state_dict()
        state["_schedulers"] = [s.state_dict() for s in self._schedulers]
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over a ``state_dict()``."""
        self.__dict__.update({k: v for k, v in state_dict.items() if k != "_schedulers"})
        for scheduler, state in zip(self._schedulers, state_dict["_schedulers"], strict=True):
            scheduler.load_state_dict(state)


class SequentialLR(_Combined):
    """One schedule after another, changing at the milestones."""

    def __init__(
        self, optimizer: Optimizer, schedulers: list[LRScheduler], milestones: list[int], last_epoch: int = -1
    ) -> None:
        if len(schedulers) < 1:
            raise ValueError(f"{type(self).__name__} expects at least one scheduler, but got no scheduler.")
        self._check(optimizer, schedulers)
        if len(milestones) != len(schedulers) - 1:
            raise ValueError(
                "Sequential Schedulers expects number of schedulers provided to be one more than the number "
                "of "
                f"milestone points, but got number of schedulers {len(schedulers)} and the number of "
                "milestones to be "
                f"equal to {len(milestones)}"
            )
        self._schedulers = schedulers
        self._milestones = milestones
        self.last_epoch = last_epoch + 1
        self.optimizer = optimizer
        # All schedulers took their initial step when they were made; only the first one's counts.
        for group in optimizer.param_groups:
            set_option(group, "lr", group["initial_lr"])
        _undo(self)
        first = schedulers[bisect_right(milestones, 0)]
        first._initial_step()
        self._last_lr = first.get_last_lr()

    @repeated
    def step(self) -> None:  # type: ignore[override]
        """Step the schedule whose turn it is."""
        self.last_epoch += 1
        index = bisect_right(self._milestones, self.last_epoch)
        scheduler = self._schedulers[index]
        if index > 0 and self._milestones[index - 1] == self.last_epoch:
            scheduler._update_lr(0)
        else:
            scheduler.step()
        self._last_lr = scheduler.get_last_lr()


def _undo(scheduler: Any) -> None:
    if hasattr(scheduler, "_schedulers"):
        for inner in scheduler._schedulers:
            _undo(inner)
    else:
        scheduler.last_epoch -= 1


class ChainedScheduler(_Combined):
    """All schedules at every step, each on what the one before it has set."""

    def __init__(self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None) -> None:
        if len(schedulers) < 1:
            raise ValueError(
                f"{type(self).__name__} expects at least one scheduler to be chained, but got no scheduler."
            )
        optimizer = optimizer or schedulers[0].optimizer
        self._check(optimizer, schedulers)
        self._schedulers = schedulers
        self.optimizer = optimizer
        self._last_lr = rates(optimizer, "lr")

    @repeated
    def step(self) -> None:  # type: ignore[override]
        """Step all of them."""
        for scheduler in self._schedulers:
            scheduler.step()
        self._last_lr = rates(self.optimizer, "lr")
