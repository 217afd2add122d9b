"""Activations and attention."""

from __future__ import annotations

from ..layers.activation import CELU as CELU
from ..layers.activation import ELU as ELU
from ..layers.activation import GELU as GELU
from ..layers.activation import GLU as GLU
from ..layers.activation import SELU as SELU
from ..layers.activation import Hardshrink as Hardshrink
from ..layers.activation import Hardsigmoid as Hardsigmoid
from ..layers.activation import Hardswish as Hardswish
from ..layers.activation import Hardtanh as Hardtanh
from ..layers.activation import LeakyReLU as LeakyReLU
from ..layers.activation import LogSigmoid as LogSigmoid
from ..layers.activation import LogSoftmax as LogSoftmax
from ..layers.activation import Mish as Mish
from ..layers.activation import PReLU as PReLU
from ..layers.activation import ReLU as ReLU
from ..layers.activation import ReLU6 as ReLU6
from ..layers.activation import RReLU as RReLU
from ..layers.activation import Sigmoid as Sigmoid
from ..layers.activation import SiLU as SiLU
from ..layers.activation import Softmax as Softmax
from ..layers.activation import Softmax2d as Softmax2d
from ..layers.activation import Softmin as Softmin
from ..layers.activation import Softplus as Softplus
from ..layers.activation import Softshrink as Softshrink
from ..layers.activation import Softsign as Softsign
from ..layers.activation import Tanh as Tanh
from ..layers.activation import Tanhshrink as Tanhshrink
from ..layers.activation import Threshold as Threshold
from ..layers.attention import MultiheadAttention as MultiheadAttention
