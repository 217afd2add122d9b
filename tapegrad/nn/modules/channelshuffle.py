"""Shuffling of channels."""

from __future__ import annotations

from ..layers.resampling import ChannelShuffle as ChannelShuffle
