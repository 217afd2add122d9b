"""Programs set the number of threads of the process: it is set back after each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import tapegrad as tg


@pytest.fixture(autouse=True)
def threads() -> Iterator[None]:
    before = tg.get_num_threads()
    yield
    tg.set_num_threads(before)
