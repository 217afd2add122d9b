"""Matrix products by the own kernel: values, bits under any partition, and no read outside the operands."""

from __future__ import annotations

import ctypes
import itertools
import mmap
import pathlib
from typing import Any

import numpy as np
import pytest

from tapegrad.kernels import gemm, gemm_tile, tile

from ..process import finish, start

RANDOM = np.random.default_rng(0)
SIZES = [
    (1, 1, 1), (1, 17, 5), (8, 32, 32), (7, 33, 3), (9, 50, 20), (5, 16, 64), (3, 100, 2), (16, 48, 1), (13, 49, 31),
    (4, 95, 17), (2, 8, 300), (70, 65, 66), (33, 1, 40), (1, 40, 600), (120, 130, 140),
]  # fmt: skip


def strided(rows: int, columns: int, how: str, dtype: str) -> np.ndarray:
    """A matrix of random numbers that lies in memory as ``how`` says."""
    if how == "rows":
        return RANDOM.standard_normal((rows, columns)).astype(dtype)
    if how == "columns":
        return RANDOM.standard_normal((columns, rows)).astype(dtype).T
    if how == "gaps":
        return RANDOM.standard_normal((2 * rows, 3 * columns)).astype(dtype)[::2, ::3]
    return RANDOM.standard_normal((columns, rows)).astype(dtype)[::-1, ::-1].T  # backwards


def steps(x: np.ndarray) -> tuple[int, int]:
    """Strides of rows and columns, in elements."""
    return x.strides[0] // x.itemsize, x.strides[1] // x.itemsize


def multiply(a: np.ndarray, b: np.ndarray, out: np.ndarray, d: np.ndarray | None = None) -> None:
    """out = [d +] a @ b of matrices, into a given array whose rows may be apart."""
    m, n = out.shape
    d_row = None if d is None else 0 if d.ndim == 1 or len(d) == 1 else steps(d)[0]
    made = gemm.plan(m, n, a.shape[1], steps(a), steps(b), steps(out)[0], out.itemsize, d_row)
    scratch = gemm.scratch(made.scratch, out.dtype.char)
    gemm.gemm(a, b, out, out if d is None else d, scratch, made.table, 0, made.count)


def check(got: np.ndarray, a: np.ndarray, b: np.ndarray, d: Any = 0.0) -> None:
    wide = [np.asarray(x, dtype=np.float64) for x in (a, b, d)]
    exact = np.matmul(wide[0], wide[1]) + wide[2]
    scale = np.matmul(abs(wide[0]), abs(wide[1])) + abs(wide[2])
    # Every product and every sum is rounded at most once, here and in what is compared with.
    eps = np.finfo(got.dtype).eps + np.finfo(np.float64).eps
    assert (abs(got - exact) <= (a.shape[-1] + 1) * eps * scale).all()


@pytest.mark.parametrize("dtype", ["f", "d"])
@pytest.mark.parametrize("size", SIZES)
def test_any_strides(size: tuple[int, int, int], dtype: str) -> None:
    m, n, k = size
    for left, right in itertools.product(["rows", "columns", "gaps", "backwards"], repeat=2):
        a, b = strided(m, k, left, dtype), strided(k, n, right, dtype)
        out = np.full((m, n + 3), 7, dtype)
        multiply(a, b, out[:, :n])
        check(out[:, :n], a, b)
        assert (out[:, n:] == 7).all()


@pytest.mark.parametrize("dtype", ["f", "d"])
@pytest.mark.parametrize("size", [(300, 700, 600), (20, 1000, 900), (600, 20, 900), (1, 2000, 300)])
@pytest.mark.parametrize("small", [0, 1 << 18, 1 << 40])
def test_packed_or_not(
    monkeypatch: pytest.MonkeyPatch, small: int, size: tuple[int, int, int], dtype: str
) -> None:
    monkeypatch.setattr(gemm, "_SMALL", small)
    gemm.plan.cache_clear()
    m, n, k = size
    for left, right in [("rows", "rows"), ("columns", "rows"), ("rows", "columns"), ("backwards", "gaps")]:
        a, b = strided(m, k, left, dtype), strided(k, n, right, dtype)
        out = np.full((m, n), np.nan, dtype)
        multiply(a, b, out)
        check(out, a, b)
    gemm.plan.cache_clear()


