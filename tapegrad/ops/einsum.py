"""Einstein summation and tensordot.

A contraction of two operands becomes one batched matrix product: indices are sorted into those that
both have and the result keeps (batch), those that are summed (inner), and those of one operand
alone. More operands are contracted pair by pair, in an order that keeps intermediates small.
"""

from __future__ import annotations

import importlib
import math
from collections import Counter
from typing import Any

from .. import dtypes
from ..tape import Value
from .arithmetic import mul
from .dims import wrap_dim
from .gemm import bmm_op, mm_op
from .matmul import check_pair, kind_of, require_tensors
from .out import into
from .reduce import sum as total
from .shape import diagonal, expand, permute, reshape, squeeze

__all__ = ["einsum", "tensordot"]

# -- reading the equation ----------------------------------------------------------------------------

# Indices are ints: letters by their code, those of the ellipsis below zero, counted from the last.


def _read(text: str, start: int, where: str) -> list[Any]:
    """Indices of one term; Ellipsis stands for itself."""
    found: list[Any] = []
    j = 0
    while j < len(text):
        c = text[j]
        if c == " ":
            j += 1
        elif c == ".":
            if Ellipsis in found:
                raise RuntimeError(f"einsum(): found '.' for {where} for which an ellipsis was already found")
            if text[j : j + 3] != "...":
                raise RuntimeError(f"einsum(): found '.' for {where} that is not part of any ellipsis")
            found.append(Ellipsis)
            j += 3
        elif c.isascii() and c.isalpha():
            found.append(ord(c))
            j += 1
        else:
            raise RuntimeError(
                f"einsum(): invalid subscript given at index {start + j} in the equation string, subscripts "
                "must be in [a-zA-Z]"
            )
    return found


def _parse(equation: str) -> tuple[list[list[Any]], list[Any] | None]:
    left, arrow, right = equation.partition("->")
    terms, at = [], 0
    for j, term in enumerate(left.split(",")):
        terms.append(_read(term, at, f"operand {j}"))
        at += len(term) + 1
    return terms, _read(right, len(left) + 2, "the output") if arrow else None


def _sublists(args: tuple[Any, ...]) -> tuple[list[list[Any]], list[Any] | None, list[Any]]:
    """The form einsum(a, [0, 1], b, [1, 2], [0, 2])."""
    operands = list(args[0 : len(args) - len(args) % 2 : 2])
    terms = [_sublist(args[j]) for j in range(1, len(args), 2)]
    return terms, _sublist(args[-1]) if len(args) % 2 else None, operands


def _sublist(items: Any) -> list[Any]:
    found = []
    for s in items:
        if s is not Ellipsis and not 0 <= s < 52:
            raise RuntimeError(f"einsum(): expected subscripts to be within range [0, 52), but got {s}")
        found.append(s if s is Ellipsis else (ord("A") + s if s < 26 else ord("a") + s - 26))
    return found


def _name(index: int) -> str:
    return chr(index) if index >= 0 else "..."


def _label(terms: list[list[Any]], operands: list[Any]) -> tuple[list[list[int]], int]:
    """Terms with every dimension named, and how many dimensions the ellipsis stands for."""
    labelled, span = [], 0
    for j, (term, x) in enumerate(zip(terms, operands, strict=True)):
        rank = x._array.ndim
        named = len(term) - (Ellipsis in term)
        if Ellipsis in term:
            if named > rank:
                raise RuntimeError(
                    f"einsum(): the number of subscripts in the equation ({named}) is more than the number "
                    f"of dimensions ({rank}) for operand {j}"
                )
            at, hidden = term.index(Ellipsis), rank - named
            span = max(span, hidden)
            labelled.append([*term[:at], *range(-hidden, 0), *term[at + 1 :]])
        else:
            if named != rank:
                raise RuntimeError(
                    f"einsum(): the number of subscripts in the equation ({named}) does not match the "
                    f"number of dimensions ({rank}) for operand {j} and no ellipsis was given"
                )
            labelled.append(list(term))
    return labelled, span


