"""Time of an optimizer's step beside PyTorch's fused and foreach forms, as ratios.

    python benchmarks/optim.py [--quick] [--json FILE]

Two hundred small tensors show what a step costs in Python, one of ten million elements what it costs in
memory traffic. Each round times both libraries in alternation; the median of the rounds' ratios is printed,
with the quartiles.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from typing import Any

import numpy as np
from overhead import measure

import tapegrad as tg

# What a step may cost at most, as a share of the faster form of PyTorch.
TARGETS = {"Adam, 200 tensors of 64": 0.5, "Adam, one tensor of 1e7": 1.0}


def stepper(
    lib: Any, name: str, sizes: list[int], options: dict[str, Any], **impl: bool
) -> Callable[[], Any]:
    """The step of an optimizer over tensors of these sizes, whose gradients stay as they are."""
    rng = np.random.default_rng(0)
    params = []
    for size in sizes:
        param = lib.tensor(rng.standard_normal(size).astype(np.float32), requires_grad=True)
        param.grad = lib.tensor(rng.standard_normal(size).astype(np.float32))
        params.append(param)
    optimizer = getattr(lib.optim, name)(params, lr=1e-4, **options, **impl)
    return lambda: optimizer.step()


SMALL, MIXED, LARGE = [64] * 200, [int(s) for s in np.geomspace(8, 20_000, 200)], [10_000_000]
CASES: dict[str, tuple[str, list[int], dict[str, Any], tuple[str, ...]]] = {
    "Adam, 200 tensors of 64": ("Adam", SMALL, {}, ("fused", "foreach")),
    "Adam, 200 tensors of 8 to 20,000": ("Adam", MIXED, {}, ("fused", "foreach")),
    "AdamW with amsgrad, 200 tensors of 64": ("AdamW", SMALL, {"amsgrad": True}, ("fused", "foreach")),
    "SGD, 200 tensors of 64": ("SGD", SMALL, {}, ("fused", "foreach")),
    "SGD with momentum, 200 tensors of 64": ("SGD", SMALL, {"momentum": 0.9}, ("fused", "foreach")),
    "RMSprop, 200 tensors of 64": ("RMSprop", SMALL, {}, ("foreach",)),
    "NAdam, 200 tensors of 64": ("NAdam", SMALL, {}, ("foreach",)),
    "Adam, one tensor of 1e7": ("Adam", LARGE, {}, ("fused", "foreach")),
    "SGD with momentum, one tensor of 1e7": ("SGD", LARGE, {"momentum": 0.9}, ("fused", "foreach")),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few rounds: shows that it runs, not how fast")
    parser.add_argument("--json", help="also write the figures to this file")
    parser.add_argument("--only", default="", help="cases whose name contains this")
    options = parser.parse_args()
    rounds, seconds = (3, 0.01) if options.quick else (21, 0.1)
    try:
        import torch
    except ImportError:
        print("PyTorch is not installed, so there is nothing to compare with: pip install torch")
        return
    torch.set_num_threads(tg.get_num_threads())
    figures: dict[str, Any] = {}
    print(f"{'':52} {'tapegrad':>10} {'torch':>10} {'ratio':>7}   quartiles     target")
    for case, (name, sizes, given, impls) in CASES.items():
        if options.only not in case:
            continue
        for impl in impls:
            ours, theirs = stepper(tg, name, sizes, given), stepper(torch, name, sizes, given, **{impl: True})
            r = figures[f"{case}, {impl}"] = measure(
                ours, theirs, rounds, seconds, warm=3 if len(sizes) == 1 else 50
            )
            print(
                f"{f'{case}, {impl}':52} {r['tapegrad_us']:8.0f}us {r['torch_us']:8.0f}us {r['ratio']:7.2f}   "
                f"{r['low']:.2f} - {r['high']:.2f}   {TARGETS.get(case, '')}"
            )
    if options.json:
        with open(options.json, "w") as file:
            json.dump(figures, file, indent=1)


if __name__ == "__main__":
    main()
