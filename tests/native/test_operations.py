"""Every operation of PyTorch's table, compiled: replays give what eager runs give, with other data each time.

By default one sample of every third operation; all of all, also without gradients, with ``-m slow``.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="PyTorch has the table of operations")
pytest.importorskip("expecttest", reason="torch.testing needs it to give its samples")

import tapegrad as tg
from tapegrad.kernels.recording import RecordingError
from tapegrad.tape import Value

from ..opinfo.samples import (
    TABLE,
    TIERS,
    Sample,
    Unsupported,
    differentiable,
    dtypes_of,
    function,
    rebound,
    samples,
)

# What no recorded step can do, and why.
_SHAPE = "the shape of the result depends on values"
_VALUE = "a value is handed to Python"
REFUSED = {
    "__getitem__": "with a mask: how many elements it picks is a value",
    "allclose": _VALUE,
    "bincount": _SHAPE,
    "equal": _VALUE,
    "histc": "the limits are read off the values",
    "index_fill": "the value may be a tensor, whose number is handed to Python",
    "index_put": "with a mask: how many elements it picks is a value",
    "item": _VALUE,
    "linalg.lstsq": "the rank is read off the values",
    "masked_scatter": "how many elements a mask picks is a value",
    "masked_select": _SHAPE,
    "narrow": "the start may be a tensor",
    "nn.functional.one_hot": "without num_classes they are read off the values",
    "nn.functional.embedding_bag": "where bags begin is read off the offsets",
    "nonzero": _SHAPE,
    "repeat_interleave": _SHAPE,
    "tensor_split": "the places may be a tensor",
    "unique": _SHAPE,
}
# What a recorded step calls Python for; everything else is made of kernels alone.
CALLS_PYTHON = {
    "cholesky_solve",
    "cross",
    "half",
    "isin",
    "kthvalue",
    "logdet",
    "matrix_exp",
    "median",
    "nn.functional.ctc_loss",
    "quantile",
    "scatter_reduce.mean",
}
NOT_DEFINED = {"empty", "empty_like"}  # the memory is not initialised: there is nothing to compare
NAMES = [name for tier in TIERS.values() for name in tier if name not in NOT_DEFINED]
RUNS = 3


def found_in(x: Any, found: list[Value]) -> list[Value]:
    """The tensors in arguments, each once."""
    if isinstance(x, Value):
        if not any(x is f for f in found):
            found.append(x)
    elif isinstance(x, (list, tuple)):
        for item in x:
            found_in(item, found)
    elif isinstance(x, dict):
        found_in(list(x.values()), found)
    return found


def flat(x: Any) -> list[Any]:
    return [y for item in x for y in flat(item)] if isinstance(x, (tuple, list)) else [x]


def changed(name: str, tensors: list[Value], random: np.random.Generator) -> None:
    """Other numbers in the memory of tensors: still in the domain of the operation, and whole ones in range."""
    for t in tensors:
        if name == "searchsorted":  # numbers that are sorted, perhaps by way of indices
            if t._array.dtype.kind == "f":
                t._array[...] *= 0.9
            continue
        array = t._array
        if not array.size or any(s == 0 and n > 1 for s, n in zip(array.strides, array.shape, strict=True)):
            continue
        if array.dtype.kind == "f":
            array[...] = array * random.uniform(0.8, 0.99, array.shape)
        elif array.ndim:
            array[...] = np.roll(array, 1, axis=-1)


def poisoned(compiled: Any) -> None:
    """Fill the memory of temporaries, so that what is read before it is written is seen."""
    for found in compiled.recordings.values():
        for recording in found:
            if recording.program is not None:
                for space in recording.program.spaces:
                    space.arena[:] = 0xFF


def assert_equal(eager: Any, replayed: Any, where: str, least: float = 1e-2) -> None:
    assert (eager is None) == (replayed is None), where
    if not isinstance(eager, Value):
        return
    a, b = eager._array, replayed._array
    assert (a.shape, a.dtype) == (b.shape, b.dtype), where
    tolerance = {"e": 1e-2, "f": 1e-5}.get(a.dtype.char, 1e-9)
    size = np.abs(a[np.isfinite(a)]).max(initial=0) if a.dtype.kind == "f" else 0
    np.testing.assert_allclose(b, a, tolerance, tolerance * max(size, least), equal_nan=True, err_msg=where)


def steps_in_python(compiled: Any) -> set[str]:
    recordings = [r for found in compiled.recordings.values() for r in found]
    return {step.name for r in recordings for step in r.recorder.steps if step.kind == "host"}


def compare(name: str, source: Any, dtype: Any, gradients: bool, random: np.random.Generator) -> set[str]:
    """Run one sample both ways several times; the steps that call Python. RecordingError if it is refused."""
    sample, call, process = Sample(source), function(TABLE[name]), rebound(source.output_process_fn_grad)
    tensors = found_in((sample.args, sample.kwargs), [])
    leaves = sample.leaves if gradients and differentiable(TABLE[name], dtype) else []
    if not leaves:
        for t in tensors:
            t.requires_grad_(False)

    def program(args: Any, kwargs: Any) -> Any:
        results = flat(process(call(*args, **kwargs)))
        tracked = [r for r in results if isinstance(r, Value) and r.requires_grad]
        grads: Any = ()
        if leaves and tracked:
            ones = [tg.ones_like(r) for r in tracked]
            grads = tg.autograd.grad(tracked, leaves, ones, allow_unused=True)
        return [r.detach() if isinstance(r, Value) else r for r in results], grads

    compiled = tg.compile(program)
    for run in range(RUNS):
        if run:
            changed(name, tensors, random)
            poisoned(compiled)
        eager = flat(program(sample.args, sample.kwargs))
        replayed = flat(compiled(sample.args, sample.kwargs))
        assert len(eager) == len(replayed)
        for j, (a, b) in enumerate(zip(eager, replayed, strict=True)):
            # Derivatives of a covariance are differences of nearly equal numbers.
            assert_equal(a, b, f"{name}{sample!r}, run {run}, output {j}", 1 if name == "cov" else 1e-2)
    return steps_in_python(compiled)


def check(name: str, limit: int | None, gradients: bool) -> None:
    info, random = TABLE[name], np.random.default_rng(0)
    dtype = dtypes_of(info)[0]
    done = refusals = 0
    for _, source in samples(info, dtype, limit):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # eager runs warn as they do elsewhere
                in_python = compare(name, source, dtype, gradients, random)
        except RecordingError:
            assert name in REFUSED
            refusals += 1
            continue
        except Unsupported:
            continue
        done += 1
        if name not in CALLS_PYTHON and not name.startswith("linalg."):
            assert not in_python
    if limit is None and name in REFUSED:
        assert refusals, "nothing is refused any more"
    if not done and not refusals:
        pytest.skip("tapegrad does not have what the samples are made of")


@pytest.mark.parametrize("name", NAMES[::3])
def test_one_sample(name: str) -> None:
    check(name, 1, True)


@pytest.mark.slow
@pytest.mark.parametrize("gradients", [True, False])
@pytest.mark.parametrize("name", NAMES)
def test_all_samples(name: str, gradients: bool) -> None:
    check(name, None, gradients)