def _output(result: list[Any] | None, labelled: list[list[int]], span: int) -> list[int]:
    count = Counter(i for term in labelled for i in term)
    if result is None:
        return [*range(-span, 0), *sorted(i for i, n in count.items() if n == 1 and i >= 0)]
    out: list[int] = []
    for i in result:
        if i is Ellipsis:
            out += range(-span, 0)
            continue
        if i in out:
            raise RuntimeError(f"einsum(): output subscript {_name(i)} appears more than once in the output")
        if i not in count:
            raise RuntimeError(
                f"einsum(): output subscript {_name(i)} does not appear in the equation for any input operand"
            )
        out.append(i)
    return out


def _sizes(labelled: list[list[int]], operands: list[Any]) -> dict[int, int]:
    sizes: dict[int, int] = {}
    for j, (term, x) in enumerate(zip(labelled, operands, strict=True)):
        own: dict[int, int] = {}
        for i, n in zip(term, x._array.shape, strict=True):
            if own.setdefault(i, n) != n:
                raise RuntimeError(
                    f"einsum(): subscript {_name(i)} is repeated for operand {j} but the sizes don't match, "
                    f"{n} != {own[i]}"
                )
            have = sizes.setdefault(i, n)
            if have == 1:
                sizes[i] = n
            elif n not in (1, have):
                raise RuntimeError(
                    f"einsum(): subscript {_name(i)} has size {n} for operand {j} which does not broadcast "
                    f"with previously seen size {have}; the operands have shapes "
                    f"{[list(o._array.shape) for o in operands]}"
                )
    return sizes


# -- contracting -------------------------------------------------------------------------------------


def einsum(*args: Any) -> Any:
    """Sums of products by index: ``einsum("ij,jk->ik", a, b)``, or ``einsum(a, [0, 1], b, [1, 2], [0, 2])``.

    Dimensions of size 1 are broadcast, "..." stands for leading dimensions, a repeated index takes the
    diagonal. RuntimeError for an equation that does not fit the operands.
    """
    if len(args) < 2:
        raise ValueError(
            "einsum(): must specify the equation string and at least one operand, or at least one operand "
            "and its subscripts list"
        )
    if isinstance(args[0], str):
        terms, result = _parse(args[0])
        operands = list(args[1]) if len(args) == 2 and isinstance(args[1], (tuple, list)) else list(args[1:])
    else:
        terms, result, operands = _sublists(args)
    for j, x in enumerate(operands):
        if not isinstance(x, Value):
            raise TypeError(
                f"einsum(): expected Tensor as element {j} in argument 1, but got {type(x).__name__}"
            )
    if len(terms) != len(operands):
        more = "fewer" if len(operands) < len(terms) else "more"
        raise RuntimeError(f"einsum(): {more} operands were provided than specified in the equation")
    labelled, span = _label(terms, operands)
    out = _output(result, labelled, span)
    sizes = _sizes(labelled, operands)
    pairs = [_prepared(x, term, sizes) for x, term in zip(operands, labelled, strict=True)]
    if len(operands) > 1:
        _check_dtypes(operands)
    for left, right in _path(args[0], pairs, out, sizes):
        b, a = pairs.pop(right), pairs.pop(left)
        keep = {i for _, term in pairs for i in term} | set(out)
        pairs.append(_contract(a, b, keep, sizes))
    return _arranged(*pairs[0], out, sizes)


def _check_dtypes(operands: list[Any]) -> None:
    for x in operands[1:]:
        if x._array.dtype != operands[0]._array.dtype:
            raise RuntimeError(
                f"einsum(): expected scalar type {kind_of(operands[0])} but found {kind_of(x)}"
            )


def _prepared(x: Any, term: list[int], sizes: dict[int, int]) -> tuple[Any, list[int]]:
    """Repeated indices made diagonals, broadcast dimensions dropped."""
    term = list(term)
    for i in [i for i, n in Counter(term).items() if n > 1]:
        while term.count(i) > 1:
            a = term.index(i)
            b = term.index(i, a + 1)
            x = diagonal(x, 0, a, b)
            term = [t for d, t in enumerate(term) if d not in (a, b)] + [i]
    drop = tuple(d for d, i in enumerate(term) if x._array.shape[d] == 1 and sizes[i] != 1)
    if drop:
        x = squeeze(x, drop)
        term = [i for d, i in enumerate(term) if d not in drop]
    return x, term


