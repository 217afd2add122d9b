"""Embeddings: rows of a table by number, and numbers as rows of an identity matrix."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import dtypes, kernels
from ..kernels import arrays
from ..kernels import launch_lazily as launch
from ..kernels.arrays import contiguous, zeros
from ..kernels.recording import refuse
from ..modes import no_grad
from ..op import check_inplace
from .direct import direct_op
from .gather import check_tensor
from .keys import checked
from .rows import add, add_rows, taken
from .softmax import wide

__all__ = ["embedding"]


def _weighted(x: np.ndarray, index: np.ndarray, rows: int, padding: int, by_frequency: bool) -> np.ndarray:
    """Rows looked up in a table of ``rows``: 0 at ``padding``, each divided by how often its index occurs."""
    values, index = wide(x), contiguous(index)
    out, n = np.empty(x.shape, values.dtype), index.size
    if out.size:
        factors, counts = np.empty(n, values.dtype), np.empty(rows if by_frequency else 1, np.int64)
        kernels.index.row_factors(index, counts, factors, n, rows, padding, int(by_frequency), 0, 1)
        launch(kernels.index.scale_rows, (values, factors, out, out.size // n), n, out.size)
    return arrays.cast(out, x.dtype)


@direct_op(
    weight=lambda g, index, weight_shape, padding, by_frequency: (
        add_rows(g, index, shape=weight_shape, dim=0, span=1)
        if padding < 0 and not by_frequency
        else add_weighted(g, index, shape=weight_shape, padding=padding, by_frequency=by_frequency)
    ),
    name="embedding",
    native=True,
)
def looked_up(weight: np.ndarray, index: np.ndarray, *, padding: int, by_frequency: bool) -> np.ndarray:
    """The rows of the table that the index names."""
    return taken(weight, index, 0, 1)


@direct_op(
    g=lambda g, index, padding, by_frequency: take_weighted(
        g, index, padding=padding, by_frequency=by_frequency
    ),
    name="embedding_dense_backward",
    native=True,
)
def add_weighted(
    g: np.ndarray, index: np.ndarray, *, shape: tuple[int, ...], padding: int, by_frequency: bool
) -> np.ndarray:
    """Rows added up where the index says; none at ``padding``, each divided by how often its index occurs."""
    out = zeros(shape, g.dtype)
    add(out, index, _weighted(g, index, shape[0], padding, by_frequency), dim=0, span=1)
    return out


@direct_op(
    x=lambda g, index, x_shape, padding, by_frequency: add_weighted(
        g, index, shape=x_shape, padding=padding, by_frequency=by_frequency
    ),
    name="take_weighted",
    native=True,
)
def take_weighted(x: np.ndarray, index: np.ndarray, *, padding: int, by_frequency: bool) -> np.ndarray:
    """The adjoint of add_weighted."""
    return _weighted(taken(x, index, 0, 1), index, x.shape[0], padding, by_frequency)


def _numbers(input: Any, n: int) -> Any:
    """The index tensor as int64, checked."""
    array = input._array
    if array.dtype.char not in "li":
        raise RuntimeError(
            "Expected tensor for argument #1 'indices' to have one of the following scalar types: Long, Int; "
            "but got "
            f"{dtypes.of(array)} instead (while checking arguments for embedding)"
        )
    made = checked(
        array,
        n,
        0,
        lambda value: IndexError(f"index out of range in self: index {value}, the table has {n} rows"),
    )
    return input if made is array else input._make(made)


def embedding(
    weight: Any, indices: Any, padding_idx: int = -1, scale_grad_by_freq: bool = False, sparse: bool = False
) -> Any:
    """The rows of ``weight`` that the indices name; nn.functional.embedding is the usual face."""
    check_tensor(weight, "embedding", "weight")
    check_tensor(indices, "embedding", "indices")
    if weight._array.ndim != 2:
        raise RuntimeError("'weight' must be 2-D")
    if sparse:
        raise RuntimeError("embedding: sparse gradients are not supported, leave sparse=False")
    index = _numbers(indices, weight._array.shape[0])
    return looked_up(weight, index, padding=padding_idx, by_frequency=bool(scale_grad_by_freq))


def functional_embedding(
    input: Any,
    weight: Any,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Any:
    """The rows of ``weight`` (num_embeddings, dim) that the int64 ``input`` names: input.shape + (dim,).

    ``padding_idx``: that row gets no gradient. ``max_norm``: rows that are looked up are first scaled
    down to that norm, in place. ``scale_grad_by_freq``: gradients are divided by how often their row
    occurs in the input.
    """
    check_tensor(weight, "embedding", "weight")
    check_tensor(input, "embedding", "input")
    rows = weight._array.shape[0] if weight._array.ndim else 0
    padding = -1
    if padding_idx is not None:
        if not -rows <= padding_idx < rows:
            raise AssertionError("Padding_idx must be within num_embeddings")
        padding = padding_idx % rows
    if max_norm is not None:
        embedding_renorm_(weight, input, max_norm, norm_type)
    return embedding(weight, input, padding, scale_grad_by_freq, sparse)


def embedding_renorm_(weight: Any, indices: Any, max_norm: float, norm_type: float = 2.0) -> Any:
    """In place: the rows that the indices name scaled down to at most ``max_norm``. Not recorded."""
    if weight._array.ndim != 2:
        raise RuntimeError("'weight' must be 2-D")
    index = _numbers(indices, weight._array.shape[0])
    array = weight._array
    with no_grad():
        check_inplace(weight, "embedding_renorm_")
    refuse("an embedding with max_norm")
    rows = np.unique(index._array)
    norms = np.linalg.norm(array[rows].astype(np.float64), ord=norm_type, axis=1)
    long = norms > max_norm
    if long.any():
        array[rows[long]] *= (max_norm / (norms[long] + 1e-7)).astype(array.dtype)[:, None]
        weight._bump("embedding_renorm_")
    return weight


def one_hot(tensor: Any, num_classes: int = -1) -> Any:
    """Class numbers (int64) as vectors with a one in their place: tensor.shape + (num_classes,), int64."""
    check_tensor(tensor, "one_hot", "tensor")
    array = tensor._array
    if array.dtype.char != "l":
        raise RuntimeError("one_hot is only applicable to index tensor of type LongTensor.")
    if not array.size:
        if num_classes <= 0:
            raise RuntimeError("Can not infer total number of classes from empty tensor.")
        return tensor._make(np.zeros((*array.shape, num_classes), np.int64))
    if array.min() < 0:
        raise RuntimeError("Class values must be non-negative.")
    if num_classes == -1:
        refuse("one_hot without num_classes")
        num_classes = int(array.max()) + 1
    elif num_classes < 1:
        raise RuntimeError("num_classes should be positive")
    return tensor._make(_unit_rows(array, num_classes))


def _unit_rows(array: np.ndarray, num_classes: int) -> np.ndarray:
    index = checked(
        array,
        num_classes,
        0,
        lambda value: RuntimeError(
            f"Class values must be {'non-negative' if value < 0 else 'smaller than num_classes'}."
        ),
    )
    out = zeros((*array.shape, num_classes), np.dtype(np.int64))
    launch(kernels.index.unit_rows, (contiguous(index), out, num_classes), array.size, out.size)
    return out
