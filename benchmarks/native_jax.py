"""The cases of native_cases.py in JAX, by name: each gives a function that does one jitted step and reads its loss."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import erf

jax.config.update("jax_enable_x64", True)  # two cases are in float64; all others say float32

Run = Callable[[], float]


def normal(*shape: int, seed: int = 0, dtype: Any = np.float32) -> Any:
    """Normal random numbers."""
    return jnp.asarray(np.random.default_rng(seed).standard_normal(shape).astype(dtype))


def labels(count: int, classes: int) -> Any:
    """Random classes."""
    return jnp.asarray(np.random.default_rng(1).integers(0, classes, count))


def linear(a: int, b: int) -> Any:
    """Weight and bias of a layer."""
    return normal(a, b) / np.float32(math.sqrt(a)), jnp.zeros(b, jnp.float32)


def cross_entropy(scores: Any, y: Any) -> Any:
    """The mean over a batch."""
    return -jnp.take_along_axis(jax.nn.log_softmax(scores), y[:, None], 1).mean()


def like(params: Any) -> Any:
    """Zeros like parameters."""
    return jax.tree.map(jnp.zeros_like, params)


# -- optimizers: (start of the state, step) ---------------------------------------------------------------


def sgd(momentum: float = 0.0) -> Any:
    """Gradient descent."""

    def step(params: Any, grads: Any, state: Any) -> Any:
        if momentum:
            state = jax.tree.map(lambda m, g: momentum * m + g, state, grads)
            grads = state
        return jax.tree.map(lambda p, g: p - 0.01 * g, params, grads), state

    return (like if momentum else lambda params: ()), step


def adam(rate: float = 1e-3, first: float = 0.9, second: float = 0.999) -> Any:
    """Adam."""

    def start(params: Any) -> Any:
        return jnp.zeros((), jnp.float32), like(params), like(params)

    def step(params: Any, grads: Any, state: Any) -> Any:
        count, m, v = state
        count = count + 1
        m = jax.tree.map(lambda m, g: first * m + (1 - first) * g, m, grads)
        v = jax.tree.map(lambda v, g: second * v + (1 - second) * g * g, v, grads)
        a, b = 1 - first**count, 1 - second**count
        params = jax.tree.map(lambda p, m, v: p - rate * (m / a) / (jnp.sqrt(v / b) + 1e-8), params, m, v)
        return params, (count, m, v)

    return start, step


OPTIMIZERS = {"SGD": sgd(), "momentum": sgd(0.9), "Adam": adam()}


def supervised(params: Any, loss_of: Any, optimizer: str, *data: Any) -> Run:
    """Steps over one batch; parameters and state are given away to each step."""
    start, update = OPTIMIZERS[optimizer]

    @jax.jit
    def step(params: Any, state: Any, *data: Any) -> Any:
        loss, grads = jax.value_and_grad(loss_of)(params, *data)
        return loss, *update(params, grads, state)

    held = [params, start(params)]

    def run() -> float:
        loss, held[0], held[1] = step(*held, *data)
        return float(loss)

    return run


def perceptron(params: Any, x: Any, act: Any = jax.nn.relu) -> Any:
    """Linear layers with something between them."""
    for w, b in params[:-1]:
        x = act(x @ w + b)
    return x @ params[-1][0] + params[-1][1]


def mlp(sizes: list[int], batch: int, optimizer: str) -> Callable[[], Run]:
    """A perceptron."""

    def build() -> Run:
        params = [linear(a, b) for a, b in zip(sizes, sizes[1:], strict=False)]
        x, y = normal(batch, sizes[0]), labels(batch, sizes[-1])
        return supervised(params, lambda p, x, y: cross_entropy(perceptron(p, x), y), optimizer, x, y)

    return build


def lstm(steps: int, batch: int, hidden: int) -> Callable[[], Run]:
    """An LSTM cell in a loop that is unrolled, as in the others; scan compiles faster and runs slower here."""

    def build() -> Run:
        params = (linear(hidden, 4 * hidden), linear(hidden, 4 * hidden))

        def loss_of(params: Any, x: Any) -> Any:
            (wx, bx), (wh, bh) = params
            h = c = jnp.zeros((batch, hidden), jnp.float32)
            for t in range(steps):
                i, f, g, o = jnp.split(x[t] @ wx + bx + h @ wh + bh, 4, 1)
                c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
                h = jax.nn.sigmoid(o) * jnp.tanh(c)
            return (h * h).mean()

        return valued(loss_of, params, normal(steps, batch, hidden))

    return build


def valued(function: Any, *xs: Any, wanted: Any = 0) -> Run:
    """Value and gradient."""
    step = jax.jit(jax.value_and_grad(function, argnums=wanted))

    def run() -> float:
        value, grads = step(*xs)
        jax.block_until_ready(grads)
        return float(value)

    return run


def rosenbrock(x: Any) -> Any:
    """As in native_cases."""
    a, b = x[:-1], x[1:]
    return (100 * (b - a * a) ** 2 + (1 - a) ** 2).sum()


def black_scholes(spot: Any, strike: Any, years: Any, rate: Any, volatility: Any) -> Any:
    """As in native_cases."""
    spread = volatility * jnp.sqrt(years)
    d1 = (jnp.log(spot / strike) + (rate + volatility * volatility / 2) * years) / spread
    d2 = d1 - spread

    def cumulative(x: Any) -> Any:
        return (1 + erf(x / math.sqrt(2))) / 2

    return (spot * cumulative(d1) - strike * jnp.exp(-rate * years) * cumulative(d2)).sum()


def options() -> Run:
    """Greeks of many calls."""
    rng = np.random.default_rng(0)
    low, high = [80, 90, 0.2, 0.01, 0.1], [120, 110, 2.0, 0.05, 0.4]
    xs = [jnp.asarray(rng.uniform(a, b, 100_000)) for a, b in zip(low, high, strict=True)]
    return valued(black_scholes, *xs, wanted=tuple(range(5)))


def chain(count: int) -> Callable[[], Run]:
    """Elementwise work."""

    def function(x: Any, w: Any, b: Any, y: Any) -> Any:
        return (jax.nn.gelu(x * w + b, approximate=False) * jax.nn.sigmoid(x) + jnp.tanh(y)).sum()

    return lambda: valued(function, *[normal(count, seed=s) for s in range(4)], wanted=(0, 1, 2, 3))


def wgan_gp() -> Run:
    """A step of a critic with gradient penalty and one of its generator."""
    make = [linear(16, 64), linear(64, 64)]
    judge = [linear(64, 64), linear(64, 64), linear(64, 1)]
    start, update = adam(1e-4, 0.5, 0.9)
    real, noise, share = normal(64, 64), normal(64, 16), jnp.abs(normal(64, 1)) % 1

    def judged(params: Any, x: Any) -> Any:
        return perceptron(params, x, lambda v: jax.nn.leaky_relu(v, 0.2))

    def made_by(params: Any, noise: Any) -> Any:
        return jnp.tanh(perceptron(params, noise))

    def judge_loss(judge: Any, made: Any, real: Any, share: Any) -> Any:
        slope = jax.grad(lambda x: judged(judge, x).sum())(share * real + (1 - share) * made)
        penalty = ((jnp.sqrt((slope * slope).sum(1)) - 1) ** 2).mean()
        return judged(judge, made).mean() - judged(judge, real).mean() + 10 * penalty

    @jax.jit
    def step(make: Any, judge: Any, own: Any, other: Any, real: Any, noise: Any, share: Any) -> Any:
        loss, grads = jax.value_and_grad(judge_loss)(judge, made_by(make, noise), real, share)
        judge, other = update(judge, grads, other)
        grads = jax.grad(lambda make: -judged(judge, made_by(make, noise)).mean())(make)
        make, own = update(make, grads, own)
        return loss, make, judge, own, other

    held = [make, judge, start(make), start(judge)]

    def run() -> float:
        loss, *held[:] = step(*held, real, noise, share)
        return float(loss)

    return run


def hessian_product() -> Run:
    """Forward over reverse."""
    params = [linear(64, 64), linear(64, 64), linear(64, 10)]
    vectors = jax.tree.map(lambda p: normal(*p.shape, seed=3), params)

    def loss_of(params: Any, x: Any, y: Any) -> Any:
        return cross_entropy(perceptron(params, x, jnp.tanh), y)

    @jax.jit
    def step(params: Any, vectors: Any, x: Any, y: Any) -> Any:
        (loss, _), (_, product) = jax.jvp(
            lambda p: jax.value_and_grad(loss_of)(p, x, y), (params,), (vectors,)
        )
        return loss, product

    x, y = normal(32, 64), labels(32, 10)

    def run() -> float:
        loss, product = step(params, vectors, x, y)
        jax.block_until_ready(product)
        return float(loss)

    return run


def conv(x: Any, w: Any, padding: str) -> Any:
    """A convolution of pictures (n, channels, height, width)."""
    return jax.lax.conv_general_dilated(x, w, (1, 1), padding, dimension_numbers=("NCHW", "OIHW", "NCHW"))


def pooled(x: Any) -> Any:
    """The largest of 2 x 2."""
    return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")


def filters(a: int, b: int, size: int) -> Any:
    """Weights of a convolution."""
    return normal(b, a, size, size) / np.float32(math.sqrt(a * size * size))


def lenet() -> Run:
    """A network like LeNet, batch 64."""
    bias = [jnp.zeros((n, 1, 1), jnp.float32) for n in (6, 16)]
    params = (filters(1, 6, 5), filters(6, 16, 5), *bias, [linear(400, 120), linear(120, 84), linear(84, 10)])

    def loss_of(params: Any, x: Any, y: Any) -> Any:
        w1, w2, b1, b2, rest = params
        x = pooled(jax.nn.relu(conv(x, w1, "SAME") + b1))
        x = pooled(jax.nn.relu(conv(x, w2, "VALID") + b2))
        return cross_entropy(perceptron(rest, x.reshape(len(x), -1)), y)

    return supervised(params, loss_of, "momentum", normal(64, 1, 28, 28), labels(64, 10))


def cifar() -> Run:
    """A network with batch norm, batch 32; running statistics are left out, which favours JAX."""
    sizes = ((3, 32), (32, 32), (32, 64), (64, 64))
    layers = [
        (filters(a, b, 3), jnp.ones((b, 1, 1), jnp.float32), jnp.zeros((b, 1, 1), jnp.float32))
        for a, b in sizes
    ]

    def loss_of(params: Any, x: Any, y: Any) -> Any:
        layers, head = params
        for (a, b), (w, scale, shift) in zip(sizes, layers, strict=True):
            x = conv(x, w, "SAME")
            mean, var = x.mean((0, 2, 3), keepdims=True), x.var((0, 2, 3), keepdims=True)
            x = jax.nn.relu((x - mean) * jax.lax.rsqrt(var + 1e-5) * scale + shift)
            x = pooled(x) if a == b else x
        return cross_entropy(perceptron(head, x.reshape(len(x), -1)), y)

    params = (layers, [linear(64 * 64, 10)])
    return supervised(params, loss_of, "momentum", normal(32, 3, 32, 32), labels(32, 10))


def transformer() -> Run:
    """A transformer block with the norms first."""
    norm = (jnp.ones(128, jnp.float32), jnp.zeros(128, jnp.float32))
    params = (norm, norm, linear(128, 384), linear(128, 128), linear(128, 512), linear(512, 128))

    def normed(x: Any, p: Any) -> Any:
        return (x - x.mean(-1, keepdims=True)) * jax.lax.rsqrt(x.var(-1, keepdims=True) + 1e-5) * p[0] + p[1]

    def loss_of(params: Any, x: Any, y: Any) -> Any:
        n1, n2, project, back, up, down = params
        q, k, v = (
            t.reshape(8, 64, 4, 32).transpose(0, 2, 1, 3)
            for t in jnp.split(normed(x, n1) @ project[0] + project[1], 3, -1)
        )
        seen = jax.nn.softmax(q @ k.transpose(0, 1, 3, 2) / math.sqrt(32)) @ v
        x = x + seen.transpose(0, 2, 1, 3).reshape(8, 64, 128) @ back[0] + back[1]
        inner = jax.nn.gelu(normed(x, n2) @ up[0] + up[1], approximate=False)
        x = x + inner @ down[0] + down[1]
        return ((x - y) ** 2).mean()

    return supervised(params, loss_of, "Adam", normal(8, 64, 128), normal(8, 64, 128, seed=1))


# In the order of native_cases.CASES.
BUILDERS: list[Callable[[], Run]] = [
    mlp([4, 32, 32, 3], 8, "SGD"),
    mlp([64, 64, 64, 10], 32, "Adam"),
    mlp([784, 128, 128, 10], 64, "momentum"),
    mlp([784, 512, 512, 10], 128, "momentum"),
    lstm(50, 16, 64),
    lambda: valued(rosenbrock, normal(1000, dtype=np.float64)),
    options,
    chain(10**6),
    chain(10**7),
    wgan_gp,
    hessian_product,
    lenet,
    cifar,
    transformer,
]
