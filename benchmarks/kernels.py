"""Kernels beside PyTorch's on one thread and on two, and their share of what the machine can do.

    python benchmarks/kernels.py [--quick] [--only WORDS] [--threads 1 2] [--json FILE] [--readme]

Each round times both libraries in alternation; its ratio is theirs alone, so a slow moment of the machine falls on
both. The median ratio of the rounds is reported with its quartiles. One thread is timed by its own CPU clock, several
by the wall clock. Results are float32 unless the name says more,
and "backward" is the gradient of all inputs for a given cotangent. --readme writes the summary into README.md.

Behind the groups come "scaling", how much faster each of some compute-bound operations is on several threads than on one,
and "machine", what the machine can do and tapegrad's share of it; --only takes these words too.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import pathlib
import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

# Threads of one library that wait by spinning would hold the cores that the next one's threads need: OpenBLAS lets its
# own do so for a tenth of a second after each product. Here they go to sleep within a millisecond (2^20 cycles). Those of
# PyTorch's OpenMP wait for some milliseconds, as they do by default, and are asleep after PAUSE.
os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "20")

import numpy as np

import tapegrad as tg

try:
    import torch as _torch

    torch: Any = _torch
except ImportError:
    torch = None

PAUSE = 0.005  # seconds before a library's turn, in which the threads of the one before go to sleep
RANDOM = np.random.default_rng(0)
Make = Callable[[Any], Callable[[], Any]]


class Case(NamedTuple):
    """A piece of work: ``make(library)`` gives what is timed."""

    group: str
    name: str
    make: Make
    also: Callable[[], Callable[[], Any]] | None = None  # a second peer


class Target(NamedTuple):
    each: float
    mean: float | None = None


# How much faster two threads should be.
SPEED_UP = 1.8

TARGETS = {
    "exp, tanh, ... of 1e6, forward + backward": Target(0.6, 0.45),
    "add, mul, ... of 1e6, forward + backward": Target(0.8),
    "reductions of (4096, 1024), forward + backward": Target(0.7),
    "softmax and layer_norm of (4096, 1024), forward + backward": Target(0.7),
    "matrix products, 16 to 2048": Target(1.15, 1.0),
    "conv2d, forward + backward": Target(1.25, 1.0),
    "pooling, norms, indexing, sorting": Target(1.0),
    "Adam, 200 small tensors, beside fused=True": Target(0.5),
    "Adam, one tensor of 1e7, beside foreach=True": Target(0.9),
}


def tensor(lib: Any, x: np.ndarray, grad: bool = False) -> Any:
    return lib.from_numpy(x.copy()).requires_grad_(grad)


def normal(*shape: int, dtype: str = "f") -> np.ndarray:
    return RANDOM.standard_normal(shape, dtype="f").astype(dtype)


def both_ways(f: Callable[..., Any], *arrays: np.ndarray, fixed: tuple[Any, ...] = ()) -> Make:
    """f(lib, *tensors) and the gradients of all of them."""

    def make(lib: Any) -> Callable[[], Any]:
        inputs = [tensor(lib, x, True) for x in arrays]
        rest = [tensor(lib, x) for x in fixed]
        out = f(lib, *inputs, *rest)
        g = tensor(lib, normal(*out.shape))

        def run() -> Any:
            for x in inputs:
                x.grad = None
            f(lib, *inputs, *rest).backward(g)

        return run

    return make


def forward(f: Callable[..., Any], *arrays: np.ndarray) -> Make:
    def make(lib: Any) -> Callable[[], Any]:
        inputs = [tensor(lib, x) for x in arrays]
        return lambda: f(lib, *inputs)

    return make


# -- the work ----------------------------------------------------------------------------------------


def elementwise() -> Iterator[Case]:
    group = "exp, tanh, ... of 1e6, forward + backward"
    x, positive = normal(1_000_000), np.abs(normal(1_000_000)) + np.float32(0.1)
    for name in ("exp", "tanh", "sigmoid", "sin"):
        yield Case(group, name, both_ways(lambda lib, x, name=name: getattr(lib, name)(x), x))
    yield Case(group, "log", both_ways(lambda lib, x: lib.log(x), positive))
    yield Case(group, "erf", both_ways(lambda lib, x: lib.erf(x), x))
    yield Case(group, "gelu", both_ways(lambda lib, x: lib.nn.functional.gelu(x), x))
    yield Case(group, "pow", both_ways(lambda lib, x, y: x**y, positive, x))
    group = "add, mul, ... of 1e6, forward + backward"
    for name in ("add", "mul", "div"):
        yield Case(group, name, both_ways(lambda lib, x, y, name=name: getattr(lib, name)(x, y), x, positive))
    yield Case(group, "sqrt", both_ways(lambda lib, x: lib.sqrt(x), positive))
    yield Case(group, "relu", both_ways(lambda lib, x: lib.relu(x), x))


def rows() -> Iterator[Case]:
    group = "reductions of (4096, 1024), forward + backward"
    x = normal(4096, 1024)
    for name in ("sum", "mean", "var", "max"):
        for axis in (0, 1):

            def reduce(lib: Any, x: Any, name: str = name, axis: int = axis) -> Any:
                made = getattr(x, name)(axis)
                return made if name != "max" else made.values

            yield Case(group, f"{name}({axis})", both_ways(reduce, x))
    yield Case(group, "logsumexp(1)", both_ways(lambda lib, x: x.logsumexp(1), x))
    group = "softmax and layer_norm of (4096, 1024), forward + backward"
    labels = RANDOM.integers(0, 1024, 4096)
    yield Case(group, "softmax", both_ways(lambda lib, x: lib.nn.functional.softmax(x, 1), x))

    def nll(lib: Any, x: Any, y: Any) -> Any:
        return lib.nn.functional.nll_loss(lib.nn.functional.log_softmax(x, 1), y)

    yield Case(group, "log_softmax + nll_loss", both_ways(nll, x, fixed=(labels,)))

    def layer_norm(lib: Any, x: Any, w: Any, b: Any) -> Any:
        return lib.nn.functional.layer_norm(x, (1024,), w, b)

    yield Case(group, "layer_norm", both_ways(layer_norm, x, normal(1024), normal(1024)))


def products() -> Iterator[Case]:
    group = "matrix products, 16 to 2048"
    for n in (16, 32, 64, 128, 256, 512, 1024, 2048):
        for dtype in ("f", "d"):
            x, y = normal(n, n, dtype=dtype), normal(n, n, dtype=dtype)
            for ways in ("NN", "NT", "TN", "TT"):

                def make(
                    lib: Any, x: np.ndarray = x, y: np.ndarray = y, ways: str = ways
                ) -> Callable[[], Any]:
                    a, b = (
                        tensor(lib, z).t() if w == "T" else tensor(lib, z)
                        for z, w in zip((x, y), ways, strict=True)
                    )
                    return lambda: a @ b

                a, b = x.T if ways[0] == "T" else x, y.T if ways[1] == "T" else y
                name = f"{n} {ways} {'float32' if dtype == 'f' else 'float64'}"
                yield Case(group, name, make, partial(partial, np.matmul, a, b))
    x, y = normal(64, 64, 64), normal(64, 64, 64)
    yield Case(group, "bmm 64 x (64 x 64)", forward(lambda lib, x, y: x @ y, x, y), lambda: lambda: x @ y)


def convolutions() -> Iterator[Case]:
    group = "conv2d, forward + backward"
    for n, c, side, out, k, stride in [
        (64, 1, 28, 8, 3, 1), (64, 8, 13, 16, 3, 1), (32, 3, 32, 32, 3, 1), (32, 32, 16, 64, 3, 1),
        (32, 64, 8, 128, 3, 1), (16, 16, 28, 32, 5, 1), (16, 64, 28, 128, 3, 2), (16, 128, 14, 256, 1, 1),
        (16, 256, 7, 256, 3, 1),
    ]:  # fmt: skip

        def conv(lib: Any, x: Any, w: Any, b: Any, stride: int = stride, k: int = k) -> Any:
            return lib.nn.functional.conv2d(x, w, b, stride=stride, padding=k // 2)

        name = f"{n}x{c}x{side}x{side} to {out}, k{k}" + (f", stride {stride}" if stride > 1 else "")
        yield Case(group, name, both_ways(conv, normal(n, c, side, side), normal(out, c, k, k), normal(out)))


def others() -> Iterator[Case]:
    group = "pooling, norms, indexing, sorting"
    image = normal(32, 32, 32, 32)
    yield Case(group, "max_pool2d", both_ways(lambda lib, x: lib.nn.functional.max_pool2d(x, 2), image))

    def batch_norm(lib: Any, x: Any, w: Any, b: Any) -> Any:
        return lib.nn.functional.batch_norm(x, None, None, w, b, training=True)

    def group_norm(lib: Any, x: Any, w: Any, b: Any) -> Any:
        return lib.nn.functional.group_norm(x, 8, w, b)

    yield Case(group, "batch_norm", both_ways(batch_norm, image, normal(32), normal(32)))
    small = normal(8, 16, 4, 4)
    yield Case(group, "batch_norm, small", both_ways(batch_norm, small, normal(16), normal(16)))
    yield Case(group, "group_norm", both_ways(group_norm, image, normal(32), normal(32)))
    ids = RANDOM.integers(0, 10_000, 8192)

    def embedding(lib: Any, w: Any, ids: Any) -> Any:
        return lib.nn.functional.embedding(ids, w)

    yield Case(group, "embedding", both_ways(embedding, normal(10_000, 128), fixed=(ids,)))
    x = normal(1024, 1024)
    index = RANDOM.integers(0, 1024, (1024, 1024))
    yield Case(group, "gather", forward(lambda lib, x, i: x.gather(1, i), x, index))
    yield Case(group, "scatter_add", forward(lambda lib, x, i, y: x.scatter_add(1, i, y), x, index, x))
    yield Case(group, "sort", forward(lambda lib, x: x.sort(1), x))
    yield Case(group, "topk", forward(lambda lib, x: x.topk(16, 1), x))
    yield Case(
        group,
        "attention",
        both_ways(
            lambda lib, q, k, v: lib.nn.functional.scaled_dot_product_attention(q, k, v),
            *(normal(8, 8, 128, 32) for _ in range(3)),
        ),
    )
    weights = RANDOM.uniform(0.1, 1, (256, 1000)).astype("f")
    yield Case(group, "multinomial", forward(lambda lib, w: lib.multinomial(w, 16), weights))

    def adam(lib: Any, sizes: list[int], **how: Any) -> Callable[[], Any]:
        parameters = []
        for n in sizes:
            p = tensor(lib, normal(n), True)
            p.grad = tensor(lib, normal(n))
            parameters.append(p)
        step: Callable[[], Any] = lib.optim.Adam(parameters, lr=1e-3, **({} if lib is tg else how)).step
        return step

    yield Case(
        "Adam, 200 small tensors, beside fused=True", "Adam", lambda lib: adam(lib, [64] * 200, fused=True)
    )
    yield Case(
        "Adam, one tensor of 1e7, beside foreach=True",
        "Adam",
        lambda lib: adam(lib, [10_000_000], foreach=True),
    )


def all_cases() -> Iterator[Case]:
    for part in (elementwise, rows, products, convolutions, others):
        yield from part()


# -- measuring ---------------------------------------------------------------------------------------


def seconds(run: Callable[[], Any], number: int, clock: Callable[[], float] = time.perf_counter) -> float:
    start = clock()
    for _ in range(number):
        run()
    return (clock() - start) / number


def compare(case: Case, rounds: int, slice_: float, threads: int) -> dict[str, float]:
    """Times in microseconds and ratios of one case, PyTorch (or the faster peer) against tapegrad."""
    # What other programs take of the machine does not count where one thread does all the work.
    clock = time.thread_time if threads == 1 else time.perf_counter
    runs = [case.make(tg), case.make(torch)]
    if case.also:
        runs.append(case.also())
    for run in runs:
        run(), run()
    number = max(1, int(slice_ / max(seconds(runs[0], 1), 1e-6)))
    times: list[list[float]] = []
    gc.collect()
    gc.disable()
    for _ in range(rounds):
        times.append([])
        for run in runs:
            if threads > 1:
                time.sleep(PAUSE)
            run()
            times[-1].append(seconds(run, number, clock) * 1e6)
    gc.enable()
    ratios = [t[0] / min(t[1:]) for t in times]
    low, middle, high = statistics.quantiles(ratios, n=4)
    return {
        "tapegrad_us": statistics.median(t[0] for t in times),
        "peer_us": statistics.median(min(t[1:]) for t in times),
        "ratio": middle,
        "low": low,
        "high": high,
    }


def best(run: Callable[[], Any], rounds: int, number: int) -> float:
    run()
    return min(seconds(run, number) for _ in range(rounds))


def scaling(threads: int, rounds: int) -> dict[str, float]:
    """How much faster tapegrad's own compute-bound work is on several threads than on one."""
    x, y = tensor(tg, normal(10_000_000)), tensor(tg, normal(10_000_000))
    positive, out = x.abs() + 0.1, tg.empty(10_000_000)
    a = tensor(tg, normal(1024, 1024))
    conv = tg.nn.functional.conv2d
    work: dict[str, Callable[[], Any]] = {
        "tanh of 1e7": lambda: tg.tanh(x, out=out),
        "sin of 1e7": lambda: tg.sin(x, out=out),
        "erf of 1e7": lambda: tg.erf(x, out=out),
        "pow of 1e7": lambda: tg.pow(positive, y, out=out),
        "product of 1024": lambda: a @ a,
    }
    for n, c, side, to in ((32, 32, 16, 64), (16, 256, 7, 256)):
        run = both_ways(
            lambda lib, x, w: conv(x, w, padding=1), normal(n, c, side, side), normal(to, c, 3, 3)
        )(tg)
        work[f"conv2d {n}x{c}x{side}x{side} to {to}, forward + backward"] = run
    found: dict[str, float] = {}
    for name, run in work.items():
        times: dict[int, list[float]] = {1: [], threads: []}
        for _ in range(rounds):
            for n, taken in times.items():
                tg.set_num_threads(n)
                run()
                taken.append(seconds(run, 1))
        found[name] = min(times[1]) / min(times[threads])
    return found


