"""kernels/scalar.py: accuracy, special values, exactness, vector instructions, and plain Python."""

from __future__ import annotations

import itertools
import json
import math
import os
import re
import subprocess
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy import special

from tapegrad.kernels import cache, scalar
from tapegrad.kernels.jit import Kernel, from_text

INF, NAN = math.inf, math.nan


class Check(NamedTuple):
    """What is expected of a function of one number."""

    exact: Callable[[Any], Any]  # in float64
    precise: str  # for mpmath, in terms of mp and x
    low: float  # interval of dense samples
    high: float
    limit_f4: float  # largest errors in units in the last place
    limit_f8: float


CHECKS = {
    "exp": Check(np.exp, "mp.exp(x)", -5, 5, 1.1, 1.1),
    "exp2": Check(np.exp2, "mp.mpf(2) ** x", -5, 5, 1, 1),
    "expm1": Check(np.expm1, "mp.expm1(x)", -1, 1, 1.7, 1.7),
    "log": Check(np.log, "mp.log(x)", 0.3, 3, 1, 1),
    "log2": Check(np.log2, "mp.log(x) / mp.log(2)", 0.3, 3, 1.4, 1.3),
    "log10": Check(np.log10, "mp.log10(x)", 0.3, 3, 1.4, 1.3),
    "log1p": Check(np.log1p, "mp.log1p(x)", -0.5, 1, 1.6, 1.4),
    "sin": Check(np.sin, "mp.sin(x)", -50, 50, 1.7, 1.1),
    "cos": Check(np.cos, "mp.cos(x)", -50, 50, 1.7, 1.1),
    "tan": Check(np.tan, "mp.tan(x)", -50, 50, 1.2, 1.4),
    "asin": Check(np.arcsin, "mp.asin(x)", -1, 1, 1.8, 1.6),
    "acos": Check(np.arccos, "mp.acos(x)", -1, 1, 1.3, 1.3),
    "atan": Check(np.arctan, "mp.atan(x)", -4, 4, 1.4, 1.9),
    "sinh": Check(np.sinh, "mp.sinh(x)", -3, 3, 1.8, 1.6),
    "cosh": Check(np.cosh, "mp.cosh(x)", -3, 3, 1.6, 1.4),
    "tanh": Check(np.tanh, "mp.tanh(x)", -3, 3, 1.4, 1.3),
    "asinh": Check(np.arcsinh, "mp.asinh(x)", -3, 3, 0.6, 1.7),
    "acosh": Check(np.arccosh, "mp.acosh(x)", 1, 3, 0.6, 2),
    "atanh": Check(np.arctanh, "mp.atanh(x)", -1, 1, 0.6, 1.6),
    "sigmoid": Check(special.expit, "1 / (1 + mp.exp(-x))", -20, 20, 2, 1.7),
    "softplus": Check(lambda x: np.logaddexp(0.0, x), "mp.log1p(mp.exp(x))", -5, 5, 1.9, 1.7),
    "erf": Check(special.erf, "mp.erf(max(-40, min(x, 40)))", -4, 4, 1.3, 1.2),
    "erfc": Check(special.erfc, "mp.erfc(max(-40, min(x, 40)))", -4, 10, 0.6, 1.9),
    "erfinv": Check(special.erfinv, "mp.erfinv(x)", -1, 1, 2, 1.9),
    "lgamma": Check(special.gammaln, "mp.loggamma(x).real", 0.001, 12, 0.6, 1.4),
    "digamma": Check(special.digamma, "mp.digamma(x)", 0.001, 12, 0.6, 2),
    "trigamma": Check(lambda x: special.zeta(2.0, x), "mp.psi(1, x)", 0.001, 12, 0.6, 2),
    "i0": Check(special.i0, "mp.besseli(0, max(-720, min(x, 720)))", -30, 30, 0.6, 2),
    "i1": Check(special.i1, "mp.besseli(1, max(-720, min(x, 720)))", -30, 30, 0.6, 2),
    "sqrt": Check(np.sqrt, "mp.sqrt(x)", 0, 4, 0.5, 0.5),
    "rsqrt": Check(lambda x: 1 / np.sqrt(x), "1 / mp.sqrt(x)", 0, 4, 1.5, 1.5),
}
GAMMA = ("lgamma", "digamma", "trigamma")  # near zeros at negative numbers their own tests hold
PAIRS = ["pow", "atan2", "fmod", "remainder", "copysign", "maximum", "minimum", "fmax", "fmin"]


