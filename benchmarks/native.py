"""Compiled steps beside PyTorch (eager, torch.compile) and JAX's jit, in rounds that time all of them in turn.

    python benchmarks/native.py [--quick] [--threads 2] [--only TEXT] [--peers torch,compile,jax] [--timeout SECONDS]
                                [--json FILE] [--readme FILE]

Each step reads its loss. In a round everybody is timed once; the ratios of a round are its own, so a slow moment of the machine
falls on all. Printed are the medians. PyTorch is compiled in two ways, of which the faster one counts: forward and loss, whose
backward is compiled with them while the optimizer runs eagerly, or the whole step. Both have their first calls, in which they
compile, before any is timed; who takes longer for that than the time-out, or cannot do it, is named with the reason below the
table. The process is bound to as many cores as it may use threads, since JAX offers no other way to say so.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import gc
import importlib.util
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

_known = argparse.ArgumentParser(add_help=False)
_known.add_argument("--threads", type=int, default=1)
THREADS: int = _known.parse_known_args()[0].threads
os.environ["OMP_NUM_THREADS"] = os.environ["TAPEGRAD_NUM_THREADS"] = str(THREADS)
os.environ.setdefault(
    "TORCHINDUCTOR_COMPILE_THREADS", "1"
)  # no pool of processes that wakes up while others are timed
if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:THREADS])

import native_cases  # noqa: E402
import numpy as np  # noqa: E402
from native_cases import CASES, Case, How, Run  # noqa: E402

import tapegrad as tg  # noqa: E402

FIRST = CASES[1]  # whose first call is measured
PEERS = {"torch": "PyTorch", "compile": "torch.compile", "jax": "JAX"}


class Peer(NamedTuple):
    """Somebody who is timed: a column, what makes the step, which way it is, and calls before the first that counts."""

    column: str
    build: Callable[[], Run]
    way: str = ""
    warm: int = 4


class TimeOut(BaseException):
    """Somebody takes too long to compile. No Exception, since compilers catch those."""


@contextlib.contextmanager
def limited(seconds: float) -> Iterator[None]:
    """TimeOut if the block takes longer."""

    def stop(*_: object) -> None:
        raise TimeOut(f"not ready after {seconds:.0f} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(
        signal.ITIMER_REAL, seconds, 1.0
    )  # again and again, should somebody catch it all the same
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def peers(case: Case, chosen: list[str]) -> list[Peer]:
    """Who can be measured on a case."""
    found = [Peer("tapegrad", lambda: case.build(tg, How(step=tg.compile)))]
    if "torch" in chosen or "compile" in chosen:
        import torch

        torch.set_num_threads(THREADS)
        if "torch" in chosen:
            found.append(Peer("PyTorch", lambda: case.build(torch, How())))
        if "compile" in chosen:
            # The cases share functions, of which torch compiles a few versions and then gives up: it shall forget, or say so.
            torch._dynamo.reset()
            torch._dynamo.config.fail_on_recompile_limit_hit = True
            compiled = functools.partial(torch.compile, dynamic=False)
            ways = (("forward", How(forward=compiled)), ("step", How(step=compiled)))
            for way, how in ways:
                found.append(Peer("torch.compile", functools.partial(case.build, torch, how), way, 10))
    if "jax" in chosen:
        import native_jax

        found.append(Peer("JAX", native_jax.BUILDERS[CASES.index(case)]))
    return found


def available(wanted: list[str], seconds: float) -> tuple[list[str], dict[str, str]]:
    """Those of the peers that work here, and why others are left out, by column."""
    found, missing = [], {}
    for name in wanted:
        package = "jax" if name == "jax" else "torch"
        if importlib.util.find_spec(package) is None:
            missing[PEERS[name]] = f"pip install {package}"
        elif name == "compile" and (why := cannot_compile(seconds)):
            missing[PEERS[name]] = why
        else:
            found.append(name)
    return found, missing


def cannot_compile(seconds: float) -> str:
    """Why torch.compile does not work, "" if it does: it needs a C++ compiler."""
    import torch

    x = torch.ones(4, requires_grad=True)
    try:
        with limited(seconds):
            torch.compile(lambda x: (x * 2).tanh().sum(), dynamic=False)(x).backward()
    except (RuntimeError, OSError, ImportError, TimeOut) as err:
        return reason(err)
    return ""


def reason(err: BaseException) -> str:
    """The first line of an error that says something."""
    lines = [line.strip() for line in str(err).split("\n") if line.strip()]
    return lines[0][:200] if lines else type(err).__name__


# -- one case -------------------------------------------------------------------------------------------------


def measure(case: Case, chosen: list[str], rounds: int, seconds: float, patience: float) -> dict[str, Any]:
    """Median microseconds by column, ratios of ours to each, and why somebody could not do it."""
    runs: list[tuple[Peer, Run, int]] = []
    failed: dict[str, str] = {}
    ready: dict[str, float] = {}
    for peer in peers(case, chosen):
        name = f"{peer.column} {peer.way}".strip()
        start = time.perf_counter()
        try:
            with limited(patience):
                run = peer.build()
                for _ in range(peer.warm):
                    run()
        except (RuntimeError, TimeOut) as err:
            if peer.column == "tapegrad":
                raise
            failed[name] = reason(err)
            continue
        ready[name] = time.perf_counter() - start
        start = time.perf_counter()
        run()
        runs.append((peer, run, max(1, int(seconds / (time.perf_counter() - start)))))
    times: list[list[float]] = [[] for _ in runs]
    for _ in range(rounds):
        for mine, (_, run, count) in zip(times, runs, strict=True):
            gc.collect()
            start = time.perf_counter()
            for _ in range(count):
                run()
            mine.append((time.perf_counter() - start) / count * 1e6)
    microseconds: dict[str, float] = {}
    ratios: dict[str, float] = {}
    ways: dict[str, dict[str, float]] = {}
    for (peer, _, _), mine in zip(runs, times, strict=True):
        median = statistics.median(mine)
        if peer.way:
            ways.setdefault(peer.column, {})[peer.way] = median
        if median < microseconds.get(peer.column, float("inf")):
            microseconds[peer.column] = median
            ratios[peer.column] = statistics.median(a / b for a, b in zip(times[0], mine, strict=True))
    del ratios["tapegrad"]
    return {"us": microseconds, "ratios": ratios, "ways": ways, "ready": ready, "failed": failed}


def verdict(case: Case, figures: dict[str, Any]) -> str:
    """The figure that the target is about, beside it."""
    if case.against == "µs":
        return f"{figures['us']['tapegrad']:.1f} µs (target {case.target:.0f} µs)"
    ratios = figures["ratios"]
    if case.against != "best":
        ratios = {k: v for k, v in ratios.items() if k == case.against}
    if not ratios:
        return "-"
    peer = max(ratios, key=lambda k: ratios[k])  # the best one
    return f"{ratios[peer]:.2f} of {peer} (target {case.target:.2f})"


# -- what is not a case -----------------------------------------------------------------------------------------


def per_entry(rounds: int) -> float:
    """Nanoseconds per entry of a tape of tiny entries, none of them fused."""
    count = 1000

    def many(x: Any) -> Any:
        y = x
        for _ in range(count):
            y = y * x
        return y

    compiled = tg.compile(many, without=("fuse", "common"))
    x = tg.ones(4)
    for _ in range(3):
        compiled(x)
    taken = []
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(100):
            compiled(x)
        taken.append((time.perf_counter() - start) / 100 / count * 1e9)
    return statistics.median(taken)


def first_call(peer: str) -> float:
    """Seconds until a step has run twice, in this process: recording or tracing, and compiling."""
    column = PEERS.get(peer, "tapegrad")
    build = next(p.build for p in reversed(peers(FIRST, [peer])) if p.column == column)
    run = build()
    start = time.perf_counter()
    run(), run()
    return time.perf_counter() - start


def _output(command: list[str], env: dict[str, str], seconds: float) -> str:
    return subprocess.run(
        command, capture_output=True, text=True, check=True, env=env, timeout=seconds
    ).stdout


def first_calls(chosen: list[str], patience: float) -> dict[str, tuple[float, float]]:
    """Seconds of the first calls in fresh processes: with empty caches, and with those that the first one left."""
    found = {}
    for peer in ["tapegrad", *(p for p in chosen if p != "torch")]:
        with tempfile.TemporaryDirectory() as folder:
            env = os.environ | {"TAPEGRAD_CACHE_DIR": folder, "TORCHINDUCTOR_CACHE_DIR": folder}
            command = [sys.executable, __file__, "--threads", str(THREADS), "--first", peer]
            try:
                taken = [float(_output(command, env, patience)) for _ in range(2)]
            except subprocess.TimeoutExpired:
                print(f"first call, {PEERS[peer]}: not ready after {patience:.0f} s")
                continue
        found[PEERS.get(peer, "tapegrad")] = (taken[0], taken[1])
    return found


# -- the table --------------------------------------------------------------------------------------------------


def shown(us: float) -> str:
    """A time in a unit that fits."""
    return f"{us:.1f} µs" if us < 1000 else f"{us / 1000:.2f} ms"


def table(results: dict[str, Any]) -> list[str]:
    """The lines of the README's table."""
    columns = ["tapegrad", *PEERS.values()]
    lines = [f"| step | {' | '.join(columns)} | ratio |", "| --- " * (len(columns) + 2) + "|"]
    notes = [f"{column} was not measured: {why}" for column, why in results.get("missing", {}).items()]
    for name, figures in results["cases"].items():
        cells = [cell(figures, c) for c in columns]
        lines.append(f"| {name} | {' | '.join(cells)} | {figures['verdict']} |")
        notes += [f"{name}: no {peer}, {why}" for peer, why in figures["failed"].items()]
    if "first" in results:
        cells = [
            "{:.2f} / {:.2f} s".format(*results["first"][c]) if c in results["first"] else "-"
            for c in columns
        ]
        lines.append(f"| first call of the Adam step, empty / filled cache | {' | '.join(cells)} | |")
        lines.append(f"| replay of one tiny entry | {results['entry_ns']:.1f} ns | - | - | - | |")
    return [*lines, *([""] if notes else []), *(f"* {note}" for note in notes)]


