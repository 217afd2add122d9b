"""Convolutions: one bilinear form of input and weight, and its adjoints, which are each other's rules.

With y = conv(x, w), the gradients are input_adjoint(g, w) and weight_adjoint(x, g). Each of the three is
linear in both operands and its rules are the other two, so every order of derivative follows. Transposed
convolution is the input adjoint.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

from .. import buffers
from ..kernels.arrays import copy
from . import conv_arrays as arrays
from .activation_ops import rectified, relu
from .direct import direct_op
from .matmul import require_tensors
from .shape import squeeze, unsqueeze
from .windows import Windows, fixed, per_dim

__all__: list[str] = [
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
]

_NODE = "ConvolutionBackward0"


def _weight_rule(g: Any, input: Any, windows: Any, groups: Any) -> Any:
    return weight_adjoint(input, g, windows=windows, groups=groups)


def _output_rule(g: Any, input: Any, windows: Any, groups: Any) -> Any:
    return convolution(input, g, None, windows=windows, groups=groups)


def _bias_rule(g: Any) -> Any:
    return channel_sum(g)


@direct_op(
    input=lambda g, weight, windows, groups: input_adjoint(g, weight, None, windows=windows, groups=groups),
    weight=_weight_rule,
    bias=_bias_rule,
    name="convolution",
    node_name=_NODE,
    native=True,
)
def convolution(
    input: Any, weight: Any, bias: Any, *, windows: Any, groups: Any, least: float = -math.inf
) -> Any:
    """out[n, o, t] = bias[o] + sum over c, k of weight[o, c, k] * input[n, c, place of (t, k)]

    With ``least`` the result is max(out, least), whose derivative is the business of the caller.
    """
    return arrays.forward(input, weight, bias, windows, groups, least)


@direct_op(
    g_out=lambda g, weight, windows, groups: convolution(g, weight, None, windows=windows, groups=groups),
    weight=lambda g, g_out, windows, groups: weight_adjoint(g, g_out, windows=windows, groups=groups),
    bias=_bias_rule,
    name="conv_input",
    node_name=_NODE,
    native=True,
)
def input_adjoint(g_out: Any, weight: Any, bias: Any, *, windows: Any, groups: Any) -> Any:
    """The gradient of a convolution for its input; as an operation of its own, the transposed convolution."""
    return arrays.input_adjoint(g_out, weight, bias, windows, groups)


@direct_op(
    input=lambda g, g_out, windows, groups: input_adjoint(g_out, g, None, windows=windows, groups=groups),
    g_out=_output_rule,
    name="conv_weight",
    node_name=_NODE,
    native=True,
)
def weight_adjoint(input: Any, g_out: Any, *, windows: Any, groups: Any) -> Any:
    """The gradient of a convolution for its weight."""
    return arrays.weight_adjoint(input, g_out, windows, groups)


@direct_op(
    g_out=lambda g, g_out_shape: channel_spread(g, shape=g_out_shape),
    name="channel_sum",
    node_name="SumBackward0",
    native=True,
)
def channel_sum(g_out: Any) -> Any:
    """The sum over everything but the second dimension."""
    return arrays.channel_sums(g_out)


@direct_op(x=_bias_rule, name="channel_spread", node_name="ExpandBackward0", native=True)
def channel_spread(x: Any, *, shape: Any) -> Any:
    """out[n, c, ...] = x[c]"""
    out = buffers.empty(shape, x.dtype)
    copy(out, x.reshape(-1, *[1] * (len(shape) - 2)))
    return out


# -- checks ------------------------------------------------------------------------------------------

_KINDS = {"f": "FloatTensor", "d": "DoubleTensor", "e": "HalfTensor", "l": "LongTensor", "i": "IntTensor"}
_KINDS.update({"h": "ShortTensor", "b": "CharTensor", "B": "ByteTensor", "?": "BoolTensor"})


def _checked(name: str, n: int, input: Any, weight: Any, bias: Any) -> bool:
    """Whether the input has a batch dimension; errors for ranks and dtypes that do not fit."""
    require_tensors(name, input=input, weight=weight)
    if bias is not None:
        require_tensors(name, bias=bias)
    x, w = input._array, weight._array
    if w.ndim != n + 2:
        raise RuntimeError(
            f"{name}: weight should have {n + 2} dimensions (out channels, in channels per group, kernel "
            f"sizes), but got a weight of size {list(w.shape)}"
        )
    if x.ndim not in (n + 1, n + 2):
        raise RuntimeError(
            f"Expected {n + 1}D (unbatched) or {n + 2}D (batched) input to {name}, but got input of size: "
            f"{list(x.shape)}"
        )
    if x.dtype != w.dtype:
        raise RuntimeError(
            f"{name}: Input type ({_KINDS[x.dtype.char]}) and weight type ({_KINDS[w.dtype.char]}) should "
            "be the same; convert one of them with .to(dtype)"
        )
    if x.dtype.char == "?":
        raise NotImplementedError(f"\"{name}\" not implemented for 'Bool'; convert with .to(dtype)")
    if bias is not None and bias._array.dtype != x.dtype:
        raise RuntimeError(
            f"{name}: Input type ({_KINDS[x.dtype.char]}) and bias type ({_KINDS[bias._array.dtype.char]}) "
            "should be the same"
        )
    return bool(x.ndim == n + 2)


def _check_numbers(name: str, stride: Any, padding: Any, dilation: Any, groups: int) -> None:
    if any(s <= 0 for s in stride):
        raise RuntimeError(f"{name}: non-positive stride is not supported, got {list(stride)}")
    if any(p < 0 for p in padding):
        raise RuntimeError(f"{name}: negative padding is not supported, got {list(padding)}")
    if any(d <= 0 for d in dilation):
        raise RuntimeError(f"{name}: dilation should be greater than zero, got {list(dilation)}")
    if groups <= 0:
        raise RuntimeError(f"{name}: non-positive groups is not supported, got {groups}")


def _check_channels(
    name: str,
    x: tuple[int, ...],
    w: tuple[int, ...],
    bias: tuple[int, ...] | None,
    groups: int,
    transposed: bool,
) -> None:
    """x with its batch dimension."""
    given = f"Given {'transposed=1' if transposed else f'groups={groups}'}"
    if (w[0] == 0 and (transposed or x[1])) or any(k == 0 for k in w[2:]):
        raise RuntimeError(
            f"{name}: {given}, expected weight to be at least 1 in every dimension, but got {list(w)}"
        )
    if w[0] % groups:
        raise RuntimeError(
            f"{name}: Given groups={groups}, expected weight to be divisible by {groups} at dimension 0, "
            f"but got weight of size {list(w)} instead"
        )
    wanted = w[0] if transposed else w[1] * groups
    if x[1] != wanted:
        raise RuntimeError(
            f"{name}: {given}, weight of size {list(w)}, expected input{list(x)} to have {wanted} channels, "
            f"but got {x[1]} channels instead"
        )
    outs = w[1] * groups if transposed else w[0]
    if bias is not None and bias != (outs,):
        raise RuntimeError(
            f"{name}: {given}, weight of size {list(w)}, expected bias to be 1-dimensional with {outs} "
            f"elements, but got bias of size {list(bias)} instead"
        )
    if any(s == 0 for s in x[2:]):
        raise RuntimeError(
            f"{name}: Only zero batch or zero channel inputs are supported, but got input shape: {list(x)}"
        )


# -- convolution -------------------------------------------------------------------------------------


def _conv(
    name: str,
    n: int,
    input: Any,
    weight: Any,
    bias: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int,
    activation: str | None,
) -> Any:
    if activation not in (None, "relu"):
        raise ValueError(f"{name}: activation should be None or 'relu', but got {activation!r}")
    batched = _checked(name, n, input, weight, bias)
    x = input if batched else unsqueeze(input, 0)
    windows = _geometry(
        name,
        x._array.shape,
        weight._array.shape,
        None if bias is None else bias._array.shape,
        fixed(stride),
        fixed(padding),
        fixed(dilation),
        groups,
    )
    # Whole numbers and empty arrays do not come to the kernels, and float16 is rounded after them.
    fused = activation is not None and x._array.dtype.char in "fd" and x._array.size and weight._array.size
    least = {"least": 0.0} if fused else {}
    made = convolution(x, weight, bias, windows=windows, groups=int(groups), **least)
    if not batched:
        made = squeeze(made, 0)
    return made if activation is None else rectified(made) if fused else relu(made)


@lru_cache(maxsize=1024, typed=True)
def _geometry(
    name: str,
    shape: tuple[int, ...],
    weight: tuple[int, ...],
    bias: tuple[int, ...] | None,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int,
) -> Windows:
    """The windows of a convolution; errors for whatever does not fit."""
    n = len(shape) - 2
    stride = per_dim(stride, n, name, "stride")
    dilation = per_dim(dilation, n, name, "dilation")
    kernel = weight[2:]
    if isinstance(padding, str):
        front, back = _named_padding(name, padding, stride, dilation, kernel)
    else:
        front = back = per_dim(padding, n, name, "padding")
    _check_numbers(name, stride, front, dilation, groups)
    _check_channels(name, shape, weight, bias, groups, False)
    out = []
    for s, k, st, a, b, d in zip(shape[2:], kernel, stride, front, back, dilation, strict=True):
        room = s + a + b - d * (k - 1) - 1
        if room < 0:
            padded = " x ".join(str(s + a + b) for s, a, b in zip(shape[2:], front, back, strict=True))
            reach = " x ".join(str(d * (k - 1) + 1) for k, d in zip(kernel, dilation, strict=True))
            raise RuntimeError(
                f"{name}: Calculated padded input size per channel: ({padded}). Kernel size: ({reach}). "
                "Kernel size can't be greater than actual input size"
            )
        out.append(room // st + 1)
    return Windows(shape[2:], tuple(out), kernel, stride, front, dilation)


def _named_padding(
    name: str, padding: str, stride: Any, dilation: Any, kernel: Any
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Padding in front and behind for "valid" and "same"."""
    if padding == "valid":
        return (0,) * len(kernel), (0,) * len(kernel)
    if padding != "same":
        raise RuntimeError(f"{name}: Invalid padding string: '{padding}'; use 'valid' or 'same'")
    if any(s != 1 for s in stride):
        raise RuntimeError(f"{name}: padding='same' is not supported for strided convolutions")
    total = [d * (k - 1) for d, k in zip(dilation, kernel, strict=True)]
    return tuple(t // 2 for t in total), tuple(t - t // 2 for t in total)


def conv1d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
    *,
    activation: str | None = None,
) -> Any:
    """Convolution of (N, C, L) or (C, L) with weight (out, C / groups, K).

    ``padding`` is a number, "valid" or "same". ``activation="relu"`` gives relu of it, in the same pass.
    """
    return _conv("conv1d", 1, input, weight, bias, stride, padding, dilation, groups, activation)


