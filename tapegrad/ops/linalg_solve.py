"""Linear systems: inverse, solutions, determinants, and the triangular factors behind them."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import return_types
from ..kernels.recording import hosted
from ..op import kernel_op
from .arithmetic import mul, where
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
    matrices,
    mt,
)
from .matmul import product
from .out import into
from .reduce import sum as total
from .shape import expand, squeeze, unsqueeze

__all__ = [
    "cholesky",
    "cholesky_inverse",
    "cholesky_solve",
    "det",
    "inverse",
    "logdet",
    "slogdet",
    "triangular_solve",
]

# -- on arrays ---------------------------------------------------------------------------------------


def zero_pivot(a: np.ndarray) -> int:
    """The first diagonal element (counted from 1) of the LU factor of a matrix that is zero; 0 if none is."""
    from scipy.linalg import lapack  # SciPy takes long to load

    if not a.size:
        return 0
    _, _, info = (lapack.dgetrf if a.dtype.char == "d" else lapack.sgetrf)(a)
    return max(int(info), 0)


def _raise_singular(name: str, a: np.ndarray) -> None:
    for index, matrix in matrices(a):
        k = zero_pivot(matrix)
        if k:
            raise LinAlgError(
                f"{name}: {batch_note(index, a.shape[:-2])}The diagonal element {k} is zero, the inversion "
                "could not be completed because the input matrix is singular."
            )


def _inverse(a: np.ndarray) -> np.ndarray:
    """Inverses; NaN and infinity for singular matrices."""
    try:
        return np.linalg.inv(a)
    except np.linalg.LinAlgError:
        out = np.empty_like(a, order="C")
        for index, matrix in matrices(a):
            out[index] = np.nan if zero_pivot(matrix) else np.linalg.inv(matrix)
        return out


def _triangular(a: np.ndarray, b: np.ndarray, upper: bool, unit: bool) -> np.ndarray:
    from scipy.linalg import blas  # SciPy takes long to load

    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    n, k = b.shape[-2:]
    out = np.empty((*batch, n, k), a.dtype)
    if not out.size:
        return out
    a, b = np.broadcast_to(a, (*batch, n, n)), np.broadcast_to(b, (*batch, n, k))
    solve = blas.dtrsm if a.dtype.char == "d" else blas.strsm
    for index, matrix in matrices(a):
        # BLAS reads columns: a row-wise matrix is its transpose, with the other triangle filled.
        out[index] = solve(1.0, matrix.T, b[index], lower=upper, trans_a=1, diag=unit)
    return out


# -- inverse and solutions ---------------------------------------------------------------------------


@kernel_op(A=lambda g, out: -product(product(mt(out), g), mt(out)), name="linalg_inv_ex")
def inverted(A: Any) -> Any:
    """The inverse; NaN where there is none."""
    return _inverse(A)


def _inv(name: str, A: Any, out: Any = None) -> Any:
    check_square(name, A)
    made = inverted(A)
    _check_inverse(made._array, A._array, name)
    return into(made, out, name)


@hosted
def _check_inverse(made: np.ndarray, array: np.ndarray, name: str) -> None:
    if np.isnan(made).any():
        _raise_singular(name, array)


def inv(A: Any, *, out: Any = None) -> Any:
    """The inverse of a square matrix, or of each of a batch; LinAlgError for a singular one."""
    return _inv("linalg.inv", A, out)


def inverse(input: Any, *, out: Any = None) -> Any:
    """The inverse of a square matrix, or of each of a batch; LinAlgError for a singular one."""
    return _inv("linalg.inv", input, out)


@hosted
def _infos(a: np.ndarray) -> np.ndarray:
    out = np.zeros(a.shape[:-2], np.int32)
    for index, matrix in matrices(a):
        out[index] = zero_pivot(matrix)
    return out


def inv_ex(A: Any, *, check_errors: bool = False, out: Any = None) -> Any:
    """(inverse, info): info is 0, or the first zero on the diagonal of the LU factor."""
    check_square("linalg.inv_ex", A)
    if check_errors:
        _raise_singular("linalg.inv_ex", A._array)
    made = return_types.linalg_inv_ex(inverted(A), A._make(_infos(A._array)))
    return into_all(made, out, "linalg.inv_ex")


def _solve_rule(g: Any, A: Any, out: Any, needs: Any) -> tuple[Any, Any]:
    to_b = solved(mt(A), g)
    return (-product(to_b, mt(out)) if needs[0] else None), (to_b if needs[1] else None)


@kernel_op(
    all=_solve_rule,
    name="linalg_solve_ex",
)
def solved(A: Any, B: Any) -> Any:
    """X with A X = B; NaN where A is singular."""
    try:
        return np.linalg.solve(A, B)
    except np.linalg.LinAlgError:
        batch = np.broadcast_shapes(A.shape[:-2], B.shape[:-2])
        out = np.full((*batch, *B.shape[-2:]), np.nan, A.dtype)
        a, b = np.broadcast_to(A, (*batch, *A.shape[-2:])), np.broadcast_to(B, out.shape)
        for index, matrix in matrices(a):
            if not zero_pivot(matrix):
                out[index] = np.linalg.solve(matrix, b[index])
        return out


def _is_vector(A: Any, B: Any) -> bool:
    a, b = A._array.shape, B._array.shape
    return len(b) == 1 or (len(a) - 1 == len(b) and b == a[:-1])


def _solve(name: str, A: Any, B: Any, left: bool) -> Any:
    check_square(name, A)
    check_same_type(name, A, B)
    if not B._array.ndim:
        raise RuntimeError(f"{name}: The input tensor B must have at least 1 dimension.")
    vector = _is_vector(A, B)
    if vector and not left:
        raise RuntimeError(
            f"{name}: Vector broadcasting of the left hand side is not supported for left=False. In this "
            "case linalg.solve is equivalent to B / A.squeeze(-1)"
        )
    right = unsqueeze(B, -1) if vector else B
    a, b = A._array.shape, right._array.shape
    if b[-2 if left else -1] != a[-1]:
        equation = "AX = B" if left else "XA = B"
        raise RuntimeError(
            f"{name}: Incompatible shapes of A and B for the equation {equation} ({a[-2]}x{a[-1]} and "
            f"{b[-2]}x{b[-1]})"
        )
    check_batches(name, a, b)
    made = solved(A, right) if left else mt(solved(mt(A), mt(right)))
    return squeeze(made, -1) if vector else made


def solve(A: Any, B: Any, *, left: bool = True, out: Any = None) -> Any:
    """X with A X = B (or X A = B with left=False), B matrices or a vector; LinAlgError if A is singular."""
    made = _solve("linalg.solve", A, B, left)
    _check_solution(made._array, A._array)
    return into(made, out, "linalg.solve")


@hosted
def _check_solution(made: np.ndarray, array: np.ndarray) -> None:
    if np.isnan(made).any():
        for index, matrix in matrices(array):
            if zero_pivot(matrix):
                raise LinAlgError(
                    f"linalg.solve: {batch_note(index, array.shape[:-2])}The solver failed because the "
                    "input matrix is singular."
                )


def solve_ex(A: Any, B: Any, *, left: bool = True, check_errors: bool = False, out: Any = None) -> Any:
    """(result, info): solve() that reports singular matrices in info instead of raising."""
    made = solve(A, B, left=left) if check_errors else _solve("linalg.solve_ex", A, B, left)
    return into_all(return_types.linalg_solve_ex(made, A._make(_infos(A._array))), out, "linalg.solve_ex")


def _triangle(x: Any, is_upper: bool, unit: bool) -> Any:
    return upper(x, diagonal=int(unit)) if is_upper else lower(x, diagonal=-int(unit))


def _triangular_rule(g: Any, A: Any, out: Any, is_upper: bool, unit: bool, needs: Any) -> tuple[Any, Any]:
    to_b = solved_triangular(mt(A), g, is_upper=not is_upper, unit=unit)
    to_a = _triangle(-product(to_b, mt(out)), is_upper, unit) if needs[0] else None
    return to_a, (to_b if needs[1] else None)


@kernel_op(
    all=_triangular_rule,
    name="linalg_solve_triangular",
)
def solved_triangular(A: Any, B: Any, *, is_upper: Any, unit: Any) -> Any:
    """X with A X = B, reading one triangle of A only, and with ``unit`` not even its diagonal."""
    return _triangular(A, B, is_upper, unit)


def solve_triangular(
    A: Any, B: Any, *, upper: bool, left: bool = True, unitriangular: bool = False, out: Any = None
) -> Any:
    """X with A X = B (or X A = B) for triangular A; infinities where A has zeros on its diagonal."""
    name = "linalg.solve_triangular"
    check_square(name, A)
    check_matrix(name, B, "B")
    check_same_type(name, A, B)
    a, b = A._array.shape, B._array.shape
    if b[-2 if left else -1] != a[-1]:
        equation = "AX = B" if left else "XA = B"
        raise RuntimeError(
            f"{name}: Incompatible shapes of A and B for the equation {equation} ({a[-2]}x{a[-1]} and "
            f"{b[-2]}x{b[-1]})"
        )
    check_batches(name, a, b)
    if left:
        made = solved_triangular(A, B, is_upper=bool(upper), unit=bool(unitriangular))
    else:
        made = mt(solved_triangular(mt(A), mt(B), is_upper=not upper, unit=bool(unitriangular)))
    return into(made, out, name)


def triangular_solve(
    b: Any,
    A: Any,
    upper: bool = True,
    transpose: bool = False,
    unitriangular: bool = False,
    *,
    out: Any = None,
) -> Any:
    """(solution, A): the old form of linalg.solve_triangular."""
    check_square("triangular_solve", A)
    matrix = mt(A) if transpose else A
    made = solve_triangular(matrix, b, upper=bool(upper) != bool(transpose), unitriangular=unitriangular)
    return into_all(return_types.triangular_solve(made, A), out, "triangular_solve")


# -- Cholesky ----------------------------------------------------------------------------------------


def _cholesky_rule(g: Any, out: Any) -> Any:
    phi = lower(product(mt(out), g), diagonal=0)
    phi = (phi + mt(lower(phi, diagonal=-1))) * 0.5
    half = solved_triangular(mt(out), phi, is_upper=True, unit=False)
    return mt(solved_triangular(mt(out), mt(half), is_upper=True, unit=False))


@kernel_op(A=_cholesky_rule, outputs=("out", "info"), name="linalg_cholesky_ex")
def factored(A: Any) -> Any:
    """L with A = L L^T; info is 0, or the order of the first minor that is not positive."""
    info = np.zeros(A.shape[:-2], np.int32)
    try:
        return np.linalg.cholesky(A), info
    except np.linalg.LinAlgError:
        from scipy.linalg import lapack  # SciPy takes long to load

        potrf = lapack.dpotrf if A.dtype.char == "d" else lapack.spotrf
        out = np.empty_like(A, order="C")
        for index, matrix in matrices(A):
            made, info[index] = potrf(matrix, lower=1, clean=1)
            out[index] = made
        return out, info


def _cholesky(name: str, A: Any, is_upper: bool, check: bool) -> tuple[Any, Any]:
    check_square(name, A)
    made, info = factored(mt(A) if is_upper else A)
    if check:
        _check_definite(info._array, name)
    return (mt(made) if is_upper else made), info


@hosted
def _check_definite(info: np.ndarray, name: str) -> None:
    if info.any():
        index = tuple(int(k[0]) for k in np.nonzero(info)) if info.ndim else ()
        raise LinAlgError(
            f"{name}: {batch_note(index, info.shape)}The factorization could not be completed "
            "because the input is not positive-definite (the leading minor of order "
            f"{int(info[index])} is not positive-definite)."
        )


def linalg_cholesky(A: Any, *, upper: bool = False, out: Any = None) -> Any:
    """L with A = L L^T (or U with A = U^T U); LinAlgError unless A is positive definite."""
    return into(_cholesky("linalg.cholesky", A, upper, True)[0], out, "linalg.cholesky")


def cholesky_ex(A: Any, *, upper: bool = False, check_errors: bool = False, out: Any = None) -> Any:
    """(L, info): info is 0, or the order of the first leading minor that is not positive."""
    made = return_types.linalg_cholesky_ex(*_cholesky("linalg.cholesky_ex", A, upper, check_errors))
    return into_all(made, out, "linalg.cholesky_ex")


def cholesky(input: Any, upper: bool = False, *, out: Any = None) -> Any:
    """linalg.cholesky under its old name."""
    return into(_cholesky("cholesky", input, upper, True)[0], out, "cholesky")


def _factor_rule(g: Any, L: Any, out: Any, needs: Any) -> tuple[Any, Any]:
    # As in PyTorch the factor counts as a whole matrix here, not as a triangle.
    to_b = solved_by_factor(g, L)
    if not needs[1]:
        return to_b, None
    change = product(to_b, mt(out))
    return to_b, -product(change + mt(change), L)


@kernel_op(all=_factor_rule, name="cholesky_solve")
def solved_by_factor(B: Any, L: Any) -> Any:
    """X with L L^T X = B, for lower triangular L."""
    return _triangular(L.swapaxes(-1, -2), _triangular(L, B, False, False), True, False)


def cholesky_solve(B: Any, L: Any, upper: bool = False, *, out: Any = None) -> Any:
    """X with A X = B, given the Cholesky factor of A."""
    for argument, x in (("B", B), ("L", L)):
        if x._array.ndim < 2:
            raise RuntimeError(
                f"cholesky_solve: {argument} should have at least 2 dimensions, but has {x._array.ndim} "
                "dimensions instead"
            )
    check_square("cholesky_solve", L, "L")
    check_matrix("cholesky_solve", B, "B")
    check_same_type("cholesky_solve", L, B)
    a, b = L._array.shape, B._array.shape
    if a[-1] != b[-2]:
        raise RuntimeError(
            f"cholesky_solve: Incompatible matrix sizes: L has shape {list(a)} and B {list(b)}"
        )
    check_batches("cholesky_solve", a, b)
    return into(solved_by_factor(B, mt(L) if upper else L), out, "cholesky_solve")


def cholesky_inverse(L: Any, upper: bool = False, *, out: Any = None) -> Any:
    """The inverse of A, given its Cholesky factor."""
    check_square("cholesky_inverse", L, "L")
    zero = np.argwhere(np.diagonal(L._array, axis1=-2, axis2=-1) == 0)
    if len(zero):
        index = tuple(int(k) for k in zero[0][:-1])
        raise LinAlgError(
            f"cholesky_inverse: {batch_note(index, L._array.shape[:-2])}The diagonal element "
            f"{int(zero[0][-1]) + 1} is zero, the inversion could not be completed because the input matrix "
            "is singular."
        )
    eye = identity(L, L._array.shape[-1])
    return into(cholesky_solve(expand(eye, L._array.shape), L, upper), out, "cholesky_inverse")


# -- determinants ------------------------------------------------------------------------------------


def _cofactors(a: np.ndarray) -> np.ndarray:
    """det(A) * inverse(A)^T, which also exists where A is singular."""
    det = np.linalg.det(a)
    with np.errstate(all="ignore"):
        out: np.ndarray = det[..., None, None] * _inverse(a).swapaxes(-1, -2)
    bad = ~np.isfinite(out).all((-1, -2)) | (det == 0)
    if bad.any():
        u, s, vh = np.linalg.svd(a[bad])
        n = s.shape[-1]
        others = np.where(np.eye(n, dtype=bool), 1.0, s[..., None, :]).prod(-1).astype(a.dtype)
        sign = np.linalg.det(u) * np.linalg.det(vh)
        out[bad] = sign[..., None, None] * ((u * others[..., None, :]) @ vh)
    return out


def _cofactor_rule(g: Any, A: Any, out: Any) -> Any:
    along = total(mul(g, out), (-2, -1), True) * out
    return (along - product(product(out, mt(g)), out)) / unsqueeze(unsqueeze(determinant(A), -1), -1)


@kernel_op(A=_cofactor_rule, name="linalg_cofactors")
def cofactors(A: Any) -> Any:
    """The matrix of cofactors: the gradient of the determinant."""
    return _cofactors(A)


@kernel_op(A=lambda g, A: unsqueeze(unsqueeze(g, -1), -1) * cofactors(A), name="linalg_det")
def determinant(A: Any) -> Any:
    """The determinant."""
    return np.asarray(np.linalg.det(A), A.dtype)


@kernel_op(
    A=lambda gs, A: unsqueeze(unsqueeze(gs[1], -1), -1) * mt(inverted(A)),
    outputs=("sign", "logabsdet"),
    name="linalg_slogdet",
)
def sign_and_log(A: Any) -> Any:
    """The sign of the determinant and the logarithm of its magnitude."""
    sign, logabs = np.linalg.slogdet(A)
    return np.asarray(sign, A.dtype), np.asarray(logabs, A.dtype)


def linalg_det(A: Any, *, out: Any = None) -> Any:
    """The determinant of a square matrix, or of each of a batch."""
    check_square("linalg.det", A)
    return into(determinant(A), out, "linalg.det")


def det(input: Any) -> Any:
    """The determinant of a square matrix, or of each of a batch."""
    return linalg_det(input)


def linalg_slogdet(A: Any, *, out: Any = None) -> Any:
    """(sign, logabsdet) of the determinant; (0, -inf) for a singular matrix."""
    check_square("linalg.slogdet", A)
    return into_all(return_types.linalg_slogdet(*sign_and_log(A)), out, "linalg.slogdet")


def slogdet(input: Any, *, out: Any = None) -> Any:
    """(sign, logabsdet) of the determinant; (0, -inf) for a singular matrix."""
    check_square("slogdet", input)
    return into_all(return_types.slogdet(*sign_and_log(input)), out, "slogdet")


def logdet(input: Any) -> Any:
    """The logarithm of the determinant: NaN if that is negative, -inf if it is zero."""
    check_square("logdet", input)
    sign, logabs = sign_and_log(input)
    return where(sign < 0, float("nan"), logabs)


class SolveMethods:
    """a.inverse(), a.det(), ..."""

    __slots__ = ()

    inverse, cholesky, cholesky_inverse, cholesky_solve = inverse, cholesky, cholesky_inverse, cholesky_solve
    det, logdet, slogdet, triangular_solve = det, logdet, slogdet, triangular_solve
