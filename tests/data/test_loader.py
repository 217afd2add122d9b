"""DataLoader: order, batching, worker threads, errors, and that nothing is left running."""

from __future__ import annotations

import gc
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import tapegrad as tg
from tapegrad.data import DataLoader, Dataset, IterableDataset, Subset, TensorDataset, get_worker_info


class Numbers(Dataset[int]):
    """0 .. size-1; ``before(index)`` runs before a sample is returned."""

    def __init__(self, size: int, before: Callable[[int], object] = lambda index: None) -> None:
        self.size, self.before = size, before

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> int:
        self.before(index)
        return index


class Stream(IterableDataset[int]):
    def __init__(self, start: int, stop: int, share: bool = False) -> None:
        self.start, self.stop, self.share = start, stop, share

    def __iter__(self) -> Iterator[int]:
        info = get_worker_info()
        if self.share and info is not None:
            return iter(range(self.start + info.id, self.stop, info.num_workers))
        return iter(range(self.start, self.stop))

    def __len__(self) -> int:
        return self.stop - self.start


def lists(loader: Any) -> list[Any]:
    return [batch.tolist() for batch in loader]


def workers_alive() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("tapegrad-data")]


@pytest.fixture(autouse=True)
def no_thread_stays() -> Iterator[None]:
    yield
    gc.collect()
    assert workers_alive() == []


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_batches_in_order(workers: int) -> None:
    loader = DataLoader(Numbers(10), batch_size=4, num_workers=workers)
    assert lists(loader) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert len(loader) == 3
    short = DataLoader(Numbers(10), batch_size=4, num_workers=workers, drop_last=True)
    assert lists(short) == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert len(short) == len(iter(short)) == 2
    assert lists(DataLoader(Numbers(2), num_workers=workers)) == [[0], [1]]
    assert lists(DataLoader(Numbers(0), num_workers=workers)) == []


def test_workers_prefetch_and_keep_the_order() -> None:
    loader = DataLoader(
        Numbers(12, lambda i: time.sleep(0.02 if i % 3 == 0 else 0)), num_workers=3, prefetch_factor=2
    )
    assert lists(loader) == [[i] for i in range(12)]


def test_no_more_than_the_prefetched_batches_are_read_ahead() -> None:
    read: list[int] = []
    iterator = iter(DataLoader(Numbers(100, read.append), num_workers=2, prefetch_factor=3))
    next(iterator)
    time.sleep(0.1)
    assert sorted(read) == list(range(7))
    del iterator


def test_out_of_order() -> None:
    def first_is_slow(index: int) -> None:
        time.sleep(0.2 if index == 0 else 0)

    loader = DataLoader(Numbers(6, first_is_slow), num_workers=2, in_order=False)
    got = lists(loader)
    assert sorted(got) == [[i] for i in range(6)]
    assert got[0] != [0]


def test_shuffle_is_fixed_by_generator_and_seed_whatever_the_workers() -> None:
    def epochs(workers: int) -> list[Any]:
        loader = DataLoader(
            Numbers(20), 5, shuffle=True, num_workers=workers, generator=tg.Generator().manual_seed(7)
        )
        return [lists(loader), lists(loader)]

    one, two = epochs(0)
    assert sorted(sum(one, [])) == list(range(20))
    assert one != two
    assert epochs(2) == [one, two]
    tg.manual_seed(1)
    first = lists(DataLoader(Numbers(20), 5, shuffle=True))
    tg.manual_seed(1)
    assert lists(DataLoader(Numbers(20), 5, shuffle=True)) == first


def test_sampler_batch_sampler_and_no_batching() -> None:
    assert lists(DataLoader(Numbers(9), batch_size=2, sampler=[3, 1, 8])) == [[3, 1], [8]]
    loader = DataLoader(Numbers(9), batch_sampler=[[1], [5, 6, 7]])
    assert lists(loader) == [[1], [5, 6, 7]]
    assert len(loader) == 2
    assert loader.batch_size is None
    single = DataLoader(Numbers(3), batch_size=None)
    assert list(single) == [0, 1, 2]
    assert len(single) == 3
    assert list(DataLoader(Numbers(3), batch_size=None, num_workers=2)) == [0, 1, 2]


def test_collate_fn() -> None:
    assert list(DataLoader(Numbers(5), batch_size=2, collate_fn=sum)) == [1, 5, 4]
    assert list(DataLoader(Numbers(3), batch_size=None, collate_fn=str)) == ["0", "1", "2"]


def test_tensor_dataset_batches_are_whole_rows() -> None:
    x, y = tg.arange(12.0).reshape(6, 2), tg.arange(6)
    for workers in (0, 2):
        batches = list(DataLoader(TensorDataset(x, y), batch_size=4, num_workers=workers))
        assert [b[0].tolist() for b in batches] == [x[:4].tolist(), x[4:].tolist()]
        assert [b[1].tolist() for b in batches] == [[0, 1, 2, 3], [4, 5]]
        for features, labels in DataLoader(
            Subset(TensorDataset(x, y), [5, 0]), batch_size=2, num_workers=workers
        ):
            assert features.tolist() == [[10.0, 11.0], [0.0, 1.0]]
            assert labels.tolist() == [5, 0]