def _arranged(x: Any, term: list[int], out: list[int], sizes: dict[int, int]) -> Any:
    """What is left summed, and put in the order of the result."""
    spare = [d for d, i in enumerate(term) if i not in out]
    if spare:
        x = total(x, spare) if x._array.dtype.kind == "f" else total(x, spare, dtype=dtypes.of(x._array))
        term = [i for i in term if i in out]
    missing = [i for i in out if i not in term]  # known by broadcasting alone
    if missing:
        x = expand(x, (*[sizes[i] for i in missing], *x._array.shape))
        term = [*missing, *term]
    order = tuple(term.index(i) for i in out)
    return x if order == tuple(range(len(order))) else permute(x, order)


def _contract(
    left: tuple[Any, list[int]], right: tuple[Any, list[int]], keep: set[int], sizes: dict[int, int]
) -> tuple[Any, list[int]]:
    """Two operands multiplied and summed over the indices that nobody needs any more."""
    (a, ta), (b, tb) = left, right
    a, ta = _summed_alone(a, ta, keep | set(tb))
    b, tb = _summed_alone(b, tb, keep | set(ta))
    batch = [i for i in ta if i in tb and i in keep]
    inner = [i for i in ta if i in tb and i not in keep]
    rows = [i for i in ta if i not in tb]
    columns = [i for i in tb if i not in ta]
    term = [*batch, *rows, *columns]
    if not inner:
        # No sum: an elementwise product of operands that are lined up.
        return mul(_spread(a, ta, term), _spread(b, tb, term)), term

    def size(items: list[int]) -> int:
        return math.prod(sizes[i] for i in items)

    shape = tuple(sizes[i] for i in term)
    check_pair(a, b)
    if not batch:
        # Operands that already lie as a matrix or its transpose are read as they are.
        n = len(inner)
        turned_a = ta[:n] == inner and ta[len(ta) - n :] != inner
        turned_b = tb[:n] != inner
        la = _matrix(a, ta, inner, rows, size) if turned_a else _matrix(a, ta, rows, inner, size)
        lb = _matrix(b, tb, columns, inner, size) if turned_b else _matrix(b, tb, inner, columns, size)
        return reshape(mm_op(la, lb, ta=turned_a, tb=turned_b), shape), term
    nb = size(batch)
    a3 = reshape(_ordered(a, ta, [*batch, *rows, *inner]), (nb, size(rows), size(inner)))
    b3 = reshape(_ordered(b, tb, [*batch, *inner, *columns]), (nb, size(inner), size(columns)))
    return reshape(bmm_op(a3, b3, ta=False, tb=False), shape), term


def _matrix(x: Any, term: list[int], first: list[int], second: list[int], size: Any) -> Any:
    return reshape(_ordered(x, term, [*first, *second]), (size(first), size(second)))


def _ordered(x: Any, term: list[int], order: list[int]) -> Any:
    dims = tuple(term.index(i) for i in order)
    return x if dims == tuple(range(len(dims))) else permute(x, dims)


def _summed_alone(x: Any, term: list[int], keep: set[int]) -> tuple[Any, list[int]]:
    alone = [d for d, i in enumerate(term) if i not in keep]
    if not alone:
        return x, term
    summed = total(x, alone) if x._array.dtype.kind == "f" else total(x, alone, dtype=dtypes.of(x._array))
    return summed, [i for i in term if i in keep]


def _spread(x: Any, term: list[int], order: list[int]) -> Any:
    """Dimensions in a given order, with ones where the operand has none."""
    have = [i for i in order if i in term]
    x = _ordered(x, term, have)
    shape = iter(x._array.shape)
    return reshape(x, tuple(next(shape) if i in term else 1 for i in order))


# -- in which order ----------------------------------------------------------------------------------


def _path(
    equation: Any, pairs: list[tuple[Any, list[int]]], out: list[int], sizes: dict[int, int]
) -> list[tuple[int, int]]:
    """Pairs of positions (left < right) to contract, the result going to the end of the list."""
    terms = [frozenset(term) for _, term in pairs]
    if len(terms) <= 2:
        return [(0, 1)] * (len(terms) - 1)
    found = _library_path(terms, out, sizes)
    return _greedy_path(terms, out, sizes) if found is None else found


