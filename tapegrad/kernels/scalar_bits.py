"""Single machine instructions on one number, as LLVM intrinsics with NumPy twins.

Everything here vectorises. The twins serve ``NUMBA_DISABLE_JIT=1``. Functions keep the dtype of
their first argument; the names that end in ``_f4`` and ``_f8`` move between a float and the
integer with the same bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from .jit import PLAIN


def _llvm(name: str, twin: Callable[..., Any], arity: int) -> Any:
    """The LLVM intrinsic ``llvm.name`` on ``arity`` floats of one dtype."""
    if PLAIN:
        return twin

    def emit(context, builder, signature, args):
        kind = args[0].type
        fn = builder.module.declare_intrinsic(f"llvm.{name}", [kind], ir.FunctionType(kind, [kind] * arity))
        return builder.call(fn, args)

    def typed(*floats):
        same = all(f == floats[0] for f in floats)
        return (floats[0](*floats), emit) if same and isinstance(floats[0], types.Float) else None

    if arity == 1:
        return intrinsic(lambda typing, a: typed(a))
    if arity == 2:
        return intrinsic(lambda typing, a, b: typed(a, b))
    return intrinsic(lambda typing, a, b, c: typed(a, b, c))


def _fma_twin(a, b, c):
    if type(a) is np.float32:
        # The product of two float32 is exact in float64; the sum is rounded twice, which differs
        # from one rounding in about one of 2^29 cases, by half a unit in the last place.
        return np.float32(np.float64(a) * np.float64(b) + np.float64(c))
    return _fma_exact(a, b, c)


def _fma_exact(a, b, c):
    from fractions import Fraction  # only debugging runs come here

    if not (math.isfinite(a) and math.isfinite(b) and math.isfinite(c)):
        return a * b + c
    exact = Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))
    if exact == 0:
        return a * b + c
    try:
        return np.float64(float(exact))
    except OverflowError:
        return np.float64(math.copysign(math.inf, exact))


fma = _llvm("fma", _fma_twin, 3)  # a * b + c, rounded once
sqrt = _llvm("sqrt", np.sqrt, 1)
fabs = _llvm("fabs", np.abs, 1)
floor = _llvm("floor", np.floor, 1)
ceil = _llvm("ceil", np.ceil, 1)
trunc = _llvm("trunc", np.trunc, 1)
rint = _llvm("rint", np.rint, 1)
copysign = _llvm("copysign", np.copysign, 2)
maximum = _llvm("maximum", np.maximum, 2)  # NaN if either is
minimum = _llvm("minimum", np.minimum, 2)


def _reinterpret(source: Any, target: Any, twin: Callable[[Any], Any]) -> Any:
    """The same bits as another type; an integer of another width is cut or extended first."""
    if PLAIN:
        return twin

    def emit(context, builder, signature, args):
        value = context.cast(builder, args[0], signature.args[0], source)
        return builder.bitcast(value, context.get_value_type(target))

    def typed(typing, a):
        known = isinstance(a, types.Integer) if isinstance(source, types.Integer) else a == source
        return (target(a), emit) if known else None

    return intrinsic(typed)


bits_f4 = _reinterpret(types.float32, types.int32, lambda x: np.float32(x).view(np.int32))
bits_f8 = _reinterpret(types.float64, types.int64, lambda x: np.float64(x).view(np.int64))
float_f4 = _reinterpret(
    types.int32, types.float32, lambda i: np.asarray(i).astype(np.int32).view(np.float32)[()]
)
float_f8 = _reinterpret(
    types.int64, types.float64, lambda i: np.asarray(i).astype(np.int64).view(np.float64)[()]
)
