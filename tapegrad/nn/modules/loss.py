"""The bases of losses."""

from __future__ import annotations

from ..layers.loss import _Loss as _Loss
from ..layers.loss import _WeightedLoss as _WeightedLoss
