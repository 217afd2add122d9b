"""The summary of a network: its numbers against numbers worked out by hand, its table, and what it leaves alone."""

from __future__ import annotations

import pytest

import tapegrad as tg
from tapegrad import nn


class LeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2))
        self.norm = nn.BatchNorm2d(6)
        self.drop = nn.Dropout(0.5)
        self.head = nn.Linear(6 * 14 * 14, 10)

    def forward(self, x):
        return self.head(self.drop(self.norm(self.features(x))).flatten(1))


def row(found, name):
    return next(layer for layer in found.layers if layer.name == name)


def test_numbers():
    found = tg.summary(LeNet(), (4, 1, 28, 28))
    conv, head = row(found, "features.0"), row(found, "head")
    assert conv.kind == "Conv2d"
    assert conv.output == [4, 6, 28, 28]
    assert conv.parameters == 6 * 25 + 6
    assert conv.multiply_adds == 4 * 6 * 28 * 28 * 25
    assert conv.saved_bytes == 4 * 28 * 28 * 4, "its input"
    assert row(found, "features.1").saved_bytes == 4 * 6 * 28 * 28 * 4, "its output"
    assert row(found, "norm").parameters == 12
    assert row(found, "norm").saved_bytes >= 4 * 6 * 14 * 14 * 4
    assert head.multiply_adds == 4 * 1176 * 10
    assert head.saved_bytes == 4 * 1176 * 4
    assert found.parameters == found.trainable == 156 + 12 + 11770
    assert found.multiply_adds == conv.multiply_adds + head.multiply_adds
    assert found.saved_bytes == sum(layer.saved_bytes for layer in found.layers)
    assert found.weight_bytes == (156 + 12 + 11770) * 4 + 2 * 6 * 4 + 8


def test_saved_bytes_are_what_the_tape_says():
    model = LeNet()
    x = tg.rand(4, 1, 28, 28)
    found = tg.summary(model, input_data=x)
    total = model(x).tape().nbytes
    weights = sum(p.nbytes for p in (model.head.weight, model.norm.weight))  # which the tape counts too
    assert found.saved_bytes == total - weights


def test_a_view_counts_for_what_is_seen_of_it():
    table = tg.rand(1000, 4)
    assert tg.summary(nn.Linear(4, 2), input_data=table[:10]).saved_bytes == 160

    class Halves(nn.Module):
        def forward(self, x):
            a, b = (x * 1).chunk(2)
            return a * b * a[0]

    found = tg.summary(Halves(), input_data=tg.rand(6, 2, requires_grad=True))
    assert found.saved_bytes == 48 + 24, "both halves once, and their product"


def test_table():
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.Flatten(), nn.Linear(2704, 10))
    assert str(tg.summary(model, (2, 1, 28, 28))) == (
        "layer        output          parameters  multiply-adds  bytes saved\n"
        "Sequential   [2, 10]                  -              -            -\n"
        "  0 Conv2d   [2, 4, 26, 26]          40         48,672        6,272\n"
        "  1 Flatten  [2, 2704]                -              -            -\n"
        "  2 Linear   [2, 10]             27,050         54,080       21,632\n"
        "total                            27,090        102,752       27,904\n"
        "input [2, 1, 28, 28]; 27,090 parameters to train, 108,360 bytes of parameters and buffers"
    )


def test_depth_adds_deeper_layers_to_those_above():
    full = tg.summary(LeNet(), (4, 1, 28, 28))
    short = tg.summary(LeNet(), (4, 1, 28, 28), depth=1)
    assert [layer.name for layer in short.layers] == ["", "features", "norm", "drop", "head"]
    assert row(short, "features").parameters == 156
    assert row(short, "features").multiply_adds == row(full, "features.0").multiply_adds
    for what in ("parameters", "trainable", "multiply_adds", "saved_bytes"):
        assert getattr(short, what) == getattr(full, what)
    (only,) = tg.summary(LeNet(), (4, 1, 28, 28), depth=0).layers
    assert only.parameters == full.parameters


@pytest.mark.parametrize("training", [True, False])
def test_nothing_is_changed(training):
    model = LeNet().train(training)
    tg.manual_seed(5)
    state, random = {k: v.clone() for k, v in model.state_dict().items()}, tg.get_rng_state()
    x = tg.rand(2, 1, 28, 28, generator=tg.Generator())
    model.features.requires_grad_(False)
    tg.summary(model, input_data=x)
    assert (tg.get_rng_state() == random).all()
    for key, value in model.state_dict().items():
        assert (value == state[key]).all(), key
    assert all(m.training == training for m in model.modules())
    assert not x.requires_grad
    assert [p.requires_grad for p in model.parameters()] == [False, False, True, True, True, True]
    assert all(p.grad is None for p in model.parameters())
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())


