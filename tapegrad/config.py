"""Settings that every floor may read: threads, grain, cache folder, defaults.

Each has an environment override, read once at import:

``TAPEGRAD_NUM_THREADS``  threads for kernels and BLAS (default: the cores this process may use)
``TAPEGRAD_CACHE_DIR``    folder of the kernel cache (default: the user's cache folder)
``TAPEGRAD_GRAIN``        elements below which a loop stays on one thread
``TAPEGRAD_POOL_MB``      how much memory of large results is kept for later ones (default: an eighth of all, at most 2048)
``TAPEGRAD_LINES``        0 switches off the recording of the user's source lines
``TAPEGRAD_MODULES``      1 switches on the recording of which module an entry belongs to
"""

from __future__ import annotations

import os
import pathlib


def _cores() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # macOS and Windows have no affinity call
        return os.cpu_count() or 1


def _memory() -> int:
    """Bytes of main memory."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError):  # not everywhere
        return 1 << 33


def _whole(name: str, default: int, least: int) -> int:
    text = os.environ.get(name, "")
    if not text:
        return default
    try:
        value = int(text)
    except ValueError:
        value = least - 1
    if value < least:
        raise ValueError(f"{name}={text!r}: a whole number of at least {least} is needed")
    return value


def _cache_folder() -> pathlib.Path:
    chosen = os.environ.get("TAPEGRAD_CACHE_DIR")
    if chosen:
        return pathlib.Path(chosen).expanduser()
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return pathlib.Path(base).expanduser() / "tapegrad"


threads: int = _whole("TAPEGRAD_NUM_THREADS", _cores(), 1)
cache_dir: pathlib.Path = _cache_folder()
# A parallel launch costs about 5 us on idle cores and a time slice on busy ones, so it has to be worth it.
grain: int = _whole("TAPEGRAD_GRAIN", 131_072, 1)
# Bytes of large results that are kept for later ones.
pool_bytes: int = _whole("TAPEGRAD_POOL_MB", min(2048, _memory() >> 23), 0) << 20
record_lines: bool = os.environ.get("TAPEGRAD_LINES", "1") != "0"
record_modules: bool = os.environ.get("TAPEGRAD_MODULES", "0") != "0"
# Without it, compiled functions run eagerly: for finding out whether compiling is to blame for something.
compiling: bool = os.environ.get("TAPEGRAD_COMPILE", "1") != "0"
