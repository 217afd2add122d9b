"""The class of results, and what makes one: a tensor over an array that no entry produced.

Ops are many and small, so modules that make results take the class and :func:`constant` into their own namespace and
keep them up to date there by :func:`share`: the class stands above the ops and makes itself known later, and as soon as there
is machine code, it makes the results.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from . import kernels
from .kernels.loading import when_loaded

_new = object.__new__
Result: Any = object
_scopes: list[dict[str, Any]] = []


def by_steps(array: np.ndarray, char: str) -> Any:
    """A result over an array, without a history; ``char`` is its dtype's character if it is C-contiguous, else ""."""
    made = _new(Result)
    made._array = array
    made._char = char
    made._extra = None
    made._grad = None
    made._index = 0
    made._node = None
    made._version = [0, None]
    made._view = None
    return made


constant = by_steps


def share(scope: dict[str, Any]) -> None:
    """Put ``Result`` and ``constant`` into a namespace, and keep them up to date there."""
    scope.update(Result=Result, constant=constant)
    _scopes.append(scope)


def _update(**news: Any) -> None:
    for scope in _scopes:
        scope.update(news)


def bind(result: type[Any]) -> None:
    """Name the class of results."""
    _update(Result=result)

    def compiled() -> None:
        fixed = {"_extra": None, "_grad": None, "_index": 0, "_node": None, "_view": None}
        _update(constant=kernels.objects.maker(result, ("_array", "_char"), fixed, {"_version": (0, None)}))

    when_loaded(compiled)


share(globals())
