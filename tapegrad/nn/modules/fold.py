"""Sliding blocks."""

from __future__ import annotations

from ..layers.resampling import Fold as Fold
from ..layers.resampling import Unfold as Unfold
