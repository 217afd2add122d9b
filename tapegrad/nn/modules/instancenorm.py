"""Instance norms."""

from __future__ import annotations

from ..layers.batchnorm import InstanceNorm1d as InstanceNorm1d
from ..layers.batchnorm import InstanceNorm2d as InstanceNorm2d
from ..layers.batchnorm import InstanceNorm3d as InstanceNorm3d
from ..layers.batchnorm import _InstanceNorm as _InstanceNorm
from ..layers.lazy import LazyInstanceNorm1d as LazyInstanceNorm1d
from ..layers.lazy import LazyInstanceNorm2d as LazyInstanceNorm2d
from ..layers.lazy import LazyInstanceNorm3d as LazyInstanceNorm3d
