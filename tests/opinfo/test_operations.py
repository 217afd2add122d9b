"""tapegrad against PyTorch's own samples for its operations: values, gradients, second-order gradients.

By default a few samples per operation; all of them with ``-m slow``. ``python -m tests.opinfo.report`` shows
the same as a table.
"""

from __future__ import annotations

from collections import Counter

import pytest

pytest.importorskip("torch", reason="PyTorch is the oracle here")
pytest.importorskip("expecttest", reason="torch.testing needs it to give its samples")

from .compare import check, check_error
from .samples import TABLE, TIERS, dtypes_of, samples

NAMES = [name for tier in TIERS.values() for name in tier]
FEW = 4  # samples per operation and dtype


def assert_same(name: str, limit: int | None) -> None:
    info = TABLE[name]
    counts: Counter[str] = Counter()
    for dtype in dtypes_of(info):
        for number, source in samples(info, dtype, limit):
            for verdict in check(name, info, dtype, source):
                counts[verdict.outcome] += 1
                assert verdict.outcome != "failed", (
                    f"{name}, {dtype} sample {number}, {verdict.stage}: {verdict.text}"
                )
    if not counts["passed"]:
        pytest.skip(f"all {counts['excluded']} samples are excluded")


@pytest.mark.parametrize("name", NAMES)
def test_some_samples(name: str) -> None:
    assert_same(name, FEW)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_all_samples(name: str) -> None:
    assert_same(name, None)


@pytest.mark.parametrize("name", [n for n in NAMES if TABLE[n].error_inputs_func is not None])
def test_wrong_calls_raise_the_same_class_of_error(name: str) -> None:
    info = TABLE[name]
    for number, wrong in enumerate(info.error_inputs("cpu")):
        verdict = check_error(info, wrong)
        assert verdict.outcome != "failed", f"{name}, error sample {number}: {verdict.text}"
