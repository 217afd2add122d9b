"""Differentiation: backward, grad, custom functions, checks, and functional transforms."""

from ..engine import backward as backward
from ..engine import grad as grad
from ..modes import enable_grad as enable_grad
from ..modes import inference_mode as inference_mode
from ..modes import no_grad as no_grad
from ..modes import set_grad_enabled as set_grad_enabled
from . import functional as functional
from . import graph as graph
from .anomaly import detect_anomaly as detect_anomaly
from .anomaly import is_anomaly_enabled as is_anomaly_enabled
from .anomaly import set_detect_anomaly as set_detect_anomaly
from .function import Function as Function
from .function import FunctionCtx as FunctionCtx
from .gradcheck import GradcheckError as GradcheckError
from .gradcheck import gradcheck as gradcheck
from .gradcheck import gradgradcheck as gradgradcheck
from .variable import Variable as Variable
