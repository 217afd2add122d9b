"""Threads: the same bits for any number of them, and safe with Python's threads and with fork."""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import threadpoolctl

import tapegrad as tg
from tapegrad import config
from tapegrad.kernels.retreat import Retreat, retreat

from ..process import finish, run, start

SIZE = 3 * config.grain + 17


@pytest.fixture(autouse=True)
def _restore() -> Iterator[None]:
    before = tg.get_num_threads()
    retreat.LOST = math.inf  # or, on a busy machine, what several threads do would not be tested
    yield
    retreat.LOST = Retreat.LOST
    tg.set_num_threads(before)


def _draw(*shape: int, seed: int = 0) -> tg.Tensor:
    return tg.from_numpy(np.random.default_rng(seed).standard_normal(shape, dtype=np.float32))


# -- the same bits ---------------------------------------------------------------------------------


def _gradients(loss: Callable[..., tg.Tensor], *inputs: tg.Tensor) -> list[bytes]:
    leaves = [x.clone().requires_grad_() for x in inputs]
    out = loss(*leaves)
    (out * _draw(*out.shape, seed=9)).sum().backward()
    return [out.detach().numpy().tobytes(), *(x.grad.numpy().tobytes() for x in leaves)]


FUNCTIONS: dict[str, tuple[Callable[..., tg.Tensor], list[tuple[int, ...]]]] = {
    "elementwise": (lambda a, b: (a * b + a.exp()).tanh(), [(SIZE,), (SIZE,)]),
    "broadcast": (lambda a, b: a * b, [(300, 401), (1, 401)]),
    "transposed": (lambda a: (a.t() * 2).exp(), [(300, 401)]),
    "sum": (lambda a: a.sum(), [(SIZE,)]),
    "sum of rows": (lambda a: a.sum(1), [(5, SIZE // 5)]),
    "sum of columns": (lambda a: a.sum(0), [(SIZE // 5, 5)]),
    "sum of wide columns": (lambda a: a.mean(0), [(300, 701)]),
    "sum in the middle": (lambda a: a.sum(1), [(20, 90, 70)]),
    "logsumexp": (lambda a: a.logsumexp(1), [(300, 401)]),
    "softmax": (lambda a: tg.softmax(a, 1), [(300, 401)]),
    "softmax of columns": (lambda a: tg.softmax(a, 0), [(300, 401)]),
    "variance": (lambda a: a.var(1), [(300, 401)]),
    "extrema": (lambda a: a.amax(0), [(300, 401)]),
    "cumsum": (lambda a: a.cumsum(0), [(300, 401)]),
    "indexing": (lambda a: a[tg.arange(2_000) % 300], [(300, 401)]),
    "matmul": (lambda a, b: a @ b, [(150, 200), (200, 300)]),
    "convolution": (lambda x, w: tg.nn.functional.conv2d(x, w, padding=1), [(2, 3, 40, 40), (8, 3, 3, 3)]),
    "convolution over panels": (
        lambda x, w: tg.nn.functional.conv2d(x, w, stride=2, padding=1),
        [(20, 32, 9, 9), (72, 32, 3, 3)],
    ),
    "pooling": (lambda x: tg.nn.functional.max_pool2d(x, 2), [(4, 8, 50, 50)]),
    "batch norm": (lambda x: tg.nn.functional.batch_norm(x, None, None, training=True), [(8, 16, 40, 40)]),
    "layer norm": (lambda x: tg.nn.functional.layer_norm(x, (401,)), [(300, 401)]),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_any_number_of_threads_gives_the_same_bits(name: str) -> None:
    function, shapes = FUNCTIONS[name]
    inputs = [_draw(*shape, seed=j) for j, shape in enumerate(shapes)]
    seen = []
    for threads in (1, 2, 3, 8, 2, 1):
        tg.set_num_threads(threads)
        seen.append(_gradients(function, *inputs))
    assert all(s == seen[0] for s in seen)


def test_random_numbers_do_not_depend_on_threads() -> None:
    seen = []
    for threads in (1, 3, 2):
        tg.set_num_threads(threads)
        tg.manual_seed(3)
        seen.append(
            [
                tg.randn(SIZE).numpy().tobytes(),
                tg.rand(SIZE).numpy().tobytes(),
                tg.randperm(SIZE).numpy().tobytes(),
            ]
        )
    assert seen[0] == seen[1] == seen[2]


def test_an_optimizer_does_not_depend_on_threads() -> None:
    def train(threads: int) -> bytes:
        tg.set_num_threads(threads)
        w = _draw(SIZE).requires_grad_()
        optimizer = tg.optim.Adam([w], lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            (w * w).sum().backward()
            optimizer.step()
        return w.detach().numpy().tobytes()

    assert train(1) == train(2) == train(8)


# -- several Python threads ------------------------------------------------------------------------


def test_python_threads_may_launch_at_the_same_time() -> None:
    tg.set_num_threads(2)
    x = _draw(SIZE)
    expected = (x.exp() * x).numpy().tobytes()
    start = threading.Barrier(6)

    def work(seed: int) -> bool:
        start.wait()
        for _ in range(15):
            leaf = x.clone().requires_grad_()
            out = leaf.exp() * x
            out.sum().backward()
            if out.detach().numpy().tobytes() != expected or leaf.grad is None:
                return False
        return True

    with ThreadPoolExecutor(6) as pool:
        assert all(pool.map(work, range(6)))


FRESH = """
    import threading
    import tapegrad as tg
    tg.set_num_threads(2)
    x = tg.ones(300_000)
    start = threading.Barrier(5)
    sums = []
    def work(k):
        start.wait()
        sums.append(((x * k).exp().sum() + (x + k).sum(), (tg.arange(4) * k).tolist()))
    threads = [threading.Thread(target=work, args=(0,)) for k in range(5)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    print(len(sums), {round(s.item()) for s, _ in sums})
"""


@pytest.mark.parametrize("layer", ["omp", "workqueue"])
def test_threads_that_compile_and_start_the_pool_at_the_same_time(layer: str) -> None:
    out, _ = run(FRESH, NUMBA_THREADING_LAYER=layer)
    assert out.split("\n")[0] == "5 {600000}"


# -- fork ------------------------------------------------------------------------------------------

FORK = """
    import os, sys, threading, time, warnings
    import tapegrad as tg
    warnings.simplefilter("ignore", DeprecationWarning)  # of forking while threads run
    tg.set_num_threads(2)

    def work():
        x = tg.ones(300_000, requires_grad=True)
        y = (x * 2).exp() + x
        y.sum().backward()
        m = tg.ones(300, 300)
        return abs(y.sum().item() / 2_516_716.83 - 1) < 1e-6 and (m @ m).sum().item() == 27_000_000

    def child(action):
        pid = os.fork()
        if not pid:
            os._exit(0 if action() else 1)
        for _ in range(600):
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                return status
            time.sleep(0.1)
        os.kill(pid, 9)
        return "hangs"
"""
AFTER_USE = """
    assert work()
    print([child(work) for _ in range(3)], work())
    # a grandchild, and a child of a child that had started nothing
    print(child(lambda: child(work) == 0), work())
"""
BEFORE_USE = """
    print(child(work), child(lambda: work() and work()))
    print(work(), child(work), work())
"""
WHILE_OTHERS_WORK = """
    work()
    stop = False
    def busy():
        k = 0
        while not stop:
            k += 1
            work()
            @tg.elementwise
            def fresh(x):
                return x * (k + 0.5)
            fresh(tg.ones(3))
    threads = [threading.Thread(target=busy) for _ in range(2)]
    [t.start() for t in threads]

    def compiles():
        @tg.elementwise
        def another(x):
            return x * 3.25 + 1
        return work() and another(tg.ones(2)).tolist() == [4.25, 4.25]

    seen = []
    for _ in range(5):
        time.sleep(0.05)
        seen.append(child(compiles))
    stop = True
    [t.join() for t in threads]
    print(seen)
    print(work())
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_fork_while_another_thread_compiles_and_logs() -> None:
    """A fork takes logging's lock and that of the compiler, in the order in which a thread that compiles does."""
    program = """
        import os, threading, time
        import tapegrad as tg
        from tapegrad import locks
        held = threading.Event()

        def compiles():
            with locks.shared:
                import logging
                held.set()
                time.sleep(0.2)
                logging.getLogger("fresh").debug("asks for logging's lock")

        thread = threading.Thread(target=compiles)
        thread.start()
        held.wait()
        pid = os.fork()
        if not pid:
            os._exit(0)
        thread.join()
        print(os.waitpid(pid, 0)[1])
    """
    out, _ = finish(start(program), timeout=30)
    assert out.split() == ["0"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
@pytest.mark.parametrize("layer", ["omp", "workqueue"])
@pytest.mark.parametrize(
    ("program", "expected"),
    [
        (AFTER_USE, ["[0, 0, 0] True", "0 True"]),
        (BEFORE_USE, ["0 0", "True 0 True"]),
        # Minutes of waiting for processes if it goes wrong: with the long ones.
        pytest.param(WHILE_OTHERS_WORK, ["[0, 0, 0, 0, 0]", "True"], marks=pytest.mark.slow),
    ],
    ids=["after", "before", "meanwhile"],
)
def test_forked_children_compute(program: str, expected: list[str], layer: str) -> None:
    out, _ = run(FORK + program, NUMBA_THREADING_LAYER=layer)
    assert out.splitlines() == expected


# -- how many --------------------------------------------------------------------------------------


def test_the_number_of_threads_is_what_was_set() -> None:
    for n in (1, 2, 7):
        tg.set_num_threads(n)
        assert tg.get_num_threads() == n


def test_a_block_sets_the_number_of_threads_and_restores_it() -> None:
    tg.set_num_threads(2)
    with tg.threads(1):
        assert tg.get_num_threads() == 1
        with tg.threads(5):
            assert tg.get_num_threads() == 5
        assert tg.get_num_threads() == 1
    assert tg.get_num_threads() == 2
    with pytest.raises(ZeroDivisionError), tg.threads(1):
        _ = 1 / 0
    assert tg.get_num_threads() == 2


@pytest.mark.parametrize(
    ("value", "error"),
    [
        (0, RuntimeError),
        (-3, RuntimeError),
        (1.5, TypeError),
        ("2", TypeError),
        (True, TypeError),
        (None, TypeError),
    ],
)
def test_what_is_no_number_of_threads(value: object, error: type[Exception]) -> None:
    before = tg.get_num_threads()
    with pytest.raises(error, match="set_num_threads expects"):
        tg.set_num_threads(value)  # type: ignore[arg-type]
    with pytest.raises(error, match="set_num_threads expects"), tg.threads(value):  # type: ignore[arg-type]
        pass
    assert tg.get_num_threads() == before


def _blas_threads() -> set[int]:
    return {
        lib["num_threads"]
        for lib in threadpoolctl.threadpool_info()
        if lib["user_api"] == "blas" and "numpy" in lib["filepath"]
    }


def test_blas_is_limited_along() -> None:
    tg.set_num_threads(1)
    assert _blas_threads() == {1}
    tg.set_num_threads(2)
    assert _blas_threads() == {2}
    with tg.threads(1):
        _ = tg.ones(400, 400) @ tg.ones(400, 400)
        assert _blas_threads() == {1}
    assert _blas_threads() == {2}


def test_the_environment_says_how_many_threads() -> None:
    program = """
        import sys
        import tapegrad as tg
        print(tg.get_num_threads(), "numba" in sys.modules)
        tg.ones(300, 300) @ tg.ones(300, 300)
        import threadpoolctl
        print({lib["num_threads"] for lib in threadpoolctl.threadpool_info() if lib["user_api"] == "blas"})
    """
    out, _ = run(program, TAPEGRAD_NUM_THREADS="1", OMP_NUM_THREADS="4", OPENBLAS_NUM_THREADS="4")
    assert out.splitlines() == ["1 False", "{1}"]
    out, _ = run(program, TAPEGRAD_NUM_THREADS="3", OMP_NUM_THREADS="1")
    assert out.splitlines()[0] == "3 False"


@pytest.mark.parametrize("value", ["0", "-1", "two", "1.5", "1e3"])
def test_a_bad_environment_is_refused_by_name(value: str) -> None:
    program = """
        try:
            import tapegrad
        except ValueError as err:
            print(err)
    """
    out, _ = run(program, TAPEGRAD_NUM_THREADS=value)
    assert "TAPEGRAD_NUM_THREADS" in out
    assert repr(value) in out


def test_waiting_threads_soon_sleep() -> None:
    """On busy cores threads that spin take the time from those they wait for; a user's own setting is kept."""
    program = """
        import os
        import tapegrad as tg
        tg.ones(300_000) * 2
        import numba
        print(numba.threading_layer(), os.environ.get("GOMP_SPINCOUNT"))
    """
    settings = {"TAPEGRAD_NUM_THREADS": "2", "TAPEGRAD_GRAIN": "1000", "OMP_DISPLAY_ENV": "verbose"}
    out, err = run(program, **settings)
    if "GOMP_" not in err:
        pytest.skip(f"the threads are not those of GCC's OpenMP: {out}")
    assert out.split() == ["omp", "None"], "the environment is as it was"
    assert "GOMP_SPINCOUNT = '10000'" in err
    _, err = run(program, **settings, GOMP_SPINCOUNT="77")
    assert "GOMP_SPINCOUNT = '77'" in err
    _, err = run(program, **settings, OMP_WAIT_POLICY="ACTIVE")
    assert "OMP_WAIT_POLICY = 'ACTIVE'" in err
    assert "GOMP_SPINCOUNT = '10000'" not in err


def test_busy_cores_make_work_serial_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, own = 0.0, 0.0
    monkeypatch.setattr("time.perf_counter", lambda: clock)
    monkeypatch.setattr("time.thread_time", lambda: own)
    watch = Retreat()

    def region(took: float, lost: float) -> bool:
        nonlocal clock, own
        if not watch.possible():
            return False
        clock += took
        own += took - lost
        watch.consider()
        return True

    for _ in range(100):
        assert region(0.1, 0.01), "uneven work is not a loss"
        assert region(5e-4, 4e-4), "nor is a short one"
    pauses = []
    for _ in range(9):
        assert region(0.002, 0.0015)  # the first of them is not measured
        region(0.002, 0.0015)
        before = clock
        while not watch.possible():
            clock += 0.001
        pauses.append(round(clock - before, 2))
    assert pauses == [0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.0, 1.0, 1.0]
    assert region(0.1, 0.0)
    assert region(0.1, 0.0)
    assert region(0.002, 0.0015)
    assert not region(0.002, 0.0015)
    clock += 0.021
    assert region(0.002, 0.0), "one good region, and the next pause is short again"


def test_a_thread_that_sleeps_makes_the_next_work_serial() -> None:
    from tapegrad.kernels import launch

    tg.set_num_threads(2)
    retreat.LOST = Retreat.LOST
    parts: list[int] = []

    def region(given: int) -> None:
        time.sleep(0.005)
        parts.append(given)

    while len(parts) < 3 and launch.in_region(SIZE, region):
        pass
    assert parts[:1] == [2]
    assert len(parts) < 3
    retreat.until = 0.0
    assert launch.in_region(SIZE, region)


def test_more_threads_than_cores_by_the_environment() -> None:
    out, _ = run(
        "import tapegrad as tg; print((tg.ones(300_000) * 2).sum().item())", TAPEGRAD_NUM_THREADS="64"
    )
    assert out.strip() == "600000.0"
