"""Differentiation: backward, grad, custom functions, checks, and functional transforms."""

from ..engine import backward as backward
from ..engine import grad as grad
from ..modes import enable_grad as enable_grad
from ..modes import inference_mode as inference_mode
from ..modes import no_grad as no_grad
from ..modes import set_grad_enabled as set_grad_enabled
