"""Train a small network on real handwritten digits.

5,000 MNIST digits (or scikit-learn's 1,797 smaller ones), split into four parts for training and one for the
test; a multilayer perceptron; MNIST's pictures are shifted by up to a pixel, so that they seem to be more.
"""

from __future__ import annotations

import argparse
import math

import tapegrad as tg
from tapegrad import nn
from tapegrad.data import DataLoader
from tapegrad.examples.common import DIGITS, Options, Run, digits, evaluate, extra, positive, writable


def main(arguments: list[str] | None = None) -> float:
    """Train and test as the command line says; returns the accuracy on the test digits."""
    options = parse(arguments)
    if options.save:
        extra("safetensors")
    with Run(options) as run:
        train, test = digits(options.data, options.seed)
        model = perceptron(math.prod(train.tensors[0].shape[1:]), options.hidden)
        optimizer = make_optimizer(options.optimizer, model, options.lr)
        loader = DataLoader(train, batch_size=options.batch_size, shuffle=True)
        schedule = tg.optim.lr_scheduler.CosineAnnealingLR(optimizer, options.epochs * len(loader))
        criterion = nn.CrossEntropyLoss()
        most = DIGITS[options.data][1] if options.shift is None else options.shift
        print(tg.summary(model, input_data=train.tensors[0][: options.batch_size]))
        print(f"{len(train):,} digits to train, {len(test):,} to test, {tg.get_num_threads()} thread(s)")

        @run.step
        def step(images: tg.Tensor, labels: tg.Tensor) -> tg.Tensor:
            loss: tg.Tensor = criterion(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            return loss

        for epoch in range(1, options.epochs + 1):
            model.train()
            for images, labels in run.bar(loader):
                shift = tg.randint(-most, most + 1, (2,)).tolist()
                run.show(loss=step(images.roll(shift, dims=(1, 2)), labels))
            train_loss, train_accuracy = evaluate(model, train)
            test_loss, accuracy = evaluate(model, test)
            run.record(
                epoch=epoch,
                train_loss=train_loss,
                test_loss=test_loss,
                train_accuracy=train_accuracy,
                test_accuracy=accuracy,
            )

    print(f"test accuracy {accuracy:.2%} after {options.epochs} epochs in {run.seconds:.1f} s")
    if options.save:
        tg.save(model.state_dict(), options.save)
        print(f"weights written to {options.save}")
    return accuracy


def perceptron(inputs: int, hidden: list[int]) -> nn.Sequential:
    """Linear layers with ReLU between them, from pixels to the scores of ten digits."""
    layers: list[nn.Module] = [nn.Flatten()]
    for size in hidden:
        layers += [nn.Linear(inputs, size), nn.ReLU()]
        inputs = size
    return nn.Sequential(*layers, nn.Linear(inputs, 10))


def make_optimizer(name: str, model: nn.Module, lr: float | None) -> tg.optim.Optimizer:
    """Adam, or SGD with momentum."""
    if name == "adam":
        return tg.optim.Adam(model.parameters(), lr=1e-3 if lr is None else lr)
    return tg.optim.SGD(model.parameters(), lr=0.05 if lr is None else lr, momentum=0.9)


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """The command line."""
    options = (
        Options("tapegrad.examples.mnist", __doc__).numbers(epochs=15, batch_size=64).digits().compiled()
    )
    add = options.add_argument
    add(
        "--hidden",
        type=positive,
        nargs="*",
        default=[512],
        metavar="N",
        help="sizes of the hidden layers (512)",
    )
    add("--optimizer", choices=["adam", "sgd"], default="adam", help="sgd has momentum 0.9")
    add("--lr", type=float, help="learning rate at the start (adam 0.001, sgd 0.05)")
    add("--shift", type=int, choices=range(5), help="pixels by which pictures move (mnist 1, digits 0)")
    add("--save", type=writable, metavar="FILE", help="write the weights, e.g. weights.safetensors")
    return options.parse(arguments)


if __name__ == "__main__":
    main()
