"""Cost per operation on tiny tensors, beside PyTorch in eager mode, one thread each, as ratios.

    python benchmarks/overhead.py [--quick] [--json FILE]

Each round times both libraries in alternation; the ratio of a round is theirs alone, so a slow moment of the
machine falls on both. The median of the rounds is printed, with the quartiles.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TAPEGRAD_NUM_THREADS", "1")

import numpy as np

import tapegrad as tg

TARGETS = {
    "ten multiplications, forward": 0.8,
    "ten multiplications, forward + sum + backward": 0.6,
    "MLP step": 0.6,
}


def ten(lib: Any) -> Callable[[], Any]:
    """Ten tracked multiplications of 16 float32 elements."""
    x = lib.tensor(np.linspace(0.5, 1.5, 16).tolist(), requires_grad=True)

    def run() -> Any:
        y = x
        for _ in range(10):
            y = y * x
        return y

    return run


def ten_backward(lib: Any) -> Callable[[], Any]:
    forward = ten(lib)
    return lambda: forward().sum().backward()


def mlp_step(lib: Any) -> Callable[[], Any]:
    """A training step of a 4-32-32-3 network, batch 8, SGD."""
    rng = np.random.default_rng(0)
    nn = lib.nn
    net = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 3))
    optimizer = lib.optim.SGD(net.parameters(), lr=0.01)
    loss_of = nn.CrossEntropyLoss()
    x = lib.tensor(rng.standard_normal((8, 4)).tolist())
    y = lib.tensor(rng.integers(0, 3, 8).tolist())

    def run() -> Any:
        optimizer.zero_grad()
        loss = loss_of(net(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return run


CASES: dict[str, Callable[[Any], Callable[[], Any]]] = {
    "ten multiplications, forward": ten,
    "ten multiplications, forward + sum + backward": ten_backward,
    "MLP step": mlp_step,
}


def measure(
    ours: Callable[[], Any], theirs: Callable[[], Any], rounds: int, seconds: float, warm: int = 50
) -> dict[str, float]:
    """Medians of the times (in microseconds) and of the ratio ours / theirs."""
    for _ in range(warm):
        ours(), theirs()
    start = time.perf_counter()
    theirs()
    number = max(1, int(seconds / max(time.perf_counter() - start, 1e-6)))
    mine, peers, ratios = [], [], []
    for _ in range(rounds):
        pair = []
        for run in (ours, theirs):
            gc.collect()
            start = time.perf_counter()
            for _ in range(number):
                run()
            pair.append((time.perf_counter() - start) / number * 1e6)
        mine.append(pair[0])
        peers.append(pair[1])
        ratios.append(pair[0] / pair[1])
    quartiles = statistics.quantiles(ratios, n=4)
    return {
        "tapegrad_us": statistics.median(mine),
        "torch_us": statistics.median(peers),
        "ratio": statistics.median(ratios),
        "low": quartiles[0],
        "high": quartiles[2],
    }


def import_time(module: str, rounds: int) -> float:
    """Median seconds of importing a module in a fresh process."""
    code = f"import time; t = time.perf_counter(); import {module}; print(time.perf_counter() - t)"
    found = []
    for _ in range(rounds):
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        found.append(float(done.stdout))
    return statistics.median(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few rounds: shows that it runs, not how fast")
    parser.add_argument("--json", help="also write the figures to this file")
    options = parser.parse_args()
    rounds, seconds = (3, 0.01) if options.quick else (31, 0.05)
    try:
        import torch
    except ImportError:
        print("PyTorch is not installed, so there is nothing to compare with: pip install torch")
        for name, case in CASES.items():
            run = case(tg)
            result = measure(run, run, rounds, seconds)
            print(f"{name:50} tapegrad {result['tapegrad_us']:8.1f} us")
        return
    torch.set_num_threads(1)
    figures: dict[str, Any] = {}
    print(f"{'':50} {'tapegrad':>10} {'torch':>10} {'ratio':>7}   quartiles     target")
    for name, case in CASES.items():
        r = figures[name] = measure(case(tg), case(torch), rounds, seconds)
        print(
            f"{name:50} {r['tapegrad_us']:8.1f}us {r['torch_us']:8.1f}us {r['ratio']:7.2f}   "
            f"{r['low']:.2f} - {r['high']:.2f}   {TARGETS[name]:.2f}"
        )
    for module in ("tapegrad", "torch"):
        figures[f"import {module}"] = import_time(module, 3 if options.quick else 9)
    print(f"{'import':50} {figures['import tapegrad']:9.2f}s {figures['import torch']:9.2f}s")
    if options.json:
        with open(options.json, "w") as file:
            json.dump(figures, file, indent=1)


if __name__ == "__main__":
    main()
