"""Train a small network on real handwritten digits: ``python -m tapegrad.examples.mnist``.

5,000 MNIST digits (or scikit-learn's 1,797 smaller ones), split into four parts for training and one for the
test; a multilayer perceptron; MNIST's pictures are shifted by up to a pixel, so that they seem to be more.
"""

from __future__ import annotations

import argparse
import importlib
import math
import pathlib
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import tapegrad as tg
from tapegrad import nn
from tapegrad.data import DataLoader, TensorDataset, sets

# By name: how to read it, and by how many pixels its training pictures are shifted.
SETS = {"mnist": (sets.mnist5k, 1), "digits": (sets.digits, 0)}


def main(arguments: list[str] | None = None) -> float:
    """Train and test as the command line says; returns the accuracy on the test digits."""
    options = parse(arguments)
    tqdm = extra("tqdm").tqdm
    if options.plot:
        extra("matplotlib")
    if options.save:
        extra("safetensors")
    if options.threads:
        tg.set_num_threads(options.threads)
    tg.manual_seed(options.seed)

    train, test = load(options.data, options.seed)
    model = perceptron(math.prod(train.tensors[0].shape[1:]), options.hidden)
    optimizer = make_optimizer(options.optimizer, model, options.lr)
    loader = DataLoader(train, batch_size=options.batch_size, shuffle=True)
    steps = options.epochs * len(loader)
    print(model)
    print(
        f"{sum(p.numel() for p in model.parameters()):,} parameters, {len(train):,} digits to train, "
        f"{len(test):,} to test, {tg.get_num_threads()} thread(s)"
    )

    shift = SETS[options.data][1] if options.shift is None else options.shift
    rates = half_cosine(optimizer.param_groups[0]["lr"], steps)
    epochs: list[Epoch] = []
    with tqdm(total=steps, unit="step", mininterval=0.2) as bar:
        for number in range(1, options.epochs + 1):
            seconds = train_epoch(model, optimizer, loader, rates, shift, bar)
            epochs.append(Epoch(number, *evaluate(model, train), *evaluate(model, test), seconds))
            bar.write(epochs[-1].line(options.epochs))

    accuracy, seconds = epochs[-1].test_accuracy, sum(epoch.seconds for epoch in epochs)
    print(
        f"test accuracy {accuracy:.2%} after {options.epochs} epochs in {seconds:.1f} s "
        f"({steps / seconds:.0f} steps/s) on {tg.get_num_threads()} thread(s)"
    )
    if options.save:
        tg.save(model.state_dict(), options.save)
        print(f"weights written to {options.save}")
    if options.plot:
        plot(epochs, options.plot)
        print(f"curves written to {options.plot}")
    return accuracy


class Epoch(NamedTuple):
    """What is known after an epoch; ``seconds`` is the time of its training."""

    number: int
    train_loss: float
    train_accuracy: float
    test_loss: float
    test_accuracy: float
    seconds: float

    def line(self, epochs: int) -> str:
        """One line of the report."""
        return (
            f"epoch {self.number:>{len(str(epochs))}}/{epochs}  "
            f"train loss {self.train_loss:.4f}, accuracy {self.train_accuracy:.2%}  "
            f"test loss {self.test_loss:.4f}, accuracy {self.test_accuracy:.2%}  {self.seconds:.2f} s"
        )


