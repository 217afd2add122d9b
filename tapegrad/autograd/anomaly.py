"""Anomaly mode: stop at the first entry whose gradient is NaN, and name it."""

from __future__ import annotations

from ..modes import modes


class detect_anomaly:
    """Within the block, a replay that yields NaN is an error naming the op and the user's line that recorded it."""

    def __init__(self, check_nan: bool = True) -> None:
        self._check = check_nan
        self._before: list[bool | None] = []

    def __enter__(self) -> None:
        self._before.append(modes.anomaly)
        modes.anomaly = self._check

    def __exit__(self, *exc: object) -> None:
        modes.anomaly = self._before.pop()


class set_detect_anomaly(detect_anomaly):
    """Switch anomaly mode on or off: at once when called, and back at the end when used as a context."""

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        super().__init__(check_nan)
        self._initial = modes.anomaly
        self._mode: bool | None = check_nan if mode else None
        modes.anomaly = self._mode

    def __enter__(self) -> None:
        self._before.append(self._initial)
        modes.anomaly = self._mode


def is_anomaly_enabled() -> bool:
    """Whether anomaly mode is on in this thread."""
    return modes.anomaly is not None
