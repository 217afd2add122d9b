"""Train two networks against each other: one makes digits, the other tells them from real ones.

The generative adversarial network of Goodfellow et al. (2014), with the generator's loss that does not
saturate. The discriminator's step sees the made pictures detached: its backward ends there. The generator's
step goes through the discriminator, whose gradients from it are thrown away by the next ``zero_grad``.
"""

from __future__ import annotations

import tapegrad as tg
from tapegrad import nn
from tapegrad.data import TensorDataset
from tapegrad.examples.common import Options, Run, distance, pictures, whole_batches, write_pictures


def generator(latent: int, hidden: int, size: int) -> nn.Sequential:
    """From noise (n, latent) to pictures (n, 1, size, size)."""
    return nn.Sequential(
        nn.Linear(latent, hidden),
        nn.BatchNorm1d(hidden),
        nn.ReLU(),
        nn.Linear(hidden, hidden),
        nn.BatchNorm1d(hidden),
        nn.ReLU(),
        nn.Linear(hidden, size * size),
        nn.Tanh(),
        nn.Unflatten(1, (1, size, size)),
    )


def discriminator(hidden: int, size: int) -> nn.Sequential:
    """From pictures to a score (n, 1), positive for real ones."""
    return nn.Sequential(
        nn.Flatten(),
        nn.Linear(size * size, hidden),
        nn.LeakyReLU(0.2),
        nn.Dropout(0.3),
        nn.Linear(hidden, hidden),
        nn.LeakyReLU(0.2),
        nn.Dropout(0.3),
        nn.Linear(hidden, 1),
    )


def main(arguments: list[str] | None = None) -> float:
    """Train; returns how far the made pictures are from real ones at the end (see ``distance``)."""
    known = Options("tapegrad.examples.gan", __doc__)
    known.numbers(epochs=60, batch_size=100, latent=32, hidden=256, lr=1e-3)
    options = known.digits().samples().compiled().parse(arguments)
    with Run(options) as run:
        real = pictures(options.data)
        loader = whole_batches(TensorDataset(real), options.batch_size)
        make = generator(options.latent, options.hidden, real.shape[-1])
        judge = discriminator(options.hidden, real.shape[-1])
        make_step = tg.optim.Adam(make.parameters(), lr=options.lr, betas=(0.5, 0.999))
        judge_step = tg.optim.Adam(judge.parameters(), lr=options.lr, betas=(0.5, 0.999))
        criterion = nn.BCEWithLogitsLoss()
        ones, zeros = tg.ones(options.batch_size, 1), tg.zeros(options.batch_size, 1)
        fixed = tg.randn(1000, options.latent)

        @run.step
        def step(batch: tg.Tensor) -> tuple[tg.Tensor, tg.Tensor]:
            made = make(tg.randn(options.batch_size, options.latent))

            judge_step.zero_grad()
            judge_loss = criterion(judge(batch), 0.9 * ones) + criterion(judge(made.detach()), zeros)
            judge_loss.backward()
            judge_step.step()

            make_step.zero_grad()
            make_loss = criterion(judge(made), ones)
            make_loss.backward()
            make_step.step()
            return judge_loss, make_loss

        for epoch in range(1, options.epochs + 1):
            for (batch,) in run.bar(loader):
                judge_loss, make_loss = step(batch)
                run.show(judge=judge_loss, make=make_loss)

            with tg.no_grad():
                shown = make(fixed)
            run.record(
                epoch=epoch, judge_loss=judge_loss, make_loss=make_loss, distance=distance(shown, real)
            )
            if options.samples:
                write_pictures(shown[:64], options.samples)
    return run.records[-1]["distance"]


if __name__ == "__main__":
    main()
