"""Worker threads of a DataLoader.

Each worker has its own queue of jobs; what it makes goes to the queue of results of the pass (one
iteration over the loader) that asked for it. Reading files, decompressing and NumPy release
Python's global lock, so that threads load while the training step computes; nothing is copied between
processes, and datasets need not be picklable.
"""

from __future__ import annotations

import dataclasses
import queue
import threading
from collections.abc import Callable
from typing import Any

from .fetch import Fetch

# A worker that is in the middle of a sample cannot be stopped; it is waited for this long.
PATIENCE_SECONDS = 5.0


@dataclasses.dataclass(frozen=True)
class WorkerInfo:
    """What a worker knows of itself; see ``get_worker_info``."""

    id: int
    num_workers: int
    seed: int
    dataset: Any


_local = threading.local()


def get_worker_info() -> WorkerInfo | None:
    """In a worker thread: its id, the number of workers, its seed and its dataset. Elsewhere: None.

    Random generators are shared by all threads: a dataset that draws numbers in workers makes its own
    from ``seed``. ``dataset`` is the loader's own object, or for an IterableDataset a shallow copy of it,
    so that ``worker_init_fn`` can give each worker its share.
    """
    info: WorkerInfo | None = getattr(_local, "info", None)
    return info


@dataclasses.dataclass(frozen=True)
class Result:
    """What became of one job."""

    number: int
    worker: int
    value: Any = None
    error: BaseException | None = None


class Pass:
    """What one iteration over a loader shares with the workers."""

    def __init__(self) -> None:
        self.results: queue.SimpleQueue[Result] = queue.SimpleQueue()
        self.stopped = False


class Worker(threading.Thread):
    """Answers jobs in order. ``make_fetch(dataset)`` is called once per pass."""

    def __init__(
        self, info: WorkerInfo, make_fetch: Callable[[Any], Fetch], init: Callable[[int], object] | None
    ) -> None:
        # A daemon: a program may end while a worker waits for a file or for its next job.
        super().__init__(name=f"tapegrad-data-{info.id}", daemon=True)
        self.info = info
        self.make_fetch = make_fetch
        self.init = init
        self.jobs: queue.SimpleQueue[tuple[Pass, int, Any] | None] = queue.SimpleQueue()

    def run(self) -> None:
        _local.info = self.info
        fetch: Fetch | None = None
        present: Pass | None = None
        while (job := self.jobs.get()) is not None:
            pass_, number, index = job
            if not pass_.stopped:
                try:
                    if self.init is not None:
                        self.init(self.info.id)
                        self.init = None
                    if fetch is None or present is not pass_:
                        present, fetch = pass_, self.make_fetch(self.info.dataset)
                    result = Result(number, self.info.id, fetch(index))
                except BaseException as err:  # noqa: BLE001  # it is raised again where the batch is asked for
                    err.add_note(
                        f"(raised in worker thread {self.info.id} of a DataLoader, for batch {number})"
                    )
                    result = Result(number, self.info.id, error=err)
                pass_.results.put(result)
                del result
            # While this thread waits it must not keep a batch or a finished pass alive.
            del job, pass_, index


class Workers:
    """The threads of one loader, or of one pass over it."""

    def __init__(
        self,
        datasets: list[Any],
        seed: int,
        make_fetch: Callable[[Any], Fetch],
        init: Callable[[int], object] | None,
    ) -> None:
        self.threads = [
            Worker(WorkerInfo(i, len(datasets), seed + i, dataset), make_fetch, init)
            for i, dataset in enumerate(datasets)
        ]
        for thread in self.threads:
            thread.start()

    def send(self, worker: int, pass_: Pass, number: int, index: Any) -> None:
        """Give a worker a job."""
        self.threads[worker].jobs.put((pass_, number, index))

    def close(self) -> None:
        """Let the threads end after what they are doing, and wait for that."""
        for thread in self.threads:
            thread.jobs.put(None)
        for thread in self.threads:
            # The garbage collector may have called this from one of the threads.
            if thread is not threading.current_thread():
                thread.join(PATIENCE_SECONDS)
