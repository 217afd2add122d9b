"""Products made of products: sums with a product, chains, Kronecker, trace."""

from __future__ import annotations

import itertools
import math
from typing import Any

from .. import dtypes
from . import convert
from .arithmetic import mul, plus
from .gemm import affine, bmm_op, mm_op
from .matmul import (
    check_batches,
    check_expands,
    check_inner,
    check_pair,
    kind_of,
    mm,
    mv,
    outer,
    product,
    require_tensors,
)
from .out import into
from .reduce import sum as total
from .shape import diagonal, reshape, squeeze, transpose, unsqueeze

__all__ = ["addbmm", "addmm", "addmv", "addr", "baddbmm", "chain_matmul", "inner", "kron", "trace"]

# -- a sum with a product ----------------------------------------------------------------------------


def _scaled(x: Any, factor: Any) -> Any:
    if factor == 1:
        return x
    if x._array.dtype.kind != "f":
        return mul(x, int(factor))
    if factor == 0:
        return convert.filled(x, None, number=0)  # what is left out must not bring NaN in
    return mul(x, factor)


def _check_dtypes(name: str, input: Any, other: Any) -> None:
    if input._array.dtype != other._array.dtype:
        raise RuntimeError(
            f"{name}: self and mat2 must have the same dtype, but got {kind_of(input)} and {kind_of(other)}; "
            "convert one of them with .to(dtype)"
        )


def _plus(input: Any, beta: Any, made: Any, alpha: Any, name: str) -> Any:
    check_expands(input._array.shape, made._array.shape, name)
    _check_dtypes(name, input, made)
    made = _scaled(made, alpha)
    return plus(_scaled(input, beta), made)


def addmm(input: Any, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1, out: Any = None) -> Any:
    """beta * input + alpha * (mat1 @ mat2); input is broadcast to the product, and not read if beta is 0."""
    require_tensors("addmm", input=input, mat1=mat1, mat2=mat2)
    for name, x in (("mat1", mat1), ("mat2", mat2)):
        if x._array.ndim != 2:
            raise RuntimeError(f"{name} must be a matrix, got {x._array.ndim}-D tensor")
    check_inner(mat1._array.shape, mat2._array.shape)
    check_pair(mat1, mat2)
    shape = (mat1._array.shape[0], mat2._array.shape[1])
    if beta == 1 and alpha == 1:
        check_expands(input._array.shape, shape, "addmm")
        _check_dtypes("addmm", input, mat2)
        return into(affine(mat1, mat2, input, transposed=False), out, "addmm")
    return into(_plus(input, beta, mm_op(mat1, mat2, ta=False, tb=False), alpha, "addmm"), out, "addmm")


def addmv(input: Any, mat: Any, vec: Any, *, beta: Any = 1, alpha: Any = 1, out: Any = None) -> Any:
    """beta * input + alpha * (mat @ vec)."""
    require_tensors("addmv", input=input, mat=mat, vec=vec)
    if input._array.ndim > 1:
        raise RuntimeError(
            f"vector + matrix @ vector expected, got {input._array.ndim}, {mat._array.ndim}, "
            f"{vec._array.ndim}"
        )
    return into(_plus(input, beta, mv(mat, vec), alpha, "addmv"), out, "addmv")


def addr(input: Any, vec1: Any, vec2: Any, *, beta: Any = 1, alpha: Any = 1, out: Any = None) -> Any:
    """beta * input + alpha * outer(vec1, vec2); dtypes are promoted."""
    require_tensors("addr", input=input, vec1=vec1, vec2=vec2)
    for position, x in ((1, vec1), (2, vec2)):
        if x._array.ndim != 1:
            raise RuntimeError(f"addr: Expected 1-D argument vec{position}, but got {x._array.ndim}-D")
    to = dtypes.result_type([input, vec1, vec2])
    if not to.is_floating_point:
        for name, factor in (("beta", beta), ("alpha", alpha)):
            if isinstance(factor, float):
                raise RuntimeError(
                    f"For integral input tensors, argument {name} must not be a floating point number."
                )
    made = outer(vec1, vec2).to(to)
    return into(_plus(input.to(to), beta, made, alpha, "addr"), out, "addr")


