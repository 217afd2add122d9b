"""Every test draws the same random numbers whenever it runs, alone or among others.

To look for new cases: `pytest --hypothesis-profile=default`.
"""

from __future__ import annotations

import zlib

import hypothesis
import pytest

import tapegrad as tg

try:
    import torch
except ImportError:  # the tests that compare with it are skipped
    torch = None

hypothesis.settings.register_profile("repeatable", derandomize=True)
hypothesis.settings.load_profile("repeatable")


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Seed every generator that a test may draw from by its name."""
    seed = zlib.crc32(item.nodeid.encode())
    tg.manual_seed(seed)
    if torch is not None:
        torch.manual_seed(seed)
