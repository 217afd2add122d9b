"""Normalisation by statistics of channels and groups: batch, group and instance norm.

One op serves all three. It sees its input as (N, C, L) and takes statistics per channel over N and L
(``across``), or per sample over ``groups`` of channels; instance norm has as many groups as channels.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from .. import buffers, config, kernels
from ..kernels import launch_lazily as launch
from ..kernels.arrays import cast, contiguous, copied, filled
from ..kernels.recording import active
from ..op import apply_inplace, kernel_op
from ..tape import Value
from .fused import fused
from .maths import rsqrt
from .reduce import mean as average
from .reduce import sum as total
from .shape import reshape, write_view
from .softmax import wide

__all__ = ["batch_norm", "group_norm", "instance_norm"]


class Layout(NamedTuple):
    """Where the numbers of planes and groups stand: arguments of the kernels in norm.py."""

    planes: int
    length: int
    columns: bool  # planes would have one element each: rows of them are handled side by side
    channels: int
    wrap: int
    per: int
    first: int
    step: int
    members: int

    @property
    def groups(self) -> int:
        """How many sets of statistics there are."""
        return self.wrap // self.per


def layout(shape: tuple[int, ...], groups: int, across: bool) -> Layout:
    """The layout of an input of (N, C, ...)."""
    n, channels, length = shape[0], shape[1], math.prod(shape[2:])
    if across and length == 1:
        return Layout(channels, n, True, channels, channels, 1, 1, 1, 1)
    if across:
        return Layout(n * channels, length, False, channels, channels, 1, 1, channels, n)
    per = channels // groups
    return Layout(n * channels, length, length == 1, channels, n * channels, per, per, 1, per)


def _tiles(count: int) -> Any:
    return -(-count // kernels.norm.WIDTH)


def _or(weight: np.ndarray | None, channels: int, fill: float, dtype: np.dtype) -> np.ndarray:
    return filled((channels,), fill, dtype) if weight is None else contiguous(weight, dtype)


def _divided(x: np.ndarray, by: int) -> np.ndarray:
    """x / by, in its place."""
    if active:
        kernels.loop.QUOTIENT.run("d", [x], [x], [by], (0,))
    else:
        x /= by
    return x


@kernel_op(outputs=("mean", "var"), name="channel_moments", native=True)
def channel_moments(input: Any, *, groups: Any, across: Any) -> Any:
    """Mean and variance of each channel or group, in float64."""
    x = wide(input)
    at = layout(x.shape, groups, across)
    norm = kernels.norm
    if at.columns and not across:  # a group's channels lie side by side: one plane
        mean, m2 = np.empty(at.groups), np.empty(at.groups)
        launch(norm.plane_moments, (x, mean, m2, at.members), at.groups, x.size)
        return mean, _divided(m2, at.members)
    mean, m2 = np.empty(at.planes), np.empty(at.planes)
    if at.columns:
        launch(norm.column_moments, (x, mean, m2, at.length, at.planes), _tiles(at.planes), x.size)
        return mean, _divided(m2, max(at.length, 1))
    group_mean, group_var = np.empty(at.groups), np.empty(at.groups)
    numbers = (mean, m2, group_mean, group_var, at.length, at.first, at.step, at.members)
    if x.size < config.grain:
        kernels.norm_whole.group_moments(x, *numbers, at.planes, 0, at.groups)
        return group_mean, group_var
    launch(norm.plane_moments, (x, mean, m2, at.length), at.planes, x.size)
    norm.merge_moments(*numbers, 0, at.groups)
    return group_mean, group_var


def _moments(input: Any, groups: int, across: bool) -> tuple[Any, Any]:
    """channel_moments as constants: tensors, or arrays where nobody records what is computed."""
    if active:
        return channel_moments(input.detach(), groups=groups, across=across)  # type: ignore[no-any-return]
    return channel_moments.forward(input._array, groups=groups, across=across)  # type: ignore[no-any-return]


def _normalized(
    input: Any, mean: Any, var: Any, groups: int, across: bool, training: bool, eps: float
) -> tuple[Any, Any, Any]:
    """As expressions: the normalised input as (N, G, C / G, L), 1 / deviation; the dimensions."""
    n, channels, *rest = input._array.shape
    groups = channels if across else groups
    x = reshape(input, (n, groups, channels // groups, math.prod(rest)))
    dims = (0, 2, 3) if across else (2, 3)
    if training:
        mean = average(x, dims, keepdim=True)
        var = average((x - mean) * (x - mean), dims, keepdim=True)
    else:
        shape = (1, groups, 1, 1) if across else (n, groups, 1, 1)
        mean, var = (reshape(s.to(input.dtype), shape) for s in (mean, var))
    spread = rsqrt(var + eps)
    return (x - mean) * spread, spread, dims


def _slopes(
    g: Any, input: Any, weight: Any, mean: Any, var: Any,
    groups: int, across: bool, training: bool, eps: float, wanted: bool,
) -> tuple[Any, Any, Any]:  # fmt: skip
    """The cotangents of channel_norm's input, weight and bias, as expressions."""
    y, spread, dims = _normalized(input, mean, var, groups, across, training, eps)
    g = reshape(g, y._array.shape)
    a = g if weight is None else g * reshape(weight, (1, *y._array.shape[1:3], 1))
    slope = a - average(a, dims, keepdim=True) - y * average(a * y, dims, keepdim=True) if training else a
    shape = input._array.shape
    return (
        reshape(slope * spread, shape),
        reshape(total(g * y, (0, 3)), (shape[1],)),
        reshape(total(g, (0, 3)), (shape[1],)),
    )