def kernel(name: str, dtype: str, more: str = "") -> Kernel:
    params, values = ("a, b", "a[i], b[i]") if name in PAIRS else ("a", "a[i]")
    full = f"{name}_{dtype}"
    loop = f"    for i in range(start, stop):\n        out[i] = {full}({values})\n{more}"
    return from_text("f", f"def f({params}, out, start, stop):\n{loop}", {full: getattr(scalar, full)})


def run(name: str, *arrays: np.ndarray) -> np.ndarray:
    out = np.empty_like(arrays[0])
    kernel(name, "f4" if out.dtype == np.float32 else "f8")(*arrays, out, 0, out.size)
    return out


def errors_f4(got: np.ndarray, true: np.ndarray) -> np.ndarray:
    """Errors in units in the last place; overflow counts as 2^128."""
    with np.errstate(all="ignore"):
        g, t = (np.clip(v.astype(np.float64), -(2.0**128), 2.0**128) for v in (got, true))
        error = abs(g - t) / np.exp2(np.maximum(np.frexp(t)[1] - 1, -126) - 23.0)
    error[np.isnan(got) & np.isnan(true)] = 0
    error[np.isnan(got) != np.isnan(true)] = INF
    return error


def error_f8(mp: Any, got: float, true: Any) -> float:
    if isinstance(true, mp.mpc):
        true = mp.nan if true.imag != 0 else true.real
    if mp.isnan(true) or math.isnan(got):
        return 0.0 if mp.isnan(true) and math.isnan(got) else INF
    edge = mp.mpf(2) ** 1024
    g, t = (max(-edge, min(edge, mp.mpf(v))) for v in (got, true))
    exponent = max(int(mp.frexp(t)[1]) - 1, -1022) if t else -1022
    return float(abs(g - t) / mp.mpf(2) ** (min(exponent, 1023) - 52))


def assert_same(got: np.ndarray, expected: np.ndarray, *inputs: np.ndarray) -> None:
    """Bit for bit, except that one NaN is like another."""
    same = ((got == expected) & (np.signbit(got) == np.signbit(expected))) | (
        np.isnan(got) & np.isnan(expected)
    )
    shown = [
        (*(float(a[j]) for a in inputs), float(got[j]), float(expected[j])) for j in np.flatnonzero(~same)
    ]
    assert not shown, f"inputs, got, expected: {shown[:8]}"


@pytest.mark.parametrize("name", CHECKS)
def test_float32_over_all_exponents(name: str) -> None:
    check = CHECKS[name]
    patterns = np.arange(0, 2**32, 30011, dtype=np.uint64).astype(np.uint32).view(np.float32)
    dense = np.random.default_rng(0).uniform(check.low, check.high, 60_000).astype(np.float32)
    x = np.concatenate([patterns, dense])
    if name in GAMMA:
        x = x[~(x < 0)]
    with np.errstate(all="ignore"):
        true = check.exact(x.astype(np.float64))
    error = errors_f4(run(name, x), true)
    worst = int(np.argmax(error))
    assert error[worst] <= check.limit_f4, f"{error[worst]:.2f} ulp at {x[worst]!r}"


