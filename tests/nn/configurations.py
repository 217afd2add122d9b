"""Random configurations of layers: constructor arguments and inputs that fit, now and then ones that do not."""

from __future__ import annotations

import random
from typing import Any, NamedTuple

import numpy as np


class Configuration(NamedTuple):
    name: str
    args: tuple[Any, ...]
    options: dict[str, Any]
    inputs: list[Any]
    call: dict[str, Any] = {}  # noqa: RUF012  # never written to
    constant: tuple[int, ...] = ()  # positions of inputs that do not require grad


class Draw(random.Random):
    """Random choices that configurations are made of."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.rng = np.random.default_rng(seed)

    def one(self, *choices: Any) -> Any:
        return self.choice(choices)

    def yes(self, share: float = 0.5) -> bool:
        return self.random() < share

    def per_dim(self, n: int, low: int, high: int) -> Any:
        """A number, or one for each dimension."""
        if self.yes():
            return self.randint(low, high)
        return tuple(self.randint(low, high) for _ in range(n))

    def sizes(self, n: int, low: int = 1, high: int = 4) -> list[int]:
        return [self.randint(low, high) for _ in range(n)]

    def x(self, *shape: int) -> np.ndarray:
        return self.rng.normal(size=shape)

    def image(self, channels: int, n: int, high: int = 8) -> np.ndarray:
        """(N, C, ...) or (C, ...)."""
        batch = [self.randint(1, 3)] if self.yes(0.8) else []
        return self.x(*batch, channels, *self.sizes(n, 1, high))


def convolution(r: Draw) -> Configuration:
    n, groups = r.randint(1, 3), r.one(1, 1, 2, 3)
    inside, outside = groups * r.randint(1, 3), groups * r.randint(1, 3)
    options = {
        "stride": r.per_dim(n, 1, 3),
        "padding": r.one(r.per_dim(n, 0, 3), "same", "valid"),
        "dilation": r.per_dim(n, 1, 2),
        "groups": groups,
        "bias": r.yes(),
        "padding_mode": r.one("zeros", "zeros", "reflect", "replicate", "circular"),
    }
    return Configuration(f"Conv{n}d", (inside, outside, r.per_dim(n, 1, 4)), options, [r.image(inside, n, 9)])


def transposed(r: Draw) -> Configuration:
    n, groups = r.randint(1, 3), r.one(1, 1, 2)
    inside, outside = groups * r.randint(1, 3), groups * r.randint(1, 3)
    options = {
        "stride": r.per_dim(n, 1, 3),
        "padding": r.per_dim(n, 0, 2),
        "output_padding": r.per_dim(n, 0, 2),
        "dilation": r.per_dim(n, 1, 2),
        "groups": groups,
        "bias": r.yes(),
    }
    name = f"ConvTranspose{n}d"
    return Configuration(name, (inside, outside, r.per_dim(n, 1, 4)), options, [r.image(inside, n, 6)])


def pooling(r: Draw) -> Configuration:
    n = r.randint(1, 3)
    options = {"stride": r.one(None, r.per_dim(n, 1, 3)), "ceil_mode": r.yes(), "padding": r.per_dim(n, 0, 2)}
    x = r.image(r.randint(1, 3), n)
    if r.yes():
        options |= {"dilation": r.per_dim(n, 1, 2), "return_indices": r.yes()}
        if options["dilation"] != 1:
            # Of windows that meet padding alone, PyTorch's gradient goes to other planes.
            options["padding"] = 0
        return Configuration(f"MaxPool{n}d", (r.per_dim(n, 1, 4),), options, [x])
    options["count_include_pad"] = r.yes()
    if n > 1:
        options["divisor_override"] = r.one(None, 3)
    return Configuration(f"AvgPool{n}d", (r.per_dim(n, 1, 4),), options, [x])


def adaptive(r: Draw) -> Configuration:
    n = r.randint(1, 3)
    size = r.one(r.randint(1, 9), tuple(r.one(r.randint(1, 9), None) for _ in range(n)))
    x = r.image(r.randint(1, 3), n)
    if r.yes():
        return Configuration(f"AdaptiveMaxPool{n}d", (size,), {"return_indices": r.yes()}, [x])
    return Configuration(f"AdaptiveAvgPool{n}d", (size,), {}, [x])


def running_norm(r: Draw) -> Configuration:
    kind, n, channels = r.one("BatchNorm", "InstanceNorm"), r.randint(1, 3), r.randint(1, 4)
    shape = [r.randint(1, 4), channels, *r.sizes(n)]
    if kind == "BatchNorm" and n == 1 and r.yes(0.3):
        shape = shape[:2]
    if kind == "InstanceNorm" and r.yes(0.3):
        shape = shape[1:]
    options = {
        "eps": r.one(1e-5, 0.1),
        "momentum": r.one(0.1, 0.5, None) if kind == "BatchNorm" else r.one(0.1, 0.5),
        "affine": r.yes(),
        "track_running_stats": r.yes(),
    }
    return Configuration(f"{kind}{n}d", (channels,), options, [r.x(*shape)])


def sample_norm(r: Draw) -> Configuration:
    kind = r.one("LayerNorm", "RMSNorm", "GroupNorm", "LocalResponseNorm")
    if kind in ("LayerNorm", "RMSNorm"):
        sizes = r.sizes(r.randint(1, 3))
        options: dict[str, Any] = {"elementwise_affine": r.yes()}
        options |= {"bias": r.yes(), "eps": 0.1} if kind == "LayerNorm" else {"eps": r.one(None, 0.1)}
        return Configuration(kind, (sizes,), options, [r.x(*r.sizes(r.randint(0, 3)), *sizes)])
    if kind == "GroupNorm":
        groups = r.randint(1, 3)
        channels = groups * r.randint(1, 3)
        x = r.x(r.randint(1, 3), channels, *r.sizes(r.randint(0, 3)))
        return Configuration(kind, (groups, channels), {"affine": r.yes()}, [x])
    options = {"alpha": r.one(0.1, 1e-4), "beta": r.one(0.75, 0.5), "k": r.one(1.0, 2.0)}
    return Configuration(
        kind, (r.randint(1, 5),), options, [r.x(2, r.randint(1, 6), *r.sizes(r.randint(1, 3)))]
    )


def recurrent(r: Draw) -> Configuration:
    kind, inside, hidden, layers = (
        r.one("RNN", "LSTM", "GRU"),
        r.randint(1, 4),
        r.randint(2, 4),
        r.randint(1, 3),
    )
    options = {
        "num_layers": layers,
        "bias": r.yes(),
        "batch_first": r.yes(),
        "bidirectional": r.yes(),
    }
    if kind == "LSTM" and r.yes(0.4):
        options["proj_size"] = r.randint(1, hidden - 1)
    if kind == "RNN":
        options["nonlinearity"] = r.one("tanh", "relu")
    steps, batch = r.randint(1, 5), r.randint(1, 3)
    many = [] if r.yes(0.2) else [batch]
    shape = [*many, steps, inside] if options["batch_first"] else [steps, *many, inside]
    inputs: list[Any] = [r.x(*shape)]
    if r.yes():
        rows = layers * (2 if options["bidirectional"] else 1)
        state = r.x(rows, *many, options.get("proj_size", 0) or hidden)
        inputs.append((state, r.x(rows, *many, hidden)) if kind == "LSTM" else state)
    return Configuration(kind, (inside, hidden), options, inputs)


def cell(r: Draw) -> Configuration:
    kind, inside, hidden = r.one("RNNCell", "LSTMCell", "GRUCell"), r.randint(1, 4), r.randint(1, 4)
    many = [] if r.yes(0.3) else [r.randint(1, 3)]
    inputs: list[Any] = [r.x(*many, inside)]
    if r.yes():
        state = r.x(*many, hidden)
        inputs.append((state, r.x(*many, hidden)) if kind == "LSTMCell" else state)
    return Configuration(kind, (inside, hidden), {"bias": r.yes()}, inputs)


def attention(r: Draw) -> Configuration:
    heads = r.randint(1, 3)
    width, batch, queries, keys = heads * r.randint(1, 3), r.randint(1, 3), r.randint(1, 4), r.randint(1, 4)
    kdim, vdim = r.one((None, None), (r.randint(1, 5), r.randint(1, 5)))
    first, single = r.yes(), r.yes(0.2)

    def sequence(length: int, features: int) -> np.ndarray:
        shape = (length,) if single else ((batch, length) if first else (length, batch))
        return r.x(*shape, features)

    options = {
        "bias": r.yes(),
        "add_bias_kv": r.yes(),
        "add_zero_attn": r.yes(),
        "batch_first": first,
        "kdim": kdim,
        "vdim": vdim,
    }
    call: dict[str, Any] = {"need_weights": r.yes(), "average_attn_weights": r.yes()}
    if r.yes(0.4):
        mask = r.rng.random((keys,) if single else (batch, keys)) < 0.3
        mask[..., 0] = False
        call["key_padding_mask"] = mask
    if r.yes(0.4):
        mask = r.rng.random((queries, keys)) < 0.3
        mask[:, 0] = False
        call["attn_mask"] = r.one(
            mask, r.x(queries, keys), *([] if single else [r.x(batch * heads, queries, keys)])
        )
    inputs = [sequence(queries, width), sequence(keys, kdim or width), sequence(keys, vdim or width)]
    return Configuration("MultiheadAttention", (width, heads), options, inputs, call)


def transformer(r: Draw) -> Configuration:
    heads = r.randint(1, 2)
    width, batch, length = heads * r.randint(1, 3), r.randint(1, 3), r.randint(1, 4)
    options = {
        "dim_feedforward": r.randint(1, 6),
        "dropout": 0.0,
        "activation": r.one("relu", "gelu"),
        "batch_first": r.yes(),
        "norm_first": r.yes(),
        "bias": r.yes(),
    }

    def sequence(length: int) -> np.ndarray:
        return r.x(*((batch, length) if options["batch_first"] else (length, batch)), width)

    ahead = np.triu(np.ones((length, length), bool), 1)
    if r.yes():
        call = r.one({}, {"src_mask": ahead})
        return Configuration("TransformerEncoderLayer", (width, heads), options, [sequence(length)], call)
    inputs = [sequence(length), sequence(r.randint(1, 4))]
    call = r.one({}, {"tgt_mask": ahead})
    return Configuration("TransformerDecoderLayer", (width, heads), options, inputs, call)


def table(r: Draw) -> Configuration:
    rows = r.randint(1, 6)
    shared = {"padding_idx": r.one(None, 0), "max_norm": r.one(None, 0.7)}
    if r.yes(0.4):
        options = {**shared, "norm_type": r.one(2.0, 1.0), "scale_grad_by_freq": r.yes()}
        index = r.rng.integers(0, rows, size=r.sizes(r.randint(0, 3)))
        return Configuration("Embedding", (rows, r.randint(1, 4)), options, [index])
    mode = r.one("sum", "mean", "max")
    if r.yes(0.4):
        index = r.rng.integers(0, rows, size=r.sizes(2))
        return Configuration("EmbeddingBag", (rows, 3), {**shared, "mode": mode}, [index])
    n, last = r.randint(1, 8), r.yes()
    starts = np.sort(
        np.concatenate([[0], r.rng.integers(0, n + 1, size=r.randint(0, 3)), [n] if last else []])
    )
    inputs = [r.rng.integers(0, rows, size=n), starts.astype(np.int64)]
    if mode == "sum" and r.yes():
        inputs.append(r.x(n))
    return Configuration(
        "EmbeddingBag", (rows, 3), {**shared, "mode": mode, "include_last_offset": last}, inputs
    )


def padding(r: Draw) -> Configuration:
    n, kind = r.randint(1, 3), r.one("Constant", "Reflection", "Replication", "Circular", "Zero")
    width = r.per_dim(2 * n, -1 if kind in ("Constant", "Zero") else 0, 3)
    args = (width, 1.5) if kind == "Constant" else (width,)
    return Configuration(f"{kind}Pad{n}d", args, {}, [r.image(r.randint(1, 2), n, 6)])


def upsampling(r: Draw) -> Configuration:
    n = r.randint(1, 3)
    smooth = {1: "linear", 2: r.one("bilinear", "bicubic"), 3: "trilinear"}[n]
    mode = r.one("nearest", "nearest-exact", smooth)
    options: dict[str, Any] = {"mode": mode}
    if mode == smooth:
        options["align_corners"] = r.one(True, False, None)
    if r.yes():
        options["size"] = r.per_dim(n, 1, 9)
    else:
        options["scale_factor"] = r.one(2, 1.5, 0.6)
        options["recompute_scale_factor"] = r.one(None, True, False)
    return Configuration("Upsample", (), options, [r.x(r.randint(1, 2), 2, *r.sizes(n, 1, 6))])


def unfolding(r: Draw) -> Configuration:
    options = {"dilation": r.per_dim(2, 1, 2), "padding": r.per_dim(2, 0, 2), "stride": r.per_dim(2, 1, 3)}
    return Configuration(
        "Unfold", (r.per_dim(2, 1, 3),), options, [r.x(2, r.randint(1, 3), *r.sizes(2, 3, 7))]
    )


def class_loss(r: Draw) -> Configuration:
    kind, classes = (
        r.one("CrossEntropyLoss", "NLLLoss", "MultiMarginLoss", "MultiLabelMarginLoss"),
        r.randint(1, 5),
    )
    batch, more = r.randint(1, 4), r.sizes(r.randint(0, 2), 1, 3)
    options: dict[str, Any] = {"reduction": r.one("mean", "sum", "none")}
    if kind == "MultiLabelMarginLoss":
        target = np.full((batch, classes), -1)
        for row in target:
            some = r.randint(0, classes)
            row[:some] = r.rng.permutation(classes)[:some]
        return Configuration(kind, (), options, [r.x(batch, classes), target])
    if r.yes():
        options["weight"] = r.rng.random(classes)
    if kind == "MultiMarginLoss":
        options |= {"p": r.one(1, 2), "margin": r.one(1.0, 0.3)}
        return Configuration(kind, (), options, [r.x(batch, classes), r.rng.integers(0, classes, size=batch)])
    target = r.rng.integers(0, classes, size=[batch, *more])
    options["ignore_index"] = r.one(-100, 0, 1)
    if kind == "CrossEntropyLoss":
        options["label_smoothing"] = r.one(0.0, 0.2)
        if r.yes(0.3):
            target, options["ignore_index"] = r.rng.random((batch, classes, *more)), -100
    return Configuration(kind, (), options, [r.x(batch, classes, *more), target], {}, (1,))


def pair_loss(r: Draw) -> Configuration:
    reduction, shape = r.one("mean", "sum", "none"), r.sizes(r.randint(1, 3))
    x, y, unit = r.x(*shape), r.x(*shape), r.rng.random(shape)
    signs = r.rng.choice([-1.0, 1.0], size=shape)
    weight = {"weight": r.rng.random(shape[-1])} if r.yes() else {}
    name, options, inputs, constant = r.one(
        ("MSELoss", {}, [x, y], ()),
        ("L1Loss", {}, [x, y], ()),
        ("HuberLoss", {"delta": r.one(1.0, 0.3)}, [x, y], ()),
        ("SmoothL1Loss", {"beta": r.one(1.0, 0.3, 0.0)}, [x, y], ()),
        ("BCELoss", weight, [unit * 0.9 + 0.05, r.rng.random(shape)], ()),
        ("BCEWithLogitsLoss", weight | ({"pos_weight": unit} if r.yes() else {}), [x, unit], ()),
        ("KLDivLoss", {"log_target": r.yes()}, [x, unit], ()),
        ("GaussianNLLLoss", {"full": r.yes()}, [x, y, unit + 0.1], ()),
        ("PoissonNLLLoss", {"log_input": r.yes(), "full": r.yes()}, [np.abs(x) + 0.1, unit * 5], (1,)),
        ("SoftMarginLoss", {}, [x, signs], (1,)),
        ("HingeEmbeddingLoss", {"margin": r.one(1.0, 0.4)}, [x, signs], (1,)),
        ("MarginRankingLoss", {"margin": r.one(0.0, 0.4)}, [x, y, signs], (2,)),
    )
    return Configuration(name, (), {**options, "reduction": reduction}, inputs, {}, constant)


def activation(r: Draw) -> Configuration:
    shape = r.sizes(r.randint(0, 4))
    name, args = r.one(
        *(
            (name, ())
            for name in ("ReLU", "ReLU6", "SELU", "SiLU", "Mish", "Hardswish", "Hardsigmoid", "Sigmoid")
        ),
        *(
            (name, ())
            for name in ("Tanh", "LogSigmoid", "Softsign", "Tanhshrink", "ELU", "LeakyReLU", "PReLU")
        ),
        ("Hardtanh", (-0.4, 0.6)),
        ("GELU", (r.one("none", "tanh"),)),
        ("Softplus", (2.0, 1.0)),
        ("Hardshrink", (0.3,)),
        ("Softshrink", (0.3,)),
        ("Threshold", (0.2, 0.5)),
        ("Softmax", (r.one(-1, 0),)),
        ("LogSoftmax", (r.one(-1, 0),)),
        ("GLU", (-1,)),
    )
    if name == "GLU":
        shape = [*shape, 2 * r.randint(1, 3)]
    return Configuration(name, args, {}, [r.x(*shape)])


def other(r: Draw) -> Configuration:
    lead, groups = r.sizes(r.randint(0, 3), 1, 3), r.randint(1, 3)
    return r.one(
        Configuration("Bilinear", (3, 4, 2), {"bias": r.yes()}, [r.x(*lead, 3), r.x(*lead, 4)]),
        Configuration("Linear", (r.one(4, 4, 3), r.randint(1, 4)), {"bias": r.yes()}, [r.x(*lead, 4)]),
        Configuration("PixelShuffle", (groups,), {}, [r.x(*lead, 2 * groups**2, *r.sizes(2))]),
        Configuration("PixelUnshuffle", (groups,), {}, [r.x(*lead, 2, groups * 2, groups)]),
        Configuration("CosineSimilarity", (r.one(0, 1, -1), r.one(1e-8, 0.1)), {}, [r.x(3, 4), r.x(3, 4)]),
        Configuration(
            "PairwiseDistance", (r.one(1.0, 2.0, 3.0),), {"keepdim": r.yes()}, [r.x(3, 4), r.x(1, 4)]
        ),
        Configuration("Flatten", (r.randint(-3, 3), r.randint(-3, 3)), {}, [r.x(2, 3, 4)]),
        Configuration("ChannelShuffle", (groups,), {}, [r.x(2, 2 * groups, *r.sizes(r.randint(1, 3)))]),
    )


FAMILIES = (
    *(convolution, transposed, pooling, adaptive, running_norm, sample_norm, recurrent, cell, attention),
    *(transformer, table, padding, upsampling, unfolding, class_loss, pair_loss, activation, other),
)


def configuration(seed: int) -> Configuration:
    r = Draw(seed)
    return r.one(*FAMILIES)(r)
