"""Arguments and results: the tensors in nested tuples, lists and dicts, and the structure around them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..tape import Value


class _Slot:
    """The place of a tensor in a structure."""

    def __repr__(self) -> str:
        return "tensor"


SLOT = _Slot()


def flatten(tree: Any, found: list[Value]) -> Any:
    """The structure of a tree with its tensors taken out, in order; hashable if what else it holds is."""
    if isinstance(tree, Value):
        found.append(tree)
        return SLOT
    kind = type(tree)
    if kind is tuple or kind is list:
        return (kind, *[flatten(x, found) for x in tree])
    if isinstance(tree, tuple):  # a named tuple
        return (kind, *[flatten(x, found) for x in tree])
    if isinstance(tree, dict):
        return (kind, tuple(tree), *[flatten(x, found) for x in tree.values()])
    return tree if isinstance(tree, (str, bytes, int, float, type(None), bool)) else _Other(tree)


class _Other:
    """Some other object, compared by equality if it has a hash, else by identity."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Other):
            return False
        return self.value is other.value or bool(_hashable(self.value) and self.value == other.value)

    def __hash__(self) -> int:
        return hash(self.value) if _hashable(self.value) else id(self.value)


def _hashable(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


def unflatten(structure: Any, leaves: Iterator[Any]) -> Any:
    """The tree of a structure with the next leaves in the places of tensors."""
    if structure is SLOT:
        return next(leaves)
    if type(structure) is _Other:
        return structure.value
    if type(structure) is not tuple:
        return structure
    kind, *items = structure
    if kind is tuple or kind is list:
        return kind(unflatten(x, leaves) for x in items)
    if issubclass(kind, tuple):
        return kind(*[unflatten(x, leaves) for x in items])
    keys, *items = items
    return kind(zip(keys, [unflatten(x, leaves) for x in items], strict=True))