@fused(_slopes, outputs=("input", "weight", "bias"), name="channel_norm_backward", native=True)
def channel_slopes(
    g: Any,
    input: Any,
    weight: Any,
    mean: Any,
    var: Any,
    *,
    groups: Any,
    across: Any,
    training: Any,
    eps: Any,
    wanted: Any,
) -> Any:
    """The cotangents of channel_norm's input (unless it is not wanted), weight and bias."""
    x = wide(input)
    g = contiguous(g, x.dtype)
    at = layout(x.shape, groups, across)
    norm, dtype = kernels.norm, x.dtype
    mean, var = wide(mean), wide(var)
    w = _or(weight, at.channels, 1.0, dtype)
    out = buffers.empty(x.shape if wanted else (0,), dtype)
    by_weight, by_bias = np.empty(at.channels, dtype), np.empty(at.channels, dtype)
    sums, products = np.empty(at.planes), np.empty(at.planes)
    if training and out.size and not at.columns and (out.size < config.grain or not across):
        shift, by_g, by_x, rest = [np.empty(at.wrap, dtype) for _ in range(4)]
        if out.size < config.grain:
            kernels.norm_whole.normalize_planes_grad(
                g, x, mean, var, w, shift, sums, products, by_weight, by_bias, by_g, by_x, rest, out, eps, at.length,
                at.per, at.channels, at.wrap, at.first, at.step, at.members, 0, at.planes,
            )  # fmt: skip
            return cast(out, input.dtype), by_weight, by_bias
        launch(
            kernels.norm_whole.normalize_groups_grad,
            (
                g, x, mean, var, w, shift, sums, products, by_g, by_x, rest, out, eps, at.length, at.per, at.channels,
                at.planes,
            ),
            at.groups,
            x.size,
        )  # fmt: skip
        norm.weight_grads(
            sums, products, mean, var, shift, by_weight, by_bias, eps, at.per, at.channels, at.planes, at.wrap, 0,
            at.channels,
        )  # fmt: skip
        return cast(out, input.dtype), by_weight, by_bias
    shift, scale, offset = (np.empty(at.wrap, dtype) for _ in range(3))
    zeros = np.zeros(at.channels, dtype)
    norm.coefficients(mean, var, w, zeros, shift, scale, offset, eps, at.per, at.channels, 0, at.wrap)
    if at.columns:
        launch(
            norm.column_sums, (g, x, shift, sums, products, at.length, at.planes), _tiles(at.planes), x.size
        )
    else:
        launch(norm.plane_sums, (g, x, shift, sums, products, at.length, at.wrap), at.planes, x.size)
    norm.weight_grads(
        sums,
        products,
        mean,
        var,
        shift,
        by_weight,
        by_bias,
        eps,
        at.per,
        at.channels,
        at.planes,
        at.wrap,
        0,
        at.channels,
    )
    if out.size and training:
        by_g, by_x, rest = (np.empty(at.wrap, dtype) for _ in range(3))
        norm.input_coefficients(
            sums, products, mean, var, w, shift, by_g, by_x, rest, eps, at.length, at.per, at.channels,
            at.first, at.step, at.members, 0, at.groups,
        )  # fmt: skip
        if at.columns:
            launch(norm.combine_columns, (g, x, shift, by_g, by_x, rest, out, at.planes), at.length, x.size)
        else:
            launch(
                norm.combine_planes,
                (g, x, shift, by_g, by_x, rest, out, at.length, at.wrap),
                at.planes,
                x.size,
            )
    elif out.size:
        zeros = np.zeros(at.wrap, dtype)
        _scaled(g, zeros, scale, zeros, out, at)
    return cast(out, input.dtype), by_weight, by_bias


