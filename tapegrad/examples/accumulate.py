"""Train with batches in parts: gradients add up over several backward passes before one step.

``backward`` adds to ``.grad``, and only ``zero_grad`` empties it. So a batch that is too large for memory
is cut into ``--parts`` equal parts: each records, runs backward and releases its own graph, and after the
last one the optimizer takes the step of the whole batch. The program prints what the tape held at most, and
how far the sum of the parts' gradients is from the gradient of the whole.
"""

from __future__ import annotations

import tapegrad as tg
from tapegrad import nn
from tapegrad.examples.common import Options, Run, digits, evaluate, whole_batches


def main(arguments: list[str] | None = None) -> float:
    """Train and test; returns the accuracy on the test digits."""
    known = Options("tapegrad.examples.accumulate", __doc__)
    options = known.numbers(epochs=10, batch_size=200, parts=4, lr=3e-3).digits().compiled().parse(arguments)
    with Run(options) as run:
        train, test = digits(options.data, options.seed)
        model = nn.Sequential(
            nn.Flatten(), nn.Linear(train.tensors[0][0].numel(), 256), nn.ReLU(), nn.Linear(256, 10)
        )
        optimizer = tg.optim.Adam(model.parameters(), lr=options.lr)
        loader = whole_batches(train, options.batch_size)
        images, labels = next(iter(loader))
        whole, parts = (largest_tape(model, images, labels, n) for n in (1, options.parts))
        print(
            f"on the tape at most: {whole:,} bytes with whole batches, {parts:,} with {options.parts} parts"
        )

        @run.step
        def step(images: tg.Tensor, labels: tg.Tensor) -> tg.Tensor:
            optimizer.zero_grad()
            total = accumulate(model, images, labels, options.parts)
            optimizer.step()
            return total

        for epoch in range(1, options.epochs + 1):
            model.train()
            for images, labels in run.bar(loader):
                total = step(images, labels)
                run.show(loss=total)
            test_loss, accuracy = evaluate(model, test)
            run.record(epoch=epoch, train_loss=total, test_loss=test_loss, test_accuracy=accuracy)
        apart = difference(model, images, labels, options.parts)
        print(f"largest difference to the gradient of a whole batch: {apart:.2g}")
    print(f"test accuracy {accuracy:.2%}")
    return accuracy


def accumulate(model: nn.Module, images: tg.Tensor, labels: tg.Tensor, parts: int) -> tg.Tensor:
    """Add the gradient of a batch's mean loss to ``.grad``, part by part; returns the mean loss."""
    total = tg.zeros(())
    for some, theirs in zip(images.chunk(parts), labels.chunk(parts), strict=True):
        loss = nn.functional.cross_entropy(model(some), theirs, reduction="sum") / len(labels)
        loss.backward()  # and the graph of this part is gone
        total += loss.detach()
    return total


def largest_tape(model: nn.Module, images: tg.Tensor, labels: tg.Tensor, parts: int) -> int:
    """Bytes that the largest part keeps for its backward."""
    loss = nn.functional.cross_entropy(model(images.chunk(parts)[0].clone()), labels.chunk(parts)[0])
    return int(loss.tape().nbytes)


def difference(model: nn.Module, images: tg.Tensor, labels: tg.Tensor, parts: int) -> float:
    """The largest difference between the gradient in parts and the one at once."""
    found = []
    for n in (1, parts):
        model.zero_grad()
        accumulate(model, images, labels, n)
        found.append(nn.utils.parameters_to_vector([p.grad for p in model.parameters()]))
    return float((found[0] - found[1]).abs().max())


if __name__ == "__main__":
    main()
