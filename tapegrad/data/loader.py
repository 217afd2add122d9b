"""DataLoader: batches from a dataset, in the calling thread or prefetched by worker threads."""

from __future__ import annotations

import copy
import itertools
import queue
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, Generic, TypeVar

from ..random import Generator
from .collate import default_collate, default_convert
from .dataset import Dataset, IterableDataset
from .fetch import END, Fetch, map_fetch, stream_fetch
from .sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler, draw_seed
from .worker import Pass, Result, Workers

T_co = TypeVar("T_co", covariant=True)
# Later changes would not reach the samplers that were made from them.
_FIXED = {"batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers"}


class DataLoader(Generic[T_co]):
    """Iterates over a dataset in batches; PyTorch's arguments.

    ``dataset``: a map-style dataset (``__getitem__`` and ``__len__``) or an IterableDataset.
    ``batch_size``: samples per batch; None yields single samples, not collated.
    ``shuffle``, ``sampler``, ``batch_sampler``: the order; at most one of them.
    ``num_workers``: worker *threads* that prepare batches ahead; 0 prepares them in the calling thread.
    ``prefetch_factor``: batches ahead per worker (2). ``in_order``: False yields them as they are ready.
    ``collate_fn``: makes a batch of a list of samples. ``drop_last``: leave out a last, shorter batch.
    ``timeout``: seconds to wait for a batch of a worker before a RuntimeError (0: no limit).
    ``worker_init_fn``: called with the worker's id in each worker before it reads.
    ``generator``: draws the order and the seeds of the workers.
    ``persistent_workers``: keep the threads, and the state of their datasets, between iterations.
    """

    _ready = False

    def __init__(
        self,
        dataset: Dataset[T_co],
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Sampler[Any] | Iterable[Any] | None = None,
        batch_sampler: Sampler[list[Any]] | Iterable[list[Any]] | None = None,
        num_workers: int = 0,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], object] | None = None,
        multiprocessing_context: None = None,
        generator: Generator | None = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
    ) -> None:
        self._iterable = isinstance(dataset, IterableDataset)
        _check_workers(num_workers, timeout, prefetch_factor, persistent_workers)
        _check_processes(pin_memory, pin_memory_device, multiprocessing_context)
        if self._iterable:
            _check_stream(shuffle, sampler, batch_sampler)
        _check_order(batch_size, bool(shuffle), sampler, batch_sampler, drop_last)

        if sampler is None:
            if self._iterable:
                sampler = itertools.repeat(None)  # a stream has no keys; it is asked for "one more"
            elif shuffle:
                sampler = RandomSampler(dataset, generator=generator)  # type: ignore[arg-type]
            else:
                sampler = SequentialSampler(dataset)  # type: ignore[arg-type]
        if batch_sampler is not None:
            batch_size = None
        elif batch_size is not None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)

        self.dataset = dataset
        self.batch_size = batch_size
        self.sampler = sampler
        self.batch_sampler = batch_sampler
        self.num_workers = num_workers
        if collate_fn is None:
            collate_fn = default_convert if batch_sampler is None else default_collate
        self.collate_fn = collate_fn
        self.pin_memory = pin_memory
        self.pin_memory_device = pin_memory_device
        self.drop_last = drop_last
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.multiprocessing_context = multiprocessing_context
        self.generator = generator
        self.prefetch_factor = 2 if num_workers and prefetch_factor is None else prefetch_factor
        self.persistent_workers = persistent_workers
        self.in_order = in_order
        self._kept: Workers | None = None
        self._promised: int | None = None
        self._ready = True

    def __setattr__(self, name: str, value: Any) -> None:
        if self._ready and name in _FIXED:
            raise ValueError(f"{name} attribute should not be set after {type(self).__name__} is initialized")
        super().__setattr__(name, value)

    def __iter__(self) -> Iterator[Any]:
        # Drawn for any number of workers, so that the order that follows does not depend on it.
        seed = draw_seed(self.generator)
        if self.num_workers == 0:
            return _OwnThread(self)
        if not self.persistent_workers:
            return _Threads(self, self._workers(seed), keep=False)
        if self._kept is None:
            self._kept = self._workers(seed)
            weakref.finalize(self, self._kept.close)
        return _Threads(self, self._kept, keep=True)

    def __len__(self) -> int:
        if not self._iterable:
            return len(self._indices())
        length = len(self.dataset)  # type: ignore[arg-type]
        if self.batch_size is not None:
            length = length // self.batch_size if self.drop_last else -(-length // self.batch_size)
        self._promised = length
        return length

    def _indices(self) -> Any:
        chosen: Any = self.sampler if self.batch_sampler is None else self.batch_sampler
        return chosen

    def _fetcher(self) -> Callable[[Any], Fetch]:
        batched = self.batch_sampler is not None
        if self._iterable:
            return partial(stream_fetch, collate=self.collate_fn, batched=batched, drop_last=self.drop_last)
        return partial(map_fetch, collate=self.collate_fn, batched=batched)

    def _workers(self, seed: int) -> Workers:
        datasets = [
            copy.copy(self.dataset) if self._iterable else self.dataset for _ in range(self.num_workers)
        ]
        return Workers(datasets, seed, self._fetcher(), self.worker_init_fn)


