"""Binary search in sorted rows."""

from __future__ import annotations

from .jit import kernel


@kernel
def search_rows(rows, values, out, n, m, shared, right, start, stop):
    """out[r, j] = first place in rows[r] (rows[0] if shared) not below values[r, j] (``right``: above it)"""
    for i in range(start, stop):
        base = 0 if shared else i // m * n
        v = values[i]
        low, high = 0, n
        while low < high:
            middle = (low + high) // 2
            x = rows[base + middle]
            # Written so that a NaN counts as larger than every number.
            if (not x > v and (x == x or v != v)) if right else (not x >= v and (x == x or v != v)):
                low = middle + 1
            else:
                high = middle
        out[i] = low
