"""Parameters in nested containers, as one float64 vector and back.

A tree is a tensor, a NumPy array or a number, or a dict, list, tuple or namedtuple of trees. A module counts as the
dict of its parameters that require grad.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ..tensor import Tensor


def is_module(tree: Any) -> bool:
    """Whether this is a network; its class lives beside this package and is not imported for it."""
    return callable(getattr(tree, "named_parameters", None))


def named_leaves(tree: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Every leaf with the way to it, such as "['layers'][0]"; the order is that of the containers."""
    if is_module(tree):
        yield from ((f"{name}.{key}", p) for key, p in tree.named_parameters() if p.requires_grad)
    elif isinstance(tree, Mapping):
        for key, child in tree.items():
            yield from named_leaves(child, f"{name}[{key!r}]")
    elif isinstance(tree, (list, tuple)):
        for key, child in zip(getattr(tree, "_fields", range(len(tree))), tree, strict=True):
            yield from named_leaves(child, f"{name}.{key}" if isinstance(key, str) else f"{name}[{key}]")
    else:
        yield name or "params", tree


def rebuild(tree: Any, leaves: Iterator[Any]) -> Any:
    """The same containers with other leaves; of a module a dict by parameter name."""
    if is_module(tree):
        return {key: next(leaves) for key, p in tree.named_parameters() if p.requires_grad}
    if isinstance(tree, Mapping):
        return {key: rebuild(child, leaves) for key, child in tree.items()}
    if isinstance(tree, (list, tuple)):
        made = [rebuild(child, leaves) for child in tree]
        if isinstance(tree, list):
            return made
        return type(tree)(*made) if hasattr(tree, "_fields") else tuple(made)
    return next(leaves)


def start_array(name: str, leaf: Any, where: str) -> np.ndarray:
    """A leaf as a float64 array of its own."""
    if isinstance(leaf, Tensor):
        leaf = leaf.detach().numpy()
    if isinstance(leaf, bool) or not isinstance(leaf, (int, float, np.ndarray, np.floating)):
        raise TypeError(
            f"{where}: {name} is a {type(leaf).__name__}; parameters are floating tensors, arrays or numbers, in "
            "dicts, lists and tuples, or a module"
        )
    if isinstance(leaf, np.ndarray) and leaf.dtype.kind != "f":
        raise TypeError(
            f"{where}: {name} has dtype {leaf.dtype}, which cannot be optimized; convert it to float64"
        )
    return np.array(leaf, dtype=np.float64)


def pack(arrays: Sequence[np.ndarray]) -> np.ndarray:
    """One vector of all elements."""
    return np.concatenate([np.ravel(a) for a in arrays]) if arrays else np.zeros(0)


def unpack(vector: np.ndarray, shapes: Sequence[tuple[int, ...]]) -> list[np.ndarray]:
    """Arrays of these shapes, copied out of the vector."""
    found, start = [], 0
    for shape in shapes:
        stop = start + math.prod(shape)
        found.append(np.array(vector[start:stop], dtype=np.float64).reshape(shape))
        start = stop
    return found


def bound_vectors(
    bounds: Any, tree: Any, shapes: Sequence[tuple[int, ...]], where: str
) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper bounds of every element from a pair of trees.

    A tree of bounds may end early: what stands there (None for "no bound", a number, a tensor that
    broadcasts) holds for every leaf below.
    """
    if not isinstance(bounds, (tuple, list)) or len(bounds) != 2:
        raise TypeError(
            f"{where}: bounds is a pair (lower, upper), each None, a number, or a tree like the parameters' own; "
            f"got {type(bounds).__name__}"
        )
    names = [name for name, _ in named_leaves(tree)]
    found = []
    for side, free, word in zip(bounds, (-np.inf, np.inf), ("lower", "upper"), strict=True):
        values = list(_spread(side, tree, word, where))
        arrays = []
        for name, value, shape in zip(names, values, shapes, strict=True):
            array = (
                np.array(free) if value is None else start_array(f"the {word} bound of {name}", value, where)
            )
            if np.isnan(array).any():
                raise ValueError(f"{where}: the {word} bound of {name} is NaN")
            try:
                arrays.append(np.broadcast_to(array, shape))
            except ValueError:
                raise ValueError(
                    f"{where}: the {word} bound of {name} has shape {list(array.shape)}, which does not broadcast to "
                    f"the parameter's shape {list(shape)}"
                ) from None
        found.append(pack(arrays))
    return found[0], found[1]


def _spread(side: Any, tree: Any, word: str, where: str, name: str = "params") -> Iterator[Any]:
    """One bound per leaf of the tree."""
    if side is None or isinstance(side, (int, float, Tensor, np.ndarray, np.floating)):
        yield from (side for _ in named_leaves(tree))
        return
    if is_module(tree):
        tree = {key: p for key, p in tree.named_parameters() if p.requires_grad}

    def both(kind: type | tuple[type, ...]) -> bool:
        return isinstance(side, kind) and isinstance(tree, kind)

    if both(Mapping) and set(side) == set(tree):
        pairs = [(f"{name}[{key!r}]", side[key], tree[key]) for key in tree]
    elif both((list, tuple)) and len(side) == len(tree):
        pairs = [(f"{name}[{i}]", a, b) for i, (a, b) in enumerate(zip(side, tree, strict=True))]
    else:
        raise ValueError(
            f"{where}: the {word} bounds differ in structure from the parameters at {name}: {_shape(side)} for "
            f"{_shape(tree)}"
        )
    for inner, a, b in pairs:
        yield from _spread(a, b, word, where, inner)


def _shape(tree: Any) -> str:
    if isinstance(tree, Mapping):
        return f"a dict with keys {list(tree)}"
    if isinstance(tree, (list, tuple)):
        return f"a {type(tree).__name__} of {len(tree)}"
    return f"a {type(tree).__name__}"
