"""Modules under the names that PyTorch gives them."""

from __future__ import annotations

from . import checkpoint as checkpoint
from . import data as data
