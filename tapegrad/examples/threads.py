"""Train the same network on one thread and on several, and compare times and weights.

Kernels cut their work by its size alone, never by the number of threads, so the weights come out the same
to the last bit. More threads pay for large layers and batches; on a machine that is busy with other work
they may cost.
"""

from __future__ import annotations

import functools
import time
from typing import Any

import tapegrad as tg
from tapegrad import nn
from tapegrad.examples.cnn import LeNet
from tapegrad.examples.common import Options, Run, digits


def main(arguments: list[str] | None = None) -> bool:
    """Train; returns whether all weights were the same."""
    known = Options("tapegrad.examples.threads", __doc__).numbers(steps=30, batch_size=100, lr=1e-3)
    options = known.digits().compiled().parse(arguments)
    with Run(options) as run:
        train, _ = digits(options.data, options.seed, channels=True)
        found = []
        for threads in range(1, tg.get_num_threads() + 1):
            with tg.threads(threads):
                tg.manual_seed(options.seed)
                model = LeNet(train.tensors[0].shape[-1])
                learn = run.step(functools.partial(one_step, model))
                start = time.perf_counter()
                for step in run.bar(range(options.steps + 1)):
                    if step == 1:  # the first one compiles kernels or reads them from the cache
                        start = time.perf_counter()
                    loss = learn(train.tensors, options.batch_size, options.lr)
                    run.show(loss=loss)
                seconds = (time.perf_counter() - start) / options.steps
            run.record(threads=threads, milliseconds_per_step=1000 * seconds, loss=loss)
            found.append(nn.utils.parameters_to_vector(model.parameters()))
    same = all(bool((weights == found[0]).all()) for weights in found)
    print("the weights are the same, bit by bit" if same else "the weights differ")
    return same


def one_step(model: nn.Module, data: tuple[tg.Tensor, ...], size: int, lr: float) -> Any:
    """One step of plain gradient descent on a random batch."""
    images, labels = data
    chosen = tg.randint(0, len(labels), (size,))
    loss = nn.functional.cross_entropy(model(images[chosen]), labels[chosen])
    model.zero_grad()
    loss.backward()
    with tg.no_grad():
        for p in model.parameters():
            p -= lr * p.grad
    return loss


if __name__ == "__main__":
    main()