def test_rows_keep_their_history() -> None:
    w = tg.ones(4, requires_grad=True)
    for (batch,) in DataLoader(TensorDataset(w * 3), batch_size=3):
        batch.sum().backward(retain_graph=True)
    assert w.grad.tolist() == [3.0] * 4


@pytest.mark.parametrize("workers", [0, 1, 2])
def test_stream(workers: int) -> None:
    loader = DataLoader(Stream(0, 10, share=True), batch_size=2, num_workers=workers)
    assert sorted(sum(lists(loader), [])) == list(range(10))
    assert len(loader) == 5
    dropped = lists(DataLoader(Stream(0, 10, share=True), batch_size=3, num_workers=workers, drop_last=True))
    assert all(len(batch) == 3 for batch in dropped)
    assert sorted(DataLoader(Stream(0, 5, share=True), batch_size=None, num_workers=workers)) == list(
        range(5)
    )


def test_stream_workers_take_turns_until_each_has_ended() -> None:
    class Uneven(Stream):
        def __iter__(self) -> Iterator[int]:
            info = get_worker_info()
            assert info is not None
            return iter([[0], [10, 11, 12, 13], [20, 21]][info.id])

    assert lists(DataLoader(Uneven(0, 7), num_workers=3)) == [[0], [10], [20], [11], [21], [12], [13]]


def test_a_stream_longer_than_its_len_is_told() -> None:
    loader = DataLoader(Stream(0, 4), batch_size=None, num_workers=2)
    assert len(loader) == 4
    with pytest.warns(UserWarning, match="len.. of this DataLoader .* was 4, but it yields more"):
        assert sorted(loader) == [0, 0, 1, 1, 2, 2, 3, 3]


def test_worker_init_fn_divides_a_stream() -> None:
    def divide(worker: int) -> None:
        info = get_worker_info()
        assert info is not None
        assert info.id == worker
        share = (info.dataset.stop - info.dataset.start) // info.num_workers
        info.dataset.start += worker * share
        info.dataset.stop = info.dataset.start + share

    stream = Stream(0, 8)
    loader = DataLoader(stream, batch_size=2, num_workers=2, worker_init_fn=divide)
    assert lists(loader) == [[0, 1], [4, 5], [2, 3], [6, 7]]
    assert lists(loader) == [[0, 1], [4, 5], [2, 3], [6, 7]]
    assert (stream.start, stream.stop) == (0, 8)


def test_worker_info() -> None:
    seen = {}

    def note(_: int) -> None:
        info = get_worker_info()
        assert info is not None
        seen[info.id] = (info.num_workers, info.seed, threading.current_thread().name)

    data = Numbers(8, note)
    list(DataLoader(data, num_workers=2, generator=tg.Generator().manual_seed(0)))
    assert sorted(seen) == [0, 1]
    assert seen[0][0] == 2
    assert seen[1][1] == seen[0][1] + 1
    before = dict(seen)
    list(DataLoader(data, num_workers=2, generator=tg.Generator().manual_seed(0)))
    assert seen == before
    assert get_worker_info() is None


class Custom(Exception):
    def __init__(self, code: int, *, text: str) -> None:
        super().__init__(f"{code}: {text}")
        self.code = code


def fail_at(place: int) -> Callable[[int], None]:
    def check(index: int) -> None:
        if index == place:
            raise Custom(place, text="bad sample")

    return check


def test_an_exception_of_a_worker_arrives_whole() -> None:
    iterator = iter(DataLoader(Numbers(6, fail_at(3)), num_workers=2))
    assert [next(iterator).item() for _ in range(3)] == [0, 1, 2]
    with pytest.raises(Custom, match="3: bad sample") as caught:
        next(iterator)
    assert caught.value.code == 3
    assert caught.value.__notes__ == ["(raised in worker thread 1 of a DataLoader, for batch 3)"]
    assert [entry.name for entry in caught.traceback][-2:] == ["__getitem__", "check"]
    # As in PyTorch, the batches after the bad one can still be had.
    assert [batch.item() for batch in iterator] == [4, 5]


@pytest.mark.parametrize("workers", [0, 2])
def test_errors_of_init_and_collate(workers: int) -> None:
    def fail(_: Any) -> None:
        raise KeyError("missing")

    with pytest.raises(KeyError, match="missing"):
        list(DataLoader(Numbers(4), num_workers=workers, collate_fn=fail))
    if workers:
        with pytest.raises(KeyError, match="missing"):
            list(DataLoader(Numbers(4), num_workers=workers, worker_init_fn=fail))