@pytest.mark.parametrize("name", CHECKS)
def test_float64_against_many_digits(name: str) -> None:
    mp = pytest.importorskip("mpmath", reason="mpmath is the oracle of float64 results").mp
    check, random = CHECKS[name], np.random.default_rng(1)
    patterns = random.integers(0, 2**64, 100, dtype=np.uint64).view(np.float64)
    x = np.concatenate(
        [patterns, random.uniform(check.low, check.high, 200), 10.0 ** random.uniform(-30, 3, 60)]
    )
    x = x[np.isfinite(x)]
    if name in GAMMA:
        x = x[(x > 1e-150) & (x < 1e300)]
    elif name == "erfinv":
        x = x[abs(x) < 1]
    if name in ("sin", "cos", "tan"):
        turns = np.round(np.exp(random.uniform(0, 20, 60))) * (math.pi / 2)
        hard = [6381956970095103.0 * 2.0**797, 5.319372648326541e255, 1e22]  # nearly multiples of pi/2
        x = np.concatenate([x, turns, np.nextafter(turns, 0), hard])
    precise = eval(f"lambda mp, x: {check.precise}")
    out = run(name, x)
    with mp.workprec(160):
        errors = [
            error_f8(mp, g, precise(mp, mp.mpf(a))) for a, g in zip(x.tolist(), out.tolist(), strict=True)
        ]
    worst = int(np.argmax(errors))
    assert errors[worst] <= check.limit_f8, f"{errors[worst]:.2f} ulp at {x[worst]!r}"


@pytest.mark.parametrize("name", GAMMA)
def test_gamma_functions_of_negative_numbers(name: str) -> None:
    mp = pytest.importorskip("mpmath", reason="mpmath is the oracle of float64 results").mp
    precise = {
        "lgamma": lambda x: mp.log(abs(mp.gamma(x))),
        "digamma": mp.digamma,
        "trigamma": lambda x: mp.psi(1, x),
    }[name]
    random = np.random.default_rng(2)
    x = np.concatenate(
        [-random.uniform(0, 8, 200), -random.uniform(8, 100, 60), [-1e-10, -1e-30, -2.4570247]]
    )
    small = x.astype(np.float32)
    true = np.array([float(precise(mp.mpf(v))) for v in small.tolist()])
    assert errors_f4(run(name, small), true).max() <= 0.6
    true = np.array([float(precise(mp.mpf(v))) for v in x.tolist()])
    assert (abs(run(name, x) - true) <= 4e-15 * np.maximum(1, abs(true))).all()


