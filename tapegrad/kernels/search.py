"""Binary search in sorted rows, and the order of rows."""

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


@kernel
def order_lanes(x, out, scratch, n, inner, descending, start, stop):
    """out[o, :, j] = the indices that sort x[o, :, j]; equal elements stay in order, NaN is larger than every number

    The range counts pairs of o and j; ``scratch`` holds 2 * n indices for each. Runs are merged, twice as long each time.
    """
    for r in range(start, stop):
        o = r // inner
        base = o * n * inner + r - o * inner
        here, there = 2 * r * n, 2 * r * n + n
        for k in range(n):
            scratch[here + k] = k
        width = 1
        while width < n:
            for left in range(0, n, 2 * width):
                middle, end = min(left + width, n), min(left + 2 * width, n)
                a, b = left, middle
                for k in range(left, end):
                    second = a >= middle
                    if not second and b < end:
                        u, v = x[base + scratch[here + a] * inner], x[base + scratch[here + b] * inner]
                        if descending:
                            second = v > u or (v != v and u == u)
                        else:
                            second = v < u or (u != u and v == v)
                    scratch[there + k] = scratch[here + b] if second else scratch[here + a]
                    if second:
                        b += 1
                    else:
                        a += 1
            here, there = there, here
            width *= 2
        for k in range(n):
            out[base + k * inner] = scratch[here + k]
