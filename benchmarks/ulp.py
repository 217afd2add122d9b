"""Largest errors of the functions in tapegrad/kernels/scalar.py, in units in the last place.

    python benchmarks/ulp.py                     all functions, every 97th float32
    python benchmarks/ulp.py exp log --step 1    all 2^32 float32 (about a minute per function)
    python benchmarks/ulp.py sin --double 20000  more float64 samples
    python benchmarks/ulp.py --table             the table of docs/accuracy.md

float64 results are compared with mpmath, float32 results with the float64 function of the same name. An
error is |result - true value| divided by the distance of neighbouring floats at the true value; up to 0.5
means correctly rounded. Times are for 20000 numbers in cache, one thread.
"""

from __future__ import annotations

import argparse
import math
import time

import mpmath as mp
import numpy as np

from tapegrad.kernels import scalar
from tapegrad.kernels.jit import Kernel, from_text
from tapegrad.kernels.scalar_bits import bits_f8, float_f8

mp.mp.prec = 200

# name: (mpmath function, intervals for float64 samples)
ONE = {
    "exp": (mp.exp, [(-745.2, 709.8), (-1, 1)]),
    "exp2": (lambda x: mp.mpf(2) ** x, [(-1076, 1025), (-1, 1)]),
    "expm1": (mp.expm1, [(-40, 710), (-1, 1), (-0.4, 0.8)]),
    "log": (mp.log, [(0, 2), (0.7, 1.5), (0.99, 1.01)]),
    "log2": (lambda x: mp.log(x) / mp.log(2), [(0, 2), (0.7, 1.5), (0.99, 1.01)]),
    "log10": (mp.log10, [(0, 2), (0.7, 1.5), (0.99, 1.01)]),
    "log1p": (mp.log1p, [(-1, 1), (-0.4, 0.6), (0, 10)]),
    "sin": (mp.sin, [(-4, 4), (-100, 100), (-1e5, 1e5), (-1e10, 1e10)]),
    "cos": (mp.cos, [(-4, 4), (-100, 100), (-1e5, 1e5), (-1e10, 1e10)]),
    "tan": (mp.tan, [(-4, 4), (-100, 100), (-1e5, 1e5), (-1e10, 1e10)]),
    "asin": (mp.asin, [(-1, 1), (0.4, 0.6), (0.9, 1)]),
    "acos": (mp.acos, [(-1, 1), (0.4, 0.6), (0.9, 1), (-0.1, 0.1)]),
    "atan": (mp.atan, [(-4, 4), (0.3, 0.5), (2, 3)]),
    "sinh": (mp.sinh, [(-711, 711), (-2, 2)]),
    "cosh": (mp.cosh, [(-711, 711), (-2, 2)]),
    "tanh": (mp.tanh, [(-20, 20), (-1, 1), (0, 0.4)]),
    "asinh": (mp.asinh, [(-2, 2), (-0.6, 0.6), (0, 100)]),
    "acosh": (mp.acosh, [(1, 3), (1, 1.1), (1, 100)]),
    "atanh": (mp.atanh, [(-1, 1), (-0.5, 0.5), (0.4, 0.6)]),
    "sigmoid": (lambda x: 1 / (1 + mp.exp(-x)), [(-745, 40), (-5, 5), (-1, 1)]),
    "softplus": (lambda x: mp.log1p(mp.exp(x)), [(-745, 800), (-5, 5), (-1, 1)]),
    "erf": (lambda x: mp.erf(max(-40, min(x, 40))), [(-6, 6), (-1.2, 1.2)]),
    "erfc": (lambda x: mp.erfc(max(-40, min(x, 40))), [(-6, 28), (-1.2, 1.2), (0, 10)]),
    "erfinv": (mp.erfinv, [(-1, 1), (0.9, 1), (0.99999, 1)]),
    "lgamma": (lambda x: mp.loggamma(x).real, [(0, 3), (0.8, 2.2), (2, 20), (0, 100)]),
    "digamma": (mp.digamma, [(0, 3), (1, 2), (2, 20), (0, 100)]),
    "trigamma": (lambda x: mp.psi(1, x), [(0, 3), (1, 2), (2, 20), (0, 100)]),
    "i0": (lambda x: mp.besseli(0, max(-800, min(x, 800))), [(-20, 20), (0, 710)]),
    "i1": (lambda x: mp.besseli(1, max(-800, min(x, 800))), [(-20, 20), (0, 710)]),
    "sqrt": (mp.sqrt, [(0, 2)]),
    "rsqrt": (lambda x: 1 / mp.sqrt(x), [(0, 2)]),
}
TWO = {
    "pow": lambda x, y: x**y,
    "atan2": mp.atan2,
    "fmod": lambda x, y: mp.sign(x) * mp.fmod(abs(x), abs(y)),
    "remainder": lambda x, y: mp.fmod(mp.fmod(x, y) + y, y),
}


