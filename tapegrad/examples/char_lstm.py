"""Train an LSTM to continue a text, character by character.

It reads Python's own help texts about the language (or a file), learns to predict the next character, and
writes some text of its own. The state at the end of a piece is not carried over to the next one, since
pieces come from random places.
"""

from __future__ import annotations

import math

import tapegrad as tg
from tapegrad import nn
from tapegrad.examples.common import Options, Run, Text


class CharLSTM(nn.Module):
    """From characters (n, length) to the scores of the next ones (n, length, letters)."""

    def __init__(self, letters: int, hidden: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(letters, 32)
        self.lstm = nn.LSTM(32, hidden, batch_first=True)
        self.head = nn.Linear(hidden, letters)

    def forward(
        self, codes: tg.Tensor, state: tuple[tg.Tensor, tg.Tensor] | None = None
    ) -> tuple[tg.Tensor, tuple[tg.Tensor, tg.Tensor]]:
        """Scores, and the state after the last character."""
        seen, state = self.lstm(self.embed(codes), state)
        return self.head(seen), state


def main(arguments: list[str] | None = None) -> float:
    """Train; returns the loss on the last tenth of the text, in bits per character."""
    known = Options("tapegrad.examples.char_lstm", __doc__)
    known.numbers(steps=1000, batch_size=32, length=64, hidden=192, lr=4e-3)
    options = known.text().compiled().parse(arguments)
    with Run(options) as run:
        text = Text(options.text, options.length)
        start = text.encode(options.start)
        model = CharLSTM(len(text.letters), options.hidden)
        optimizer = tg.optim.Adam(model.parameters(), lr=options.lr)
        schedule = tg.optim.lr_scheduler.CosineAnnealingLR(optimizer, options.steps)
        sizes = len(text.train), len(text.test), len(text.letters)
        print("{:,} characters to train, {:,} to test, {} letters".format(*sizes))

        @run.step
        def learn(codes: tg.Tensor, following: tg.Tensor) -> tg.Tensor:
            scores, _ = model(codes)
            loss: tg.Tensor = nn.functional.cross_entropy(scores.flatten(0, 1), following.flatten())
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
                run.record(step=step, train_bits=loss / math.log(2), test_bits=test(model, text))
    print(write(model, text, start, 300))
    return run.records[-1]["test_bits"]


def test(model: CharLSTM, text: Text) -> float:
    """Bits per character on the test part, read in 64 rows at once."""
    rows = len(text.test) // 64
    codes = text.test[: 64 * rows].view(64, rows)
    with tg.no_grad():
        scores, _ = model(codes[:, :-1])
        loss = nn.functional.cross_entropy(scores.flatten(0, 1), codes[:, 1:].flatten())
    return float(loss) / math.log(2)


def write(model: CharLSTM, text: Text, start: tg.Tensor, count: int) -> str:
    """The start and what the network makes of it; drawn by its probabilities, sharpened a little."""
    made, last, state = start.tolist(), start.unsqueeze(0), None
    with tg.no_grad():
        for _ in range(count):
            scores, state = model(last, state)
            last = (scores[:, -1] / 0.7).softmax(1).multinomial(1)
            made.append(last.item())
    return text.decode(made)


if __name__ == "__main__":
    main()
