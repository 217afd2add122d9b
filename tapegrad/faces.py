"""What users call says so when it was given something else where a tensor belongs.

The functions of the families read their tensors' arrays without looking first, since methods and other operations
call them with tensors only. What is exported to users turns the failure into PyTorch's TypeError.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, MutableMapping
from types import FunctionType
from typing import Any

from .tape import Value


def export(namespace: MutableMapping[str, Any], names: Iterable[str]) -> None:
    """Put the checked form of functions into a namespace that users see; what checks by itself stays as it is."""
    for name in names:
        function = namespace[name]
        if isinstance(function, FunctionType) and not hasattr(function, "op"):
            checked = namespace[name] = expecting_tensors(function)
            # Where it is found, so that it can be pickled.
            checked.__module__, checked.__qualname__ = namespace["__name__"], name


def expecting_tensors(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, with a TypeError that names the argument which should have been a tensor."""

    @functools.wraps(function)
    def checked(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except AttributeError as err:
            text = _text(function, err.obj, args, kwargs)
            if text is None:
                raise
        raise TypeError(text)

    return checked


def _text(
    function: Callable[..., Any], given: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> str | None:
    """The message, or None if the failure has nothing to do with an argument that is no tensor."""
    if isinstance(given, Value):
        return None
    names = list(inspect.signature(function).parameters)
    for j, arg in enumerate(args):
        if arg is given:
            name = f"'{names[j]}' (position {j + 1})" if j < len(names) else f"{j + 1}"
            return f"{function.__name__}(): argument {name} must be Tensor, not {type(given).__name__}"
        if isinstance(arg, (tuple, list)) and any(x is given for x in arg):
            return f"{function.__name__}(): argument {j + 1} must hold tensors, not {type(given).__name__}"
    for key, arg in kwargs.items():
        if arg is given:
            return f"{function.__name__}(): argument '{key}' must be Tensor, not {type(given).__name__}"
    return None
