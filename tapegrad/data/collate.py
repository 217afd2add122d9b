"""From a list of samples to a batch: tensors and numbers are stacked, containers are kept."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, MutableMapping, MutableSequence, Sequence
from typing import Any

import numpy as np

from ..creation import as_tensor, tensor
from ..dtypes import float64
from ..ops.shape import stack
from ..tensor import Tensor

_NOT_COLLATABLE = (
    "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {}"
)


def default_collate(batch: Sequence[Any]) -> Any:
    """One batch from a list of samples, with a new first dimension of that length.

    Tensors, NumPy arrays and numbers become a tensor (Python floats: float64); strings and bytes stay a list;
    mappings, namedtuples and sequences are collated entry by entry (a tuple gives a list).
    """
    return collate(batch, collate_fn_map=default_collate_fn_map)


def collate(batch: Sequence[Any], *, collate_fn_map: Mapping[Any, Callable[..., Any]] | None = None) -> Any:
    """As ``default_collate``, with functions of one's own by type of sample.

    ``collate_fn_map``: type, or tuple of types, to ``fn(batch, *, collate_fn_map)``; an exact type is
    preferred, else the first type in order of which the sample is an instance.
    """
    first = batch[0]
    kind = type(first)
    table = {} if collate_fn_map is None else collate_fn_map

    def within(samples: Sequence[Any]) -> Any:
        return collate(samples, collate_fn_map=collate_fn_map)

    if kind in table:
        return table[kind](batch, collate_fn_map=collate_fn_map)
    for types, fn in table.items():
        if isinstance(first, types):
            return fn(batch, collate_fn_map=collate_fn_map)
    if isinstance(first, Mapping):
        return _like_mapping(first, {key: within([sample[key] for sample in batch]) for key in first})
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        return kind(*(within(samples) for samples in zip(*batch, strict=True)))
    if isinstance(first, Sequence):
        if any(len(sample) != len(first) for sample in batch):
            raise RuntimeError(
                "each element in list of batch should be of equal size, "
                f"got sizes {sorted({len(sample) for sample in batch})}; give a collate_fn that pads them"
            )
        parts = [within(samples) for samples in zip(*batch, strict=True)]
        return parts if isinstance(first, tuple) else _like_sequence(first, parts)
    raise TypeError(_NOT_COLLATABLE.format(kind))


def default_convert(data: Any) -> Any:
    """NumPy arrays and numbers within ``data`` as tensors, everything else as it is: no batch is made."""
    if isinstance(data, (Tensor, str, bytes)):
        return data
    if isinstance(data, (np.ndarray, np.generic)):
        return data if data.dtype.kind in "SUO" else as_tensor(data)
    if isinstance(data, Mapping):
        return _like_mapping(data, {key: default_convert(value) for key, value in data.items()})
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*map(default_convert, data))
    if isinstance(data, tuple):
        return [default_convert(value) for value in data]
    if isinstance(data, Sequence):
        return _like_sequence(data, [default_convert(value) for value in data])
    return data


def _like_mapping(first: Mapping[Any, Any], values: dict[Any, Any]) -> Any:
    """``values`` in a mapping of the type of ``first``, which may carry more than its entries."""
    try:
        if isinstance(first, MutableMapping):
            clone = copy.copy(first)
            clone.update(values)
            return clone
        return type(first)(values)  # type: ignore[call-arg]
    except TypeError:  # a type that cannot be copied, updated or made from a dict
        return values


def _like_sequence(first: Sequence[Any], values: list[Any]) -> Any:
    try:
        if isinstance(first, MutableSequence):
            clone = copy.copy(first)
            for i, value in enumerate(values):
                clone[i] = value
            return clone
        return type(first)(values)  # type: ignore[call-arg]
    except TypeError:  # a type that cannot be copied, assigned to or made from a list, such as range
        return values


def _collate_tensors(batch: Sequence[Tensor], *, collate_fn_map: Any = None) -> Any:
    return stack(list(batch), 0)


def _collate_arrays(batch: Sequence[np.ndarray], *, collate_fn_map: Any = None) -> Any:
    if batch[0].dtype.kind in "SUO":
        raise TypeError(_NOT_COLLATABLE.format(batch[0].dtype))
    return collate([as_tensor(array) for array in batch], collate_fn_map=collate_fn_map)


def _collate_numpy_numbers(batch: Sequence[Any], *, collate_fn_map: Any = None) -> Tensor:
    return as_tensor(np.array(batch))


def _collate_floats(batch: Sequence[float], *, collate_fn_map: Any = None) -> Tensor:
    return tensor(list(batch), dtype=float64)


def _collate_ints(batch: Sequence[int], *, collate_fn_map: Any = None) -> Tensor:
    return tensor(list(batch))


def _as_it_is(batch: Sequence[Any], *, collate_fn_map: Any = None) -> Sequence[Any]:
    return batch


# Looked up by default_collate; may be added to.
default_collate_fn_map: dict[Any, Callable[..., Any]] = {
    Tensor: _collate_tensors,
    np.ndarray: _collate_arrays,
    (np.bool_, np.number): _collate_numpy_numbers,
    float: _collate_floats,
    int: _collate_ints,
    str: _as_it_is,
    bytes: _as_it_is,
}
