"""Module, and the hooks that run for every module."""

from __future__ import annotations

from ..calls import register_module_forward_hook as register_module_forward_hook
from ..calls import register_module_forward_pre_hook as register_module_forward_pre_hook
from ..calls import register_module_full_backward_hook as register_module_full_backward_hook
from ..calls import register_module_full_backward_pre_hook as register_module_full_backward_pre_hook
from ..module import Module as Module
from ..registry import register_module_buffer_registration_hook as register_module_buffer_registration_hook
from ..registry import register_module_module_registration_hook as register_module_module_registration_hook
from ..registry import (
    register_module_parameter_registration_hook as register_module_parameter_registration_hook,
)
from ..state import _IncompatibleKeys as _IncompatibleKeys
