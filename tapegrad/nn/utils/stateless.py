"""Calling a module with other parameters than its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from typing import Any

from ...tensor import Tensor
from ..module import Module


def functional_call(
    module: Module,
    parameters_and_buffers: MutableMapping[str, Tensor],
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """``module(*args, **kwargs)`` with the given tensors in the places of its parameters and buffers.

    Gradients go to the given tensors. What is not given stays. ``tie_weights``: a tensor that the module
    holds under several names is replaced under all of them. ``strict``: every name must be given. Buffers
    that the call replaces are put into ``parameters_and_buffers``.
    """
    given = () if args is None else args if isinstance(args, tuple) else (args,)
    with swapped(module, parameters_and_buffers, tie_weights, strict):
        return module(*given, **(kwargs or {}))


@contextmanager
def swapped(
    module: Module, tensors: MutableMapping[str, Tensor], tie_weights: bool = True, strict: bool = False
) -> Iterator[None]:
    """Within the block the module has other tensors."""
    places = _places(module)
    _check(places, tensors, strict)
    wanted = _tied(places, tensors) if tie_weights else dict(tensors)
    before = {name: places[name][0][places[name][1]] for name in wanted}
    try:
        for name, tensor in wanted.items():
            table, key = places[name]
            table[key] = tensor
        yield
    finally:
        for name, tensor in before.items():
            table, key = places[name]
            if name in tensors:
                tensors[name] = table[key]
            table[key] = tensor


def _places(module: Module) -> dict[str, tuple[dict[str, Any], str]]:
    """Where each parameter and buffer stands, by dotted name."""
    found: dict[str, tuple[dict[str, Any], str]] = {}
    for path, owner in module.named_modules(remove_duplicate=False):
        for table in (owner._parameters, owner._buffers):
            for key, held in table.items():
                if held is not None:
                    found[f"{path}.{key}" if path else key] = (table, key)
    return found


def _check(places: Mapping[str, Any], tensors: Mapping[str, Any], strict: bool) -> None:
    for name, tensor in tensors.items():
        if not isinstance(tensor, Tensor):
            raise TypeError(f"{name}: a Tensor is needed, got {type(tensor).__name__}")
    unexpected = [name for name in tensors if name not in places]
    missing = [name for name in places if name not in tensors] if strict else []
    if strict and (unexpected or missing):
        problems = [
            f"{what} key(s): {', '.join(names)}."
            for what, names in (("Unexpected", unexpected), ("Missing", missing))
            if names
        ]
        raise RuntimeError("Error(s) in functional_call: " + " ".join(problems))
    if unexpected:
        raise RuntimeError(f"functional_call: the module has no parameter or buffer {unexpected[0]!r}")


def _tied(places: Mapping[str, tuple[dict[str, Any], str]], tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    """The tensors by all names under which the module holds what they replace."""
    shared: dict[int, list[str]] = {}
    for name, (table, key) in places.items():
        shared.setdefault(id(table[key]), []).append(name)
    wanted: dict[str, Any] = {}
    for names in shared.values():
        new = {id(tensors[name]): tensors[name] for name in names if name in tensors}
        if len(new) > 1:
            raise ValueError(
                f"functional_call got several different values for one tied tensor, under {', '.join(names)}"
            )
        for tensor in new.values():
            wanted.update(dict.fromkeys(names, tensor))
    return wanted
