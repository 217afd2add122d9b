"""PyTorch's paths of module classes, for programs that name them: ``nn.modules.batchnorm._BatchNorm``."""

from __future__ import annotations

from . import batchnorm as batchnorm
from . import conv as conv
from . import lazy as lazy
from . import loss as loss
from . import module as module
from . import utils as utils
from .module import Module as Module