def baddbmm(input: Any, batch1: Any, batch2: Any, *, beta: Any = 1, alpha: Any = 1, out: Any = None) -> Any:
    """beta * input + alpha * (batch1 @ batch2), matrix by matrix; input is broadcast."""
    require_tensors("baddbmm", input=input, batch1=batch1, batch2=batch2)
    check_batches(batch1, batch2)
    check_pair(batch1, batch2)
    made = bmm_op(batch1, batch2, ta=False, tb=False)
    return into(_plus(input, beta, made, alpha, "baddbmm"), out, "baddbmm")


def addbmm(input: Any, batch1: Any, batch2: Any, *, beta: Any = 1, alpha: Any = 1, out: Any = None) -> Any:
    """beta * input + alpha * the sum over all matrices of (batch1 @ batch2)."""
    require_tensors("addbmm", input=input, batch1=batch1, batch2=batch2)
    check_batches(batch1, batch2)
    check_pair(batch1, batch2)
    b, n, m = batch1._array.shape
    # The sum over the batch is one more inner dimension.
    left = reshape(transpose(batch1, 0, 1), (n, b * m))
    made = mm_op(left, reshape(batch2, (b * m, batch2._array.shape[2])), ta=False, tb=False)
    return into(_plus(input, beta, made, alpha, "addbmm"), out, "addbmm")


# -- other products ----------------------------------------------------------------------------------


def inner(input: Any, other: Any, *, out: Any = None) -> Any:
    """Sums of products along the last dimension of both; a 0-d operand is a factor."""
    require_tensors("inner", input=input, other=other)
    a, b = input._array, other._array
    if not a.ndim or not b.ndim:
        return into(mul(input, other), out, "inner")
    if a.shape[-1] != b.shape[-1]:
        raise RuntimeError(
            f"inner() the last dimension must match on both input tensors but got shapes {list(a.shape)} "
            f"and {list(b.shape)}"
        )
    if a.dtype != b.dtype:
        raise RuntimeError(
            f"inner(): both inputs should have same dtype, got {kind_of(input)} and {kind_of(other)}"
        )
    if a.ndim == 1 and b.ndim == 1:
        return into(product(input, other), out, "inner")
    left = reshape(input, (math.prod(a.shape[:-1]), a.shape[-1]))
    right = reshape(other, (math.prod(b.shape[:-1]), b.shape[-1]))
    check_pair(left, right)
    made = mm_op(left, right, ta=False, tb=True)
    return into(reshape(made, (*a.shape[:-1], *b.shape[:-1])), out, "inner")


def kron(input: Any, other: Any, *, out: Any = None) -> Any:
    """The Kronecker product: every element of input times the whole of other."""
    require_tensors("kron", input=input, other=other)
    a, b = input._array.shape, other._array.shape
    rank = max(len(a), len(b))
    a, b = (1,) * (rank - len(a)) + a, (1,) * (rank - len(b)) + b
    left = reshape(input, tuple(n for x in a for n in (x, 1)))
    right = reshape(other, tuple(n for x in b for n in (1, x)))
    return into(reshape(mul(left, right), tuple(x * y for x, y in zip(a, b, strict=True))), out, "kron")


def trace(input: Any) -> Any:
    """The sum of the diagonal of a matrix; integers add up in int64."""
    require_tensors("trace", input=input)
    if input._array.ndim != 2:
        raise RuntimeError(f"trace: expected a matrix, but got tensor with dim {input._array.ndim}")
    return total(diagonal(input))


# -- chains ------------------------------------------------------------------------------------------


def chain_matmul(*matrices: Any, out: Any = None) -> Any:
    """The product of matrices, multiplied in the order that costs least."""
    for x in matrices:
        require_tensors("chain_matmul", matrices=x)
        if x._array.ndim != 2:
            raise RuntimeError(f"chain_matmul: Tensor dimension is {x._array.ndim}, expected 2 instead.")
    if not matrices:
        raise RuntimeError("chain_matmul(): Expected one or more matrices")
    return into(matrices[0] if len(matrices) == 1 else _chained(list(matrices)), out, "chain_matmul")


