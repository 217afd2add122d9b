"""What the memories of a program are called: arguments, parameters, gradients, states of optimizers, results."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from .. import tape
from ..inspection.rows import kind
from ..kernels.recording import root_of
from ..tape import LEAF, Value
from .outside import outside_values
from .steps import ARGUMENT, RESULT, STATE, Map, Memory, Ref
from .trees import SLOT


class Labels:
    """Names of memories, by their index, and what state is: a parameter, other state, a constant, or a kernel's own table."""

    def __init__(self) -> None:
        self.names: dict[int, str] = {}
        self.sorts: dict[int, str] = {}

    def name(self, memory: Memory) -> str:
        """A name that the user knows, or else a letter and a number."""
        plain = {
            ARGUMENT: f"arg{memory.number}",
            RESULT: f"result{memory.number}",
            STATE: f"{'const' if self.sorts.get(memory.index) == 'const' else 'state'}{memory.index}",
        }
        return self.names.get(memory.index) or plain.get(memory.kind, f"t{memory.index}")

    def sort(self, memory: Memory) -> str:
        """ "argument", "result", "temporary", "parameter", "state", "const" or "table"."""
        return self.sorts.get(memory.index, "table") if memory.kind == STATE else memory.kind

    def text(self, ref: Ref) -> str:
        """Name, dtype and shape."""
        return f"{self.name(ref.memory)} {kind(ref.shape, np.dtype(ref.char))}"


def labels_of(function: Any, key: Any, recording: Any) -> Labels:
    """Names for the program of a recording."""
    made = Labels()
    recorder = recording.recorder
    arguments = [name for name, what in given(function, key) if what is SLOT]
    for memory in recorder.memories:
        if memory.kind == ARGUMENT and memory.number < len(recording.first):
            made.names[memory.index] = arguments[recording.first[memory.number]]
    _name_outside(made, function, recording)
    for value, ref in recording.grads.values():
        owner = arguments[value] if type(value) is int else _name_of(value, made, recorder)
        made.names[ref.memory.index] = f"{owner}.grad"
    results = _paths(recording.structure, "result")
    for (how, what, _), name in zip(recording.outputs, results, strict=True):
        if how == "made":  # others are no memory of the run
            made.names.setdefault(what.memory.index, name)
    for ref, *_ in recording.checks:
        made.names.setdefault(ref.memory.index, "check")
    for number, memory in enumerate(recording.outer.kept):
        made.names.setdefault(memory.index, f"kept{number}")
    return made


def backward_labels(function: Any, key: Any, recording: Any, forward: Labels) -> Labels:
    """Names for the backward program of a recording."""
    made = Labels()
    made.names, made.sorts = dict(forward.names), dict(forward.sorts)
    outer = recording.outer
    arguments = [name for name, what in given(function, key) if what is SLOT]
    results = _paths(recording.structure, "result")
    for ref, j in zip(outer.cotangents, outer.outputs, strict=True):
        made.names[ref.memory.index] = f"grad of {results[j]}"
    for (how, what), grad in zip(outer.edges, outer.grads, strict=True):
        if grad is not None and grad.memory.kind == RESULT:
            owner = arguments[what] if how == "argument" else _name_of(what, made, recording.recorder)
            made.names[grad.memory.index] = f"{owner}.grad"
    return made


# -- arguments and results ------------------------------------------------------------------------------------


