"""Programs that run in a process of their own: for what a process can do only once, or may not survive."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Sequence


def start(code: str, args: Sequence[str] = (), env: dict[str, str] | None = None) -> subprocess.Popen[str]:
    """Start Python on a program; warnings go to its standard error, all of them."""
    return subprocess.Popen(
        [sys.executable, "-W", "always", "-c", textwrap.dedent(code), *args],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONFAULTHANDLER": "1", **(env or {})},
    )


def finish(process: subprocess.Popen[str], timeout: float = 120) -> tuple[str, str]:
    """Wait for a program; what it printed and its standard error. A failure or a hang fails the test."""
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        raise AssertionError(f"still running after {timeout} s\n{out}\n{err}") from None
    assert process.returncode == 0, f"ended with {process.returncode}\n{out}\n{err}"
    return out, err


def run(code: str, *args: str, **env: str) -> tuple[str, str]:
    """Standard output and standard error of a program."""
    return finish(start(code, args, env))
