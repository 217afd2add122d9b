"""What benchmarks/native.py times, written once for tapegrad and PyTorch: ``lib`` is either of them.

Each function gives a builder; a builder makes networks and data, and gives a function that does one step and reads
its loss. How the step is compiled comes as ``how``: ``how.forward`` wraps the loss, ``how.step`` the whole step.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

Run = Callable[[], float]


class How(NamedTuple):
    """How parts of a step are compiled."""

    forward: Callable[[Any], Any] = lambda f: f
    step: Callable[[Any], Any] = lambda f: f


def normal(lib: Any, *shape: int, seed: int = 0, dtype: Any = np.float32, grad: bool = False) -> Any:
    """Normal random numbers, the same in both libraries."""
    made = lib.tensor(np.random.default_rng(seed).standard_normal(shape).astype(dtype))
    return made.requires_grad_() if grad else made


def labels(lib: Any, count: int, classes: int) -> Any:
    """Random classes."""
    return lib.tensor(np.random.default_rng(1).integers(0, classes, count))


OPTIMIZERS: dict[str, Callable[[Any, Any], Any]] = {
    "SGD": lambda lib, params: lib.optim.SGD(params, lr=0.01),
    "momentum": lambda lib, params: lib.optim.SGD(params, lr=0.01, momentum=0.9),
    "Adam": lambda lib, params: lib.optim.Adam(params, lr=1e-3),
}


def supervised(lib: Any, how: How, net: Any, optimizer: str, x: Any, y: Any, loss_of: Any) -> Run:
    """Steps of a network over one batch."""
    opt = OPTIMIZERS[optimizer](lib, net.parameters())
    compared = how.forward(lambda x, y: loss_of(net(x), y))

    def step(x: Any, y: Any) -> Any:
        opt.zero_grad()
        loss = compared(x, y)
        loss.backward()
        opt.step()
        return loss

    step = how.step(step)
    return lambda: float(step(x, y).item())


def mlp(sizes: list[int], batch: int, optimizer: str) -> Callable[[Any, How], Run]:
    """A perceptron."""

    def build(lib: Any, how: How) -> Run:
        nn = lib.nn
        layers: list[Any] = []
        for a, b in zip(sizes, sizes[1:], strict=False):
            layers += [nn.Linear(a, b), nn.ReLU()]
        net = nn.Sequential(*layers[:-1])
        x, y = normal(lib, batch, sizes[0]), labels(lib, batch, sizes[-1])
        return supervised(lib, how, net, optimizer, x, y, nn.functional.cross_entropy)

    return build


def lstm(steps: int, batch: int, hidden: int) -> Callable[[Any, How], Run]:
    """An LSTM cell in a Python loop, forward and backward."""

    def build(lib: Any, how: How) -> Run:
        cell = lib.nn.LSTMCell(hidden, hidden)
        x = normal(lib, steps, batch, hidden)

        def loss_of(x: Any) -> Any:
            h = c = lib.zeros(batch, hidden)
            for t in range(steps):
                h, c = cell(x[t], (h, c))
            return (h * h).mean()

        compared = how.forward(loss_of)

        def step(x: Any) -> Any:
            cell.zero_grad()
            loss = compared(x)
            loss.backward()
            return loss

        step = how.step(step)
        return lambda: float(step(x).item())

    return build


def gradient(function: Any, inputs: Callable[[Any], list[Any]]) -> Callable[[Any, How], Run]:
    """The gradient of a function for all its inputs."""

    def build(lib: Any, how: How) -> Run:
        compared = how.forward(lambda *xs: function(lib, *xs))

        def step(*xs: Any) -> Any:
            value = compared(*xs)
            return value.detach(), lib.autograd.grad(value, xs)

        step = how.step(step)
        given = inputs(lib)
        return lambda: float(step(*given)[0].item())

    return build


def rosenbrock(lib: Any, x: Any) -> Any:
    """The function that optimizers are tried on."""
    a, b = x[:-1], x[1:]
    return (100 * (b - a * a) ** 2 + (1 - a) ** 2).sum()


def black_scholes(lib: Any, spot: Any, strike: Any, years: Any, rate: Any, volatility: Any) -> Any:
    """The sum of the prices of European calls; its gradient are the greeks."""
    spread = volatility * years.sqrt()
    d1 = ((spot / strike).log() + (rate + volatility * volatility / 2) * years) / spread
    d2 = d1 - spread

    def cumulative(x: Any) -> Any:
        return (1 + lib.erf(x / math.sqrt(2))) / 2

    return (spot * cumulative(d1) - strike * (-rate * years).exp() * cumulative(d2)).sum()


def options(lib: Any, count: int) -> list[Any]:
    """Data of calls, float64."""
    rng = np.random.default_rng(0)
    low, high = [80, 90, 0.2, 0.01, 0.1], [120, 110, 2.0, 0.05, 0.4]
    made = [lib.tensor(rng.uniform(a, b, count)) for a, b in zip(low, high, strict=True)]
    return [x.requires_grad_() for x in made]


def chain(lib: Any, x: Any, w: Any, b: Any, y: Any) -> Any:
    """Elementwise work."""
    return (lib.nn.functional.gelu(x * w + b) * x.sigmoid() + y.tanh()).sum()


def four(lib: Any, count: int) -> list[Any]:
    """Inputs of the chain."""
    return [normal(lib, count, seed=s, grad=True) for s in range(4)]


def wgan_gp(lib: Any, how: How) -> Run:
    """A step of a critic with gradient penalty and one of its generator."""
    nn = lib.nn
    batch, latent, hidden, size = 64, 16, 64, 64
    make = nn.Sequential(nn.Linear(latent, hidden), nn.ReLU(), nn.Linear(hidden, size), nn.Tanh())
    judge = nn.Sequential(
        nn.Linear(size, hidden), nn.LeakyReLU(0.2), nn.Linear(hidden, hidden), nn.LeakyReLU(0.2), nn.Linear(hidden, 1)
    )  # fmt: skip
    make_step = lib.optim.Adam(make.parameters(), lr=1e-4, betas=(0.5, 0.9))
    judge_step = lib.optim.Adam(judge.parameters(), lr=1e-4, betas=(0.5, 0.9))
    real, noise, share = normal(lib, batch, size), normal(lib, batch, latent), abs(normal(lib, batch, 1)) % 1
    judged = how.forward(lambda x: judge(x))

    def step(real: Any, noise: Any, share: Any) -> Any:
        made = make(noise)
        between = (share * real + (1 - share) * made.detach()).requires_grad_()
        (slope,) = lib.autograd.grad(judge(between).sum(), between, create_graph=True)
        penalty = ((slope * slope).sum(1).sqrt() - 1).square().mean()
        loss = judged(made.detach()).mean() - judged(real).mean() + 10 * penalty
        judge_step.zero_grad()
        loss.backward()
        judge_step.step()
        make_step.zero_grad()
        (-judged(made).mean()).backward()
        make_step.step()
        return loss

    step = how.step(step)
    return lambda: float(step(real, noise, share).item())


def hessian_product(lib: Any, how: How) -> Run:
    """The product of a perceptron's Hessian with a vector."""
    nn = lib.nn
    net = nn.Sequential(nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 10))
    params = list(net.parameters())
    x, y = normal(lib, 32, 64), labels(lib, 32, 10)
    vectors = [normal(lib, *p.shape, seed=3) for p in params]
    compared = how.forward(lambda x, y: nn.functional.cross_entropy(net(x), y))

    def step(x: Any, y: Any, *vectors: Any) -> Any:
        loss = compared(x, y)
        grads = lib.autograd.grad(loss, params, create_graph=True)
        product = sum((g * v).sum() for g, v in zip(grads, vectors, strict=True))
        return loss.detach(), lib.autograd.grad(product, params)

    step = how.step(step)
    return lambda: float(step(x, y, *vectors)[0].item())


