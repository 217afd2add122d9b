"""The kernel cache: named by what machine code depends on, harmless when it is broken, shared by processes."""

from __future__ import annotations

import itertools
import os
import pathlib
import shutil
import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import pytest
from numba.core.dispatcher import Dispatcher

import tapegrad as tg
from tapegrad.kernels import cache, jit, scalar

from ..process import finish, run, start

HEAD = """
    import numba.core.dispatcher
    import tapegrad as tg

    compiled = []
    compile = numba.core.dispatcher.Dispatcher.compile
    numba.core.dispatcher.Dispatcher.compile = lambda self, sig: (compiled.append(self), compile(self, sig))[1]

"""
# A float and an integer kernel, a derivative, a reduction, a kernel from a file, and a parallel loop.
PROGRAM = (
    HEAD
    + """
    x = tg.full((100_000,), 0.5, requires_grad=True)
    y = (x.exp() * 3).sum()
    y.backward()
    n = tg.arange(4) + 1
    print(round(y.item()), round(x.grad[99_999].item(), 4), (n * n).tolist(), tg.cumsum(n * 0.5, 0).tolist())
    print(len(compiled))
"""
)
SMALL = (
    HEAD
    + "    n = tg.arange(4); x = n * 0.5; print((n * n).tolist(), (x * x).tolist(), (-x).tolist()); print(len(compiled))"
)
SMALL_RESULT = "[0, 1, 4, 9] [0.0, 0.25, 1.0, 2.25] [-0.0, -0.5, -1.0, -1.5]"
RESULT = "494616 4.9462 [1, 4, 9, 16] [0.5, 1.5, 3.0, 5.0]"


def _warnings(err: str) -> int:
    return sum("RuntimeWarning" in line for line in err.splitlines())


def _run(folder: pathlib.Path, program: str = PROGRAM) -> tuple[str, int, int]:
    """Result, number of compiled functions and number of warnings of a program."""
    out, err = run(program, TAPEGRAD_CACHE_DIR=str(folder), TAPEGRAD_NUM_THREADS="2")
    result, compiled = out.splitlines()
    return result, int(compiled), _warnings(err)


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[pathlib.Path]:
    """A cache folder that the program has filled."""
    folder = tmp_path_factory.mktemp("cache")
    result, compiled, warned = _run(folder)
    assert result == RESULT
    assert compiled > 4
    assert not warned
    yield folder
    shutil.rmtree(folder)


# -- the stamp -------------------------------------------------------------------------------------


