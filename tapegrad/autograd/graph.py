"""The graph itself: hooks on what is saved, and looking at nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from ..modes import hooked, modes
from ..tape import LEAF, AccumulateGrad
from ..tape import Entry as Node
from ..tensor import Tensor

__all__ = [
    "GradientEdge",
    "Node",
    "get_gradient_edge",
    "increment_version",
    "save_on_cpu",
    "saved_tensors_hooks",
]


class saved_tensors_hooks:
    """Within the block, each saved tensor goes through ``pack_hook`` when it is saved and ``unpack_hook`` when it is used.

    ``pack_hook`` gets a tensor and returns anything; ``unpack_hook`` gets that and returns a tensor.
    """

    def __init__(self, pack_hook: Callable[[Any], Any], unpack_hook: Callable[[Any], Any]) -> None:
        self._pair = (pack_hook, unpack_hook)
        self._before: list[Any] = []

    def __enter__(self) -> None:
        self._before.append(modes.saved_hooks)
        modes.saved_hooks = self._pair
        hooked.append(self)

    def __exit__(self, *exc: object) -> None:
        modes.saved_hooks = self._before.pop()
        hooked.remove(self)


class save_on_cpu(saved_tensors_hooks):
    """Everything is on the CPU already: saved tensors are kept as they are."""

    def __init__(self, pin_memory: bool = False, device_type: str = "cpu") -> None:
        super().__init__(lambda t: t, lambda t: t)


@contextmanager
def disable_saved_tensors_hooks(error_message: str) -> Iterator[None]:
    """Within the block no saved_tensors_hooks are in force."""
    before, modes.saved_hooks = modes.saved_hooks, None
    try:
        yield
    finally:
        modes.saved_hooks = before


class GradientEdge(NamedTuple):
    """A node and which of its outputs."""

    node: Any
    output_nr: int


def get_gradient_edge(tensor: Tensor) -> GradientEdge:
    """The edge that leads to a tensor; RuntimeError if it does not require grad."""
    node = tensor._source()
    if node is None:
        raise RuntimeError(
            "It is not possible to get the gradient edge for a Tensor that does not require gradients"
        )
    return GradientEdge(AccumulateGrad(tensor) if node is LEAF else node, tensor._index)


def increment_version(tensor: Any) -> None:
    """Count a change of a tensor that the tape could not see (made through NumPy, say)."""
    for t in tensor if isinstance(tensor, (list, tuple)) else [tensor]:
        t._bump("increment_version")
