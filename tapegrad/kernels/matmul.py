"""What goes with a matrix product and is not one; the product itself is BLAS's."""

from __future__ import annotations

from .jit import kernel


@kernel
def add_rows(out, row, n, start, stop):
    """out[r, j] += row[j]; the range counts rows of n"""
    for r in range(start, stop):
        base = r * n
        for j in range(n):
            out[base + j] += row[j]
