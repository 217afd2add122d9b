"""What a network is made of and what a forward pass costs, layer by layer.

::

    >>> print(tg.summary(nn.Sequential(nn.Conv2d(1, 4, 3), nn.Flatten(), nn.Linear(2704, 10)), (2, 1, 28, 28)))
    layer        output          parameters  multiply-adds  bytes saved
    Sequential   [2, 10]                  -              -            -
      0 Conv2d   [2, 4, 26, 26]          40         48,672        6,272
      1 Flatten  [2, 2704]                -              -            -
      2 Linear   [2, 10]             27,050         54,080       21,632
    total                            27,090        102,752       27,904
    input [2, 1, 28, 28]; 27,090 parameters to train, 108,360 bytes of parameters and buffers

The numbers are read from the tape of one recorded forward pass, so they hold for whatever ``forward`` does.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from .. import dtypes, tape
from ..creation import zeros
from ..modes import enable_grad, no_grad
from ..random import Generator, fork_rng, rand
from ..tape import Entry, Value
from ..tensor import Tensor
from .module import Module
from .parameter import is_lazy


@dataclass
class Layer:
    """One row: a module and what is its own, without its submodules' share."""

    name: str  # as in named_modules, "" for the network itself
    kind: str
    output: Any = None  # shape of the last call's result, or several in a list; None if it was not called
    calls: int = 0
    parameters: int = 0
    trainable: int = 0
    multiply_adds: int = 0
    saved_bytes: int = 0

    @property
    def depth(self) -> int:
        return self.name.count(".") + 1 if self.name else 0


class Summary:
    """The rows (``layers``) and totals of a network; prints as a table."""

    def __init__(self, layers: list[Layer], inputs: list[str], weight_bytes: int) -> None:
        self.layers = layers
        self.inputs = inputs
        self.weight_bytes = weight_bytes
        self.parameters = sum(row.parameters for row in layers)
        self.trainable = sum(row.trainable for row in layers)
        self.multiply_adds = sum(row.multiply_adds for row in layers)
        self.saved_bytes = sum(row.saved_bytes for row in layers)

    def __repr__(self) -> str:
        head = ["layer", "output", "parameters", "multiply-adds", "bytes saved"]
        rows = [head, *(self._cells(row) for row in self.layers)]
        rows.append(["total", "", *map(_number, (self.parameters, self.multiply_adds, self.saved_bytes))])
        widths = [max(len(row[j]) for row in rows) for j in range(len(head))]
        lines = [
            "  ".join(
                cell.ljust(width) if j < 2 else cell.rjust(width)
                for j, (cell, width) in enumerate(zip(row, widths, strict=True))
            )
            for row in rows
        ]
        weights = (
            f"{self.trainable:,} parameters to train, {self.weight_bytes:,} bytes of parameters and buffers"
        )
        return "\n".join([*lines, f"input {', '.join(self.inputs)}; {weights}"])

    def _cells(self, row: Layer) -> list[str]:
        label = "  " * row.depth + f"{row.name.rpartition('.')[2]} {row.kind}".lstrip()
        if row.calls > 1:
            label += f" ({row.calls} calls)"
        numbers = (row.parameters, row.multiply_adds, row.saved_bytes)
        return [label, "-" if row.output is None else str(row.output), *map(_number, numbers)]


def _number(n: int) -> str:
    return f"{n:,}" if n else "-"


def summary(
    model: Module,
    input_size: Sequence[Any] | None = None,
    *,
    input_data: Any = None,
    dtypes: Sequence[Any] | None = None,
    depth: int | None = None,
) -> Summary:
    """A table of the layers: output shapes, parameters, multiply-adds, bytes that they keep on the tape.

    ``input_size`` is the shape of the input with its batch, or a list of shapes; ``dtypes`` goes with them
    (default: that of the parameters; integers are zeros). Or give ``input_data``: a tensor, a tuple of
    arguments or a dict of keyword arguments. ``depth`` hides deeper layers and adds theirs to those above.

    One forward pass runs in the model's present mode (``train`` or ``eval``); its buffers and the random state
    are set back. Multiply-adds are those of products and convolutions. Saved bytes are what backward
    will need beyond parameters and buffers; memory that two layers share counts for the first of them.
    Each row has what is its module's own; the total is the sum of the rows.
    """
    if not isinstance(model, Module):
        raise TypeError(f"summary: model must be a Module, got {type(model).__name__}")
    args, kwargs = _arguments(model, input_size, input_data, dtypes)
    if any(is_lazy(t) for t in [*model.parameters(), *model.buffers()]):
        _materialize(model, args, kwargs)
    rows = {id(m): Layer(name, type(m).__name__) for name, m in model.named_modules()}
    _count_parameters(model, rows)
    everything = all(p.requires_grad for p in model.parameters()) and bool(list(model.parameters()))
    entries, owner = _recorded_pass(model, rows, args, kwargs)
    _count_bytes(model, rows, entries, owner)
    if not everything:  # what is frozen, and all before it, leaves no entry: let all of it be recorded once
        with _all_require_grad(model, [*args, *kwargs.values()]):
            entries, owner = _recorded_pass(model, {key: Layer("", "") for key in rows}, args, kwargs)
    for entry in entries:
        rows[owner(entry)].multiply_adds += multiply_adds(entry)
    layers = list(rows.values())
    if depth is not None:
        layers = _folded(layers, depth)
    given = [f"{_shape(x)}" for x in [*args, *kwargs.values()]]
    return Summary(layers, given, sum(t.nbytes for t in [*model.parameters(), *model.buffers()]))


