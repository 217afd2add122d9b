"""Linear maps."""

from __future__ import annotations

from ..layers.lazy import LazyLinear as LazyLinear
from ..layers.linear import Bilinear as Bilinear
from ..layers.linear import Identity as Identity
from ..layers.linear import Linear as Linear
from ..layers.linear import NonDynamicallyQuantizableLinear as NonDynamicallyQuantizableLinear
