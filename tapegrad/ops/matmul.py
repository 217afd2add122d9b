"""PyTorch's products of matrices and vectors, and the linear layer's function."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..blas import ALONE
from ..kernels.recording import active
from ..modes import modes, paused
from ..results import Result, constant, share
from ..tape import LEAF, Value, record
from .arithmetic import mul
from .gemm import (
    BLAS,
    LITTLE,
    affine,
    bmm_op,
    dot_op,
    mm_op,
    multiplied,
    mv_op,
    outer_op,
    rows_op,
)
from .out import into
from .shape import squeeze, unsqueeze

__all__ = ["bmm", "dot", "ger", "matmul", "mm", "mv", "outer", "vdot"]

_KINDS = {
    "f": "float",
    "d": "double",
    "e": "c10::Half",
    "l": "long int",
    "i": "int",
    "h": "short int",
    "b": "signed char",
}
_KINDS.update({"B": "unsigned char", "?": "bool"})
_NAMES = {
    "f": "Float",
    "d": "Double",
    "e": "Half",
    "l": "Long",
    "i": "Int",
    "h": "Short",
    "b": "Char",
    "B": "Byte",
    "?": "Bool",
}


def require_tensors(name: str, **given: Any) -> None:
    """TypeError for the first argument that is not a tensor."""
    for position, (key, value) in enumerate(given.items()):
        if not isinstance(value, Value):
            raise TypeError(
                f"{name}(): argument '{key}' (position {position + 1}) must be Tensor, not "
                f"{type(value).__name__}"
            )


def kind_of(x: Any) -> str:
    """The dtype as PyTorch's messages write it, e.g. "Float"."""
    return _NAMES[x._array.dtype.char]


def check_pair(a: Any, b: Any) -> None:
    """RuntimeError unless two tensors have one dtype, and one that can be multiplied."""
    have, other = a._array.dtype, b._array.dtype
    if have is not other and have != other:
        raise RuntimeError(
            f"expected m1 and m2 to have the same dtype, but got: {_KINDS[have.char]} != "
            f"{_KINDS[other.char]}; convert one of them with .to(dtype)"
        )
    if have.char == "?":
        raise NotImplementedError("\"addmm_impl_cpu_\" not implemented for 'Bool'; convert with .to(dtype)")


def _by(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape))


