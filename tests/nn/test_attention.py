"""Attention with masks, with and without weights, and stacks of layers, beside PyTorch."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

pytest.importorskip("torch")

import torch

import tapegrad as tg

from .oracle import compare, load

RNG = np.random.default_rng(11)
LENGTH, SOURCE, BATCH, WIDTH, HEADS = 4, 5, 3, 8, 2


def x(*shape):
    return RNG.normal(size=shape)


BOOL = np.triu(np.ones((LENGTH, SOURCE), bool), 1)
MASKS = {
    "none": None,
    "bool": BOOL,
    "added": np.where(BOOL, -np.inf, 0.3),
    "per head": RNG.normal(size=(BATCH * HEADS, LENGTH, SOURCE)),
}
PADDINGS = {
    "none": None,
    "bool": np.array([[False] * 5, [False] * 3 + [True] * 2, [False] + [True] * 4]),
    "added": np.array([[0.0] * 5, [0.5] * 5, [0.0] * 4 + [-np.inf]]),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("mask", "padding"), list(itertools.product(MASKS, PADDINGS)))
@pytest.mark.parametrize("need_weights", [True, False])
def test_masks(mask, padding, need_weights):
    mine = tg.nn.MultiheadAttention(WIDTH, HEADS).double()
    theirs = torch.nn.MultiheadAttention(WIDTH, HEADS).double()
    load(mine, theirs)
    kwargs = {"attn_mask": MASKS[mask], "key_padding_mask": PADDINGS[padding], "need_weights": need_weights}
    compare(mine, theirs, [x(LENGTH, BATCH, WIDTH), x(SOURCE, BATCH, WIDTH), x(SOURCE, BATCH, WIDTH)], kwargs)


@pytest.mark.parametrize("average", [True, False])
@pytest.mark.parametrize("batch_first", [True, False])
def test_self_attention_in_one_projection(average, batch_first):
    pair = [lib.nn.MultiheadAttention(WIDTH, HEADS, batch_first=batch_first).double() for lib in (tg, torch)]
    load(*pair)
    pair = [Self(lib, m, average) for lib, m in zip((tg, torch), pair, strict=True)]
    compare(*pair, [x(BATCH, LENGTH, WIDTH)])
    compare(*pair, [x(LENGTH, WIDTH)])


def Self(lib, attention, average):
    class Module(lib.nn.Module):
        def __init__(self):
            super().__init__()
            self.attention = attention

        def forward(self, x):
            return self.attention(x, x, x, average_attn_weights=average)

    return Module()


@pytest.mark.parametrize("mask", ["none", "bool", "added", "causal", "all masked"])
@pytest.mark.parametrize("scale", [None, 0.3])
def test_scaled_dot_product_attention(mask, scale):
    class Attend:
        def __init__(self, lib):
            self.lib = lib

        def __call__(self, *args, **kwargs):
            return self.lib.nn.functional.scaled_dot_product_attention(*args, scale=scale, **kwargs)

        def named_parameters(self):
            return []

        named_buffers = named_parameters

    kwargs = {
        "none": {},
        "bool": {"attn_mask": ~BOOL},
        "added": {"attn_mask": MASKS["added"]},
        "causal": {"is_causal": True},
        "all masked": {"attn_mask": np.array([[False] * SOURCE] + [[True] * SOURCE] * (LENGTH - 1))},
    }[mask]
    inputs = [x(2, 3, LENGTH, 6), x(2, 3, SOURCE, 6), x(2, 3, SOURCE, 7)]
    compare(Attend(tg), Attend(torch), inputs, kwargs)


def test_grouped_heads():
    q, k, v = x(2, 6, 4, 3), x(2, 2, 5, 3), x(2, 3, 5, 3)
    mine, theirs = (
        lib.nn.functional.scaled_dot_product_attention(
            *(lib.tensor(a.tolist(), dtype=lib.float64) for a in (q, k, v)), enable_gqa=True
        )
        for lib in (tg, torch)
    )
    np.testing.assert_allclose(mine.numpy(), theirs.numpy(), rtol=1e-9)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("norm_first", [True, False])
@pytest.mark.parametrize("final_norm", [True, False])
def test_stacks(norm_first, final_norm):
    def made(lib, kind):
        layer = getattr(lib.nn, f"Transformer{kind}Layer")(
            WIDTH, HEADS, 16, dropout=0.0, batch_first=True, norm_first=norm_first
        )
        norm = lib.nn.LayerNorm(WIDTH) if final_norm else None
        return getattr(lib.nn, f"Transformer{kind}")(layer, 2, norm).double()

    hidden = {"memory_key_padding_mask": PADDINGS["bool"]}
    for kind, inputs, kwargs in [
        ("Encoder", [x(BATCH, 5, WIDTH)], {"src_key_padding_mask": PADDINGS["bool"]}),
        ("Encoder", [x(BATCH, 5, WIDTH)], {"mask": np.triu(np.full((5, 5), -np.inf), 1)}),
        ("Decoder", [x(BATCH, LENGTH, WIDTH), x(BATCH, 5, WIDTH)], hidden),
    ]:
        mine, theirs = made(tg, kind), made(torch, kind)
        assert repr(mine) == repr(theirs)
        load(mine, theirs)
        compare(mine, theirs, inputs, kwargs)


def test_subsequent_mask():
    mine = tg.nn.Transformer.generate_square_subsequent_mask(4)
    assert mine.tolist() == torch.nn.Transformer.generate_square_subsequent_mask(4).tolist()


@pytest.mark.parametrize(
    "call",
    [
        lambda lib: lib.nn.MultiheadAttention(7, 2),
        lambda lib: lib.nn.MultiheadAttention(0, 2),
        lambda lib: lib.nn.MultiheadAttention(4, 2)(lib.ones(2, 3, 5), lib.ones(2, 3, 4), lib.ones(2, 3, 4)),
        lambda lib: lib.nn.MultiheadAttention(4, 2)(lib.ones(4), lib.ones(4), lib.ones(4)),
        lambda lib: lib.nn.MultiheadAttention(4, 2)(*[lib.ones(2, 3, 4)] * 3, attn_mask=lib.ones(3, 3)),
        lambda lib: lib.nn.MultiheadAttention(4, 2)(*[lib.ones(2, 3, 4)] * 3, is_causal=True),
        lambda lib: lib.nn.Transformer(4, 2)(lib.ones(2, 3, 4), lib.ones(2, 2, 4)),
        lambda lib: lib.nn.Transformer(4, 2)(lib.ones(2, 3, 5), lib.ones(2, 3, 5)),
        lambda lib: lib.nn.TransformerEncoderLayer(4, 2, activation="nope"),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_errors(call):
    with pytest.raises((AssertionError, RuntimeError, ValueError, KeyError)) as theirs:
        call(torch)
    with pytest.raises(theirs.type):
        call(tg)