@pytest.mark.parametrize("dtype", ["f", "d"])
@pytest.mark.parametrize("size", [(0, 3, 2), (3, 0, 2), (3, 2, 0), (0, 0, 0)])
def test_empty(size: tuple[int, int, int], dtype: str) -> None:
    m, n, k = size
    a, b, d = np.ones((m, k), dtype), np.ones((k, n), dtype), np.full(n, 5, dtype)
    out = np.full((m, n), 9, dtype)
    multiply(a, b, out)
    assert (out == 0).all()
    multiply(a, b, out, d)
    assert (out == d).all()


@pytest.mark.parametrize("dtype", ["f", "d"])
@pytest.mark.parametrize("size", [(9, 50, 20), (300, 200, 600)])
def test_started_with_another_array(size: tuple[int, int, int], dtype: str) -> None:
    m, n, k = size
    a, b = strided(m, k, "rows", dtype), strided(k, n, "columns", dtype)
    for shape in [(n,), (1, n), (m, n)]:
        d = RANDOM.standard_normal(shape).astype(dtype)
        out = np.full((m, n), np.nan, dtype)
        multiply(a, b, out, d)
        check(out, a, b, d)
    into = d.copy()
    multiply(a, b, into, into)
    assert np.array_equal(into, out)


@pytest.mark.parametrize("dtype", ["f", "d"])
def test_stacks_broadcast(dtype: str) -> None:
    def draw(*shape: int) -> np.ndarray:
        return RANDOM.standard_normal(shape).astype(dtype)

    pairs = [
        (draw(5, 9, 20), draw(5, 20, 18)),
        (draw(9, 20), draw(5, 20, 18)),
        (draw(5, 9, 20), draw(20, 18)),
        (draw(3, 1, 9, 20), draw(1, 4, 20, 18)),
        (draw(3, 9, 4, 20).swapaxes(1, 2), draw(3, 18, 4, 20).transpose(0, 2, 3, 1)),
        (draw(2, 2, 300, 130), draw(2, 1, 600, 130).swapaxes(2, 3)),
        (draw(2, 3, 4, 9, 20), draw(4, 20, 18)),
        (draw(2, 1, 4, 1, 9, 20), draw(2, 3, 1, 2, 20, 18)),
        (draw(0, 9, 20), draw(20, 18)),
        (draw(9, 20), draw(20, 18)),
        (draw(9, 20), draw(20, 0)),
        (draw(2, 9, 0), draw(0, 18)),
    ]
    for a, b in pairs:
        out = gemm.product(a, b)
        assert out.shape == np.matmul(a, b).shape
        check(out, a, b)
        row = draw(out.shape[-1])
        check(gemm.product(a, b, row), a, b, row)


@pytest.mark.parametrize("dtype", ["f", "d"])
@pytest.mark.parametrize("size", [(9, 50, 20), (64, 64, 64), (333, 555, 600), (8, 1000, 700)])
def test_neither_partition_nor_packing_changes_a_bit(
    monkeypatch: pytest.MonkeyPatch, size: tuple[int, int, int], dtype: str
) -> None:
    m, n, k = size
    for right in ("rows", "columns"):
        a, b = strided(m, k, "rows", dtype), strided(k, n, right, dtype)
        made = []
        for small in (0, 1 << 40):
            monkeypatch.setattr(gemm, "_SMALL", small)
            gemm.plan.cache_clear()
            table, count, room = gemm.plan(m, n, k, (k, 1), steps(b), n, a.itemsize)
            scratch = np.empty(room, dtype)
            for parts in (1, 2, 3, 8, count):
                out = np.full((m, n), np.nan, dtype)
                for part in range(parts):
                    start, stop = count * part // parts, count * (part + 1) // parts
                    gemm.gemm(a, b, out, out, scratch, table, start, stop)
                made.append(out)
        assert all(np.array_equal(made[0], other) for other in made[1:])
    gemm.plan.cache_clear()


