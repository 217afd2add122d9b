"""Norms, ranks, powers and exponentials of matrices, and products of vectors."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from .. import dtypes
from ..kernels.recording import refuse
from ..op import kernel_op
from ..tape import Value
from . import convert
from .arithmetic import mul, where
from .dims import wrap_dim
from .direct import direct_op
from .extrema import amax, amin
from .linalg_common import (
    check_floating,
    check_matrix,
    check_same_type,
    check_square,
    identity,
    mt,
    tolerance,
)
from .linalg_solve import inv, inverted, solve
from .linalg_spectral import singular_values
from .matmul import product, require_tensors
from .out import into
from .reduce import sum as total
from .reduce import vector_norm
from .shape import as_indexed, cat, clone, movedim, reshape, unsqueeze

__all__ = ["cross", "matrix_exp", "matrix_power", "nuclear_norm"]

# -- norms -------------------------------------------------------------------------------------------


def matrix_norm(
    A: Any,
    ord: Any = "fro",
    dim: Any = (-2, -1),
    keepdim: bool = False,
    *,
    dtype: Any = None,
    out: Any = None,
) -> Any:
    """A norm of matrices.

    ``ord``: "fro", "nuc"; 2, -2 (the largest, smallest singular value); 1, -1 (sums of columns), inf, -inf
    (sums of rows).
    """
    name = "linalg.matrix_norm"
    check_floating(name, "A", A)
    rank = A._array.ndim
    if rank < 2:
        raise RuntimeError(f"{name}: The input tensor A must have at least 2 dimensions.")
    dims = tuple(dim) if isinstance(dim, (tuple, list)) else (dim,)
    if len(dims) != 2:
        raise RuntimeError(f"{name}: dim must be a 2-tuple. Got {list(dims)}")
    rows, columns = (wrap_dim(d, rank) for d in dims)
    if rows == columns:
        raise RuntimeError(f"{name}: dims must be different. Got ({dims[0]}, {dims[1]})")
    if dtype is not None:
        to = dtypes.as_dtype(dtype)
        if not to.is_floating_point or to.itemsize < A._array.itemsize:
            raise RuntimeError(
                f"{name}: the dtype of the input {A.dtype} should be convertible without narrowing to {to}"
            )
        A = A.to(to)
    made = _matrix_norm(name, A, ord, rows, columns, keepdim)
    return into(made, out, name)


def _matrix_norm(name: str, A: Any, ord: Any, rows: int, columns: int, keepdim: bool) -> Any:
    if isinstance(ord, str):
        if ord == "fro":
            return vector_norm(A, 2, (rows, columns), keepdim)
        if ord != "nuc":
            raise RuntimeError(f"{name}: Order {ord} not supported.")
    elif isinstance(ord, (bool, type(None))) or abs(ord) not in (1, 2, math.inf):
        raise RuntimeError(f"{name}: Order {ord} not supported.")
    if ord == "nuc" or abs(ord) == 2:
        s = singular_values(movedim(A, (rows, columns), (-2, -1)))
        made = total(s, -1) if ord == "nuc" else amax(s, -1) if ord > 0 else amin(s, -1)
        if keepdim:
            for d in sorted((rows, columns)):
                made = unsqueeze(made, d)
        return made
    summed, rest = (rows, columns) if abs(ord) == 1 else (columns, rows)
    sums = vector_norm(A, 1, summed, keepdim)
    if not keepdim and rest > summed:
        rest -= 1
    return amax(sums, rest, keepdim) if ord > 0 else amin(sums, rest, keepdim)


def nuclear_norm(input: Any, dim: Any = (-2, -1), keepdim: bool = False, *, out: Any = None) -> Any:
    """The sum of the singular values."""
    return matrix_norm(input, "nuc", dim, keepdim, out=out)


def linalg_norm(
    A: Any, ord: Any = None, dim: Any = None, keepdim: bool = False, *, out: Any = None, dtype: Any = None
) -> Any:
    """A vector norm or a matrix norm, as the dimensions say; without ``ord`` the 2-norm of all elements."""
    name = "linalg.norm"
    check_floating(name, "A", A) if not isinstance(A, Value) or A._array.dtype.kind != "f" else None
    if dim is not None:
        dims = tuple(dim) if isinstance(dim, (tuple, list)) else (dim,)
        if len(dims) not in (1, 2):
            raise RuntimeError(f"{name}: If dim is specified, it must be of length 1 or 2. Got {list(dims)}")
        if len(dims) == 2 and ord is not None:
            return matrix_norm(A, ord, dims, keepdim, dtype=dtype, out=out)
        if isinstance(ord, str):
            raise RuntimeError(
                f"{name}: a string ord needs two dimensions: linalg.matrix_norm, got dim={dim}"
            )
        return vector_norm(A, 2 if ord is None else ord, dims, keepdim, dtype=dtype, out=out)
    rank = A._array.ndim
    if (ord is not None and rank not in (1, 2)) or (isinstance(ord, str) and rank == 1):
        if isinstance(ord, str) and rank == 1:
            raise RuntimeError("linalg.matrix_norm: The input tensor A must have at least 2 dimensions.")
        raise RuntimeError(
            f"{name}: If dim is not specified but ord is, the input must be 1D or 2D. Got {rank}D."
        )
    if ord is not None and rank == 2:
        return matrix_norm(A, ord, (0, 1), keepdim, dtype=dtype, out=out)
    return vector_norm(A, 2 if ord is None else ord, None, keepdim, dtype=dtype, out=out)


def cond(A: Any, p: Any = None, *, out: Any = None) -> Any:
    """The condition number for a matrix norm; infinity for a singular matrix."""
    name = "linalg.cond"
    check_matrix(name, A)
    if p is None or (not isinstance(p, str) and abs(p) == 2):
        s = singular_values(A)
        if not s._array.shape[-1]:
            return into(A.new_zeros(A._array.shape[:-2]), out, name)
        largest, smallest = as_indexed(s, key=(Ellipsis, 0)), as_indexed(s, key=(Ellipsis, -1))
        return into(smallest / largest if p == -2 else largest / smallest, out, name)
    if isinstance(p, str) and p not in ("fro", "nuc"):
        raise RuntimeError(f"{name}: got an invalid norm type: {p}")
    check_square(f"linalg.cond(ord={p})", A)
    made = matrix_norm(A, p) * matrix_norm(inverted(A), p)
    return into(where(made == made, made, math.inf), out, name)


def matrix_rank(
    A: Any, tol: Any = None, hermitian: bool = False, *, atol: Any = None, rtol: Any = None, out: Any = None
) -> Any:
    """The number of singular values (or of eigenvalues, if symmetric) above max(atol, rtol * largest)."""
    name = "linalg.matrix_rank"
    refuse("matrix_rank()")
    check_matrix(name, A)
    if hermitian:
        check_square(name, A)
        s = np.abs(np.linalg.eigvalsh(A._array))
    else:
        s = np.linalg.svd(A._array, compute_uv=False)
    limit = np.asarray(tol._array if isinstance(tol, Value) else tol) if tol is not None else None
    if limit is None:
        limit = tolerance(name, s, A._array.shape, atol, rtol)
    made = A._make(np.asarray((s > limit[..., None]).sum(-1), np.int64))
    return into(made, out, name)


# -- powers and exponentials -------------------------------------------------------------------------


def matrix_power(input: Any, n: int, *, out: Any = None) -> Any:
    """The n-th power of square matrices by repeated squaring; of the inverse, if n is negative."""
    name = "linalg.matrix_power"
    require_tensors(name, input=input)
    shape = input._array.shape
    if len(shape) < 2:
        raise RuntimeError(f"{name}: The input tensor A must have at least 2 dimensions.")
    if shape[-1] != shape[-2]:
        raise RuntimeError(
            f"{name}: A must be batches of square matrices, but they are {shape[-2]} by {shape[-1]} matrices"
        )
    n = operator.index(n)
    if n == 0:
        return into(convert.copied_into(input, identity(input, shape[-1])), out, name)
    base = inv(input) if n < 0 else input
    n = abs(n)
    if n == 1:
        return into(base if base is not input else clone(input), out, name)
    made = None
    while n:
        if n & 1:
            made = base if made is None else product(made, base)
        n >>= 1
        if n:
            base = product(base, base)
    return into(made, out, name)


def _exp_rule(g: Any, A: Any) -> Any:
    # The exponential of [[A^T, g], [0, A^T]] holds the derivative in its upper right corner.
    n = A._array.shape[-1]
    at = mt(A)
    block = cat([cat([at, g], -1), cat([at * 0, at], -1)], -2)
    return as_indexed(exponential(block), key=(Ellipsis, slice(0, n), slice(n, 2 * n)))


@kernel_op(A=_exp_rule, name="linalg_matrix_exp")
def exponential(A: Any) -> Any:
    """The matrix exponential."""
    from scipy.linalg import expm  # SciPy takes long to load

    return np.ascontiguousarray(expm(A), A.dtype) if A.size else A.copy()


def matrix_exp(A: Any) -> Any:
    """The matrix exponential of square matrices."""
    check_square("linalg.matrix_exp", A)
    return exponential(A)


# -- vectors -----------------------------------------------------------------------------------------


@direct_op(
    a=lambda g, b, dim: crossed(b, g, dim=dim),
    b=lambda g, a, dim: crossed(g, a, dim=dim),
    name="linalg_cross",
)
def crossed(a: Any, b: Any, *, dim: Any) -> Any:
    """The cross product along a dimension counted from the end."""
    return np.ascontiguousarray(np.cross(a, b, axis=dim))


def linalg_cross(input: Any, other: Any, *, dim: int = -1, out: Any = None) -> Any:
    """The cross product of vectors of three elements along ``dim``; other dimensions broadcast."""
    name = "linalg.cross"
    require_tensors(name, input=input, other=other)
    a, b = input._array, other._array
    if a.ndim != b.ndim:
        raise RuntimeError(
            f"{name}: inputs must have the same number of dimensions, got {a.ndim} and {b.ndim}."
        )
    d = wrap_dim(dim, a.ndim)
    if a.shape[d] != 3 or b.shape[d] != 3:
        raise RuntimeError(
            f"{name}: inputs dimension {dim} must have length 3. Got {a.shape[d]} and {b.shape[d]}"
        )
    try:
        np.broadcast_shapes(a.shape, b.shape)
    except ValueError:
        raise RuntimeError(
            f"{name}: the shapes {list(a.shape)} and {list(b.shape)} do not broadcast"
        ) from None
    to = dtypes.result_type([input, other])
    return into(crossed(input.to(to), other.to(to), dim=d - a.ndim), out, name)


def cross(input: Any, other: Any, dim: int | None = None, *, out: Any = None) -> Any:
    """The cross product along ``dim``, or along the first dimension of size 3."""
    require_tensors("cross", input=input, other=other)
    if dim is None:
        dim = next((d for d, n in enumerate(input._array.shape) if n == 3), None)
        if dim is None:
            raise RuntimeError(f"cross: no dimension of size 3 in input of shape {list(input._array.shape)}")
    return linalg_cross(input, other, dim=dim, out=out)


def vecdot(x: Any, y: Any, *, dim: int = -1, out: Any = None) -> Any:
    """Sums of products along a dimension, with broadcasting."""
    require_tensors("linalg.vecdot", x=x, y=y)
    check_same_type("linalg.vecdot", x, y)
    return into(total(mul(x, y), dim), out, "linalg.vecdot")


def vander(x: Any, N: int | None = None) -> Any:
    """Powers 0 to N-1 of each element, as a new last dimension."""
    require_tensors("linalg.vander", x=x)
    if not x._array.ndim:
        x = unsqueeze(x, 0)
    n = x._array.shape[-1] if N is None else N
    if N is not None and N <= 1:
        raise RuntimeError(f"linalg.vander: N must be greater than 1, got {N}")
    last = unsqueeze(x, -1)
    made = [last * 0 + 1]
    for _ in range(n - 1):
        made.append(made[-1] * last)
    return cat(made, -1)


# -- tensors as matrices -----------------------------------------------------------------------------


def tensorsolve(A: Any, B: Any, dims: Any = None, *, out: Any = None) -> Any:
    """X with tensordot(A, X, X.ndim) = B."""
    name = "linalg.tensorsolve"
    if dims is not None:
        rank = A._array.ndim
        A = movedim(A, tuple(dims), tuple(range(rank - len(dims), rank)))
    shape = A._array.shape[B._array.ndim :]
    n = math.prod(shape)
    if n != math.prod(A._array.shape[: B._array.ndim]) or n != B._array.size:
        raise RuntimeError(
            f"{name}: Expected self to satisfy the requirement prod(self.shape[other.ndim:]) == "
            f"prod(self.shape[:other.ndim]), but got {n} != {math.prod(A._array.shape[: B._array.ndim])}"
        )
    return into(reshape(solve(reshape(A, (n, n)), reshape(B, (n,))), shape), out, name)


def tensorinv(A: Any, ind: int = 2, *, out: Any = None) -> Any:
    """The inverse of A seen as a matrix from the dimensions after ``ind`` to those before."""
    name = "linalg.tensorinv"
    if ind <= 0:
        raise RuntimeError(f"{name}: Expected a strictly positive integer for 'ind', got {ind}")
    front, back = A._array.shape[:ind], A._array.shape[ind:]
    if math.prod(front) != math.prod(back):
        raise RuntimeError(
            f"{name}: Expected self to satisfy the requirement prod(self.shape[ind:]) == "
            f"prod(self.shape[:ind]), but got {math.prod(back)} != {math.prod(front)}"
        )
    return into(reshape(inv(reshape(A, (math.prod(front), math.prod(back)))), (*back, *front)), out, name)


class MeasureMethods:
    """a.matrix_power(3), a.cross(b), ..."""

    __slots__ = ()

    matrix_power, matrix_exp, cross = matrix_power, matrix_exp, cross
