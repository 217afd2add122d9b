"""Datasets and random_split."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import tapegrad as tg
from tapegrad.data import (
    ChainDataset,
    ConcatDataset,
    DataLoader,
    Dataset,
    IterableDataset,
    StackDataset,
    Subset,
    TensorDataset,
    random_split,
)


class Squares(Dataset[int]):
    def __init__(self, size: int) -> None:
        self.size = size

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> int:
        if not -self.size <= index < self.size:
            raise IndexError(index)
        return index * index


class AtOnce(Squares):
    asked: list[list[int]]

    def __getitems__(self, indices: list[int]) -> list[int]:
        self.asked = [*getattr(self, "asked", []), list(indices)]
        return [i * i for i in indices]


class Count(IterableDataset[int]):
    def __init__(self, start: int, stop: int) -> None:
        self.start, self.stop = start, stop

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.start, self.stop))

    def __len__(self) -> int:
        return self.stop - self.start


def test_base_classes_say_what_is_missing() -> None:
    with pytest.raises(NotImplementedError, match="Dataset must define __getitem__"):
        Dataset()[0]
    with pytest.raises(NotImplementedError, match="IterableDataset must define __iter__"):
        iter(IterableDataset())


def test_tensor_dataset() -> None:
    x, y = tg.arange(12.0).reshape(4, 3), tg.arange(4)
    data = TensorDataset(x, y)
    assert len(data) == 4
    assert data[2][0].tolist() == [6.0, 7.0, 8.0]
    assert data[-1][1].item() == 3
    assert [part.tolist() for part in data.take([3, 0])] == [[[9.0, 10.0, 11.0], [0.0, 1.0, 2.0]], [3, 0]]
    with pytest.raises(AssertionError, match=r"Size mismatch between tensors.*\[4, 3\]"):
        TensorDataset(x, tg.arange(3))
    with pytest.raises(AssertionError, match="at least one"):
        TensorDataset()


def test_stack_dataset_of_tuples_and_of_dicts() -> None:
    numbers, at_once = Squares(4), AtOnce(4)
    pairs = StackDataset(numbers, at_once)
    assert len(pairs) == 4
    assert pairs[3] == (9, 9)
    assert pairs.__getitems__([1, 2]) == [(1, 1), (4, 4)]
    assert at_once.asked == [[1, 2]]
    named = StackDataset(a=numbers, b=Squares(4))
    assert named[2] == {"a": 4, "b": 4}
    assert named.__getitems__([0, 1]) == [{"a": 0, "b": 0}, {"a": 1, "b": 1}]


def test_stack_dataset_errors() -> None:
    with pytest.raises(ValueError, match=r"Size mismatch.*\[4, 5\]"):
        StackDataset(Squares(4), Squares(5))
    with pytest.raises(ValueError, match="not both"):
        StackDataset(Squares(1), a=Squares(1))
    with pytest.raises(ValueError, match="At least one"):
        StackDataset()

    class Short(Squares):
        def __getitems__(self, indices: list[int]) -> list[int]:
            return []

    with pytest.raises(ValueError, match=r"Short.__getitems__ was asked for 2 samples and returned 0"):
        StackDataset(Short(3)).__getitems__([0, 1])


def test_concat_dataset() -> None:
    data = Squares(3) + Squares(0) + Squares(2)
    assert isinstance(data, ConcatDataset)
    assert len(data) == 5
    assert [data[i] for i in range(5)] == [0, 1, 4, 0, 1]
    assert [data[-1], data[-5]] == [1, 0]
    assert ConcatDataset([Squares(3), Squares(2)]).cumulative_sizes == [3, 5]
    with pytest.raises(ValueError, match="should not exceed dataset length"):
        data[-6]
    with pytest.raises(IndexError, match="5 is out of range"):
        data[5]
    with pytest.raises(AssertionError, match="empty"):
        ConcatDataset([])
    with pytest.raises(AssertionError, match="IterableDataset"):
        ConcatDataset([Count(0, 1)])


def test_chain_dataset() -> None:
    chain = Count(0, 3) + Count(7, 9)
    assert isinstance(chain, ChainDataset)
    assert list(chain) == [0, 1, 2, 7, 8]
    assert len(chain) == 5
    broken = ChainDataset([Count(0, 1), Squares(2)])
    with pytest.raises(AssertionError, match="only supports IterableDataset, got Squares"):
        list(broken)


def test_subset() -> None:
    data = AtOnce(10)
    part = Subset(data, [7, 2, 5])
    assert len(part) == 3
    assert [part[0], part[-1]] == [49, 25]
    assert part.__getitems__([2, 0]) == [25, 49]
    assert data.asked == [[5, 7]]

    class Half(Subset[int]):
        def __getitem__(self, index: int) -> int:
            return super().__getitem__(index) // 2

    with pytest.raises(NotImplementedError, match="Half overrides __getitem__ but not __getitems__"):
        Half(data, [1])


def test_the_fast_way_is_left_where_a_subclass_reads_otherwise() -> None:
    class Doubled(TensorDataset):
        def __getitem__(self, index: int) -> tuple[tg.Tensor, ...]:
            return tuple(2 * t for t in super().__getitem__(index))

    data = Doubled(tg.arange(4.0))
    (whole,) = DataLoader(data, batch_size=4)
    assert whole[0].tolist() == [0.0, 2.0, 4.0, 6.0]
    (part,) = DataLoader(Subset(data, [3, 1]), batch_size=4)
    assert part[0].tolist() == [6.0, 2.0]


def test_fast_and_general_way_agree() -> None:
    data = TensorDataset(tg.arange(30.0).reshape(10, 3), tg.arange(10), tg.arange(10) > 4)
    nested = Subset(Subset(data, range(9, -1, -1)), [4, 0, 7, 7, 2])
    for dataset in (data, nested):
        fast = list(DataLoader(dataset, batch_size=3))
        general = list(
            DataLoader(dataset, batch_size=3, collate_fn=lambda batch: tg.data.default_collate(batch))
        )
        assert [type(batch) for batch in fast] == [list] * len(general)
        for a, b in zip(fast, general, strict=True):
            assert [(t.dtype, t.tolist()) for t in a] == [(t.dtype, t.tolist()) for t in b]


def test_random_split_by_lengths() -> None:
    first, second = random_split(Squares(10), [3, 7], generator=tg.Generator().manual_seed(1))
    assert (len(first), len(second)) == (3, 7)
    assert sorted([*first.indices, *second.indices]) == list(range(10))
    again, _ = random_split(Squares(10), [3, 7], generator=tg.Generator().manual_seed(1))
    assert again.indices == first.indices
    tg.manual_seed(4)
    one = random_split(Squares(10), [5, 5])[0].indices
    tg.manual_seed(4)
    assert random_split(Squares(10), [5, 5])[0].indices == one
    assert random_split(Squares(10), [5, 5])[0].indices != one


@pytest.mark.parametrize(
    ("size", "fractions", "lengths"),
    [
        (10, [0.5, 0.5], [5, 5]),
        (10, [0.33, 0.33, 0.34], [4, 3, 3]),
        (11, [0.3, 0.3, 0.4], [4, 3, 4]),
        (5, [0.5, 0.25, 0.25], [3, 1, 1]),
        (7, [1.0], [7]),
    ],
)
def test_random_split_by_fractions(size: int, fractions: list[float], lengths: list[int]) -> None:
    assert [len(part) for part in random_split(Squares(size), fractions)] == lengths
    torch = pytest.importorskip("torch", reason="compares with PyTorch, which is not installed")
    assert [len(part) for part in torch.utils.data.random_split(range(size), fractions)] == lengths


def test_random_split_errors() -> None:
    with pytest.raises(ValueError, match="does not equal the length of the input dataset: 9 and 10"):
        random_split(Squares(10), [4, 5])
    with pytest.raises(ValueError, match="Fraction at index 0 is not between 0 and 1"):
        random_split(Squares(10), [-0.5, 1.5])
    with pytest.warns(UserWarning, match="split at index 1 is 0"):
        random_split(Squares(3), [0.7, 0.3])


def test_the_names_are_also_where_pytorch_has_them() -> None:
    assert tg.utils.data.DataLoader is tg.data.DataLoader
    assert {name: getattr(tg.utils.data, name) for name in tg.data.__all__} == {
        name: getattr(tg.data, name) for name in tg.data.__all__
    }
