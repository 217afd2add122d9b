"""Random programs are the same compiled as eager: values, gradients, parameters, state, random numbers."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from tapegrad.native.passes import PASSES

from . import programs

NAMES = [p.__name__ for p in PASSES]
WITHOUT = [*[(n,) for n in NAMES], tuple(NAMES)]
SIZES = [2, 2, 3, 2, 3]  # of the arguments: recorded, replayed, another size, both again


def check(seeds: Iterable[int], without: tuple[str, ...] = (), calls: list[int] = SIZES) -> int:
    """Compare programs; gives how many of them have numbers that can be compared."""
    compared = 0
    for seed in seeds:
        eager = programs.observed(seed, calls, False)
        if programs.wild(eager):
            continue
        compared += 1
        compiled = programs.observed(seed, calls, True, without)
        found = programs.difference(eager, compiled)
        assert found is None, f"seed {seed} without {without or 'nothing'}: eager or compiled {found}"
    return compared


@pytest.mark.parametrize("chunk", range(4))
def test_random_programs(chunk: int) -> None:
    assert check(range(chunk * 8, chunk * 8 + 8)) > 4


def test_programs_that_a_pass_got_wrong_before() -> None:
    assert check([51, 58, 207]) > 1


@pytest.mark.parametrize("without", WITHOUT)
def test_random_programs_without_passes(without: tuple[str, ...]) -> None:
    assert check(range(2000, 2003), without, [2, 2, 2]) > 1


@pytest.mark.slow
def test_many_random_programs() -> None:
    check(range(32, 300))


@pytest.mark.slow
@pytest.mark.parametrize("without", WITHOUT)
def test_many_random_programs_without_passes(without: tuple[str, ...]) -> None:
    check(range(1000, 1100), without)
