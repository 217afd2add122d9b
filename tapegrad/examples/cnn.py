"""Train a small convolutional network, after LeNet, on MNIST's digits.

Two convolutions with pooling and two linear layers. Each batch is shifted by up to two pixels, the learning
rate goes up and down once (OneCycleLR). About 98 % of the 1,000 test digits are read correctly.
"""

from __future__ import annotations

from typing import Any

import tapegrad as tg
from tapegrad import nn
from tapegrad.data import DataLoader
from tapegrad.examples.common import DIGITS, Options, Run, digits, evaluate


class LeNet(nn.Module):
    """From pictures (n, 1, size, size) to the scores of ten digits (n, 10)."""

    def __init__(self, size: int = 28) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 16, 5, padding=2),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 5, padding=2),
            nn.ReLU(),
            nn.MaxPool2d(2),
        )
        self.classifier = nn.Sequential(
            nn.Flatten(),
            nn.Linear(32 * (size // 4) ** 2, 128),
            nn.ReLU(),
            nn.Dropout(0.3),
            nn.Linear(128, 10),
        )

    def forward(self, x: tg.Tensor) -> Any:
        """Scores."""
        return self.classifier(self.features(x))


def main(arguments: list[str] | None = None) -> float:
    """Train and test; returns the accuracy on the test digits."""
    known = Options("tapegrad.examples.cnn", __doc__).numbers(epochs=12, batch_size=50, lr=3e-3)
    options = known.digits().compiled().parse(arguments)
    with Run(options) as run:
        train, test = digits(options.data, options.seed, channels=True)
        model = LeNet(train.tensors[0].shape[-1])
        optimizer = tg.optim.Adam(model.parameters(), lr=options.lr)
        loader = DataLoader(train, batch_size=options.batch_size, shuffle=True)
        schedule = tg.optim.lr_scheduler.OneCycleLR(optimizer, options.lr, options.epochs * len(loader))
        criterion = nn.CrossEntropyLoss()
        most = 2 * DIGITS[options.data][1]
        print(tg.summary(model, input_data=train.tensors[0][: options.batch_size]))

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
                loss = step(images.roll(shift, dims=(2, 3)), labels)
                run.show(loss=loss)
            test_loss, accuracy = evaluate(model, test)
            run.record(epoch=epoch, train_loss=loss, test_loss=test_loss, test_accuracy=accuracy)
    print(f"test accuracy {accuracy:.2%} after {options.epochs} epochs in {run.seconds:.1f} s")
    return accuracy


if __name__ == "__main__":
    main()