SPECIAL = {
    "exp": [(0, 1), (INF, INF), (-INF, 0), (1e4, INF), (-1e4, 0), (-0.0, 1)],
    "exp2": [
        (0, 1),
        (INF, INF),
        (-INF, 0),
        (10, 1024),
        (-3, 0.125),
        (2000, INF),
        (-2000, 0),
        (-140, 2.0**-140),
    ],
    "expm1": [(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -1), (-1e4, -1)],
    "log": [(1, 0), (0, -INF), (-0.0, -INF), (-1, NAN), (INF, INF), (-INF, NAN)],
    "log2": [(1, 0), (8, 3), (2.0**-140, -140), (0, -INF), (-1, NAN), (INF, INF)],
    "log10": [(1, 0), (0, -INF), (-1, NAN), (INF, INF), (1000, 3)],
    "log1p": [(0.0, 0.0), (-0.0, -0.0), (-1, -INF), (-2, NAN), (INF, INF), (-INF, NAN)],
    "sin": [(0.0, 0.0), (-0.0, -0.0), (INF, NAN), (-INF, NAN)],
    "cos": [(0.0, 1), (-0.0, 1), (INF, NAN), (-INF, NAN)],
    "tan": [(0.0, 0.0), (-0.0, -0.0), (INF, NAN), (-INF, NAN)],
    "asin": [(0.0, 0.0), (-0.0, -0.0), (1, math.pi / 2), (-1, -math.pi / 2), (1.5, NAN), (INF, NAN)],
    "acos": [(1, 0.0), (-1, math.pi), (0, math.pi / 2), (1.5, NAN), (-INF, NAN)],
    "atan": [(0.0, 0.0), (-0.0, -0.0), (INF, math.pi / 2), (-INF, -math.pi / 2)],
    "sinh": [(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -INF), (1e4, INF), (-1e4, -INF)],
    "cosh": [(0.0, 1), (INF, INF), (-INF, INF), (-1e4, INF)],
    "tanh": [(0.0, 0.0), (-0.0, -0.0), (INF, 1), (-INF, -1), (30, 1)],
    "asinh": [(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -INF)],
    "acosh": [(1, 0.0), (0.5, NAN), (-INF, NAN), (INF, INF)],
    "atanh": [(0.0, 0.0), (-0.0, -0.0), (1, INF), (-1, -INF), (2, NAN), (INF, NAN)],
    "sigmoid": [(0.0, 0.5), (INF, 1), (-INF, 0), (1e4, 1), (-1e4, 0)],
    "softplus": [(INF, INF), (-INF, 0), (1e4, 1e4), (-1e4, 0), (0, math.log(2))],
    "erf": [(0.0, 0.0), (-0.0, -0.0), (INF, 1), (-INF, -1), (9, 1)],
    "erfc": [(0.0, 1), (INF, 0), (-INF, 2), (50, 0)],
    "erfinv": [(0.0, 0.0), (-0.0, -0.0), (1, INF), (-1, -INF), (1.5, NAN), (INF, NAN)],
    "lgamma": [(1, 0.0), (2, 0.0), (0.0, INF), (-0.0, INF), (-3, INF), (INF, INF), (-INF, INF)],
    "digamma": [(0.0, -INF), (-0.0, INF), (-3, NAN), (INF, INF), (-INF, NAN)],
    "trigamma": [(0.0, INF), (-0.0, INF), (INF, 0.0), (-3, INF), (-INF, NAN)],
    "i0": [(0.0, 1), (INF, INF), (-INF, INF), (1e4, INF)],
    "i1": [(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -INF), (-1e4, -INF)],
    "sqrt": [(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-1, NAN)],
    "rsqrt": [(0.0, INF), (INF, 0), (-1, NAN), (4, 0.5)],
    "floor": [(-0.0, -0.0), (-0.5, -1), (2.7, 2), (INF, INF), (-INF, -INF), (1e30, 1e30)],
    "ceil": [(-0.0, -0.0), (-0.5, -0.0), (2.2, 3), (INF, INF)],
    "trunc": [(-0.0, -0.0), (-0.5, -0.0), (2.7, 2), (-2.7, -2), (INF, INF)],
    "round": [(-0.0, -0.0), (-0.5, -0.0), (0.5, 0), (1.5, 2), (2.5, 2), (-2.5, -2), (INF, INF)],
}
ODD = ["expm1", "log1p", "sin", "tan", "asin", "atan", "sinh", "tanh", "asinh", "atanh"]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", SPECIAL)
def test_special_values(name: str, dtype: str) -> None:
    x, expected = (np.array(v, dtype) for v in zip(*SPECIAL[name], (NAN, NAN), strict=True))
    assert_same(run(name, x), expected, x)


@pytest.mark.parametrize("name", ODD)
def test_functions_like_x_at_0_keep_subnormal_numbers(name: str) -> None:
    for dtype in (np.float32, np.float64):
        tiny = np.finfo(dtype).smallest_subnormal
        x = np.array([1, -1, 2, -3, 1000, -12345], dtype) * tiny
        assert_same(run(name, x), x, x)


def test_nan_stays_nan_whatever_its_bits() -> None:
    x4 = np.array([0x7FC00001, 0x7F800001, 0xFFC12345, 0xFFFFFFFF], np.uint32).view(np.float32)
    x8 = np.array([0x7FF8000000000001, 0x7FF0000000000001, 0xFFF8000000012345], np.uint64).view(np.float64)
    for name, x in itertools.product(SPECIAL, (x4, x8)):
        assert np.isnan(run(name, x)).all(), name


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_classification(dtype: str) -> None:
    x = np.array([0.0, -1.0, INF, -INF, NAN], dtype)
    for name, expected in (("isnan", np.isnan), ("isinf", np.isinf), ("isfinite", np.isfinite)):
        np.testing.assert_array_equal(run(name, x).astype(bool), expected(x))


