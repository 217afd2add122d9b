"""Eigenvalues, singular values, QR, and what is made of them: pseudo-inverse and least squares."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import return_types
from ..kernels.recording import hosted, refuse
from ..op import kernel_op
from .arithmetic import where
from .diagonals import diag_embed, upper
from .linalg_common import (
    LinAlgError,
    check_batches,
    check_matrix,
    check_same_type,
    check_square,
    identity,
    into_all,
    mt,
    quotient,
    tolerance,
)
from .linalg_solve import solved_triangular
from .maths import abs as absolute
from .matmul import product
from .out import into
from .shape import as_indexed, cat, narrow, reshape, squeeze, unsqueeze

__all__ = ["pinverse", "qr", "svd"]

# -- symmetric eigenvalues ---------------------------------------------------------------------------


def _eigh_rule(gs: Any, eigenvalues: Any, eigenvectors: Any) -> Any:
    v, n = eigenvectors, eigenvalues._array.shape[-1]
    apart = unsqueeze(eigenvalues, -2) - unsqueeze(eigenvalues, -1)
    off = 1 - identity(v, n)
    turn = product(mt(v), gs[1])
    inner = quotient((turn - mt(turn)) * off * 0.5, apart) + diag_embed(gs[0])
    return product(product(v, inner), mt(v))


@kernel_op(A=_eigh_rule, outputs=("eigenvalues", "eigenvectors"), name="linalg_eigh")
def symmetric_eigen(A: Any, *, UPLO: Any) -> Any:
    """Eigenvalues, ascending, and orthonormal eigenvectors as columns."""
    try:
        values, vectors = np.linalg.eigh(A, UPLO)
    except np.linalg.LinAlgError as err:
        raise LinAlgError(f"linalg.eigh: The algorithm failed to converge ({err})") from None
    return values, vectors


def _eigh(name: str, A: Any, UPLO: str) -> tuple[Any, Any]:
    check_square(name, A)
    side = str(UPLO).upper()
    if side not in ("L", "U"):
        raise RuntimeError(f"{name}: Expected UPLO argument to be 'L' or 'U', but got {UPLO}")
    values, vectors = symmetric_eigen(A, UPLO=side)
    return values, vectors


def eigh(A: Any, UPLO: str = "L", *, out: Any = None) -> Any:
    """(eigenvalues, eigenvectors) of symmetric matrices, ascending; only the triangle UPLO is read."""
    return into_all(return_types.linalg_eigh(*_eigh("linalg.eigh", A, UPLO)), out, "linalg.eigh")


def eigvalsh(A: Any, UPLO: str = "L", *, out: Any = None) -> Any:
    """The eigenvalues of symmetric matrices, ascending."""
    return into(_eigh("linalg.eigvalsh", A, UPLO)[0], out, "linalg.eigvalsh")


# -- singular values ---------------------------------------------------------------------------------


def _svd_rule(gs: Any, U: Any, S: Any, Vh: Any) -> Any:
    k = S._array.shape[-1]
    u, vh = narrow(U, -1, 0, k), narrow(Vh, -2, 0, k)
    gu, gs_, gvh = narrow(gs[0], -1, 0, k), gs[1], narrow(gs[2], -2, 0, k)
    m, n = u._array.shape[-2], vh._array.shape[-1]
    row, column = unsqueeze(S, -2), unsqueeze(S, -1)
    apart = row * row - column * column
    left, right = product(mt(u), gu), product(vh, mt(gvh))
    inner = quotient(left - mt(left), apart) * row + column * quotient(right - mt(right), apart)
    inner = inner + diag_embed(gs_)
    made = product(u, inner)
    if m > k:
        scaled = quotient(gu, row)
        made = made + scaled - product(u, product(mt(u), scaled))
    made = product(made, vh)
    if n > k:
        scaled = quotient(gvh, column)
        made = made + product(u, scaled - product(product(scaled, mt(vh)), vh))
    return made


@kernel_op(A=_svd_rule, outputs=("U", "S", "Vh"), name="linalg_svd")
def singular_parts(A: Any, *, full: Any) -> Any:
    """U, S, Vh with A = U diag(S) Vh."""
    try:
        u, s, vh = np.linalg.svd(A, full_matrices=full)
    except np.linalg.LinAlgError as err:
        raise LinAlgError(f"linalg.svd: The algorithm failed to converge ({err})") from None
    return u, s, vh


def _check_driver(name: str, driver: Any) -> None:
    if driver is not None:
        raise RuntimeError(
            f"{name}: keyword argument `driver=` is only supported on CUDA inputs, leave it None"
        )


def linalg_svd(A: Any, full_matrices: bool = True, *, driver: Any = None, out: Any = None) -> Any:
    """(U, S, Vh) with A = U diag(S) Vh, singular values descending."""
    check_matrix("linalg.svd", A)
    _check_driver("linalg.svd", driver)
    return into_all(return_types.linalg_svd(*singular_parts(A, full=bool(full_matrices))), out, "linalg.svd")


def svdvals(A: Any, *, driver: Any = None, out: Any = None) -> Any:
    """Singular values, descending."""
    check_matrix("linalg.svdvals", A)
    _check_driver("linalg.svdvals", driver)
    return into(singular_values(A), out, "linalg.svdvals")


def singular_values(A: Any) -> Any:
    """Singular values, with their gradient."""
    if A._source() is None:
        return A._make(_values_alone(A._array))
    return singular_parts(A, full=False)[1]


@hosted
def _values_alone(array: np.ndarray) -> np.ndarray:
    return np.linalg.svd(array, compute_uv=False)


@hosted
def _qr_parts(array: np.ndarray, mode: Any) -> Any:
    return np.linalg.qr(array, mode)


def svd(input: Any, some: bool = True, compute_uv: bool = True, *, out: Any = None) -> Any:
    """(U, S, V) with A = U diag(S) V^T: the old form of linalg.svd."""
    check_matrix("svd", input)
    m, n = input._array.shape[-2:]
    if compute_uv:
        u, s, vh = singular_parts(input, full=not some)
        return into_all(return_types.svd(u, s, mt(vh)), out, "svd")
    batch = input._array.shape[:-2]
    u, v = input.new_zeros((*batch, m, m)), input.new_zeros((*batch, n, n))
    return into_all(return_types.svd(u, singular_values(input), v), out, "svd")


# -- QR ----------------------------------------------------------------------------------------------


def _qr_rule(gs: Any, Q: Any, R: Any) -> Any:
    gq, gr = gs
    inner = upper(product(gr, mt(R)) - product(mt(Q), gq), diagonal=0)
    both = inner + mt(upper(inner, diagonal=1))
    right = gq + product(Q, both)
    return mt(solved_triangular(R, mt(right), is_upper=True, unit=False))


@kernel_op(A=_qr_rule, outputs=("Q", "R"), name="linalg_qr")
def orthogonal_parts(A: Any) -> Any:
    """Q and R of matrices that have at least as many rows as columns; Q has as many columns."""
    q, r = np.linalg.qr(A, "reduced")
    return q, r


def _qr(name: str, A: Any, mode: str) -> tuple[Any, Any]:
    check_matrix(name, A)
    if mode not in ("reduced", "complete", "r"):
        raise RuntimeError(
            f"{name}: qr received unrecognized mode '{mode}' but expected one of 'reduced' (default), 'r', "
            "or 'complete'"
        )
    m, n = A._array.shape[-2:]
    tracked = A._source() is not None
    if tracked and mode == "r":
        raise RuntimeError(
            f"{name}: The derivative depends on Q, which is not computed when mode='r'. Use mode='reduced' "
            "if you are going to require gradients."
        )
    if tracked and mode == "complete" and m > n:
        raise RuntimeError(
            f"{name}: The QR decomposition is not differentiable when mode='complete' and nrows > ncols."
        )
    if mode == "r":
        return A._make(np.empty((0,), A._array.dtype)), A._make(_qr_parts(A._array, "r"))
    if not tracked:
        q, r = _qr_parts(A._array, mode)
        return A._make(q), A._make(r)
    if m >= n:
        q, r = orthogonal_parts(A)
        return q, r
    # A wide matrix is a square one and columns beside it.
    q, r = orthogonal_parts(as_indexed(A, key=(Ellipsis, slice(None), slice(0, m))))
    beside = product(mt(q), as_indexed(A, key=(Ellipsis, slice(None), slice(m, n))))
    return q, cat([r, beside], -1)


def linalg_qr(A: Any, mode: str = "reduced", *, out: Any = None) -> Any:
    """(Q, R) with A = Q R; ``mode`` "reduced", "complete", or "r" (Q stays empty)."""
    return into_all(return_types.linalg_qr(*_qr("linalg.qr", A, mode)), out, "linalg.qr")


def qr(input: Any, some: bool = True, *, out: Any = None) -> Any:
    """(Q, R): the old form of linalg.qr."""
    return into_all(return_types.qr(*_qr("qr", input, "reduced" if some else "complete")), out, "qr")


# -- pseudo-inverse and least squares ----------------------------------------------------------------


def _pseudo_rule(g: Any, A: Any, out: Any) -> Any:
    """The gradient of the pseudo-inverse P, for a rank that does not change (Golub and Pereyra).

    dP = -P dA P + P P^T dA^T (I - A P) + (I - P A) dA^T P^T P
    """
    p, pt, gt = out, mt(out), mt(g)
    inside = product(gt, p)
    rows = product(inside, pt)
    columns = gt - product(inside, A)
    return rows - product(A, product(p, rows)) + product(pt, product(p, columns)) - mt(product(p, inside))


@kernel_op(A=_pseudo_rule, name="linalg_pinv")
def pseudo_inverted(A: Any, *, atol: Any, rtol: Any) -> Any:
    """The Moore-Penrose inverse; singular values at or below the tolerance count as zero."""
    u, s, vh = np.linalg.svd(A, full_matrices=False)
    limit = tolerance("linalg.pinv", s, A.shape, atol, rtol)
    with np.errstate(divide="ignore"):
        inverse = np.where(s > limit[..., None], 1 / s, 0).astype(A.dtype)
    return np.ascontiguousarray(np.matmul(vh.swapaxes(-1, -2) * inverse[..., None, :], u.swapaxes(-1, -2)))


def pinv(
    A: Any, rcond: Any = None, hermitian: bool = False, *, atol: Any = None, rtol: Any = None, out: Any = None
) -> Any:
    """The pseudo-inverse; singular values up to max(atol, rtol * largest) count as zero."""
    name = "linalg.pinv"
    check_matrix(name, A)
    rtol = rcond if rtol is None else rtol
    if not hermitian:
        return into(pseudo_inverted(A, atol=atol, rtol=rtol), out, name)
    check_square(name, A)
    refuse("pinv() of a symmetric matrix")
    values, vectors = symmetric_eigen(A, UPLO="L")
    limit = tolerance(name, np.abs(values._array), A._array.shape, atol, rtol)
    kept = absolute(values) > A._make(np.asarray(limit[..., None], A._array.dtype))
    inverse = where(kept, 1 / where(kept, values, 1.0), 0.0)
    return into(product(vectors * unsqueeze(inverse, -2), mt(vectors)), out, name)


def pinverse(input: Any, rcond: float = 1e-15) -> Any:
    """linalg.pinv with the relative tolerance ``rcond``."""
    return pinv(input, rtol=rcond)


_DRIVERS = ("gels", "gelsy", "gelsd", "gelss")


def lstsq(A: Any, B: Any, rcond: Any = None, *, driver: str | None = None) -> Any:
    """(solution, residuals, rank, singular_values): X that makes A X - B smallest.

    As in LAPACK, the driver decides what else comes out: "gelsy" (the default) the rank, "gelsd" and "gelss"
    also singular values and, for tall matrices of full rank, residuals; "gels" residuals.
    """
    name = "linalg.lstsq"
    check_matrix(name, A)
    if not B._array.ndim:
        raise RuntimeError(f"{name}: other must have at least 1 dimension")
    check_same_type(name, A, B)
    driver = "gelsy" if driver is None else driver
    if driver not in _DRIVERS:
        raise RuntimeError(f"{name}: parameter `driver` should be one of {_DRIVERS}, got {driver!r}")
    a, b = A._array.shape, B._array.shape
    vector = len(a) - 1 == len(b) and b == a[:-1]
    right = unsqueeze(B, -1) if vector else B
    b = right._array.shape
    if len(b) < 2 or b[-2] != a[-2]:
        raise RuntimeError(
            f"{name}: input.size(-2) should match other.size(-{1 if vector else 2}): {list(a)} and {list(b)}"
        )
    check_batches(name, a, b)
    refuse("lstsq()")
    s = np.linalg.svd(A._array, compute_uv=False)
    limit = tolerance(name, s, a, None, 0.0 if driver == "gels" else rcond)
    rank = (s > limit[..., None]).sum(-1)
    if A._array.size:
        made = product(pseudo_inverted(A, atol=None, rtol=0.0 if driver == "gels" else rcond), right)
    else:
        made = right.new_zeros((*b[:-2], a[-1], b[-1]))
    residuals = _residuals(A, right, made, rank) if driver != "gelsy" else None
    if residuals is None:  # empty, but on record like PyTorch's
        residuals = as_indexed(reshape(made, (made._array.size,)), key=(slice(0, 0),))
    empty = A._make(np.empty((0,), A._array.dtype))
    return return_types.linalg_lstsq(
        squeeze(made, -1) if vector else made,
        residuals,
        A._make(np.empty((0,), np.int64) if driver == "gels" else np.asarray(rank, np.int64)),
        A._make(s) if driver in ("gelsd", "gelss") else empty,
    )


def _residuals(A: Any, B: Any, X: Any, rank: np.ndarray) -> Any:
    m, n = A._array.shape[-2:]
    if m <= n or not (rank == n).all():
        return None
    return ((product(A, X) - B) ** 2).sum(-2)


class SpectralMethods:
    """a.svd(), a.qr(), ..."""

    __slots__ = ()

    svd, qr, pinverse = svd, qr, pinverse
