"""Averages of parameters over training: SWA and EMA, and the schedule that goes with them."""

from __future__ import annotations

import copy
import itertools
import math
import warnings
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from ..modes import no_grad
from ..nn.layers.batchnorm import _BatchNorm
from ..nn.module import Module
from ..tensor import Tensor
from .lr_scheduler.base import LRScheduler, Rate, per_group
from .optimizer import Optimizer

Average = Callable[[Tensor, Tensor, Any], Tensor]
Averages = Callable[[list[Tensor], list[Tensor], Any], None]


def get_swa_avg_fn() -> Average:
    """The equal average of all models so far."""

    @no_grad()
    def swa_update(averaged_param: Tensor, current_param: Tensor, num_averaged: Any) -> Any:
        return averaged_param + (current_param - averaged_param) / (num_averaged + 1)

    return swa_update


def get_ema_avg_fn(decay: float = 0.999) -> Average:
    """The exponential moving average: decay * average + (1 - decay) * current."""
    _check_decay(decay)

    @no_grad()
    def ema_update(ema_param: Tensor, current_param: Tensor, num_averaged: Any) -> Any:
        return ema_param * decay + current_param * (1 - decay)

    return ema_update


def get_swa_multi_avg_fn() -> Averages:
    """get_swa_avg_fn for lists of parameters, in place."""
    return _for_lists(get_swa_avg_fn())


def get_ema_multi_avg_fn(decay: float = 0.999) -> Averages:
    """get_ema_avg_fn for lists of parameters, in place."""
    return _for_lists(get_ema_avg_fn(decay))


def _check_decay(decay: float) -> None:
    if decay < 0.0 or decay > 1.0:
        raise ValueError(f"Invalid decay value {decay} provided. Please provide a value in [0,1] range.")


def _for_lists(average: Average) -> Averages:
    @no_grad()
    def update(averaged: list[Tensor], current: list[Tensor], num_averaged: Any) -> None:
        for a, c in zip(averaged, current, strict=True):
            a.copy_(average(a, c, num_averaged) if a.is_floating_point() else c)

    return update


class AveragedModel(Module):
    """A copy of a model whose parameters are averages: call ``update_parameters(model)`` now and then.

    ``avg_fn(average, current, number)`` gives the new average of one tensor (by default the equal one);
    ``multi_avg_fn`` updates lists in place. ``use_buffers`` averages the buffers too, else they are copied.
    """

    n_averaged: Tensor
    module: Module

    def __init__(
        self,
        model: Module,
        device: Any = None,
        avg_fn: Average | None = None,
        multi_avg_fn: Averages | None = None,
        use_buffers: bool = False,
    ) -> None:
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertionError("Only one of avg_fn and multi_avg_fn should be provided")
        self.module = copy.deepcopy(model).to(device)
        self.register_buffer("n_averaged", Tensor._make(np.array(0, np.int64)))
        self.avg_fn = avg_fn
        self.multi_avg_fn = multi_avg_fn
        self.use_buffers = use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.module(*args, **kwargs)

    def _averaged(self, model: Module) -> list[Tensor]:
        buffers = model.buffers() if self.use_buffers else ()
        return [t.detach() for t in itertools.chain(model.parameters(), buffers)]

    def update_parameters(self, model: Module) -> None:
        """Take the present parameters of the model into the average."""
        mine, theirs = self._averaged(self.module), self._averaged(model)
        with no_grad():
            if int(self.n_averaged) == 0:
                for average, current in zip(mine, theirs, strict=True):
                    average.copy_(current)
            elif self.multi_avg_fn is not None:
                self.multi_avg_fn(mine, theirs, self.n_averaged)
            else:
                fn = get_swa_avg_fn() if self.avg_fn is None else self.avg_fn
                for average, current in zip(mine, theirs, strict=True):
                    average.copy_(fn(average, current, self.n_averaged))
            if not self.use_buffers:
                for kept, buffer in zip(self.module.buffers(), model.buffers(), strict=True):
                    kept.detach().copy_(buffer.detach())
            self.n_averaged.add_(1)


@no_grad()
def update_bn(loader: Iterable[Any], model: Module, device: Any = None) -> None:
    """Compute the running statistics of all batch norms anew, from one pass over the data.

    Each item of ``loader`` is an input, or a list or tuple that starts with one.
    """
    momenta: dict[_BatchNorm, float | None] = {}
    for module in model.modules():
        if isinstance(module, _BatchNorm):
            module.reset_running_stats()
            momenta[module] = module.momentum
    if not momenta:
        return
    was_training = model.training
    model.train()
    for module in momenta:
        module.momentum = None
    for item in loader:
        batch = item[0] if isinstance(item, (list, tuple)) else item
        model(batch if device is None else batch.to(device))
    for module, momentum in momenta.items():
        module.momentum = momentum
    model.train(was_training)


class SWALR(LRScheduler):
    """From the present rates to the fixed ``swa_lr`` in ``anneal_epochs``, along a cosine or a line."""

    def __init__(
        self,
        optimizer: Optimizer,
        swa_lr: float | list[float],
        anneal_epochs: int = 10,
        anneal_strategy: str = "cos",
        last_epoch: int = -1,
    ) -> None:
        for rate, group in zip(per_group("swa_lr", optimizer, swa_lr), optimizer.param_groups, strict=True):
            group["swa_lr"] = rate
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(
                f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}"
            )
        if type(anneal_epochs) is not int or anneal_epochs < 0:
            raise ValueError(f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}")
        self._anneal_strategy = anneal_strategy
        self.anneal_epochs = anneal_epochs
        super().__init__(optimizer, last_epoch)

    def _share(self, step: int) -> float:
        """How much of the way is done."""
        t = max(0.0, min(1.0, step / max(1, self.anneal_epochs)))
        return t if self._anneal_strategy == "linear" else (1 - math.cos(math.pi * t)) / 2

    def get_lr(self) -> list[Rate]:
        """The rates for the present step."""
        if not self._get_lr_called_within_step:
            warnings.warn(
                "To get the last learning rate computed by the scheduler, please use `get_last_lr()`.",
                UserWarning,
                stacklevel=2,
            )
        step = self._step_count - 1
        if self.anneal_epochs == 0:
            step = max(1, step)
        before, now = self._share(step - 1), self._share(step)
        values = []
        for group in self.optimizer.param_groups:
            goal = group["swa_lr"]
            # Where the rate would be without annealing, from where it is now.
            start = goal if before == 1 else (group["lr"] - before * goal) / (1 - before)
            values.append(goal * now + start * (1 - now))
        return values
