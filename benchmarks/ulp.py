"""Largest errors of the functions in tapegrad/kernels/scalar.py, in units in the last place.

    python benchmarks/ulp.py                 all functions, every 97th float32
    python benchmarks/ulp.py exp log --step 1      all 2^32 float32 (minutes per function)
    python benchmarks/ulp.py sin --double 20000    more float64 samples
    python benchmarks/ulp.py --table         the table of docs/accuracy.md

float32 results are compared with float64 functions of NumPy and SciPy, float64 results with mpmath.
An error is |result - true value| divided by the distance of neighbouring floats at the true value; below 0.5
means correctly rounded. Times are for 20000 numbers in cache, one thread.
"""

from __future__ import annotations

import argparse
import time

import mpmath as mp
import numpy as np
from scipy import special

from tapegrad.kernels import scalar
from tapegrad.kernels.jit import from_text

mp.mp.prec = 200

# name: (float64 function, mpmath function, intervals for float64 samples)
ONE = {
    "exp": (np.exp, mp.exp, [(-745.2, 709.8), (-1, 1)]),
    "exp2": (np.exp2, lambda x: mp.mpf(2) ** x, [(-1076, 1025), (-1, 1)]),
    "expm1": (np.expm1, mp.expm1, [(-40, 710), (-1, 1), (-0.4, 0.8)]),
    "log": (np.log, mp.log, [(0, 2), (0.7, 1.5), (0.99, 1.01)]),
    "log2": (np.log2, lambda x: mp.log(x) / mp.log(2), [(0, 2), (0.7, 1.5), (0.99, 1.01)]),
    "log10": (np.log10, mp.log10, [(0, 2), (0.7, 1.5), (0.99, 1.01)]),
    "log1p": (np.log1p, mp.log1p, [(-1, 1), (-0.4, 0.6), (0, 10)]),
    "sin": (np.sin, mp.sin, [(-4, 4), (-100, 100), (-1e5, 1e5), (-1e10, 1e10)]),
    "cos": (np.cos, mp.cos, [(-4, 4), (-100, 100), (-1e5, 1e5), (-1e10, 1e10)]),
    "tan": (np.tan, mp.tan, [(-4, 4), (-100, 100), (-1e5, 1e5), (-1e10, 1e10)]),
    "asin": (np.arcsin, mp.asin, [(-1, 1), (0.4, 0.6), (0.9, 1)]),
    "acos": (np.arccos, mp.acos, [(-1, 1), (0.4, 0.6), (0.9, 1), (-0.1, 0.1)]),
    "atan": (np.arctan, mp.atan, [(-4, 4), (0.3, 0.5), (2, 3)]),
    "sinh": (np.sinh, mp.sinh, [(-711, 711), (-2, 2)]),
    "cosh": (np.cosh, mp.cosh, [(-711, 711), (-2, 2)]),
    "tanh": (np.tanh, mp.tanh, [(-20, 20), (-1, 1), (0, 0.4)]),
    "asinh": (np.arcsinh, mp.asinh, [(-2, 2), (-0.6, 0.6), (0, 100)]),
    "acosh": (np.arccosh, mp.acosh, [(1, 3), (1, 1.1), (1, 100)]),
    "atanh": (np.arctanh, mp.atanh, [(-1, 1), (-0.5, 0.5), (0.4, 0.6)]),
    "sigmoid": (special.expit, lambda x: 1 / (1 + mp.exp(-x)), [(-745, 40), (-5, 5), (-1, 1)]),
    "softplus": (
        lambda x: np.logaddexp(0.0, x),
        lambda x: mp.log1p(mp.exp(x)),
        [(-745, 800), (-5, 5), (-1, 1)],
    ),
    "erf": (special.erf, lambda x: mp.erf(max(-40, min(x, 40))), [(-6, 6), (-1.2, 1.2)]),
    "erfc": (
        special.erfc,
        lambda x: mp.erfc(max(x, -40)) if x < 40 else mp.mpf(0),
        [(-6, 28), (-1.2, 1.2), (0, 10)],
    ),
    "erfinv": (special.erfinv, mp.erfinv, [(-1, 1), (0.9, 1), (0.99999, 1)]),
    "lgamma": (
        special.gammaln,
        lambda x: mp.loggamma(x).real if x > 0 else mp.log(abs(mp.gamma(x))),
        [(0, 3), (0.8, 2.2), (2, 20), (0, 100)],
    ),
    "digamma": (special.digamma, mp.digamma, [(0, 3), (1, 2), (2, 20), (0, 100)]),
    "trigamma": (lambda x: special.zeta(2.0, x), lambda x: mp.psi(1, x), [(0, 3), (1, 2), (2, 20), (0, 100)]),
    "i0": (special.i0, lambda x: mp.besseli(0, max(-800, min(x, 800))), [(-20, 20), (0, 710)]),
    "i1": (special.i1, lambda x: mp.besseli(1, max(-800, min(x, 800))), [(-20, 20), (0, 710)]),
    "sqrt": (np.sqrt, mp.sqrt, [(0, 2)]),
    "rsqrt": (lambda x: 1 / np.sqrt(x), lambda x: 1 / mp.sqrt(x), [(0, 2)]),
}
TWO = {
    "pow": (np.power, lambda x, y: x**y),
    "atan2": (np.arctan2, mp.atan2),
    "fmod": (np.fmod, lambda x, y: mp.sign(x) * mp.fmod(abs(x), abs(y))),
    "remainder": (np.remainder, lambda x, y: mp.fmod(mp.fmod(x, y) + y, y)),
}


