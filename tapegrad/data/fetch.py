"""Reading one batch (or one sample) from a dataset, in whatever thread."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from .collate import default_collate
from .dataset import samples_of, taker

Fetch = Callable[[Any], Any]  # from indices (or one index) to what the loader yields
END = object()  # in place of a batch: an iterable dataset is exhausted


def map_fetch(dataset: Any, collate: Callable[[Any], Any], batched: bool) -> Fetch:
    """Fetch from a map-style dataset: a batch for a list of indices, or one sample for an index."""
    if not batched:
        return lambda index: collate(dataset[index])
    take = taker(dataset) if collate is default_collate else None

    def fetch(indices: list[Any]) -> Any:
        if take is not None and indices and all(type(i) is int for i in indices):
            return take(indices)
        return collate(samples_of(dataset, indices))

    return fetch


def stream_fetch(dataset: Any, collate: Callable[[Any], Any], batched: bool, drop_last: bool) -> Fetch:
    """Fetch from an iterable dataset: as many samples as there are places, END when none is left."""
    stream = iter(dataset)
    if not batched:

        def fetch_one(_: Any) -> Any:
            sample = next(stream, END)
            return END if sample is END else collate(sample)

        return fetch_one

    def fetch(places: list[Any]) -> Any:
        samples = list(itertools.islice(stream, len(places)))
        if not samples or (drop_last and len(samples) < len(places)):
            return END
        return collate(samples)

    return fetch
