"""Flattening and its inverse."""

from __future__ import annotations

from ..layers.flatten import Flatten as Flatten
from ..layers.flatten import Unflatten as Unflatten
