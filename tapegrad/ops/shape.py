"""Shapes: views of a tensor, and the copies that rearrange it.

A view op is a function from an array to a view of it. Those that show a part of the tensor
(slices, diagonals) share one rule: the cotangent is written into zeros through the same view.
"""

from __future__ import annotations

import builtins
import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided as _strided

from .. import dtypes, kernels
from ..formats import check_format
from ..kernels import arrays
from ..kernels import launch_lazily as launch
from ..kernels.recording import active, now, refuse
from ..op import Rule, kernel_op, view_op, views_op
from ..tape import Value
from .dims import resolve_shape, shape_args, wrap_dim, wrap_dims
from .out import into

__all__ = [
    "adjoint",
    "atleast_1d",
    "atleast_2d",
    "atleast_3d",
    "broadcast_shapes",
    "broadcast_tensors",
    "broadcast_to",
    "cat",
    "chunk",
    "clone",
    "column_stack",
    "concat",
    "concatenate",
    "diagonal",
    "dstack",
    "flatten",
    "flip",
    "fliplr",
    "flipud",
    "hstack",
    "meshgrid",
    "moveaxis",
    "movedim",
    "narrow",
    "permute",
    "ravel",
    "reshape",
    "roll",
    "rot90",
    "row_stack",
    "select",
    "split",
    "split_with_sizes",
    "squeeze",
    "stack",
    "swapaxes",
    "swapdims",
    "t",
    "tensor_split",
    "tile",
    "transpose",
    "unbind",
    "unflatten",
    "unsqueeze",
    "vstack",
]  # fmt: skip

# -- writing through views: the mechanism --------------------------------------------------------


def _through(array: np.ndarray, steps: Any) -> np.ndarray:
    for op, params in steps:
        array = op.forward(array, **params)
    return array


@kernel_op(g=lambda g, steps: read_view(g, steps), name="place", node_name="PlaceBackward0", native=True)
def place(g: Any, *, shape: Any, steps: Any) -> Any:
    """Zeros of a shape, with ``g`` written through the view that ``steps`` describe."""
    out = arrays.zeros(shape, g.dtype)
    arrays.copy(_through(out, steps), g)
    return out


@kernel_op(
    base=lambda g, steps: write_view(g, g.new_zeros(()), steps=steps),
    value=lambda g, steps: read_view(g, steps),
    name="copy_slices",
    node_name="CopySlices",
    native=True,
)
def write_view(base: Any, value: Any, *, steps: Any) -> Any:
    """A copy of ``base`` with ``value`` written through the view that ``steps`` describe."""
    out = arrays.duplicate(base)
    arrays.copy(_through(out, steps), value)
    return out


def read_view(x: Any, steps: Any) -> Any:
    """Apply view steps to a tensor."""
    for op, params in steps:
        x = op(x, **params)
    return x


def _part(name: str, *params: str) -> Rule:
    """The rule of a view op that shows each element at most once."""

    def rule(g: Any, x_shape: Any, *given: Any) -> Any:
        return place(g, shape=x_shape, steps=((_PARTS[name], dict(zip(params, given, strict=True))),))

    return Rule(rule, ("g", "x_shape", *params))


_PARTS: dict[str, Any] = {}

# -- views ---------------------------------------------------------------------------------------


@view_op(lambda g, x_shape: reshape(g, x_shape), node_name="ViewBackward0")
def as_view(x: Any, *, shape: Any) -> Any:
    """The same elements in another shape; ValueError if that needs a copy."""
    return x.reshape(shape, copy=False)


@view_op(lambda g, dims: permute(g, _inverse(dims)), node_name="PermuteBackward0")
def as_permuted(x: Any, *, dims: Any) -> Any:
    """Dimensions in another order."""
    return x.transpose(dims)


@view_op(lambda g, dims: permute(g, _inverse(dims)), node_name="TransposeBackward0")
def as_transposed(x: Any, *, dims: Any) -> Any:
    """Two dimensions exchanged."""
    return x.transpose(dims)


@view_op(lambda g: g, node_name="ExpandBackward0")  # the replay sums over what was broadcast
def as_expanded(x: Any, *, shape: Any) -> Any:
    """Broadcast to a shape without copying."""
    lead = len(shape) - x.ndim
    strides = [0] * lead + [
        s if n == m else 0 for s, n, m in zip(x.strides, x.shape, shape[lead:], strict=True)
    ]
    return _strided(x, shape, strides)


@view_op(_part("slice", "key"), node_name="SliceBackward0")
def as_indexed(x: Any, *, key: Any) -> Any:
    """Basic indexing: ints, slices, None and Ellipsis."""
    return x[(*key, ...)] if Ellipsis not in key else x[key]  # with ... NumPy gives a 0-d view, not a number


