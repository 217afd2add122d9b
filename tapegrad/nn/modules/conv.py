"""Convolutions and what they share."""

from __future__ import annotations

from ..layers.conv import Conv1d as Conv1d
from ..layers.conv import Conv2d as Conv2d
from ..layers.conv import Conv3d as Conv3d
from ..layers.conv import ConvTranspose1d as ConvTranspose1d
from ..layers.conv import ConvTranspose2d as ConvTranspose2d
from ..layers.conv import ConvTranspose3d as ConvTranspose3d
from ..layers.conv import _ConvNd as _ConvNd
from ..layers.lazy import LazyConv1d as LazyConv1d
from ..layers.lazy import LazyConv2d as LazyConv2d
from ..layers.lazy import LazyConv3d as LazyConv3d
from ..layers.lazy import LazyConvTranspose1d as LazyConvTranspose1d
from ..layers.lazy import LazyConvTranspose2d as LazyConvTranspose2d
from ..layers.lazy import LazyConvTranspose3d as LazyConvTranspose3d
