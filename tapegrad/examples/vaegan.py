"""Train a VAE-GAN: three networks, three optimizers, and losses that share intermediate results.

After Larsen et al. (2016). The encoder turns a picture into a distribution of codes, the decoder turns
codes into pictures, the discriminator tells made from real, and its inner features say how well a picture
was reconstructed:

* discriminator: real pictures against reconstructed and invented ones, which it sees detached;
* decoder: looks real, and its reconstructions have the features of their originals;
* encoder: the same features, and codes that are nearly normal (the KL divergence).

The last two losses share one graph. It is differentiated twice, the first time with ``retain_graph=True``;
``inputs=`` says whose gradients each backward is for; and no network takes its step before both are done,
since a step changes weights that the graph still needs.
"""

from __future__ import annotations

import tapegrad as tg
from tapegrad import nn
from tapegrad.data import TensorDataset
from tapegrad.examples.common import Options, Run, distance, pictures, whole_batches, write_pictures


class Encoder(nn.Module):
    """Pictures (n, 1, size, size) to means and log-variances of codes, each (n, latent)."""

    def __init__(self, size: int, latent: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, 16, 4, stride=2, padding=1),
            nn.ReLU(),
            nn.Conv2d(16, 32, 4, stride=2, padding=1),
            nn.ReLU(),
            nn.Flatten(),
        )
        self.head = nn.Linear(32 * (size // 4) ** 2, 2 * latent)

    def forward(self, x: tg.Tensor) -> tuple[tg.Tensor, tg.Tensor]:
        """Mean and log-variance."""
        mean, log_variance = self.head(self.body(x)).chunk(2, dim=1)
        return mean, log_variance


class Decoder(nn.Sequential):
    """Codes to pictures."""

    def __init__(self, size: int, latent: int) -> None:
        super().__init__(
            nn.Linear(latent, 32 * (size // 4) ** 2),
            nn.ReLU(),
            nn.Unflatten(1, (32, size // 4, size // 4)),
            nn.ConvTranspose2d(32, 16, 4, stride=2, padding=1),
            nn.ReLU(),
            nn.ConvTranspose2d(16, 1, 4, stride=2, padding=1),
            nn.Tanh(),
        )


class Discriminator(nn.Module):
    """Pictures to their features, and to a score (n, 1) that is positive for real ones."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 16, 4, stride=2, padding=1),
            nn.LeakyReLU(0.2),
            nn.Conv2d(16, 32, 4, stride=2, padding=1),
            nn.LeakyReLU(0.2),
            nn.Flatten(),
        )
        self.head = nn.Linear(32 * (size // 4) ** 2, 1)

    def forward(self, x: tg.Tensor) -> tuple[tg.Tensor, tg.Tensor]:
        """Features and score."""
        features = self.features(x)
        return features, self.head(features)


def main(arguments: list[str] | None = None) -> float:
    """Train; returns the reconstructions' mean squared error at the end."""
    known = Options("tapegrad.examples.vaegan", __doc__)
    options = (
        known.numbers(epochs=15, batch_size=50, latent=16, lr=1e-3)
        .digits()
        .samples()
        .compiled()
        .parse(arguments)
    )
    with Run(options) as run:
        real = pictures(options.data)
        loader = whole_batches(TensorDataset(real), options.batch_size)
        size = real.shape[-1]
        encoder, decoder = Encoder(size, options.latent), Decoder(size, options.latent)
        discriminator = Discriminator(size)
        networks = (encoder, decoder, discriminator)
        steps = [tg.optim.Adam(net.parameters(), lr=options.lr, betas=(0.5, 0.999)) for net in networks]
        encoder_step, decoder_step, discriminator_step = steps
        looks = nn.functional.binary_cross_entropy_with_logits
        ones, zeros = tg.ones(options.batch_size, 1), tg.zeros(options.batch_size, 1)
        fixed = tg.randn(1000, options.latent)

        @run.step
        def step(batch: tg.Tensor) -> tuple[tg.Tensor, tg.Tensor, tg.Tensor]:
            mean, log_variance = encoder(batch)
            again = decoder(mean + tg.randn_like(mean) * (log_variance / 2).exp())
            invented = decoder(tg.randn(options.batch_size, options.latent))

            discriminator_loss = looks(discriminator(batch)[1], ones)
            for made in (again, invented):
                discriminator_loss = discriminator_loss + looks(discriminator(made.detach())[1], zeros) / 2
            discriminator_step.zero_grad()
            discriminator_loss.backward()
            discriminator_step.step()

            wanted = discriminator(batch)[0].detach()
            features, score = discriminator(again)
            unlike = (features - wanted).square().mean()
            fooled = (looks(score, ones) + looks(discriminator(invented)[1], ones)) / 2
            divergence = (mean.square() + log_variance.exp() - 1 - log_variance).sum(1).mean() / 2
            decoder_loss = unlike + 0.02 * fooled
            encoder_loss = unlike + 0.002 * divergence
            decoder_step.zero_grad()
            encoder_step.zero_grad()
            decoder_loss.backward(retain_graph=True, inputs=list(decoder.parameters()))
            encoder_loss.backward(inputs=list(encoder.parameters()))
            decoder_step.step()
            encoder_step.step()
            return discriminator_loss, decoder_loss, encoder_loss

        for epoch in range(1, options.epochs + 1):
            for (batch,) in run.bar(loader):
                discriminator_loss, decoder_loss, encoder_loss = step(batch)
                run.show(discriminator=discriminator_loss, decoder=decoder_loss, encoder=encoder_loss)

            with tg.no_grad():
                some = real[::10]
                copies, shown = decoder(encoder(some)[0]), decoder(fixed)
            run.record(
                epoch=epoch,
                discriminator_loss=discriminator_loss,
                decoder_loss=decoder_loss,
                encoder_loss=encoder_loss,
                error=(copies - some).square().mean(),
                distance=distance(shown, real),
            )
            if options.samples:  # digits, their copies below them, and invented ones
                chosen = slice(None, None, len(some) // 16)
                write_pictures(
                    tg.cat([some[chosen][:16], copies[chosen][:16], shown[:32]]), options.samples, 16
                )
    return run.records[-1]["error"]


if __name__ == "__main__":
    main()
