"""Fractional maximum pooling."""

from __future__ import annotations

from typing import Any, ClassVar

from ...tensor import Tensor
from .. import functional as F
from ..module import Module
from .sizes import ntuple


class _FractionalMaxPool(Module):
    dims: ClassVar[int]

    def __init__(
        self,
        kernel_size: Any,
        output_size: Any = None,
        output_ratio: Any = None,
        return_indices: bool = False,
        _random_samples: Tensor | None = None,
    ) -> None:
        super().__init__()
        n, name = self.dims, type(self).__name__
        self.kernel_size = ntuple(kernel_size, n)
        if any(k <= 0 for k in self.kernel_size):
            raise ValueError(f"kernel_size must be greater than 0, but got {kernel_size}")
        self.return_indices = return_indices
        self.register_buffer("_random_samples", _random_samples)
        self.output_size = None if output_size is None else ntuple(output_size, n)
        self.output_ratio = None if output_ratio is None else ntuple(output_ratio, n)
        if output_size is None and output_ratio is None:
            raise ValueError(f"{name} requires specifying either an output size, or a pooling ratio")
        if output_size is not None and output_ratio is not None:
            raise ValueError("only one of output_size and output_ratio may be specified")
        if self.output_ratio is not None and not all(0 < r < 1 for r in self.output_ratio):
            raise ValueError(f"output_ratio must be between 0 and 1 (got {output_ratio})")

    def forward(self, input: Tensor) -> Any:
        pool = F.fractional_max_pool2d if self.dims == 2 else F.fractional_max_pool3d
        return pool(
            input,
            self.kernel_size,
            self.output_size,
            self.output_ratio,
            self.return_indices,
            _random_samples=self._random_samples,
        )


class FractionalMaxPool2d(_FractionalMaxPool):
    """Maximum over randomly placed windows of (N, C, H, W) or (C, H, W).

    Give ``output_size``, or ``output_ratio`` in (0, 1). Every call draws new places.
    """

    dims = 2


class FractionalMaxPool3d(_FractionalMaxPool):
    """FractionalMaxPool2d for (N, C, D, H, W) or (C, D, H, W)."""

    dims = 3
