"""The way into a program that has nothing special about it, written out as one Python function.

A step of a small network takes a few microseconds in machine code; looking, at each call, at lists of results, leaves and
counters would take longer than that. What depends on the recording alone is written into the text of the function::

    def enter(tensors):
        b0 = tensors[0]._array
        r0 = empty(s0, d0)
        g = l1._grad
        ...
        program(loop, code, bases, 2, b0, r0, r1, 0, count)
        ...
        return make(r0)
"""

from __future__ import annotations

import linecache
import sys
from typing import Any

from .. import buffers, kernels
from .program import FIRST, MOST, Program
from .steps import Host, Ref
from .trees import SLOT

_GRADIENT = """\
g = l{n}._grad
# Nobody but its leaf holds it: the references are the leaf's, this name, and the question.
if (g is not None and references(g) == 3 and g._char == c{n} and references(g._array) == 2
        and g._node is None and g._view is None and whole(g._array)):
    r{n} = g._array
    f{n} = False
else:
    r{n} = empty(s{n}, d{n})
    f{n} = True
    o{n} = g
    l{n}._grad = make{n}(r{n})
"""


def written_out(recording: Any) -> Any:
    """The function from tensors to the result; None for a recording that needs the long way."""
    program: Program = recording.program
    outputs = recording.outputs
    plain = (
        len(program.stages) == 1
        and not isinstance(program.stages[0], Host)
        and not program.stages[0].large
        and not program.stages[0].live
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
        and all(_whole(ref, recording) for ref, _ in recording.checks)
        and (recording.structure is SLOT or len(outputs) == 0 or recording.structure[0] is tuple)
        and (
            recording.structure is SLOT
            or recording.structure is None
            or all(x is SLOT for x in recording.structure[1:])
        )
    )
    if not plain:
        return None
    return _compiled(*_text(recording))


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


def _text(recording: Any) -> tuple[str, dict[str, Any]]:
    program = recording.program
    stage = program.stages[0]
    program.prepare(len(recording.first) + len(recording.makers))
    scope: dict[str, Any] = {
        "references": sys.getrefcount, "empty": buffers.empty, "whole": buffers.whole, "workspace": program.workspace,
        "done": program.done, "program": program.enter, "loop": program.loop, "code": stage.code(1), "count": stage.count,
    }  # fmt: skip
    body = [f"b{k} = tensors[{j}]._array" for k, j in enumerate(recording.first)]
    for k, call in enumerate(recording.before):
        scope[f"before{k}"] = call
        body.append(f"before{k}()")
    leaves = []
    for n, (shape, dtype, leaf, _) in enumerate(recording.makers):
        scope.update({f"s{n}": shape, f"d{n}": dtype})
        if leaf is None:
            body.append(f"r{n} = empty(s{n}, d{n})")
            continue
        leaves.append(n)
        scope.update({f"l{n}": leaf, f"make{n}": leaf._make, f"c{n}": dtype.char})
        body += _GRADIENT.format(n=n).splitlines()
    body += [f"before{k}.commit()" for k in range(len(recording.before))]
    arrays = [f"b{k}" for k in range(len(recording.first))] + [f"r{n}" for n in range(len(recording.makers))]
    body += ["space = workspace()", "try:"]
    body.append(f"    program(loop, code, space.bases, {FIRST}, {''.join(a + ', ' for a in arrays)}0, count)")
    for k, (ref, check) in enumerate(recording.checks):
        scope[f"check{k}"] = check
        body.append(f"    check{k}(r{ref.memory.number})")
    body += ["except BaseException:", *[f"    if f{n}: l{n}._grad = o{n}" for n in leaves], "    raise"]
    body += ["finally:", "    done(space)"]
    for k, version in enumerate(recording.versions):
        scope[f"v{k}"] = version
        body.append(f"v{k}[0] += 1")
    for k, leaf in enumerate(recording.cleared):
        scope[f"cleared{k}"] = leaf
        body.append(f"cleared{k}._grad = None")
    body += _results(recording, scope)
    return "def enter(tensors):\n" + "\n".join("    " + line for line in body) + "\n", scope


def _results(recording: Any, scope: dict[str, Any]) -> list[str]:
    """The lines that make tensors of the results, and return them."""
    lines = []
    names = []
    for k, (_, what, cls) in enumerate(recording.outputs):
        scope[f"output{k}"] = cls._make
        node = ""
        if k in recording.outer.outputs:  # its graph was used up: one entry says so for all runs
            scope["gone"] = recording.used_up()
            node = ", gone"
        lines.append(f"t{k} = output{k}(r{what.memory.number}{node})")
        if node:
            lines.append(f"t{k}._index = {recording.outer.outputs.index(k)}")
        names.append(f"t{k}")
    if recording.structure is SLOT:
        return [*lines, "return t0"]
    if recording.structure is None:
        return ["return None"]
    return [*lines, f"return ({''.join(n + ', ' for n in names)})"]


def _compiled(text: str, scope: dict[str, Any]) -> Any:
    filename = f"<tapegrad program {id(scope):x}>"
    linecache.cache[filename] = (len(text), None, text.splitlines(True), filename)
    exec(compile(text, filename, "exec"), scope)
    return scope["enter"]
