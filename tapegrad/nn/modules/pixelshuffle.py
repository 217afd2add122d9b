"""Channels to pixels and back."""

from __future__ import annotations

from ..layers.resampling import PixelShuffle as PixelShuffle
from ..layers.resampling import PixelUnshuffle as PixelUnshuffle
