"""The short way through an elementwise op, for the calls that programs make most.

One or two contiguous tensors of one shape and dtype (or a tensor and a number), below the size from
which threads pay. What the general path of elementwise.py works out anew at each call is looked up here:
the kernel by dtype, the save list by which inputs need gradients. Everything else goes the
general way, and the first call with given types does too; it leaves the kernel behind.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from . import config
from .elementwise import Elementwise
from .modes import modes
from .tape import LEAF, Value, record

_empty = np.empty
_new = object.__new__
_NUMBERS = (float, int)


def elementwise(
    *,
    kind: str = "same",
    masks: tuple[str, ...] = (),
    node_name: str | None = None,
    name: str | None = None,
    derive: bool = False,
    **rules: Callable[..., Any],
) -> Callable[[Callable[..., Any]], Any]:
    """Make an elementwise op of a formula; returns the function that users call.

    ``kind`` rules the types: "same" (PyTorch's promotion), "float" (integers become floating),
    "compare" (the result is bool), "integral" (no floating operands). ``derive`` takes the derivative from the formula.
    """

    def make(formula: Callable[..., Any]) -> Any:
        op = Elementwise(formula, None if derive else rules, kind, masks, node_name, name)
        plain = not op.params and not masks and kind in ("same", "float")
        if plain and len(op.inputs) == 1:
            made = _unary(op)
        elif plain and len(op.inputs) == 2:
            made = _binary(op)
        else:
            made = _any(op)
        made.__name__ = made.__qualname__ = op.name
        made.__doc__ = formula.__doc__
        made.__module__ = formula.__module__
        made.op = op
        op.function = made
        return made

    return make


def _any(op: Elementwise) -> Any:
    general = op.general

    def call(*inputs: Any, out: Any = None, **params: Any) -> Any:
        if len(inputs) != len(op.inputs) or not params.keys() <= set(op.params):
            inputs, params = _bind(op, inputs, params)
        return general(*inputs, out=out, **params)

    return call


def _bind(op: Elementwise, inputs: tuple[Any, ...], given: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments given by name, or parameters given by position, where they belong."""
    names = (*op.inputs, *op.params)
    if len(inputs) > len(names):
        raise TypeError(f"{op.name}() takes at most {len(names)} arguments, {len(inputs)} were given")
    bound = dict(zip(names, inputs, strict=False))
    for key, value in given.items():
        if key not in names:
            raise TypeError(f"{op.name}() got an unexpected keyword argument {key!r}; it takes {', '.join(names)}")
        if key in bound:
            raise TypeError(f"{op.name}() got multiple values for argument {key!r}")
        bound[key] = value
    missing = [n for n in op.inputs if n not in bound and n not in op.defaults]
    if missing:
        raise TypeError(f"{op.name}() is missing the argument {missing[0]!r}")
    params = {n: bound[n] for n in op.params if n in bound}
    return tuple(bound.get(n, op.defaults.get(n)) for n in op.inputs), params


def _slots(op: Elementwise, needs: tuple[bool, ...]) -> tuple[bool, ...]:
    """Per input and for "out": is it kept when these inputs need gradients?"""
    names = op.save_list(needs)
    return tuple(n in names for n in (*op.inputs, "out"))


def _places(op: Elementwise) -> list[int]:
    """Where the op's slots come from: positions in (inputs..., out)."""
    order = [*op.inputs, "out"]
    return [order.index(s) for s in op.slots]


def _unary(op: Elementwise) -> Any:
    variant = op.variant("a")
    flat = variant.flat
    general = op.general
    grain = config.grain
    differentiable = bool(op.rules)
    keep = _slots(op, (True,))
    both = len(op.slots) == 2
    keep_x = keep[0]
    keep_any = bool(op.slots)

    def call(input: Any, *, out: Any = None) -> Any:
        if isinstance(input, Value) and out is None:
            kernel = flat.get(input._char)
            if kernel is not None:
                x = input._array
                n = x.size
                if n < grain:
                    shape = x.shape
                    made = _empty(shape, x.dtype)
                    kernel(x, made, 0, n)
                    version = [0, None]
                    node = input._node
                    if node is not None:
                        if modes.grad and differentiable:
                            if input._view is not None:
                                node = input._source()
                            if both:
                                v = input._version
                                saved: tuple[Any, ...] = (x, made)
                                stamps: tuple[Any, ...] = (v, v[0], version, 0)
                            elif not keep_any:
                                saved = stamps = ()
                            elif keep_x:
                                v = input._version
                                saved = (x,)
                                stamps = (v, v[0])
                            else:
                                saved = (made,)
                                stamps = (version, 0)
                            edge = input if node is LEAF else node
                            node = record(op, (edge,), (input._index,), saved, stamps, variant, ((shape, x.dtype),))
                        else:
                            node = None
                    result = _new(input._result)
                    result._array = made
                    result._char = input._char
                    result._extra = None
                    result._grad = None
                    result._index = 0
                    result._node = node
                    result._version = version
                    result._view = None
                    return result
        return general(input, out=out)

    return call


def _binary(op: Elementwise) -> Any:
    pair, with_number = op.variant("aa"), op.variant("an")
    flat = pair.flat
    flat_number = with_number.flat
    general = op.general
    grain = config.grain
    differentiable = bool(op.rules)
    first, second = op.inputs
    places = _places(op)
    # By (first needs gradients, second does): which of (first, second, out) are kept, in slot order.
    kept = {
        (a, b): [p if _slots(op, (a, b))[p] else -1 for p in places] for a in (True, False) for b in (True, False)
    }
    # The usual case, saving the two operands or none, is laid out without a loop.
    operands = places == [0, 1]
    keeps = {key: (0 in value, 1 in value) for key, value in kept.items()}

    def call(input: Any, other: Any, *, out: Any = None) -> Any:
        if isinstance(input, Value) and out is None:
            char = input._char
            x = input._array
            n = x.size
            if isinstance(other, Value):
                kernel = flat.get(char)
                if kernel is None or char != other._char or n >= grain:
                    return general(input, other)
                y = other._array
                shape = x.shape
                if shape != y.shape:
                    return general(input, other)
                made = _empty(shape, x.dtype)
                kernel(x, y, made, 0, n)
                b = other._node
                variant = pair
            elif type(other) in _NUMBERS and n < grain:
                kernel = flat_number.get(char)
                if kernel is None:
                    return general(input, other)
                shape = x.shape
                made = _empty(shape, x.dtype)
                kernel(x, made, float(other), 0, n)
                y = other
                b = None
                variant = with_number
            else:
                return general(input, other)
            version = [0, None]
            a = input._node
            node: Any = None
            if (a is not None or b is not None) and differentiable and modes.grad:
                if a is not None:
                    if input._view is not None:
                        a = input._source()
                    if a is LEAF:
                        a = input
                if b is not None:
                    if other._view is not None:
                        b = other._source()
                    if b is LEAF:
                        b = other
                key = (a is not None, b is not None)
                v = input._version
                w = other._version if y is not other else None
                if operands:
                    keep_x, keep_y = keeps[key]
                    saved: Any = (x if keep_x else None, y if keep_y else None)
                    stamps: Any = (v if keep_x else None, v[0], w if keep_y else None, 0 if w is None else w[0])
                elif not places:
                    saved = stamps = ()
                else:
                    sources = ((x, v), (y, w), (made, version))
                    saved = tuple([sources[p][0] if p >= 0 else None for p in kept[key]])
                    stamps = ()
                    for p in kept[key]:
                        counter = sources[p][1] if p >= 0 else None
                        stamps += (counter, 0 if counter is None else counter[0])
                indices = (input._index, 0 if b is None else other._index)
                node = record(op, (a, b), indices, saved, stamps, variant, ((shape, x.dtype),))
            result = _new(input._result)
            result._array = made
            result._char = char
            result._extra = None
            result._grad = None
            result._index = 0
            result._node = node
            result._version = version
            result._view = None
            return result
        return general(input, other, out=out)

    return call