def load(name: str, seed: int) -> tuple[TensorDataset, TensorDataset]:
    """Training and test set: images float32 (n, height, width), standardised, and labels int64 (n,)."""
    images, labels = SETS[name][0]()
    train, test = sets.stratified_split(labels, len(labels) // 5, seed)
    pixels = tg.from_numpy(images).float()
    pixels = (pixels - pixels[train].mean()) / pixels[train].std()
    targets = tg.from_numpy(labels)
    return TensorDataset(pixels[train], targets[train]), TensorDataset(pixels[test], targets[test])


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


def half_cosine(start: float, steps: int) -> Iterator[float]:
    """Learning rates from ``start`` down to almost zero."""
    for step in range(steps):
        yield start * (1 + math.cos(math.pi * step / steps)) / 2


def train_epoch(
    model: nn.Module,
    optimizer: tg.optim.Optimizer,
    loader: DataLoader[Any],
    rates: Iterator[float],
    most_shift: int,
    bar: Any,
) -> float:
    """One pass over the training digits; returns the seconds that it took."""
    start = time.perf_counter()
    criterion = nn.CrossEntropyLoss()
    model.train()
    for images, labels in loader:
        optimizer.param_groups[0]["lr"] = next(rates)
        shift = tg.randint(-most_shift, most_shift + 1, (2,)).tolist()
        loss = criterion(model(images.roll(shift, dims=(1, 2))), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        bar.update()
        bar.set_postfix(loss=f"{loss.item():.3f}", refresh=False)
    return time.perf_counter() - start


def evaluate(model: nn.Module, data: TensorDataset) -> tuple[float, float]:
    """Mean loss and accuracy, without recording."""
    images, labels = data.tensors
    model.eval()
    with tg.no_grad():
        scores = model(images)
        loss = nn.functional.cross_entropy(scores, labels)
        return loss.item(), (scores.argmax(1) == labels).float().mean().item()


def plot(epochs: list[Epoch], path: pathlib.Path) -> None:
    """Learning curves as a picture."""
    matplotlib = extra("matplotlib")
    matplotlib.use("agg")  # a file is written, no window is needed
    figure, (left, right) = importlib.import_module("matplotlib.pyplot").subplots(1, 2, figsize=(9, 3.5))
    numbers = [epoch.number for epoch in epochs]
    for axes, what, pairs in (
        (left, "loss", [(e.train_loss, e.test_loss) for e in epochs]),
        (right, "accuracy", [(e.train_accuracy, e.test_accuracy) for e in epochs]),
    ):
        for values, label in zip(zip(*pairs, strict=True), ("training", "test"), strict=True):
            axes.plot(numbers, values, marker=".", label=label)
        axes.set(xlabel="epoch", ylabel=what)
        axes.grid(alpha=0.3)
        axes.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=150)


def extra(name: str) -> Any:
    """An optional package; the error tells how to get it."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as err:
        raise SystemExit(f"this program needs {err.name}: pip install 'tapegrad[examples]'") from None


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m tapegrad.examples.mnist", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument(
        "--data", choices=SETS, default="mnist", help="5,000 MNIST digits, or scikit-learn's 8x8 digits"
    )
    parser.add_argument("--epochs", type=positive, default=15, help="passes over the training digits (15)")
    parser.add_argument("--batch-size", type=positive, default=64, help="digits per step (64)")
    parser.add_argument(
        "--hidden",
        type=positive,
        nargs="*",
        default=[512],
        metavar="N",
        help="sizes of the hidden layers (512)",
    )
    parser.add_argument("--optimizer", choices=["adam", "sgd"], default="adam", help="sgd has momentum 0.9")
    parser.add_argument("--lr", type=float, help="learning rate at the start (adam 0.001, sgd 0.05)")
    parser.add_argument(
        "--shift",
        type=int,
        choices=range(5),
        help="pixels by which training pictures move (mnist 1, digits 0)",
    )
    parser.add_argument("--threads", type=positive, help="threads of the kernels (all cores)")
    parser.add_argument("--seed", type=int, default=0, help="of the split, the weights and the order (0)")
    parser.add_argument(
        "--save", type=writable, metavar="FILE", help="write the weights, e.g. weights.safetensors"
    )
    parser.add_argument(
        "--plot", type=writable, metavar="FILE", help="write learning curves, e.g. curves.png"
    )
    return parser.parse_args(arguments)


def positive(text: str) -> int:
    """A whole number above zero."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not above zero")
    return value


def writable(text: str) -> pathlib.Path:
    """A path in a folder that exists: better told before training than after."""
    path = pathlib.Path(text)
    if not path.parent.is_dir():
        raise argparse.ArgumentTypeError(f"the folder {path.parent} does not exist")
    return path


if __name__ == "__main__":
    main()
