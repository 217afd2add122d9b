"""Training steps of modules are the same compiled as eager: losses, gradients of arguments, parameters, buffers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapegrad as tg
from tapegrad import nn


class Itself(nn.Module):
    """A module that is given the same tensor several times."""

    def __init__(self, module: nn.Module, times: int) -> None:
        super().__init__()
        self.module, self.times = module, times

    def forward(self, x: tg.Tensor) -> Any:
        return self.module(*[x] * self.times)


def after_conv(*layers: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Conv2d(1, 2, 3), *layers)


# Name: how to make it, the shape of a batch, and for indices how many there are.
MODULES: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...], int]] = {
    "BatchNorm2d": (lambda: nn.BatchNorm2d(3), (4, 3, 5, 5), 0),
    "Conv2d": (lambda: nn.Conv2d(2, 3, 3, padding=1, stride=2), (2, 2, 7, 7), 0),
    "MaxPool2d": (lambda: after_conv(nn.MaxPool2d(2)), (2, 1, 8, 8), 0),
    "LSTM": (lambda: nn.LSTM(3, 4, 2, bidirectional=True, dropout=0.3), (5, 2, 3), 0),
    "Embedding": (lambda: nn.Embedding(7, 3, padding_idx=1), (4, 2), 7),
    "TransformerEncoderLayer": (
        lambda: nn.TransformerEncoderLayer(4, 2, 8, dropout=0.1, batch_first=True),
        (2, 5, 4),
        0,
    ),
    "weight_norm": (lambda: nn.utils.parametrizations.weight_norm(nn.Linear(3, 4)), (4, 3), 0),
}
MORE: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...], int]] = {
    "BatchNorm1d": (lambda: nn.BatchNorm1d(3), (6, 3), 0),
    "InstanceNorm2d": (
        lambda: nn.InstanceNorm2d(3, affine=True, track_running_stats=True),
        (4, 3, 5, 5),
        0,
    ),
    "GroupNorm": (lambda: nn.GroupNorm(2, 4), (4, 4, 5, 5), 0),
    "LayerNorm": (lambda: nn.LayerNorm(5), (4, 5), 0),
    "RMSNorm": (lambda: nn.RMSNorm(5), (4, 5), 0),
    "LocalResponseNorm": (lambda: nn.LocalResponseNorm(2), (2, 4, 3, 3), 0),
    "Conv1d": (lambda: nn.Conv1d(2, 3, 3, dilation=2, padding="same"), (2, 2, 9), 0),
    "Conv3d": (lambda: nn.Conv3d(1, 2, 2), (2, 1, 4, 4, 4), 0),
    "ConvTranspose2d": (lambda: nn.ConvTranspose2d(2, 3, 4, stride=2, padding=1), (2, 2, 5, 5), 0),
    "AvgPool2d": (lambda: after_conv(nn.AvgPool2d(2, padding=1)), (2, 1, 8, 8), 0),
    "AdaptiveAvgPool2d": (lambda: after_conv(nn.AdaptiveAvgPool2d(2)), (2, 1, 8, 8), 0),
    "AdaptiveMaxPool2d": (lambda: after_conv(nn.AdaptiveMaxPool2d(2)), (2, 1, 8, 8), 0),
    "FractionalMaxPool2d": (lambda: nn.FractionalMaxPool2d(2, output_size=3), (2, 2, 7, 7), 0),
    "LPPool2d": (lambda: nn.LPPool2d(2, 2), (2, 1, 8, 8), 0),
    "GRU": (lambda: nn.GRU(3, 4), (5, 2, 3), 0),
    "RNN": (lambda: nn.RNN(3, 4), (5, 2, 3), 0),
    "LSTMCell": (lambda: nn.LSTMCell(3, 4), (2, 3), 0),
    "GRUCell": (lambda: nn.GRUCell(3, 4), (2, 3), 0),
    "MultiheadAttention": (
        lambda: Itself(nn.MultiheadAttention(4, 2, dropout=0.2, batch_first=True), 3),
        (2, 5, 4),
        0,
    ),
    "TransformerDecoderLayer": (
        lambda: Itself(nn.TransformerDecoderLayer(4, 2, 8, batch_first=True), 2),
        (2, 5, 4),
        0,
    ),
    "Bilinear": (lambda: Itself(nn.Bilinear(3, 3, 2), 2), (4, 3), 0),
    "activations": (
        lambda: nn.Sequential(nn.Linear(3, 4), nn.PReLU(), nn.Hardswish(), nn.Mish(), nn.CELU(), nn.GLU()),
        (4, 3),
        0,
    ),
    "RReLU": (lambda: nn.Sequential(nn.Linear(3, 4), nn.RReLU(), nn.Softmin(1)), (4, 3), 0),
    "Dropout2d": (lambda: nn.Dropout2d(0.5), (4, 3, 2, 2), 0),
    "AlphaDropout": (lambda: nn.AlphaDropout(0.5), (4, 3), 0),
    "FeatureAlphaDropout": (lambda: nn.FeatureAlphaDropout(0.5), (4, 3, 2), 0),
    "Upsample nearest": (lambda: nn.Upsample(scale_factor=2), (2, 1, 5, 5), 0),
    "Upsample bilinear": (
        lambda: after_conv(nn.Upsample(scale_factor=2, mode="bilinear")),
        (2, 1, 5, 5),
        0,
    ),
    "Upsample bicubic": (lambda: nn.Upsample(scale_factor=2, mode="bicubic"), (2, 1, 5, 5), 0),
    "PixelShuffle": (lambda: nn.PixelShuffle(2), (2, 4, 3, 3), 0),
    "ChannelShuffle": (lambda: nn.ChannelShuffle(2), (2, 4, 3, 3), 0),
    "Unfold": (lambda: nn.Unfold(2), (2, 1, 4, 4), 0),
    "Fold": (lambda: nn.Fold((4, 4), 2), (2, 4, 9), 0),
    "ReflectionPad2d": (lambda: nn.ReflectionPad2d(1), (2, 1, 4, 4), 0),
    "ReplicationPad2d": (lambda: nn.ReplicationPad2d(1), (2, 1, 4, 4), 0),
    "CircularPad2d": (lambda: nn.CircularPad2d(1), (2, 1, 4, 4), 0),
    "spectral_norm": (lambda: nn.utils.parametrizations.spectral_norm(nn.Linear(3, 4)), (4, 3), 0),
}


def trained(name: str, compiled: bool) -> tuple[list[Any], int]:
    """What four steps show, one of them with a larger batch, and how many recordings were made."""
    make, shape, count = (MODULES | MORE)[name]
    tg.manual_seed(0)
    module = make().double()
    params = list(module.parameters())
    optimizer = tg.optim.Adam(params, 0.01) if params else None

    def step(x: tg.Tensor) -> Any:
        if optimizer is not None:
            optimizer.zero_grad()
        y = module(x)
        y = y[0] if isinstance(y, tuple) else y
        weights = tg.linspace(0.5, 1.5, y.numel(), dtype=tg.float64).reshape(y.shape)
        loss = (y * weights).sin().mean()
        loss.backward()
        if optimizer is not None:
            optimizer.step()
        return loss.detach(), y.detach()

    run = tg.compile(step) if compiled else step
    random = np.random.default_rng(0)
    seen: list[Any] = []
    for k in range(4):
        size = (shape[0] + (k == 2), *shape[1:])
        if count:
            x = tg.tensor(random.integers(0, count, size))
        else:
            x = tg.tensor(random.standard_normal(size)).requires_grad_()
        seen += [*run(x), x.grad]
    seen += [*params, *module.buffers()]
    found = [None if t is None else t.detach().numpy().copy() for t in seen]
    return found, sum(len(r) for r in run.recordings.values()) if compiled else 0


@pytest.mark.parametrize("name", [*MODULES, *[pytest.param(n, marks=pytest.mark.slow) for n in MORE]])
def test_modules_train_as_in_eager_mode(name: str) -> None:
    (eager, _), (compiled, recordings) = trained(name, False), trained(name, True)
    assert recordings == 2, "one for each size"
    for a, b in zip(eager, compiled, strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            np.testing.assert_allclose(b, a, rtol=1e-9, atol=1e-9)
