"""Draws the pictures of the documentation: ``python docs/pictures.py [FOLDER]``."""

from __future__ import annotations

import pathlib
import sys

import tapegrad as tg
from tapegrad import nn


def small(folder: pathlib.Path) -> None:
    """The README's example: its graph with the norms of the gradients, and the player."""
    w = tg.tensor([1.0, -2.0, 0.5], requires_grad=True)
    x = tg.tensor([0.3, 0.1, 2.0])
    y = (w * x).tanh()
    loss = ((y - 0.5) ** 2).sum()
    loss.tape().draw(gradients=True).save(folder / "tape.svg")
    loss.tape().play(folder / "player.html")


def gan(folder: pathlib.Path) -> None:
    """Two networks, a cut between them, and a part that was retained."""
    tg.manual_seed(0)
    with tg.record_modules():
        G = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
        D = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))
        fake = G(tg.randn(16, 4))
        loss = D(fake.detach()).sigmoid().mean()
        loss.backward(retain_graph=True)
        fooled = D(fake).sigmoid().mean()
    kept = {*loss.tape(), *fooled.tape()}
    tg.live_tape().filter(where=kept.__contains__).draw().save(folder / "gan.svg")


def program(folder: pathlib.Path) -> None:
    """A compiled function: the loop that several operations became, and the sum behind it."""

    @tg.compile
    def score(a: tg.Tensor, b: tg.Tensor) -> tg.Tensor:
        spread = (a - b) / 2
        return (spread.tanh() * spread.sigmoid() + 1).sum()

    score(tg.linspace(-1, 1, 6), tg.linspace(0, 2, 6))
    score.tape.draw().save(folder / "program.svg")


if __name__ == "__main__":
    target = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).parent / "images"
    target.mkdir(exist_ok=True)
    small(target)
    gan(target)
    program(target)
