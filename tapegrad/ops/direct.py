"""Ops whose rules also run on bare arrays.

The rules of products, convolutions and pooling call nothing but ops of their own family. So a plain
backward needs no tensors between them: the rule is given arrays, and the ops that it calls, seeing
arrays, just compute. Under ``create_graph`` the same rule runs on tensors and is recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..kernels import recording
from ..kernels.recording import active
from ..modes import modes, paused
from ..op import KernelOp, Packed
from ..replay import Algebra
from ..results import constant, share
from ..tape import LEAF, Entry, record

share(globals())  # keeps constant up to date


class DirectOp(KernelOp):
    """An op of few tensors (or None) with one output, whose rules name inputs, shapes and parameters only."""

    def __init__(
        self,
        forward: Callable[..., Any],
        rules: dict[str, Callable[..., Any]],
        node_name: str | None,
        name: str | None,
        native: bool,
    ) -> None:
        super().__init__(forward, rules, ("out",), {}, node_name, name, native)
        # Per slot: the input that it holds, and whether it holds its shape alone.
        self._sources = [
            (self.inputs.index(s.removesuffix("_shape")), s not in self.inputs) for s in self.slots
        ]
        self._kept: dict[tuple[bool, ...], tuple[tuple[int, bool], ...]] = {}

    def __call__(self, *values: Any, **params: Any) -> Any:
        first = values[0]
        if type(first) is np.ndarray:
            return recording.forward(self, values, params) if active else self.forward(*values, **params)
        arrays: list[Any] = []
        edges: list[Any] = []
        needed = False
        for v in values:  # one loop, no calls: a small product takes no longer than they do
            if v is None:
                arrays.append(None)
                edges.append(None)
                continue
            arrays.append(v._array)
            node = v._node if v._view is None else v._source()
            edges.append(v if node is LEAF else node)
            needed = needed or node is not None
        array = recording.forward(self, arrays, params) if active else self.forward(*arrays, **params)
        # Value._make without its call: products are small and many.
        result = constant(array, array.dtype.char if array.flags.c_contiguous else "")
        if needed and (not paused or modes.grad):
            result._node = self._recorded(values, tuple(edges), params, array)
        return result

    def _recorded(
        self, values: Sequence[Any], edges: tuple[Any, ...], params: dict[str, Any], out: np.ndarray
    ) -> Entry:
        needs = tuple([e is not None for e in edges])
        kept = self._kept.get(needs)
        if kept is None:
            names = self.save_list(needs)
            kept = self._kept[needs] = tuple(
                (j if s in names else -1, of_shape)
                for s, (j, of_shape) in zip(self.slots, self._sources, strict=True)
            )
        saved: list[Any] = []
        stamps: list[Any] = []
        for j, of_shape in kept:
            v = None if j < 0 else values[j]
            if v is None or of_shape:
                saved.append(None if v is None else v._array.shape)
                stamps += (None, 0)
            else:
                version = v._version
                saved.append(v._array)
                stamps += (version, version[0])
        indices = tuple([0 if v is None else v._index for v in values])
        meta = ((out.shape, out.dtype),)
        return record(self, edges, indices, tuple(saved), tuple(stamps), params, meta)

    def vjp(self, entry: Entry, grads: list[Any], needs: Sequence[bool], algebra: Algebra) -> Sequence[Any]:
        saved = entry.saved
        if algebra.recorded or Packed in map(type, saved):
            return super().vjp(entry, grads, needs, algebra)
        given = dict(zip(self.slots, saved, strict=True))
        given["g"] = grads[0]
        if entry.params:
            given.update(entry.params)
        results: list[Any] = []
        for name, need in zip(self.inputs, needs, strict=True):
            rule = self.rules.get(name) if need else None
            results.append(None if rule is None else rule.fn(*[given[n] for n in rule.names]))
        return results


def direct_op(
    *,
    node_name: str | None = None,
    name: str | None = None,
    native: bool = False,
    **rules: Callable[..., Any],
) -> Callable[[Callable[..., Any]], DirectOp]:
    """Make an op whose rules run on tensors and on arrays alike; one rule per input."""
    return lambda forward: DirectOp(forward, rules, node_name, name, native)
