"""DataParallel on a machine without accelerators: the module itself, under the name "module"."""

from __future__ import annotations

from typing import Any

from .module import Module


class DataParallel(Module):
    """Calls ``module``. Batches are never spread, since there is one device; the state's names start with "module.".

    ``device_ids``, ``output_device`` and ``dim`` say how batches are spread over several devices, and are
    only kept.
    """

    def __init__(
        self, module: Module, device_ids: Any = None, output_device: Any = None, dim: int = 0
    ) -> None:
        super().__init__()
        self.dim = dim
        self.module = module
        self.device_ids: list[Any] = []

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        return self.module(*inputs, **kwargs)