def _grid(dtype: str) -> tuple[np.ndarray, np.ndarray]:
    limits = np.finfo(dtype)
    values = [0.0, 0.5, 1.0, 2.0, 2.5, 3.0, 2.0**24, 2.0**53 + 2, limits.max, limits.tiny, INF]
    values = [*values, *(-v for v in values), float(limits.smallest_subnormal), NAN]
    with np.errstate(over="ignore"):
        pairs = np.array(list(itertools.product(values, values)), dtype)
    return pairs[:, 0].copy(), pairs[:, 1].copy()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_pow_of_special_numbers(dtype: str) -> None:
    x, y = _grid(dtype)
    with np.errstate(all="ignore"):
        expected = np.power(x.astype(np.float64), y.astype(np.float64)).astype(dtype)
    got = run("pow", x, y)
    usual = np.isfinite(expected) & (abs(expected) > np.finfo(dtype).tiny)
    np.testing.assert_allclose(got[usual], expected[usual], rtol=1e-7 if dtype == "float32" else 5e-16)
    assert_same(got[~usual], expected[~usual], x[~usual], y[~usual])


def test_pow_is_accurate_up_to_the_limits_of_the_range() -> None:
    mp = pytest.importorskip("mpmath", reason="mpmath is the oracle of float64 results").mp
    random = np.random.default_rng(3)
    x = np.concatenate([np.exp(random.uniform(-200, 200, 300)), random.uniform(0.99, 1.01, 300)])
    y = random.uniform(-1, 1, 600) * 708 / np.maximum(abs(np.log(x)), 1e-4)
    with mp.workprec(160):
        errors = [
            error_f8(mp, g, mp.mpf(a) ** mp.mpf(b))
            for a, b, g in zip(x.tolist(), y.tolist(), run("pow", x, y).tolist(), strict=True)
        ]
    assert max(errors) <= 1.7
    x4 = np.exp(random.uniform(-80, 80, 100_000)).astype(np.float32)
    y4 = (random.uniform(-1, 1, x4.size) * 100 / abs(np.log(x4))).astype(np.float32)
    with np.errstate(all="ignore"):
        true = np.power(x4.astype(np.float64), y4.astype(np.float64))
    assert errors_f4(run("pow", x4, y4), true).max() <= 0.6


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_atan2(dtype: str) -> None:
    y, x = _grid(dtype)
    random = np.random.default_rng(4)
    y, x = (np.concatenate([v, random.normal(size=20_000).astype(dtype)]) for v in (y, x))
    expected = np.arctan2(y.astype(np.longdouble), x.astype(np.longdouble)).astype(dtype)
    got = run("atan2", y, x)
    finite = ~np.isnan(expected)
    np.testing.assert_array_equal(~np.isnan(got), finite)
    np.testing.assert_array_equal(np.signbit(got[finite]), np.signbit(expected[finite]))
    spacing = np.spacing(abs(expected[finite]))
    assert (abs(got[finite] - expected[finite]) <= 2 * spacing).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_fmod_and_remainder_are_exact(dtype: str) -> None:
    random = np.random.default_rng(5)
    reach = 80 if dtype == "float32" else 600
    x, y = (np.exp(random.uniform(-reach, reach, 3000)) * random.choice([-1, 1], 3000) for _ in range(2))
    near = random.normal(size=(2, 3000)) * 10
    x, y = (np.concatenate([a, b]).astype(dtype) for a, b in zip((x, y), near, strict=True))
    x, y = (np.concatenate([a, b]) for a, b in zip((x, y), _grid(dtype), strict=True))
    with np.errstate(all="ignore"):
        fmod = np.fmod(x, y)
        other = (fmod != 0) & ((fmod < 0) != (y < 0))
        remainder = np.where(other, fmod + y, fmod)
    assert_same(run("fmod", x, y), fmod, x, y)
    assert_same(run("remainder", x, y), remainder, x, y)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_selection_of_two_numbers(dtype: str) -> None:
    x, y = _grid(dtype)
    nonzero = (x != 0) | (y != 0)  # which zero of two is chosen is left open
    for name in ("maximum", "minimum", "fmax", "fmin"):
        got, expected = run(name, x, y), getattr(np, name)(x, y)
        assert_same(got[nonzero], expected[nonzero], x[nonzero], y[nonzero])
        assert (got[~nonzero] == 0).all()
    assert_same(run("copysign", x, y)[~np.isnan(x)], np.copysign(x, y)[~np.isnan(x)], x, y)