def at_the_edge(x: np.ndarray, low: bool) -> np.ndarray:
    """A copy of a matrix that begins or ends where readable memory does."""
    page = mmap.PAGESIZE
    room = -(-x.nbytes // page) * page
    area = mmap.mmap(-1, room + 2 * page)
    start = ctypes.addressof(ctypes.c_char.from_buffer(area))
    libc = ctypes.CDLL(None, use_errno=True)
    for guard in (start, start + page + room):
        assert libc.mprotect(ctypes.c_void_p(guard), ctypes.c_size_t(page), 0) == 0
    offset = page if low else page + room - x.nbytes
    made = np.frombuffer(area, x.dtype, x.size, offset).reshape(x.shape)
    made[...] = x
    return made


@pytest.mark.parametrize("dtype", ["f", "d"])
@pytest.mark.parametrize(
    "size", [(1, 1, 1), (8, 3, 32), (7, 33, 3), (9, 50, 20), (13, 49, 31), (300, 301, 302)]
)
def test_nothing_outside_is_touched(
    monkeypatch: pytest.MonkeyPatch, size: tuple[int, int, int], dtype: str
) -> None:
    m, n, k = size
    for small, low, left, right in itertools.product([0, 1 << 21], *[[False, True]] * 3):
        monkeypatch.setattr(gemm, "_SMALL", small)
        gemm.plan.cache_clear()
        a = at_the_edge(strided(*((k, m) if left else (m, k)), "rows", dtype), low)
        b = at_the_edge(strided(*((n, k) if right else (k, n)), "rows", dtype), low)
        d = at_the_edge(strided(1, n, "rows", dtype), low)
        out = at_the_edge(np.zeros((m, n), dtype), low)
        x, y = a.T if left else a, b.T if right else b
        table, count, room = gemm.plan(m, n, k, steps(x), steps(y), n, a.itemsize, 0)
        scratch = at_the_edge(np.empty((1, room), dtype), low) if room else np.empty(0, dtype)
        gemm.gemm(x, y, out, d, scratch, table, 0, count)
        check(out, x, y, d)
    gemm.plan.cache_clear()


def test_nan_and_infinity_stay_in_their_row_and_column() -> None:
    a, b = np.ones((9, 5), "f"), np.ones((5, 40), "f")
    a[8, 2], b[3, 39] = np.inf, np.nan
    out = np.empty((9, 40), "f")
    multiply(a, b, out)
    assert (out[:8, :39] == 5).all()
    assert np.isnan(out[:, 39]).all()
    assert np.isinf(out[8, :39]).all()


@pytest.mark.parametrize("dtype", ["f", "d"])
def test_the_twins_in_plain_python(dtype: str) -> None:
    """The kernel's own text with the twins in place of the vector code."""
    scope = dict(vars(gemm), tile=gemm_tile._tile_twin, pack=gemm_tile._pack_twin)
    source = gemm.gemm.fn
    plain = type(source)(source.__code__, scope)
    lane = tile.lanes(np.dtype(dtype).itemsize)
    for size in [(9, 3 * lane + 2, 20), (17, 2 * lane, 5), (3, 4, 0)]:
        m, n, k = size
        for right in ("rows", "columns"):
            a, b = strided(m, k, "rows", dtype), strided(k, n, right, dtype)
            d = RANDOM.standard_normal(n).astype(dtype)
            table, count, room = gemm.plan(m, n, k, (k, 1), steps(b), n, a.itemsize, 0)
            out = np.full(m * n, np.nan, dtype)
            flat = b.ravel(order="K")
            plain(a.ravel(), flat, out, d, np.empty(room, dtype), table, 0, count)
            check(out.reshape(m, n), a, b, d)


NARROW = """
    import sys
    import llvmlite.binding as binding

    real = binding.get_host_cpu_features
    missing = {"avx512f", *sys.argv[1:]}
    binding.get_host_cpu_features = lambda: {name: on and name not in missing for name, on in real().items()}
    from tapegrad.kernels import tile
    binding.get_host_cpu_features = real

    import numpy as np
    from tapegrad.kernels import gemm

    random = np.random.default_rng(0)
    for small in (0, 1 << 40):
        gemm._SMALL = small
        gemm.plan.cache_clear()
        gemm._calls.clear()
        for dtype in "fd":
            for m, n, k in [(9, 50, 20), (7, 33, 3), (70, 95, 600), (1, 40, 9)]:
                for turned in (False, True):
                    a = random.standard_normal((m, k)).astype(dtype)
                    b = random.standard_normal((n, k) if turned else (k, n)).astype(dtype)
                    b = b.T if turned else b
                    want = a.astype("d") @ b.astype("d")
                    assert np.allclose(gemm.product(a, b), want, atol=1e-4), (dtype, m, n, k, turned, small)
    print(tile.lanes(4))
"""


@pytest.mark.slow
@pytest.mark.parametrize("missing", [(), ("avx",)])
def test_shorter_vectors(missing: tuple[str, ...], tmp_path: pathlib.Path) -> None:
    """As on processors without AVX-512, and without instructions for parts of vectors."""
    # Such a processor has its own name in the cache; here the same name would stand for other code.
    out, err = finish(start(NARROW, missing, {"TAPEGRAD_CACHE_DIR": str(tmp_path)}))
    assert int(out) <= (4 if missing else 8), err
