"""The ``out=`` argument of functions that compute their result first."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import dtypes
from ..kernels.arrays import copy
from ..kernels.recording import active, now
from ..op import check_inplace
from ..tape import Value


def into(result: Any, out: Any, name: str, *, exact: bool = False, inputs: Any = ()) -> Any:
    """The result itself, or ``out`` with the result written into it; an empty ``out`` takes its shape.

    RuntimeError for an ``out`` of another dtype, if it must be ``exact``, and for one that overlaps ``inputs``.
    """
    if out is None:
        return result
    if not isinstance(out, Value):
        raise TypeError(f"{name}(): argument 'out' must be Tensor, not {type(out).__name__}")
    if result._node is not None or out._node is not None:
        raise RuntimeError(
            f"{name}(): functions with out=... arguments don't support automatic differentiation, but one "
            "of the arguments requires grad. Leave out= away, or use no_grad()."
        )
    have, to = dtypes.of(result._array), dtypes.of(out._array)
    if have.category > to.category:
        raise RuntimeError(
            f"{name}(): result type {have.short} can't be cast to the desired output type {to.short}"
        )
    if exact and have is not to:
        raise RuntimeError(
            f"{name}(): Expected out tensor to have dtype {have.short}, but got {to.short} instead"
        )
    if any(x is out or np.may_share_memory(out._array, x._array) for x in inputs):
        raise RuntimeError(
            f"{name}(): unsupported operation: the input tensors and the written-to tensor refer to a single "
            "memory location. Please clone() the tensor before the operation."
        )
    check_inplace(out, name)
    shape = result._array.shape
    if out._array.shape != shape:
        if out._array.size:
            raise RuntimeError(
                f"{name}(): out has shape {list(out._array.shape)}, the result has {list(shape)}"
            )
        out._set_array(np.empty(shape, to.numpy))
    if active and (recorder := now()) is not None:
        recorder.touch(out._array)
    copy(out._array, result._array)
    out._bump(name)
    return out
