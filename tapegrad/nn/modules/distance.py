"""Distances."""

from __future__ import annotations

from ..layers.distance import CosineSimilarity as CosineSimilarity
from ..layers.distance import PairwiseDistance as PairwiseDistance
