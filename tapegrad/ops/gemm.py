"""Products of matrices: families closed under their own rules.

Transposition is a flag of the op, not a view made before it: the rule of a product is again a product
of the same kind, BLAS reads transposed operands in place, and small products stay cheap.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import blas, kernels
from ..op import kernel_op
from .direct import direct_op

# -- on arrays ---------------------------------------------------------------------------------------

BLAS = "fd"


def _dot(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a @ b for matrices and vectors of one dtype."""
    char = a.dtype.char
    if char in BLAS:
        work = a.size * b.shape[-1] if b.ndim > 1 else a.size
        if work <= blas.ALONE:
            return a.dot(b)  # type: ignore[no-any-return]
        with blas.threads_for(work):
            return a.dot(b)  # type: ignore[no-any-return]
    if char == "e":
        with np.errstate(over="ignore"):
            return a.astype(np.float32).dot(b.astype(np.float32)).astype(a.dtype)  # type: ignore[no-any-return]
    return a.dot(b)  # type: ignore[no-any-return]


def _readable(x: np.ndarray) -> np.ndarray:
    """The stack of matrices as BLAS can read it: rows or columns without gaps, no overlap."""
    if x.flags.c_contiguous:
        return x
    s0, s1 = x.strides[-2:]
    m, n = x.shape[-2:]
    item = x.itemsize
    if (s1 == item and s0 >= n * item) or (s0 == item and s1 >= m * item):
        return x
    return np.ascontiguousarray(x)


def _stacked(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a @ b for stacks of matrices, with broadcasting of what stands before."""
    char = a.dtype.char
    if char == "e":
        with np.errstate(over="ignore"):
            return np.matmul(a.astype(np.float32), b.astype(np.float32)).astype(a.dtype)  # type: ignore[no-any-return]
    if char in BLAS:
        a, b = _readable(a), _readable(b)
        return blas.matmul(a, b)
    return np.matmul(a, b)  # type: ignore[no-any-return]


def _rows(x: np.ndarray) -> np.ndarray:
    """All vectors along the last dimension as rows of one matrix."""
    return x if x.ndim == 2 else x.reshape(math.prod(x.shape[:-1]), x.shape[-1])


# -- matrix @ matrix ---------------------------------------------------------------------------------


@direct_op(
    a=lambda g, b, ta, tb: mm_op(b, g, ta=tb, tb=True) if ta else mm_op(g, b, ta=False, tb=not tb),
    b=lambda g, a, ta, tb: mm_op(g, a, ta=True, tb=ta) if tb else mm_op(a, g, ta=not ta, tb=False),
    name="mm",
)
def mm_op(a: Any, b: Any, *, ta: Any, tb: Any) -> Any:
    """a @ b of two matrices, each transposed first if its flag says so."""
    return _dot(a.T if ta else a, b.T if tb else b)


@direct_op(
    a=lambda g, b, ta, tb: bmm_op(b, g, ta=tb, tb=True) if ta else bmm_op(g, b, ta=False, tb=not tb),
    b=lambda g, a, ta, tb: bmm_op(g, a, ta=True, tb=ta) if tb else bmm_op(a, g, ta=not ta, tb=False),
    name="bmm",
)
def bmm_op(a: Any, b: Any, *, ta: Any, tb: Any) -> Any:
    """a @ b of stacks of matrices, broadcast against each other."""
    return _stacked(a.swapaxes(-1, -2) if ta else a, b.swapaxes(-1, -2) if tb else b)


# -- (..., k) @ (k, n): all rows through one matrix --------------------------------------------------


@direct_op(
    x=lambda g, w, tw: rows_op(g, w, tw=not tw),
    w=lambda g, x, tw: gram_op(g, x) if tw else gram_op(x, g),
    name="matmul",
    node_name="MmBackward0",
)
def rows_op(x: Any, w: Any, *, tw: Any) -> Any:
    """x @ w for x of shape (..., k) and one matrix w (k, n), or (n, k) with the flag."""
    m = w.T if tw else w
    if x.ndim <= 2:
        return _dot(x, m)
    return _dot(_rows(x), m).reshape(*x.shape[:-1], m.shape[1])


@direct_op(
    a=lambda g, b: rows_op(b, g, tw=True),
    b=lambda g, a: rows_op(a, g, tw=False),
    name="gram",
    node_name="MmBackward0",
)
def gram_op(a: Any, b: Any) -> Any:
    """(k, n) from a (..., k) and b (..., n): the sum over all rows of their outer products."""
    return _dot(_rows(a).T, _rows(b))


def _weight_rule(g: Any, input: Any, transposed: bool) -> Any:
    return gram_op(g, input) if transposed else gram_op(input, g)


@direct_op(
    input=lambda g, weight, transposed: rows_op(g, weight, tw=not transposed),
    weight=_weight_rule,
    bias=lambda g: g,  # the replay sums over what was broadcast
    name="linear",
    node_name="AddmmBackward0",
)
def affine(input: Any, weight: Any, bias: Any, *, transposed: Any) -> Any:
    """input @ weight + bias, or input @ weight.T + bias with the flag, for input (..., k)."""
    m = weight.T if transposed else weight
    out = _dot(input if input.ndim <= 2 else _rows(input), m)
    n = m.shape[1]
    if bias.shape == (n,) and out.dtype.char in BLAS and bias.flags.c_contiguous:
        _add_rows(out, bias, n)
    else:
        out += bias
    return out if input.ndim <= 2 else out.reshape(*input.shape[:-1], n)


_add_rows_entries: dict[str, Any] = {}


def _add_rows(out: np.ndarray, row: np.ndarray, n: int) -> None:
    size = out.size
    if not size:
        return
    if size >= 65_536:
        kernels.launch_lazily(kernels.matmul.add_rows, (out, row, n), size // n, size)
        return
    char = out.dtype.char
    entry = _add_rows_entries.get(char)
    if entry is None:
        entry = _add_rows_entries[char] = kernels.matmul.add_rows.entry((char, char, "int", "int", "int"))
    entry(out, row, n, 0, size // n)


# -- vectors -----------------------------------------------------------------------------------------


@direct_op(
    a=lambda g, x, ta: outer_op(x, g) if ta else outer_op(g, x),
    x=lambda g, a, ta: mv_op(a, g, ta=not ta),
    name="mv",
)
def mv_op(a: Any, x: Any, *, ta: Any) -> Any:
    """a @ x of a matrix and a vector, the matrix transposed first if the flag says so."""
    return _dot(a.T if ta else a, x)


@direct_op(
    x=lambda g, y: mv_op(g, y, ta=False),
    y=lambda g, x: mv_op(g, x, ta=True),
    name="outer",
    node_name="MulBackward0",
)
def outer_op(x: Any, y: Any) -> Any:
    """out[i, j] = x[i] * y[j]"""
    return np.multiply.outer(x, y)


@kernel_op(x=lambda g, y: g * y, y=lambda g, x: g * x, name="dot")
def dot_op(x: Any, y: Any) -> Any:
    """The sum of the products of two vectors."""
    return np.asarray(_dot(x, y))
