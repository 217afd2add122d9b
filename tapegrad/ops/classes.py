"""Losses over classes: negative log-likelihood and cross entropy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import buffers, kernels
from ..kernels import launch_lazily as launch
from ..kernels.arrays import cast, contiguous, copy, filled, zeros
from ..kernels.recording import active, now
from ..op import kernel_op
from ..tape import Value
from .arithmetic import div, mul, where
from .fused import fused
from .maths import exp
from .reduce import logsumexp
from .reduce import sum as total
from .reduction import chosen_reduction, constant, reduced
from .shape import expand, reshape, squeeze, unsqueeze
from .softmax import log_softmax, wide

_NONE = np.zeros(1, np.float32)  # in the place of weights that are not given
_UNUSED = np.zeros(1)


def _indices(target: np.ndarray) -> np.ndarray:
    return contiguous(target, np.int64)


def _weights(weight: np.ndarray | None, like: np.ndarray) -> tuple[np.ndarray, int]:
    return (_NONE, 0) if weight is None else (contiguous(weight, like.dtype), 1)


def _refuse(bad: np.ndarray, ignore_index: int, classes: int) -> None:
    """Raise if a kernel met a target out of range: it left it in ``bad``, where ``ignore_index`` was."""
    if active and (recorder := now()) is not None:
        recorder.check(bad, lambda array: _refuse(array, ignore_index, classes))
    if bad[0] != ignore_index:
        raise IndexError(f"Target {bad[0]} is out of bounds for {classes} classes.")


# -- values at class indices ---------------------------------------------------------------------------


def _placed(g: Any, target: Any, weight: Any, input_shape: Any, ignore_index: int) -> Any:
    return class_places(g, target, weight, shape=input_shape, ignore_index=ignore_index)


@kernel_op(input=_placed, name="nll_loss", native=True)
def class_values(input: Any, target: Any, weight: Any, *, ignore_index: Any) -> Any:
    """-weight[t] * input[:, t] for t = target, 0 where ignored: (N, C, ...), (N, ...) to (N, ...)."""
    x = wide(input)
    out = np.empty(target.shape, x.dtype)
    if out.size:
        index, bad = _indices(target), filled((1,), ignore_index, np.int64)
        weight, weighted = _weights(weight, x)
        n, inner = x.shape[1], math.prod(x.shape[2:])
        launch(
            kernels.classes.class_values,
            (x, index, weight, out, bad, n, inner, ignore_index, weighted),
            out.size,
            out.size,
        )
        _refuse(bad, ignore_index, n)
    return cast(out, input.dtype)


@kernel_op(
    g=lambda g, target, weight, ignore_index: class_values(g, target, weight, ignore_index=ignore_index),
    name="nll_loss_backward",
    native=True,
)
def class_places(g: Any, target: Any, weight: Any, *, shape: Any, ignore_index: Any) -> Any:
    """Zeros of a shape with -weight[t] * g at t = target, the adjoint of class_values."""
    values = wide(g)
    out = zeros(shape, values.dtype)
    if values.size:
        weight, weighted = _weights(weight, values)
        n, inner = shape[1], math.prod(shape[2:])
        args = (values, _indices(target), weight, out, n, inner, ignore_index, weighted)
        launch(kernels.classes.class_places, args, values.size, values.size)
    return cast(out, g.dtype)


@kernel_op(name="class_weights", native=True)
def class_weights(target: Any, weight: Any, *, classes: Any, ignore_index: Any, dtype: Any) -> Any:
    """weight[target] (or 1), and 0 where the target is ignored."""
    out = np.empty(target.shape, np.float32 if dtype.char == "e" else dtype)
    if out.size:
        weight, weighted = _weights(weight, out)
        launch(
            kernels.classes.class_weights,
            (_indices(target), weight, out, classes, ignore_index, weighted),
            out.size,
            out.size,
        )
    return cast(out, dtype)


# -- cross entropy in one kernel -------------------------------------------------------------------------


def _slope(
    g: Any, input: Any, target: Any, weight: Any, lse: Any, count: Any, ignore_index: int, reduction: str
) -> Any:
    """The cotangent of cross_entropy's input, as an expression."""
    dtype = input._array.dtype
    share = class_weights(
        target, weight, classes=input._array.shape[1], ignore_index=ignore_index, dtype=dtype
    )
    g = expand(div(g, count) if reduction == "mean" else g, target._array.shape)
    places = class_places(g, target, weight, shape=input._array.shape, ignore_index=ignore_index)
    return exp(input - unsqueeze(lse, 1)) * unsqueeze(share * g, 1) + places


