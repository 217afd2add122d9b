"""One line per elementwise op: its twin in NumPy, and the intervals from which its operands are drawn.

An op that is missing here fails ``test_every_elementwise_op_has_samples``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.special as sp


class Sample(NamedTuple):
    """What is needed to test one op."""

    twin: Callable[..., Any]
    domains: tuple[tuple[float, float], ...] = ((-3.0, 3.0),)
    params: dict[str, float] = {}  # noqa: RUF012 - never changed
    second: bool = True  # whether second derivatives are checked by finite differences


WIDE, POSITIVE, UNIT, OPEN = (-3.0, 3.0), (0.2, 4.0), (-0.9, 0.9), (0.05, 0.95)
TWO = (WIDE, WIDE)


def _sigmoid(x: Any) -> Any:
    return sp.expit(x)


def _softplus(x: Any, beta: float = 1.0, threshold: float = 20.0) -> Any:
    return np.where(x * beta > threshold, x, np.logaddexp(0, x * beta) / beta)


SAMPLES: dict[str, Sample] = {
    # arithmetic
    "add": Sample(np.add, TWO),
    "sub": Sample(np.subtract, TWO),
    "mul": Sample(np.multiply, TWO),
    "div": Sample(np.divide, (WIDE, POSITIVE)),
    "div_trunc": Sample(lambda a, b: np.trunc(a / b), (WIDE, POSITIVE)),
    "floor_divide": Sample(np.floor_divide, (WIDE, POSITIVE)),
    "floor_quotient": Sample(np.floor_divide, (WIDE, POSITIVE)),
    "trunc_quotient": Sample(lambda a, b: np.trunc(a / b), (WIDE, POSITIVE)),
    "remainder": Sample(np.mod, (WIDE, POSITIVE)),
    "fmod": Sample(np.fmod, (WIDE, POSITIVE)),
    "pow": Sample(np.power, (POSITIVE, WIDE)),
    "square": Sample(np.square),
    "cube": Sample(lambda x: x**3),
    "neg": Sample(np.negative),
    "nothing": Sample(np.zeros_like),
    "maximum": Sample(np.maximum, TWO),
    "minimum": Sample(np.minimum, TWO),
    "fmax": Sample(np.fmax, TWO),
    "fmin": Sample(np.fmin, TWO),
    "clamp_min": Sample(np.maximum, TWO),
    "clamp_max": Sample(np.minimum, TWO),
    "clamp": Sample(lambda x, a, b: np.clip(x, a, b), (WIDE, (-2.0, -1.0), (1.0, 2.0))),
    "atan2": Sample(np.arctan2, (POSITIVE, POSITIVE)),
    "hypot": Sample(np.hypot, (POSITIVE, POSITIVE)),
    "copysign": Sample(np.copysign, TWO),
    # comparisons and bits: no gradient
    **{
        n: Sample(f, TWO)
        for n, f in {
            "eq": np.equal,
            "ne": np.not_equal,
            "lt": np.less,
            "le": np.less_equal,
            "gt": np.greater,
            "ge": np.greater_equal,
            "logical_and": np.logical_and,
            "logical_or": np.logical_or,
            "logical_xor": np.logical_xor,
        }.items()
    },
    "logical_not": Sample(np.logical_not),
    "isnan": Sample(np.isnan),
    "isinf": Sample(np.isinf),
    "isfinite": Sample(np.isfinite),
    # functions of one number
    "exp": Sample(np.exp),
    "exp2": Sample(np.exp2),
    "expm1": Sample(np.expm1),
    "log": Sample(np.log, (POSITIVE,)),
    "log2": Sample(np.log2, (POSITIVE,)),
    "log10": Sample(np.log10, (POSITIVE,)),
    "log1p": Sample(np.log1p, (POSITIVE,)),
    "sqrt": Sample(np.sqrt, (POSITIVE,)),
    "rsqrt": Sample(lambda x: 1 / np.sqrt(x), (POSITIVE,)),
    "reciprocal": Sample(np.reciprocal, (POSITIVE,)),
    "sin": Sample(np.sin),
    "cos": Sample(np.cos),
    "tan": Sample(np.tan, ((-1.2, 1.2),)),
    "asin": Sample(np.arcsin, (UNIT,)),
    "acos": Sample(np.arccos, (UNIT,)),
    "atan": Sample(np.arctan),
    "sinh": Sample(np.sinh),
    "cosh": Sample(np.cosh),
    "tanh": Sample(np.tanh),
    "asinh": Sample(np.arcsinh),
    "acosh": Sample(np.arccosh, ((1.2, 4.0),)),
    "atanh": Sample(np.arctanh, (UNIT,)),
    "sigmoid": Sample(_sigmoid),
    "erf": Sample(sp.erf),
    "erfc": Sample(sp.erfc),
    "erfinv": Sample(sp.erfinv, (UNIT,)),
    "lgamma": Sample(sp.gammaln, (POSITIVE,)),
    "digamma": Sample(sp.digamma, (POSITIVE,)),
    "abs": Sample(np.abs),
    "sign": Sample(np.sign),
    "floor": Sample(np.floor),
    "ceil": Sample(np.ceil),
    "trunc": Sample(np.trunc),
    "round": Sample(np.round),
    "frac": Sample(lambda x: x - np.trunc(x)),
    # activations
    "linked": Sample(lambda x, by: x, TWO),
    "relu": Sample(lambda x: np.maximum(x, 0)),
    "hardtanh_symmetric": Sample(lambda x, bound: np.clip(x, -bound, bound), (WIDE, POSITIVE)),
    "relu6": Sample(lambda x: np.clip(x, 0, 6), ((-3.0, 9.0),)),
    "leaky_relu": Sample(lambda x, slope: np.where(x > 0, x, slope * x), TWO),
    "rrelu": Sample(lambda x, slope: np.where(x > 0, x, slope * x), TWO),
    "prelu": Sample(lambda x, slope: np.where(x > 0, x, slope * x), TWO),
    "elu": Sample(lambda x, alpha: np.where(x > 0, x, alpha * np.expm1(x)), (WIDE, POSITIVE)),
    "selu": Sample(lambda x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(x))),
    "gelu": Sample(lambda x: x * sp.ndtr(x)),
    "gelu_slope": Sample(lambda x: sp.ndtr(x) + x * np.exp(-x * x / 2) / np.sqrt(2 * np.pi)),
    "gelu_tanh": Sample(lambda x: 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))),
    "glu": Sample(lambda a, b: a * _sigmoid(b), TWO),
    "log1p_exp": Sample(lambda x: np.logaddexp(0, x)),
    "softplus": Sample(lambda x, threshold: np.where(x > threshold, x, np.logaddexp(0, x)), (WIDE, POSITIVE)),
    "hardshrink": Sample(lambda x, lambd: np.where(np.abs(x) > lambd, x, 0), (WIDE, POSITIVE)),
    "softshrink": Sample(lambda x, lambd: np.sign(x) * np.maximum(np.abs(x) - lambd, 0), (WIDE, POSITIVE)),
    "silu": Sample(lambda x: x * _sigmoid(x)),
    "softsign": Sample(lambda x: x / (1 + np.abs(x))),
    "mish": Sample(lambda x: x * np.tanh(_softplus(x))),
    "tanhshrink": Sample(lambda x: x - np.tanh(x)),
    "hardswish": Sample(lambda x: x * np.clip(x + 3, 0, 6) / 6),
    "hardsigmoid": Sample(lambda x: np.clip(x / 6 + 0.5, 0, 1)),
    "log_sigmoid": Sample(lambda x: -np.logaddexp(0, -x)),
    # several operands
    "lerp": Sample(lambda a, b, w: a + w * (b - a), (WIDE, WIDE, (0.1, 0.4))),
    "addcmul": Sample(lambda x, a, b, value: x + value * a * b, (WIDE,) * 3, {"value": 0.7}),
    "addcdiv": Sample(lambda x, a, b, value: x + value * a / b, (WIDE, WIDE, POSITIVE), {"value": 0.7}),
    "logaddexp": Sample(np.logaddexp, TWO),
    "logaddexp2": Sample(np.logaddexp2, TWO),
    "xlogy": Sample(sp.xlogy, (WIDE, POSITIVE)),
    "xlog1py": Sample(sp.xlog1py, (WIDE, POSITIVE)),
    "deg2rad": Sample(np.deg2rad),
    "rad2deg": Sample(np.rad2deg),
    "step": Sample(np.heaviside, TWO),
    "nan_to_num": Sample(lambda x, **_: x, (WIDE,), {"nan": 0.0, "posinf": 9.0, "neginf": -9.0}),
    "round_decimals": Sample(lambda x, **_: np.round(x, 1), (WIDE,), {"scale": 10.0, "inverse": 0.0}),
    "meets": Sample(np.equal, TWO),
    "signbit": Sample(np.signbit),
    "isneginf": Sample(np.isneginf),
    "isposinf": Sample(np.isposinf),
    "isreal": Sample(np.isreal),
    "sgn": Sample(np.sign),
    "angle": Sample(np.angle),
    # special functions
    "logit": Sample(lambda x, eps: sp.logit(x), (OPEN,), {"eps": -1.0}),
    "sinc": Sample(np.sinc, (POSITIVE,)),
    "i0": Sample(sp.i0),
    "i1": Sample(sp.i1, (POSITIVE,)),
    "i0e": Sample(sp.i0e, (POSITIVE,)),
    "i1e": Sample(sp.i1e, (POSITIVE,)),
    "entr": Sample(sp.entr, (POSITIVE,)),
    "erfcx": Sample(sp.erfcx),
    "ndtr": Sample(sp.ndtr),
    "log_ndtr": Sample(sp.log_ndtr),
    "ndtri": Sample(sp.ndtri, (OPEN,)),
    "polygamma": Sample(lambda x, n: sp.polygamma(int(n), x), (POSITIVE,), {"n": 2.0}),
    # losses of one element
    "mse_loss": Sample(lambda x, t: (x - t) ** 2, TWO),
    "l1_loss": Sample(lambda x, t: np.abs(x - t), TWO),
    "binary_cross_entropy": Sample(lambda x, t: -(t * np.log(x) + (1 - t) * np.log(1 - x)), (OPEN, OPEN)),
    "binary_cross_entropy_with_logits": Sample(
        lambda x, t, w: (1 - t) * x + (1 + (w - 1) * t) * np.logaddexp(0, -x), (WIDE, OPEN, POSITIVE)
    ),
}