def conv2d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
    *,
    activation: str | None = None,
) -> Any:
    """Convolution of (N, C, H, W) or (C, H, W) with weight (out, C / groups, KH, KW).

    ``padding`` is a number or two, "valid" or "same". ``activation="relu"`` gives relu of it, in the same pass.
    """
    return _conv("conv2d", 2, input, weight, bias, stride, padding, dilation, groups, activation)


def conv3d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
    *,
    activation: str | None = None,
) -> Any:
    """Convolution of (N, C, D, H, W) or (C, D, H, W) with weight (out, C / groups, KD, KH, KW).

    ``padding`` is a number or three, "valid" or "same". ``activation="relu"`` gives relu of it, in the same pass.
    """
    return _conv("conv3d", 3, input, weight, bias, stride, padding, dilation, groups, activation)


# -- transposed convolution --------------------------------------------------------------------------


def _conv_transpose(
    name: str,
    n: int,
    input: Any,
    weight: Any,
    bias: Any,
    stride: Any,
    padding: Any,
    output_padding: Any,
    groups: int,
    dilation: Any,
) -> Any:
    batched = _checked(name, n, input, weight, bias)
    x = input if batched else unsqueeze(input, 0)
    windows = _transposed_geometry(
        name,
        x._array.shape,
        weight._array.shape,
        None if bias is None else bias._array.shape,
        fixed(stride),
        fixed(padding),
        fixed(output_padding),
        groups,
        fixed(dilation),
    )
    made = input_adjoint(x, weight, bias, windows=windows, groups=int(groups))
    return made if batched else squeeze(made, 0)


