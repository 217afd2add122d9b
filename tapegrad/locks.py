"""The lock for what is rare or short and must not happen in two threads at once.

It is one lock for all, so that no two of them can be taken in different orders, and it is free in a forked child
whatever other threads did at the time of the fork.
"""

from __future__ import annotations

import os
import threading

shared = threading.RLock()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=shared.acquire, after_in_parent=shared.release, after_in_child=shared.release)
