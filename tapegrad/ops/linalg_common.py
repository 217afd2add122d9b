"""What the operations of linear algebra share: checks of their operands, and triangular masks."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from .. import dtypes
from ..tape import Value
from .arithmetic import div, where
from .out import into
from .shape import transpose


class LinAlgError(RuntimeError):
    """A decomposition or a solution does not exist for the given matrix."""


def check_floating(name: str, argument: str, x: Any) -> None:
    """An error unless x is a tensor of float32 or float64."""
    if not isinstance(x, Value):
        raise TypeError(f"{name}(): argument '{argument}' must be Tensor, not {type(x).__name__}")
    char = x._array.dtype.char
    if char == "e":
        raise RuntimeError(f"{name}: Low precision dtypes not supported. Got Half; convert with .float()")
    if char not in "fd":
        raise RuntimeError(
            f"{name}: Expected a floating point or complex tensor as input. Got "
            f"{dtypes.of(x._array).short}; convert with .float()"
        )


def check_matrix(name: str, x: Any, argument: str = "A") -> None:
    """RuntimeError unless x is a floating matrix or a batch of them."""
    check_floating(name, argument, x)
    if x._array.ndim < 2:
        raise RuntimeError(f"{name}: The input tensor {argument} must have at least 2 dimensions.")


def check_square(name: str, x: Any, argument: str = "A") -> None:
    """RuntimeError unless x is a floating square matrix or a batch of them."""
    check_matrix(name, x, argument)
    m, n = x._array.shape[-2:]
    if m != n:
        raise RuntimeError(
            f"{name}: {argument} must be batches of square matrices, but they are {m} by {n} matrices"
        )


def check_same_type(name: str, a: Any, b: Any) -> None:
    """RuntimeError unless both have one dtype."""
    if a._array.dtype != b._array.dtype:
        raise RuntimeError(
            f"{name}: Expected A and B to have the same dtype, but found A of type "
            f"{dtypes.of(a._array).short} and B of type {dtypes.of(b._array).short} instead"
        )


def check_batches(name: str, a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    """The common leading shape of two batches of matrices."""
    try:
        return np.broadcast_shapes(a[:-2], b[:-2])
    except ValueError:
        raise RuntimeError(
            f"{name}: the batch dimensions of shapes {list(a)} and {list(b)} do not broadcast"
        ) from None


def batch_note(index: tuple[int, ...], shape: tuple[int, ...]) -> str:
    """Which matrix of a batch an error is about, as PyTorch writes it."""
    return f"(Batch element {int(np.ravel_multi_index(index, shape))}): " if shape else ""


def matrices(x: np.ndarray) -> Iterator[tuple[tuple[int, ...], np.ndarray]]:
    """The index and the array of every matrix."""
    for index in np.ndindex(x.shape[:-2]):
        yield index, x[index]


def identity(like: Any, n: int) -> Any:
    """The n by n identity as a constant of the class and dtype of a tensor."""
    return like._make(np.eye(n, dtype=like._array.dtype))


def mt(x: Any) -> Any:
    """The last two dimensions exchanged."""
    return transpose(x, -2, -1)


def quotient(a: Any, b: Any) -> Any:
    """a / b, but 0 where both are zero: what does not count must not bring NaN in."""
    nothing = (a == 0) & (b == 0)
    return where(nothing, 0.0, div(a, where(nothing, 1.0, b)))


def into_all(results: Any, out: Any, name: str) -> Any:
    """Several results, or the tensors of ``out`` after they were written into."""
    if out is None:
        return results
    if not isinstance(out, (tuple, list)) or len(out) != len(results):
        raise TypeError(f"{name}(): argument 'out' must be a tuple of {len(results)} Tensors")
    return type(results)(*[into(r, o, name) for r, o in zip(results, out, strict=True)])


def tolerance(name: str, s: np.ndarray, shape: tuple[int, ...], atol: Any, rtol: Any) -> np.ndarray:
    """max(atol, rtol * largest) per matrix, for singular values s in the last dimension."""

    def number(x: Any, argument: str) -> Any:
        if not isinstance(x, Value):
            return None if x is None else np.asarray(float(x))
        if x._array.dtype.kind == "c":
            raise RuntimeError(f"{name}: {argument} tensor of complex type is not supported.")
        return x._array

    a, r = number(atol, "atol"), number(rtol, "rtol")
    if r is None:
        r = np.asarray(np.finfo(s.dtype).eps * max(shape[-2:]) if a is None else 0.0)
        if a is not None:
            # An absolute tolerance of zero does not count as one.
            r = np.where(a > 0, 0.0, np.finfo(s.dtype).eps * max(shape[-2:]))
    largest = s.max(-1) if s.shape[-1] else np.zeros(s.shape[:-1], s.dtype)
    made: np.ndarray = np.maximum(0.0 if a is None else a, r * largest)
    return made


def prod(shape: tuple[int, ...]) -> int:
    """The number of elements of a shape."""
    return math.prod(shape)