def given(function: Any, key: Any) -> list[tuple[str, Any]]:
    """The arguments of a signature by name, nested ones one by one: SLOT for a tensor, or the value."""
    structure, form = key[0], key[1]
    names = _positional(function)
    if structure is None:
        return [(next(names), SLOT) for _ in range(len(form) // 2)]
    (_, (_, *args), (_, keywords, *values)) = structure
    found: list[tuple[str, Any]] = []
    for tree in args:
        found += _leaves(tree, next(names))
    for name, tree in zip(keywords, values, strict=True):
        found += _leaves(tree, name)
    return found


def signature(function: Any, key: Any) -> str:
    """The arguments that a program was made for, as text."""
    forms = iter(_forms(key))
    parts = [
        f"{name}: {next(forms)}" if what is SLOT else f"{name}={getattr(what, 'value', what)!r}"
        for name, what in given(function, key)
    ]
    return ", ".join(parts) or "no arguments"


def _forms(key: Any) -> Iterator[str]:
    structure, form = key[0], key[1]
    if structure is None:
        for shape, char in zip(form[::2], form[1::2], strict=True):
            yield kind(shape, np.dtype(char))
        return
    for shape, need, _, char, _, *strides in form:
        requires = {False: "", True: " requires grad", "history": " with a history"}
        yield kind(shape, np.dtype(char)) + requires[need] + (" strided" if strides else "")


def _positional(function: Any) -> Iterator[str]:
    """Names for positional arguments, one after the other."""
    try:
        parameters = list(inspect.signature(getattr(function, "forward", function)).parameters.values())
    except (TypeError, ValueError):  # a function that is not written in Python has no signature
        parameters = []
    for p in parameters:
        if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD):
            yield p.name
    rest = next((p.name for p in parameters if p.kind is p.VAR_POSITIONAL), "args")
    number = 0
    while True:
        yield f"{rest}[{number}]"
        number += 1


def _leaves(tree: Any, name: str) -> Iterator[tuple[str, Any]]:
    """What a structure consists of (see trees.py), with how to get there."""
    if type(tree) is not tuple:
        yield name, tree
        return
    kind_, *items = tree
    keys: Sequence[Any] = range(len(items))
    if isinstance(kind_, type) and issubclass(kind_, dict):
        keys, *items = items
    for key, item in zip(keys, items, strict=True):
        yield from _leaves(item, f"{name}[{key!r}]")


def _paths(structure: Any, name: str) -> list[str]:
    return [path for path, what in _leaves(structure, name) if what is SLOT]


# -- what exists outside ---------------------------------------------------------------------------------------


def _name_outside(made: Labels, function: Any, recording: Any) -> None:
    """Names for state: from the variables that the function sees, the modules that it called, and its optimizers."""
    memories = {id(m.root): m for m in recording.recorder.memories if m.kind == STATE}
    written = {r.memory.index for s in recording.recorder.steps for r in s.writes()}

    def note(value: Any, name: str, sort: str) -> None:
        memory = memories.get(id(root_of(value._array)))
        if memory is not None:
            made.names.setdefault(memory.index, name)
            made.sorts.setdefault(memory.index, sort)

    named = dict(outside_values(function, recording))
    for value, name in named.items():
        leaf = value._node is LEAF
        note(
            value,
            name,
            "parameter" if leaf else "state" if _any_written(value, memories, written) else "const",
        )
        if value._grad is not None:
            note(value._grad, f"{name}.grad", "state")
    for optimizer in {id(b.optimizer): b.optimizer for b in recording.before}.values():
        for parameter, state in optimizer.state.items():
            for key, value in state.items():
                if isinstance(value, Value):
                    note(value, f"{key} of {named.get(parameter, 'a parameter')}", "state")
    # What is left are tensors that no variable here names, and the tables of kernels, which are no tensors.
    for value in tape.live_values():
        memory = memories.get(id(root_of(value._array)))
        if memory is not None and memory.index not in made.sorts:
            leaf = value._node is LEAF
            made.sorts[memory.index] = (
                "parameter" if leaf else "state" if memory.index in written else "const"
            )
    # Tables are given to kernels; what a loop over elements reads besides tensors is a constant.
    steps = (*recording.recorder.steps, *recording.outer.steps)
    read = {r.memory.index for s in steps if isinstance(s, Map) for r in s.reads()}
    for memory in memories.values():
        if memory.constant or memory.index in read:
            made.sorts.setdefault(memory.index, "const")


def _any_written(value: Value, memories: dict[int, Memory], written: set[int]) -> bool:
    memory = memories.get(id(root_of(value._array)))
    return memory is not None and memory.index in written


def _name_of(value: Value, made: Labels, recorder: Any) -> str:
    memory = next((m for m in recorder.memories if m.kind == STATE and m.root is root_of(value._array)), None)
    return "a tensor" if memory is None else made.name(memory)
