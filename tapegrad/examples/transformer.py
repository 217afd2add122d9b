"""Train a small transformer to continue a text, character by character.

Two encoder layers with a causal mask: each character is predicted from the ones before it. It reads
Python's own help texts about the language (or a file).
"""

from __future__ import annotations

import math

import tapegrad as tg
from tapegrad import nn
from tapegrad.examples.common import Options, Run, Text


class CharTransformer(nn.Module):
    """From characters (n, length) to the scores of the next ones (n, length, letters)."""

    def __init__(self, letters: int, length: int, hidden: int, layers: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(letters, hidden)
        self.place = nn.Embedding(length, hidden)
        layer = nn.TransformerEncoderLayer(
            hidden, 4, 4 * hidden, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
        )
        self.layers = nn.TransformerEncoder(layer, layers, nn.LayerNorm(hidden), enable_nested_tensor=False)
        self.head = nn.Linear(hidden, letters)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(length), persistent=False)

    def forward(self, codes: tg.Tensor) -> tg.Tensor:
        """Scores."""
        length = codes.shape[1]
        x = self.embed(codes) + self.place(tg.arange(length))
        x = self.layers(x, mask=self.mask[:length, :length], is_causal=True)
        scores: tg.Tensor = self.head(x)
        return scores


def main(arguments: list[str] | None = None) -> float:
    """Train; returns the loss on the last tenth of the text, in bits per character."""
    known = Options("tapegrad.examples.transformer", __doc__)
    known.numbers(steps=2000, batch_size=32, length=64, hidden=64, layers=2, lr=2e-3)
    options = known.text().compiled().parse(arguments)
    with Run(options) as run:
        text = Text(options.text, options.length)
        start = text.encode(options.start)[-options.length :]
        model = CharTransformer(len(text.letters), options.length, options.hidden, options.layers)
        optimizer = tg.optim.AdamW(model.parameters(), lr=options.lr, weight_decay=0.01)
        schedule = tg.optim.lr_scheduler.OneCycleLR(optimizer, options.lr, options.steps + 1)
        sizes = len(text.train), len(text.test), len(text.letters)
        print("{:,} characters to train, {:,} to test, {} letters".format(*sizes))

        @run.step
        def learn(codes: tg.Tensor, following: tg.Tensor) -> tg.Tensor:
            loss: tg.Tensor = nn.functional.cross_entropy(model(codes).flatten(0, 1), following.flatten())
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            return loss

        for step in run.bar(range(1, options.steps + 1)):
            loss = learn(*text.batch(text.train, options.batch_size, options.length))
            run.show(loss=loss)
            if step % 100 == 0 or step == options.steps:
                bits = test(model, text, options.length)
                run.record(step=step, train_bits=loss / math.log(2), test_bits=bits)
    print(write(model, text, start, 300, options.length))
    return run.records[-1]["test_bits"]


def test(model: CharTransformer, text: Text, length: int) -> float:
    """Bits per character on the test part, in pieces that have nothing before them."""
    pieces = len(text.test) // (length + 1)
    codes = text.test[: pieces * (length + 1)].view(pieces, length + 1)
    with tg.no_grad():
        loss = nn.functional.cross_entropy(model(codes[:, :-1]).flatten(0, 1), codes[:, 1:].flatten())
    return float(loss) / math.log(2)


def write(model: CharTransformer, text: Text, start: tg.Tensor, count: int, length: int) -> str:
    """The start and what the network makes of it; drawn by its probabilities, sharpened a little."""
    made = start.tolist()
    with tg.no_grad():
        for _ in range(count):
            scores = model(tg.tensor([made[-length:]]))[0, -1]
            made.append(int((scores / 0.7).softmax(0).multinomial(1)))
    return text.decode(made)


if __name__ == "__main__":
    main()
