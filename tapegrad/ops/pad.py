"""Padding of the last dimensions: with a number, a mirror image, the edge, or what is at the other end.

Padding with a number is closed under its own rule, since a negative padding cuts off: the gradient of one
is the other. The other modes read the input through an index per dimension.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from .. import buffers
from ..kernels.arrays import copy
from .direct import direct_op
from .matmul import require_tensors
from .rows import take_rows


@direct_op(
    input=lambda g, pads: framed(g, pads=tuple((-a, -b) for a, b in pads), value=0),
    name="constant_pad_nd",
    native=True,
)
def framed(input: Any, *, pads: Any, value: Any) -> Any:
    """The input with (front, behind) elements of a value added, or cut off if negative, per dimension."""
    shape = tuple(n + a + b for n, (a, b) in zip(input.shape, pads, strict=True))
    out = buffers.empty(shape, input.dtype)
    target, source = [], []
    for n, m, (a, b) in zip(input.shape, shape, pads, strict=True):
        source.append(slice(max(-a, 0), n - max(-b, 0)))
        target.append(slice(max(a, 0), m - max(b, 0)))
    # Only the frame is filled: side by side, each within what the earlier dimensions left.
    for d, (a, b) in enumerate(pads):
        inner = tuple(target[:d])
        if a > 0:
            copy(out[(*inner, slice(0, a))], value)
        if b > 0:
            copy(out[(*inner, slice(shape[d] - b, None))], value)
    copy(out[tuple(target)], input[tuple(source)])
    return out


@lru_cache(maxsize=1024)
def _index(mode: str, n: int, front: int, behind: int) -> np.ndarray:
    """Which element of n stands at each place of the padded dimension."""
    at = np.arange(-front, n + behind)
    if mode == "replicate":
        at = at.clip(0, n - 1)
    elif mode == "circular":
        # What is cut off does not come back at the other end.
        first, left = max(-front, 0), n - max(-front, 0) - max(-behind, 0)
        at = first + np.arange(-max(front, 0), left + max(behind, 0)) % max(left, 1)
    else:
        at = np.abs(at)
        at = np.where(at >= n, 2 * (n - 1) - at, at)
    at.flags.writeable = False
    return at


def _pairs(pad: Any, rank: int) -> list[tuple[int, int]]:
    """(front, behind) per dimension; ``pad`` begins with the last dimension."""
    pairs = [(0, 0)] * (rank - len(pad) // 2)
    return pairs + [(pad[j], pad[j + 1]) for j in range(len(pad) - 2, -1, -2)]


def _numbers(pad: Any) -> tuple[int, ...]:
    if not isinstance(pad, (tuple, list)):
        raise TypeError(f"pad(): argument 'pad' (position 2) must be tuple of ints, not {type(pad).__name__}")
    for j, p in enumerate(pad):
        if isinstance(p, float) or not hasattr(p, "__index__"):
            raise TypeError(
                "pad(): argument 'pad' (position 2) must be tuple of ints, but found element of type "
                f"{type(p).__name__} at pos {j}"
            )
    return tuple([int(p) for p in pad])


def _constant(input: Any, pad: tuple[int, ...], value: Any) -> Any:
    array = input._array
    if len(pad) > 2 * array.ndim:
        raise RuntimeError(
            "pad: Padding length should be less than or equal to two times the input dimension but got "
            f"padding length {len(pad)} and input of dimension {array.ndim}"
        )
    pairs = _pairs(pad, array.ndim)
    for d, (n, (a, b)) in enumerate(zip(array.shape, pairs, strict=True)):
        if n + a + b < 0 or n + min(a, 0) + min(b, 0) < 0:
            raise RuntimeError(
                f"pad: The input size {n}, plus negative padding {a} and {b}, resulted in a negative output "
                f"size, which is invalid. Check dimension {d} of your input."
            )
    if hasattr(value, "_array"):
        value = value.item()
    fill = 0 if value is None else value
    return framed(input, pads=tuple(pairs), value=int(fill) if array.dtype.kind in "iu" else fill)


_NODES = {"reflect": "ReflectionPad", "replicate": "ReplicationPad", "circular": "CircularPad"}


def pad(input: Any, pad: Any, mode: str = "constant", value: Any = None) -> Any:
    """The last dimensions padded: (front, behind) of the last one first; negative numbers cut off.

    ``mode`` is "constant" (with ``value``), "reflect", "replicate" or "circular"; those three pad the last
    one, two or three dimensions of (N, C, ...) or (C, ...).
    """
    require_tensors("pad", input=input)
    pad = _numbers(pad)
    if len(pad) % 2:
        raise RuntimeError(f"pad: Padding length must be divisible by 2, got {len(pad)}")
    if mode == "constant":
        return _constant(input, pad, value)
    if mode not in _NODES:
        raise NotImplementedError(
            f"pad: Unrecognised padding mode {mode}; use constant, reflect, replicate or circular"
        )
    if value is not None and value != 0:
        raise RuntimeError(f'pad: Padding mode "{mode}" doesn\'t take in value argument')
    shape = input._array.shape
    n = len(pad) // 2
    if n not in (1, 2, 3) or len(shape) not in (n + 1, n + 2):
        raise NotImplementedError(
            f"pad: Padding size {len(pad)} is not supported for {len(shape)}D input tensor. Supported "
            "combinations for non-constant padding: 2D or 3D input with 2 numbers (pads last dimension), "
            "3D or 4D input with 4 numbers (pads last 2 dimensions), 4D or 5D input with 6 numbers (pads "
            "last 3 dimensions)."
        )
    if mode != "circular" and 0 in shape[len(shape) - n - 1 :]:
        raise RuntimeError(
            f"pad: Expected {n + 1}D or {n + 2}D (batch mode) tensor with possibly 0 batch size and other "
            f"non-zero dimensions for input, but got: {list(shape)}"
        )
    pairs = _pairs(pad, len(shape))
    for d, (size, (a, b)) in enumerate(zip(shape, pairs, strict=True)):
        _check_side(mode, shape, d, size, a, b)
    result = input
    for d, (a, b) in enumerate(pairs):
        if a or b:
            result = take_rows(result, result._make(_index(mode, shape[d], a, b)), dim=d, span=1)
    return result if result is not input else framed(input, pads=tuple(pairs), value=0)


def _check_side(mode: str, shape: tuple[int, ...], d: int, size: int, a: int, b: int) -> None:
    if mode == "reflect" and max(a, b) >= size and (a or b):
        raise RuntimeError(
            "pad: Padding size should be less than the corresponding input dimension, but got: padding "
            f"({a}, {b}) at dimension {d} of input {list(shape)}"
        )
    if mode == "circular":
        if max(a, b) > size:
            raise RuntimeError(
                f"pad: Padding value causes wrapping around more than once: ({a}, {b}) at dimension {d} of "
                f"input {list(shape)}"
            )
        if size + a + b < 0:
            raise RuntimeError(
                f"pad: Negative padding value is resulting in an empty dimension {d} of input {list(shape)}"
            )
    elif size + a + b < 1 and (a or b):
        raise RuntimeError(
            f"pad: input {list(shape)} is too small at dimension {d}: with padding ({a}, {b}) the "
            f"calculated output size is {size + a + b}"
        )
