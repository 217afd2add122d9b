"""Large results reuse memory, never while an array over it is alive, and give it back."""

from __future__ import annotations

import gc
import os
import pickle
import threading
from collections.abc import Iterator

import numpy as np
import pytest

import tapegrad as tg
from tapegrad import buffers, config

from .process import finish, start

SIZE = (1000, 1000)


@pytest.fixture(autouse=True)
def nothing_kept() -> Iterator[None]:
    gc.collect()
    tg.empty_cache()
    yield
    tg.empty_cache()


def test_memory_of_a_dead_array_is_used_again() -> None:
    first = buffers.empty(SIZE, np.float32)
    address = first.ctypes.data
    assert tg.memory_reserved() == 0
    del first
    assert tg.memory_reserved() >= 4_000_000
    again = buffers.empty((500, 2000), np.int32)
    assert again.ctypes.data == address
    assert again.shape == (500, 2000)
    assert again.flags.c_contiguous
    assert again.flags.writeable


def test_memory_is_not_shared_while_any_view_lives() -> None:
    first = buffers.empty(SIZE, np.float32)
    views = [first[3:5], first.T, first.reshape(-1).view(np.int32)[::7], memoryview(first)]
    address = first.ctypes.data
    del first
    while views:
        other = buffers.empty(SIZE, np.float32)
        assert not any(np.shares_memory(other, np.asarray(v)) for v in views)
        del other
        views.pop()
    tg.empty_cache()
    del address


def test_results_of_operations_never_share_memory() -> None:
    x = tg.ones(400, 400)
    results = [x + n for n in range(8)]
    del results[::2]
    results += [x * n for n in range(8)]
    arrays = [r.numpy() for r in results]
    assert not any(np.shares_memory(a, b) for i, a in enumerate(arrays) for b in arrays[:i])
    assert [float(r[0, 0]) for r in results] == [2, 4, 6, 8, *range(8)]


def test_a_loop_over_large_arrays_keeps_to_few_pieces() -> None:
    x = tg.ones(*SIZE, requires_grad=True)
    for _ in range(20):
        x.grad = None
        ((x * 2).exp() / 3).sum().backward()
    x.grad = None
    assert 0 < tg.memory_reserved() < 40_000_000


def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "pool_bytes", 9_000_000)
    arrays = [buffers.empty(SIZE, np.float32) for _ in range(5)]
    arrays.clear()
    assert 0 < tg.memory_reserved() <= 9_000_000
    tg.empty_cache()
    assert tg.memory_reserved() == 0


def test_what_is_not_asked_for_goes_back() -> None:
    buffers.empty((3000, 1000), np.float32)
    gc.collect()
    assert tg.memory_reserved() >= 12_000_000
    for _ in range(2 * buffers._AGE):
        buffers.empty(SIZE, np.float32)
    assert tg.memory_reserved() < 6_000_000


def test_zeros_are_zero_in_used_memory() -> None:
    buffers.empty(SIZE, np.float32).fill(7)
    assert not buffers.zeros(SIZE, np.float32).any()


def test_many_threads() -> None:
    wrong = []

    def work(n: int) -> None:
        for _ in range(200):
            a = buffers.empty((300, 300), np.float32)
            a.fill(n)
            if not (a == n).all():
                wrong.append(n)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong
    assert tg.memory_reserved() >= 0


def test_an_array_can_be_pickled_and_copied() -> None:
    a = buffers.empty((300, 300), np.float32)
    a[...] = np.arange(300)
    b = pickle.loads(pickle.dumps(a))
    assert np.array_equal(a, b)
    assert buffers.whole(a)
    assert not buffers.whole(a[1:])


def test_a_gradient_is_kept_without_a_copy() -> None:
    x = tg.ones(*SIZE, requires_grad=True)
    (x * 3).backward(tg.ones(*SIZE))
    assert buffers.whole(x.grad._array)
    assert type(x.grad._array.base) is buffers.Lease


FORK = """
    import os
    import numpy as np
    from tapegrad import buffers
    a = buffers.empty((1000, 1000), np.float32)
    a.fill(1)
    buffers.empty((1000, 1000), np.float32).fill(2)
    child = os.fork()
    if not child:
        a.fill(5)
        buffers.empty((1000, 1000), np.float32).fill(6)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    print((a == 1).all(), buffers.memory_reserved() > 0)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_child_has_memory_of_its_own() -> None:
    out, err = finish(start(FORK))
    assert out.split() == ["True", "True"], err


def test_arrays_alive_at_the_end_of_the_program_are_no_trouble() -> None:
    out, err = finish(
        start("import tapegrad as tg\nx = tg.ones(1000, 1000) + 1\ny = [x, x * 2]\nprint('done')")
    )
    assert out.strip() == "done"
    assert not err
