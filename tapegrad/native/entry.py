"""The way into a program that has nothing special about it, written out as one Python function.

A step of a small network takes a few microseconds in machine code; looking, at each call, at signatures, lists of results, leaves
and counters would take longer than that. What depends on the recording alone is written into the text of the function::

    def enter(args):
        if modes.grad is not grad or ...:
            return other
        x0, = args
        ...
        b0 = x0._array
        r0 = empty(s0, d0)
        g = l1._grad
        ...
        program(loop, code, space.bases, 2, b0, r0, r1, 0, count)
        ...
        return t0

It begins with the question whether this call is like the recorded one. If it is not, the answer is :data:`OTHER`, and the long
way through the table of signatures finds out what it is.
"""

from __future__ import annotations

import linecache
import sys
import weakref
from collections.abc import Iterator
from itertools import combinations
from typing import Any

import numpy as np

from .. import buffers, config, dtypes, kernels, modes
from ..kernels import recording as recordings
from ..tape import fresh
from .program import FIRST, MOST, PRIVATE, Program
from .steps import Host, Ref
from .trees import SLOT

OTHER = object()  # what the function returns for a call unlike the recorded one

_GRADIENT = """\
g = l{n}._grad
# Nobody but its leaf holds it: the references are the leaf's, this name, and the question; those of its array likewise.
if (g is not None and references(g) == 3 and g._char == {char!r} and g._node is None and g._view is None
        and references(a := g._array) == 3 and (a.base is None or whole(a))):
    r{n} = a
    f{n} = False
else:
    r{n} = empty(s{n}, d{n})
    f{n} = True
    o{n} = g
    l{n}._grad = fresh(k{n}, r{n}, {char!r})
"""


def written_out(recording: Any) -> Any:
    """The function from a tuple of tensors to the result; None for a recording that needs the long way."""
    program: Program = recording.program
    outputs = recording.outputs
    structure = recording.structure
    stage = program.stages[0]
    plain = (
        recording.plain_form is not None
        and len(program.stages) == 1
        and not isinstance(stage, Host)
        and not stage.large
        and not stage.live
        and not kernels.machine.plain()
        and not recording.apart
        and not recording.generators
        and not recording.after
        and not (recording.outer.outputs and not recording.outer.truncated)
        and not any(how == "argument" for how, _ in recording.outer.edges)
        and len(recording.first) + len(recording.makers) <= MOST
        and all(type(leaf) is not int and ref is None for *_, leaf, ref in recording.makers)
        and not any(type(leaf) is int for leaf in recording.cleared)
        and all(how == "made" and _whole(what, recording) for how, what, _ in outputs)
        and all(_whole(ref, recording) for ref, _, _ in recording.checks)
        and (
            structure is SLOT
            or structure is None
            or (structure[0] is tuple and {SLOT}.issuperset(structure[1:]))
        )
    )
    if not plain:
        return None
    program.prepare(len(recording.first) + len(recording.makers))
    scope: dict[str, Any] = {}
    lines = [*_guards(recording, scope), *_body(recording, scope)]
    return _compiled("def enter(args):\n" + "\n".join("    " + line for line in lines) + "\n", scope)


def _whole(ref: Ref, recording: Any) -> bool:
    """Whether a reference is all of a result."""
    memory = ref.memory
    return bool(
        memory in recording.results
        and ref.first == 0
        and ref.shape == memory.root.shape
        and ref.strides == memory.root.strides
        and ref.char == memory.root.dtype.char
    )


def _guards(recording: Any, scope: dict[str, Any]) -> Iterator[str]:
    """The lines that leave if the call is not like the recorded one, and name its tensors."""
    classes, form, grad, kind, account, seen = recording.plain_form
    scope.update({
        "active": recordings.active, "config": config, "modes": modes.modes, "dtypes": dtypes, "grad": grad, "kind": kind,
        "epoch": recordings.epoch, "account": account, "seen": seen, "other": OTHER,
    })  # fmt: skip
    asked = ["active", "not config.compiling", "modes.grad is not grad", "dtypes._default is not kind"]
    asked += [f"epoch[0] != {recording.epoch}", f"len(args) != {len(classes)}"]
    if seen != ():
        asked.append("account() != seen")
    for j, (module, training) in enumerate(recording.modules):
        scope[f"m{j}"] = module
        asked.append(f"m{j}.training is not {training!r}")
    for j, (value, given) in enumerate(recording.guarded):
        scope.update({f"w{j}": value, f"h{j}": given})
        asked.append(f"w{j}._grad is not h{j}")
    yield from _leave_if(asked)
    if not classes:
        return
    names = [f"x{j}" for j in range(len(classes))]
    yield f"{', '.join(names)}, = args"
    asked = [f"{a} is {b}" for a, b in combinations(names, 2)]
    for j, (x, cls) in enumerate(zip(names, classes, strict=True)):
        shape, char = form[2 * j : 2 * j + 2]
        scope.update({f"i{j}": shape, f"n{j}": cls})
        asked += [f"type({x}) is not n{j}", f"{x}._char != {char!r}", f"{x}._node is not None"]
        asked += [f"{x}._array.shape != i{j}", f"{x}._view is not None and {x}._source() is not None"]
    asked += [f"x{j}._grad is not None" for j in recording.bare]
    yield from _leave_if(asked)


