"""Optimizers and learning-rate schedules."""

from __future__ import annotations

from .adam import Adam as Adam
from .adam import AdamW as AdamW
from .optimizer import Optimizer as Optimizer
from .sgd import SGD as SGD
