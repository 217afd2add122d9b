"""Dropout: elements, or whole channels, left out at random while training.

Which ones is decided by a stretch of random words. The entry on the tape keeps where that stretch
begins and no mask: the backward computes the words again.
"""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

from ..op import kernel_op
from . import draws
from .arithmetic import mul
from .generator import Draw, default_generator
from .inplace import kernel_inplace

__all__ = [
    "alpha_dropout",
    "alpha_dropout_",
    "dropout",
    "dropout_",
    "feature_alpha_dropout",
    "feature_alpha_dropout_",
    "feature_dropout",
    "feature_dropout_",
]  # fmt: skip

# The value that SELU tends to for very negative numbers: what alpha dropout puts in.
_ALPHA = 1.7580993408473766


@kernel_op(
    x=lambda g, draw, p, inner, scale: dropped(
        g, draw=draw, p=p, inner=inner, scale=scale, shift=0.0, fill=0.0
    ),
    name="dropout",
    node_name="MulBackward0",
    native=True,
)
def dropped(
    x: np.ndarray, *, draw: Draw, p: float, inner: int, scale: float, shift: float, fill: float
) -> np.ndarray:
    """scale * x + shift with probability 1 - p, else fill; ``inner`` neighbours share their fate."""
    return draws.dropped(x, draw, p, inner, scale, shift, fill)


def _check(p: float) -> float:
    if not 0 <= p <= 1:
        raise RuntimeError(f"dropout probability has to be between 0 and 1, but got {p}")
    return float(p)


def _apply(input: Any, p: float, train: bool, inplace: bool, alpha: bool, features: bool) -> Any:
    p = _check(p)
    array = input._array
    if not train or p == 0 or not array.size:
        return input
    inner = 1
    if features:
        if array.ndim < 2:
            raise RuntimeError("Feature dropout requires at least 2 dimensions in the input")
        inner = math.prod(array.shape[2:])
    if array.dtype.kind != "f":
        raise RuntimeError(
            "dropout: result type Float can't be cast to the type of the input; convert with .float() first"
        )
    if p == 1:
        return input.mul_(0) if inplace else mul(input, 0)
    scale, shift, fill = 1 / (1 - p), 0.0, 0.0
    if alpha:
        scale = 1 / math.sqrt((_ALPHA * _ALPHA * p + 1) * (1 - p))
        shift = _ALPHA * scale * p
        fill = shift - _ALPHA * scale
    draw = default_generator.draw(draws.words_blocks(array.size // inner))
    params = {"draw": draw, "p": p, "inner": inner, "scale": scale, "shift": shift, "fill": fill}
    return kernel_inplace(dropped, input, **params) if inplace else dropped(input, **params)


def dropout(input: Any, p: float, train: bool) -> Any:
    """Each element zero with probability p, the others divided by 1 - p; nothing unless ``train``."""
    return _apply(input, p, train, False, False, False)


def dropout_(input: Any, p: float, train: bool) -> Any:
    """dropout in place."""
    return _apply(input, p, train, True, False, False)


def feature_dropout(input: Any, p: float, train: bool) -> Any:
    """dropout of whole channels (dimension 1)."""
    return _apply(input, p, train, False, False, True)


def feature_dropout_(input: Any, p: float, train: bool) -> Any:
    """feature_dropout in place."""
    return _apply(input, p, train, True, False, True)


def alpha_dropout(input: Any, p: float, train: bool) -> Any:
    """Dropout that keeps mean and variance of what comes out of SELU."""
    return _apply(input, p, train, False, True, False)


def alpha_dropout_(input: Any, p: float, train: bool) -> Any:
    """alpha_dropout in place."""
    return _apply(input, p, train, True, True, False)


def feature_alpha_dropout(input: Any, p: float, train: bool) -> Any:
    """alpha_dropout of whole channels (dimension 1)."""
    return _apply(input, p, train, False, True, True)


def feature_alpha_dropout_(input: Any, p: float, train: bool) -> Any:
    """feature_alpha_dropout in place."""
    return _apply(input, p, train, True, True, True)


# -- the faces of nn.functional ----------------------------------------------------------------------------


def _check_functional(p: float) -> None:
    if p < 0.0 or p > 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")


def functional_dropout(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    """Each element zero with probability p while training, the others divided by 1 - p."""
    _check_functional(p)
    return _apply(input, p, training, inplace, False, False)


def functional_alpha_dropout(
    input: Any, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Any:
    """Dropout that keeps mean and variance of what comes out of SELU."""
    _check_functional(p)
    return _apply(input, p, training, inplace, True, False)


def functional_feature_alpha_dropout(
    input: Any, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Any:
    """alpha dropout of whole channels (dimension 1)."""
    _check_functional(p)
    return _apply(input, p, training, inplace, True, True)


def _batched(input: Any, p: float, training: bool, inplace: bool, batched: bool) -> Any:
    """Channel dropout of a batch, or of one sample, whose channels are dimension 0."""
    if batched:
        return _apply(input, p, training, inplace, False, True)
    if inplace:
        _apply(input.unsqueeze(0), p, training, True, False, True)
        return input
    return _apply(input.unsqueeze(0), p, training, False, False, True).squeeze(0)


def dropout1d(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    """Whole channels of (N, C, L) or (C, L) zero with probability p."""
    _check_functional(p)
    rank = input._array.ndim
    if rank not in (2, 3):
        raise RuntimeError(
            f"dropout1d: Expected 2D or 3D input, but received a {rank}D input; for other shapes use dropout"
        )
    return _batched(input, p, training, inplace, rank == 3)


def dropout2d(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    """Whole channels of (N, C, H, W) zero with probability p."""
    _check_functional(p)
    rank = input._array.ndim
    if rank not in (3, 4):
        warnings.warn(
            f"dropout2d: Received a {rank}-D input to dropout2d, which is deprecated and will result in an "
            "error in a future "
            "release. To retain the behavior and silence this warning, please use dropout instead.",
            UserWarning,
            stacklevel=2,
        )
    elif rank == 3:
        warnings.warn(
            "dropout2d: Received a 3D input to dropout2d and assuming that channel-wise 1D dropout behavior "
            "is desired: "
            "dimension 0 is the batch and dimension 1 the channels. Use dropout1d to silence this warning.",
            UserWarning,
            stacklevel=2,
        )
    return _apply(input, p, training, inplace, False, True)


def dropout3d(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    """Whole channels of (N, C, D, H, W) or (C, D, H, W) zero with probability p."""
    _check_functional(p)
    rank = input._array.ndim
    if rank not in (4, 5):
        warnings.warn(
            f"dropout3d: Received a {rank}-D input to dropout3d, which is deprecated and will result in an "
            "error in a future "
            "release. To retain the behavior and silence this warning, please use dropout instead.",
            UserWarning,
            stacklevel=2,
        )
    return _batched(input, p, training, inplace, rank != 4)
