"""Making a module whose values will be replaced anyway."""

from __future__ import annotations

import inspect
from typing import Any

from ...random import fork_rng
from ..module import Module


def skip_init(module_cls: Any, *args: Any, **kwargs: Any) -> Module:
    """``module_cls(*args, **kwargs)`` without drawing from the random numbers; the values are arbitrary.

    Errors: TypeError if it is no class; RuntimeError if it is no Module or its constructor takes no ``device``.
    """
    if not issubclass(module_cls, Module):
        raise RuntimeError(f"Expected a Module; got {module_cls}")
    if "device" not in inspect.signature(module_cls).parameters:
        raise RuntimeError("Module must support a 'device' arg to skip initialization")
    with fork_rng():
        made: Module = module_cls(*args, **kwargs)
    return made
