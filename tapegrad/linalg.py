"""Linear algebra under PyTorch's names: ``tapegrad.linalg.solve(A, B)``.

Everything works on batches of matrices and is differentiable, any number of times where the mathematics
allows it.
"""

from __future__ import annotations

from typing import Any

from .ops.linalg_common import LinAlgError as LinAlgError
from .ops.linalg_lu import lu as lu
from .ops.linalg_lu import lu_factor as lu_factor
from .ops.linalg_lu import lu_factor_ex as lu_factor_ex
from .ops.linalg_measures import cond as cond
from .ops.linalg_measures import matrix_exp as matrix_exp
from .ops.linalg_measures import matrix_norm as matrix_norm
from .ops.linalg_measures import matrix_power as matrix_power
from .ops.linalg_measures import matrix_rank as matrix_rank
from .ops.linalg_measures import tensorinv as tensorinv
from .ops.linalg_measures import tensorsolve as tensorsolve
from .ops.linalg_measures import vander as vander
from .ops.linalg_measures import vecdot as vecdot
from .ops.linalg_solve import cholesky_ex as cholesky_ex
from .ops.linalg_solve import inv as inv
from .ops.linalg_solve import inv_ex as inv_ex
from .ops.linalg_solve import solve as solve
from .ops.linalg_solve import solve_ex as solve_ex
from .ops.linalg_solve import solve_triangular as solve_triangular
from .ops.linalg_spectral import eigh as eigh
from .ops.linalg_spectral import eigvalsh as eigvalsh
from .ops.linalg_spectral import lstsq as lstsq
from .ops.linalg_spectral import pinv as pinv
from .ops.linalg_spectral import svdvals as svdvals
from .ops.matmul import matmul as matmul
from .ops.products import multi_dot as multi_dot
from .ops.reduce import vector_norm as vector_norm
from .ops.shape import diagonal as _diagonal


def diagonal(A: Any, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Any:
    """A diagonal of matrices, as a view."""
    return _diagonal(A, offset, dim1, dim2)
