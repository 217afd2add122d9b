"""Names, argument names, their order and defaults of modules, functions and optimizers are PyTorch's."""

from __future__ import annotations

import inspect

import pytest

import tapegrad as tg

torch = pytest.importorskip("torch")

# Absent on purpose: several processes or devices, or helpers of PyTorch's own dispatch.
ABSENT_MODULES = {"Container"}
# Declared as (*args, **kwargs) there.
OPEN = {"RNN", "LSTM", "GRU", "SyncBatchNorm", "RNNBase"}
ABSENT_FUNCTIONS = {
    "Optional",
    "assert_int_or_pair",
    "boolean_dispatch",
    "grouped_mm",
    "handle_torch_function",
    "has_torch_function",
    "has_torch_function_unary",
    "has_torch_function_variadic",
    "scaled_grouped_mm",
    "scaled_mm",
}


def shown(default):
    if default is inspect.Parameter.empty:
        return "required"
    name = getattr(default, "__name__", None)
    return (
        name.removeprefix("functional_")
        if name
        else (f"{default:.12g}" if isinstance(default, float) else repr(default))
    )


def parameters(fn):
    found = [p for p in inspect.signature(fn).parameters.values() if p.name != "self"]
    return [
        (p.name, "*" if p.kind is p.VAR_POSITIONAL else "**" if p.kind is p.VAR_KEYWORD else shown(p.default))
        for p in found
    ]


def numbers_agree(mine, theirs):
    """0 and 0.0, 1 and 1.0 are the same default."""
    if mine == theirs:
        return True
    try:
        return float(mine) == float(theirs)
    except ValueError:
        return False


def assert_like(mine, theirs, what):
    assert [n for n, _ in mine] == [n for n, _ in theirs], what
    for (name, a), (_, b) in zip(mine, theirs, strict=True):
        assert numbers_agree(a, b), f"{what}: default of {name} is {a}, there {b}"


MODULES = sorted(
    n
    for n in dir(torch.nn)
    if isinstance(getattr(torch.nn, n), type) and issubclass(getattr(torch.nn, n), torch.nn.Module)
)


@pytest.mark.parametrize("name", [n for n in MODULES if n not in ABSENT_MODULES])
def test_modules(name):
    mine, theirs = getattr(tg.nn, name), getattr(torch.nn, name)
    if name in OPEN or name == "Module":
        return
    assert_like(parameters(mine.__init__), parameters(theirs.__init__), name)
    if name in ("ParameterList", "ParameterDict", "ModuleList", "ModuleDict"):
        return
    got, wanted = ([p.name for p in inspect.signature(c.forward).parameters.values()] for c in (mine, theirs))
    assert got == wanted, f"{name}.forward"


FUNCTIONS = sorted(
    n
    for n in dir(torch.nn.functional)
    if not n.startswith("_")
    and callable(getattr(torch.nn.functional, n))
    and not isinstance(getattr(torch.nn.functional, n), type)
)


@pytest.mark.parametrize("name", [n for n in FUNCTIONS if n not in ABSENT_FUNCTIONS])
def test_functions(name):
    mine, theirs = getattr(tg.nn.functional, name), getattr(torch.nn.functional, name)
    try:
        wanted = parameters(theirs)
    except ValueError:  # written in C++
        return
    if [n for n, _ in wanted] == ["args", "kwargs"] or name.endswith("_with_indices"):
        return
    # An ``out`` that functions of tapegrad itself also take is welcome.
    assert_like([p for p in parameters(mine) if p[0] != "out" or p in wanted], wanted, name)


@pytest.mark.parametrize(
    "name",
    [
        "SGD",
        "Adam",
        "AdamW",
        "NAdam",
        "RAdam",
        "Adamax",
        "Adagrad",
        "Adadelta",
        "RMSprop",
        "Rprop",
        "ASGD",
        "LBFGS",
    ],
)
def test_optimizers(name):
    mine, theirs = (parameters(getattr(lib.optim, name).__init__) for lib in (tg, torch))
    assert_like(mine, theirs, name)


@pytest.mark.parametrize("name", [n for n in dir(torch.nn.init) if n.endswith("_") and not n.startswith("_")])
def test_initialisers(name):
    mine, theirs = (parameters(getattr(lib.nn.init, name)) for lib in (tg, torch))
    assert_like(mine, theirs, name)


def test_module_methods():
    for name in dir(torch.nn.Module):
        if name.startswith("_") or name in ("ipu", "xpu", "mtia", "bfloat16", "compile", "to_empty"):
            continue
        if name in (
            "T_destination",
            "dump_patches",
            "call_super_init",
            "state_dict",
            "to",
            "load_state_dict",
        ):
            continue
        mine, theirs = (getattr(lib.nn.Module, name) for lib in (tg, torch))
        if callable(theirs):
            assert [n for n, _ in parameters(mine)] == [n for n, _ in parameters(theirs)], name
