"""Layer by layer against PyTorch in float64: outputs, gradients, buffers, printed form, state keys."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

import numpy as np
import torch

import tapegrad as tg
import tapegrad.nn

from .oracle import both, compare, load

RNG = np.random.default_rng(3)


def x(*shape):
    return RNG.normal(size=shape)


def positive(*shape):
    return RNG.uniform(0.05, 0.95, size=shape)


def whole(high, *shape):
    return RNG.integers(0, high, size=shape)


def signs(*shape):
    return RNG.choice([-1.0, 1.0], size=shape)


A = (4, 5)
CASES = [
    # linear and shapes
    ("Identity", (), {}, [x(2, 3)]),
    ("Linear", (4, 3), {}, [x(5, 4)]),
    ("Linear", (4, 3), {"bias": False}, [x(2, 5, 4)]),
    ("Linear", (4, 3), {}, [x(4)]),
    ("Bilinear", (3, 4, 5), {}, [x(6, 3), x(6, 4)]),
    ("Bilinear", (3, 4, 2), {"bias": False}, [x(2, 6, 3), x(2, 6, 4)]),
    ("Flatten", (), {}, [x(2, 3, 4)]),
    ("Flatten", (0, 1), {}, [x(2, 3, 4)]),
    ("Unflatten", (1, (2, 3)), {}, [x(2, 6)]),
    # activations
    *[
        (name, (), {}, [x(*A)])
        for name in (
            *("ReLU", "ReLU6", "SELU", "SiLU", "Mish", "Hardswish", "Hardsigmoid", "Sigmoid", "Tanh"),
            *("LogSigmoid", "Softsign", "Tanhshrink", "Hardtanh", "ELU", "CELU", "LeakyReLU", "PReLU"),
            *("GELU", "Softplus", "Hardshrink", "Softshrink"),
        )
    ],
    ("ReLU", (True,), {}, None),
    ("Threshold", (0.1, 20.0), {}, [x(*A)]),
    ("Hardtanh", (-0.3, 0.7), {}, [x(*A)]),
    ("ELU", (0.7,), {}, [x(*A)]),
    ("CELU", (0.7,), {}, [x(*A)]),
    ("LeakyReLU", (0.3,), {}, [x(*A)]),
    ("PReLU", (5,), {}, [x(4, 5, 2)]),
    ("PReLU", (1,), {"init": 0.5}, [x(7)]),
    ("GELU", (), {"approximate": "tanh"}, [x(*A)]),
    ("GLU", (), {}, [x(4, 6)]),
    ("GLU", (0,), {}, [x(4, 6)]),
    ("Softplus", (2.0, 1.0), {}, [x(*A)]),
    ("Softmax", (1,), {}, [x(*A)]),
    ("Softmin", (0,), {}, [x(*A)]),
    ("LogSoftmax", (-1,), {}, [x(*A)]),
    ("Softmax2d", (), {}, [x(2, 3, 4, 5)]),
    # distances
    ("CosineSimilarity", (), {}, [x(4, 6), x(4, 6)]),
    ("CosineSimilarity", (0, 1e-2), {}, [x(4, 6), x(4, 6)]),
    ("PairwiseDistance", (), {}, [x(4, 6), x(4, 6)]),
    ("PairwiseDistance", (1.0, 1e-3, True), {}, [x(4, 6), x(4, 6)]),
    # convolutions
    ("Conv1d", (4, 6, 3), {}, [x(2, 4, 9)]),
    ("Conv1d", (4, 6, 3, 2, 1, 2, 2), {"padding_mode": "circular"}, [x(2, 4, 9)]),
    ("Conv2d", (3, 4, 3), {}, [x(2, 3, 8, 7)]),
    (
        "Conv2d",
        (3, 4, (3, 2)),
        {"stride": (2, 1), "padding": (1, 0), "dilation": (1, 2), "bias": False},
        [x(2, 3, 8, 7)],
    ),
    ("Conv2d", (4, 4, 3), {"padding": "same", "groups": 4}, [x(4, 8, 7)]),
    ("Conv2d", (4, 6, 2), {"padding": "same", "padding_mode": "reflect"}, [x(1, 4, 8, 7)]),
    ("Conv2d", (4, 6, 3), {"padding": 1, "padding_mode": "replicate"}, [x(1, 4, 8, 7)]),
    ("Conv3d", (2, 3, 2), {"stride": 2}, [x(2, 2, 5, 4, 6)]),
    ("ConvTranspose1d", (4, 6, 3), {"stride": 2, "padding": 1, "output_padding": 1}, [x(2, 4, 9)]),
    ("ConvTranspose2d", (4, 6, 3), {"stride": 2, "groups": 2, "dilation": 2}, [x(2, 4, 5, 6)]),
    ("ConvTranspose3d", (2, 3, 2), {"bias": False}, [x(2, 2, 3, 4, 3)]),
    # pooling
    ("MaxPool1d", (3,), {}, [x(2, 3, 10)]),
    ("MaxPool2d", (3, 2, 1), {}, [x(2, 3, 9, 8)]),
    ("MaxPool2d", (2,), {"return_indices": True, "ceil_mode": True}, [x(2, 3, 9, 8)]),
    ("MaxPool2d", ((3, 2),), {"dilation": 2, "stride": (1, 2)}, [x(3, 9, 8)]),
    ("MaxPool3d", (2,), {}, [x(2, 3, 4, 5, 6)]),
    ("AvgPool1d", (3,), {"stride": 2, "padding": 1}, [x(2, 3, 10)]),
    ("AvgPool2d", (3,), {"stride": 2, "padding": 1, "count_include_pad": False}, [x(2, 3, 9, 8)]),
    ("AvgPool2d", (2,), {"ceil_mode": True, "divisor_override": 3}, [x(2, 3, 9, 7)]),
    ("AvgPool3d", (2,), {}, [x(2, 3, 4, 5, 6)]),
    ("LPPool1d", (2.0, 3), {}, [positive(2, 3, 10)]),
    ("LPPool2d", (1.5, 3), {"stride": 2}, [positive(2, 3, 9, 8)]),
    ("LPPool3d", (2.0, 2), {}, [positive(2, 3, 4, 5, 6)]),
    ("AdaptiveAvgPool1d", (4,), {}, [x(2, 3, 10)]),
    ("AdaptiveAvgPool2d", ((3, None),), {}, [x(2, 3, 9, 8)]),
    ("AdaptiveAvgPool3d", ((2, 3, 1),), {}, [x(2, 3, 4, 5, 6)]),
    ("AdaptiveMaxPool1d", (4,), {"return_indices": True}, [x(2, 3, 10)]),
    ("AdaptiveMaxPool2d", ((3, 5),), {}, [x(2, 3, 9, 8)]),
    ("AdaptiveMaxPool3d", (2,), {}, [x(2, 3, 4, 5, 6)]),
    # norms
    ("BatchNorm1d", (5,), {}, [x(6, 5)]),
    ("BatchNorm1d", (5,), {"momentum": None}, [x(6, 5, 4)]),
    ("BatchNorm2d", (3,), {"affine": False}, [x(2, 3, 4, 5)]),
    ("BatchNorm2d", (3,), {"track_running_stats": False, "bias": False}, [x(2, 3, 4, 5)]),
    ("BatchNorm3d", (3,), {"eps": 0.1}, [x(2, 3, 2, 4, 5)]),
    ("InstanceNorm1d", (3,), {}, [x(2, 3, 6)]),
    ("InstanceNorm1d", (3,), {"affine": True}, [x(3, 6)]),
    ("InstanceNorm2d", (3,), {"affine": True, "track_running_stats": True}, [x(2, 3, 4, 5)]),
    ("InstanceNorm3d", (3,), {}, [x(2, 3, 2, 4, 5)]),
    ("LayerNorm", (5,), {}, [x(4, 5)]),
    ("LayerNorm", ([4, 5],), {"bias": False}, [x(3, 4, 5)]),
    ("LayerNorm", (5,), {"elementwise_affine": False}, [x(4, 5)]),
    ("GroupNorm", (2, 6), {}, [x(3, 6, 4)]),
    ("GroupNorm", (3, 6), {"affine": False}, [x(3, 6)]),
    ("RMSNorm", (5,), {}, [x(4, 5)]),
    ("RMSNorm", ((4, 5),), {"eps": 0.1, "elementwise_affine": False}, [x(2, 4, 5)]),
    ("LocalResponseNorm", (3,), {}, [x(2, 5, 4)]),
    ("LocalResponseNorm", (4, 0.1, 0.5, 2.0), {}, [x(2, 5, 4, 3)]),
    # tables
    ("Embedding", (7, 3), {}, [whole(7, 4, 5)]),
    ("Embedding", (7, 3), {"padding_idx": 2}, [whole(7, 4, 5)]),
    ("Embedding", (7, 3), {"max_norm": 0.8}, [whole(7, 4, 5)]),
    ("Embedding", (7, 3), {"scale_grad_by_freq": True}, [whole(7, 4, 5)]),
    ("EmbeddingBag", (7, 3), {}, [whole(7, 4, 5)]),
    ("EmbeddingBag", (7, 3), {"mode": "sum", "padding_idx": 1}, [whole(7, 4, 5)]),
    ("EmbeddingBag", (7, 3), {"mode": "max"}, [whole(7, 9), np.array([0, 3, 3, 7])]),
    ("EmbeddingBag", (7, 3), {"mode": "mean"}, [whole(7, 9), np.array([0, 3, 3, 7])]),
    ("EmbeddingBag", (7, 3), {"mode": "sum"}, [whole(7, 9), np.array([0, 2]), x(9)]),
    # padding and resampling
    ("ConstantPad1d", (2, 3.5), {}, [x(2, 3, 4)]),
    ("ConstantPad2d", ((1, 0, 2, -1), 3.5), {}, [x(2, 3, 4, 5)]),
    ("ConstantPad3d", (1, 3.5), {}, [x(2, 3, 2, 2, 2)]),
    ("ZeroPad1d", (1,), {}, [x(2, 3, 4)]),
    ("ZeroPad2d", ((1, 2, 3, 0),), {}, [x(2, 3, 4, 5)]),
    ("ZeroPad3d", (1,), {}, [x(2, 3, 2, 2, 2)]),
    ("ReflectionPad1d", (2,), {}, [x(2, 3, 4)]),
    ("ReflectionPad2d", ((1, 0, 2, 1),), {}, [x(2, 3, 4, 5)]),
    ("ReflectionPad3d", (1,), {}, [x(2, 3, 3, 3, 3)]),
    ("ReplicationPad1d", (2,), {}, [x(2, 3, 4)]),
    ("ReplicationPad2d", ((1, 0, 2, 1),), {}, [x(2, 3, 4, 5)]),
    ("ReplicationPad3d", (1,), {}, [x(2, 3, 3, 3, 3)]),
    ("CircularPad1d", (2,), {}, [x(2, 3, 4)]),
    ("CircularPad2d", ((1, 0, 2, 1),), {}, [x(2, 3, 4, 5)]),
    ("CircularPad3d", (1,), {}, [x(2, 3, 3, 3, 3)]),
    ("Upsample", (), {"scale_factor": 2}, [x(2, 3, 4)]),
    ("Upsample", ((5, 7),), {"mode": "bilinear"}, [x(2, 3, 4, 5)]),
    (
        "Upsample",
        (),
        {"scale_factor": (1.5, 2.3), "mode": "bilinear", "align_corners": True},
        [x(2, 3, 4, 5)],
    ),
    ("Upsample", (), {"scale_factor": 1.7, "mode": "linear"}, [x(2, 3, 4)]),
    ("Upsample", (), {"scale_factor": 2, "mode": "trilinear"}, [x(2, 3, 2, 3, 2)]),
    ("Upsample", (), {"scale_factor": 1.5, "mode": "bicubic"}, [x(2, 3, 4, 5)]),
    ("Upsample", (7,), {"mode": "nearest-exact"}, [x(2, 3, 4)]),
    ("Upsample", (3,), {"mode": "area"}, [x(2, 3, 7)]),
    ("UpsamplingNearest2d", (), {"scale_factor": 2}, [x(2, 3, 4, 5)]),
    ("UpsamplingBilinear2d", ((6, 6),), {}, [x(2, 3, 4, 5)]),
    ("PixelShuffle", (2,), {}, [x(2, 8, 3, 4)]),
    ("PixelUnshuffle", (2,), {}, [x(2, 3, 4, 6)]),
    ("ChannelShuffle", (2,), {}, [x(2, 6, 3, 4)]),
    ("Unfold", ((2, 3),), {"dilation": (1, 2), "padding": 1, "stride": 2}, [x(2, 3, 7, 8)]),
    ("Fold", ((4, 5), 2), {"padding": 1}, [x(2, 12, 30)]),
    # losses
    ("L1Loss", (), {}, [x(*A), x(*A)]),
    ("L1Loss", (), {"reduction": "sum"}, [x(*A), x(*A)]),
    ("MSELoss", (), {}, [x(*A), x(*A)]),
    ("MSELoss", (), {"reduction": "none"}, [x(*A), x(*A)]),
    ("SmoothL1Loss", (), {}, [x(*A), x(*A)]),
    ("SmoothL1Loss", (), {"beta": 0.3, "reduction": "none"}, [x(*A), x(*A)]),
    ("SmoothL1Loss", (), {"beta": 0.0}, [x(*A), x(*A)]),
    ("HuberLoss", (), {}, [x(*A), x(*A)]),
    ("HuberLoss", ("sum", 0.3), {}, [x(*A), x(*A)]),
    ("NLLLoss", (), {}, [x(*A), whole(5, 4)]),
    ("NLLLoss", (), {"weight": positive(5), "ignore_index": 1}, [x(4, 5, 3), whole(5, 4, 3)]),
    ("NLLLoss", (), {"reduction": "none", "weight": positive(5)}, [x(4, 5, 2, 3), whole(5, 4, 2, 3)]),
    ("CrossEntropyLoss", (), {}, [x(*A), whole(5, 4)]),
    ("CrossEntropyLoss", (), {"weight": positive(5), "label_smoothing": 0.2}, [x(*A), whole(5, 4)]),
    ("CrossEntropyLoss", (), {"ignore_index": 2, "label_smoothing": 0.2}, [x(4, 5, 3), whole(5, 4, 3)]),
    (
        "CrossEntropyLoss",
        (),
        {"weight": positive(5), "ignore_index": 2, "label_smoothing": 0.2},
        [x(9, 5), whole(5, 9)],
    ),
    ("CrossEntropyLoss", (), {"reduction": "sum", "label_smoothing": 0.1}, [x(5), np.array(3)]),
    ("CrossEntropyLoss", (), {"reduction": "none"}, [x(*A), positive(*A)]),
    (
        "CrossEntropyLoss",
        (),
        {"weight": positive(5), "label_smoothing": 0.2},
        [x(4, 5, 3), positive(4, 5, 3)],
    ),
    ("BCELoss", (), {}, [positive(*A), positive(*A)]),
    ("BCELoss", (), {"weight": positive(5), "reduction": "none"}, [positive(*A), positive(*A)]),
    ("BCEWithLogitsLoss", (), {}, [x(*A), positive(*A)]),
    ("BCEWithLogitsLoss", (), {"weight": positive(5), "pos_weight": positive(5)}, [x(*A), positive(*A)]),
    ("KLDivLoss", (), {"reduction": "batchmean"}, [x(*A), positive(*A)]),
    ("KLDivLoss", (), {"log_target": True, "reduction": "sum"}, [x(*A), x(*A)]),
    ("PoissonNLLLoss", (), {}, [x(*A), positive(*A)]),
    ("PoissonNLLLoss", (), {"log_input": False, "full": True}, [positive(*A), 3 * positive(*A)]),
    ("GaussianNLLLoss", (), {}, [x(*A), x(*A), positive(*A)]),
    ("GaussianNLLLoss", (), {"full": True, "reduction": "none"}, [x(*A), x(*A), positive(4, 1)]),
    ("HingeEmbeddingLoss", (), {"margin": 0.5}, [x(*A), signs(*A)]),
    ("CosineEmbeddingLoss", (), {"margin": 0.2}, [x(*A), x(*A), signs(4)]),
    ("MarginRankingLoss", (), {"margin": 0.2}, [x(4), x(4), signs(4)]),
    ("SoftMarginLoss", (), {}, [x(*A), signs(*A)]),
    ("MultiMarginLoss", (), {}, [x(*A), whole(5, 4)]),
    ("MultiMarginLoss", (2, 0.7), {"weight": positive(5), "reduction": "none"}, [x(*A), whole(5, 4)]),
    ("MultiLabelMarginLoss", (), {}, [x(2, 4), np.array([[3, 0, -1, 1], [1, 2, 3, -1]])]),
    ("MultiLabelSoftMarginLoss", (), {"weight": positive(5)}, [x(*A), positive(*A).round()]),
    ("TripletMarginLoss", (), {}, [x(*A), x(*A), x(*A)]),
    ("TripletMarginLoss", (0.5, 1.0), {"swap": True, "reduction": "none"}, [x(*A), x(*A), x(*A)]),
    ("TripletMarginWithDistanceLoss", (), {"margin": 0.7, "swap": True}, [x(*A), x(*A), x(*A)]),
    # recurrent
    ("RNNCell", (3, 4), {}, [x(5, 3), x(5, 4)]),
    ("RNNCell", (3, 4), {"nonlinearity": "relu", "bias": False}, [x(3)]),
    ("LSTMCell", (3, 4), {}, [x(5, 3), (x(5, 4), x(5, 4))]),
    ("GRUCell", (3, 4), {}, [x(5, 3), x(5, 4)]),
    ("GRUCell", (3, 4), {}, [x(3)]),
    ("RNN", (3, 4), {}, [x(6, 2, 3)]),
    ("RNN", (3, 4, 2), {"nonlinearity": "relu", "bidirectional": True}, [x(6, 2, 3), x(4, 2, 4)]),
    ("LSTM", (3, 4), {}, [x(6, 2, 3), (x(1, 2, 4), x(1, 2, 4))]),
    ("LSTM", (3, 4, 2), {"bidirectional": True, "batch_first": True}, [x(2, 6, 3)]),
    ("LSTM", (3, 4, 2), {"proj_size": 2, "bias": False}, [x(6, 2, 3)]),
    ("LSTM", (3, 4), {}, [x(6, 3)]),
    ("GRU", (3, 4, 2), {"bidirectional": True}, [x(6, 2, 3)]),
    ("GRU", (3, 4), {"batch_first": True}, [x(2, 6, 3), x(1, 2, 4)]),
    # attention
    ("MultiheadAttention", (8, 2), {}, [x(5, 3, 8), x(4, 3, 8), x(4, 3, 8)]),
    (
        "MultiheadAttention",
        (8, 4),
        {"batch_first": True, "kdim": 6, "vdim": 5},
        [x(3, 5, 8), x(3, 4, 6), x(3, 4, 5)],
    ),
    (
        "MultiheadAttention",
        (8, 2),
        {"add_bias_kv": True, "add_zero_attn": True, "bias": True},
        [x(5, 8), x(4, 8), x(4, 8)],
    ),
    ("TransformerEncoderLayer", (8, 2, 16), {"dropout": 0.0}, [x(5, 3, 8)]),
    (
        "TransformerEncoderLayer",
        (8, 2, 16),
        {"dropout": 0.0, "norm_first": True, "batch_first": True, "activation": "gelu"},
        [x(3, 5, 8)],
    ),
    ("TransformerDecoderLayer", (8, 2, 16), {"dropout": 0.0}, [x(5, 3, 8), x(4, 3, 8)]),
    (
        "TransformerDecoderLayer",
        (8, 2, 16),
        {"dropout": 0.0, "norm_first": True, "bias": False},
        [x(5, 3, 8), x(4, 3, 8)],
    ),
    ("Transformer", (8, 2, 1, 2, 16), {"dropout": 0.0}, [x(5, 3, 8), x(4, 3, 8)]),
]  # fmt: skip

# PyTorch rounds a constant of these to float32.
ROUGH = {"Hardsigmoid": 1e-6, "CELU": 1e-6}
# Inputs that PyTorch cannot differentiate by.
CONSTANT = {"SoftMarginLoss": (1,)}


@pytest.mark.parametrize("case", CASES, ids=[f"{c[0]}-{i}" for i, c in enumerate(CASES)])
def test_layer(case):
    name, args, kwargs, inputs = case
    mine, theirs = both(name, *args, **kwargs)
    assert repr(mine) == repr(theirs)
    load(mine, theirs)
    if inputs is None:
        return
    rtol = ROUGH.get(name, 1e-9)
    compare(mine, theirs, inputs, rtol=rtol, constant=CONSTANT.get(name, ()))
    compare(mine.eval(), theirs.eval(), inputs, rtol=rtol, constant=CONSTANT.get(name, ()))


def test_float32_by_default():
    assert tg.nn.Linear(2, 3).weight.dtype is tg.float32
    assert tg.nn.Linear(2, 3, dtype=tg.float64).weight.dtype is tg.float64
    assert torch.nn.Linear(2, 3).weight.dtype is torch.float32


CTC = [
    ({}, [x(12, 3, 6), 1 + whole(5, 3, 4), np.array([12, 10, 9]), np.array([4, 2, 3])]),
    ({"blank": 1, "reduction": "sum"}, [x(9, 2, 6), 2 + whole(4, 5), np.array([9, 8]), np.array([3, 2])]),
    ({"reduction": "none"}, [x(7, 6), np.array([3, 3, 3]), np.array(7), np.array(3)]),
    (
        {"zero_infinity": True},
        [x(4, 2, 6), np.array([[3, 3, 3], [1, 2, 3]]), np.array([4, 4]), np.array([3, 3])],
    ),
    ({}, [x(4, 2, 6), np.array([[3, 3], [1, 2]]), np.array([4, 3]), np.array([0, 2])]),
]


@pytest.mark.parametrize("case", CTC)
def test_ctc(case):
    """By the logits: PyTorch's gradient by log-probabilities is only right behind a log_softmax."""
    options, (logits, targets, *lengths) = case

    def wrapped(lib):
        class Normalised(lib.nn.Module):
            def __init__(self):
                super().__init__()
                self.loss = lib.nn.CTCLoss(**options)

            def forward(self, x, *rest):
                return self.loss(x.log_softmax(-1), *rest)

        return Normalised()

    compare(wrapped(tg), wrapped(torch), [logits, targets, *lengths])