def machine(threads: list[int], rounds: int) -> dict[str, float]:
    """What the machine can do, and tapegrad's share of it."""
    found: dict[str, float] = {}
    x, y = tensor(tg, normal(10_000_000)), tensor(tg, normal(10_000_000))
    out = tg.empty(10_000_000)
    a = tensor(tg, normal(1024, 1024))
    small = tensor(tg, normal(256, 256))
    work: dict[str, Callable[[], Any]] = {
        "copy": lambda: out.copy_(x),
        "add into an array": lambda: tg.add(x, y, out=out),
        "add": lambda: x + y,
        "product of 1024": lambda: a @ a,
        "product of 256": lambda: small @ small,
    }
    times: dict[tuple[str, int], float] = {}
    for n in threads:
        tg.set_num_threads(n)
        for name, run in work.items():
            times[name, n] = best(run, rounds, 40 if name == "product of 256" else 1)
        copy = 80e6 / times["copy", n]
        found[f"copy, GB/s, {n} threads"] = copy / 1e9
        for name in ("add into an array", "add"):
            found[f"{name} of 1e7, share of the copy bandwidth, {n} threads"] = 120e6 / times[name, n] / copy
    one = 2 * 256**3 / times["product of 256", threads[0]]
    found["matrix rate in the cache, GFLOP/s, one thread"] = one / 1e9
    for n in threads:
        found[f"product of 1024, share of the matrix rate, {n} threads"] = (
            2 * 1024**3 / times["product of 1024", n] / (one * n)
        )
    return found