def kernel(name: str, dtype: str) -> Kernel:
    params, values = ("a, b", "a[i], b[i]") if name in TWO else ("a", "a[i]")
    full = f"{name}_{dtype}"
    text = f"""\
def f({params}, out, start, stop):
    for i in range(start, stop):
        out[i] = {full}({values})
"""
    return from_text("f", text, {full: getattr(scalar, full)})


# Infinity counts as the largest float, and so does more than that; two NaN agree.
_ERRORS = """\
def errors(got, true, out, start, stop):
    for i in range(start, stop):
        g, t = float64(got[i]), true[i]
        g = min(max(g, -3.402823669209385e38), 3.402823669209385e38) if g == g else g
        t = min(max(t, -3.402823669209385e38), 3.402823669209385e38) if t == t else t
        exponent = ((bits_f8(t) >> 52) & 2047) - 1023
        exponent = -126 if exponent < -126 else exponent
        error = abs(g - t) * float_f8((1023 + 23 - exponent) << 52)
        out[i] = error if error == error else (0.0 if g != g and t != t else 1e308)
"""
errors_f4 = from_text("errors", _ERRORS, {"bits_f8": bits_f8, "float_f8": float_f8, "float64": np.float64})


def error_f8(got: float, true) -> float:
    """Error of a float64 result; the true value is an mpmath number."""
    if isinstance(true, mp.mpc):
        true = mp.nan if true.imag != 0 else true.real
    if mp.isnan(true) or math.isnan(got):
        return 0.0 if mp.isnan(true) and math.isnan(got) else float("inf")
    edge = mp.mpf(2) ** 1024
    g = mp.sign(got) * edge if abs(got) == float("inf") else mp.mpf(got)
    t = max(-edge, min(edge, true))
    exponent = max(int(mp.frexp(t)[1]) - 1, -1022) if t else -1022
    return float(abs(g - t) / mp.mpf(2) ** (min(exponent, 1023) - 52))


def worst_f4(name: str, step: int) -> tuple[float, float]:
    """Largest error over every step-th float32, and where."""
    run, true_run = kernel(name, "f4"), kernel(name, "f8")
    worst, where = 0.0, 0.0
    block = 1 << 18
    out, true, error = np.empty(block, np.float32), np.empty(block), np.empty(block)
    for start in range(0, 1 << 32, block * step):
        x = np.arange(start, min(start + block * step, 1 << 32), step, dtype=np.uint32).view(np.float32)
        with np.errstate(invalid="ignore"):
            wide = x.astype(np.float64)
        run(x, out, 0, x.size)
        true_run(wide, true, 0, x.size)
        errors_f4(out, true, error, 0, x.size)
        j = int(np.argmax(error[: x.size]))
        if error[j] > worst:
            worst, where = float(error[j]), float(x[j])
    return worst, where


def samples_f8(name: str, count: int) -> np.ndarray:
    """All exponents, the intervals of the table, and neighbours of multiples of pi/2."""
    rng = np.random.default_rng(1)
    parts = [rng.integers(0, 2**64, count, dtype=np.uint64).view(np.float64)]
    parts += [rng.uniform(a, b, count) for a, b in ONE[name][1]]
    parts.append(np.exp(rng.uniform(-40, 8, count)) * rng.choice([-1, 1], count))
    if name in ("sin", "cos", "tan"):
        turns = np.concatenate([np.arange(1, 60), np.round(np.exp(rng.uniform(0, 21, 400)))]) * (np.pi / 2)
        hard = np.array([6381956970095103.0 * 2.0**797, 5.319372648326541e255, 1e22])
        parts += [turns, np.nextafter(turns, 0), np.nextafter(turns, np.inf), hard]
    x = np.concatenate(parts)
    return x[np.isfinite(x)]


