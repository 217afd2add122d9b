"""Reductions: sums, means, products, norms, log-sum-exp, counting and truth over any dimensions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import buffers, config, dtypes, kernels
from ..kernels.arrays import cast, filled, zeros
from ..kernels.recording import active, now
from ..modes import modes
from ..replay import Algebra
from ..tape import LEAF, Entry, record
from .arithmetic import div, eq, mul, ne, pow, where
from .axes import count_of, kept, middle, numpy_names, spread, widened
from .maths import abs, exp, sign
from .out import into
from .reducing import ReduceOp, plan, reduce_array, reduce_op, truth
from .scan import before
from .shape import flip, permute, reshape

__all__ = [
    "all",
    "any",
    "count_nonzero",
    "logsumexp",
    "mean",
    "nanmean",
    "nansum",
    "prod",
    "sum",
]  # fmt: skip

_empty = buffers.empty
_SINGLE, _DOUBLE, _WHOLE = np.dtype(np.float32), np.dtype(np.float64), np.dtype(np.int64)
_builtin_all, _builtin_any = all, any

# -- sum and mean --------------------------------------------------------------------------------------


class _Sum(ReduceOp):
    """Sum or mean: its cotangent is one number for all elements that were reduced together."""

    def vjp(self, entry: Entry, grads: list[Any], needs: Sequence[bool], algebra: Algebra) -> Any:
        g, shape = grads[0], entry.saved[0]
        if algebra.recorded or active or math.prod(shape) >= config.grain:
            return super().vjp(entry, grads, needs, algebra)
        # Small: laid out in full, so that what comes next takes its short way.
        dims = entry.params["dims"]
        out = _empty(shape, g.dtype)
        if len(dims) != len(shape):
            g = g.reshape([1 if d in dims else n for d, n in enumerate(shape)])
        out[...] = g / count_of(shape, dims) if self.name == "mean" else g
        return (out,)


def _sum(x: np.ndarray, *, dims: Any, shape: Any, dtype: Any) -> np.ndarray:
    """Sum over dims; a sum of type bool says whether there is something."""
    if not x.size:
        return zeros(shape, dtype)
    if dtype.char == "?":
        return truth(kernels.reduce.SOME, x, dims, shape, dtype)
    return reduce_array(kernels.reduce.SUM, x, dims, shape, dtype)


def _mean(x: np.ndarray, *, dims: Any, shape: Any, dtype: Any) -> np.ndarray:
    """Mean over dims."""
    if not x.size:
        return filled(shape, np.nan, dtype)
    # A sum of float16 may be too large for float16 where the mean is not.
    total = reduce_array(kernels.reduce.SUM, x, dims, shape, _SINGLE if dtype.char == "e" else dtype)
    count = x.size // total.size
    if active:
        kernels.loop.QUOTIENT.run(total.dtype.char, [total], [total], [count], (0,))
    else:
        total /= count
    return cast(total, dtype)


def _mean_rule(g: Any, x_shape: Any, dims: Any) -> Any:
    return spread(div(g, count_of(x_shape, dims)), x_shape, dims)


def _sum_rule(g: Any, x_shape: Any, dims: Any) -> Any:
    return spread(g, x_shape, dims)


# PyTorch has two nodes of each: without dimensions and with.
summed = _Sum(_sum, {"x": _sum_rule}, "SumBackward0", "sum", native=True)
summed_over = _Sum(_sum, {"x": _sum_rule}, "SumBackward1", "sum", native=True)
averaged = _Sum(_mean, {"x": _mean_rule}, "MeanBackward0", "mean", native=True)
averaged_over = _Sum(_mean, {"x": _mean_rule}, "MeanBackward1", "mean", native=True)

_short: dict[str, Any] = {}  # by dtype character: the C function that sums one short row
_whole: dict[Any, dict[str, Any]] = {}  # parameters of a sum over everything


def _total(input: Any, op: Any, scale: bool) -> Any:
    """Sum or mean of all elements of a small contiguous tensor: how a loss ends, on the shortest way."""
    x, char = input._array, input._char
    kernel = _short.get(char)
    if kernel is None:
        kernel = _short[char] = kernels.reduce.SUM.flat(char)
    made = _empty((), x.dtype)
    n = x.size
    kernel(x, made, n, n, 0, 1)
    if scale:
        made[()] = made.item() / n
    node = input._node if input._view is None else input._source()
    if node is not None:
        if modes.grad:
            shape = x.shape
            params = _whole.get((len(shape), char))
            if params is None:
                params = {"dims": tuple(range(len(shape))), "shape": (), "dtype": x.dtype}
                _whole[len(shape), char] = params
            edge = input if node is LEAF else node
            node = record(op, (edge,), (input._index,), (shape,), (), params, (((), x.dtype),))
        else:
            node = None
    return input._make(made, node)


def _dim_names(dim: Any, keepdim: Any, given: dict[str, Any], name: str) -> tuple[Any, Any]:
    """``dim`` and ``keepdim`` under the names that NumPy gives them."""
    dim, keepdim = given.pop("axis", dim), given.pop("keepdims", keepdim)
    if given:
        raise TypeError(f"{name}() got an unexpected keyword argument {next(iter(given))!r}")
    return dim, keepdim


def _converted(input: Any, to: dtypes.dtype) -> Any:
    return input if dtypes.of(input._array) is to else input.to(to)


def _sum_input(input: Any, dtype: Any) -> tuple[Any, Any]:
    """The input, and the type of its sum: integers and bools add up in int64."""
    if dtype is not None:
        input = _converted(input, dtypes.as_dtype(dtype))
        return input, input._array.dtype
    return input, input._array.dtype if input._array.dtype.kind == "f" else _WHOLE


def sum(
    input: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None, out: Any = None, **numpy: Any
) -> Any:
    """Sum over all or some dimensions; integers and bools add up in int64."""
    plain = dim is None and dtype is None and out is None and not keepdim and not numpy
    if plain and input._char in ("f", "d") and 0 < input._array.size < config.grain and not active:
        return _total(input, summed, False)
    if numpy:
        dim, keepdim = _dim_names(dim, keepdim, numpy, "sum")
    x, kind = _sum_input(input, dtype)
    dims, shape, _ = plan(x._array.shape, dim, keepdim)
    op = summed if dim is None and not keepdim else summed_over
    made = op(x, dims=dims, shape=shape, dtype=kind)
    return made if out is None else into(made, out, "sum")


def mean(
    input: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None, out: Any = None, **numpy: Any
) -> Any:
    """Mean over all or some dimensions; needs a floating type."""
    plain = dim is None and dtype is None and out is None and not keepdim and not numpy
    if plain and input._char in ("f", "d") and 0 < input._array.size < config.grain and not active:
        return _total(input, averaged, True)
    if numpy:
        dim, keepdim = _dim_names(dim, keepdim, numpy, "mean")
    to = dtypes.of(input._array) if dtype is None else dtypes.as_dtype(dtype)
    if not to.is_floating_point:
        word, origin = ("Input", "") if dtype is None else ("Optional", "optional ")
        raise RuntimeError(
            f"mean(): could not infer output dtype. {word} dtype must be either a floating point or complex "
            f"dtype. Got: {to.short}. Convert the input with .float(), or give a floating {origin}dtype."
        )
    x = _converted(input, to)
    dims, shape, _ = plan(x._array.shape, dim, keepdim)
    op = averaged if dim is None and not keepdim else averaged_over
    made = op(x, dims=dims, shape=shape, dtype=to.numpy)
    return made if out is None else into(made, out, "mean")


@reduce_op(
    x=lambda g, x, dims: where(eq(x, x), spread(g, x._array.shape, dims), 0.0),
    name="nansum",
    node_name="NansumBackward0",
    native=True,
)
def nan_summed(x: Any, *, dims: Any, shape: Any, dtype: Any) -> Any:
    """Sum over dims with NaN counted as zero."""
    return reduce_array(kernels.reduce.NANSUM, x, dims, shape, dtype) if x.size else zeros(shape, dtype)


@numpy_names
def nansum(input: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None, out: Any = None) -> Any:
    """Sum with NaN counted as zero."""
    x, kind = _sum_input(input, dtype)
    if kind.kind != "f":
        return sum(x, dim, keepdim, dtype=dtype, out=out)
    dims, shape, _ = plan(x._array.shape, dim, keepdim)
    return into(nan_summed(x, dims=dims, shape=shape, dtype=kind), out, "nansum")


@numpy_names
def nanmean(input: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None, out: Any = None) -> Any:
    """Mean of what is not NaN."""
    have = dtypes.of(input._array)
    if not have.is_floating_point:
        raise RuntimeError(
            f"nanmean(): expected input to have floating point or complex dtype but got {have.short}"
        )
    total = nansum(input, dim, keepdim, dtype=dtype)
    return into(div(total, sum(eq(input, input), dim, keepdim)), out, "nanmean")


# -- products ------------------------------------------------------------------------------------------


def _others(x: Any, dims: tuple[int, ...]) -> Any:
    """The product of all others that are reduced together with an element; no division, so x may be zero."""
    shape = x._array.shape
    rest = [d for d in range(len(shape)) if d not in dims]
    order = [*rest, *dims]
    rows = (
        reshape(permute(x, order), (*[shape[d] for d in rest], -1 if x._array.size else 0))
        if len(dims) != 1
        else x
    )
    along = len(rest) if len(dims) != 1 else dims[0]
    if not shape:
        return x.new_ones(())
    product = mul(before(rows, along), flip(before(flip(rows, along), along), along))
    if len(dims) == 1:
        return product
    return permute(reshape(product, [shape[d] for d in order]), [order.index(d) for d in range(len(shape))])


def _product_rule(g: Any, x: Any, dims: Any) -> Any:
    return mul(spread(g, x._array.shape, dims), _others(x, dims))


def _product(x: np.ndarray, *, dims: Any, shape: Any, dtype: Any) -> np.ndarray:
    """Product over dims; one of type bool says whether all is there."""
    if not x.size:
        return filled(shape, 1, dtype)
    if dtype.char == "?":
        return truth(kernels.reduce.EVERY, x, dims, shape, dtype)
    return reduce_array(kernels.reduce.PRODUCT, x, dims, shape, dtype)


multiplied = ReduceOp(_product, {"x": _product_rule}, "ProdBackward0", "prod", native=True)
multiplied_over = ReduceOp(_product, {"x": _product_rule}, "ProdBackward1", "prod", native=True)


@numpy_names
def prod(input: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None, out: Any = None) -> Any:
    """Product over all dimensions or over one; integers and bools multiply in int64."""
    x, kind = _sum_input(input, dtype)
    if dim is not None and not isinstance(dim, (int, np.integer)):
        raise TypeError(f"prod(): argument 'dim' must be int, not {type(dim).__name__}")
    dims, shape, _ = plan(x._array.shape, dim, keepdim and dim is not None)
    op = multiplied if dim is None else multiplied_over
    return into(op(x, dims=dims, shape=shape, dtype=kind), out, "prod")


# -- log-sum-exp ---------------------------------------------------------------------------------------


def _log_sum_exp_rule(g: Any, x: Any, out: Any, dims: Any) -> Any:
    shape = x._array.shape
    top = kept(out, shape, dims)
    # Where nothing but -inf was summed, or where +inf was met, the difference would be NaN.
    return mul(spread(g, shape, dims), exp(x - where(eq(abs(top), math.inf), 0.0, top)))


@reduce_op(x=_log_sum_exp_rule, name="logsumexp", node_name="LogsumexpBackward0", native=True)
def log_sum_exp(x: Any, *, dims: Any, shape: Any) -> Any:
    """log of the sum of exp(x) over dims."""
    if not x.size:
        return filled(shape, -math.inf, x.dtype)
    y, sizes = middle(widened(x), dims)
    top = np.empty(sizes[0] * sizes[2], y.dtype)
    kernels.reduce.LARGEST.run([y], top, sizes)
    if now() is not None:
        base, total, out = np.empty(top.shape, y.dtype), np.empty(top.shape), np.empty(top.shape, y.dtype)
        kernels.loop.BASE.run(y.dtype.char, [top], [base])
        kernels.reduce.EXPONENTIALS.run([y], total, sizes, kept=[base])
        kernels.loop.LOG_PLUS.run("d", [total, base], [out])
        return cast(out, x.dtype).reshape(shape)
    with np.errstate(all="ignore"):
        base = np.where(np.isinf(top), y.dtype.type(0), top)
        total = np.empty(top.shape, np.float64)
        kernels.reduce.EXPONENTIALS.run([y], total, sizes, kept=[base])
        return (np.log(total) + base).astype(x.dtype).reshape(shape)


@numpy_names
def logsumexp(input: Any, dim: Any, keepdim: bool = False, *, out: Any = None) -> Any:
    """Logarithm of the sum of the exponentials over dimensions, without overflow."""
    x = input if input._array.dtype.kind == "f" else input.to(dtypes.get_default_dtype())
    dims, shape, _ = plan(x._array.shape, dim, keepdim)
    return into(log_sum_exp(x, dims=dims, shape=shape), out, "logsumexp")


# -- norms ---------------------------------------------------------------------------------------------


def safe_quotient(a: Any, b: Any) -> Any:
    """a / b, and zero where b is zero: in every order of derivative."""
    zero = eq(b, 0)
    return where(zero, 0.0, div(a, where(zero, 1.0, b)))


def _norm_rule(g: Any, x: Any, out: Any, ord: float, dims: Any) -> Any:
    shape = x._array.shape
    g, norm = kept(g, shape, dims), kept(out, shape, dims)
    if ord == 0:
        return mul(mul(x, 0.0), g)
    if ord == 1:
        return mul(sign(x), g)
    if ord == 2:
        return mul(x, safe_quotient(g, norm))
    size = abs(x)
    if math.isinf(ord):
        top = where(eq(size, norm), 1.0, where(ne(size, size), where(ne(norm, norm), 1.0, 0.0), 0.0))
        return mul(mul(sign(x), top), div(g, sum(top, dims, True)))
    # |x|^(ord-1) has no value at 0 for ord < 1, and no second derivative there for ord < 2.
    zero = eq(x, 0)
    power = where(zero, 0.0, pow(where(zero, 1.0, size), ord - 1))
    return mul(
        mul(sign(x), power), safe_quotient(g, pow(where(eq(norm, 0), 1.0, norm), ord - 1) * ne(norm, 0))
    )


@reduce_op(x=_norm_rule, name="linalg_vector_norm", node_name="LinalgVectorNormBackward0", native=True)
def norm_over(x: Any, *, ord: Any, dims: Any, shape: Any) -> Any:
    """(sum of |x|^ord)^(1/ord) over dims, with its limits for 0 and the infinities."""
    reduce = kernels.reduce
    if not x.size:
        return zeros(shape, x.dtype)
    y = widened(x)
    if ord == 0:
        return cast(reduce_array(reduce.NONZEROS, y, dims, shape, _DOUBLE), x.dtype)
    if math.isinf(ord):
        by = reduce.LARGEST_MAGNITUDE if ord > 0 else reduce.SMALLEST_MAGNITUDE
        return cast(reduce_array(by, y, dims, shape, y.dtype), x.dtype)
    if ord == 1:
        return cast(reduce_array(reduce.MAGNITUDES, y, dims, shape, y.dtype), x.dtype)
    by, numbers = (reduce.SQUARES, ()) if ord == 2 else (reduce.POWERS, (float(ord),))
    total = reduce_array(by, y, dims, shape, _DOUBLE, numbers)
    if now() is not None:
        root = kernels.loop.ROOT if ord == 2 else kernels.loop.RAISE
        root.run("d", [total], [total], () if ord == 2 else (1 / ord,), (0,))
        return cast(total, x.dtype)
    with np.errstate(all="ignore"):
        return (np.sqrt(total) if ord == 2 else total ** (1 / ord)).astype(x.dtype)


def vector_norm(
    x: Any, ord: Any = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None, out: Any = None
) -> Any:
    """The ord-norm of all elements, or over dimensions; its gradient at the origin is zero.

    ``ord`` is any number; RuntimeError for integers and where an empty tensor has no norm.
    """
    name = "linalg.vector_norm"
    array = x._array
    have = dtypes.of(array)
    if not have.is_floating_point:
        raise RuntimeError(f"{name}: Expected a floating point or complex tensor as input. Got {have.short}")
    if isinstance(ord, (bool, str)) or not isinstance(ord, (int, float, np.number)):
        raise TypeError(f"{name}(): argument 'ord' must be a number, not {type(ord).__name__}")
    if dtype is not None:
        to = dtypes.as_dtype(dtype)
        if not to.is_floating_point:
            raise RuntimeError(f"{name}: dtype should be floating point or complex. Got {to}")
        if dtypes.promote_types(have, to) is not to:
            raise RuntimeError(
                f"{name}: the dtype of the input ({have.short}) should be convertible without narrowing to "
                f"the specified dtype ({to.short})"
            )
        x = _converted(x, to)
    dims = plan(array.shape, dim, keepdim).dims
    if not array.size and (ord < 0 or math.isinf(ord)):
        empty = [d for d in dims if not array.shape[d]]
        if dim is None or (
            array.ndim and not _builtin_all(n for d, n in enumerate(array.shape) if d in dims)
        ):
            raise RuntimeError(
                f"{name} cannot compute the {ord} norm on an empty tensor: it has no identity"
                if dim is None
                else f"{name} cannot compute the {ord} norm on the dimension {empty[0]} because this "
                "dimension is empty and the operation does not have an identity"
            )
    made = norm_over(x, ord=float(ord), dims=dims, shape=plan(array.shape, dim, keepdim).shape)
    return made if out is None else into(made, out, name)


# -- counting and truth --------------------------------------------------------------------------------


@reduce_op(name="count_nonzero", node_name="CountNonzeroBackward0", native=True)
def nonzeros(x: Any, *, dims: Any, shape: Any) -> Any:
    """How many elements are not zero."""
    if not x.size:
        return zeros(shape, _WHOLE)
    return reduce_array(kernels.reduce.NONZEROS, widened(x), dims, shape, _WHOLE)


@reduce_op(name="all", node_name="AllBackward0", native=True)
def every(x: Any, *, dims: Any, shape: Any, dtype: Any) -> Any:
    """Whether all elements are nonzero."""
    return truth(kernels.reduce.EVERY, x, dims, shape, dtype) if x.size else filled(shape, 1, dtype)


@reduce_op(name="any", node_name="AnyBackward0", native=True)
def some(x: Any, *, dims: Any, shape: Any, dtype: Any) -> Any:
    """Whether some element is nonzero."""
    return truth(kernels.reduce.SOME, x, dims, shape, dtype) if x.size else zeros(shape, dtype)


def count_nonzero(input: Any, dim: Any = None) -> Any:
    """How many elements are not zero, over all or some dimensions."""
    dims, shape, _ = plan(input._array.shape, dim, False)
    return nonzeros(input, dims=dims, shape=shape)


def _truth(op: Any, input: Any, dim: Any, keepdim: bool) -> Any:
    if dim == () and type(dim) is tuple:
        dims: tuple[int, ...] = ()
        shape = input._array.shape  # unlike sum: no dimensions are none
    else:
        dims, shape, _ = plan(input._array.shape, dim, keepdim)
    # PyTorch keeps uint8, which was its bool once.
    return op(input, dims=dims, shape=shape, dtype=np.uint8 if input._array.dtype.char == "B" else np.bool_)


@numpy_names
def all(input: Any, dim: Any = None, keepdim: bool = False, *, out: Any = None) -> Any:
    """Whether all elements are nonzero, over all or some dimensions."""
    return into(_truth(every, input, dim, keepdim), out, "all")


@numpy_names
def any(input: Any, dim: Any = None, keepdim: bool = False, *, out: Any = None) -> Any:
    """Whether some element is nonzero, over all or some dimensions."""
    return into(_truth(some, input, dim, keepdim), out, "any")


class ReduceMethods:
    """a.sum(), a.mean(dim), ..."""

    __slots__ = ()

    sum, nansum, mean, nanmean, prod = sum, nansum, mean, nanmean, prod
    logsumexp, count_nonzero, all, any = logsumexp, count_nonzero, all, any