@view_op(_part("select", "dim", "index"), node_name="SelectBackward0")
def as_selected(x: Any, *, dim: Any, index: Any) -> Any:
    """One index of a dimension, which goes away."""
    return x[(*[slice(None)] * dim, index, ...)]


@view_op(_part("diagonal", "offset", "dim1", "dim2"), node_name="DiagonalBackward0")
def as_diagonal(x: Any, *, offset: Any, dim1: Any, dim2: Any) -> Any:
    """A diagonal of two dimensions, as the last dimension."""
    n1, n2 = x.shape[dim1], x.shape[dim2]
    s1, s2 = x.strides[dim1], x.strides[dim2]
    length = builtins.max(0, builtins.min(n1, n2 - offset) if offset >= 0 else builtins.min(n1 + offset, n2))
    first = x
    if length:
        key: list[Any] = [slice(None)] * x.ndim
        key[dim1 if offset < 0 else dim2] = slice(builtins.abs(offset), None)
        first = x[tuple(key)]
    rest = [d for d in range(x.ndim) if d not in (dim1, dim2)]
    shape = (*[x.shape[d] for d in rest], length)
    return _strided(first, shape, (*[x.strides[d] for d in rest], s1 + s2))


@view_op(
    lambda g, x_shape, dim, size, step: fold_windows(g, shape=x_shape, dim=dim, size=size, step=step),
    node_name="UnfoldBackward0",
)
def as_windows(x: Any, *, dim: Any, size: Any, step: Any) -> Any:
    """All windows of ``size`` along a dimension, as a new last dimension."""
    count = (x.shape[dim] - size) // step + 1
    shape = (*x.shape[:dim], count, *x.shape[dim + 1 :], size)
    strides = (*x.strides[:dim], x.strides[dim] * step, *x.strides[dim + 1 :], x.strides[dim])
    return _strided(x, shape, strides)


@kernel_op(
    g=lambda g, dim, size, step: as_windows(g, dim=dim, size=size, step=step),
    name="fold_windows",
    native=True,
)
def fold_windows(g: Any, *, shape: Any, dim: Any, size: Any, step: Any) -> Any:
    """The sum of overlapping windows at their places."""
    if now() is not None:
        return _folded(g, shape, dim, size, step)
    out = np.zeros(shape, g.dtype)
    moved = np.moveaxis(out, dim, -1)
    windows = np.moveaxis(g, dim, -2)
    for w in range(windows.shape[-2]):
        moved[..., w * step : w * step + size] += windows[..., w, :]
    return out


def _folded(g: np.ndarray, shape: tuple[int, ...], dim: int, size: int, step: int) -> np.ndarray:
    """The same by a kernel."""
    source = arrays.contiguous(g, np.float32 if g.dtype.char == "e" else None)
    out = arrays.zeros(shape, source.dtype)
    outer, inner = math.prod(shape[:dim]), math.prod(shape[dim + 1 :])
    if source.size:
        args = (source, out, shape[dim], g.shape[dim], inner, size, step)
        launch(kernels.columns.fold_windows, args, outer, source.size)
    return arrays.cast(out, g.dtype)


_PARTS.update(slice=as_indexed, select=as_selected, diagonal=as_diagonal)


def _inverse(dims: Sequence[int]) -> tuple[int, ...]:
    inverse = [0] * len(dims)
    for j, d in enumerate(dims):
        inverse[d] = j
    return tuple(inverse)


# -- PyTorch's faces -------------------------------------------------------------------------------


def view(input: Any, *shape: Any) -> Any:
    """The same memory in another shape (or seen as another dtype of the same width); RuntimeError if strides forbid it."""
    if len(shape) == 1 and not isinstance(shape[0], (int, tuple, list, np.integer)):
        return view_dtype(input, shape[0])
    array = input._array
    to = resolve_shape(shape_args(shape, "view"), array.size, array.shape)
    try:
        return as_view(input, shape=to)
    except ValueError:
        raise RuntimeError(
            f"view size is not compatible with input tensor's size and stride (shape {list(array.shape)}, stride "
            f"{[s // array.itemsize for s in array.strides]}, asked for {list(to)}). Use .reshape(...) instead."
        ) from None


def view_dtype(input: Any, dtype: Any) -> Any:
    """The same bytes read as another dtype of the same width; not differentiable."""
    to = dtypes.as_dtype(dtype)
    array = input._array
    if to.itemsize != array.itemsize:
        raise RuntimeError(
            f"view(dtype): {to} has {to.itemsize} bytes per element, the tensor has {array.itemsize}; "
            "only types of the same width are supported"
        )
    if to.numpy == array.dtype:
        return as_view(input, shape=array.shape)
    made = input._make(array.view(to.numpy))
    made._version = input._version
    return made