def worst_f8(name: str, count: int) -> tuple[float, float]:
    fn, x = ONE[name][0], samples_f8(name, count)
    if name in ("lgamma", "digamma", "trigamma"):
        x = x[x > 0]
        x = x[(x < 1e300) & (x > 1e-150)]
    out = np.empty_like(x)
    kernel(name, "f8")(x, out, 0, x.size)
    worst, where = 0.0, 0.0
    for a, got in zip(x.tolist(), out.tolist(), strict=True):
        try:
            true = fn(mp.mpf(a))
        except (ZeroDivisionError, ValueError):  # a pole
            continue
        error = error_f8(got, true)
        if error > worst:
            worst, where = error, a
    return worst, where


def pairs(name: str, dtype: str, count: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(2)
    wide = 30 if dtype == "f4" else 200
    a = np.exp(rng.uniform(-wide, wide, count)) * rng.choice([-1, 1], count)
    b = np.exp(rng.uniform(-wide, wide, count)) * rng.choice([-1, 1], count)
    if name == "pow":
        a = np.concatenate([abs(a), rng.uniform(0, 4, count), rng.uniform(0.99, 1.01, count)])
        b = np.concatenate([b, rng.uniform(-40, 40, count), rng.uniform(-3000, 3000, count)])
        # Results near the limits of the range have the largest logarithms.
        log = np.log(a[:count])
        b[: count // 2] = (rng.uniform(0.9, 1.0, count) * (87 if dtype == "f4" else 708) / log)[: count // 2]
    else:
        a = np.concatenate([a, rng.uniform(-10, 10, count)])
        b = np.concatenate([b, rng.uniform(-10, 10, count)])
    return a.astype(dtype), b.astype(dtype)


def worst_two(name: str, dtype: str, count: int) -> tuple[float, tuple[float, float]]:
    a, b = pairs(name, dtype, count)
    out = np.empty_like(a)
    kernel(name, dtype)(a, b, out, 0, a.size)
    if dtype == "f4":
        true, error = np.empty(a.size), np.empty(a.size)
        kernel(name, "f8")(a.astype("f8"), b.astype("f8"), true, 0, a.size)
        errors_f4(out, true, error, 0, a.size)
    else:
        with mp.workprec(2400 if name in ("fmod", "remainder") else 200):
            rows = zip(a.tolist(), b.tolist(), out.tolist(), strict=True)
            error = np.array([error_f8(g, TWO[name](mp.mpf(x), mp.mpf(y))) for x, y, g in rows])
    j = int(np.argmax(error))
    return float(error[j]), (float(a[j]), float(b[j]))


def nanoseconds(name: str, dtype: str, count: int = 20000) -> float:
    rng = np.random.default_rng(0)
    a = rng.normal(size=count)
    if name in ("asin", "acos", "atanh", "erfinv"):
        a = rng.uniform(-1, 1, count)
    elif name in ("log", "log2", "log10", "sqrt", "rsqrt", "lgamma", "digamma", "trigamma", "pow", "acosh"):
        a = 1.0 * (name == "acosh") + 3 * abs(a)
    arrays = [a.astype(dtype)] + [rng.normal(size=count).astype(dtype)] * (name in TWO)
    out, run = np.empty(count, dtype), kernel(name, dtype)
    best = np.inf
    for _ in range(100):
        start = time.perf_counter()
        run(*arrays, out, 0, count)
        best = min(best, time.perf_counter() - start)
    return best * 1e9 / count


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="name")
    parser.add_argument("--step", type=int, default=97, help="every which float32 (1: all)")
    parser.add_argument("--double", type=int, default=2000, help="float64 samples per interval")
    parser.add_argument("--table", action="store_true", help="print Markdown")
    options = parser.parse_args()
    if options.table:
        print("| function | float32, ulp | float64, ulp | float32, ns | float64, ns |")
        print("| --- | --- | --- | --- | --- |")
    for name in options.names or [*ONE, *TWO]:
        if name in TWO:
            e4, x4 = worst_two(name, "f4", 100 * options.double)
            e8, x8 = worst_two(name, "f8", options.double)
        else:
            e4, x4 = worst_f4(name, options.step)
            e8, x8 = worst_f8(name, options.double)
        t4, t8 = nanoseconds(name, "f4"), nanoseconds(name, "f8")
        if options.table:
            print(f"| {name} | {e4:.2f} | {e8:.2f} | {t4:.2f} | {t8:.2f} |", flush=True)
        else:
            print(
                f"{name:10s} f4 {e4:.3f} at {x4!r}  f8 {e8:.3f} at {x8!r}  ns {t4:.2f} {t8:.2f}", flush=True
            )


if __name__ == "__main__":
    main()
