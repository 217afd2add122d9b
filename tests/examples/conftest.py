"""Programs run on one thread here, since tests run in several processes; some set the number themselves."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import tapegrad as tg


@pytest.fixture(autouse=True)
def threads() -> Iterator[None]:
    before = tg.get_num_threads()
    tg.set_num_threads(1)
    yield
    tg.set_num_threads(before)