def reshape(input: Any, *shape: Any) -> Any:
    """Another shape: a view where strides allow it, else a copy."""
    array = input._array
    to = resolve_shape(shape_args(shape, "reshape"), array.size, array.shape)
    try:
        return as_view(input, shape=to)
    except ValueError:
        return as_view(clone(input), shape=to)


def view_as(input: Any, other: Any) -> Any:
    """A view with the shape of ``other``."""
    return view(input, other._array.shape)


def reshape_as(input: Any, other: Any) -> Any:
    """reshape to the shape of ``other``."""
    return reshape(input, other._array.shape)


def flatten(input: Any, start_dim: int = 0, end_dim: int = -1) -> Any:
    """Dimensions from start_dim to end_dim made one."""
    shape = input._array.shape
    if not shape:
        return reshape(input, (1,))
    a, b = wrap_dim(start_dim, len(shape)), wrap_dim(end_dim, len(shape))
    if a > b:
        raise RuntimeError("flatten() has invalid args: start_dim cannot come after end_dim")
    if a == b:
        return input
    middle = 1
    for n in shape[a : b + 1]:
        middle *= n
    return reshape(input, (*shape[:a], middle, *shape[b + 1 :]))


def unflatten(input: Any, dim: int, sizes: Any) -> Any:
    """One dimension split into several."""
    shape = input._array.shape
    d = wrap_dim(dim, len(shape))
    parts = shape_args((sizes,) if isinstance(sizes, int) else sizes, "unflatten")
    if not parts:
        raise RuntimeError("unflatten: sizes must be non-empty")
    try:
        parts = resolve_shape(parts, shape[d], (shape[d],))
    except RuntimeError:
        raise RuntimeError(
            f"unflatten: Provided sizes {list(parts)} don't multiply up to the size of dim {d} ({shape[d]}) in the input tensor"
        ) from None
    return view(input, (*shape[:d], *parts, *shape[d + 1 :]))


def ravel(input: Any) -> Any:
    """One dimension: a view where strides allow it, else a copy."""
    return reshape(input, (-1,)) if input._array.size else reshape(input, (0,))


def squeeze(input: Any, dim: Any = None) -> Any:
    """Without the dimensions of size 1: all, one or several."""
    shape = input._array.shape
    dims = wrap_dims(dim, len(shape), empty_is_all=False)
    return as_view(input, shape=tuple(n for d, n in enumerate(shape) if not (n == 1 and d in dims)))


def unsqueeze(input: Any, dim: int) -> Any:
    """A new dimension of size 1 at ``dim``."""
    shape = input._array.shape
    d = wrap_dim(dim, len(shape) + 1)
    return as_view(input, shape=(*shape[:d], 1, *shape[d:]))


def permute(input: Any, *dims: Any) -> Any:
    """Dimensions in the given order."""
    rank = input._array.ndim
    given = shape_args(dims, "permute")
    if len(given) != rank:
        raise RuntimeError(
            f"permute(sparse_coo): number of dimensions in the tensor input does not match the length of the desired ordering "
            f"of dimensions i.e. input.dim() = {rank} is not equal to len(dims) = {len(given)}"
        )
    wrapped = tuple(wrap_dim(d, rank) for d in given)
    if len(set(wrapped)) != rank:
        raise RuntimeError("permute(): duplicate dims are not allowed.")
    return as_permuted(input, dims=wrapped)


def transpose(input: Any, dim0: int, dim1: int) -> Any:
    """Two dimensions exchanged."""
    rank = input._array.ndim
    a, b = wrap_dim(dim0, rank), wrap_dim(dim1, rank)
    order = list(range(rank))
    if rank:
        order[a], order[b] = b, a
    return as_transposed(input, dims=tuple(order))


swapaxes = swapdims = transpose


def t(input: Any) -> Any:
    """The transpose of a matrix; vectors and numbers as they are."""
    rank = input._array.ndim
    if rank > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {rank}D")
    return as_transposed(input, dims=(1, 0) if rank == 2 else tuple(range(rank)))


def mT(input: Any) -> Any:
    """The last two dimensions exchanged."""
    rank = input._array.ndim
    if rank < 2:
        raise RuntimeError(
            f"tensor.mT is only supported on matrices or batches of matrices. Got {rank}-D tensor."
        )
    return transpose(input, -2, -1)


def adjoint(input: Any) -> Any:
    """The last two dimensions exchanged (all tensors are real)."""
    rank = input._array.ndim
    if rank == 1:
        raise RuntimeError(
            "tensor.adjoint() is only supported on matrices or batches of matrices. Got 1-D tensor."
        )
    return transpose(input, -2, -1) if rank else transpose(input, 0, 0)


