"""Special functions of probability and physics; tapegrad.special has them all under PyTorch's names."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import dtypes
from ..fastpath import elementwise
from ..kernels import formula
from ..kernels.formula import select
from ..op import kernel_op
from ..tape import Value
from .arithmetic import add, mul, where
from .convert import to_dtype
from .inplace import elementwise_inplace, kernel_inplace
from .maths import cos, exp, lgamma, log, polygamma_of, sign
from .out import into
from .reduce import sum as total
from .shape import unsqueeze

__all__ = ["i0", "igamma", "igammac", "logit", "mvlgamma", "polygamma", "sinc"]

_f = formula.function
_log, _sin, _erfc = _f("log"), _f("sin"), _f("erfc")
_i0, _i1, _i0e, _i1e = _f("i0"), _f("i1"), _f("i0e"), _f("i1e")
_erfcx, _ndtri, _log_ndtr = _f("erfcx"), _f("ndtri"), _f("log_ndtr")


# -- logit and sinc ------------------------------------------------------------------------------------


def _logit_rule(g: Any, input: Any, eps: Any) -> Any:
    inside = where(eps < 0, (input >= 0) & (input <= 1), (input >= eps) & (input <= 1 - eps))
    return where(inside, g / (input * (1 - input)), where(eps < 0, math.nan, 0.0))


@elementwise(kind="float", input=_logit_rule, name="logit", node_name="LogitBackward0")
def log_odds(input: Any, *, eps: Any) -> Any:
    """log(input / (1 - input)), with input kept within [eps, 1 - eps] if eps is not negative."""
    low = select(input < eps, eps, input)
    z = select(eps < 0, input, select(low > 1 - eps, 1 - eps, low))
    return _log(z / (1 - z))


def logit(input: Any, eps: float | None = None, *, out: Any = None) -> Any:
    """log(input / (1 - input)); with ``eps`` the input is first kept within [eps, 1 - eps]."""
    return log_odds(input, eps=-1.0 if eps is None else float(eps), out=out)


def _sinc_rule(g: Any, input: Any, out: Any) -> Any:
    zero = input == 0
    return where(zero, 0.0, g * ((cos(input * math.pi) - out) / where(zero, 1.0, input)))


@elementwise(kind="float", input=_sinc_rule)
def sinc(input: Any) -> Any:
    """sin(pi input) / (pi input), 1 at 0."""
    t = input * math.pi
    return select(input == 0, 1, _sin(t) / t)


# -- Bessel functions ----------------------------------------------------------------------------------


def _over(out: Any, input: Any) -> Any:
    """out / input for an odd function with slope 1/2 at 0."""
    zero = input == 0
    return where(zero, 0.5, out / where(zero, 1.0, input))


@elementwise(kind="float", input=lambda g, input: g * i1(input))
def i0(input: Any) -> Any:
    """Modified Bessel function of the first kind, order 0."""
    return _i0(input)


@elementwise(
    kind="float",
    input=lambda g, input, out: g * (i0(input) - _over(out, input)),
    node_name="SpecialI1Backward0",
)
def i1(input: Any) -> Any:
    """Modified Bessel function of the first kind, order 1."""
    return _i1(input)


@elementwise(
    kind="float",
    input=lambda g, input, out: g * (i1e(input) - sign(input) * out),
    node_name="SpecialI0EBackward0",
)
def i0e(input: Any) -> Any:
    """exp(-|input|) i0(input)."""
    return _i0e(input)


@elementwise(
    kind="float",
    input=lambda g, input, out: g * (i0e(input) - (sign(input) * out + _over(out, input))),
    node_name="SpecialI1EBackward0",
)
def i1e(input: Any) -> Any:
    """exp(-|input|) i1(input)."""
    return _i1e(input)


# -- the normal distribution ---------------------------------------------------------------------------


@elementwise(kind="float", input=lambda g, input: -g * (log(input) + 1), node_name="SpecialEntrBackward0")
def entr(input: Any) -> Any:
    """-input log(input); 0 at 0, -inf below."""
    return select(input > 0, -input * _log(input), select(input == 0, 0, select(input < 0, -math.inf, input)))


@elementwise(
    kind="float",
    input=lambda g, input, out: g * (input * out * 2 - 2 / math.sqrt(math.pi)),
    node_name="SpecialErfcxBackward0",
)
def erfcx(input: Any) -> Any:
    """exp(input**2) erfc(input)."""
    return _erfcx(input)


@elementwise(
    kind="float", input=lambda g, input: g * (exp(input * input * -0.5) * (1 / math.sqrt(2 * math.pi)))
)
def ndtr(input: Any) -> Any:
    """The normal distribution function."""
    return _erfc(input * -math.sqrt(0.5)) * 0.5


@elementwise(
    kind="float",
    input=lambda g, input: g * (math.sqrt(2 / math.pi) / erfcx(input * -math.sqrt(0.5))),
    node_name="SpecialLogNdtrBackward0",
)
def log_ndtr(input: Any) -> Any:
    """The logarithm of the normal distribution function, accurate far out."""
    return _log_ndtr(input)


@elementwise(
    kind="float",
    input=lambda g, out: g * (exp(out * out * 0.5) * math.sqrt(2 * math.pi)),
    node_name="SpecialNdtriBackward0",
)
def ndtri(input: Any) -> Any:
    """The inverse of ndtr."""
    return _ndtri(input)


# -- the gamma function's kin --------------------------------------------------------------------------


def polygamma(n: Any, input: Any, *, out: Any = None) -> Any:
    """The n-th derivative of digamma, n >= 0."""
    if not isinstance(n, int) or isinstance(n, bool):
        raise TypeError(f"polygamma(): argument 'n' (position 1) must be int, not {type(n).__name__}")
    if n < 0:
        raise RuntimeError("polygamma(n, x) does not support negative n.")
    return polygamma_of(input, n=float(n), out=out)


def mvlgamma(input: Any, p: int, *, out: Any = None) -> Any:
    """The logarithm of the multivariate gamma function of dimension p."""
    if p < 1:
        raise RuntimeError(f"mvlgamma: p has to be greater than or equal to 1, got {p}")
    x = input if input._array.dtype.kind == "f" else to_dtype(input, dtypes.get_default_dtype())
    halves = x._make(np.arange(p, dtype=x._array.dtype) * -0.5)
    terms = total(lgamma(add(unsqueeze(x, -1), halves)), -1)
    return into(add(terms, p * (p - 1) / 4 * math.log(math.pi)), out, "mvlgamma")


def _no_slope(g: Any) -> Any:
    raise NotImplementedError(
        "the derivative with respect to the first argument is not known in closed form: detach() it"
    )


def _gamma_slope(g: Any, input: Any, other: Any) -> Any:
    return mul(g, exp(mul(input - 1, log(other)) - other - lgamma(input)))


def _by_scipy(name: str, a: np.ndarray, x: np.ndarray) -> np.ndarray:
    from scipy import special  # takes a tenth of a second to load, and few programs need it

    return np.asarray(getattr(special, name)(a, x)).astype(a.dtype, copy=False)


@kernel_op(input=_no_slope, other=_gamma_slope, name="igamma")
def lower_gamma(input: Any, other: Any) -> Any:
    """The regularized lower incomplete gamma function."""
    return _by_scipy("gammainc", input, other)


@kernel_op(input=_no_slope, other=lambda g, input, other: _gamma_slope(-g, input, other), name="igammac")
def upper_gamma(input: Any, other: Any) -> Any:
    """The regularized upper incomplete gamma function."""
    return _by_scipy("gammaincc", input, other)


@kernel_op(
    input=_no_slope,
    other=lambda g, input, other: mul(g, mul(-input, zeta(input + 1, other))),
    name="zeta",
    node_name="SpecialZetaBackward0",
)
def hurwitz(input: Any, other: Any) -> Any:
    """Hurwitz' zeta function."""
    return _by_scipy("zeta", input, other)