@fused(_slope, name="cross_entropy_backward", native=True)
def cross_entropy_slope(
    g: Any, input: Any, target: Any, weight: Any, lse: Any, count: Any, *, ignore_index: Any, reduction: Any
) -> Any:
    """The cotangent of cross_entropy's input."""
    x = wide(input)
    out = buffers.empty(x.shape, x.dtype)
    if out.size:
        weight, weighted = _weights(weight, x)
        rows, n = x.shape
        step = int(reduction == "none")
        g = contiguous(g, x.dtype).reshape(-1)
        mean = int(reduction == "mean")
        args = (x, _indices(target), weight, lse, g, count, out, n, ignore_index, weighted, step, mean)
        launch(kernels.softmax.FAMILY[x.dtype.char].cross_entropy_grad_rows, args, rows, x.size)
    return cast(out, input.dtype)


@kernel_op(
    input=lambda g, input, target, weight, lse, count, ignore_index, reduction: cross_entropy_slope(
        g, input, target, weight, lse, count, ignore_index=ignore_index, reduction=reduction
    ),
    residuals={
        "lse": lambda input: logsumexp(input, 1),
        "count": lambda input, target, weight, ignore_index: total(
            class_weights(
                target,
                weight,
                classes=input._array.shape[1],
                ignore_index=ignore_index,
                dtype=input._array.dtype,
            )
        ),
    },
    name="cross_entropy",
    node_name="CrossEntropyBackward0",
    native=True,
)
def cross_entropy_rows(input: Any, target: Any, weight: Any, *, ignore_index: Any, reduction: Any) -> Any:
    """-weight[t] * log_softmax(input)[:, t] for t = target, reduced: (N, C) and (N,) give (N,) or a number.

    Hands out the logarithm of each row's sum of exponentials, and the sum of weights that divides a mean.
    """
    x = wide(input)
    rows, n = x.shape
    loss, lse = np.empty(rows), np.empty(rows)
    index = _indices(target)
    weight, weighted = _weights(weight, x)
    if x.size:
        bad = filled((1,), ignore_index, np.int64)
        args = (x, index, weight, loss, lse, bad, n, ignore_index, weighted)
        launch(kernels.softmax.FAMILY[x.dtype.char].cross_entropy_rows, args, rows, x.size)
        _refuse(bad, ignore_index, n)
    else:
        copy(loss, 0.0)
    if reduction == "none":
        return cast(loss, input.dtype), lse, _UNUSED
    count, out = np.empty(1), np.empty((), x.dtype)
    mean = int(reduction == "mean")
    args = (loss, index, weight, count, out, n, ignore_index, weighted, mean)
    kernels.classes.class_totals(*args, 0, rows)
    return cast(out, input.dtype), lse, count


# -- PyTorch's faces -----------------------------------------------------------------------------------


def _class_dim(input: Any) -> int:
    """The dimension of the classes: the only one of (C,), else the second of (N, C, ...)."""
    return 0 if input._array.ndim == 1 else 1


def _check_tensors(name: str, input: Any, target: Any) -> None:
    for what, value in (("input", input), ("target", target)):
        if not isinstance(value, Value):
            raise TypeError(f"{name}(): argument {what!r} must be a tensor, not {type(value).__name__}")


def _check(name: str, input: Any, target: Any, weight: Any) -> None:
    """Shapes and types of class indices and weights."""
    shape, wanted = input._array.shape, target._array.shape
    if not shape:
        raise ValueError(f"{name}: expected 1 or more dimensions (got 0)")
    if input._array.dtype.kind != "f":
        raise NotImplementedError(
            f'"{name}" is not implemented for {input._array.dtype}: convert with .float()'
        )
    dim = _class_dim(input)
    if len(shape) > 1 and wanted and shape[0] != wanted[0]:
        raise ValueError(f"Expected input batch_size ({shape[0]}) to match target batch_size ({wanted[0]}).")
    if wanted != (*shape[:dim], *shape[dim + 1 :]):
        raise RuntimeError(
            f"{name}: a target of shape {list(wanted)} does not fit an input of shape {list(shape)}"
        )
    if target._array.dtype.char not in "lB":
        raise RuntimeError(
            f"{name}: expected class indices of dtype int64 (or uint8), got {target._array.dtype}"
        )
    classes = shape[dim]
    if weight is not None and weight._array.shape != (classes,):
        raise RuntimeError(
            f"{name}: weight tensor should be defined either for all {classes} classes or no classes but got "
            f"weight tensor of shape: {list(weight._array.shape)}"
        )
    if weight is not None and weight._array.dtype != input._array.dtype:
        raise RuntimeError(
            f"{name}: expected a weight of dtype {input._array.dtype} as the input, got {weight._array.dtype}"
        )


