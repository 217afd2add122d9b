"""Compiled steps beside PyTorch (eager, torch.compile) and JAX's jit, in rounds that time all of them in turn.

    python benchmarks/native.py [--quick] [--threads 2] [--only TEXT] [--peers torch,compile,jax] [--json FILE] [--readme FILE]

Each step reads its loss. In a round everybody is timed once; the ratios of a round are its own, so a slow moment of the machine
falls on all. Printed are the medians. PyTorch is compiled in two ways, forward with loss or the whole step, of which the faster
one counts. The process is bound to as many cores as it may use threads, since JAX offers no other way to say so.
"""

from __future__ import annotations

import argparse
import functools
import gc
import importlib.util
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any, NamedTuple

_known = argparse.ArgumentParser(add_help=False)
_known.add_argument("--threads", type=int, default=1)
THREADS: int = _known.parse_known_args()[0].threads
os.environ["OMP_NUM_THREADS"] = os.environ["TAPEGRAD_NUM_THREADS"] = str(THREADS)
if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:THREADS])

import native_cases  # noqa: E402
import numpy as np  # noqa: E402
from native_cases import CASES, Case, How, Run  # noqa: E402

import tapegrad as tg  # noqa: E402

FIRST = CASES[1]  # whose first call is measured
PEERS = {"torch": "PyTorch", "compile": "torch.compile", "jax": "JAX"}


class Peer(NamedTuple):
    """Somebody who is timed: a column, and what makes the step."""

    column: str
    build: Callable[[], Run]


def peers(case: Case, chosen: list[str]) -> list[Peer]:
    """Who can be measured on a case."""
    found = [Peer("tapegrad", lambda: case.build(tg, How(step=tg.compile)))]
    if "torch" in chosen or "compile" in chosen:
        import torch

        torch.set_num_threads(THREADS)
        if "torch" in chosen:
            found.append(Peer("PyTorch", lambda: case.build(torch, How())))
        if "compile" in chosen:
            compiled = functools.partial(torch.compile, dynamic=False)
            found.append(Peer("torch.compile", lambda: case.build(torch, How(forward=compiled))))
            found.append(Peer("torch.compile", lambda: case.build(torch, How(step=compiled))))
    if "jax" in chosen:
        import native_jax

        found.append(Peer("JAX", native_jax.BUILDERS[CASES.index(case)]))
    return found


def available(wanted: list[str]) -> list[str]:
    """Those of the peers that are installed; says why others are left out."""
    found = []
    for name in wanted:
        package = "jax" if name == "jax" else "torch"
        if importlib.util.find_spec(package) is None:
            print(f"{PEERS[name]} is left out: pip install {package}")
        elif name == "compile" and not any(
            map(shutil.which, (os.environ.get("CXX", "c++"), "g++", "clang++"))
        ):
            print("torch.compile is left out: it needs a C++ compiler, and there is none here")
        else:
            found.append(name)
    return found


# -- one case -------------------------------------------------------------------------------------------------


def measure(case: Case, chosen: list[str], rounds: int, seconds: float) -> dict[str, Any]:
    """Median microseconds by column, ratios of ours to each, and why somebody could not do it."""
    runs: list[tuple[str, Run, int]] = []
    failed: dict[str, str] = {}
    for peer in peers(case, chosen):
        try:
            run = peer.build()
            for _ in range(4):
                run()
        except RuntimeError as err:
            if peer.column == "tapegrad":
                raise
            failed[peer.column] = str(err).strip().split("\n")[0]
            continue
        start = time.perf_counter()
        run()
        runs.append((peer.column, run, max(1, int(seconds / (time.perf_counter() - start)))))
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
    for (column, _, _), mine in zip(runs, times, strict=True):
        median = statistics.median(mine)
        if median < microseconds.get(column, float("inf")):
            microseconds[column] = median
            ratios[column] = statistics.median(a / b for a, b in zip(times[0], mine, strict=True))
    del ratios["tapegrad"]
    return {
        "us": microseconds,
        "ratios": ratios,
        "failed": {k: v for k, v in failed.items() if k not in ratios},
    }


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


def first_calls(chosen: list[str]) -> dict[str, tuple[float, float]]:
    """Seconds of the first calls in fresh processes: with empty caches, and with those that the first one left."""
    found = {}
    for peer in ["tapegrad", *(p for p in chosen if p != "torch")]:
        with tempfile.TemporaryDirectory() as folder:
            env = os.environ | {"TAPEGRAD_CACHE_DIR": folder, "TORCHINDUCTOR_CACHE_DIR": folder}
            command = [sys.executable, __file__, "--threads", str(THREADS), "--first", peer]
            taken = [
                float(subprocess.run(command, capture_output=True, text=True, check=True, env=env).stdout)
                for _ in range(2)
            ]
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
    for name, figures in results["cases"].items():
        cells = [shown(figures["us"][c]) if c in figures["us"] else "-" for c in columns]
        lines.append(f"| {name} | {' | '.join(cells)} | {figures['verdict']} |")
    if "first" in results:
        cells = [
            "{:.2f} / {:.2f} s".format(*results["first"][c]) if c in results["first"] else "-"
            for c in columns
        ]
        lines.append(f"| first call of the Adam step, empty / filled cache | {' | '.join(cells)} | |")
        lines.append(f"| replay of one tiny entry | {results['entry_ns']:.1f} ns | - | - | - | |")
    return lines


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
    chosen = available(wanted)
    rounds, seconds = (2, 0.01) if options.quick else (15, 0.2)
    results: dict[str, Any] = {"threads": THREADS, "numpy": np.__version__, "cases": {}}
    for case in native_cases.CASES:
        if options.only in case.name:
            figures = results["cases"][case.name] = measure(case, chosen, rounds, seconds)
            figures["verdict"] = verdict(case, figures)
            times = "  ".join(f"{k} {shown(v)}" for k, v in figures["us"].items())
            print(f"{case.name}\n    {times}\n    {figures['verdict']}", flush=True)
            for peer, why in figures["failed"].items():
                print(f"    {peer} cannot do it: {why}")
    if not options.only:
        results["entry_ns"] = per_entry(rounds)
        print(f"replay of one tiny entry: {results['entry_ns']:.1f} ns (target 20)")
        results["first"] = first_calls(chosen)
        for name, (cold, warm) in results["first"].items():
            print(f"first call, {name}: {cold:.2f} s with an empty cache, {warm:.2f} s with a filled one")
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))
    if options.readme:
        write_readme(options.readme, table(results))


if __name__ == "__main__":
    main()
