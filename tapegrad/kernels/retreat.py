"""When several threads are of no use: on cores that have other work.

There, threads that wait for one another make a step ten times slower than one thread would be. After a parallel region
that lost much of its time so, all work is serial for a while.
"""

from __future__ import annotations

import time


class Retreat:
    """What the last parallel regions lost, and until when there shall be none. Times are in seconds.

    A region loses time while the calling thread has no core, or waits for one that has none. That is the time it took
    less the processor time of the calling thread, which spins while it waits for as long as is usual. To ask for
    processor time takes two microseconds, so only a region that follows a long one is measured.
    """

    LOST, SHARE = 1e-3, 0.25  # a region that lost so much, and this share of its time, is the last one
    FIRST, LONGEST = 0.02, 1.0  # for so long, and twice as long each time in a row

    def __init__(self) -> None:
        self.until = 0.0
        self.pause = self.FIRST
        self.alert = False
        self.began = self.own = 0.0

    def possible(self) -> bool:
        """Whether a region may begin; its clock runs from now on."""
        self.began = time.perf_counter()
        if self.began < self.until:
            return False
        if self.alert:
            self.own = time.thread_time()
        return True

    def consider(self) -> None:
        """After the region, on the thread that began it."""
        now = time.perf_counter()
        took = now - self.began
        measured, self.alert = self.alert, took > self.LOST
        if not (measured and self.alert):
            return
        if took - (time.thread_time() - self.own) > max(self.LOST, self.SHARE * took):
            self.until = now + self.pause
            self.pause = min(2 * self.pause, self.LONGEST)
        else:
            self.pause = self.FIRST


retreat = Retreat()
