"""A convolution whose input has the time first."""

from __future__ import annotations

from typing import Any

from ...ops.conv import conv1d
from ...tensor import Tensor


def conv_tbc(input: Tensor, weight: Tensor, bias: Tensor, pad: int = 0) -> Any:
    """conv1d of (time, batch, in) with a weight (width, in, out) and a bias (out,), to (time', batch, out)."""
    for what, given, dims in (("input", input, 3), ("weight", weight, 3), ("bias", bias, 1)):
        if given.dim() != dims:
            raise RuntimeError(f"conv_tbc: {what} must have {dims} dimension(s), got {list(given.shape)}")
    out = conv1d(input.permute(1, 2, 0), weight.permute(2, 1, 0), bias, padding=pad)
    return out.permute(2, 0, 1)
