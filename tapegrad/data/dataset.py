"""Datasets: what a DataLoader reads from, and ways to join, stack and split them."""

from __future__ import annotations

import bisect
import itertools
import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

from ..creation import tensor
from ..random import Generator, randperm
from ..tensor import Tensor

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Dataset(Generic[T_co]):
    """A map from keys (usually 0 .. len-1) to samples: subclasses write ``__getitem__`` and ``__len__``.

    A subclass may also write ``__getitems__(indices)``, which returns a list of samples at once.
    """

    def __getitem__(self, index: Any) -> T_co:
        raise NotImplementedError(f"{type(self).__name__} must define __getitem__(index)")

    def __add__(self, other: Dataset[Any]) -> ConcatDataset[Any]:
        return ConcatDataset([self, other])


class IterableDataset(Dataset[T_co]):
    """A stream of samples: subclasses write ``__iter__``, and ``__len__`` where it is known.

    With worker threads each worker iterates its own shallow copy, and all of them yield all samples
    unless ``__iter__`` or ``worker_init_fn`` divides the work by ``get_worker_info()``.
    """

    def __iter__(self) -> Iterator[T_co]:
        raise NotImplementedError(f"{type(self).__name__} must define __iter__()")

    def __add__(self, other: Dataset[Any]) -> ChainDataset:  # type: ignore[override]  # as in PyTorch
        return ChainDataset([self, other])


class TensorDataset(Dataset[tuple[Tensor, ...]]):
    """Tensors of equal first dimension; sample i is the tuple of their i-th rows."""

    def __init__(self, *tensors: Tensor) -> None:
        if not tensors:
            raise AssertionError("TensorDataset needs at least one tensor")
        sizes = [t.size(0) for t in tensors]
        if len(set(sizes)) > 1:
            raise AssertionError(f"Size mismatch between tensors: their first dimensions are {sizes}")
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple[Tensor, ...]:
        return tuple(t[index] for t in self.tensors)

    def __len__(self) -> int:
        return int(self.tensors[0].size(0))

    def take(self, indices: Sequence[int]) -> list[Tensor]:
        """The samples of these indices as one batch: equal to collating them one by one, but faster."""
        rows = tensor(indices)
        return [t[rows] for t in self.tensors]


class StackDataset(Dataset[Any]):
    """Datasets of equal length side by side; a sample is a tuple, or a dict if they were given by name."""

    datasets: tuple[Any, ...] | dict[str, Any]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if args and kwargs:
            raise ValueError(
                "StackDataset takes datasets by position (samples are tuples) or by name (dicts), not both"
            )
        if not args and not kwargs:
            raise ValueError("At least one dataset should be passed to StackDataset")
        self.datasets = args or kwargs
        lengths = [len(d) for d in self._members()]
        if len(set(lengths)) > 1:
            raise ValueError(f"Size mismatch between datasets: their lengths are {lengths}")
        self._length = lengths[0]

    def _members(self) -> list[Any]:
        return list(self.datasets.values() if isinstance(self.datasets, dict) else self.datasets)

    def _assemble(self, parts: Iterable[Any]) -> Any:
        return (
            dict(zip(self.datasets, parts, strict=True)) if isinstance(self.datasets, dict) else tuple(parts)
        )

    def __getitem__(self, index: Any) -> Any:
        return self._assemble(d[index] for d in self._members())

    def __getitems__(self, indices: list[Any]) -> list[Any]:
        columns = []
        for d in self._members():
            column = samples_of(d, indices)
            if len(column) != len(indices):
                raise ValueError(
                    f"Nested dataset's output size mismatch: {type(d).__name__}.__getitems__ was asked for "
                    f"{len(indices)} samples and returned {len(column)}"
                )
            columns.append(column)
        return [self._assemble(sample) for sample in zip(*columns, strict=True)]

    def __len__(self) -> int:
        return self._length


class ConcatDataset(Dataset[T_co]):
    """Datasets one after the other."""

    def __init__(self, datasets: Iterable[Dataset[T_co]]) -> None:
        self.datasets: list[Any] = list(datasets)
        if not self.datasets:
            raise AssertionError("datasets should not be an empty iterable")
        if any(isinstance(d, IterableDataset) for d in self.datasets):
            raise AssertionError("ConcatDataset does not support IterableDataset; use ChainDataset")
        self.cumulative_sizes = list(itertools.accumulate(len(d) for d in self.datasets))

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, index: int) -> T_co:
        if index < 0:
            if -index > len(self):
                raise ValueError(
                    f"absolute value of index should not exceed dataset length: {index}, {len(self)}"
                )
            index += len(self)
        which = bisect.bisect_right(self.cumulative_sizes, index)
        if which == len(self.datasets):
            raise IndexError(f"index {index} is out of range for a ConcatDataset of {len(self)} samples")
        before = self.cumulative_sizes[which - 1] if which else 0
        sample: T_co = self.datasets[which][index - before]
        return sample


