"""Why a tensor has no graph: what can still be found out about it after the fact."""

from __future__ import annotations

from typing import Any

import numpy as np

from .tape import Entry, Value, describe_site, live_values


def why_constant(value: Value) -> str:
    """A sentence about a tensor that does not require grad: "it has dtype int64, and ..."."""
    array = value._array
    if array.dtype.kind != "f":
        origin = _twin(value)
        came = f" ({origin})" if origin else ""
        return f"it has dtype {array.dtype}, and only floating tensors can require grad{came}"
    origin = _twin(value)
    if origin:
        return origin
    return (
        "no input of the operations that made it required grad (was requires_grad=True set on a leaf?), "
        "or it was computed under no_grad(), or cut by detach()"
    )


def _twin(value: Value) -> str:
    """What else lies in this tensor's memory and is on the tape, as a sentence; "" if nothing does."""
    view = value._view
    if view is not None and view.base._node is not None:
        return f"it is a view, made under no_grad(), of {_called(view.base)}"
    found = None
    start, end = np.lib.array_utils.byte_bounds(value._array) if value._array.nbytes else (0, 0)
    for item in live_values():
        if item is not value and item._node is not None:
            array = item._array
            if item._version is value._version or (
                array.nbytes
                and end > start
                and _overlap(array, start, end)
                and array.dtype == value._array.dtype
            ):
                found = item
                if item._version is value._version:
                    break
    if found is None:
        return ""
    how = "detach()" if found._version is value._version else ".data, numpy() or a view under no_grad()"
    return f"it was cut off by {how}: it lies in the memory of {_called(found)}"


def _overlap(array: np.ndarray, start: int, end: int) -> bool:
    low, high = np.lib.array_utils.byte_bounds(array)
    return low < end and start < high


def _called(value: Value) -> str:
    node: Any = value._node
    shape = list(value._array.shape)
    if type(node) is Entry:
        return f"the result {shape} of {node.op.name} (entry #{node.position}, recorded at {describe_site((node.code, node.lasti))})"
    return f"a leaf {shape} that requires grad"