def kernel(name: str, dtype: str):
    params, values = ("a, b", "a[i], b[i]") if name in TWO else ("a", "a[i]")
    full = f"{name}_{dtype}"
    text = f"""\
def f({params}, out, start, stop):
    for i in range(start, stop):
        out[i] = {full}({values})
"""
    return from_text("f", text, {full: getattr(scalar, full)})


def errors_f4(got: np.ndarray, true: np.ndarray) -> np.ndarray:
    """Errors of float32 results; true values are float64. Infinity counts as 2^128."""
    edge = 2.0**128
    with np.errstate(all="ignore"):
        g = np.clip(got.astype("f8"), -edge, edge)
        t = np.clip(true, -edge, edge)
        unit = np.exp2(np.maximum(np.frexp(t)[1] - 1, -126) - 23.0)
        error = abs(g - t) / unit
    error[np.isnan(got) & np.isnan(true)] = 0
    error[np.isnan(got) != np.isnan(true)] = np.inf
    return error


def error_f8(got: float, true) -> float:
    """Error of a float64 result; the true value is an mpmath number."""
    if isinstance(true, mp.mpc):
        true = mp.nan if true.imag != 0 else true.real
    if mp.isnan(true) or got != got:
        return 0.0 if mp.isnan(true) and got != got else float("inf")
    edge = mp.mpf(2) ** 1024
    g = mp.sign(got) * edge if abs(got) == float("inf") else mp.mpf(got)
    t = max(-edge, min(edge, true))
    exponent = max(int(mp.frexp(t)[1]) - 1, -1022) if t else -1022
    return float(abs(g - t) / mp.mpf(2) ** (min(exponent, 1023) - 52))


def worst_f4(name: str, step: int, positive: bool) -> tuple[float, float]:
    """Largest error over every step-th float32, and where."""
    fn, run = ONE[name][0], kernel(name, "f4")
    worst, where = 0.0, 0.0
    chunk = step << 20
    for start in range(0, 0x7F800001 if positive else 1 << 32, chunk):
        stop = min(start + chunk, 1 << 32)
        x = np.arange(start, stop, step, dtype=np.uint64).astype(np.uint32).view(np.float32)
        out = np.empty_like(x)
        run(x, out, 0, x.size)
        with np.errstate(all="ignore"):
            error = errors_f4(out, fn(x.astype("f8")))
        j = int(np.argmax(error))
        if error[j] > worst:
            worst, where = float(error[j]), float(x[j])
    return worst, where


def samples_f8(name: str, count: int) -> np.ndarray:
    """All exponents, the intervals of the table, and neighbours of multiples of pi/2."""
    rng = np.random.default_rng(1)
    parts = [rng.integers(0, 2**64, count, dtype=np.uint64).view(np.float64)]
    parts += [rng.uniform(a, b, count) for a, b in ONE[name][2]]
    parts.append(np.exp(rng.uniform(-40, 8, count)) * rng.choice([-1, 1], count))
    if name in ("sin", "cos", "tan"):
        turns = np.concatenate([np.arange(1, 60), np.round(np.exp(rng.uniform(0, 21, 400)))]) * (np.pi / 2)
        hard = np.array([6381956970095103.0 * 2.0**797, 5.319372648326541e255, 1e22])
        parts += [turns, np.nextafter(turns, 0), np.nextafter(turns, np.inf), hard]
    x = np.concatenate(parts)
    return x[np.isfinite(x)]


def worst_f8(name: str, count: int) -> tuple[float, float]:
    fn, x = ONE[name][1], samples_f8(name, count)
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
        with np.errstate(all="ignore"):
            error = errors_f4(out, TWO[name][0](a.astype("f8"), b.astype("f8")))
    else:
        with mp.workprec(2400 if name in ("fmod", "remainder") else 200):
            error = np.array(
                [
                    error_f8(g, TWO[name][1](mp.mpf(x), mp.mpf(y)))
                    for x, y, g in zip(a.tolist(), b.tolist(), out.tolist(), strict=True)
                ]
            )
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
            e4, x4 = worst_f4(name, options.step, name in ("lgamma", "digamma", "trigamma"))
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