def _negative_likelihood(input: Any, target: Any, weight: Any, ignore_index: int, reduction: str) -> Any:
    """Reduced -weight[target] * input[target] of log-probabilities."""
    classes, dtype = input._array.shape[_class_dim(input)], input._array.dtype
    single = input._array.ndim == 1
    if single:
        input, target = unsqueeze(input, 0), unsqueeze(target, 0)
    loss = class_values(input, target, weight, ignore_index=ignore_index)
    if reduction == "mean":
        weights = class_weights(target, weight, classes=classes, ignore_index=ignore_index, dtype=dtype)
        return div(total(loss), total(weights))
    return reduced(reshape(loss, ()) if single else loss, reduction)


def nll_loss(
    input: Any,
    target: Any,
    weight: Any = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Any:
    """-input[target] of log-probabilities (N, C, ...) or (C,) at class indices (N, ...) or (), reduced.

    The mean is over the weights of the targets that are not ``ignore_index``.
    """
    reduction = chosen_reduction(size_average, reduce, reduction)
    _check_tensors("nll_loss", input, target)
    if input._array.ndim == 1 and target._array.shape == (1,):
        target = squeeze(target, 0)
    _check("nll_loss", input, target, weight)
    return _negative_likelihood(input, target, constant(weight, "weight"), ignore_index, reduction)


def cross_entropy(
    input: Any,
    target: Any,
    weight: Any = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Any:
    """-log_softmax(input)[target] of logits (N, C, ...) or (C,), reduced.

    ``target`` holds class indices (N, ...), or probabilities of the shape of input. ``label_smoothing`` mixes
    the target with the uniform distribution.
    """
    reduction = chosen_reduction(size_average, reduce, reduction)
    if not 0.0 <= label_smoothing <= 1.0:
        raise RuntimeError(f"label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing}")
    _check_tensors("cross_entropy", input, target)
    if not input._array.ndim and target._array.dtype.kind != "f":
        raise RuntimeError("cross_entropy: Expected floating point type for target with class probabilities")
    if target._array.dtype.kind == "f":
        return _cross_probabilities(input, target, weight, ignore_index, reduction, label_smoothing)
    _check("cross_entropy", input, target, weight)
    weight = constant(weight, "weight")
    if input._array.ndim == 2 and not label_smoothing:
        return cross_entropy_rows(input, target, weight, ignore_index=ignore_index, reduction=reduction)
    dim = _class_dim(input)
    likely = log_softmax(input, dim)
    loss = _negative_likelihood(likely, target, weight, ignore_index, reduction)
    if not label_smoothing:
        return loss
    # The uniform part: every class as a target, counted where the target is.
    classes, dtype = input._array.shape[dim], input._array.dtype
    smooth = -total(likely if weight is None else mul(likely, _beside(weight, dim, likely)), dim)
    there = class_weights(target, None, classes=classes, ignore_index=ignore_index, dtype=dtype)
    smooth = where(there != 0, smooth, 0.0)  # not a product: 0 times the infinite slope of a mean of nothing
    if reduction == "mean":
        weights = class_weights(target, weight, classes=classes, ignore_index=ignore_index, dtype=dtype)
        smooth = div(total(smooth), total(weights))
    else:
        smooth = reduced(smooth, reduction)
    return loss * (1 - label_smoothing) + smooth * (label_smoothing / classes)


def _beside(weight: Any, dim: int, like: Any) -> Any:
    """One weight per class, shaped to broadcast over the other dimensions."""
    return reshape(weight, tuple(-1 if d == dim else 1 for d in range(like._array.ndim)))


def _cross_probabilities(
    input: Any, target: Any, weight: Any, ignore_index: int, reduction: str, smoothing: float
) -> Any:
    shape = input._array.shape
    if ignore_index >= 0:
        raise RuntimeError("cross_entropy: ignore_index is not supported for floating point target")
    wanted = target._array.shape
    if shape != wanted:
        if len(shape) > 1 and wanted and shape[0] != wanted[0]:
            raise ValueError(
                f"Expected input batch_size ({shape[0]}) to match target batch_size ({wanted[0]})."
            )
        raise RuntimeError(
            f"cross_entropy: a target of probabilities must have the shape of the input {list(shape)}, got "
            f"{list(wanted)}"
        )
    dim = _class_dim(input)
    classes = shape[dim]
    if weight is not None and weight._array.shape != (classes,):
        raise RuntimeError(
            f"cross_entropy: weight tensor should be defined either for all {classes} classes or no classes"
        )
    if smoothing:
        target = target * (1 - smoothing) + smoothing / classes
    product = log_softmax(input, dim) * target
    if weight is not None:
        product = product * _beside(weight, dim, product)
    if reduction == "none":
        return -total(product, dim)
    loss = -total(product)
    return loss if reduction == "sum" else div(loss, input._array.size / classes if classes else 0.0)
