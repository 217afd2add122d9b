"""PyTorch's own samples of modules (torch.testing's module_db), run beside PyTorch in float64.

Each sample: printed form, names of the state, outputs, gradients of inputs and parameters, buffers afterwards, and a pickled
copy. By default the first samples of each module, with ``-m slow`` all of them.
"""

from __future__ import annotations

import pickle
import warnings

import pytest

torch = pytest.importorskip("torch")

import tapegrad as tg  # noqa: E402

from .oracle import compare, load  # noqa: E402

common = pytest.importorskip(
    "torch.testing._internal.common_modules", reason="PyTorch's samples need the package expecttest"
)

FEW = 3
# Samples that are left out, by module and an option that is given, and why.
EXCLUDED = {
    ("LinearCrossEntropyLoss", "options"): "computing the loss in chunks of the batch is not offered",
}
# Errors of PyTorch that tapegrad does not make, and why.
ALLOWED: dict[str, str] = {}
# Where PyTorch rounds a constant to float32.
ROUGH = {"CELU": 1e-6}


def translated(value):
    """Constructor arguments and inputs of PyTorch in tapegrad's types."""
    if isinstance(value, torch.Tensor):
        made = tg.tensor(value.detach().numpy().copy())
        return made.requires_grad_() if value.requires_grad else made
    if isinstance(value, torch.dtype):
        return getattr(tg, str(value).rpartition(".")[2])
    if isinstance(value, torch.nn.TransformerEncoderLayer):
        return encoder_layer(value)
    if isinstance(value, (list, tuple)):
        return type(value)(translated(v) for v in value)
    if isinstance(value, dict):
        return {k: translated(v) for k, v in value.items()}
    if callable(value) and hasattr(torch.nn.functional, getattr(value, "__name__", "")):
        return getattr(tg.nn.functional, value.__name__)
    return value


def encoder_layer(layer):
    attention = layer.self_attn
    return tg.nn.TransformerEncoderLayer(
        attention.embed_dim,
        attention.num_heads,
        layer.linear1.out_features,
        layer.dropout.p,
        translated(layer.activation),
        batch_first=attention.batch_first,
        norm_first=layer.norm_first,
        bias=layer.linear1.bias is not None,
        dtype=translated(layer.linear1.weight.dtype),
    )


def leaf(value):
    """Inputs of PyTorch as fresh leaves."""
    if isinstance(value, torch.Tensor):
        return value.detach().clone().requires_grad_(value.requires_grad)
    if isinstance(value, (list, tuple)):
        return type(value)(leaf(v) for v in value)
    if isinstance(value, dict):
        return {k: leaf(v) for k, v in value.items()}
    return value


class Behind:
    """PyTorch's gradient of the CTC loss is only right behind a log_softmax."""

    def __init__(self, module):
        self.module = module

    def __call__(self, likely, *args, **kwargs):
        return self.module(likely.log_softmax(2), *args, **kwargs)

    def __getattr__(self, name):
        return getattr(self.module, name)


def check(info, sample):
    name = info.module_cls.__name__
    args, kwargs = sample.constructor_input.args, dict(sample.constructor_input.kwargs)
    given = sample.forward_input
    theirs = info.module_cls(*args, **kwargs)
    mine = getattr(tg.nn, name)(*translated(args), **translated(kwargs))
    for module in (mine, theirs):
        module.double().train(check.training)
    assert repr(mine) == repr(theirs).replace("torch.", "tapegrad.")
    if info.is_lazy:
        assert list(mine.state_dict()) == list(theirs.state_dict())
        mine(*translated(given.args), **translated(given.kwargs))
        theirs(*leaf(given.args), **leaf(given.kwargs))
        assert repr(mine) == repr(theirs)
    load(mine, theirs)
    assert [(n, p.requires_grad, tuple(p.shape)) for n, p in mine.named_parameters()] == [
        (n, p.requires_grad, tuple(p.shape)) for n, p in theirs.named_parameters()
    ]
    twin = pickle.loads(pickle.dumps(mine))
    assert repr(twin) == repr(mine)
    assert all(
        (a == b).all() for a, b in zip(twin.state_dict().values(), mine.state_dict().values(), strict=True)
    )
    if name == "CTCLoss":
        mine, theirs = Behind(mine), Behind(theirs)
    compare(
        mine,
        theirs,
        (translated(given.args), leaf(given.args)),
        (translated(given.kwargs), leaf(given.kwargs)),
        rtol=ROUGH.get(name, 1e-9),
        prepared=True,
    )


def samples_of(info, training):
    torch.manual_seed(0)
    made = info.module_inputs_func(
        info, device="cpu", dtype=torch.float64, requires_grad=True, training=training
    )
    for sample in made:
        options = {k for k, v in sample.constructor_input.kwargs.items() if v is not None}
        if sample.forward_input is not None and not any(
            info.module_cls.__name__ == name and option in options for name, option in EXCLUDED
        ):
            yield sample


ids = {"ids": lambda i: i.module_cls.__name__}


@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
@pytest.mark.parametrize("many", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["few", "all"])
@pytest.mark.parametrize("info", common.module_db, **ids)
def test_samples(info, many, training):
    check.training = training
    samples = list(samples_of(info, training))
    assert samples
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for sample in samples if many else samples[:FEW]:
            check(info, sample)


WITH_ERRORS = [i for i in common.module_db if i.module_error_inputs_func is not None]


@pytest.mark.parametrize("info", WITH_ERRORS, **ids)
def test_errors(info):
    name = info.module_cls.__name__
    made = info.module_error_inputs_func(
        info, device="cpu", dtype=torch.float32, requires_grad=False, training=False
    )
    seen = 0
    for wrong in made:
        if (f"{name}: {wrong.error_regex}") in ALLOWED:
            continue
        build = wrong.module_error_input.constructor_input
        make = lambda: getattr(tg.nn, name)(*translated(build.args), **translated(build.kwargs))  # noqa: B023, E731
        if wrong.error_on is common.ModuleErrorEnum.CONSTRUCTION_ERROR:
            with pytest.raises(wrong.error_type):
                make()
        else:
            module, given = make(), wrong.module_error_input.forward_input
            with pytest.raises(wrong.error_type):
                module(*translated(given.args), **translated(given.kwargs))
        seen += 1
    assert seen


def test_the_list_of_exclusions_is_not_out_of_date():
    known = {i.module_cls.__name__ for i in common.module_db}
    assert {name for name, _ in EXCLUDED} <= known
    assert set(ROUGH) <= known