# -- reporting ---------------------------------------------------------------------------------------


def summary(figures: dict[str, Any], threads: list[int]) -> list[str]:
    """A Markdown table, one line per group."""
    lines = [
        "| work | " + " | ".join(f"{n} thread{'s' * (n > 1)}: mean, worst" for n in threads) + " | target |",
        "| --- |" + " --- |" * (len(threads) + 1),
    ]
    for group, target in TARGETS.items():
        cells = []
        for n in threads:
            rows_ = {k: v["ratio"] for k, v in figures.get(group, {}).get(str(n), {}).items()}
            if not rows_:
                break
            worst = max(rows_, key=lambda k: rows_[k])
            mean = statistics.geometric_mean(rows_.values())
            cells.append(f"{mean:.2f}, {rows_[worst]:.2f} ({worst})" if len(rows_) > 1 else f"{mean:.2f}")
        if len(cells) == len(threads):
            wanted = (
                f"{target.each:.2f}" if target.mean is None else f"mean {target.mean:.2f}, {target.each:.2f}"
            )
            lines.append(f"| {group} | {' | '.join(cells)} | {wanted} |")
    return lines


def write_readme(lines: list[str]) -> None:
    path = pathlib.Path(__file__).parent.parent / "README.md"
    text = path.read_text()
    start, end = "<!-- kernels -->\n", "<!-- /kernels -->"
    before, _, rest = text.partition(start)
    _, _, after = rest.partition(end)
    if not after:
        raise SystemExit(f"{path} has no {start.strip()} ... {end} to write between")
    path.write_text(before + start + "\n".join(lines) + "\n" + end + after)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few rounds: shows that it runs, not how fast")
    parser.add_argument(
        "--only", nargs="+", default=[""], help="cases whose group or name has one of these words"
    )
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--json", help="also write the figures to this file")
    parser.add_argument("--readme", action="store_true", help="also write the summary into README.md")
    options = parser.parse_args()
    rounds, slice_ = (3, 0.002) if options.quick else (15, 0.02)
    figures: dict[str, Any] = {}
    chosen = [c for c in all_cases() if any(word in f"{c.group}: {c.name}" for word in options.only)]
    if torch is None:
        print("PyTorch is not installed, so there is nothing to compare with: pip install torch")
        for case in chosen:
            print(f"{case.group[:28]:28} {case.name:32} {best(case.make(tg), rounds, 1) * 1e6:10.1f} us")
        return
    for case in chosen:
        for n in options.threads:
            tg.set_num_threads(n)
            torch.set_num_threads(n)
            r = figures.setdefault(case.group, {}).setdefault(str(n), {})[case.name] = compare(
                case, rounds, slice_, n
            )
            mark = " <--" if r["ratio"] > TARGETS[case.group].each else ""
            print(
                f"{case.group[:28]:28} {case.name:32} {n} threads {r['tapegrad_us']:10.1f} us {r['peer_us']:10.1f} us "
                f"{r['ratio']:6.2f}  {r['low']:.2f} - {r['high']:.2f}{mark}",
                flush=True,
            )
    if len(options.threads) > 1 and any(word in "scaling" for word in options.only):
        n = options.threads[-1]
        figures["scaling"] = scaling(n, rounds)
        for name, value in figures["scaling"].items():
            mark = " <--" if value < SPEED_UP else ""
            print(f"{name:50} 1 to {n} threads {value:6.2f}{mark}")
    if any(word in "machine" for word in options.only):
        figures["machine"] = machine(options.threads, rounds)
        for name, value in figures["machine"].items():
            print(f"{name:70} {value:8.2f}")
    lines = summary(figures, options.threads)
    if chosen:
        print("\n".join(lines))
    if options.json:
        with open(options.json, "w") as file:
            json.dump(figures, file, indent=1)
    if options.readme:
        write_readme(lines)


if __name__ == "__main__":
    main()