@pytest.fixture
def sources(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    for path in cache._SOURCES.glob("*.py"):
        shutil.copy(path, tmp_path / path.name)
    monkeypatch.setattr(cache, "_SOURCES", tmp_path)
    return tmp_path


def _stamps() -> tuple[str, str]:
    return cache.stamp.__wrapped__(False), cache.stamp.__wrapped__(True)


def test_the_stamp_changes_with_the_sources(sources: pathlib.Path) -> None:
    of_files, of_texts = before = _stamps()
    assert _stamps() == before
    (sources / "scalar_exp.py").write_text((sources / "scalar_exp.py").read_text() + "\n# changed\n")
    assert _stamps()[0] != of_files
    assert _stamps()[1] != of_texts
    before = _stamps()
    (sources / "pool.py").write_text("# changed\n")
    assert _stamps()[0] != before[0]
    (sources / "added.py").write_text("")
    (sources / "optim.py").rename(sources / "renamed.py")
    assert len({before[0], of_files, _stamps()[0]}) == 3


@pytest.mark.parametrize("library", ["numba", "llvmlite", "np"])
def test_the_stamp_changes_with_versions(library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = _stamps()
    monkeypatch.setattr(getattr(cache, library), "__version__", "99.0")
    assert not set(before) & set(_stamps())


def test_the_stamp_changes_with_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = [*_stamps()]
    monkeypatch.setattr(cache.llvmlite.binding, "get_host_cpu_name", lambda: "another")
    seen += _stamps()
    monkeypatch.setattr(cache.sys, "version", "3.99.0")
    seen += _stamps()
    monkeypatch.setenv("NUMBA_CPU_NAME", "generic")
    seen += _stamps()
    assert len(set(seen)) == 8


def test_generated_kernels_call_only_what_their_stamp_covers() -> None:
    """A device function edited in a file outside the stamp would leave the old machine code in use."""
    x = tg.rand(3, 4, requires_grad=True)
    (x.exp().pow(2.5) + x.amax()).sum().backward()
    covered = {p.name for pattern in cache.GENERATED for p in cache._SOURCES.glob(pattern)}

    def called(scope: dict[str, object], names: tuple[str, ...], seen: set[object]) -> None:
        for name in names:
            found = scope.get(name)
            if isinstance(found, Dispatcher) and found not in seen:
                seen.add(found)
                called(found.py_func.__globals__, found.py_func.__code__.co_names, seen)

    functions: set[object] = set()
    for kernel in jit._from_text.values():
        called(kernel.fn.__globals__, kernel.fn.__code__.co_names, functions)
    files = {pathlib.Path(f.py_func.__code__.co_filename).name for f in functions}  # type: ignore[attr-defined]
    assert len(functions) > 2
    assert {f for f in files if not f.startswith("<")} <= covered
    assert scalar.exp_f4 in functions


def test_flags_are_part_of_a_generated_kernels_name() -> None:
    text = "def named(out, start, stop):\n    for i in range(start, stop):\n        out[i] = 1\n"
    one = jit.from_text("named", text, {})
    same = jit.from_text("named", text, {})
    other = jit.from_text("named", text, {}, fastmath={"contract", "reassoc"})
    assert one is same
    assert one is not other
    assert one.label != other.label


# -- between processes -----------------------------------------------------------------------------


def test_a_second_process_compiles_nothing(filled: pathlib.Path) -> None:
    assert _run(filled) == (RESULT, 0, 0)


def test_two_processes_may_fill_the_cache_at_the_same_time(tmp_path: pathlib.Path) -> None:
    env = {"TAPEGRAD_CACHE_DIR": str(tmp_path), "TAPEGRAD_NUM_THREADS": "2"}
    both = [start(SMALL, env=env) for _ in range(2)]
    for process in both:
        out, err = finish(process)
        assert out.splitlines()[0] == SMALL_RESULT
        assert not _warnings(err)
    assert not list(tmp_path.rglob("*.tmp"))
    assert _run(tmp_path, SMALL) == (SMALL_RESULT, 0, 0)


# -- broken folders --------------------------------------------------------------------------------


def test_a_folder_that_cannot_be_made_costs_one_warning(tmp_path: pathlib.Path) -> None:
    (tmp_path / "file").write_text("in the way")  # also root cannot make a folder below a file
    result, compiled, warned = _run(tmp_path / "file" / "cache", SMALL)
    assert result == SMALL_RESULT
    assert compiled >= 4
    assert warned == 1


def _damage(path: pathlib.Path, kind: str) -> None:
    data = bytearray(path.read_bytes())
    if kind == "folder":
        path.unlink()
        path.mkdir()
        return
    if kind == "truncated":
        data = data[: len(data) // 2]
    elif kind == "flipped":
        data[len(data) // 2] ^= 0x10
    else:
        data = bytearray(kind.encode())
    path.write_bytes(data)


def test_damaged_files_cost_one_warning_and_are_made_anew(tmp_path: pathlib.Path) -> None:
    _run(tmp_path, SMALL)
    files = sorted(tmp_path.rglob("*.bin"))
    assert len(files) >= 4
    for path, kind in zip(files, itertools.cycle(["truncated", "flipped", "garbage", ""])):
        _damage(path, kind)
    assert _run(tmp_path, SMALL) == (SMALL_RESULT, len(files), 1)
    _damage(files[0], "folder")
    assert _run(tmp_path, SMALL) == (SMALL_RESULT, 1, 1)
    assert not list(tmp_path.rglob("*.tmp"))
    files[0].rmdir()
    assert _run(tmp_path, SMALL) == (SMALL_RESULT, 1, 0)
    assert _run(tmp_path, SMALL) == (SMALL_RESULT, 0, 0)


# -- how many --------------------------------------------------------------------------------------


def _count() -> int:
    return sum(len(k.entries) for k in jit._from_text.values())


def test_nothing_is_compiled_for_a_size() -> None:
    def use(shape: tuple[int, ...]) -> None:
        x = tg.ones(shape, dtype=tg.float64, requires_grad=True)
        (x * x + x.exp()).sum().backward()

    use((2, 3))
    before = _count()
    for size in [0, 1, 2, 7, 31, 32, 33, 255, 1000, 4097]:
        use((size,))
    for rank in range(7):
        use((2,) * rank)
        use((3,) * rank)
    assert _count() == before


def test_the_number_of_kernels_follows_the_patterns_of_memory_not_the_shapes() -> None:
    def use(sizes: tuple[int, ...]) -> None:
        a = tg.ones(sizes)
        for order in itertools.permutations(range(len(sizes))):
            _ = a * tg.ones([sizes[d] for d in np.argsort(order)]).permute(order)
        for which in itertools.product([0, 1], repeat=len(sizes)):
            _ = a * tg.ones([n if w else 1 for n, w in zip(sizes, which, strict=True)])

    use((2, 3, 4))
    before = _count()
    for sizes in ((3, 4, 2), (5, 2, 7), (9, 8, 2), (2, 2, 2), (10, 11, 12)):
        use(sizes)
    assert _count() == before


def test_one_text_is_one_kernel_however_often_it_is_written() -> None:
    def make() -> object:
        @tg.elementwise
        def often(x, *, k):
            return k * x * x + tg.sin(x)

        return often

    x = tg.ones(3, requires_grad=True)
    make()(x, k=2.0).sum().backward()  # type: ignore[operator]
    before = _count()
    for k in range(20):
        make()(x, k=float(k)).sum().backward()  # type: ignore[operator]
    assert _count() == before


def test_names_that_no_file_may_have(tmp_path: pathlib.Path) -> None:
    program = """
        import tapegrad as tg
        f = tg.elementwise(lambda x: x * x + 1)
        g = {}
        name = "n" * 400
        exec(f"def {name}(x): return x * 3", g)
        h = tg.elementwise(g[name])
        print(f(tg.ones(2)).tolist(), h(tg.ones(2)).tolist())
    """
    for _ in range(2):
        out, err = run(program, TAPEGRAD_CACHE_DIR=str(tmp_path))
        assert out.split("\n")[0] == "[2.0, 2.0] [3.0, 3.0]"
        assert not _warnings(err)
    assert len(list(tmp_path.rglob("*.bin"))) == 2


def test_kernels_of_one_name_from_different_processes_are_told_apart(tmp_path: pathlib.Path) -> None:
    """Machine code is looked up by name; names that only a process makes unique would meet in the cache."""
    code = (
        "import sys, numpy as np\n"
        "from tapegrad.kernels import jit\n"
        "made = []\n"
        "for n in sys.argv[1:]:\n"
        "    text = f'def same(x, out, start, stop):\\n    for i in range(start, stop):\\n        out[i] = x[i] * {n}\\n'\n"
        "    made.append(jit.from_text('same', text, {}))\n"
        "x = np.ones(4)\n"
        "for n, kernel in zip(sys.argv[1:], made):\n"
        "    out = np.zeros(4)\n"
        "    kernel(x, out, 0, 4)\n"
        "    assert out.tolist() == [float(n)] * 4, (n, out)\n"
        "addresses = {kernel.address(('d', 'd', 'int', 'int')) for kernel in made}\n"
        "assert len(addresses) == len(made)\n"
    )
    environment = {**os.environ, "TAPEGRAD_CACHE_DIR": str(tmp_path)}
    for numbers in (["2"], ["3"], ["5"], ["2", "3", "5"], ["5", "3", "2"]):
        command = [sys.executable, "-c", code, *numbers]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
