"""Samplers: what they yield, that seeds fix it, and that it is distributed as it should be."""

from __future__ import annotations

import collections
from typing import Any

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.data import (
    BatchSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)


def seeded(seed: int = 0) -> tg.Generator:
    return tg.Generator().manual_seed(seed)


def test_base_class_says_what_is_missing() -> None:
    with pytest.raises(NotImplementedError, match="Sampler must define __iter__"):
        iter(Sampler())


def test_sequential() -> None:
    sampler = SequentialSampler("abcd")
    assert list(sampler) == [0, 1, 2, 3]
    assert len(sampler) == 4


def test_random_without_replacement() -> None:
    sampler = RandomSampler(range(50), generator=seeded())
    first, second = list(sampler), list(sampler)
    assert sorted(first) == sorted(second) == list(range(50))
    assert first != second
    assert list(RandomSampler(range(50), generator=seeded())) == first
    assert all(type(i) is int for i in first)
    many = list(RandomSampler(range(4), num_samples=10, generator=seeded()))
    assert len(many) == 10
    assert collections.Counter(many[:8]) == dict.fromkeys(range(4), 2)
    assert len(list(RandomSampler(range(50), num_samples=3))) == 3


def test_random_follows_manual_seed_and_the_size_of_its_source() -> None:
    source = list(range(20))
    sampler = RandomSampler(source)
    tg.manual_seed(3)
    first = list(sampler)
    tg.manual_seed(3)
    assert list(sampler) == first
    source.append(20)
    assert len(sampler) == 21


def test_random_with_replacement() -> None:
    sampler = RandomSampler(range(4), replacement=True, num_samples=4000, generator=seeded())
    counts = np.bincount(list(sampler), minlength=4)
    assert len(sampler) == counts.sum() == 4000
    assert np.abs(counts - 1000).max() < 150


@pytest.mark.parametrize("bad", [0, -1, 2.5, True])
def test_random_wants_a_positive_number_of_samples(bad: object) -> None:
    with pytest.raises(ValueError, match="num_samples should be a positive integer"):
        RandomSampler(range(3), replacement=True, num_samples=bad)  # type: ignore[arg-type]


def test_random_errors() -> None:
    with pytest.raises(TypeError, match="replacement should be a boolean"):
        RandomSampler(range(3), replacement=1)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="num_samples=0"):
        RandomSampler([])


def test_subset_random() -> None:
    sampler = SubsetRandomSampler([5, 7, 9, 11], generator=seeded())
    assert len(sampler) == 4
    assert sorted(sampler) == [5, 7, 9, 11]


def test_weighted_with_replacement() -> None:
    weights = [1.0, 0.0, 3.0, 6.0]
    counts = np.bincount(list(WeightedRandomSampler(weights, 10_000, generator=seeded())), minlength=4)
    assert counts[1] == 0
    assert np.abs(counts / 10_000 - np.array(weights) / 10).max() < 0.02


def test_weighted_without_replacement() -> None:
    weights = [1.0, 0.0, 3.0, 6.0]
    generator = seeded(1)
    sampler = WeightedRandomSampler(tg.tensor(weights), 2, replacement=False, generator=generator)
    drawn = [tuple(sampler) for _ in range(3000)]
    assert all(len(set(pair)) == 2 and 1 not in pair for pair in drawn)
    first = np.bincount([pair[0] for pair in drawn], minlength=4) / 3000
    assert np.abs(first - np.array(weights) / 10).max() < 0.03
    # Given that 3 came first, 2 follows with 3 to 1.
    after = [pair[1] for pair in drawn if pair[0] == 3]
    assert abs(np.mean(np.array(after) == 2) - 0.75) < 0.04
    assert sorted(WeightedRandomSampler(weights, 3, replacement=False)) == [0, 2, 3]


def test_weighted_errors() -> None:
    with pytest.raises(ValueError, match="num_samples should be a positive integer"):
        WeightedRandomSampler([1.0], 0)
    with pytest.raises(ValueError, match="replacement should be a boolean"):
        WeightedRandomSampler([1.0], 1, replacement=None)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"1d sequence .* shape \(1, 1\)"):
        WeightedRandomSampler([[1.0]], 1)  # type: ignore[list-item]
    for weights, message in [([0.0, 0.0], "sum to zero"), ([1.0, -1.0], "negative"), ([np.nan, 1.0], "nan")]:
        with pytest.raises(RuntimeError, match=message):
            list(WeightedRandomSampler(weights, 1))
    with pytest.raises(RuntimeError, match="cannot draw 3 different indices where only 2 have a weight"):
        list(WeightedRandomSampler([1.0, 0.0, 1.0], 3, replacement=False))


def test_batches() -> None:
    assert list(BatchSampler(range(7), 3, False)) == [[0, 1, 2], [3, 4, 5], [6]]
    assert list(BatchSampler(range(7), 3, True)) == [[0, 1, 2], [3, 4, 5]]
    assert list(BatchSampler(range(6), 3, False)) == [[0, 1, 2], [3, 4, 5]]
    assert list(BatchSampler([], 3, False)) == []
    assert len(BatchSampler(SequentialSampler(range(7)), 3, False)) == 3
    assert len(BatchSampler(SequentialSampler(range(7)), 3, True)) == 2


def test_batch_errors() -> None:
    for size in (0, -1, 1.5, True):
        with pytest.raises(ValueError, match="batch_size should be a positive integer"):
            BatchSampler(range(3), size, False)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="drop_last should be a boolean"):
        BatchSampler(range(3), 1, 1)  # type: ignore[arg-type]


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize(("size", "replicas"), [(12, 3), (13, 3), (2, 5), (7, 1), (1, 4)])
def test_shares_of_several_processes(size: int, replicas: int, drop_last: bool) -> None:
    torch = pytest.importorskip("torch", reason="compares with PyTorch, which is not installed")

    def shares(lib: Any, shuffle: bool) -> list[list[int]]:
        made = []
        for rank in range(replicas):
            sampler = lib.utils.data.DistributedSampler(
                range(size), replicas, rank, shuffle=shuffle, drop_last=drop_last
            )
            made.append(list(sampler))
            assert len(sampler) == len(made[-1])
        return made

    assert shares(tg, False) == shares(torch, False)
    shuffled = sum(shares(tg, True), [])
    assert len(shuffled) == len(sum(shares(torch, True), []))
    assert set(shuffled) <= set(range(size))
    assert drop_last or set(shuffled) == set(range(size))


def test_the_order_of_shares_changes_with_the_epoch_and_the_seed() -> None:
    sampler = tg.utils.data.DistributedSampler(range(50), 2, 0, seed=3)
    first = list(sampler)
    assert list(sampler) == first
    sampler.set_epoch(1)
    assert list(sampler) != first
    for arguments in ((None, 0), (2, None)):
        with pytest.raises(RuntimeError, match="num_replicas and rank"):
            tg.utils.data.DistributedSampler(range(3), *arguments)
    with pytest.raises(ValueError, match="Invalid rank 2"):
        tg.utils.data.DistributedSampler(range(3), 2, 2)