# -- the input -------------------------------------------------------------------------------------------


def _arguments(
    model: Module, size: Sequence[Any] | None, data: Any, kinds: Sequence[Any] | None
) -> tuple[list[Any], dict[str, Any]]:
    if (size is None) == (data is None):
        raise TypeError("summary: give either input_size, a shape with its batch, or input_data")
    if data is not None:
        if kinds is not None:
            raise TypeError("summary: dtypes goes with input_size; input_data has its own")
        if isinstance(data, Mapping):
            return [], dict(data)
        return (list(data), {}) if isinstance(data, (tuple, list)) else ([data], {})
    assert size is not None
    several = bool(size) and all(isinstance(item, Sequence) for item in size)
    sizes = [tuple(item) for item in size] if several else [tuple(size)]
    for one in sizes:
        if not all(isinstance(n, int) and n >= 0 for n in one):
            raise TypeError(
                f"summary: input_size must be a shape such as (1, 3, 32, 32), or a list of shapes; got {size!r}"
            )
    first = next((p.dtype for p in model.parameters() if p.is_floating_point()), dtypes.float32)
    wanted = [first] * len(sizes) if kinds is None else [dtypes.as_dtype(kind) for kind in kinds]
    if len(wanted) != len(sizes):
        raise ValueError(f"summary: {len(wanted)} dtypes for {len(sizes)} inputs")
    drawn = Generator().manual_seed(0)
    return [
        rand(shape, generator=drawn, dtype=kind) if kind.is_floating_point else zeros(shape, dtype=kind)
        for shape, kind in zip(sizes, wanted, strict=True)
    ], {}


