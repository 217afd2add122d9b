"""Normalisation within a sample."""

from __future__ import annotations

from ..layers.norm import CrossMapLRN2d as CrossMapLRN2d
from ..layers.norm import GroupNorm as GroupNorm
from ..layers.norm import LayerNorm as LayerNorm
from ..layers.norm import LocalResponseNorm as LocalResponseNorm
from ..layers.norm import RMSNorm as RMSNorm