class ChainDataset(IterableDataset[Any]):
    """Iterable datasets one after the other."""

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = datasets

    def _checked(self) -> Iterator[Any]:
        for d in self.datasets:
            if not isinstance(d, IterableDataset):
                raise AssertionError(f"ChainDataset only supports IterableDataset, got {type(d).__name__}")
            yield d

    def __iter__(self) -> Iterator[Any]:
        for d in self._checked():
            yield from d

    def __len__(self) -> int:
        return sum(len(d) for d in self._checked())


class Subset(Dataset[T_co]):
    """The samples of ``dataset`` at ``indices``.

    A subclass that overrides ``__getitem__`` must override ``__getitems__`` too: a DataLoader calls that.
    """

    def __init__(self, dataset: Dataset[T_co], indices: Sequence[int]) -> None:
        self.dataset: Any = dataset
        self.indices = indices
        overridden = type(self).__getitem__ is not Subset.__getitem__
        if overridden and type(self).__getitems__ is Subset.__getitems__:
            raise NotImplementedError(
                f"{type(self).__name__} overrides __getitem__ but not __getitems__, which a DataLoader "
                "calls; add\n"
                "    def __getitems__(self, indices):\n"
                "        return [self[i] for i in indices]"
            )

    def __getitem__(self, index: Any) -> T_co:
        if isinstance(index, list):
            many: T_co = self.dataset[[self.indices[i] for i in index]]
            return many
        one: T_co = self.dataset[self.indices[index]]
        return one

    def __getitems__(self, indices: list[int]) -> list[T_co]:
        return samples_of(self.dataset, [self.indices[i] for i in indices])

    def __len__(self) -> int:
        return len(self.indices)


def samples_of(dataset: Any, indices: list[Any]) -> list[Any]:
    """The samples at ``indices``, at once where the dataset offers that."""
    at_once = getattr(dataset, "__getitems__", None)
    samples: list[Any] = at_once(indices) if callable(at_once) else [dataset[i] for i in indices]
    return samples


def taker(dataset: Any) -> Callable[[Sequence[int]], list[Tensor]] | None:
    """A function from indices to the collated batch for datasets that are rows of tensors, else None.

    Subclasses that change how a sample is read are left to the general way.
    """
    if isinstance(dataset, TensorDataset) and type(dataset).__getitem__ is TensorDataset.__getitem__:
        return None if hasattr(dataset, "__getitems__") else dataset.take
    if type(dataset) is Subset:
        inner = taker(dataset.dataset)
        if inner is not None:
            return lambda indices: inner([int(dataset.indices[i]) for i in indices])
    return None


def random_split(
    dataset: Dataset[T], lengths: Sequence[int | float], generator: Generator | None = None
) -> list[Subset[T]]:
    """Split at random into subsets of the given lengths, or of the given fractions that sum to 1.

    Fractions are rounded down, and the samples left over go to the subsets one each, first ones first.
    """
    size = len(dataset)  # type: ignore[arg-type]  # that a Dataset has a length cannot be told from its type
    if math.isclose(sum(lengths), 1) and sum(lengths) <= 1:
        for i, fraction in enumerate(lengths):
            if not 0 <= fraction <= 1:
                raise ValueError(f"Fraction at index {i} is not between 0 and 1: {fraction}")
        counts = [math.floor(size * fraction) for fraction in lengths]
        left_over = size - sum(counts)
        counts = [count + len(range(i, left_over, len(counts))) for i, count in enumerate(counts)]
        for i, count in enumerate(counts):
            if count == 0:
                warnings.warn(
                    f"Length of split at index {i} is 0: its dataset is empty", UserWarning, stacklevel=2
                )
        lengths = counts
    if sum(lengths) != size:
        raise ValueError(
            f"Sum of input lengths does not equal the length of the input dataset: {sum(lengths)} and {size}"
        )
    order: list[int] = randperm(size, generator=generator).tolist()
    ends = itertools.accumulate(int(n) for n in lengths)
    return [Subset(dataset, order[end - int(n) : end]) for end, n in zip(ends, lengths, strict=True)]