def cell(figures: dict[str, Any], column: str) -> str:
    """A time, with the way that was the faster one of several."""
    if column not in figures["us"]:
        return "-"
    ways = figures["ways"].get(column)
    return shown(figures["us"][column]) + (f" ({min(ways, key=ways.__getitem__)})" if ways else "")


def write_readme(path: pathlib.Path, lines: list[str]) -> None:
    """Put the table between its marks."""
    begin, end = "<!-- native -->", "<!-- /native -->"
    text = path.read_text()
    if begin not in text or end not in text:
        raise SystemExit(f"{path} has no place for the table: put {begin} and {end} where it belongs")
    before, after = text.partition(begin)[0], text.partition(end)[2]
    path.write_text(before + begin + "\n" + "\n".join(lines) + "\n" + end + after)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="few rounds: shows that it runs, not how fast")
    parser.add_argument("--threads", type=int, default=1, help="threads of everybody (1)")
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument("--peers", default="torch,compile,jax", help="whom to compare with")
    parser.add_argument(
        "--timeout", type=float, default=300, help="seconds for a peer to compile a case (300)"
    )
    parser.add_argument("--json", type=pathlib.Path, help="also write the figures to this file")
    parser.add_argument(
        "--readme", type=pathlib.Path, help="write the table into this file, between its marks"
    )
    parser.add_argument("--first", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.first:
        print(first_call(options.first))
        return
    wanted = [p for p in options.peers.split(",") if p]
    if unknown := sorted(set(wanted) - set(PEERS)):
        parser.error(f"--peers: {', '.join(unknown)} is none of {', '.join(PEERS)}")
    chosen, missing = available(wanted, options.timeout)
    for column, why in missing.items():
        print(f"{column} is left out: {why}")
    rounds, seconds = (2, 0.01) if options.quick else (15, 0.2)
    results: dict[str, Any] = {"threads": THREADS, "numpy": np.__version__, "missing": missing, "cases": {}}
    for case in native_cases.CASES:
        if options.only in case.name:
            figures = results["cases"][case.name] = measure(case, chosen, rounds, seconds, options.timeout)
            figures["verdict"] = verdict(case, figures)
            times = "  ".join(f"{k} {shown(v)}" for k, v in figures["us"].items())
            print(f"{case.name}\n    {times}\n    {figures['verdict']}", flush=True)
            for column, ways in figures["ways"].items():
                times = ", ".join(
                    f"{way} {shown(us)} (ready after {figures['ready'][f'{column} {way}']:.0f} s)"
                    for way, us in ways.items()
                )
                print(f"    {column}: {times}")
            for peer, why in figures["failed"].items():
                print(f"    {peer} cannot do it: {why}")
    if not options.only:
        results["entry_ns"] = per_entry(rounds)
        print(f"replay of one tiny entry: {results['entry_ns']:.1f} ns (target 20)")
        results["first"] = first_calls(chosen, options.timeout)
        for name, (cold, warm) in results["first"].items():
            print(f"first call, {name}: {cold:.2f} s with an empty cache, {warm:.2f} s with a filled one")
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))
    if options.readme:
        write_readme(options.readme, table(results))


if __name__ == "__main__":
    main()