def _scaled(x: Any, shift: Any, scale: Any, offset: Any, out: Any, at: Layout) -> None:
    if at.columns:
        launch(kernels.norm.scale_columns, (x, shift, scale, offset, out, at.planes), at.length, x.size)
    else:
        launch(
            kernels.norm.scale_planes, (x, shift, scale, offset, out, at.length, at.wrap), at.planes, x.size
        )


def _rule(
    g: Any, input: Any, weight: Any, mean: Any, var: Any, needs: Any,
    groups: int, across: bool, training: bool, eps: float,
) -> Any:  # fmt: skip
    slopes = channel_slopes(
        g, input, weight, mean, var, groups=groups, across=across, training=training, eps=eps, wanted=needs[0]
    )
    return (*[s if need else None for s, need in zip(slopes, needs, strict=False)], None, None)


@kernel_op(all=_rule, name="native_batch_norm", native=True)
def channel_norm(
    input: Any,
    weight: Any,
    bias: Any,
    mean: Any,
    var: Any,
    *,
    groups: Any,
    across: Any,
    training: Any,
    eps: Any,
) -> Any:
    """(input - mean) / sqrt(var + eps) * weight + bias; in training mean and var are those of the input."""
    x = wide(input)
    at = layout(x.shape, groups, across)
    out = buffers.empty(x.shape, x.dtype)
    if out.size:
        shift, scale, offset = [np.empty(at.wrap, x.dtype) for _ in range(3)]
        w, b = _or(weight, at.channels, 1.0, x.dtype), _or(bias, at.channels, 0.0, x.dtype)
        mean, var = wide(mean), wide(var)
        if x.size < config.grain and not at.columns:
            kernels.norm_whole.normalize_planes(
                x, mean, var, w, b, shift, scale, offset, out, eps, at.length, at.per, at.channels, at.wrap,
                0, at.planes,
            )  # fmt: skip
            return cast(out, input.dtype)
        kernels.norm.coefficients(mean, var, w, b, shift, scale, offset, eps, at.per, at.channels, 0, at.wrap)
        _scaled(x, shift, scale, offset, out, at)
    return cast(out, input.dtype)


@kernel_op(name="moving_average", native=True)
def moved(running: Any, new: Any, *, momentum: Any, scale: Any) -> Any:
    """running moved towards scale * new by momentum."""
    out = copied(running, np.float32 if running.dtype.char == "e" else running.dtype)
    _move_array(out, new, momentum=momentum, scale=scale)
    return cast(out, running.dtype)


def _move_array(running: np.ndarray, new: np.ndarray, *, momentum: float, scale: float) -> None:
    if running.dtype.char in "fd" and running.flags.c_contiguous:
        kernels.norm.move(running, contiguous(new), 1.0 - momentum, momentum * scale, 0, running.size)
    else:
        running[...] = running * (1 - momentum) + new.reshape(running.shape) * (momentum * scale)


moved.update = _move_array


def _move(running: Any, new: Any, momentum: float, scale: float) -> None:
    """Update running statistics in place."""
    apply_inplace(moved, write_view, running, new, momentum=float(momentum), scale=float(scale))


# -- PyTorch's faces -----------------------------------------------------------------------------------


def check_parameters(name: str, input: Any, **given: Any) -> None:
    """Parameters have the type of the input; beside float16 they may be float32."""
    dtype = input._array.dtype
    for what, value in given.items():
        if (
            value is not None
            and value._array.dtype != dtype
            and (dtype.char != "e" or value._array.dtype.char != "f")
        ):
            raise RuntimeError(
                f"{name}: expected {what} of dtype {dtype} as the input, got {value._array.dtype}"
            )


def _check_sizes(name: str, channels: int, input: Any, **given: Any) -> None:
    for what, value in given.items():
        if value is not None and value._array.size != channels:
            raise RuntimeError(f"{name}: {what} should contain {channels} elements not {value._array.size}")
    check_parameters(name, input, **given)