def movedim(input: Any, source: Any, destination: Any) -> Any:
    """Dimensions moved to new places, the others in order."""
    rank = input._array.ndim
    a = wrap_dims(source, rank, empty_is_all=False)
    b = wrap_dims(destination, rank, empty_is_all=False)
    if len(a) != len(b):
        raise RuntimeError(
            f"movedim: Invalid source or destination dims: source ({list(a)} dims) should contain the same number of dims as "
            f"destination ({list(b)} dims)"
        )
    order: list[Any] = [None] * rank
    for s, d in zip(a, b, strict=True):
        order[d] = s
    rest = iter(d for d in range(rank) if d not in a)
    return as_permuted(input, dims=tuple(next(rest) if o is None else o for o in order))


moveaxis = movedim


def expand(input: Any, *sizes: Any) -> Any:
    """Broadcast to a shape without copying; -1 keeps a size."""
    shape = input._array.shape
    to = shape_args(sizes, "expand")
    lead = len(to) - len(shape)
    if lead < 0:
        raise RuntimeError(
            f"expand: the number of sizes provided ({len(to)}) must be greater or equal to the number of dimensions in the "
            f"tensor ({len(shape)})"
        )
    final = []
    for d, n in enumerate(to):
        have = shape[d - lead] if d >= lead else None
        if n == -1:
            if have is None:
                raise RuntimeError(
                    f"expand: the expanded size of the tensor (-1) isn't allowed in a leading, non-existing dimension {d}"
                )
            n = have
        elif have is not None and have not in (1, n):
            raise RuntimeError(
                f"expand: The expanded size of the tensor ({n}) must match the existing size ({have}) at non-singleton "
                f"dimension {d}. Target sizes: {list(to)}. Tensor sizes: {list(shape)}"
            )
        elif n < 0:
            raise RuntimeError(f"expand: invalid size {n}")
        final.append(n)
    return as_expanded(input, shape=tuple(final))


def expand_as(input: Any, other: Any) -> Any:
    """expand to the shape of ``other``."""
    return expand(input, other._array.shape)


def broadcast_to(input: Any, size: Any) -> Any:
    """expand to a shape."""
    return expand(input, tuple(size))


def broadcast_shapes(*shapes: Any) -> Any:
    """The common shape of several."""
    try:
        return np.broadcast_shapes(*[s if isinstance(s, int) else tuple(s) for s in shapes])
    except ValueError:
        raise RuntimeError(
            f"shape mismatch: objects cannot be broadcast to a single shape: {shapes}"
        ) from None


def broadcast_tensors(*tensors: Any) -> tuple[Any, ...]:
    """All tensors expanded to their common shape."""
    items = tensors[0] if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)) else tensors
    shape = broadcast_shapes(*[x._array.shape for x in items])
    return tuple(expand(x, shape) for x in items)


def select(input: Any, dim: int, index: int) -> Any:
    """One index of a dimension, which goes away; a view."""
    shape = input._array.shape
    if not shape:
        raise IndexError("select() cannot be applied to a 0-dim tensor.")
    d = wrap_dim(dim, len(shape))
    n = shape[d]
    if not -n <= index < n:
        raise IndexError(
            f"select(): index {index} out of range for tensor of size {list(shape)} at dimension {d}"
        )
    return as_selected(input, dim=d, index=int(index) + n if index < 0 else int(index))


def narrow(input: Any, dim: int, start: Any, length: int) -> Any:
    """``length`` indices of a dimension from ``start`` on; a view."""
    shape = input._array.shape
    if not shape:
        raise RuntimeError("narrow() cannot be applied to a 0-dim tensor.")
    d = wrap_dim(dim, len(shape))
    if isinstance(start, Value) and (start._array.ndim or start._array.dtype.kind not in "iu"):
        raise RuntimeError("narrow(): start must be an 0-dim integral Tensor.")
    n, begin = shape[d], int(start)
    if length < 0:
        raise RuntimeError("narrow(): length must be non-negative.")
    if not -n <= begin <= n:
        raise IndexError(f"start out of range (expected to be in range of [{-n}, {n}], but got {begin})")
    begin += n if begin < 0 else 0
    if begin + length > n:
        raise RuntimeError(f"start ({begin}) + length ({length}) exceeds dimension size ({n}).")
    return as_indexed(input, key=(*[slice(None)] * d, slice(begin, begin + length)))