def _library_path(
    terms: list[frozenset[int]], out: list[int], sizes: dict[int, int]
) -> list[tuple[int, int]] | None:
    """The order that opt_einsum proposes, if it is installed."""
    try:
        paths = importlib.import_module("opt_einsum.paths")  # there only if the user installed it
    except ImportError:
        return None
    path = paths.auto([set(t) for t in terms], set(out), sizes)
    return [(min(p), max(p)) for p in path] if all(len(p) == 2 for p in path) else None


def _greedy_path(terms: list[frozenset[int]], out: list[int], sizes: dict[int, int]) -> list[tuple[int, int]]:
    """At each step the pair whose result grows least over what it replaces."""

    def volume(term: frozenset[int]) -> int:
        return math.prod(sizes[i] for i in term)

    left, path = list(terms), []
    while len(left) > 1:
        best: tuple[float, float, int, int] | None = None
        for i in range(len(left)):
            for j in range(i + 1, len(left)):
                others = frozenset().union(*(t for k, t in enumerate(left) if k not in (i, j)), out)
                both = left[i] | left[j]
                made = both & others
                score = (volume(made) - volume(left[i]) - volume(left[j]), volume(both), i, j)
                if best is None or score < best:
                    best = score
        assert best is not None
        i, j = best[2:]
        others = frozenset().union(*(t for k, t in enumerate(left) if k not in (i, j)), out)
        made = (left[i] | left[j]) & others
        left = [t for k, t in enumerate(left) if k not in (i, j)] + [made]
        path.append((i, j))
    return path


# -- tensordot ---------------------------------------------------------------------------------------


def tensordot(a: Any, b: Any, dims: Any = 2, out: Any = None) -> Any:
    """Products summed over the last ``dims`` dimensions of a and the first of b, or over pairs of lists."""
    require_tensors("tensordot", a=a, b=b)
    if isinstance(dims, Value):
        dims = dims._array.tolist()
    m, n = a._array.ndim, b._array.ndim
    if isinstance(dims, int):
        if dims < 0:
            raise RuntimeError(f"tensordot expects dims >= 0, but got dims={dims}")
        if dims > min(m, n):
            raise RuntimeError(f"tensordot expects dims < ndim_a or ndim_b, but got dims={dims}")
        given: tuple[list[Any], list[Any]] = (list(range(-dims, 0)), list(range(dims)))
    else:
        if len(dims) != 2:
            raise RuntimeError(
                "tensordot expects dims to be int or tuple[list[int], list[int]] or list[list[int]]"
            )
        first, second = dims
        given = (
            list(first) if isinstance(first, (tuple, list)) else [first],
            list(second) if isinstance(second, (tuple, list)) else [second],
        )
    if len(given[0]) != len(given[1]):
        raise RuntimeError("tensordot: both dimension lists should have same length")
    if a._array.dtype != b._array.dtype:
        raise RuntimeError(
            f"tensordot: both inputs should have same dtype, got {kind_of(a)} and {kind_of(b)}"
        )
    inner_a, inner_b = [wrap_dim(d, m) for d in given[0]], [wrap_dim(d, n) for d in given[1]]
    for d, e, x, y in zip(inner_a, inner_b, *given, strict=True):
        p, q = a._array.shape[d], b._array.shape[e]
        if p == q:
            continue
        if p != 1 and q != 1:
            raise RuntimeError(
                f"tensordot: contracted dimensions need to match, but first has size {p} in dim {x} and "
                f"second has size {q} in dim {y}"
            )
        # Size 1 against n: the sum over the other is all there is to do.
        if p == 1:
            b = total(b, e, True)
        else:
            a = total(a, d, True)
    rows = [d for d in range(m) if d not in inner_a]
    columns = [d for d in range(n) if d not in inner_b]
    if len(set(inner_a)) != len(inner_a) or len(set(inner_b)) != len(inner_b):
        raise RuntimeError(f"tensordot: a dimension appears multiple times in {given}")
    shape = (*[a._array.shape[d] for d in rows], *[b._array.shape[d] for d in columns])
    k = math.prod(a._array.shape[d] for d in inner_a)
    left = reshape(permute(a, (*rows, *inner_a)), (math.prod(a._array.shape[d] for d in rows), k))
    right = reshape(permute(b, (*inner_b, *columns)), (k, math.prod(b._array.shape[d] for d in columns)))
    check_pair(left, right)
    return into(reshape(mm_op(left, right, ta=False, tb=False), shape), out, "tensordot")
