"""PyTorch's own samples of modules (torch.testing's module_db), run beside PyTorch in float64."""

from __future__ import annotations

import warnings

import pytest

pytest.importorskip("torch")

import torch

import tapegrad as tg

from .oracle import compare, load

module_db = pytest.importorskip("torch.testing._internal.common_modules").module_db

# Modules that are left out, and why.
EXCLUDED = {
    "FractionalMaxPool2d": "not offered",
    "FractionalMaxPool3d": "not offered",
    "LinearCrossEntropyLoss": "not offered",
    "TransformerEncoder": "its samples hold layers of PyTorch; test_attention.py covers it",
    # PyTorch's gradient by log-probabilities is only right behind a log_softmax.
    "CTCLoss": "test_parity.py covers it behind a log_softmax",
    **{i.name: "lazy shapes are not offered" for i in module_db if "Lazy" in i.module_cls.__name__},
}
# Where PyTorch rounds a constant to float32.
ROUGH = {"CELU": 1e-6}


def translated(value):
    """Constructor arguments and inputs of PyTorch in tapegrad's types."""
    if isinstance(value, torch.Tensor):
        made = tg.tensor(value.detach().numpy().copy())
        return made.requires_grad_() if value.requires_grad else made
    if isinstance(value, torch.dtype):
        return getattr(tg, str(value).rpartition(".")[2])
    if isinstance(value, (list, tuple)):
        return type(value)(translated(v) for v in value)
    if isinstance(value, dict):
        return {k: translated(v) for k, v in value.items()}
    if callable(value) and hasattr(torch.nn.functional, getattr(value, "__name__", "")):
        return getattr(tg.nn.functional, value.__name__)
    return value


def leaf(value):
    """Inputs of PyTorch as fresh leaves."""
    if isinstance(value, torch.Tensor):
        return value.detach().clone().requires_grad_(value.requires_grad)
    if isinstance(value, (list, tuple)):
        return type(value)(leaf(v) for v in value)
    if isinstance(value, dict):
        return {k: leaf(v) for k, v in value.items()}
    return value


@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
@pytest.mark.parametrize("info", module_db, ids=lambda i: i.module_cls.__name__)
def test_samples(info, training):
    name = info.module_cls.__name__
    if name in EXCLUDED or "Lazy" in name:
        pytest.skip(EXCLUDED.get(name, "lazy shapes are not offered"))
    torch.manual_seed(0)
    samples = info.module_inputs_func(
        info, device="cpu", dtype=torch.float64, requires_grad=True, training=training
    )
    seen = 0
    for sample in samples:
        args, kwargs = sample.constructor_input.args, dict(sample.constructor_input.kwargs)
        given = sample.forward_input
        if given is None:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            theirs = info.module_cls(*args, **kwargs).double().train(training)
            mine = getattr(tg.nn, name)(*translated(args), **translated(kwargs)).double().train(training)
            assert repr(mine) == repr(theirs).replace("torch.", "tapegrad.")
            load(mine, theirs)
            compare(
                mine,
                theirs,
                (translated(given.args), leaf(given.args)),
                (translated(given.kwargs), leaf(given.kwargs)),
                rtol=ROUGH.get(name, 1e-9),
                prepared=True,
            )
        seen += 1
    assert seen
