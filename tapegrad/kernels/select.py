"""The few largest or smallest elements of rows, in order, in one pass over each row."""

from __future__ import annotations

from .jit import device, kernel


def _select(name, before):
    better = device(before)

    def select(x, values, places, n, k, start, stop):
        """values[r], places[r] = the first k of x[r, :n] in order; of equal ones the earlier; the range counts rows"""
        for r in range(start, stop):
            at = r * k
            have = 0
            for i in range(n):
                v = x[r * n + i]
                # Nearly all elements of a long row end here.
                if have == k and not better(v, values[at + k - 1]):
                    continue
                j = min(have, k - 1)
                while j > 0 and better(v, values[at + j - 1]):
                    values[at + j] = values[at + j - 1]
                    places[at + j] = places[at + j - 1]
                    j -= 1
                values[at + j] = v
                places[at + j] = i
                have = min(have + 1, k)

    select.__name__ = name
    return kernel(select)


# NaN counts as larger than every number.
largest = _select("select_largest", lambda a, b: a > b or (a != a and b == b))
smallest = _select("select_smallest", lambda a, b: a < b or (a == a and b != b))
