"""Batch norms and what they share."""

from __future__ import annotations

from ..layers.batchnorm import BatchNorm1d as BatchNorm1d
from ..layers.batchnorm import BatchNorm2d as BatchNorm2d
from ..layers.batchnorm import BatchNorm3d as BatchNorm3d
from ..layers.batchnorm import SyncBatchNorm as SyncBatchNorm
from ..layers.batchnorm import _BatchNorm as _BatchNorm
from ..layers.batchnorm import _NormBase as _NormBase
from ..layers.lazy import LazyBatchNorm1d as LazyBatchNorm1d
from ..layers.lazy import LazyBatchNorm2d as LazyBatchNorm2d
from ..layers.lazy import LazyBatchNorm3d as LazyBatchNorm3d