def _leave_if(asked: list[str]) -> list[str]:
    return [f"if ({' or '.join(asked)}):", "    return other"]


def _body(recording: Any, scope: dict[str, Any]) -> Iterator[str]:
    """The lines that run the program."""
    program = recording.program
    stage = program.stages[0]
    scope.update({
        "references": sys.getrefcount, "whole": buffers.whole, "fresh": fresh, "spaces": program.spaces,
        "workspace": program.workspace, "done": program.done, "program": program.enter, "loop": program.loop,
        "code": stage.code(1), "count": stage.count, "empty": buffers.empty, "empty_small": np.empty,
    })  # fmt: skip
    for k, j in enumerate(recording.first):
        yield f"b{k} = x{j}._array"
    for k, call in enumerate(recording.before):
        scope[f"before{k}"] = call
        yield f"before{k}()"
    leaves = []
    for n, (shape, dtype, leaf, _) in enumerate(recording.makers):
        scope.update({f"s{n}": shape, f"d{n}": dtype})
        if leaf is None:
            small = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize < buffers.LARGE
            yield f"r{n} = empty{'_small' * small}(s{n}, d{n})"
            continue
        leaves.append(n)
        scope.update({f"l{n}": leaf, f"k{n}": leaf._result})
        yield from _GRADIENT.format(n=n, char=dtype.char).splitlines()
    for k, call in enumerate(recording.before):
        if call.counts:
            yield f"before{k}.commit()"
    arrays = [f"b{k}" for k in range(len(recording.first))] + [f"r{n}" for n in range(len(recording.makers))]
    yield "try:"
    yield "    space = spaces.pop()"
    yield "except IndexError:"
    yield "    space = workspace()"
    if program.arena_size > PRIVATE:
        yield f"space.take({program.arena_size})"
    yield "try:"
    yield f"    program(loop, code, space.bases, {FIRST}, {''.join(a + ', ' for a in arrays)}0, count)"
    for k, (ref, check, fine) in enumerate(recording.checks):
        scope.update({f"check{k}": check, f"fine{k}": fine})
        result = f"r{ref.memory.number}"
        # What the check had no objection to at the recording need not be asked again.
        yield f"    if {f'{result}.item() != fine{k}' if fine is not None else 'True'}:"
        yield f"        check{k}({result})"
    yield "except BaseException:"
    yield from [f"    if f{n}: l{n}._grad = o{n}" for n in leaves]
    give_back = "done(space)" if program.arena_size > PRIVATE else "spaces.append(space)"
    yield from ["    raise", "finally:", f"    {give_back}"]
    for k, version in enumerate(recording.versions):
        scope[f"v{k}"] = version
        yield f"v{k}[0] += 1"
    for k, leaf in enumerate(recording.cleared):
        scope[f"cleared{k}"] = leaf
        yield f"cleared{k}._grad = None"
    yield from _results(recording, scope)


def _results(recording: Any, scope: dict[str, Any]) -> Iterator[str]:
    """The lines that make tensors of the results, and return them."""
    names = []
    for k, (_, what, cls) in enumerate(recording.outputs):
        scope[f"output{k}"] = cls
        node = "None, 0"
        if k in recording.outer.outputs:  # its graph was used up: one entry says so for all runs
            scope["gone"] = recording.used_up()
            node = f"gone, {recording.outer.outputs.index(k)}"
        yield f"t{k} = fresh(output{k}, r{what.memory.number}, {what.char!r}, {node})"
        names.append(f"t{k}")
    if recording.structure is SLOT:
        yield "return t0"
    elif recording.structure is None:
        yield "return None"
    else:
        yield f"return ({''.join(n + ', ' for n in names)})"


def _compiled(text: str, scope: dict[str, Any]) -> Any:
    filename = f"<tapegrad program {id(scope):x}>"
    linecache.cache[filename] = (len(text), None, text.splitlines(True), filename)
    exec(compile(text, filename, "exec"), scope)
    enter = scope["enter"]
    weakref.finalize(enter, linecache.cache.pop, filename, None)
    return enter
