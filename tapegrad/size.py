"""Size: the shape of a tensor, a tuple with a few methods."""

from __future__ import annotations

import math
from typing import Any


class Size(tuple[int, ...]):
    """A tuple of ints that prints as ``tapegrad.Size([2, 3])``."""

    __slots__ = ()

    def numel(self) -> int:
        """The number of elements of a tensor of this shape."""
        return math.prod(self)

    def __repr__(self) -> str:
        return f"tapegrad.Size({list(self)})"

    def __getitem__(self, key: Any) -> Any:
        found = super().__getitem__(key)
        return Size(found) if isinstance(key, slice) else found

    def __add__(self, other: Any) -> Any:
        return Size(super().__add__(tuple(other)))
