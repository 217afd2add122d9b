"""What the formulas of scalar.py are made of: machine instructions, bits, polynomials, rare cases.

Instructions are LLVM intrinsics that have a vector form, so a loop over them is vectorised. Each has
a NumPy twin for ``NUMBA_DISABLE_JIT=1``. They keep the dtype of their first argument; names that
end in ``_f4`` and ``_f8`` are for float32 and float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
from llvmlite import binding, ir
from numba import types
from numba.extending import intrinsic

from .jit import PLAIN, device


def _instruction(name: str, twin: Callable[..., Any], arity: int) -> Any:
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
    dtype = np.float32 if type(a) is np.float32 else np.float64  # a Python number is a float64
    if not (math.isfinite(a) and math.isfinite(b) and math.isfinite(c)):
        return dtype(a * b + c)
    exact = Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))
    if exact == 0:
        return dtype(a * b + c)  # the sign of zero follows the usual rules
    try:
        wide = float(exact)
    except OverflowError:
        return dtype(math.inf if exact > 0 else -math.inf)
    if dtype is np.float64:
        return np.float64(wide)
    # Rounded to float64 first; where that gives the middle between two float32, what was cut off decides.
    near = np.float32(wide)
    if Fraction(wide) == exact or abs(wide - float(near)) * 2 != float(np.spacing(abs(near))):
        return near
    return np.float32(np.nextafter(wide, math.inf if exact > Fraction(wide) else -math.inf))


fma = _instruction("fma", _fma_twin, 3)  # a * b + c, rounded once
sqrt = _instruction("sqrt", np.sqrt, 1)
fabs = _instruction("fabs", np.abs, 1)
floor = _instruction("floor", np.floor, 1)
ceil = _instruction("ceil", np.ceil, 1)
trunc = _instruction("trunc", np.trunc, 1)
rint = _instruction("rint", np.rint, 1)  # half to even
copysign = _instruction("copysign", np.copysign, 2)
maximum = _instruction("maximum", np.maximum, 2)  # NaN if either is
minimum = _instruction("minimum", np.minimum, 2)


@device
def product_f8(a, b):
    """a * b, rounded; a plain product may become part of a sum (contraction) and not be rounded."""
    return fma(a, b, 0.0)


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


def polynomial(dtype: Any, *coefficients: float) -> Any:
    """Device function ``z -> c0 + z (c1 + z (c2 + ...))``, unrolled, with constants of ``dtype``."""
    text = "c0"
    for k in range(1, len(coefficients)):
        text = text.replace(f"c{k - 1}", f"(c{k - 1} + z * c{k})")
    scope: dict[str, Any] = {f"c{k}": dtype(c) for k, c in enumerate(coefficients)}
    exec(f"def polynomial(z):\n    return {text}\n", scope)
    return device(scope["polynomial"])


_WIDTHS = (2, 4, 8, 16)


def rarely(name: str, fn: Callable[..., Any], char: str, arity: int = 1) -> Any:
    """``fn`` of one or two numbers, for use where it is seldom needed.

    Gives a function ``(*numbers, usual)``: it returns ``usual`` if the first number is 0, else
    ``fn(*numbers)``. ``fn`` may have branches and loops; its calls do not keep a loop from being
    vectorised, because LLVM is given vector forms too. Those return ``usual`` at once if all their
    first numbers are 0, and else work on one number after the other.
    """
    if PLAIN:
        return lambda *args: fn(*args[:-1]) if args[0] != 0.0 else args[-1]
    kind = {"f": types.float32, "d": types.float64}[char]
    symbol = f"tapegrad.{name}"

    def emit(context, builder, signature, args):
        compiled = context.compile_subroutine(builder, fn, kind(*[kind] * arity))
        text = _rare_text(symbol, compiled.fndesc.llvm_func_name, char, arity)
        context.active_code_library.add_llvm_module(binding.parse_assembly(text))
        callee = builder.module.globals.get(symbol)
        if callee is None:
            number = context.get_value_type(kind)
            callee = ir.Function(builder.module, ir.FunctionType(number, [number] * (arity + 1)), symbol)
        return builder.call(callee, args)

    def typed(*args):
        return (kind(*args), emit) if all(a == kind for a in args) else None

    if arity == 1:
        return intrinsic(lambda typing, a, usual: typed(a, usual))
    return intrinsic(lambda typing, a, b, usual: typed(a, b, usual))


def _rare_text(symbol: str, scalar: str, char: str, arity: int) -> str:
    """LLVM text of a rare function: its form for one number, and for vectors of several widths.

    The attribute ``vector-function-abi-variant`` tells LLVM's vectoriser of the vector forms, and
    ``llvm.compiler.used`` keeps them until it has run. ``scalar`` is in numba's calling convention.
    """
    kind = {"f": "float", "d": "double"}[char]
    letters = "xy"[:arity]
    numbers = ", ".join(f"{kind} %{v}" for v in letters)
    variants = ",".join(f"_ZGV_LLVM_N{w}v{'v' * arity}_{symbol}({symbol}.{w})" for w in _WIDTHS)
    kept = ", ".join(f'ptr @"{symbol}.{w}"' for w in _WIDTHS)
    parts = [
        f"""
declare i32 @"{scalar}"(ptr, ptr, {", ".join([kind] * arity)})

define linkonce_odr {kind} @"{symbol}"({numbers}, {kind} %usual) #0 {{
  %needed = fcmp une {kind} %x, 0.0
  br i1 %needed, label %work, label %done
work:
  %result = alloca {kind}
  %error = alloca ptr
  %status = call i32 @"{scalar}"(ptr %result, ptr %error, {numbers})
  %value = load {kind}, ptr %result
  ret {kind} %value
done:
  ret {kind} %usual
}}
attributes #0 = {{ noinline nounwind willreturn memory(none) "vector-function-abi-variant"="{variants}" }}
attributes #1 = {{ noinline nounwind willreturn memory(none) }}
@llvm.compiler.used = appending global [{len(_WIDTHS)} x ptr] [{kept}], section "llvm.metadata"
"""
    ]
    for w in _WIDTHS:
        vector = f"<{w} x {kind}>"
        params = ", ".join(f"{vector} %all_{v}" for v in letters) + f", {vector} %usual"
        lanes = "\n".join(f"  %{v} = extractelement {vector} %all_{v}, i32 %lane" for v in letters)
        parts.append(
            f"""
define linkonce_odr {vector} @"{symbol}.{w}"({params}) #1 {{
entry:
  %needed = fcmp une {vector} %all_x, zeroinitializer
  %mask = bitcast <{w} x i1> %needed to i{w}
  %any = icmp ne i{w} %mask, 0
  br i1 %any, label %loop, label %none
none:
  ret {vector} %usual
loop:
  %lane = phi i32 [ 0, %entry ], [ %next, %loop ]
  %sofar = phi {vector} [ %usual, %entry ], [ %more, %loop ]
{lanes}
  %default = extractelement {vector} %usual, i32 %lane
  %value = call {kind} @"{symbol}"({numbers}, {kind} %default)
  %more = insertelement {vector} %sofar, {kind} %value, i32 %lane
  %next = add i32 %lane, 1
  %last = icmp eq i32 %next, {w}
  br i1 %last, label %done, label %loop
done:
  ret {vector} %more
}}
"""
        )
    return "".join(parts)
