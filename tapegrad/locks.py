"""The lock for what is rare or short and must not happen in two threads at once.

It is one lock for all, so that no two of them can be taken in different orders, and it is free in a forked child
whatever other threads did at the time of the fork.
"""

from __future__ import annotations

# Whoever compiles holds the lock below and logs, and a fork takes logging's lock as well. It must take it after this one, as
# they do: what registers first is asked last before a fork.
import logging as _logging  # noqa: F401
import os
import threading

shared = threading.RLock()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=shared.acquire, after_in_parent=shared.release, after_in_child=shared.release)
