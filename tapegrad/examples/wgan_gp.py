"""Train a Wasserstein GAN with gradient penalty: a loss that contains a gradient.

The critic of Gulrajani et al. (2017) is to have slope 1 between real and made pictures. Its loss therefore
contains the gradient of its own output for its input: ``autograd.grad(..., create_graph=True)`` records
that backward, and the loss's backward goes through it, a second derivative.
"""

from __future__ import annotations

import itertools
from typing import Any

import tapegrad as tg
from tapegrad import nn
from tapegrad.data import TensorDataset
from tapegrad.examples.common import Options, Run, distance, pictures, whole_batches, write_pictures


def generator(latent: int, hidden: int, size: int) -> nn.Sequential:
    """From noise (n, latent) to pictures (n, 1, size, size)."""
    return nn.Sequential(
        nn.Linear(latent, hidden),
        nn.ReLU(),
        nn.Linear(hidden, hidden),
        nn.ReLU(),
        nn.Linear(hidden, size * size),
        nn.Tanh(),
        nn.Unflatten(1, (1, size, size)),
    )


def critic(hidden: int, size: int) -> nn.Sequential:
    """From pictures to a number (n, 1); no batch norm, since the penalty is on each picture alone."""
    return nn.Sequential(
        nn.Flatten(),
        nn.Linear(size * size, hidden),
        nn.LeakyReLU(0.2),
        nn.Linear(hidden, hidden),
        nn.LeakyReLU(0.2),
        nn.Linear(hidden, 1),
    )


def gradient_penalty(critic: nn.Module, real: tg.Tensor, made: tg.Tensor) -> Any:
    """The mean of (|slope| - 1)^2 at random places between real and made pictures."""
    share = tg.rand(len(real), 1, 1, 1)
    between = (share * real + (1 - share) * made).requires_grad_()
    (slope,) = tg.autograd.grad(critic(between).sum(), between, create_graph=True)
    return (slope.flatten(1).norm(2, dim=1) - 1).square().mean()


def main(arguments: list[str] | None = None) -> float:
    """Train; returns how far the made pictures are from real ones at the end (see ``distance``)."""
    known = Options("tapegrad.examples.wgan_gp", __doc__)
    known.numbers(epochs=40, batch_size=50, latent=32, hidden=256, critic_steps=4, lr=5e-4)
    options = known.digits().samples().compiled().parse(arguments)
    with Run(options) as run:
        real = pictures(options.data)
        loader = whole_batches(TensorDataset(real), options.batch_size)
        make = generator(options.latent, options.hidden, real.shape[-1])
        judge = critic(options.hidden, real.shape[-1])
        make_step = tg.optim.Adam(make.parameters(), lr=options.lr, betas=(0.5, 0.9))
        judge_step = tg.optim.Adam(judge.parameters(), lr=options.lr, betas=(0.5, 0.9))
        fixed = tg.randn(1000, options.latent)
        turns = itertools.cycle([False] * (options.critic_steps - 1) + [True])

        @run.step
        def learn_to_judge(batch: tg.Tensor) -> tuple[tg.Tensor, tg.Tensor]:
            with tg.no_grad():
                made = make(tg.randn(options.batch_size, options.latent))
            gap = judge(batch).mean() - judge(made).mean()
            penalty = gradient_penalty(judge, batch, made)
            judge_step.zero_grad()
            (10 * penalty - gap).backward()
            judge_step.step()
            return gap, penalty

        @run.step
        def learn_to_make() -> None:
            make_step.zero_grad()
            (-judge(make(tg.randn(options.batch_size, options.latent))).mean()).backward()
            make_step.step()

        for epoch in range(1, options.epochs + 1):
            for (batch,) in run.bar(loader):
                gap, penalty = learn_to_judge(batch)
                if next(turns):
                    learn_to_make()
                run.show(gap=gap, penalty=penalty)

            with tg.no_grad():
                shown = make(fixed)
            run.record(epoch=epoch, gap=gap, penalty=penalty, distance=distance(shown, real))
            if options.samples:
                write_pictures(shown[:64], options.samples)
    return run.records[-1]["distance"]


if __name__ == "__main__":
    main()
