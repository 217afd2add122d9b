"""Random programs against PyTorch: what programs.py draws must be seen alike by both libraries."""

from __future__ import annotations

import pytest

import tapegrad as tg

from . import programs

torch = pytest.importorskip("torch", reason="PyTorch is the oracle here")

CHUNK = 30


def _check(seeds: range) -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for seed in seeds:
            theirs, ours = programs.run(torch, seed), programs.run(tg, seed)
            if programs.differs(theirs, ours) and not programs.excused(theirs, ours):
                found = [(a, b) for a, b in zip(theirs, ours, strict=False) if programs.differs(a, b)]
                pytest.fail(
                    f"seed {seed}: PyTorch observes {found[0][0]}, tapegrad {found[0][1]}"
                    if found
                    else f"seed {seed}"
                )
    finally:
        torch.set_num_threads(threads)


@pytest.mark.parametrize("chunk", range(10))
def test_random_programs(chunk: int) -> None:
    _check(range(chunk * CHUNK, (chunk + 1) * CHUNK))


@pytest.mark.slow
def test_many_random_programs() -> None:
    _check(range(10 * CHUNK, 3_000))


def test_the_observations_of_two_runs_are_the_same() -> None:
    for seed in range(40):
        assert not programs.differs(programs.run(tg, seed), programs.run(tg, seed))


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ([1.0], [1.0 + 1e-9], False),
        ([1.0], [1.1], True),
        ([float("nan")], [float("nan")], False),
        ([None], [[0.0, 0.0]], False),
        ([None], [[0.0, 1.0]], True),
        (["step", [2], True], ["step", [2], False], True),
        (["refused", "TypeError", True], ["refused", "TypeError", False], False),
        (["refused", "TypeError", True], ["refused", "ValueError", True], True),
        (["step", [2]], ["refused", "ValueError", True], True),
    ],
)
def test_what_counts_as_a_difference(a: list[object], b: list[object], expected: bool) -> None:
    assert programs.differs(a, b) is expected
    assert programs.differs(b, a) is expected


def test_only_pytorchs_refusals_and_roundings_are_excused() -> None:
    step = ["step", [2], "float64", True, False, False]
    assert programs.excused([["refused", "RuntimeError", True]], [step])
    assert not programs.excused([["refused", "RuntimeError", False]], [step])
    assert not programs.excused([step], [["refused", "RuntimeError", True]])
    assert not programs.excused([["refused", "RuntimeError", True]], [["refused", "TypeError", True]])
    wrote = [*step[:-1], True]
    assert programs.excused([wrote, ["refused backward", "RuntimeError"]], [wrote, ["grad", [1.0]]])
    assert not programs.excused([step, ["refused backward", "RuntimeError"]], [step, ["grad", [1.0]]])
    assert not programs.excused([wrote, ["grad", [2.0]]], [wrote, ["grad", [1.0]]])
    nan = float("nan")
    assert programs.excused([["leaves", [nan, 1.0], None]], [["leaves", [2.0, 1.0], None]])
    assert not programs.excused([["leaves", [nan, 1.0]]], [["leaves", [2.0, 1.5]]])
    assert not programs.excused([["leaves", [2.0]]], [["leaves", [nan]]])
    assert programs.excused([["leaves", [150.0], [0.0]]], [["leaves", [150.0], [1e-4]]])
    assert not programs.excused([["leaves", [15.0], [0.0]]], [["leaves", [15.0], [1e-3]]])
    assert not programs.excused([["leaves", [1e9], [0.0]]], [["leaves", [1e9], [0.1]]])
    assert not programs.excused([["value", True, True, [nan]]], [["value", True, True, [2.0]]])