def _tensors(value: Any) -> Iterator[Tensor]:
    """All tensors in containers."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _tensors(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _tensors(item)
    elif hasattr(value, "__dict__"):  # a dataclass of results
        yield from _tensors(vars(value))


def _shape(value: Any) -> Any:
    """The shape of a tensor as a list; of containers a list of shapes."""
    found = [list(t.shape) for t in _tensors(value)]
    return found[0] if len(found) == 1 else found


# -- the forward pass ------------------------------------------------------------------------------------


def _recorded_pass(
    model: Module, rows: dict[int, Layer], args: list[Any], kwargs: dict[str, Any]
) -> tuple[list[Entry], Callable[[Entry], int]]:
    """Run forward, note calls and shapes, and return the entries and whose each is."""
    inside: list[int] = []  # modules that are being called, the innermost last
    marks: list[tuple[int, int]] = []  # from which position on whose entries are recorded

    def mark() -> None:
        marks.append((tape._next_position(), inside[-1] if inside else id(model)))

    def enter(module: Module, _: Any) -> None:
        inside.append(id(module))
        mark()

    def leave(module: Module, _: Any, result: Any) -> None:
        inside.pop()
        mark()
        rows[id(module)].calls += 1
        rows[id(module)].output = _shape(result)

    handles = []
    try:
        for module in model.modules():
            handles += [module.register_forward_pre_hook(enter), module.register_forward_hook(leave)]
        with _restored(model), fork_rng(), enable_grad():
            try:
                result = model(*args, **kwargs)
            except Exception as err:
                if inside:
                    at = rows[inside[-1]]
                    err.add_note(
                        f"in the layer {at.name or 'at the top'} ({at.kind}) of the model to summarise"
                    )
                raise
    finally:
        for handle in handles:
            handle.remove()
    ends = [position for position, _ in marks]
    entries = [
        e for e in tape.reachable([t.grad_fn for t in _tensors(result)]) if e.position > ends[0]
    ]  # the input may have a past of its own

    def owner(entry: Entry) -> int:
        return marks[bisect.bisect(ends, entry.position) - 1][1]

    return entries, owner


@contextmanager
def _restored(model: Module) -> Iterator[None]:
    """Buffers as they were: batch statistics must not notice that somebody looked."""
    before = [
        (m, name, b, b.clone()) for m in model.modules() for name, b in m._buffers.items() if b is not None
    ]
    try:
        yield
    finally:
        for module, name, buffer, content in before:
            module._buffers[name] = buffer.copy_(content)


def _materialize(model: Module, args: list[Any], kwargs: dict[str, Any]) -> None:
    """Let lazy layers learn their shapes, by a pass that leaves running statistics as they are."""
    modes = [(module, module.training) for module in model.modules()]
    try:
        with no_grad():
            model.eval()(*args, **kwargs)
    finally:
        for module, training in modes:
            module.training = training


@contextmanager
def _all_require_grad(model: Module, inputs: list[Any]) -> Iterator[None]:
    tensors = [t for t in [*model.parameters(), *_tensors(inputs)] if t.is_floating_point() and t.is_leaf]
    before = [t.requires_grad for t in tensors]
    try:
        for t in tensors:
            t.requires_grad_()
        yield
    finally:
        for t, flag in zip(tensors, before, strict=True):
            t.requires_grad_(flag)


# -- counting --------------------------------------------------------------------------------------------


def _count_parameters(model: Module, rows: dict[int, Layer]) -> None:
    seen: set[int] = set()
    for module in model.modules():
        for p in module.parameters(recurse=False):
            if id(p) not in seen:
                seen.add(id(p))
                rows[id(module)].parameters += p.numel()
                rows[id(module)].trainable += p.numel() if p.requires_grad else 0


def _count_bytes(
    model: Module, rows: dict[int, Layer], entries: list[Entry], owner: Callable[[Entry], int]
) -> None:
    weights = {id(_memory(t._array)) for t in [*model.parameters(), *model.buffers()]}
    left: dict[int, int] = {}  # bytes of a memory that no layer has counted yet
    seen: set[tuple[int, int]] = set()
    for entry in entries:
        for _, array in tape.saved_arrays(entry):
            memory, view = _memory(array), (array.ctypes.data, array.nbytes)
            if id(memory) in weights or view in seen:
                continue
            seen.add(view)
            own = min(array.nbytes, left.setdefault(id(memory), memory.nbytes))
            left[id(memory)] -= own
            rows[owner(entry)].saved_bytes += own


def _memory(array: Any) -> Any:
    """The array that owns the memory of a view."""
    while getattr(array, "base", None) is not None and hasattr(array.base, "nbytes"):
        array = array.base
    return array


def multiply_adds(entry: Entry) -> int:
    """Multiplications of a product or convolution, each with its addition; 0 for other ops."""
    count = _COUNTS.get(entry.op.name)
    return 0 if count is None else int(count(entry))


def _in(entry: Entry, j: int) -> Any:
    """The shape of an input, as far as the tape knows it."""
    edge = entry.edges[j]
    if isinstance(edge, Value):
        return edge._array.shape
    if edge is not None:
        return edge.output(entry.indices[j])[0]
    name = entry.op.inputs[j]
    return next((a.shape for slot, a in tape.saved_arrays(entry) if slot == name), None)


def _linear(e: Entry) -> int:
    rows, weight = _in(e, 0), _in(e, 1)
    inner = rows[-1] if rows else math.prod(weight or ()) // max(e.shape[-1], 1)
    return math.prod(e.shape) * inner


def _product(e: Entry) -> int:
    a, b = _in(e, 0), _in(e, 1)
    inner = a[-2 if e.params["ta"] else -1] if a else b[-1 if e.params["tb"] else -2] if b else 0
    return math.prod(e.shape) * inner


def _matrix_vector(e: Entry) -> int:
    a, x = _in(e, 0), _in(e, 1)
    return math.prod(a) if a else math.prod(e.shape) * math.prod(x or ())


def _vectors(e: Entry) -> int:
    return math.prod(_in(e, 0) or _in(e, 1) or ())


def _convolution(e: Entry) -> Any:
    given, weight = _in(e, 0), _in(e, 1)
    if weight:
        return math.prod(e.shape) * math.prod(weight[1:])
    channels = given[1] if given else 0
    return math.prod(e.shape) * channels // e.params["groups"] * math.prod(e.params["windows"].kernel)


def _transposed_convolution(e: Entry) -> Any:
    given, weight = _in(e, 0), _in(e, 1)
    places = (
        math.prod(given) if given else e.shape[0] * (weight or (0,))[0] * math.prod(e.params["windows"].out)
    )
    return places * e.shape[1] // e.params["groups"] * math.prod(e.params["windows"].kernel)


_COUNTS: dict[str, Callable[[Entry], Any]] = {
    "linear": _linear,
    "matmul": _linear,
    "mm": _product,
    "bmm": _product,
    "mv": _matrix_vector,
    "dot": _vectors,
    "convolution": _convolution,
    "conv_input": _transposed_convolution,
}


def _folded(layers: list[Layer], depth: int) -> list[Layer]:
    """Rows down to a depth, with what lies deeper added to the last row above it."""
    shown: list[Layer] = []
    for row in layers:
        if row.depth <= depth:
            shown.append(row)
            continue
        above = next(r for r in reversed(shown) if not r.name or row.name.startswith(r.name + "."))
        above.parameters += row.parameters
        above.trainable += row.trainable
        above.multiply_adds += row.multiply_adds
        above.saved_bytes += row.saved_bytes
    return shown