def check_inner(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    """RuntimeError unless all rows of the first shape and a matrix of the second can be multiplied."""
    if a[-1] != b[0]:
        rows = (math.prod(a[:-1]), a[-1])
        raise RuntimeError(f"mat1 and mat2 shapes cannot be multiplied ({_by(rows)} and {_by(b)})")


def mm(input: Any, mat2: Any, *, out: Any = None) -> Any:
    """The product of two matrices (n, m) and (m, p); RuntimeError for other ranks, sizes or dtypes."""
    require_tensors("mm", input=input, mat2=mat2)
    if input._array.ndim != 2:
        raise RuntimeError(
            f"self must be a matrix, got {input._array.ndim} dimensions; use matmul() for other ranks"
        )
    if mat2._array.ndim != 2:
        raise RuntimeError(
            f"mat2 must be a matrix, got {mat2._array.ndim} dimensions; use matmul() for other ranks"
        )
    check_inner(input._array.shape, mat2._array.shape)
    check_pair(input, mat2)
    return into(mm_op(input, mat2, ta=False, tb=False), out, "mm")


def check_batches(batch1: Any, batch2: Any) -> None:
    """RuntimeError unless two (b, n, m) and (b, m, p) can be multiplied matrix by matrix."""
    for name, x in (("batch1", batch1), ("batch2", batch2)):
        if x._array.ndim != 3:
            raise RuntimeError(f"{name} must be a 3D tensor, got {x._array.ndim} dimensions")
    a, b = batch1._array.shape, batch2._array.shape
    if b[:2] != (a[0], a[2]):
        raise RuntimeError(
            f"Expected size for first two dimensions of batch2 tensor to be: [{a[0]}, {a[2]}] but got: "
            f"[{b[0]}, {b[1]}]."
        )
    if batch1._array.dtype != batch2._array.dtype:
        raise RuntimeError(f"expected scalar type {kind_of(batch1)} but found {kind_of(batch2)}")


def bmm(input: Any, mat2: Any, *, out: Any = None) -> Any:
    """Matrix by matrix, (b, n, m) and (b, m, p); RuntimeError for other ranks, sizes or dtypes."""
    require_tensors("bmm", input=input, mat2=mat2)
    check_batches(input, mat2)
    check_pair(input, mat2)
    return into(bmm_op(input, mat2, ta=False, tb=False), out, "bmm")


def mv(input: Any, vec: Any, *, out: Any = None) -> Any:
    """A matrix (n, m) times a vector (m,)."""
    require_tensors("mv", input=input, vec=vec)
    a, x = input._array, vec._array
    if a.ndim != 2 or x.ndim != 1:
        raise RuntimeError(f"vector + matrix @ vector expected, got 1, {a.ndim}, {x.ndim}")
    if a.shape[1] != x.shape[0]:
        raise RuntimeError(
            f"size mismatch, got input ({a.shape[0]}), mat ({_by(a.shape)}), vec ({x.shape[0]})"
        )
    check_pair(input, vec)
    return into(mv_op(input, vec, ta=False), out, "mv")


def dot(input: Any, tensor: Any, *, out: Any = None) -> Any:
    """The sum of the products of two vectors of one size and dtype."""
    require_tensors("dot", input=input, tensor=tensor)
    x, y = input._array, tensor._array
    if x.ndim != 1 or y.ndim != 1:
        raise RuntimeError(f"1D tensors expected, but got {x.ndim}D and {y.ndim}D tensors")
    if x.dtype != y.dtype:
        raise RuntimeError(
            f"dot : expected both vectors to have same dtype, but found {kind_of(input)} and "
            f"{kind_of(tensor)}"
        )
    if x.size != y.size:
        raise RuntimeError(
            f"inconsistent tensor size, expected tensor [{x.size}] and src [{y.size}] to have the same "
            f"number of elements, but got {x.size} and {y.size} elements respectively"
        )
    if x.dtype.char == "?":
        raise NotImplementedError("\"dot\" not implemented for 'Bool'; convert with .to(dtype)")
    return into(dot_op(input, tensor), out, "dot")


vdot = dot  # all tensors are real


def outer(input: Any, vec2: Any, *, out: Any = None) -> Any:
    """All products of the elements of two vectors, as a matrix; dtypes are promoted."""
    require_tensors("outer", input=input, vec2=vec2)
    for name, x in (("self", input), ("vec2", vec2)):
        if x._array.ndim != 1:
            raise RuntimeError(f"outer: Expected 1-D argument {name}, but got {x._array.ndim}-D")
    if input._array.dtype.char in BLAS and input._array.dtype == vec2._array.dtype:
        return into(outer_op(input, vec2), out, "outer")
    return into(mul(unsqueeze(input, 1), vec2), out, "outer")


ger = outer


def matmul(input: Any, other: Any, *, out: Any = None) -> Any:
    """The matrix product: of matrices, of a matrix and a vector, of vectors, and of stacks that broadcast.

    RuntimeError if inner sizes, dtypes or leading dimensions do not fit, or for a 0-d operand.
    """
    if not isinstance(input, Value) or not isinstance(other, Value):
        require_tensors("matmul", input=input, other=other)
    result = _operator(input, other)
    return result if out is None else into(result, out, "matmul")


def product(input: Any, other: Any) -> Any:
    """matmul of two tensors."""
    a, b = input._array, other._array
    m, n = a.ndim, b.ndim
    if m == 2 and n == 2:
        if a.shape[1] != b.shape[0]:
            check_inner(a.shape, b.shape)
        if a.dtype is not b.dtype or a.dtype.char == "?":
            check_pair(input, other)
        return mm_op(input, other, ta=False, tb=False)
    if not m or not n:
        raise RuntimeError(
            f"both arguments to matmul need to be at least 1D, but they are {m}D and {n}D; use * for numbers"
        )
    if m == 1 and n == 1:
        return dot(input, other)
    if n == 1:
        if m == 2:
            return mv(input, other)
        return squeeze(product(input, unsqueeze(other, 1)), -1)
    if m == 1 and n == 2:
        check_inner((1, *a.shape), b.shape)
        check_pair(input, other)
        return mv_op(other, input, ta=True)
    if n == 2:
        check_inner(a.shape, b.shape)
        check_pair(input, other)
        return rows_op(input, other, tw=False)
    if m == 1:
        return squeeze(product(unsqueeze(input, 0), other), -2)
    return _broadcast_product(input, other)


def _broadcast_product(input: Any, other: Any) -> Any:
    a, b = input._array.shape, other._array.shape
    for d in range(3, min(len(a), len(b)) + 1):
        if a[-d] != b[-d] and 1 not in (a[-d], b[-d]):
            raise RuntimeError(
                f"matmul: The size of tensor a ({a[-d]}) must match the size of tensor b ({b[-d]}) at "
                f"non-singleton dimension {max(len(a), len(b)) - d}; the shapes are {list(a)} and {list(b)}"
            )
    if a[-1] != b[-2]:
        size = math.prod(np.broadcast_shapes(a[:-2], b[:-2]))
        raise RuntimeError(
            f"Expected size for first two dimensions of batch2 tensor to be: [{size}, {a[-1]}] but got: "
            f"[{size}, {b[-2]}]. matmul was given shapes {list(a)} and {list(b)}."
        )
    check_pair(input, other)
    return bmm_op(input, other, ta=False, tb=False)


def linear(input: Any, weight: Any, bias: Any = None) -> Any:
    """input @ weight.T + bias: (*, in) with weight (out, in) and bias (out,) gives (*, out).

    A weight (in,) gives (*). RuntimeError if sizes or dtypes do not fit.
    """
    try:
        x, w = input._array, weight._array
    except AttributeError:
        require_tensors("linear", input=input, weight=weight)
        raise
    if w.ndim != 2 or not x.ndim:
        return _odd_linear(input, weight, bias)
    if x.shape[-1] != w.shape[1]:
        rows = (math.prod(x.shape[:-1]), x.shape[-1])
        raise RuntimeError(
            f"linear: mat1 and mat2 shapes cannot be multiplied ({_by(rows)} and {w.shape[1]}x{w.shape[0]})"
        )
    if x.dtype is not w.dtype or x.dtype.char == "?":
        check_pair(input, weight)
    if bias is None:
        return rows_op(input, weight, tw=True)
    c = bias._array
    if c.dtype is not x.dtype and c.dtype != x.dtype:
        raise RuntimeError(
            f"linear: self and mat2 must have the same dtype, but got {kind_of(bias)} and {kind_of(input)}"
        )
    if c.shape != (w.shape[0],):
        check_expands(c.shape, (*x.shape[:-1], w.shape[0]), "linear")
        if c.ndim > 1:  # its rows would not line up with the folded input
            return rows_op(input, weight, tw=True) + bias
    return affine(input, weight, bias, transposed=True)


def _odd_linear(input: Any, weight: Any, bias: Any) -> Any:
    if not input._array.ndim or weight._array.ndim != 1:
        raise RuntimeError(
            "linear: both arguments to linear need to be at least 1D and the weight at most 2D, but they "
            f"are {input._array.ndim}D and {weight._array.ndim}D"
        )
    made = product(input, weight)
    return made if bias is None else made + bias


def check_expands(have: tuple[int, ...], want: tuple[int, ...], name: str) -> None:
    """RuntimeError unless a tensor of one shape can be expanded to another."""
    lead = len(want) - len(have)
    if lead < 0:
        raise RuntimeError(
            f"{name}: the number of sizes provided ({len(want)}) must be greater or equal to the number of "
            f"dimensions in the tensor ({len(have)}): {list(have)} cannot be expanded to {list(want)}"
        )
    for d, n in enumerate(have):
        if n not in (1, want[lead + d]):
            raise RuntimeError(
                f"{name}: The expanded size of the tensor ({want[lead + d]}) must match the existing size "
                f"({n}) at non-singleton dimension {lead + d}.  Target sizes: {list(want)}.  Tensor sizes: "
                f"{list(have)}"
            )


_PLAIN = {"ta": False, "tb": False}
share(globals())  # keeps Result and constant up to date


def _operator(self: Any, other: Any) -> Any:
    """self @ other: :func:`product`, written out for matrices, since a call costs as much as a small product.

    Each attribute of an array that is asked for costs a twentieth of a product of 16 by 16.
    """
    if type(other) is not Result and not isinstance(other, Value):
        return NotImplemented
    x, y = self._array, other._array
    char = self._char
    little = ALONE
    if not char or char is not other._char:  # not both contiguous, or of two dtypes
        if x.dtype is not y.dtype:
            return product(self, other)
        if char:
            little = LITTLE - 1
        else:
            char = x.dtype.char
    if char not in BLAS or active or x.ndim != 2:
        return product(self, other)
    try:
        k, n = y.shape
        if x.size * n <= little:
            made = x.dot(y)
        elif x.shape[1] == k:
            made = multiplied(x, y)
        else:
            return product(self, other)
    except ValueError:  # sizes that do not fit, which NumPy notices, or another rank
        return product(self, other)
    result = constant(made, char)
    view, other_view = self._view, other._view
    node = self._node if view is None or view.base._node is view.seen else self._source()
    other_node = (
        other._node if other_view is None or other_view.base._node is other_view.seen else other._source()
    )
    if (node is None and other_node is None) or (paused and not modes.grad):
        return result
    if node is LEAF:
        node = self
    if other_node is LEAF:
        other_node = other
    # Each gradient takes the other factor.
    saved = (x if other_node is not None else None, y if node is not None else None)
    version, other_version = self._version, other._version
    stamps = (
        *((version, version[0]) if other_node is not None else (None, 0)),
        *((other_version, other_version[0]) if node is not None else (None, 0)),
    )
    meta = ((made.shape, made.dtype),)
    edges, indices = (node, other_node), (self._index, other._index)
    result._node = record(mm_op, edges, indices, saved, stamps, _PLAIN, meta)
    return result


def _reflected(self: Any, other: Any) -> Any:
    if not isinstance(other, Value):
        return NotImplemented
    return product(other, self)


class MatmulMethods:
    """a @ b, a.mm(b), ..."""

    __slots__ = ()

    __matmul__ = _operator
    __rmatmul__ = _reflected
    matmul, mm, bmm, mv, dot, vdot, outer, ger = matmul, mm, bmm, mv, dot, dot, outer, outer