def _incomplete(op: Any, input: Any, other: Any, out: Any, name: str) -> Any:
    for x in (input, other):
        if not isinstance(x, Value):
            raise TypeError(f"{name}(): argument must be Tensor, not {type(x).__name__}")
    to = dtypes.result_type([input, other])
    if not to.is_floating_point:
        raise NotImplementedError(f"\"{name}_cpu\" not implemented for '{to.short}'")
    return into(op(to_dtype(input, to), to_dtype(other, to)), out, name)


def igamma(input: Any, other: Any, *, out: Any = None) -> Any:
    """The regularized lower incomplete gamma function of order ``input`` at ``other``."""
    return _incomplete(lower_gamma, input, other, out, "igamma")


def igammac(input: Any, other: Any, *, out: Any = None) -> Any:
    """The regularized upper incomplete gamma function of order ``input`` at ``other``."""
    return _incomplete(upper_gamma, input, other, out, "igammac")


def zeta(input: Any, other: Any, *, out: Any = None) -> Any:
    """Hurwitz' zeta function: the sum over k >= 0 of (other + k)**-input."""
    if not isinstance(input, Value):
        input = other._make(np.asarray(input, other._array.dtype))
    if not isinstance(other, Value):
        other = input._make(np.asarray(other, input._array.dtype))
    return _incomplete(hurwitz, input, other, out, "zeta")


_logit = elementwise_inplace(log_odds)
_polygamma = elementwise_inplace(polygamma_of)


class SpecialMethods:
    """a.logit(), a.sinc(), ..."""

    __slots__ = ()

    logit, sinc, i0, mvlgamma, igamma, igammac = logit, sinc, i0, mvlgamma, igamma, igammac
    sinc_, i0_ = elementwise_inplace(sinc), elementwise_inplace(i0)

    def polygamma(self, n: int) -> Any:
        """The n-th derivative of digamma."""
        return polygamma(n, self)

    def polygamma_(self, n: int) -> Any:
        """In place: the n-th derivative of digamma."""
        return _polygamma(self, n=float(n))

    def mvlgamma_(self, p: int) -> Any:
        """In place: the logarithm of the multivariate gamma function."""
        return self.copy_(mvlgamma(self, p))  # type: ignore[attr-defined]

    def igamma_(self, other: Any) -> Any:
        """In place: the regularized lower incomplete gamma function."""
        return kernel_inplace(lower_gamma, self, other)

    def igammac_(self, other: Any) -> Any:
        """In place: the regularized upper incomplete gamma function."""
        return kernel_inplace(upper_gamma, self, other)

    def logit_(self, eps: float | None = None) -> Any:
        """In place: log(self / (1 - self))."""
        return _logit(self, eps=-1.0 if eps is None else float(eps))
