"""Layers that learn the number of input features or channels from their first input."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import dtypes
from ...tensor import Tensor
from ..lazy import LazyModuleMixin
from ..parameter import UninitializedBuffer, UninitializedParameter
from . import batchnorm, conv
from .linear import Linear


class LazyLinear(LazyModuleMixin, Linear):
    """A Linear whose ``in_features`` is the last size of its first input."""

    cls_to_become = Linear

    def __init__(
        self, out_features: int, bias: bool = True, device: Any = None, dtype: dtypes.dtype | None = None
    ) -> None:
        super().__init__(0, 0, False, device, dtype)
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        self.out_features = out_features
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        """As Linear, once the parameters are there."""
        if not self.has_uninitialized_params() and self.in_features != 0:
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor) -> None:
        """Make weight and bias for an input (*, in_features)."""
        if self.has_uninitialized_params():
            self.in_features = input.shape[-1]
            _materialize(self.weight, (self.out_features, self.in_features))
            _materialize(self.bias, (self.out_features,))
            self.reset_parameters()
        if self.in_features == 0:
            # Weights were loaded before the first call.
            self.in_features = self.weight.shape[-1]


class _LazyConvNd(LazyModuleMixin, conv._ConvNd):
    """What lazy convolutions share; the constructor of each says where ``in_channels`` would stand."""

    def _defer(self, out_channels: int, bias: bool, device: Any, dtype: dtypes.dtype | None) -> None:
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        self.out_channels = out_channels
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        """As the convolution, once the parameters are there."""
        if not self.has_uninitialized_params() and self.in_channels != 0:
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor, *args: Any, **kwargs: Any) -> None:
        """Make weight and bias for an input (N, in_channels, ...) or (in_channels, ...)."""
        if self.has_uninitialized_params():
            self.in_channels = self._channels_of(input)
            if self.in_channels % self.groups != 0:
                raise ValueError("in_channels must be divisible by groups")
            if self.transposed:
                shape = (self.in_channels, self.out_channels // self.groups, *self.kernel_size)
            else:
                shape = (self.out_channels, self.in_channels // self.groups, *self.kernel_size)
            _materialize(self.weight, shape)
            _materialize(self.bias, (self.out_channels,))
            self.reset_parameters()
        if self.in_channels == 0:
            # Weights were loaded before the first call.
            self.in_channels = self.weight.shape[0 if self.transposed else 1]
            if not self.transposed:
                self.in_channels *= self.groups

    def _channels_of(self, input: Tensor) -> int:
        n = self.dims
        if input.dim() not in (n + 1, n + 2):
            raise RuntimeError(
                f"Expected {n + 1}D (unbatched) or {n + 2}D (batched) input to {type(self).__name__}, but got "
                f"input of size: {list(input.shape)}"
            )
        return int(input.shape[input.dim() - n - 1])


class _LazyConv(_LazyConvNd, conv._Conv):
    def __init__(
        self,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: dtypes.dtype | None = None,
    ) -> None:
        super().__init__(
            0, 0, kernel_size, stride, padding, dilation, groups, False, padding_mode, device, dtype
        )
        self._defer(out_channels, bias, device, dtype)


class LazyConv1d(_LazyConv, conv.Conv1d):
    """A Conv1d whose ``in_channels`` is read from its first input."""

    cls_to_become = conv.Conv1d


class LazyConv2d(_LazyConv, conv.Conv2d):
    """A Conv2d whose ``in_channels`` is read from its first input."""

    cls_to_become = conv.Conv2d


class LazyConv3d(_LazyConv, conv.Conv3d):
    """A Conv3d whose ``in_channels`` is read from its first input."""

    cls_to_become = conv.Conv3d


class _LazyConvTranspose(_LazyConvNd, conv._ConvTranspose):
    def __init__(
        self,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Any = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: dtypes.dtype | None = None,
    ) -> None:
        super().__init__(
            *(0, 0, kernel_size, stride, padding, output_padding),
            *(groups, False, dilation, padding_mode, device, dtype),
        )
        self._defer(out_channels, bias, device, dtype)


class LazyConvTranspose1d(_LazyConvTranspose, conv.ConvTranspose1d):
    """A ConvTranspose1d whose ``in_channels`` is read from its first input."""

    cls_to_become = conv.ConvTranspose1d


class LazyConvTranspose2d(_LazyConvTranspose, conv.ConvTranspose2d):
    """A ConvTranspose2d whose ``in_channels`` is read from its first input."""

    cls_to_become = conv.ConvTranspose2d


class LazyConvTranspose3d(_LazyConvTranspose, conv.ConvTranspose3d):
    """A ConvTranspose3d whose ``in_channels`` is read from its first input."""

    cls_to_become = conv.ConvTranspose3d


class _LazyNormBase(LazyModuleMixin, batchnorm._NormBase):
    weight: UninitializedParameter
    bias: UninitializedParameter

    def __init__(
        self,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: dtypes.dtype | None = None,
        *,
        bias: bool = True,
    ) -> None:
        # Without parameters and statistics first: there is no size for them yet.
        super().__init__(0, eps, momentum, False, False, device, dtype, bias=False)
        self.affine = affine
        self.track_running_stats = track_running_stats
        if affine:
            self.weight = UninitializedParameter(device=device, dtype=dtype)
            if bias:
                self.bias = UninitializedParameter(device=device, dtype=dtype)
        if track_running_stats:
            self.running_mean = UninitializedBuffer(device=device, dtype=dtype)
            self.running_var = UninitializedBuffer(device=device, dtype=dtype)
            self.num_batches_tracked = Tensor._make(np.array(0, np.int64))

    def reset_parameters(self) -> None:
        """As the norm, once the parameters are there."""
        if not self.has_uninitialized_params() and self.num_features != 0:
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor) -> None:
        """Make parameters and statistics for an input (N, num_features, ...)."""
        if self.has_uninitialized_params():
            self.num_features = input.shape[1]
            for held in (self.weight, self.bias, self.running_mean, self.running_var):
                _materialize(held, (self.num_features,))
            self.reset_parameters()
        if self.num_features == 0:
            # They were loaded before the first call.
            known = [self.weight, self.bias, self.running_mean, self.running_var]
            self.num_features = next((t.shape[0] for t in known if t is not None), input.shape[1])


class LazyBatchNorm1d(_LazyNormBase, batchnorm.BatchNorm1d):
    """A BatchNorm1d whose ``num_features`` is read from its first input."""

    cls_to_become = batchnorm.BatchNorm1d


class LazyBatchNorm2d(_LazyNormBase, batchnorm.BatchNorm2d):
    """A BatchNorm2d whose ``num_features`` is read from its first input."""

    cls_to_become = batchnorm.BatchNorm2d


class LazyBatchNorm3d(_LazyNormBase, batchnorm.BatchNorm3d):
    """A BatchNorm3d whose ``num_features`` is read from its first input."""

    cls_to_become = batchnorm.BatchNorm3d


class LazyInstanceNorm1d(_LazyNormBase, batchnorm.InstanceNorm1d):
    """An InstanceNorm1d whose ``num_features`` is read from its first input."""

    cls_to_become = batchnorm.InstanceNorm1d


class LazyInstanceNorm2d(_LazyNormBase, batchnorm.InstanceNorm2d):
    """An InstanceNorm2d whose ``num_features`` is read from its first input."""

    cls_to_become = batchnorm.InstanceNorm2d


class LazyInstanceNorm3d(_LazyNormBase, batchnorm.InstanceNorm3d):
    """An InstanceNorm3d whose ``num_features`` is read from its first input."""

    cls_to_become = batchnorm.InstanceNorm3d


def _materialize(held: Any, shape: tuple[int, ...]) -> None:
    """Give an uninitialized parameter its shape; what is there already, or None by choice, stays."""
    if isinstance(held, (UninitializedParameter, UninitializedBuffer)):
        held.materialize(shape)