@pytest.mark.parametrize(
    "name",
    ["exp_f4", "exp_f8", "tanh_f4", "log_f4", "erf_f4", "sin_f4", "sin_f8", "pow_f4", "pow_f8", "lgamma_f8"],
)
def test_loops_become_vector_instructions(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "load", lambda *args: None)
    monkeypatch.setattr(cache, "save", lambda *args: None)
    loop = kernel(name[:-3], name[-2:], "# compiled in this process, so that LLVM's text is at hand\n")
    x = np.ones(4, np.float32 if name.endswith("f4") else np.float64)
    loop(*[x] * (1 + (name[:-3] in PAIRS)), x.copy(), 0, 4)
    (made,) = loop.made.values()
    text = made.library.get_llvm_str()
    kind = "float" if name in ("exp_f4", "tanh_f4", "log_f4", "erf_f4", "sin_f4") else "double"
    assert re.search(rf"call .*<\d+ x {kind}> @llvm\.fma\.v", text)
    if name in ("sin_f4", "sin_f8", "lgamma_f8"):
        assert re.search(rf"call .*<\d+ x {kind}> @tapegrad\.{name}\.\d+\(", text)


def test_a_rare_case_is_computed_in_every_lane() -> None:
    x = np.random.default_rng(6).uniform(-3, 3, 1000)
    x[::17] = 1e22 * (1 + np.arange(59))
    assert abs(run("sin", x) - np.sin(x)).max() < 1e-15
    x4 = x.astype(np.float32)
    assert abs(run("sin", x4) - np.sin(x4.astype(np.float64))).max() < 1e-7


PLAIN = """
import json, numpy as np
from tapegrad.kernels import scalar
x = [0.3, -1.7, 2.5, 9.25, -40.0, 0.0, 1e-3, 0.9999, 1e7, float("inf"), float("nan"), 1e-42]
values = {}
with np.errstate(all="ignore"):
    for name in NAMES:
        for dtype in (np.float32, np.float64):
            full = f"{name}_f{np.dtype(dtype).itemsize}"
            fn = getattr(scalar, full)
            args = [(dtype(v), dtype(2.5)) if name in PAIRS else (dtype(v),) for v in x]
            values[full] = [float(fn(*a)) for a in args]
print(json.dumps([x, values]))
"""


def test_plain_python_gives_the_same() -> None:
    names = [*SPECIAL, *PAIRS]
    done = subprocess.run(
        [sys.executable, "-c", PLAIN.replace("NAMES", repr(names)).replace("PAIRS", repr(PAIRS))],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    numbers, values = json.loads(done.stdout)
    for full, plain in values.items():
        name, dtype = full[:-3], np.dtype(full[-2:])
        with np.errstate(over="ignore", under="ignore"):
            x = np.array(numbers, dtype)
        got = run(name, *[x, np.full_like(x, 2.5)][: 1 + (name in PAIRS)])
        # Without fused multiply-add in a*b + c, the last bit may differ.
        np.testing.assert_allclose(got, np.array(plain, dtype), rtol=4 * np.finfo(dtype).eps, err_msg=full)