def _check_workers(num_workers: int, timeout: float, prefetch_factor: int | None, persistent: bool) -> None:
    if num_workers < 0:
        raise ValueError(
            f"num_workers option should be non-negative, got {num_workers}; 0 loads in the calling thread"
        )
    if timeout < 0:
        raise ValueError(f"timeout option should be non-negative, got {timeout}")
    if num_workers == 0 and prefetch_factor is not None:
        raise ValueError("prefetch_factor option needs num_workers > 0; without workers leave it None")
    if prefetch_factor is not None and prefetch_factor < 1:
        raise ValueError(f"prefetch_factor option should be at least 1, got {prefetch_factor}")
    if persistent and num_workers == 0:
        raise ValueError("persistent_workers option needs num_workers > 0")


def _check_processes(pin_memory: bool, pin_memory_device: str, multiprocessing_context: Any) -> None:
    if multiprocessing_context is not None:
        raise ValueError(
            "multiprocessing_context is not supported: workers are threads of this process; leave it None"
        )
    if pin_memory_device:
        raise ValueError(f"pin_memory_device={pin_memory_device!r} is not supported: tensors live on the CPU")
    if pin_memory:
        warnings.warn(
            "pin_memory=True has no effect: there is no accelerator to copy to", UserWarning, stacklevel=3
        )


def _check_stream(shuffle: Any, sampler: Any, batch_sampler: Any) -> None:
    for name, value in (("shuffle", shuffle or None), ("sampler", sampler), ("batch_sampler", batch_sampler)):
        if value is not None:
            raise ValueError(
                f"DataLoader with IterableDataset: expected unspecified {name} option, but got "
                f"{name}={value}; a stream comes in its own order"
            )


def _check_order(batch_size: Any, shuffle: bool, sampler: Any, batch_sampler: Any, drop_last: bool) -> None:
    if sampler is not None and shuffle:
        raise ValueError("sampler option is mutually exclusive with shuffle")
    if batch_sampler is not None and (batch_size != 1 or shuffle or sampler is not None or drop_last):
        raise ValueError(
            "batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and drop_last"
        )
    if batch_size is None and drop_last:
        raise ValueError(
            "batch_size=None option disables auto-batching and is mutually exclusive with drop_last"
        )


class _Iterator:
    """One pass over a loader."""

    def __init__(self, loader: DataLoader[Any]) -> None:
        self._loader = loader
        self._yielded = 0

    def __iter__(self) -> _Iterator:
        return self

    def __len__(self) -> int:
        return len(self._loader)

    def __next__(self) -> Any:
        value = self._next()
        self._yielded += 1
        promised = self._loader._promised
        if promised is not None and self._yielded == promised + 1:
            warnings.warn(
                f"len() of this DataLoader over an IterableDataset was {promised}, but it yields more. With "
                "several workers, divide the stream by get_worker_info(): otherwise each yields all of it",
                UserWarning,
                stacklevel=2,
            )
        return value

    def _next(self) -> Any:
        raise NotImplementedError


class _OwnThread(_Iterator):
    def __init__(self, loader: DataLoader[Any]) -> None:
        super().__init__(loader)
        self._indices = iter(loader._indices())
        self._fetch = loader._fetcher()(loader.dataset)
        self._ended = False

    def _next(self) -> Any:
        value = END if self._ended else self._fetch(next(self._indices))
        if value is END:
            self._ended = True
            raise StopIteration
        return value


class _Threads(_Iterator):
    """Jobs go to the workers in turn, a fixed number ahead; results are put back in order.

    After an error the next call goes on with the next batch. Dropping the iterator, by ``break`` or an
    exception in the loop, ends the threads.
    """

    def __init__(self, loader: DataLoader[Any], workers: Workers, keep: bool) -> None:
        super().__init__(loader)
        self._indices = iter(loader._indices())
        self._workers = workers
        self._pass = Pass()
        self._active = list(range(loader.num_workers))
        self._turn = 0
        self._sent = 0
        self._received = 0
        self._early: dict[int, Result] = {}
        # The threads know the Pass, not this object, so that it can be dropped while they run.
        self._finish = weakref.finalize(self, _finish, self._pass, None if keep else workers)
        for _ in range(loader.num_workers * (loader.prefetch_factor or 1)):
            self._send()

    def _send(self) -> None:
        if not self._active:
            return
        try:
            index = next(self._indices)
        except StopIteration:
            return
        worker = self._active[self._turn % len(self._active)]
        self._turn = (self._turn + 1) % len(self._active)
        self._workers.send(worker, self._pass, self._sent, index)
        self._sent += 1

    def _receive(self) -> Result:
        if not self._loader.in_order:
            return self._wait()
        while self._received not in self._early:
            result = self._wait()
            self._early[result.number] = result
        return self._early.pop(self._received)

    def _wait(self) -> Result:
        timeout = self._loader.timeout
        try:
            return self._pass.results.get(timeout=timeout or None)
        except queue.Empty:
            raise RuntimeError(
                f"DataLoader timed out after {timeout} seconds: no worker delivered a batch; "
                "raise timeout, or look at what the dataset waits for"
            ) from None

    def _next(self) -> Any:
        while self._received < self._sent:
            result = self._receive()
            self._received += 1
            if result.value is END:
                if result.worker in self._active:
                    place = self._active.index(result.worker)
                    self._active.remove(result.worker)
                    self._turn -= place < self._turn
                self._send()
                continue
            self._send()
            try:
                if result.error is not None:
                    raise result.error
                return result.value
            finally:
                del result  # an error that knows this frame, and is known by it, would keep the threads alive
        self._finish()
        raise StopIteration


def _finish(pass_: Pass, workers: Workers | None) -> None:
    pass_.stopped = True
    if workers is not None:
        workers.close()
