"""Products that NumPy's BLAS computes: on one thread.

BLAS splits even small products over its threads and lets them wait for one another by spinning. On a machine
whose cores have other work as well, such a product takes as long as the slowest thread takes to be scheduled: a
training step of a small network becomes many times slower than on one thread. Also the bits of some results
depend on the number. Large products, which threads are for, have a kernel of their own; BLAS runs
on one thread here, and is set back at once, since the rest of the process uses it too.
"""

from __future__ import annotations

import os
import threading
from contextlib import AbstractContextManager
from functools import cache as once
from typing import Any

from . import config

# Multiply-adds below which BLAS uses one thread anyway.
ALONE = 1 << 18

_lock = threading.Condition()
_inside = 0
_before = 1
_forking = False


@once
def _library() -> Any:
    """The controller of the BLAS that NumPy loaded, or None."""
    # It looks at all loaded libraries: only when a product is large.
    from threadpoolctl import ThreadpoolController

    found = ThreadpoolController().select(user_api="blas").lib_controllers
    return next((c for c in found if "numpy" in c.filepath), found[0] if found else None)


def set_threads(library: Any, threads: int) -> None:
    """Let a BLAS use that many threads, whichever Python thread asks.

    threadpoolctl lets only the Python thread that set a number first change it again, and ignores all others;
    whoever calls this counts the blocks of all threads, and the last one out may be another than the first one in.
    """
    release = getattr(library, "clear_controlling_thread", None)
    if release is not None:
        release(force=True)
    library.set_num_threads(threads)
    if release is not None:
        release(force=True)


class _OneThread:
    """Within the block, BLAS uses one thread; blocks may overlap in several Python threads."""

    __slots__ = ()

    def __enter__(self) -> None:
        global _inside, _before
        with _lock:
            while _forking:
                _lock.wait()
            if not _inside:
                library = _library()
                if library is not None:
                    _before = library.get_num_threads()
                    if _before > 1:
                        set_threads(library, 1)
            _inside += 1

    def __exit__(self, *exc: object) -> None:
        global _inside
        with _lock:
            _inside -= 1
            if not _inside:
                if _before > 1:
                    set_threads(_library(), _before)
                _lock.notify_all()


class _AsIs:
    """Within the block, BLAS is as it was."""

    __slots__ = ()

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exc: object) -> None:
        pass


def _before_fork() -> None:
    """Wait until no other thread is inside a product: OpenBLAS would hang, here or in the child."""
    global _forking
    _lock.acquire()
    _forking = True
    while _inside:
        _lock.wait()


def _after_fork() -> None:
    global _forking
    _forking = False
    _lock.notify_all()
    _lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)

_one_thread, _as_is = _OneThread(), _AsIs()


def one_thread(work: int) -> AbstractContextManager[Any]:
    """A context for a product of ``work`` multiply-adds, in which BLAS uses one thread."""
    return _as_is if work <= ALONE or config.threads == 1 else _one_thread
