"""Dimensions as users write them: negative, several, absent; and the errors when they do not fit."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any


def wrap_dim(dim: Any, rank: int, *, scalar_ok: bool = True) -> int:
    """A dimension counted from the end made positive; IndexError if it is out of range."""
    try:
        d = operator.index(dim)
    except TypeError:
        raise TypeError(f"a dimension must be an int, got {type(dim).__name__}") from None
    span = rank if rank or not scalar_ok else 1
    if not -span <= d < span:
        if not span:
            raise IndexError(f"Dimension specified as {d} but tensor has no dimensions")
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-span}, {span - 1}], but got {d})"
        )
    return d + span if d < 0 else d


def wrap_dims(dims: Any, rank: int, *, empty_is_all: bool = True) -> tuple[int, ...]:
    """Several dimensions, or all of them for None (and for an empty list)."""
    if dims is None:
        return tuple(range(rank))
    items = dims if isinstance(dims, (tuple, list)) else (dims,)
    if not items and empty_is_all:
        return tuple(range(rank))
    wrapped = [wrap_dim(d, rank) for d in items]
    if len(set(wrapped)) != len(wrapped):
        raise RuntimeError(f"dim {dims} appears multiple times in the list of dims")
    return tuple(wrapped) if rank else ()


def refuse_bools(array: Any, name: str) -> None:
    """NotImplementedError for an array of bools."""
    if array.dtype.char == "?":
        raise NotImplementedError(f"\"{name}_cpu\" not implemented for 'Bool'; convert with .int() first")


def shape_args(args: Sequence[Any], name: str = "size") -> tuple[int, ...]:
    """A shape given as several ints or as one sequence."""
    if len(args) == 1 and isinstance(args[0], (tuple, list)):
        args = args[0]
    sizes = []
    for a in args:
        try:
            sizes.append(operator.index(a))
        except TypeError:
            raise TypeError(
                f"{name}: a shape must be made of ints, got {type(a).__name__} in {tuple(args)!r}"
            ) from None
    return tuple(sizes)


def resolve_shape(shape: tuple[int, ...], size: int, old: tuple[int, ...]) -> tuple[int, ...]:
    """A shape with its one -1 filled in."""
    if shape.count(-1) > 1:
        raise RuntimeError("only one dimension can be inferred")
    if any(n < -1 for n in shape):
        raise RuntimeError(f"invalid shape dimension {min(shape)}")
    known = 1
    for n in shape:
        known *= n if n != -1 else 1
    if -1 in shape:
        if known == 0:
            if size == 0:
                raise RuntimeError(
                    f"cannot reshape tensor of 0 elements into shape {list(shape)} because the unspecified dimension "
                    "size -1 can be any value and is ambiguous"
                )
        elif size % known == 0:
            return tuple(size // known if n == -1 else n for n in shape)
    elif known == size:
        return shape
    raise RuntimeError(f"shape '{list(shape)}' is invalid for input of size {size} (shape {list(old)})")