def test_frozen_layers_save_nothing_and_still_multiply():
    model = LeNet().eval()
    full = tg.summary(model, (4, 1, 28, 28))
    model.features.requires_grad_(False)
    found = tg.summary(model, (4, 1, 28, 28))
    assert found.multiply_adds == full.multiply_adds
    assert row(found, "features.0").saved_bytes == row(found, "features.1").saved_bytes == 0
    assert found.saved_bytes < full.saved_bytes
    assert found.trainable == full.trainable - 156
    model.requires_grad_(False)
    found = tg.summary(model, (4, 1, 28, 28))
    assert (found.saved_bytes, found.trainable) == (0, 0)
    assert found.multiply_adds == full.multiply_adds


def test_a_layer_called_twice_and_a_shared_weight():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(11, 6)
            self.mix = nn.Linear(6, 6)
            self.unused = nn.Linear(2, 2)
            self.out = nn.Linear(6, 11, bias=False)
            self.out.weight = self.embed.weight

        def forward(self, x):
            return self.out(self.mix(self.mix(self.embed(x))))

    found = tg.summary(Tied(), (2, 3), dtypes=[tg.int64])
    assert found.parameters == 66 + 42 + 6
    assert row(found, "out").parameters == 0
    assert row(found, "mix").calls == 2
    assert row(found, "mix").multiply_adds == 2 * 6 * 36
    assert row(found, "unused").output is None
    assert "mix Linear (2 calls)" in str(found)


@pytest.mark.parametrize(
    ("module", "size", "expected"),
    [
        (nn.Linear(5, 7), (3, 2, 5), 6 * 35),
        (nn.Linear(5, 7, bias=False), (2, 5), 2 * 35),
        (nn.Conv1d(4, 6, 3, groups=2), (2, 4, 10), 2 * 6 * 8 * 2 * 3),
        (nn.Conv3d(1, 2, 2), (1, 1, 4, 4, 4), 2 * 27 * 8),
        (nn.ConvTranspose2d(4, 6, 3, stride=2, groups=2), (2, 4, 5, 5), 2 * 4 * 25 * 3 * 9),
        (nn.LSTM(5, 7), (3, 2, 5), 6 * 28 * (5 + 7)),
        (nn.GRU(5, 7), (3, 2, 5), 6 * 21 * (5 + 7)),
    ],
)
def test_multiply_adds(module, size, expected):
    assert tg.summary(module, size).multiply_adds == expected
    module.requires_grad_(False)
    assert tg.summary(module, size).multiply_adds == expected


def test_multiply_adds_of_products_in_forward():
    class Products(nn.Module):
        def forward(self, x):
            kernel = tg.ones(3, 2, 3, 3)
            y = nn.functional.conv2d(x, kernel)
            flat = y.flatten(1)
            scores = flat @ flat.T
            return scores @ tg.ones(2), tg.ones(2, 5, 4) @ tg.bmm(x[:, 0, :4, :], x[:, 0].transpose(1, 2))

    found = tg.summary(Products(), (2, 2, 6, 6))
    assert found.multiply_adds == 2 * 3 * 16 * 18 + 2 * 48 * 2 + 4 + 2 * 4 * 6 * 6 + 2 * 5 * 4 * 6
    assert found.layers[0].output == [[2], [2, 5, 6]]


def test_several_inputs_and_keywords():
    attention = nn.MultiheadAttention(8, 2)
    found = tg.summary(attention, [(3, 1, 8), (5, 1, 8), (5, 1, 8)])
    assert found.inputs == ["[3, 1, 8]", "[5, 1, 8]", "[5, 1, 8]"]
    assert found.layers[0].output == [[3, 1, 8], [1, 3, 5]]
    x = tg.rand(3, 1, 8)
    named = tg.summary(attention, input_data={"query": x, "key": x, "value": x, "need_weights": False})
    assert named.layers[0].output == [3, 1, 8]
    assert tg.summary(nn.Linear(2, 2).double(), (1, 2)).layers[0].output == [1, 2], (
        "input in the weights' dtype"
    )


def test_the_layer_that_fails_is_named():
    model = nn.Sequential(nn.Sequential(nn.Linear(4, 3), nn.Linear(5, 2)))
    with pytest.raises(RuntimeError) as caught:
        tg.summary(model, (1, 4))
    assert caught.value.__notes__ == ["in the layer 0.1 (Linear) of the model to summarise"]
    assert not any(m._forward_hooks for m in model.modules())


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({}, TypeError, "give either input_size"),
        ({"input_size": (1, 4), "input_data": 1}, TypeError, "give either input_size"),
        ({"input_data": tg.ones(1, 4), "dtypes": [tg.int64]}, TypeError, "dtypes goes with input_size"),
        ({"input_size": (1, 4), "dtypes": [tg.int64] * 2}, ValueError, "2 dtypes for 1 inputs"),
        ({"input_size": (1, 4.0)}, TypeError, "must be a shape such as"),
        ({"input_size": (1, -4)}, TypeError, "must be a shape such as"),
    ],
)
def test_errors(arguments, error, message):
    with pytest.raises(error, match=message):
        tg.summary(nn.Linear(4, 1), **arguments)


def test_not_a_module():
    with pytest.raises(TypeError, match="must be a Module, got function"):
        tg.summary(lambda x: x, (1,))
