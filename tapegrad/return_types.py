"""Results with several parts: tuples whose parts also have names, printed as PyTorch prints them."""

from __future__ import annotations

from collections import namedtuple
from typing import Any


class _Printed:
    __slots__ = ()

    def __repr__(self) -> str:
        fields = self._fields  # type: ignore[attr-defined]
        parts = ",\n".join(f"{name}={value!r}" for name, value in zip(fields, self, strict=True))  # type: ignore[call-overload]
        return f"tapegrad.return_types.{type(self).__name__}(\n{parts})"


def _type(name: str, *fields: str) -> Any:
    made = type(name, (_Printed, namedtuple(name, fields)), {"__slots__": ()})
    made.__module__ = __name__
    made.__doc__ = f"Result of {name}: {', '.join(fields)}."
    return made


max = _type("max", "values", "indices")
min = _type("min", "values", "indices")
aminmax = _type("aminmax", "min", "max")
median = _type("median", "values", "indices")
nanmedian = _type("nanmedian", "values", "indices")
kthvalue = _type("kthvalue", "values", "indices")
mode = _type("mode", "values", "indices")
cummax = _type("cummax", "values", "indices")
cummin = _type("cummin", "values", "indices")
sort = _type("sort", "values", "indices")
topk = _type("topk", "values", "indices")
linalg_inv_ex = _type("linalg_inv_ex", "inverse", "info")
linalg_solve_ex = _type("linalg_solve_ex", "result", "info")
linalg_cholesky_ex = _type("linalg_cholesky_ex", "L", "info")
linalg_slogdet = _type("linalg_slogdet", "sign", "logabsdet")
linalg_eigh = _type("linalg_eigh", "eigenvalues", "eigenvectors")
linalg_svd = _type("linalg_svd", "U", "S", "Vh")
linalg_qr = _type("linalg_qr", "Q", "R")
linalg_lstsq = _type("linalg_lstsq", "solution", "residuals", "rank", "singular_values")
linalg_lu = _type("linalg_lu", "P", "L", "U")
linalg_lu_factor = _type("linalg_lu_factor", "LU", "pivots")
linalg_lu_factor_ex = _type("linalg_lu_factor_ex", "LU", "pivots", "info")
lu_unpack = _type("lu_unpack", "P", "L", "U")
qr = _type("qr", "Q", "R")
slogdet = _type("slogdet", "sign", "logabsdet")
svd = _type("svd", "U", "S", "V")
triangular_solve = _type("triangular_solve", "solution", "cloned_coefficient")
