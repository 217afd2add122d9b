"""Diagonals and triangles, and writing a part of a tensor out of place."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..kernels.arrays import contiguous, duplicate
from ..op import kernel_op
from .dims import wrap_dim
from .gather import check_tensor
from .inplace import kernel_inplace
from .numbers import element
from .rows import mover, put_rows, run
from .shape import (
    as_diagonal,
    as_indexed,
    as_selected,
    atleast_2d,
    cat,
    clone,
    diagonal,
    narrow,
    place,
    ravel,
    read_view,
    write_view,
)

__all__ = [
    "block_diag",
    "diag",
    "diag_embed",
    "diagflat",
    "diagonal_scatter",
    "narrow_copy",
    "select_scatter",
    "slice_scatter",
    "tril",
    "triu",
]  # fmt: skip


def diag(input: Any, diagonal: int = 0, *, out: Any = None) -> Any:
    """A matrix with a vector on its diagonal, or a copy of the diagonal of a matrix."""
    rank = input._array.ndim
    if rank not in (1, 2):
        raise RuntimeError(f"diag(): Supports 1D or 2D tensors. Got {rank}D")
    result = diag_embed(input, diagonal) if rank == 1 else clone(_diagonal(input, diagonal))
    return result if out is None else out.copy_(result)


_diagonal = diagonal


def diag_embed(input: Any, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Any:
    """Zeros with the last dimension of input on the diagonal of two new dimensions."""
    rank = input._array.ndim + 1
    a, b = wrap_dim(dim1, rank), wrap_dim(dim2, rank)
    if a == b:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    *lead, n = input._array.shape
    n += abs(offset)
    rest = iter(lead)
    shape = tuple(n if d in (a, b) else next(rest) for d in range(rank))
    return place(input, shape=shape, steps=((as_diagonal, {"offset": int(offset), "dim1": a, "dim2": b}),))


def diagflat(input: Any, offset: int = 0) -> Any:
    """A matrix with the flattened input on its diagonal."""
    return diag_embed(ravel(input), offset)


def block_diag(*tensors: Any) -> Any:
    """Matrices along the diagonal of a larger one; numbers and vectors count as matrices of one row."""
    blocks = atleast_2d(*tensors) if len(tensors) > 1 else (atleast_2d(*tensors),)
    for x in blocks:
        if x._array.ndim != 2:
            raise RuntimeError(
                f"block_diag: Input tensors must have 2 or fewer dimensions. Got {x._array.ndim}D"
            )
    width = sum(x._array.shape[1] for x in blocks)
    rows, at = [], 0
    for x in blocks:
        height, own = x._array.shape
        rows.append(cat([x.new_zeros(height, at), x, x.new_zeros(height, width - at - own)], 1))
        at += own
    return cat(rows, 0)


# -- triangles -------------------------------------------------------------------------------------------


def _triangle(x: np.ndarray, diagonal: int, lower: bool) -> np.ndarray:
    x = contiguous(x)
    rows, columns = x.shape[-2:]
    if not x.size:
        return duplicate(x)
    out = np.empty(x.shape, x.dtype)
    run(
        "lower_triangle" if lower else "upper_triangle",
        mover(x),
        (x, out, rows, columns, diagonal),
        x.size // columns,
        x.size,
    )
    return out


@kernel_op(x=lambda g, diagonal: lower(g, diagonal=diagonal), name="tril", native=True)
def lower(x: np.ndarray, *, diagonal: int) -> np.ndarray:
    """What lies on a diagonal and below it, zero elsewhere."""
    return _triangle(x, diagonal, True)


@kernel_op(x=lambda g, diagonal: upper(g, diagonal=diagonal), name="triu", native=True)
def upper(x: np.ndarray, *, diagonal: int) -> np.ndarray:
    """What lies on a diagonal and above it, zero elsewhere."""
    return _triangle(x, diagonal, False)


def _check_matrix(input: Any, name: str) -> None:
    check_tensor(input, name, "input")
    if input._array.ndim < 2:
        raise RuntimeError(f"{name}: input tensor must have at least 2 dimensions")


def tril(input: Any, diagonal: int = 0, *, out: Any = None) -> Any:
    """The lower triangle of matrices: what lies on the given diagonal and below, zero elsewhere."""
    _check_matrix(input, "tril")
    result = lower(input, diagonal=int(diagonal))
    return result if out is None else out.copy_(result)


def triu(input: Any, diagonal: int = 0, *, out: Any = None) -> Any:
    """The upper triangle of matrices: what lies on the given diagonal and above, zero elsewhere."""
    _check_matrix(input, "triu")
    result = upper(input, diagonal=int(diagonal))
    return result if out is None else out.copy_(result)


def tril_(input: Any, diagonal: int = 0) -> Any:
    """In place: zero above a diagonal."""
    _check_matrix(input, "tril")
    return kernel_inplace(lower, input, diagonal=int(diagonal))


def triu_(input: Any, diagonal: int = 0) -> Any:
    """In place: zero below a diagonal."""
    _check_matrix(input, "triu")
    return kernel_inplace(upper, input, diagonal=int(diagonal))


def fill_diagonal_(input: Any, fill_value: Any, wrap: bool = False) -> Any:
    """In place: one value on the main diagonal; ``wrap`` begins it anew below in tall matrices."""
    shape = input._array.shape
    if len(shape) < 2:
        raise RuntimeError("dimensions must larger than 1")
    if len(shape) > 2 and len(set(shape)) != 1:
        raise RuntimeError("all dimensions of input must be of equal length")
    step = sum(int(np.prod(shape[d + 1 :])) for d in range(len(shape)))
    end = input._array.size if wrap and len(shape) == 2 else min(shape) * step
    flat = np.arange(0, min(end, input._array.size), step) if input._array.size else np.empty(0, np.int64)
    value = element(fill_value, input._array.dtype)
    return kernel_inplace(put_rows, input, flat, value, dim=0, span=len(shape))


# -- a part replaced, out of place -------------------------------------------------------------------------


def _written(input: Any, src: Any, steps: tuple[Any, ...]) -> Any:
    check_tensor(src, "scatter", "src")
    part = read_view(input.detach(), steps)._array.shape
    if part != src._array.shape:
        raise RuntimeError(
            f"expected src to have a size equal to the slice of self. src size = {list(src._array.shape)}, "
            f"slice size = {list(part)}"
        )
    return write_view(input, src, steps=steps)


def select_scatter(input: Any, src: Any, dim: int, index: int) -> Any:
    """A copy with one index of a dimension replaced by ``src``."""
    shape = input._array.shape
    if not shape:
        raise IndexError("select() cannot be applied to a 0-dim tensor.")
    d = wrap_dim(dim, len(shape))
    n = shape[d]
    if not -n <= index < n:
        raise IndexError(
            f"select(): index {index} out of range for tensor of size {list(shape)} at dimension {d}"
        )
    return _written(input, src, ((as_selected, {"dim": d, "index": int(index) % n}),))


def slice_scatter(
    input: Any, src: Any, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Any:
    """A copy with a slice of a dimension replaced by ``src``."""
    d = wrap_dim(dim, input._array.ndim)
    if step <= 0:
        raise RuntimeError("slice step must be positive")
    key = (*[slice(None)] * d, slice(start, end, step))
    return _written(input, src, ((as_indexed, {"key": key}),))


def diagonal_scatter(input: Any, src: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    """A copy with a diagonal of two dimensions replaced by ``src``."""
    rank = input._array.ndim
    a, b = wrap_dim(dim1, rank, scalar_ok=False), wrap_dim(dim2, rank, scalar_ok=False)
    if a == b:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    return _written(input, src, ((as_diagonal, {"offset": int(offset), "dim1": a, "dim2": b}),))


def narrow_copy(input: Any, dim: int, start: int, length: int) -> Any:
    """A copy of ``length`` indices of a dimension from ``start`` on."""
    return clone(narrow(input, dim, start, length))


class DiagonalMethods:
    """a.tril(), a.diag(), a.select_scatter(...), ..."""

    __slots__ = ()

    diag, diag_embed, diagflat = diag, diag_embed, diagflat
    tril, tril_, triu, triu_, fill_diagonal_ = tril, tril_, triu, triu_, fill_diagonal_
    select_scatter, slice_scatter, diagonal_scatter = select_scatter, slice_scatter, diagonal_scatter
    narrow_copy = narrow_copy
