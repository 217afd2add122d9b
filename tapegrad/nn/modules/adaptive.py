"""Adaptive softmax."""

from __future__ import annotations

from ..layers.adaptive_softmax import AdaptiveLogSoftmaxWithLoss as AdaptiveLogSoftmaxWithLoss
