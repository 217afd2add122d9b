"""LU factors with partial pivoting, and solutions from them."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import return_types
from ..kernels.recording import refuse
from ..op import kernel_op
from .diagonals import lower, upper
from .linalg_common import (
    LinAlgError,
    batch_note,
    check_batches,
    check_matrix,
    check_same_type,
    check_square,
    identity,
    into_all,
    mt,
)
from .linalg_solve import solved_triangular
from .matmul import product
from .out import into
from .shape import as_indexed, cat

__all__ = ["lu_solve", "lu_unpack"]

# -- on arrays ---------------------------------------------------------------------------------------


def _eliminated(a: np.ndarray, pivot: bool) -> tuple[np.ndarray, np.ndarray]:
    """L below the diagonal and U on and above it, and the row exchanged with each row (counted from 1)."""
    out = a.copy(order="C")
    m, n = a.shape[-2:]
    k = min(m, n)
    pivots = np.empty((*a.shape[:-2], k), np.int32)
    flat, rows = out.reshape(-1, m, n), np.arange(int(np.prod(a.shape[:-2], dtype=np.int64)))
    chosen = pivots.reshape(-1, k)
    with np.errstate(all="ignore"):
        for j in range(k):
            at = j + np.abs(flat[:, j:, j]).argmax(1) if pivot else np.full(len(rows), j)
            chosen[:, j] = at + 1
            flat[rows, j], flat[rows, at] = flat[rows, at], flat[rows, j].copy()
            divisor = flat[:, j, j, None]
            flat[:, j + 1 :, j] = np.where(divisor == 0, flat[:, j + 1 :, j], flat[:, j + 1 :, j] / divisor)
            flat[:, j + 1 :, j + 1 :] -= flat[:, j + 1 :, j, None] * flat[:, None, j, j + 1 :]
    return out, pivots


def _order(pivots: np.ndarray, m: int) -> np.ndarray:
    """Which row of A stands in each row of L U."""
    order = np.broadcast_to(np.arange(m), (*pivots.shape[:-1], m)).copy()
    for j in range(pivots.shape[-1]):
        at = pivots[..., j, None].astype(np.int64) - 1
        first, second = order[..., j, None].copy(), np.take_along_axis(order, at, -1)
        order[..., j, None] = second
        np.put_along_axis(order, at, first, -1)
    return order


def _permutation(pivots: Any, like: Any, m: int) -> Any:
    """P with A = P L U, as a constant."""
    order = _order(pivots._array, m)
    out = np.zeros((*order.shape, m), like._array.dtype)
    np.put_along_axis(out, order[..., None, :], 1, -2)
    return like._make(out)


# -- ops ---------------------------------------------------------------------------------------------


def _split(packed: Any) -> tuple[Any, Any]:
    """The factors that lie in one square matrix."""
    n = packed._array.shape[-1]
    return lower(packed, diagonal=-1) + identity(packed, n), upper(packed, diagonal=0)


def _packed_rule(g: Any, out: Any) -> Any:
    left, right = _split(out)
    below = lower(product(mt(left), lower(g, diagonal=-1)), diagonal=-1)
    above = upper(product(upper(g, diagonal=0), mt(right)), diagonal=0)
    made = solved_triangular(mt(left), below + above, is_upper=True, unit=True)
    return mt(solved_triangular(right, mt(made), is_upper=True, unit=False))


@kernel_op(A=_packed_rule, name="linalg_lu_factor")
def packed_factors(A: Any) -> Any:
    """L and U in one matrix, of a square matrix whose rows need no exchange."""
    return _eliminated(A, False)[0]


def _factors(A: Any) -> tuple[Any, Any, Any]:
    """(packed LU, pivots, infos)"""
    refuse("an LU factorisation (solve, inv and det can be compiled)")
    packed, pivots = _eliminated(A._array, True)
    info = _first_zero(packed)
    made = A._make(packed)
    if A._source() is not None:
        made = _recorded(A, pivots)
    return made, A._make(pivots), A._make(info)


def _recorded(A: Any, pivots: np.ndarray) -> Any:
    """The same factors as an expression of A: rows are exchanged first, then the square part is factored."""
    m, n = A._array.shape[-2:]
    k = min(m, n)
    order = A._make(_order(pivots, m))
    exchange = _rows_to(order, A)
    moved = product(exchange, A)
    square = packed_factors(_block(moved, 0, k, 0, k))
    left, right = _split(square)
    if m > k:
        below = mt(solved_triangular(mt(right), mt(_block(moved, k, m, 0, k)), is_upper=False, unit=False))
        return cat([square, below], -2)
    if n > k:
        beside = solved_triangular(left, _block(moved, 0, k, k, n), is_upper=False, unit=True)
        return cat([square, beside], -1)
    return square


def _rows_to(order: Any, like: Any) -> Any:
    m = order._array.shape[-1]
    out = np.zeros((*order._array.shape, m), like._array.dtype)
    np.put_along_axis(out, order._array[..., None], 1, -1)
    return like._make(out)


def _block(x: Any, a: int, b: int, c: int, d: int) -> Any:
    return as_indexed(x, key=(Ellipsis, slice(a, b), slice(c, d)))


def _first_zero(packed: np.ndarray) -> np.ndarray:
    zero = np.diagonal(packed, axis1=-2, axis2=-1) == 0
    found = zero.any(-1) if zero.shape[-1] else np.zeros(zero.shape[:-1], bool)
    return np.where(found, zero.argmax(-1) + 1 if zero.shape[-1] else 0, 0).astype(np.int32)


# -- PyTorch's faces ---------------------------------------------------------------------------------


def _check_pivot(name: str, pivot: bool) -> None:
    if not pivot:
        raise RuntimeError(f"{name}: LU without pivoting is not implemented on the CPU; leave pivot=True")


def lu_factor(A: Any, *, pivot: bool = True, out: Any = None) -> Any:
    """(LU, pivots): both factors in one matrix, and the row exchanged with each row, counted from 1."""
    check_matrix("linalg.lu_factor", A)
    _check_pivot("linalg.lu_factor", pivot)
    packed, pivots, info = _factors(A)
    bad = np.argwhere(info._array != 0)
    if len(bad):
        index = tuple(int(k) for k in bad[0])
        raise LinAlgError(
            "linalg.lu_factor: "
            f"{batch_note(index, info._array.shape)}U[{int(info._array[index])},{int(info._array[index])}] "
            "is zero and using it on lu_solve would result in a division by zero. If you still want to "
            "perform the factorization, consider calling linalg.lu(A, pivot) or linalg.lu_factor_ex(A, "
            "pivot)"
        )
    return into_all(return_types.linalg_lu_factor(packed, pivots), out, "linalg.lu_factor")


def lu_factor_ex(A: Any, *, pivot: bool = True, check_errors: bool = False, out: Any = None) -> Any:
    """(LU, pivots, info): info is 0, or the first zero on the diagonal of U."""
    check_matrix("linalg.lu_factor_ex", A)
    _check_pivot("linalg.lu_factor_ex", pivot)
    if check_errors:
        lu_factor(A)
    return into_all(return_types.linalg_lu_factor_ex(*_factors(A)), out, "linalg.lu_factor_ex")


def lu(A: Any, *, pivot: bool = True, out: Any = None) -> Any:
    """(P, L, U) with A = P L U."""
    check_matrix("linalg.lu", A)
    _check_pivot("linalg.lu", pivot)
    packed, pivots, _ = _factors(A)
    return into_all(return_types.linalg_lu(*_unpacked(packed, pivots)), out, "linalg.lu")


def _unpacked(packed: Any, pivots: Any) -> tuple[Any, Any, Any]:
    m, n = packed._array.shape[-2:]
    k = min(m, n)
    tall = lower(_block(packed, 0, m, 0, k), diagonal=-1)
    ones = np.eye(m, k, dtype=packed._array.dtype)
    return (
        _permutation(pivots, packed, m),
        tall + packed._make(ones),
        upper(_block(packed, 0, k, 0, n), diagonal=0),
    )


def lu_unpack(
    LU_data: Any, LU_pivots: Any, unpack_data: bool = True, unpack_pivots: bool = True, *, out: Any = None
) -> Any:
    """(P, L, U) from what lu_factor returned; parts that are not asked for are empty."""
    if LU_pivots._array.dtype.char != "i":
        raise RuntimeError(
            "torch.lu_unpack: LU_pivots is expected to be a contiguous tensor of int32 dtype: convert with "
            ".int()"
        )
    check_matrix("lu_unpack", LU_data, "LU_data")
    p, left, right = _unpacked(LU_data, LU_pivots)
    empty = LU_data._make(np.empty((0,), LU_data._array.dtype))
    made = (p if unpack_pivots else empty, left if unpack_data else empty, right if unpack_data else empty)
    return into_all(return_types.lu_unpack(*made), out, "lu_unpack")


def linalg_lu_solve(
    LU: Any, pivots: Any, B: Any, *, left: bool = True, adjoint: bool = False, out: Any = None
) -> Any:
    """X with A X = B (or X A = B; A transposed with ``adjoint``), from what lu_factor returned."""
    name = "linalg.lu_solve"
    check_square(name, LU, "LU")
    check_matrix(name, B, "B")
    check_same_type(name, LU, B)
    if pivots._array.dtype.char != "i":
        raise RuntimeError(f"{name}: pivots should be a Tensor of scalar type torch.int32")
    if not left:
        return into(mt(linalg_lu_solve(LU, pivots, mt(B), adjoint=not adjoint)), out, name)
    n = LU._array.shape[-1]
    if B._array.shape[-2] != n:
        raise RuntimeError(
            f"{name}: Incompatible shapes of A and B for the equation AX = B ({n}x{n} and "
            f"{B._array.shape[-2]}x{B._array.shape[-1]})"
        )
    check_batches(name, LU._array.shape, B._array.shape)
    p = _permutation(pivots, LU, n)
    if adjoint:
        half = solved_triangular(mt(LU), B, is_upper=False, unit=False)
        made = product(p, solved_triangular(mt(LU), half, is_upper=True, unit=True))
    else:
        half = solved_triangular(LU, product(mt(p), B), is_upper=False, unit=True)
        made = solved_triangular(LU, half, is_upper=True, unit=False)
    return into(made, out, name)


def lu_solve(b: Any, LU_data: Any, LU_pivots: Any, *, out: Any = None) -> Any:
    """linalg.lu_solve under its old name."""
    return linalg_lu_solve(LU_data, LU_pivots, b, out=out)


class LuMethods:
    """b.lu_solve(lu, pivots)"""

    __slots__ = ()

    lu_solve = lu_solve
