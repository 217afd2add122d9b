"""Train a network after AlexNet that is split in two modules, together or one part alone.

The convolutions are one module, the classifier another; one optimizer holds the parameters of both
(``itertools.chain``). ``--train both`` trains them together. ``--train classifier`` trains the second part
on random convolutions, in one of two ways (``--cut``): ``detach`` hands over a tensor without history, so
that backward ends there; ``freeze`` switches off requires_grad of the convolutions' parameters, so that
nothing is recorded before the classifier. Both ways give the same weights.
"""

from __future__ import annotations

import itertools

import tapegrad as tg
from tapegrad import nn
from tapegrad.data import DataLoader
from tapegrad.examples.common import DIGITS, Options, Run, digits, evaluate


class Features(nn.Sequential):
    """Five convolutions: (n, 1, size, size) to (n, 32, size // 8, size // 8)."""

    def __init__(self) -> None:
        super().__init__(
            nn.Conv2d(1, 16, 5, padding=2),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(32, 48, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(48, 48, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(48, 32, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
        )


class Classifier(nn.Sequential):
    """Three linear layers with dropout before two of them: scores (n, 10)."""

    def __init__(self, inputs: int) -> None:
        super().__init__(
            nn.Flatten(),
            nn.Dropout(0.2),
            nn.Linear(inputs, 128),
            nn.ReLU(),
            nn.Dropout(0.2),
            nn.Linear(128, 128),
            nn.ReLU(),
            nn.Linear(128, 10),
        )


def main(arguments: list[str] | None = None) -> float:
    """Train and test; returns the accuracy on the test digits."""
    known = Options("tapegrad.examples.alexnet", __doc__).numbers(epochs=10, batch_size=50, lr=2e-3)
    known.digits().compiled()
    known.add_argument("--train", choices=["both", "classifier"], default="both", help="what learns (both)")
    known.add_argument(
        "--cut", choices=["detach", "freeze"], default="detach", help="how the first part is left out"
    )
    options = known.parse(arguments)
    with Run(options) as run:
        train, test = digits(options.data, options.seed, channels=True)
        features = Features()
        classifier = Classifier(32 * (train.tensors[0].shape[-1] // 8) ** 2)
        both = nn.Sequential(features, classifier)
        if options.train == "classifier" and options.cut == "freeze":
            features.requires_grad_(False)
        optimizer = tg.optim.Adam(
            itertools.chain(features.parameters(), classifier.parameters()), lr=options.lr
        )
        loader = DataLoader(train, batch_size=options.batch_size, shuffle=True)
        schedule = tg.optim.lr_scheduler.CosineAnnealingLR(optimizer, options.epochs * len(loader))
        print(tg.summary(both, input_data=train.tensors[0][: options.batch_size], depth=1))
        most = DIGITS[options.data][1]

        @run.step
        def step(images: tg.Tensor, labels: tg.Tensor) -> tg.Tensor:
            seen = features(images)
            if options.train == "classifier" and options.cut == "detach":
                seen = seen.detach()
            loss: tg.Tensor = nn.functional.cross_entropy(classifier(seen), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            return loss

        for epoch in range(1, options.epochs + 1):
            both.train()
            for images, labels in run.bar(loader):
                shift = tg.randint(-most, most + 1, (2,)).tolist()
                loss = step(images.roll(shift, dims=(2, 3)), labels)
                run.show(loss=loss)
            test_loss, accuracy = evaluate(both, test)
            run.record(epoch=epoch, train_loss=loss, test_loss=test_loss, test_accuracy=accuracy)
    learned = [
        name for name, part in (("features", features), ("classifier", classifier)) if has_gradients(part)
    ]
    print(f"test accuracy {accuracy:.2%}; gradients arrived in: {', '.join(learned)}")
    return accuracy


def has_gradients(part: nn.Module) -> bool:
    """Whether backward reached it."""
    return any(p.grad is not None for p in part.parameters())


if __name__ == "__main__":
    main()
