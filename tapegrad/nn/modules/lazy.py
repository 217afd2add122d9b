"""The base of lazy modules."""

from __future__ import annotations

from ..lazy import LazyModuleMixin as LazyModuleMixin