def multi_dot(tensors: Any, *, out: Any = None) -> Any:
    """The product of matrices in the order that costs least; the first and last may be vectors."""
    items = list(tensors)
    for x in items:
        require_tensors("multi_dot", tensors=x)
    if len(items) < 2:
        raise RuntimeError(f"multi_dot(): expected at least 2 tensors but got {len(items)}")
    for j, x in enumerate(items):
        at_end = j in (0, len(items) - 1)
        rank = x._array.ndim
        if rank != 2 and not (rank == 1 and at_end):
            wanted = "1D or 2D" if at_end else "2D"
            raise RuntimeError(f"multi_dot(): tensor {j} must be {wanted} but got {rank}D")
        if x._array.dtype != items[0]._array.dtype:
            raise RuntimeError(
                f"multi_dot(): all tensors must have be the same dtype, tensor {j} is {kind_of(x)}, tensor "
                f"0 {kind_of(items[0])}"
            )
    for j, (x, y) in enumerate(itertools.pairwise(items)):
        if x._array.shape[-1] != y._array.shape[0]:
            raise RuntimeError(
                f"multi_dot(): tensors {j} and {j + 1} with shapes {list(x._array.shape)} and "
                f"{list(y._array.shape)} cannot be multiplied"
            )
    row, column = items[0]._array.ndim == 1, items[-1]._array.ndim == 1
    if row:
        items[0] = unsqueeze(items[0], 0)
    if column:
        items[-1] = unsqueeze(items[-1], 1)
    made = _chained(items)
    if column:
        made = squeeze(made, 1)
    if row:
        made = squeeze(made, 0)
    return into(made, out, "multi_dot")


def _chained(items: list[Any]) -> Any:
    sizes = [items[0]._array.shape[0], *(x._array.shape[1] for x in items)]
    cuts = _cheapest(sizes)

    def multiply(i: int, j: int) -> Any:
        if i == j:
            return items[i]
        k = cuts[i][j]
        return mm(multiply(i, k), multiply(k + 1, j))

    return multiply(0, len(items) - 1)


def _cheapest(sizes: list[int]) -> list[list[int]]:
    """cuts[i][j]: after which factor to split the product of factors i to j for the fewest operations."""
    n = len(sizes) - 1
    cost = [[0.0] * n for _ in range(n)]
    cuts = [[0] * n for _ in range(n)]
    for length in range(1, n):
        for i in range(n - length):
            j = i + length
            cost[i][j] = math.inf
            for k in range(i, j):
                c = cost[i][k] + cost[k + 1][j] + sizes[i] * sizes[k + 1] * sizes[j + 1]
                if c < cost[i][j]:
                    cost[i][j], cuts[i][j] = c, k
    return cuts


class ProductMethods:
    """a.addmm(b, c), a.trace(), ..."""

    __slots__ = ()

    addmm, addmv, addr, addbmm, baddbmm = addmm, addmv, addr, addbmm, baddbmm
    inner, kron, trace = inner, kron, trace

    def addmm_(self, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
        """In place: beta * self + alpha * (mat1 @ mat2)."""
        return self.copy_(addmm(self, mat1, mat2, beta=beta, alpha=alpha))  # type: ignore[attr-defined]

    def addmv_(self, mat: Any, vec: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
        """In place: beta * self + alpha * (mat @ vec)."""
        return self.copy_(addmv(self, mat, vec, beta=beta, alpha=alpha))  # type: ignore[attr-defined]

    def addr_(self, vec1: Any, vec2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
        """In place: beta * self + alpha * outer(vec1, vec2)."""
        return self.copy_(addr(self, vec1, vec2, beta=beta, alpha=alpha))  # type: ignore[attr-defined]

    def addbmm_(self, batch1: Any, batch2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
        """In place: beta * self + alpha * the sum over all matrices of (batch1 @ batch2)."""
        return self.copy_(addbmm(self, batch1, batch2, beta=beta, alpha=alpha))  # type: ignore[attr-defined]

    def baddbmm_(self, batch1: Any, batch2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
        """In place: beta * self + alpha * (batch1 @ batch2), matrix by matrix."""
        return self.copy_(baddbmm(self, batch1, batch2, beta=beta, alpha=alpha))  # type: ignore[attr-defined]
