"""Convolutions and transposed convolutions in one, two and three dimensions."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from ... import dtypes
from ...tensor import Tensor
from .. import functional as F
from .. import init
from ..module import Module
from ..parameter import Parameter, empty_parameter
from .sizes import ntuple

PADDING_MODES = ("zeros", "reflect", "replicate", "circular")


class _ConvNd(Module):
    """What convolutions share: options, parameters and printing."""

    dims: ClassVar[int]
    bias: Parameter | None
    weight: Parameter

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any,
        padding: Any,
        dilation: Any,
        transposed: bool,
        output_padding: Any,
        groups: int,
        bias: bool,
        padding_mode: str,
        device: Any = None,
        dtype: dtypes.dtype | None = None,
    ) -> None:
        super().__init__()
        n = self.dims
        self.kernel_size = ntuple(kernel_size, n)
        self.stride = ntuple(stride, n)
        self.dilation = ntuple(dilation, n)
        self.output_padding = ntuple(output_padding, n)
        self.padding = padding if isinstance(padding, str) else ntuple(padding, n)
        if groups <= 0:
            raise ValueError("groups must be a positive integer")
        if in_channels % groups != 0:
            raise ValueError("in_channels must be divisible by groups")
        if out_channels % groups != 0:
            raise ValueError("out_channels must be divisible by groups")
        if isinstance(padding, str):
            if padding not in ("same", "valid"):
                raise ValueError(f"Invalid padding string {padding!r}, should be one of {{'same', 'valid'}}")
            if padding == "same" and any(s != 1 for s in self.stride):
                raise ValueError("padding='same' is not supported for strided convolutions")
        if padding_mode not in PADDING_MODES:
            raise ValueError(
                f"padding_mode must be one of {set(PADDING_MODES)}, but got padding_mode='{padding_mode}'"
            )
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.transposed = transposed
        self.groups = groups
        self.padding_mode = padding_mode
        # Padding as F.pad takes it, last dimension first; only modes other than zeros need it.
        self._reversed_padding_repeated_twice = self._both_sides()
        if transposed:
            shape = (in_channels, out_channels // groups, *self.kernel_size)
        else:
            shape = (out_channels, in_channels // groups, *self.kernel_size)
        self.weight = empty_parameter(*shape, device=device, dtype=dtype)
        if bias:
            self.bias = empty_parameter(out_channels, device=device, dtype=dtype)
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def _both_sides(self) -> list[Any]:
        sides: list[Any] = []
        for i in reversed(range(self.dims)):
            if self.padding == "valid":
                sides += [0, 0]
            elif self.padding == "same":
                total = self.dilation[i] * (self.kernel_size[i] - 1)
                sides += [total // 2, total - total // 2]
            else:
                sides += [self.padding[i]] * 2
        return sides

    def reset_parameters(self) -> None:
        """Uniform in +-1/sqrt(fan_in)."""
        # a = sqrt(5) gives this bound for the weight.
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in, _ = init._calculate_fan_in_and_fan_out(self.weight)
            if fan_in != 0:
                bound = 1 / math.sqrt(fan_in)
                init.uniform_(self.bias, -bound, bound)

    def extra_repr(self) -> str:
        text = (
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"
        )
        if self.padding != (0,) * len(self.kernel_size):
            text += f", padding={self.padding}"
        if self.dilation != (1,) * len(self.kernel_size):
            text += f", dilation={self.dilation}"
        if self.output_padding != (0,) * len(self.kernel_size):
            text += f", output_padding={self.output_padding}"
        if self.groups != 1:
            text += f", groups={self.groups}"
        if self.bias is None:
            text += ", bias=False"
        if self.padding_mode != "zeros":
            text += f", padding_mode={self.padding_mode}"
        return text


class _Conv(_ConvNd):
    def __init__(
        self,
        in_channels: int,
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
            in_channels,
            out_channels,
            kernel_size,
            stride,
            padding,
            dilation,
            False,
            0,
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    def forward(self, input: Tensor) -> Any:
        return self._conv_forward(input, self.weight, self.bias)

    def _conv_forward(
        self, input: Tensor, weight: Tensor, bias: Tensor | None, activation: str | None = None
    ) -> Any:
        conv = (F.conv1d, F.conv2d, F.conv3d)[self.dims - 1]
        padding = self.padding
        if self.padding_mode != "zeros":
            input = F.pad(input, self._reversed_padding_repeated_twice, mode=self.padding_mode)
            padding = (0,) * self.dims
        return conv(
            input, weight, bias, self.stride, padding, self.dilation, self.groups, activation=activation
        )


class Conv1d(_Conv):
    """Convolution of (N, C_in, L) or (C_in, L); weight (C_out, C_in / groups, K)."""

    dims = 1


class Conv2d(_Conv):
    """Convolution of (N, C_in, H, W) or (C_in, H, W); weight (C_out, C_in / groups, KH, KW)."""

    dims = 2


class Conv3d(_Conv):
    """Convolution of (N, C_in, D, H, W) or (C_in, D, H, W)."""

    dims = 3


class _ConvTranspose(_ConvNd):
    def __init__(
        self,
        in_channels: int,
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
        if padding_mode != "zeros":
            raise ValueError(f'Only "zeros" padding mode is supported for {type(self).__name__}')
        super().__init__(
            in_channels,
            out_channels,
            kernel_size,
            stride,
            padding,
            dilation,
            True,
            output_padding,
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    def forward(self, input: Tensor, output_size: Any = None) -> Any:
        conv = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[self.dims - 1]
        output_padding = self.output_padding if output_size is None else self._fitting(input, output_size)
        return conv(
            input,
            self.weight,
            self.bias,
            self.stride,
            self.padding,
            output_padding,
            self.groups,
            self.dilation,
        )

    def _fitting(self, input: Tensor, output_size: Any) -> tuple[int, ...]:
        """The output padding that gives the wanted size."""
        n = self.dims
        wanted = [int(s) for s in output_size]
        spatial = 1 if input.dim() == n + 1 else 2
        if len(wanted) == n + spatial:
            wanted = wanted[spatial:]
        if len(wanted) != n:
            raise ValueError(
                f"ConvTranspose{n}D: for {input.dim()}D input, output_size must have {n} or {n + spatial} "
                "elements "
                f"(got {len(wanted)})"
            )
        sizes = []
        for d in range(n):
            least = (
                (int(input.shape[spatial + d]) - 1) * self.stride[d]
                - 2 * self.padding[d]
                + self.dilation[d] * (self.kernel_size[d] - 1)
                + 1
            )
            most = least + self.stride[d] - 1
            if not least <= wanted[d] <= most:
                raise ValueError(
                    f"requested an output size of {wanted}, but valid sizes range from {least} to {most} in "
                    f"dimension {d} (for an input of {tuple(input.shape[spatial:])})"
                )
            sizes.append(wanted[d] - least)
        return tuple(sizes)


class ConvTranspose1d(_ConvTranspose):
    """The transpose of Conv1d as a linear map; weight (C_in, C_out / groups, K)."""

    dims = 1


class ConvTranspose2d(_ConvTranspose):
    """The transpose of Conv2d as a linear map; weight (C_in, C_out / groups, KH, KW)."""

    dims = 2


class ConvTranspose3d(_ConvTranspose):
    """The transpose of Conv3d as a linear map."""

    dims = 3
