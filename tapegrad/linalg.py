"""Linear algebra under PyTorch's names: ``tapegrad.linalg.solve(A, B)``.

Everything works on batches of matrices and is differentiable, any number of times where the mathematics
allows it.
"""

from __future__ import annotations

from typing import Any

from . import faces
from .ops.linalg_common import LinAlgError
from .ops.linalg_lu import linalg_lu_solve as lu_solve
from .ops.linalg_lu import lu, lu_factor, lu_factor_ex
from .ops.linalg_measures import (
    cond,
    matrix_exp,
    matrix_norm,
    matrix_power,
    matrix_rank,
    tensorinv,
    tensorsolve,
    vander,
    vecdot,
)
from .ops.linalg_measures import linalg_cross as cross
from .ops.linalg_measures import linalg_norm as norm
from .ops.linalg_solve import cholesky_ex, inv, inv_ex, solve, solve_ex, solve_triangular
from .ops.linalg_solve import linalg_cholesky as cholesky
from .ops.linalg_solve import linalg_det as det
from .ops.linalg_solve import linalg_slogdet as slogdet
from .ops.linalg_spectral import eigh, eigvalsh, lstsq, pinv, svdvals
from .ops.linalg_spectral import linalg_qr as qr
from .ops.linalg_spectral import linalg_svd as svd
from .ops.matmul import matmul
from .ops.products import multi_dot
from .ops.reduce import vector_norm
from .ops.shape import diagonal as _diagonal

__all__ = [
    "LinAlgError", "cholesky", "cholesky_ex", "cond", "cross", "det", "diagonal", "eigh", "eigvalsh", "inv",
    "inv_ex", "lstsq", "lu", "lu_factor", "lu_factor_ex", "lu_solve", "matmul", "matrix_exp", "matrix_norm",
    "matrix_power", "matrix_rank", "multi_dot", "norm", "pinv", "qr", "slogdet", "solve", "solve_ex",
    "solve_triangular", "svd", "svdvals", "tensorinv", "tensorsolve", "vander", "vecdot", "vector_norm",
]  # fmt: skip


def diagonal(A: Any, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Any:
    """A diagonal of matrices, as a view."""
    return _diagonal(A, offset, dim1, dim2)


faces.export(globals(), __all__)
