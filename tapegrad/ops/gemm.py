"""Products of matrices: families closed under their own rules.

Transposition is a flag of the op, not a view made before it: the rule of a product is again a product
of the same kind, BLAS reads transposed operands in place, and small products stay cheap.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import blas, config, kernels
from ..kernels.arrays import cast, contiguous
from ..kernels.recording import active, hosted, now
from ..op import kernel_op
from .direct import direct_op

# -- on arrays ---------------------------------------------------------------------------------------

BLAS = "fd"

# Measured, in multiply-adds: our own kernel beats NumPy's BLAS on matrices from _OWN on, and if the right factor
# alone is transposed from LITTLE on, where they fill its tiles. In any case BLAS is left on one thread, so
# that a result does not depend on how many there are.
LITTLE = 1 << 16
_OWN = 1 << 20
_OWN_STACK = 1 << 22  # all of a stack
_OWN_STACK_TRANSPOSED = 1 << 18
_OWN_ANYWAY = 1 << 26


def _own(m: int, n: int, k: int, a: np.ndarray, b: np.ndarray) -> bool:
    """Whether (m, k) @ (k, n) is for our own kernel."""
    work = m * n * k
    if m < 8 or n < 16:
        return work >= _OWN_ANYWAY and m > 1 and n > 1
    turned = b.strides[-1] != b.itemsize and a.strides[-1] == a.itemsize
    return work >= (LITTLE if turned else _OWN)


def multiplied(a: np.ndarray, b: np.ndarray, row: np.ndarray | None = None) -> np.ndarray:
    """a @ b, plus a row if one is given, for matrices and vectors of one dtype."""
    if active and now() is not None:
        return _recorded(a, b, row)
    char = a.dtype.char
    if char in BLAS:
        work = a.size * b.shape[-1] if b.ndim > 1 else a.size
        if work < LITTLE:
            out = a.dot(b)
        elif a.ndim == 2 and b.ndim == 2 and _own(a.shape[0], b.shape[1], a.shape[1], a, b):
            return kernels.gemm.product(a, b, row)  # type: ignore[no-any-return]
        else:
            with blas.one_thread(work):
                out = a.dot(b)
        if row is not None:
            _add_row(out, row)
        return out  # type: ignore[no-any-return]
    if char == "e":
        with np.errstate(over="ignore"):
            out = a.astype(np.float32).dot(b.astype(np.float32)).astype(a.dtype)
    else:
        out = a.dot(b)
    if row is not None:
        out += row
    return out  # type: ignore[no-any-return]


def _recorded(a: np.ndarray, b: np.ndarray, row: np.ndarray | None = None) -> np.ndarray:
    """The same by our own kernel in any case, which a recorded step can run without Python."""
    char = a.dtype.char
    if char == "e":
        wide = [None if x is None else cast(x, np.float32) for x in (a, b, row)]
        return cast(_recorded(*wide), a.dtype)  # type: ignore[arg-type]
    if char not in BLAS:
        return _whole_product(a, b) if row is None else _whole_product(a, b, row)
    left = a if a.ndim > 1 else a[None, :]
    right = b if b.ndim > 1 else b[:, None]
    out = kernels.gemm.product(left, right, row)
    shape = out.shape if b.ndim > 1 else out.shape[:-1]
    if a.ndim == 1:
        shape = (*shape[:-2], shape[-1]) if b.ndim > 1 else shape[:-1]
    return out.reshape(shape)  # type: ignore[no-any-return]


@hosted
def _whole_product(a: np.ndarray, b: np.ndarray, row: Any = 0) -> np.ndarray:
    """a @ b + row of whole numbers, for which there is no kernel."""
    return np.asarray(np.matmul(a, b) + row)


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
    if active and now() is not None:
        return _recorded(a, b)
    char = a.dtype.char
    if char == "e":
        with np.errstate(over="ignore"):
            return _stacked(a.astype(np.float32), b.astype(np.float32)).astype(a.dtype)
    if char not in BLAS:
        return np.matmul(a, b)  # type: ignore[no-any-return]
    m, n, k = a.shape[-2], b.shape[-1], a.shape[-1]
    if m >= 8 and n >= 16:
        # The whole counts where threads can share it, or where NumPy's call per matrix costs as much as the product.
        least = _OWN_STACK if b.strides[-1] == b.itemsize else _OWN_STACK_TRANSPOSED
        if max(a.size * n, b.size * m) >= least or _own(m, n, k, a, b):
            return kernels.gemm.product(a, b)  # type: ignore[no-any-return]
    a, b = _readable(a), _readable(b)
    with blas.one_thread(m * n * k):
        return np.matmul(a, b)  # type: ignore[no-any-return]


def _rows(x: np.ndarray) -> np.ndarray:
    """All vectors along the last dimension as rows of one matrix."""
    return x if x.ndim == 2 else contiguous(x).reshape(math.prod(x.shape[:-1]), x.shape[-1])


# -- matrix @ matrix ---------------------------------------------------------------------------------


@direct_op(
    a=lambda g, b, ta, tb: mm_op(b, g, ta=tb, tb=True) if ta else mm_op(g, b, ta=False, tb=not tb),
    b=lambda g, a, ta, tb: mm_op(g, a, ta=True, tb=ta) if tb else mm_op(a, g, ta=not ta, tb=False),
    name="mm",
    native=True,
)
def mm_op(a: Any, b: Any, *, ta: Any, tb: Any) -> Any:
    """a @ b of two matrices, each transposed first if its flag says so."""
    return multiplied(a.T if ta else a, b.T if tb else b)


@direct_op(
    a=lambda g, b, ta, tb: bmm_op(b, g, ta=tb, tb=True) if ta else bmm_op(g, b, ta=False, tb=not tb),
    b=lambda g, a, ta, tb: bmm_op(g, a, ta=True, tb=ta) if tb else bmm_op(a, g, ta=not ta, tb=False),
    name="bmm",
    native=True,
)
def bmm_op(a: Any, b: Any, *, ta: Any, tb: Any) -> Any:
    """a @ b of stacks of matrices, broadcast against each other."""
    return _stacked(a.swapaxes(-1, -2) if ta else a, b.swapaxes(-1, -2) if tb else b)


# -- (..., k) @ (k, n): all rows through one matrix --------------------------------------------------


@direct_op(
    x=lambda g, w, tw: rows_op(g, w, tw=not tw),
    w=lambda g, x, tw: gram_op(g, x) if tw else gram_op(x, g),
    name="matmul",
    native=True,
    node_name="MmBackward0",
)
def rows_op(x: Any, w: Any, *, tw: Any) -> Any:
    """x @ w for x of shape (..., k) and one matrix w (k, n), or (n, k) with the flag."""
    m = w.T if tw else w
    if x.ndim <= 2:
        return multiplied(x, m)
    return multiplied(_rows(x), m).reshape(*x.shape[:-1], m.shape[1])


@direct_op(
    a=lambda g, b: rows_op(b, g, tw=True),
    b=lambda g, a: rows_op(a, g, tw=False),
    name="gram",
    native=True,
    node_name="MmBackward0",
)
def gram_op(a: Any, b: Any) -> Any:
    """(k, n) from a (..., k) and b (..., n): the sum over all rows of their outer products."""
    return multiplied(_rows(a).T, _rows(b))


def _weight_rule(g: Any, input: Any, transposed: bool) -> Any:
    return gram_op(g, input) if transposed else gram_op(input, g)


@direct_op(
    input=lambda g, weight, transposed: rows_op(g, weight, tw=not transposed),
    weight=_weight_rule,
    bias=lambda g: g,  # the replay sums over what was broadcast
    name="linear",
    native=True,
    node_name="AddmmBackward0",
)
def affine(input: Any, weight: Any, bias: Any, *, transposed: Any) -> Any:
    """input @ weight + bias, or input @ weight.T + bias with the flag, for input (..., k)."""
    m = weight.T if transposed else weight
    n = m.shape[1]
    x = input if input.ndim <= 2 else _rows(input)
    if bias.shape == (n,) and bias.flags.c_contiguous:
        out = multiplied(x, m, bias)
    elif active:
        out = _added(multiplied(x, m), bias)
    else:
        out = multiplied(x, m)
        out += bias
    return out if input.ndim <= 2 else out.reshape(*input.shape[:-1], n)


@hosted
def _added(out: np.ndarray, bias: np.ndarray) -> np.ndarray:
    return np.asarray(out + bias)


_add_row_entries: dict[str, Any] = {}


def _add_row(out: np.ndarray, row: np.ndarray) -> None:
    """out[..., j] += row[j]"""
    size = out.size
    if not size:
        return
    n = row.size
    if size >= config.grain:
        kernels.launch_lazily(kernels.matmul.add_rows, (out, row, n), size // n, size)
        return
    char = out.dtype.char
    entry = _add_row_entries.get(char)
    if entry is None:
        entry = _add_row_entries[char] = kernels.matmul.add_rows.entry((char, char, "int", "int", "int"))
    entry(out, row, n, 0, size // n)


# -- vectors -----------------------------------------------------------------------------------------


@direct_op(
    a=lambda g, x, ta: outer_op(x, g) if ta else outer_op(g, x),
    x=lambda g, a, ta: mv_op(a, g, ta=not ta),
    name="mv",
    native=True,
)
def mv_op(a: Any, x: Any, *, ta: Any) -> Any:
    """a @ x of a matrix and a vector, the matrix transposed first if the flag says so."""
    return multiplied(a.T if ta else a, x)


@direct_op(
    x=lambda g, y: mv_op(g, y, ta=False),
    y=lambda g, x: mv_op(g, x, ta=True),
    name="outer",
    native=True,
    node_name="MulBackward0",
)
def outer_op(x: Any, y: Any) -> Any:
    """out[i, j] = x[i] * y[j]"""
    if active and now() is not None:
        return _recorded(x[:, None], y[None, :])
    return np.multiply.outer(x, y)


@kernel_op(x=lambda g, y: g * y, y=lambda g, x: g * x, name="dot", native=True)
def dot_op(x: Any, y: Any) -> Any:
    """The sum of the products of two vectors."""
    return np.asarray(multiplied(x, y))
