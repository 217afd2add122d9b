"""Parameters as one vector, and back."""

from __future__ import annotations

from collections.abc import Iterable

from ...ops import shape as shapes
from ...tensor import Tensor


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """All parameters flattened and joined; differentiable."""
    made: Tensor = shapes.cat([p.reshape(-1) for p in parameters])
    return made


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Let the parameters' data be the parts of a vector, in order; they share its memory."""
    if not isinstance(vec, Tensor):
        raise TypeError(f"expected Tensor, but got: {type(vec).__name__}")
    start = 0
    for param in parameters:
        n = param.numel()
        param.data = vec[start : start + n].view_as(param).data
        start += n
