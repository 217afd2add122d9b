"""Pooling."""

from __future__ import annotations

from ..layers.fractional import FractionalMaxPool2d as FractionalMaxPool2d
from ..layers.fractional import FractionalMaxPool3d as FractionalMaxPool3d
from ..layers.pooling import AdaptiveAvgPool1d as AdaptiveAvgPool1d
from ..layers.pooling import AdaptiveAvgPool2d as AdaptiveAvgPool2d
from ..layers.pooling import AdaptiveAvgPool3d as AdaptiveAvgPool3d
from ..layers.pooling import AdaptiveMaxPool1d as AdaptiveMaxPool1d
from ..layers.pooling import AdaptiveMaxPool2d as AdaptiveMaxPool2d
from ..layers.pooling import AdaptiveMaxPool3d as AdaptiveMaxPool3d
from ..layers.pooling import AvgPool1d as AvgPool1d
from ..layers.pooling import AvgPool2d as AvgPool2d
from ..layers.pooling import AvgPool3d as AvgPool3d
from ..layers.pooling import LPPool1d as LPPool1d
from ..layers.pooling import LPPool2d as LPPool2d
from ..layers.pooling import LPPool3d as LPPool3d
from ..layers.pooling import MaxPool1d as MaxPool1d
from ..layers.pooling import MaxPool2d as MaxPool2d
from ..layers.pooling import MaxPool3d as MaxPool3d
from ..layers.pooling import MaxUnpool1d as MaxUnpool1d
from ..layers.pooling import MaxUnpool2d as MaxUnpool2d
from ..layers.pooling import MaxUnpool3d as MaxUnpool3d