@lru_cache(maxsize=1024, typed=True)
def _transposed_geometry(
    name: str,
    shape: tuple[int, ...],
    weight: tuple[int, ...],
    bias: tuple[int, ...] | None,
    stride: Any,
    padding: Any,
    output_padding: Any,
    groups: int,
    dilation: Any,
) -> Windows:
    """The windows of the convolution that is transposed; errors for whatever does not fit."""
    n = len(shape) - 2
    stride = per_dim(stride, n, name, "stride")
    padding = per_dim(padding, n, name, "padding")
    extra = per_dim(output_padding, n, name, "output_padding")
    dilation = per_dim(dilation, n, name, "dilation")
    _check_numbers(name, stride, padding, dilation, groups)
    if any(e < 0 for e in extra):
        raise RuntimeError(f"{name}: negative output_padding is not supported, got {list(extra)}")
    if any(e >= max(s, d) for e, s, d in zip(extra, stride, dilation, strict=True)):
        raise RuntimeError(
            f"{name}: output padding must be smaller than either stride or dilation, but got output_padding "
            f"{list(extra)}, stride {list(stride)}, dilation {list(dilation)}"
        )
    _check_channels(name, shape, weight, bias, groups, True)
    size = tuple(
        (s - 1) * st - 2 * p + d * (k - 1) + e + 1
        for s, st, p, d, k, e in zip(shape[2:], stride, padding, dilation, weight[2:], extra, strict=True)
    )
    if any(s <= 0 for s in size):
        raise RuntimeError(
            f"{name}: Given input size per channel: {list(shape[2:])}. Calculated output size per channel: "
            f"{list(size)}. Output size is too small"
        )
    return Windows(size, shape[2:], weight[2:], stride, padding, dilation)


def conv_transpose1d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Any:
    """The transpose of conv1d: (N, C, L) or (C, L) with weight (C, out / groups, K)."""
    return _conv_transpose(
        "conv_transpose1d", 1, input, weight, bias, stride, padding, output_padding, groups, dilation
    )


def conv_transpose2d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Any:
    """The transpose of conv2d: (N, C, H, W) or (C, H, W) with weight (C, out / groups, KH, KW)."""
    return _conv_transpose(
        "conv_transpose2d", 2, input, weight, bias, stride, padding, output_padding, groups, dilation
    )


def conv_transpose3d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Any:
    """The transpose of conv3d: (N, C, D, H, W) or (C, D, H, W) with weight (C, out / groups, KD, KH, KW)."""
    return _conv_transpose(
        "conv_transpose3d", 3, input, weight, bias, stride, padding, output_padding, groups, dilation
    )
