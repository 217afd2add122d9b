"""Options that may be one number for all dimensions."""

from __future__ import annotations

from typing import Any

from ..layers.sizes import ntuple


def _single(x: Any) -> tuple[Any, ...]:
    return ntuple(x, 1)


def _pair(x: Any) -> tuple[Any, ...]:
    return ntuple(x, 2)


def _triple(x: Any) -> tuple[Any, ...]:
    return ntuple(x, 3)


def _quadruple(x: Any) -> tuple[Any, ...]:
    return ntuple(x, 4)
