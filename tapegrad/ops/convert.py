"""Type conversion, copying into a tensor, and filling."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from .. import dtypes
from ..op import kernel_op
from ..tape import Value
from .arithmetic import zeros_for


@kernel_op(x=lambda g: g, node_name="ToCopyBackward0", name="to")  # the replay casts back
def cast(x: Any, *, dtype: Any) -> Any:
    """A copy in another dtype."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        # Out-of-range and NaN to integer is undefined in C; both libraries take what the CPU gives.
        warnings.simplefilter("ignore", RuntimeWarning)
        return x.astype(dtype, order="C")


@kernel_op(input=zeros_for, src=lambda g: g, node_name="CopyBackwards", name="copy")
def copied_into(input: Any, src: Any) -> Any:
    """src broadcast to the shape of input and converted to its dtype."""
    return np.broadcast_to(src, input.shape)


@kernel_op(input=zeros_for, value=lambda g: g, name="fill")
def filled(input: Any, value: Any, *, number: Any) -> Any:
    """One value everywhere."""
    with np.errstate(all="ignore"):
        one = np.asarray(number if value is None else value).astype(input.dtype)
    return np.broadcast_to(one, input.shape)


filled.uniform = True


def to_dtype(input: Any, dtype: dtypes.dtype, copy: bool = False) -> Any:
    """The tensor itself if it has that dtype already (unless ``copy``), else a converted copy."""
    if input._array.dtype.num == dtype.numpy.num and not copy:
        return input
    return cast(input, dtype=dtype.numpy)


def fill(input: Any, value: Any) -> Any:
    """A new tensor of the same shape and dtype with one value everywhere."""
    if isinstance(value, Value):
        return filled(input, value, number=None)
    return input.clone().fill_(value)