def lenet(lib: Any, how: How) -> Run:
    """A network like LeNet, batch 64."""
    nn = lib.nn
    net = nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10),
    )  # fmt: skip
    x, y = normal(lib, 64, 1, 28, 28), labels(lib, 64, 10)
    return supervised(lib, how, net, "momentum", x, y, nn.functional.cross_entropy)


def cifar(lib: Any, how: How) -> Run:
    """A small network with batch norm on pictures like CIFAR's, batch 32."""
    nn = lib.nn
    layers: list[Any] = []
    for a, b in ((3, 32), (32, 32), (32, 64), (64, 64)):
        layers += [nn.Conv2d(a, b, 3, padding=1, bias=False), nn.BatchNorm2d(b), nn.ReLU()]
        if a == b:
            layers.append(nn.MaxPool2d(2))
    net = nn.Sequential(*layers, nn.Flatten(), nn.Linear(64 * 64, 10))
    x, y = normal(lib, 32, 3, 32, 32), labels(lib, 32, 10)
    return supervised(lib, how, net, "momentum", x, y, nn.functional.cross_entropy)


def transformer(lib: Any, how: How) -> Run:
    """A transformer block with the norms first, batch 8, 64 places, width 128, 4 heads."""
    block = lib.nn.TransformerEncoderLayer(
        128, 4, 512, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
    )
    x, y = normal(lib, 8, 64, 128), normal(lib, 8, 64, 128, seed=1)
    return supervised(lib, how, block, "Adam", x, y, lib.nn.functional.mse_loss)


