"""Type conversion, copying into a tensor, and filling."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import dtypes
from ..kernels import arrays
from ..op import kernel_op
from ..tape import Value
from .arithmetic import zeros_for


@kernel_op(x=lambda g: g, node_name="ToCopyBackward0", name="to", native=True)  # the replay casts back
def cast(x: Any, *, dtype: Any) -> Any:
    """A copy in another dtype."""
    return arrays.copied(x, dtype)


@kernel_op(input=zeros_for, src=lambda g: g, node_name="CopyBackwards", name="copy", native=True)
def copied_into(input: Any, src: Any) -> Any:
    """src broadcast to the shape of input and converted to its dtype."""
    return np.broadcast_to(src, input.shape)


@kernel_op(input=zeros_for, value=lambda g: g, name="fill", native=True)
def filled(input: Any, value: Any, *, number: Any) -> Any:
    """One value everywhere."""
    if value is not None:
        return np.broadcast_to(arrays.cast(value, input.dtype), input.shape)
    with np.errstate(all="ignore"):
        one = np.asarray(number).astype(input.dtype)
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