def diagonal(input: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    """A diagonal of two dimensions, as the last dimension; a view."""
    rank = input._array.ndim
    a, b = wrap_dim(dim1, rank, scalar_ok=False), wrap_dim(dim2, rank, scalar_ok=False)
    if a == b:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    return as_diagonal(input, offset=int(offset), dim1=a, dim2=b)


def unfold(input: Any, dimension: int, size: int, step: int) -> Any:
    """All windows of ``size`` along a dimension, ``step`` apart, as a new last dimension; a view."""
    if not input._array.ndim:
        wrap_dim(dimension, 0)
        return select(unfold(reshape(input, (1,)), 0, size, step), 0, 0)
    d = wrap_dim(dimension, input._array.ndim)
    n = input._array.shape[d]
    if size > n:
        raise RuntimeError(f"maximum size for tensor at dimension {d} is {n} but size is {size}")
    if size < 0 or step < 1:
        raise RuntimeError(f"unfold: size is {size} but must be >= 0, step is {step} but must be > 0")
    return as_windows(input, dim=d, size=int(size), step=int(step))


# -- several views ---------------------------------------------------------------------------------


@views_op(lambda gs, dim: stack(gs, dim), node_name="UnbindBackward0")
def unbind_views(x: Any, *, dim: Any) -> Any:
    """One view per index of a dimension."""
    return [(as_selected, {"dim": dim, "index": j}) for j in range(x.shape[dim])]


@views_op(lambda gs, dim: cat(gs, dim), node_name="SplitBackward0")
def split_views(x: Any, *, dim: Any, bounds: Any) -> Any:
    """One view per pair of neighbouring bounds."""
    lead = [slice(None)] * dim
    return [(as_indexed, {"key": (*lead, slice(a, b))}) for a, b in zip(bounds, bounds[1:], strict=False)]


def unbind(input: Any, dim: int = 0) -> tuple[Any, ...]:
    """One view per index of a dimension."""
    rank = input._array.ndim
    if not rank:
        raise IndexError("Dimension specified as 0 but tensor has no dimensions")
    return unbind_views(input, dim=wrap_dim(dim, rank))


def split(tensor: Any, split_size_or_sections: Any, dim: int = 0) -> tuple[Any, ...]:
    """Views of equal size along a dimension (the last may be smaller), or of the given sizes."""
    if isinstance(split_size_or_sections, (tuple, list)):
        return split_with_sizes(tensor, split_size_or_sections, dim)
    shape = tensor._array.shape
    if not shape:
        raise RuntimeError("split expects at least a 1-dimensional tensor")
    d, size = wrap_dim(dim, len(shape)), int(split_size_or_sections)
    n = shape[d]
    if size < 0 or (size == 0 and n):
        raise RuntimeError(
            f"split expects split_size be non-negative (and 0 only for an empty dimension), but got split_size={size}"
        )
    if not n:
        return split_views(tensor, dim=d, bounds=(0, 0))
    return split_views(tensor, dim=d, bounds=(*range(0, n, size), n))


def split_with_sizes(input: Any, split_sizes: Any, dim: int = 0) -> tuple[Any, ...]:
    """Views of the given sizes along a dimension."""
    shape = input._array.shape
    if not shape:
        raise RuntimeError("split expects at least a 1-dimensional tensor")
    d = wrap_dim(dim, len(shape))
    sizes = shape_args(split_sizes, "split")
    if sum(sizes) != shape[d] or any(s < 0 for s in sizes):
        raise RuntimeError(
            f"split_with_sizes expects split_sizes to sum exactly to {shape[d]} (input tensor's size at dimension {d}), "
            f"but got split_sizes={list(sizes)}"
        )
    bounds = [0]
    for s in sizes:
        bounds.append(bounds[-1] + s)
    return split_views(input, dim=d, bounds=tuple(bounds))


def chunk(input: Any, chunks: int, dim: int = 0) -> tuple[Any, ...]:
    """At most ``chunks`` views of equal size along a dimension."""
    if not input._array.ndim:
        raise RuntimeError("chunk expects at least a 1-dimensional tensor")
    if chunks < 1:
        raise RuntimeError(f"chunk expects `chunks` to be greater than 0, got: {chunks}")
    n = input._array.shape[wrap_dim(dim, input._array.ndim)]
    size = -(-n // chunks)
    if not size:
        return split_with_sizes(input, [0] * chunks, dim)
    return split(input, size, dim)


def tensor_split(input: Any, indices_or_sections: Any, dim: int = 0) -> tuple[Any, ...]:
    """Views cut at the given indices, or into as many nearly equal parts."""
    shape = input._array.shape
    if not shape:
        raise RuntimeError(
            "tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims"
        )
    d = wrap_dim(dim, len(shape))
    n = shape[d]
    if isinstance(indices_or_sections, Value):
        refuse("tensor_split() by a tensor")
        indices_or_sections = indices_or_sections._array.tolist()
    if isinstance(indices_or_sections, int):
        parts = indices_or_sections
        if parts <= 0:
            raise RuntimeError(f"number of sections must be larger than 0, got {parts}")
        sizes = [n // parts + (1 if j < n % parts else 0) for j in range(parts)]
        return split_with_sizes(input, sizes, d)
    cuts = [0, *indices_or_sections, n]
    return tuple(
        as_indexed(
            input, key=(*[slice(None)] * d, slice(a, b) if a <= (b if b >= 0 else b + n) else slice(a, a))
        )
        for a, b in zip(cuts, cuts[1:], strict=False)
    )


# -- copies ----------------------------------------------------------------------------------------


@kernel_op(x=lambda g: g, node_name="CloneBackward0", name="clone", native=True)
def copied(x: Any) -> Any:
    """A copy, contiguous."""
    return arrays.duplicate(x)


def clone(input: Any, *, memory_format: Any = None) -> Any:
    """A copy that stays in the graph."""
    check_format(memory_format)
    return copied(input)


def contiguous(input: Any, memory_format: Any = None) -> Any:
    """The tensor itself if its elements lie in order, else a copy."""
    check_format(memory_format)
    return input if input._array.flags.c_contiguous else copied(input)


@kernel_op(
    xs=lambda gs, xs_shape, dim: _uncat(gs[0], xs_shape, dim),
    node_name="CatBackward0",
    name="cat",
    native=True,
)
def joined(*xs: Any, dim: Any, dtype: Any) -> Any:
    """Arrays one after the other along a dimension."""
    if not active:
        return np.concatenate(xs, axis=dim, dtype=dtype)
    sizes = [x.shape[dim] for x in xs]
    out = np.empty((*xs[0].shape[:dim], builtins.sum(sizes), *xs[0].shape[dim + 1 :]), dtype)
    at = 0
    for x, n in zip(xs, sizes, strict=True):
        arrays.copy(out[(*[slice(None)] * dim, slice(at, at + n))], x)
        at += n
    return out


def _uncat(g: Any, shapes: Any, dim: int) -> list[Any]:
    sizes = [s[dim] for s in shapes]
    return list(split_with_sizes(g, sizes, dim))


def cat(tensors: Any, dim: int = 0, *, out: Any = None) -> Any:
    """Tensors one after the other along a dimension; all other sizes must agree."""
    if isinstance(tensors, (tuple, list)) and not tensors:
        raise ValueError("cat(): expected a non-empty list of Tensors")
    items = _tensor_list(tensors, "cat")
    # A 1-d tensor without elements fits everywhere: an old convention that programs rely on.
    full = [x for x in items if x._array.shape != (0,)] or items[:1]
    for j, x in enumerate(items):
        if not x._array.ndim:
            raise RuntimeError(f"cat: zero-dimensional tensor (at position {j}) cannot be concatenated")
    rank = full[0]._array.ndim
    first = full[0]._array.shape
    d = 0 if first == (0,) else wrap_dim(dim, rank)  # nothing but such tensors: any dimension will do
    for j, x in enumerate(full):
        shape = x._array.shape
        if len(shape) != rank:
            raise RuntimeError(
                f"cat: Tensors must have same number of dimensions: got {rank} and {len(shape)}"
            )
        if any(a != b for k, (a, b) in enumerate(zip(first, shape, strict=True)) if k != d):
            raise RuntimeError(
                f"cat: Sizes of tensors must match except in dimension {d}. Expected {list(first)} but got {list(shape)} "
                f"for tensor number {j} in the list."
            )
    result = joined(*full, dim=d, dtype=dtypes.result_type(items).numpy)
    return into(result, out, "cat", inputs=items)


concat = concatenate = cat


def _tensor_list(tensors: Any, name: str) -> list[Any]:
    if not isinstance(tensors, (tuple, list)):
        raise TypeError(
            f"{name}(): argument 'tensors' (position 1) must be tuple of Tensors, not {type(tensors).__name__}"
        )
    for j, x in enumerate(tensors):
        if not isinstance(x, Value):
            raise TypeError(
                f"{name}(): expected Tensor as element {j} in argument 0, but got {type(x).__name__}"
            )
    if not tensors:
        raise RuntimeError(f"{name}(): expected a non-empty list of Tensors")
    return list(tensors)


def stack(tensors: Any, dim: int = 0, *, out: Any = None) -> Any:
    """Tensors of one shape along a new dimension."""
    items = _tensor_list(tensors, "stack")
    first = items[0]._array.shape
    d = wrap_dim(dim, len(first) + 1)
    for j, x in enumerate(items):
        if x._array.shape != first:
            raise RuntimeError(
                f"stack expects each tensor to be equal size, but got {list(first)} at entry 0 and {list(x._array.shape)} at entry {j}"
            )
    return cat([unsqueeze(x, d) for x in items], d, out=out)


def hstack(tensors: Any) -> Any:
    """Side by side: along the second dimension, or the first of 1-d tensors."""
    items = atleast_1d(_tensor_list(tensors, "hstack"))
    return cat(items, 0 if items[0]._array.ndim == 1 else 1)


def vstack(tensors: Any) -> Any:
    """On top of each other: along the first dimension; 1-d tensors are rows."""
    return cat(atleast_2d(_tensor_list(tensors, "vstack")), 0)


row_stack = vstack


def dstack(tensors: Any) -> Any:
    """Along the third dimension."""
    return cat(atleast_3d(_tensor_list(tensors, "dstack")), 2)


def column_stack(tensors: Any) -> Any:
    """Side by side; 1-d tensors are columns."""
    items = _tensor_list(tensors, "column_stack")
    return cat([reshape(x, (x._array.size, 1)) if x._array.ndim <= 1 else x for x in items], 1)


def _at_least(tensors: tuple[Any, ...], grow: Any) -> Any:
    if len(tensors) == 1:
        if isinstance(tensors[0], (tuple, list)):
            return tuple(grow(x) for x in tensors[0])
        return grow(tensors[0])
    return tuple(grow(x) for x in tensors)


def atleast_1d(*tensors: Any) -> Any:
    """Each tensor with at least one dimension."""
    return _at_least(tensors, lambda x: reshape(x, (1,)) if not x._array.ndim else x)


def atleast_2d(*tensors: Any) -> Any:
    """Each tensor with at least two dimensions, new ones in front."""
    return _at_least(
        tensors,
        lambda x: x if x._array.ndim >= 2 else (reshape(x, (1, 1)) if not x._array.ndim else unsqueeze(x, 0)),
    )


def atleast_3d(*tensors: Any) -> Any:
    """Each tensor with at least three dimensions."""

    def grow(x: Any) -> Any:
        rank = x._array.ndim
        if rank >= 3:
            return x
        if rank == 2:
            return unsqueeze(x, -1)
        return reshape(x, (1, 1, 1)) if not rank else unsqueeze(unsqueeze(x, 0), -1)

    return _at_least(tensors, grow)


@kernel_op(x=lambda g, dims: flipped(g, dims=dims), node_name="FlipBackward0", name="flip", native=True)
def flipped(x: Any, *, dims: Any) -> Any:
    """The order along dimensions reversed."""
    return arrays.duplicate(np.flip(x, dims) if dims else x)


def flip(input: Any, *args: Any, dims: Any = None) -> Any:
    """The order along dimensions reversed; a copy."""
    if (dims is None) is not bool(args):
        raise TypeError("flip(): the dimensions must be given once, one by one or as dims=")
    given = args if dims is None else dims
    given = given[0] if len(args) == 1 and isinstance(args[0], (tuple, list)) else given
    return flipped(input, dims=wrap_dims(given, input._array.ndim, empty_is_all=False))


def fliplr(input: Any) -> Any:
    """The second dimension reversed."""
    if input._array.ndim < 2:
        raise RuntimeError("Input must be >= 2-d.")
    return flip(input, 1)


def flipud(input: Any) -> Any:
    """The first dimension reversed."""
    if input._array.ndim < 1:
        raise RuntimeError("Input must be >= 1-d.")
    return flip(input, 0)


@kernel_op(
    x=lambda g, shifts, dims: rolled(g, shifts=tuple(-s for s in shifts), dims=dims),
    node_name="RollBackward0",
    name="roll",
    native=True,
)
def rolled(x: Any, *, shifts: Any, dims: Any) -> Any:
    """Elements moved round along dimensions."""
    if now() is None:
        return np.roll(x, shifts, dims)
    sides: list[Any] = [((slice(None), slice(None)),)] * x.ndim  # per dimension: the parts, to and from
    for d in set(dims):
        n = x.shape[d]
        by = sum(s for s, k in zip(shifts, dims, strict=True) if k == d) % max(n, 1)
        sides[d] = ((slice(by, None), slice(n - by)), (slice(by), slice(n - by, None)))
    out = np.empty(x.shape, x.dtype)
    for parts in itertools.product(*sides):
        arrays.copy(out[tuple([to for to, _ in parts])], x[tuple([at for _, at in parts])])
    return out


def roll(input: Any, shifts: Any, dims: Any = None) -> Any:
    """Elements moved round along dimensions, or through the flattened tensor if none is given."""
    s = tuple(shifts) if isinstance(shifts, (tuple, list)) else (shifts,)
    if not all(isinstance(k, (int, np.integer)) for k in s):
        raise TypeError(f"roll(): argument 'shifts' (position 2) must be tuple of ints, not {shifts!r:.40}")
    if dims is None or dims == ():
        if len(s) != 1:
            raise RuntimeError(f"shifts and dimensions must align. shifts: {len(s)}, dims:0")
        return reshape(rolled(reshape(input, (-1,)), shifts=s, dims=(0,)), input._array.shape)
    d = tuple(dims) if isinstance(dims, (tuple, list)) else (dims,)
    if len(s) != len(d):
        raise RuntimeError(f"shifts and dimensions must align. shifts: {len(s)}, dims:{len(d)}")
    if not input._array.ndim:
        raise IndexError(f"roll: Dimension specified as {d[0]} but tensor has no dimensions")
    return rolled(input, shifts=s, dims=tuple(wrap_dim(k, input._array.ndim) for k in d))


def rot90(input: Any, k: int = 1, dims: Any = (0, 1)) -> Any:
    """Turned by k quarter turns in the plane of two dimensions."""
    rank = input._array.ndim
    if len(dims) != 2:
        raise RuntimeError(f"expected total rotation dims == 2, but got dims = {len(dims)}")
    if rank < 2:
        raise RuntimeError(f"expected total dims >= 2, but got total dims = {rank}")
    a, b = (wrap_dim(d, rank) for d in dims)
    if a == b:
        raise RuntimeError(f"expected rotation dims to be different, but got dim0 = {a} and dim1 = {b}")
    turns = k % 4
    if turns == 0:
        return clone(input)
    if turns == 2:
        return flip(input, (a, b))
    return transpose(flip(input, b), a, b) if turns == 1 else flip(transpose(input, a, b), b)


def repeat(input: Any, *repeats: Any) -> Any:
    """The tensor laid out several times along each dimension; a copy."""
    times = shape_args(repeats, "repeat")
    shape = input._array.shape
    lead = len(times) - len(shape)
    if lead < 0:
        raise RuntimeError(
            "Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor"
        )
    if any(r < 0 for r in times):
        raise RuntimeError(f"repeat: trying to create a tensor with a negative dimension: {list(times)}")
    shape = (1,) * lead + shape
    inner = reshape(input, tuple(m for n in shape for m in (1, n)))
    wide = expand(inner, tuple(m for n, r in zip(shape, times, strict=True) for m in (r, n)))
    return reshape(clone(wide), tuple(n * r for n, r in zip(shape, times, strict=True)))


def tile(input: Any, *dims: Any) -> Any:
    """repeat, with the list of repeats padded by ones in front."""
    times = shape_args(dims, "tile")
    return repeat(input, (1,) * (input._array.ndim - len(times)) + times)


def meshgrid(*tensors: Any, indexing: str = "ij") -> tuple[Any, ...]:
    """Coordinate grids of several 1-d tensors."""
    items = tensors[0] if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)) else tensors
    if indexing not in ("ij", "xy"):
        raise RuntimeError(f'meshgrid: indexing must be one of "xy" or "ij", but received: {indexing}')
    items = list(items)
    for x in items:
        if x._array.ndim > 1:
            raise RuntimeError(
                f"meshgrid: Expected 0D or 1D tensor in the tensor list but got a tensor of rank {x._array.ndim}"
            )
    swap = indexing == "xy" and len(items) >= 2
    if swap:
        items[0], items[1] = items[1], items[0]
    sizes = [x._array.size for x in items]
    grids = []
    for j, x in enumerate(items):
        column = reshape(x, (1,) * j + (sizes[j],) + (1,) * (len(items) - j - 1))
        grids.append(expand(column, tuple(sizes)))
    if swap:
        grids[0], grids[1] = grids[1], grids[0]
    return tuple(grids)


class ShapeMethods:
    """a.view(2, 3), a.transpose(0, 1), ..."""

    __slots__ = ()

    view, view_as, reshape, reshape_as = view, view_as, reshape, reshape_as
    flatten, unflatten, ravel, squeeze, unsqueeze = flatten, unflatten, ravel, squeeze, unsqueeze
    permute, transpose, swapaxes, swapdims, t = permute, transpose, transpose, transpose, t
    movedim, moveaxis, adjoint = movedim, movedim, adjoint
    expand, expand_as, broadcast_to = expand, expand_as, broadcast_to
    select, narrow, diagonal, unfold = select, narrow, diagonal, unfold
    unbind, split, split_with_sizes, chunk, tensor_split = (
        unbind,
        split,
        split_with_sizes,
        chunk,
        tensor_split,
    )
    clone, contiguous = clone, contiguous
    flip, fliplr, flipud, roll, rot90 = flip, fliplr, flipud, roll, rot90
    repeat, tile = repeat, tile

    @property
    def T(self) -> Any:
        """All dimensions in reverse order."""
        return permute(self, tuple(reversed(range(self._array.ndim))))  # type: ignore[attr-defined]

    @property
    def mT(self) -> Any:
        """The last two dimensions exchanged."""
        return mT(self)

    @property
    def H(self) -> Any:
        """The transpose of a matrix (all tensors are real)."""
        return t(self)

    mH = mT
