"""The largest and smallest elements and where they are: max, min, amax, amin, aminmax, argmax, argmin."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import kernels, return_types
from ..derive import Expr
from ..fastpath import elementwise
from ..kernels.arrays import cast, contiguous
from ..kernels.formula import Scalar
from ..op import KernelOp, kernel_op
from ..tape import Value
from .along import add_along
from .arithmetic import div, maximum, minimum, where
from .axes import kept, lane, numpy_names, spread, widened
from .dims import refuse_bools, wrap_dim
from .out import into
from .reduce import sum as total
from .reducing import ReduceOp, plan, reduce_array, reduce_op

__all__ = ["amax", "amin", "aminmax", "argmax", "argmin", "max", "min"]

# -- values --------------------------------------------------------------------------------------------


@elementwise(kind="compare")
def meets(input: Any, other: Any) -> Any:
    """Whether two numbers are the same; a NaN is the same as a NaN."""
    return (input == other) | ((input != input) & (other != other))


def shared(g: Any, x: Any, out: Any, dims: tuple[int, ...]) -> Any:
    """The cotangent of an extremum, shared by all elements that reach it."""
    shape = x._array.shape
    winners = meets(x, kept(out, shape, dims))
    return where(winners, spread(div(kept(g, shape, dims), total(winners, dims, True)), shape, dims), 0.0)


def _extremum(which: str) -> Any:
    def forward(x: np.ndarray, *, dims: Any, shape: Any) -> np.ndarray:
        """The extremum over dims; NaN if there is one."""
        if not x.size:
            return np.empty(shape, x.dtype)
        reduction = kernels.reduce.LARGEST if which == "max" else kernels.reduce.SMALLEST
        return reduce_array(reduction, x, dims, shape, x.dtype)

    return forward


_RULE = {"x": shared}
largest = ReduceOp(_extremum("max"), _RULE, "MaxBackward1", "max", native=True)
smallest = ReduceOp(_extremum("min"), _RULE, "MinBackward1", "min", native=True)
largest_over = ReduceOp(_extremum("max"), _RULE, "AmaxBackward0", "amax", native=True)
smallest_over = ReduceOp(_extremum("min"), _RULE, "AminBackward0", "amin", native=True)


def _both_rule(gs: Any, x: Any, least: Any, most: Any, dims: Any) -> Any:
    return shared(gs[0], x, least, dims) + shared(gs[1], x, most, dims)


@kernel_op(x=_both_rule, outputs=("least", "most"), name="aminmax", native=True)
def both_over(x: Any, *, dims: Any, shape: Any) -> Any:
    """The smallest and the largest element over dims."""
    return smallest.forward(x, dims=dims, shape=shape), largest.forward(x, dims=dims, shape=shape)


# -- places --------------------------------------------------------------------------------------------


def _found(which: str, x: np.ndarray, dim: int | None) -> tuple[np.ndarray, np.ndarray]:
    """Values and places of the extrema along a dimension, or in all of x; flat."""
    row, sizes = lane(widened(x), dim) if dim is not None else (contiguous(widened(x)), (1, x.size, 1))
    if row.dtype.char == "?":
        row = row.view(np.uint8)
    values = np.empty(sizes[0] * sizes[2], row.dtype)
    places = np.empty(values.size, np.int64)
    kernels.extrema.find(which, row, values, places, sizes)
    return values, places


def _along(which: str) -> Any:
    def forward(x: np.ndarray, *, dim: int, shape: Any) -> tuple[np.ndarray, np.ndarray]:
        """The extrema along a dimension, and the first place of each."""
        values, places = _found(which, x, dim)
        return cast(values, x.dtype).reshape(shape), places.reshape(shape)

    return forward


def back_to_place(gs: Any, indices: Any, x_shape: Any, dim: int) -> Any:
    """The cotangent of elements that were picked along a dimension."""
    dims = (dim,) if x_shape else ()
    return add_along(kept(gs[0], x_shape, dims), kept(indices, x_shape, dims), shape=x_shape, dim=dim)


_PLACED = {"x": back_to_place}
largest_along = KernelOp(_along("max"), _PLACED, ("values", "indices"), {}, "MaxBackward0", "max", True)
smallest_along = KernelOp(_along("min"), _PLACED, ("values", "indices"), {}, "MinBackward0", "min", True)


@reduce_op(name="argmax", node_name="ArgmaxBackward0", native=True)
def place_of_largest(x: Any, *, dim: Any, shape: Any) -> Any:
    """The first index of the largest element."""
    return _found("max", x, dim)[1].reshape(shape)


@reduce_op(name="argmin", node_name="ArgminBackward0", native=True)
def place_of_smallest(x: Any, *, dim: Any, shape: Any) -> Any:
    """The first index of the smallest element."""
    return _found("min", x, dim)[1].reshape(shape)


# -- PyTorch's faces -----------------------------------------------------------------------------------


def dim_with_elements(x: np.ndarray, dim: Any, name: str) -> int:
    """A dimension made positive; IndexError if there is nothing along it to choose from."""
    d = wrap_dim(dim, x.ndim)
    if x.ndim and not x.shape[d]:
        raise IndexError(f"{name}(): Expected reduction dim {d} to have non-zero size.")
    return d


def into_pair(made: Any, out: Any, name: str) -> Any:
    """(values, indices), written into the two tensors of ``out`` if given."""
    if out is not None:
        if not isinstance(out, (tuple, list)) or len(out) != 2:
            raise TypeError(f"{name}(): argument 'out' must be a tuple of two tensors (values, indices)")
        made = (into(made[0], out[0], name), into(made[1], out[1], name))
    return getattr(return_types, name)(*made)


def _face(input: Any, dim: Any, keepdim: bool, other: Any, out: Any, name: str) -> Any:
    whole, along, binary = {
        "max": (largest, largest_along, maximum), "min": (smallest, smallest_along, minimum),
    }[name]  # fmt: skip
    if not isinstance(input, (Value, Scalar, Expr)):
        raise TypeError(f"{name}(): argument 'input' (position 1) must be Tensor, not {type(input).__name__}")
    if isinstance(dim, (Value, Scalar, Expr)) or (dim is not None and not isinstance(input, Value)):
        other, dim = dim, None
    if other is not None:
        return binary(input, other, out=out)
    x: np.ndarray = input._array  # type: ignore[union-attr] # a number or symbol was handled above
    if dim is None:
        if keepdim:
            raise TypeError(f"{name}(): keepdim needs a dim")
        if not x.size:
            raise RuntimeError(
                f"{name}(): Expected reduction dim to be specified for input.numel() == 0. Specify the "
                "reduction dim with the 'dim' argument."
            )
        return into(whole(input, dims=tuple(range(x.ndim)), shape=()), out, name)
    if isinstance(dim, bool) or not isinstance(dim, (int, np.integer)):
        raise TypeError(
            f"{name}(): argument 'dim' must be int, not {type(dim).__name__}; a{name}() takes several"
        )
    d = dim_with_elements(x, dim, name)
    return into_pair(along(input, dim=d, shape=plan(x.shape, d, keepdim).shape), out, name)


@numpy_names
def max(input: Any, dim: Any = None, keepdim: bool = False, *, other: Any = None, out: Any = None) -> Any:
    """The largest element; with ``dim`` (values, indices) along it; with a tensor the larger of each."""
    return _face(input, dim, keepdim, other, out, "max")


@numpy_names
def min(input: Any, dim: Any = None, keepdim: bool = False, *, other: Any = None, out: Any = None) -> Any:
    """The smallest element; with ``dim`` (values, indices) along it; with a tensor the smaller of each."""
    return _face(input, dim, keepdim, other, out, "min")


def _some_elements(x: np.ndarray, dims: tuple[int, ...], given: Any, name: str) -> None:
    if not x.size:
        if given is None or given == ():
            raise RuntimeError(
                f"{name}(): Expected reduction dim to be specified for input.numel() == 0. Specify the "
                "reduction dim with the 'dim' argument."
            )
        for d in dims:
            if not x.shape[d]:
                raise IndexError(f"{name}(): Expected reduction dim {d} to have non-zero size.")


@numpy_names
def amax(input: Any, dim: Any = (), keepdim: bool = False, *, out: Any = None) -> Any:
    """The largest element over all or some dimensions; equal ones share the gradient."""
    dims, shape, _ = plan(input._array.shape, dim, keepdim)
    _some_elements(input._array, dims, dim, "amax")
    made = largest_over(input, dims=dims, shape=shape)
    return made if out is None else into(made, out, "amax")


@numpy_names
def amin(input: Any, dim: Any = (), keepdim: bool = False, *, out: Any = None) -> Any:
    """The smallest element over all or some dimensions; equal ones share the gradient."""
    dims, shape, _ = plan(input._array.shape, dim, keepdim)
    _some_elements(input._array, dims, dim, "amin")
    made = smallest_over(input, dims=dims, shape=shape)
    return made if out is None else into(made, out, "amin")


def aminmax(input: Any, *, dim: int | None = None, keepdim: bool = False, out: Any = None) -> Any:
    """The smallest and the largest element, of all or along a dimension, as (min, max)."""
    x = input._array
    dims, shape, _ = plan(x.shape, dim, keepdim)
    if not x.size and dim is None:
        raise RuntimeError(
            "aminmax(): cannot compute aminmax over an empty dimension as the operation has no identity."
        )
    _some_elements(x, dims, dim, "aminmax")
    made = both_over(input, dims=dims, shape=shape)
    if out is not None:
        made = tuple(into(m, o, "aminmax", exact=True) for m, o in zip(made, out, strict=True))
    return return_types.aminmax(*made)


def _arg_face(op: Any, input: Any, dim: Any, keepdim: bool, out: Any, name: str) -> Any:
    x = input._array
    refuse_bools(x, name)
    if dim is None:
        if not x.size:
            raise IndexError(f"{name}(): Expected reduction dim to be specified for input.numel() == 0.")
        shape = (1,) * x.ndim if keepdim else ()
    else:
        dim = dim_with_elements(x, dim, name)
        shape = plan(x.shape, dim, keepdim).shape
    made = op(input, dim=dim, shape=shape)
    return made if out is None else into(made, out, name)


@numpy_names
def argmax(input: Any, dim: int | None = None, keepdim: bool = False, *, out: Any = None) -> Any:
    """The index of the (first) largest element: in the flattened tensor, or along a dimension."""
    return _arg_face(place_of_largest, input, dim, keepdim, out, "argmax")


@numpy_names
def argmin(input: Any, dim: int | None = None, keepdim: bool = False, *, out: Any = None) -> Any:
    """The index of the (first) smallest element: in the flattened tensor, or along a dimension."""
    return _arg_face(place_of_smallest, input, dim, keepdim, out, "argmin")


class ExtremaMethods:
    """a.max(), a.argmax(1), ..."""

    __slots__ = ()

    max, min, amax, amin, aminmax, argmax, argmin = max, min, amax, amin, aminmax, argmax, argmin
