"""Products of two inputs with a learned form."""

from __future__ import annotations

from typing import Any

from ...tensor import Tensor


def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Any:
    """out[..., k] = input1 @ weight[k] @ input2 + bias[k].

    input1 (*, I), input2 (*, J), weight (K, I, J), bias (K,): (*, K).
    """
    if input1.dim() != input2.dim():
        raise RuntimeError(
            f"bilinear(): input dimensions do not match: got {input1.dim()} and {input2.dim()}"
        )
    if input1.shape[:-1] != input2.shape[:-1]:
        raise RuntimeError(
            f"bilinear(): input batch dimensions do not match: got {list(input1.shape)} and "
            f"{list(input2.shape)}"
        )
    if weight.dim() != 3 or weight.shape[1:] != (input1.shape[-1], input2.shape[-1]):
        raise RuntimeError(
            f"bilinear(): weight of shape {list(weight.shape)} does not fit inputs with {input1.shape[-1]} "
            "and "
            f"{input2.shape[-1]} features"
        )
    outputs, first, second = weight.shape
    x, y = input1.reshape(-1, first), input2.reshape(-1, second)
    # One matrix product for all outputs, then a product and a sum over the second input.
    joined = (x @ weight.permute(1, 0, 2).reshape(first, outputs * second)).reshape(-1, outputs, second)
    made: Tensor = (joined * y.unsqueeze(1)).sum(-1)
    if bias is not None:
        made = made + bias
    return made.reshape(*input1.shape[:-1], outputs)