class Case(NamedTuple):
    """One line of the table. ``against`` says what the target is a share of: a peer, the best one, or microseconds."""

    name: str
    build: Callable[[Any, How], Run]
    target: float
    against: str


CASES = [
    Case("MLP 4-32-32-3, batch 8, SGD", mlp([4, 32, 32, 3], 8, "SGD"), 6.0, "µs"),
    Case("MLP 64-64-64-10, batch 32, Adam", mlp([64, 64, 64, 10], 32, "Adam"), 0.45, "JAX"),
    Case("MLP 784-128-128-10, batch 64, momentum", mlp([784, 128, 128, 10], 64, "momentum"), 1.0, "best"),
    Case("MLP 784-512-512-10, batch 128, momentum", mlp([784, 512, 512, 10], 128, "momentum"), 1.0, "best"),
    Case("LSTM cell in a loop, 50 steps, batch 16, hidden 64", lstm(50, 16, 64), 0.7, "JAX"),
    Case(
        "gradient of the 1000-d Rosenbrock function, float64",
        gradient(rosenbrock, lambda lib: [normal(lib, 1000, dtype=np.float64, grad=True)]),
        0.4,
        "best",
    ),
    Case(
        "Black-Scholes greeks of 100,000 calls, float64",
        gradient(black_scholes, lambda lib: options(lib, 100_000)),
        0.6,
        "best",
    ),
    Case(
        "gelu(x*w+b)*sigmoid(x)+tanh(y) and gradient, 1e6",
        gradient(chain, lambda lib: four(lib, 10**6)),
        0.5,
        "best",
    ),
    Case(
        "gelu(x*w+b)*sigmoid(x)+tanh(y) and gradient, 1e7",
        gradient(chain, lambda lib: four(lib, 10**7)),
        0.5,
        "best",
    ),
    Case("WGAN-GP step, batch 64", wgan_gp, 0.5, "JAX"),
    Case("Hessian-vector product, 64-64-64-10, batch 32", hessian_product, 0.5, "JAX"),
    Case("LeNet-like CNN, batch 64, momentum", lenet, 0.8, "best"),
    Case("CIFAR CNN with batch norm, batch 32, momentum", cifar, 1.0, "best"),
    Case("transformer block, batch 8 x 64, width 128, Adam", transformer, 1.0, "best"),
]
