"""Whole training loops in float64 beside PyTorch: networks, clipping, optimizers, schedules and averages together."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import tapegrad as tg  # noqa: E402

from .oracle import load  # noqa: E402

RNG = np.random.default_rng(2)


def language_model(lib):
    nn = lib.nn

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(11, 8)
            self.place = nn.Parameter(lib.zeros(6, 8))
            layer = nn.TransformerEncoderLayer(8, 2, 16, 0.0, "gelu", batch_first=True, norm_first=True)
            self.body = nn.TransformerEncoder(layer, 2, nn.LayerNorm(8), enable_nested_tensor=False)
            self.head = nn.Linear(8, 11, bias=False)
            self.head.weight = self.embed.weight  # tied
            ahead = lib.ones(6, 6, dtype=lib.bool).triu(1)
            self.register_buffer("ahead", ahead, persistent=False)

        def forward(self, ids):
            x = self.embed(ids) + self.place
            return self.head(self.body(x, mask=self.ahead)).transpose(1, 2)

    return Model(), nn.CrossEntropyLoss(label_smoothing=0.1)


def images(lib):
    nn = lib.nn

    class Block(nn.Module):
        def __init__(self, inside, outside, stride):
            super().__init__()
            self.main = nn.Sequential(
                nn.Conv2d(inside, outside, 3, stride, 1, bias=False),
                nn.BatchNorm2d(outside),
                nn.ReLU(inplace=True),
                nn.utils.parametrizations.weight_norm(nn.Conv2d(outside, outside, 3, padding=1, groups=2)),
                nn.GroupNorm(2, outside),
            )
            self.short = nn.Conv2d(inside, outside, 1, stride) if stride > 1 else nn.Identity()

        def forward(self, x):
            return nn.functional.silu(self.main(x) + self.short(x))

    net = nn.Sequential(
        nn.Conv2d(3, 4, 3, padding="same", padding_mode="reflect"),
        Block(4, 4, 1),
        nn.MaxPool2d(2, ceil_mode=True),
        Block(4, 8, 2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.LazyLinear(11),
    )
    return net, nn.CrossEntropyLoss(weight=lib.linspace(0.5, 1.5, 11))


def sequences(lib):
    nn = lib.nn

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(11, 5, padding_idx=0)
            self.rnn = nn.LSTM(5, 4, 2, batch_first=True, bidirectional=True, proj_size=3)
            self.head = nn.Bilinear(6, 6, 11)

        def forward(self, ids):
            lengths = (ids != 0).sum(1)
            packed = nn.utils.rnn.pack_padded_sequence(
                self.embed(ids), lengths.clamp(min=1), batch_first=True, enforce_sorted=False
            )
            out, (last, _) = self.rnn(packed)
            out, _ = nn.utils.rnn.pad_packed_sequence(out, batch_first=True, total_length=ids.shape[1])
            return self.head(out.sum(1), lib.cat([last[-1], last[-2]], 1))

    return Model(), nn.MultiMarginLoss(margin=0.5)


CASES = {
    "language model": (language_model, [RNG.integers(0, 11, (3, 6)) for _ in range(6)], (3, 6)),
    "images": (images, [RNG.normal(size=(4, 3, 9, 9)) for _ in range(6)], (4,)),
    "sequences": (sequences, [RNG.integers(0, 11, (4, 5)) for _ in range(6)], (4,)),
}


def optimizers(lib, net):
    """Decay for matrices only, another rate for the last layer."""
    *body, last = list(net.parameters())
    groups = [
        {"params": [p for p in body if p.dim() > 1], "weight_decay": 0.1},
        {"params": [p for p in body if p.dim() <= 1], "weight_decay": 0.0},
        {"params": [last], "lr": 0.02},
    ]
    optimizer = lib.optim.AdamW(groups, lr=0.01, betas=(0.8, 0.95), amsgrad=True)
    schedules = lib.optim.lr_scheduler
    warm = schedules.LinearLR(optimizer, 0.3, 1.0, 4)
    return optimizer, schedules.SequentialLR(
        optimizer, [warm, schedules.CosineAnnealingLR(optimizer, 16)], [4]
    )


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CASES)
def test_twenty_steps(name):
    make, batches, shape = CASES[name]
    targets = [np.random.default_rng(k).integers(0, 11, shape) for k in range(len(batches))]
    made = {lib: [part.double() for part in make(lib)] for lib in (tg, torch)}
    for lib, (net, _) in made.items():
        net(lib.tensor(batches[0]))  # lazy layers
    load(made[tg][0], made[torch][0])
    results = {}
    for lib, (net, loss_of) in made.items():
        optimizer, schedule = optimizers(lib, net)
        average = lib.optim.swa_utils.AveragedModel(
            net, multi_avg_fn=lib.optim.swa_utils.get_ema_multi_avg_fn(0.8)
        )
        seen = []
        for step in range(20):
            k = step % len(batches)
            optimizer.zero_grad()
            loss = loss_of(net(lib.tensor(batches[k])), lib.tensor(targets[k]))
            loss.backward()
            norm = lib.nn.utils.clip_grad_norm_(net.parameters(), 0.5)
            optimizer.step()
            schedule.step()
            average.update_parameters(net)
            seen.append([loss.item(), norm.item(), *schedule.get_last_lr()])
        net.eval()
        with lib.no_grad():
            last = net(lib.tensor(batches[0])).numpy()
            averaged = average.eval()(lib.tensor(batches[0])).numpy()
        results[lib] = [np.array(seen), last, averaged, *(v.numpy() for v in net.state_dict().values())]
    losses = results[tg][0][:, 0]
    assert losses[-1] < losses[19 % len(batches)]  # of the same batch
    for mine, theirs in zip(results[tg], results[torch], strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(results[tg][0], results[torch][0], rtol=1e-9)
