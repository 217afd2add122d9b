"""Who waits for machine code: it comes with numba, which loads at the first kernel."""

from __future__ import annotations

from collections.abc import Callable

_waiting: list[Callable[[], None]] | None = []  # None: there is machine code


def when_loaded(call: Callable[[], None]) -> None:
    """Call a function as soon as there is machine code."""
    if _waiting is None:
        call()
    else:
        _waiting.append(call)


def loaded() -> None:
    """Say that there is machine code from now on."""
    global _waiting
    calls, _waiting = _waiting, None
    for call in calls or ():
        call()