def _check_input(name: str, input: Any, least: int) -> None:
    if not isinstance(input, Value):
        raise TypeError(f"{name}(): argument 'input' must be a tensor, not {type(input).__name__}")
    if input._array.ndim < least:
        raise RuntimeError(
            f"{name}: Expected at least {least} dimensions for input tensor but received {input._array.ndim}"
        )
    if input._array.dtype.kind != "f":
        raise NotImplementedError(
            f'"{name}" is not implemented for {input._array.dtype}: convert with .float() first'
        )


def _check_count(shape: tuple[int, ...], count: int) -> None:
    if count == 1:
        raise ValueError(
            f"Expected more than 1 value per channel when training, got input size {list(shape)}"
        )


def batch_norm(
    input: Any,
    running_mean: Any,
    running_var: Any,
    weight: Any = None,
    bias: Any = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Any:
    """(x - mean) / sqrt(var + eps) * weight + bias per channel of (N, C, ...).

    In training the statistics are those of the batch, and the running ones move towards them by ``momentum``
    in place (the variance by its unbiased estimate); else the running ones are used.
    """
    _check_input("batch_norm", input, 1)
    if training and eps <= 0.0:
        raise ValueError(f"batch_norm eps must be positive during training, but got {eps}")
    shape = input._array.shape
    channels = shape[1] if len(shape) > 1 else 0
    _check_sizes(
        "batch_norm",
        channels,
        input,
        running_mean=running_mean,
        running_var=running_var,
        weight=weight,
        bias=bias,
    )
    if len(shape) == 1:
        if shape[0]:
            raise IndexError("batch_norm: the input must have a dimension of channels after the first")
        return input * 1
    if not training:
        for what, value in (("running_mean", running_mean), ("running_var", running_var)):
            if value is None:
                raise RuntimeError(f"batch_norm: {what} must be defined in evaluation mode")
        return channel_norm(
            input, weight, bias, running_mean.detach(), running_var.detach(),
            groups=0, across=True, training=False, eps=float(eps),
        )  # fmt: skip
    count = shape[0] * math.prod(shape[2:])
    _check_count(shape, count)
    mean, var = _moments(input, 0, True)
    if running_mean is not None and count:
        _move(running_mean, mean, momentum, 1.0)
    if running_var is not None and count:
        _move(running_var, var, momentum, count / (count - 1))
    return channel_norm(input, weight, bias, mean, var, groups=0, across=True, training=True, eps=float(eps))


def group_norm(input: Any, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
    """Each group of channels of each sample of (N, C, ...) normalised, scaled and shifted per channel."""
    _check_input("group_norm", input, 2)
    shape = input._array.shape
    channels = shape[1]
    if num_groups < 1 or channels % num_groups:
        raise RuntimeError(
            f"Expected number of channels in input to be divisible by num_groups, but got input of shape "
            f"{list(shape)} and num_groups={num_groups}"
        )
    _check_sizes("group_norm", channels, input, weight=weight, bias=bias)
    _check_count(shape, shape[0] * math.prod(shape[1:]) // num_groups)
    return _by_sample(input, num_groups, weight, bias, eps)


def _by_sample(input: Any, groups: int, weight: Any, bias: Any, eps: float) -> Any:
    mean, var = _moments(input, groups, False)
    return channel_norm(
        input, weight, bias, mean, var, groups=groups, across=False, training=True, eps=float(eps)
    )


def instance_norm(
    input: Any,
    running_mean: Any = None,
    running_var: Any = None,
    weight: Any = None,
    bias: Any = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Any:
    """Each channel of each sample of (N, C, L, ...) normalised, then scaled and shifted per channel.

    Without ``use_input_stats`` the running statistics are used; with it they move towards the mean over the
    batch.
    """
    _check_input("instance_norm", input, 2)
    shape = input._array.shape
    channels, length = shape[1], math.prod(shape[2:])
    _check_sizes(
        "instance_norm",
        channels,
        input,
        running_mean=running_mean,
        running_var=running_var,
        weight=weight,
        bias=bias,
    )
    if not use_input_stats:
        return batch_norm(input, running_mean, running_var, weight, bias, False, momentum, eps)
    if length == 1:
        raise ValueError(f"Expected more than 1 spatial element when training, got input size {list(shape)}")
    if running_mean is not None or running_var is not None:
        mean, var = channel_moments(input.detach(), groups=channels, across=False)
        for running, new, scale in ((running_mean, mean, 1.0), (running_var, var, length / (length - 1))):
            if running is not None:
                _move(running, average(reshape(new, (shape[0], channels)), 0), momentum, scale)
    return _by_sample(input, channels, weight, bias, eps)
