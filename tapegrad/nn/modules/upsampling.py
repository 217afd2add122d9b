"""Upsampling."""

from __future__ import annotations

from ..layers.resampling import Upsample as Upsample
from ..layers.resampling import UpsamplingBilinear2d as UpsamplingBilinear2d
from ..layers.resampling import UpsamplingNearest2d as UpsamplingNearest2d
