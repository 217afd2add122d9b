"""Samplers: in which order, and how often, a DataLoader reads the samples of a dataset."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence, Sized
from typing import Any, Generic, TypeVar

import numpy as np

from ..creation import as_tensor
from ..dtypes import float64
from ..random import Generator, rand, randint, randperm
from ..tensor import Tensor

T_co = TypeVar("T_co", covariant=True)


class Sampler(Generic[T_co]):
    """Base of all samplers: ``__iter__`` yields indices (or lists of them); ``__len__`` says how many."""

    def __iter__(self) -> Iterator[T_co]:
        raise NotImplementedError(f"{type(self).__name__} must define __iter__()")


class SequentialSampler(Sampler[int]):
    """0, 1, ..., len(data_source) - 1."""

    def __init__(self, data_source: Sized) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


def draw_seed(generator: Generator | None) -> int:
    """A seed for another generator."""
    return int(randint(0, 2**63 - 1, (), generator=generator).item())


class RandomSampler(Sampler[int]):
    """All indices in random order, or ``num_samples`` of them, each drawn anew with ``replacement``.

    Without a generator, each pass draws a seed from the default one, so that ``manual_seed`` fixes the order.
    """

    def __init__(
        self,
        data_source: Sized,
        replacement: bool = False,
        num_samples: int | None = None,
        generator: Generator | None = None,
    ) -> None:
        if not isinstance(replacement, bool):
            raise TypeError(f"replacement should be a boolean value, but got replacement={replacement!r}")
        self.data_source = data_source
        self.replacement = replacement
        self._num_samples = num_samples
        self.generator = generator
        if not _positive(self.num_samples):
            raise ValueError(
                f"num_samples should be a positive integer value, but got num_samples={self.num_samples!r}"
            )

    @property
    def num_samples(self) -> int:
        """How many indices one pass yields; follows the dataset's size unless given."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        n, wanted = len(self.data_source), self.num_samples
        generator = self.generator
        if generator is None:
            generator = Generator().manual_seed(draw_seed(None))
        while wanted > 0:
            if self.replacement:
                drawn = randint(0, n, (min(wanted, 1024),), generator=generator)
            else:
                drawn = randperm(n, generator=generator)
            yield from drawn.tolist()[:wanted]
            wanted -= len(drawn)

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(Sampler[int]):
    """The given indices in random order."""

    def __init__(self, indices: Sequence[int], generator: Generator | None = None) -> None:
        self.indices = indices
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        for i in randperm(len(self.indices), generator=self.generator).tolist():
            yield self.indices[i]

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler[int]):
    """``num_samples`` indices, each with a probability in proportion to its weight.

    The weights need not sum to one. Without ``replacement`` no index is drawn twice.
    """

    def __init__(
        self,
        weights: Sequence[float] | Tensor,
        num_samples: int,
        replacement: bool = True,
        generator: Generator | None = None,
    ) -> None:
        if not _positive(num_samples):
            raise ValueError(
                f"num_samples should be a positive integer value, but got num_samples={num_samples!r}"
            )
        if not isinstance(replacement, bool):
            raise ValueError(f"replacement should be a boolean value, but got replacement={replacement!r}")
        self.weights = as_tensor(weights, dtype=float64)
        if self.weights.dim() != 1:
            raise ValueError(
                f"weights should be a 1d sequence but given weights have shape {tuple(self.weights.shape)}"
            )
        self.num_samples = num_samples
        self.replacement = replacement
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        weights = self.weights.detach().numpy()
        if not (np.isfinite(weights) & (weights >= 0)).all():
            raise RuntimeError("weights contain an element that is inf, nan or negative")
        possible = int(np.count_nonzero(weights))
        if possible == 0:
            raise RuntimeError("weights sum to zero: there is nothing to draw from")
        if not self.replacement and self.num_samples > possible:
            raise RuntimeError(
                f"cannot draw {self.num_samples} different indices where only {possible} have a weight above "
                "zero; use replacement=True or fewer samples"
            )
        yield from self._draw(weights).tolist()

    def _draw(self, weights: np.ndarray) -> np.ndarray:
        count = self.num_samples if self.replacement else len(weights)
        uniform: np.ndarray = rand(count, dtype=float64, generator=self.generator).numpy()
        if self.replacement:
            ends = np.cumsum(weights)
            # Rounding may put a number at the very end, past the last index that has a weight.
            places: np.ndarray = np.searchsorted(ends, uniform * ends[-1], side="right")
            drawn: np.ndarray = np.minimum(places, np.flatnonzero(weights)[-1])
            return drawn
        # Exponential waiting times with these rates: who comes first is who is drawn first.
        with np.errstate(divide="ignore", invalid="ignore"):
            waiting = -np.log1p(-uniform) / weights
        waiting[weights == 0] = np.inf
        return np.argsort(waiting, kind="stable")[: self.num_samples]

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler[list[int]]):
    """Lists of ``batch_size`` indices from another sampler; the last one may be shorter or be dropped."""

    def __init__(self, sampler: Sampler[int] | Iterable[int], batch_size: int, drop_last: bool) -> None:
        if not _positive(batch_size):
            raise ValueError(
                f"batch_size should be a positive integer value, but got batch_size={batch_size!r}"
            )
        if not isinstance(drop_last, bool):
            raise ValueError(f"drop_last should be a boolean value, but got drop_last={drop_last!r}")
        self.sampler: Any = sampler
        self.batch_size = batch_size
        self.drop_last = drop_last

    def __iter__(self) -> Iterator[list[int]]:
        indices = iter(self.sampler)
        while batch := list(itertools.islice(indices, self.batch_size)):
            if len(batch) < self.batch_size and self.drop_last:
                return
            yield batch

    def __len__(self) -> int:
        size: int = len(self.sampler)
        return size // self.batch_size if self.drop_last else -(-size // self.batch_size)


def _positive(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


class DistributedSampler(Sampler[int]):
    """The share of one of several processes (replicas) that train on equal parts of a dataset.

    tapegrad starts no processes itself, so ``num_replicas`` and ``rank`` have to be given. ``shuffle`` orders
    anew in each epoch, by ``seed`` and what ``set_epoch`` was told. Without ``drop_last`` some samples are
    repeated, so that all shares are of one length.
    """

    def __init__(
        self,
        dataset: Sized,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        if num_replicas is None or rank is None:
            raise RuntimeError(
                "DistributedSampler: give num_replicas and rank; there is no distributed package that knows them"
            )
        if not 0 <= rank < num_replicas:
            raise ValueError(f"Invalid rank {rank}, rank should be in the interval [0, {num_replicas - 1}]")
        self.dataset = dataset
        self.num_replicas = num_replicas
        self.rank = rank
        self.epoch = 0
        self.drop_last = drop_last
        whole, rest = divmod(len(dataset), num_replicas)
        self.num_samples = whole if drop_last or not rest else whole + 1
        self.total_size = self.num_samples * num_replicas
        self.shuffle = shuffle
        self.seed = seed

    def __iter__(self) -> Iterator[int]:
        order = range(len(self.dataset))
        if self.shuffle:
            generator = Generator()
            generator.manual_seed(self.seed + self.epoch)
            order = randperm(len(self.dataset), generator=generator).tolist()
        # From the front again if there are too few.
        padded = itertools.islice(itertools.cycle(order), self.total_size)
        return itertools.islice(padded, self.rank, None, self.num_replicas)

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Call it before each epoch, in every process, for another order."""
        self.epoch = epoch
