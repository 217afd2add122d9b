"""Batch norm in evaluation is a linear map, so it can be taken into the layer before it."""

from __future__ import annotations

from copy import deepcopy
from typing import Any, TypeVar

from ...tensor import Tensor
from ..module import Module
from ..parameter import Parameter

M = TypeVar("M", bound=Module)


def fuse_conv_bn_eval(conv: M, bn: Any, transpose: bool = False) -> M:
    """A copy of a convolution that computes ``bn(conv(x))``; both in evaluation mode."""
    fused: Any = _copy(conv, bn)
    weight, bias = fuse_conv_bn_weights(
        fused.weight, fused.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias, transpose
    )
    fused.weight, fused.bias = weight, bias
    return fused  # type: ignore[no-any-return]


def fuse_conv_bn_weights(
    conv_w: Tensor,
    conv_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor | None,
    bn_b: Tensor | None,
    transpose: bool = False,
) -> tuple[Parameter, Parameter]:
    """Weight and bias of that convolution; ``transpose`` for a transposed one."""
    scale = (bn_rv + bn_eps).rsqrt()
    if bn_w is not None:
        scale = scale * bn_w
    shift = bn_rm.new_zeros(bn_rm.shape) if bn_b is None else bn_b
    offset = -bn_rm if conv_b is None else conv_b - bn_rm
    outputs = 1 if transpose else 0
    along = [1] * conv_w.dim()
    along[outputs] = -1
    bias_dtype = conv_w.dtype if conv_b is None else conv_b.dtype
    needs = bool(conv_w.requires_grad), bool(conv_w.requires_grad if conv_b is None else conv_b.requires_grad)
    weight = (conv_w * scale.reshape(along)).to(conv_w.dtype).detach()
    bias = (offset * scale + shift).to(bias_dtype).detach()
    return Parameter(weight, needs[0]), Parameter(bias, needs[1])


def fuse_linear_bn_eval(linear: M, bn: Any) -> M:
    """A copy of a Linear that computes ``bn(linear(x))`` for rows x; both in evaluation mode."""
    fused: Any = _copy(linear, bn)
    if fused.out_features != bn.num_features and bn.num_features != 1:
        raise AssertionError(
            f"To fuse, linear.out_features ({fused.out_features}) == bn.num_features ({bn.num_features}) or "
            "bn.num_features == 1"
        )
    fused.weight, fused.bias = fuse_linear_bn_weights(
        fused.weight, fused.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias
    )
    return fused  # type: ignore[no-any-return]


def fuse_linear_bn_weights(
    linear_w: Tensor,
    linear_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor | None,
    bn_b: Tensor | None,
) -> tuple[Parameter, Parameter]:
    """Weight and bias of that Linear."""
    return fuse_conv_bn_weights(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b)


def _copy(layer: Module, bn: Any) -> Module:
    if layer.training or bn.training:
        raise AssertionError("Fusion only for eval!")
    if bn.running_mean is None or bn.running_var is None:
        raise AssertionError("the batch norm needs its running statistics: track_running_stats=True")
    return deepcopy(layer)
