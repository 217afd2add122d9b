"""Random configurations of layers in float64 beside PyTorch: the same results, gradients and state, or the same error."""

from __future__ import annotations

import warnings

import pytest

torch = pytest.importorskip("torch")

import tapegrad as tg  # noqa: E402

from .configurations import configuration  # noqa: E402
from .oracle import compare, load, to_tapegrad, to_torch, tracked  # noqa: E402

LIBS = ((tg, to_tapegrad), (torch, to_torch))


def attempt(make):
    try:
        return make()
    except Exception as err:
        return err


def same_error(mine, theirs):
    """Whether both failed; with errors of one class, or a subclass of PyTorch's."""
    failed = [isinstance(x, Exception) for x in (mine, theirs)]
    if not any(failed):
        return False
    assert all(failed), (mine, theirs)
    assert isinstance(mine, type(theirs)), (mine, theirs)
    return True


def check(seed):
    c = configuration(seed)
    torch.manual_seed(seed)
    mine, theirs = (
        attempt(lambda: getattr(lib.nn, c.name)(*to(c.args), **to(c.options)).double().train(bool(seed % 3)))  # noqa: B023
        for lib, to in LIBS
    )
    if same_error(mine, theirs):
        return
    assert repr(mine) == repr(theirs)
    load(mine, theirs)
    outputs = (
        attempt(lambda: module(*tracked(to(c.inputs), c.constant), **to(c.call)))  # noqa: B023
        for module, (_, to) in zip((mine, theirs), LIBS, strict=True)
    )
    if same_error(*outputs):
        return
    load(mine, theirs)
    compare(mine, theirs, c.inputs, c.call, rtol=1e-7, constant=c.constant)


def run(seeds):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in seeds:
            try:
                check(seed)
            except AssertionError as err:
                raise AssertionError(f"seed {seed}: {configuration(seed)}\n{err}") from err


@pytest.mark.parametrize("part", range(5))
def test_some(part):
    run(range(20 * part, 20 * part + 20))


@pytest.mark.slow
@pytest.mark.parametrize("part", range(20))
def test_many(part):
    run(range(1000 + 150 * part, 1000 + 150 * part + 150))