def test_an_error_ends_the_threads_once_it_is_dealt_with() -> None:
    gc.disable()
    try:
        with pytest.raises(Custom):
            list(DataLoader(Numbers(4, fail_at(1)), num_workers=2))
        # Its traceback held the iterator; no cycle does.
        assert workers_alive() == []
    finally:
        gc.enable()


def test_break_ends_the_threads_without_the_garbage_collector() -> None:
    gc.disable()
    try:
        for batch in DataLoader(Numbers(1000, lambda i: time.sleep(0.001)), num_workers=3):
            assert len(workers_alive()) == 3
            if batch.item() == 5:
                break
        assert workers_alive() == []
    finally:
        gc.enable()


def test_batches_are_let_go() -> None:
    class Batch:
        pass

    loader = DataLoader(Numbers(6), num_workers=2, collate_fn=lambda batch: Batch())
    alive: list[weakref.ref[Batch]] = []
    for batch in loader:
        alive.append(weakref.ref(batch))
        assert sum(ref() is not None for ref in alive) == 1
    del batch


def test_timeout() -> None:
    loader = DataLoader(Numbers(2, lambda i: time.sleep(0.5)), num_workers=1, timeout=0.05)
    with pytest.raises(RuntimeError, match=r"timed out after 0.05 seconds"):
        next(iter(loader))


def test_persistent_workers() -> None:
    starts: list[int] = []
    loader = DataLoader(
        Numbers(6), batch_size=2, num_workers=2, persistent_workers=True, worker_init_fn=starts.append
    )
    for _ in range(3):
        assert lists(loader) == [[0, 1], [2, 3], [4, 5]]
    for batch in loader:
        assert batch.tolist() == [0, 1]
        break
    assert lists(loader) == [[0, 1], [2, 3], [4, 5]]
    assert sorted(starts) == [0, 1]
    assert len(workers_alive()) == 2
    del loader
    assert workers_alive() == []


def test_persistent_stream_starts_anew_each_time() -> None:
    loader = DataLoader(Stream(0, 4, share=True), num_workers=2, persistent_workers=True)
    assert lists(loader) == lists(loader) == [[0], [1], [2], [3]]


def test_two_iterators_at_once() -> None:
    loader = DataLoader(Numbers(4), num_workers=2)
    assert [(a.item(), b.item()) for a, b in zip(loader, loader, strict=True)] == [(i, i) for i in range(4)]


def test_recording_is_on_in_workers_and_untouched_outside() -> None:
    seen = []
    data = Numbers(2, lambda i: seen.append(tg.is_grad_enabled()))
    with tg.no_grad():
        list(DataLoader(data, num_workers=1))
        assert not tg.is_grad_enabled()
    assert seen == [True, True]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_workers": -1}, "num_workers option should be non-negative"),
        ({"timeout": -1}, "timeout option should be non-negative"),
        ({"prefetch_factor": 2}, "prefetch_factor option needs num_workers > 0"),
        ({"prefetch_factor": 0, "num_workers": 1}, "at least 1"),
        ({"persistent_workers": True}, "persistent_workers option needs num_workers > 0"),
        ({"shuffle": True, "sampler": [0]}, "sampler option is mutually exclusive with shuffle"),
        ({"batch_sampler": [[0]], "batch_size": 2}, "batch_sampler option is mutually exclusive"),
        ({"batch_sampler": [[0]], "shuffle": True}, "batch_sampler option is mutually exclusive"),
        ({"batch_sampler": [[0]], "drop_last": True}, "batch_sampler option is mutually exclusive"),
        ({"batch_size": None, "drop_last": True}, "mutually exclusive with drop_last"),
        ({"batch_size": 0}, "batch_size should be a positive integer"),
        ({"multiprocessing_context": "spawn", "num_workers": 1}, "workers are threads"),
        ({"pin_memory_device": "cuda"}, "not supported"),
    ],
)
def test_options_that_do_not_fit(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        DataLoader(Numbers(3), **options)


@pytest.mark.parametrize("options", [{"shuffle": True}, {"sampler": [0]}, {"batch_sampler": [[0]]}])
def test_options_that_do_not_fit_a_stream(options: dict[str, Any]) -> None:
    (name,) = options
    with pytest.raises(ValueError, match=f"IterableDataset: expected unspecified {name} option"):
        DataLoader(Stream(0, 3), **options)


def test_pin_memory_warns_as_on_any_machine_without_accelerator() -> None:
    with pytest.warns(UserWarning, match="pin_memory=True has no effect"):
        DataLoader(Numbers(3), pin_memory=True)


def test_what_samplers_were_made_from_is_fixed() -> None:
    loader = DataLoader(Numbers(3))
    for name in ("batch_size", "dataset", "sampler", "batch_sampler", "drop_last", "persistent_workers"):
        with pytest.raises(ValueError, match=f"{name} attribute should not be set after DataLoader"):
            setattr(loader, name, None)
    loader.timeout = 1
