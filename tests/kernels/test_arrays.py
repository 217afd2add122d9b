"""kernels/arrays.py: copies of much memory, which a loop of our own makes on several threads."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.kernels import arrays
from tapegrad.kernels.loop import COPY

N = 1 << 20  # numbers: more than are left to NumPy


@pytest.fixture(params=[1, 2])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    before = tg.get_num_threads()
    tg.set_num_threads(request.param)
    yield request.param
    tg.set_num_threads(before)


@pytest.mark.parametrize("dtype", ["f", "d", "l"])
def test_much_memory_is_copied_bit_for_bit(threads: int, dtype: str) -> None:
    bits = np.random.default_rng(0).integers(0, 256, N * np.dtype(dtype).itemsize, np.uint8)
    flat = bits.view(dtype)  # among them NaNs of all kinds
    rows = flat.reshape(1024, 1024)
    whole = (1024, 1024)
    for x, shape in [
        (flat, flat.shape), (rows, whole), (rows[:1], whole), (rows[:, :1], whole), (rows[0], whole), (rows[0, 0], whole),
        (rows[:, :512], (1024, 512)), (rows[::2], (512, 1024)), (rows.T, whole), (rows[:, None, :8], (1024, 64, 8)),
    ]:  # fmt: skip
        to = np.empty(shape, dtype)
        arrays.copy(to, x)
        assert to.tobytes() == np.broadcast_to(x, shape).tobytes()


def test_the_loop_is_used_where_rows_are_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[int, ...]] = []
    run = COPY.run
    monkeypatch.setattr(COPY, "run", lambda *args: (calls.append(args[2][0].shape), run(*args)))
    arrays.copy(np.empty((1024, 1024), "f"), np.ones(1024, "f"))
    assert calls == [(1024, 1024)]


def test_a_copy_within_one_memory(threads: int) -> None:
    memory = np.arange(N + 1000, dtype="f")
    expected = memory[:N].copy()
    arrays.copy(memory[1000:], memory[:N])
    assert (memory[1000:] == expected).all()
