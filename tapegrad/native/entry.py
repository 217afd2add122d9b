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

from .. import buffers, config, dtypes, kernels, modes, results
from ..kernels import recording as recordings
from ..tape import LEAF
from .lower import FIRST
from .program import MOST, PRIVATE, Program
from .steps import Host, Ref
from .trees import SLOT

OTHER = object()  # what the function returns for a call unlike the recorded one

_GRADIENT = """\
g = {leaf}._grad
# Nobody but its leaf holds it: the references are the leaf's, this name, and the question; those of its array likewise.
if (g is not None and references(g) == 3 and g._char == {char!r} and g._node is None and g._view is None
        and references(a := g._array) == 3 and (a.base is None or whole(a))):
    r{n} = a
    f{n} = False
else:
    r{n} = empty(s{n}, d{n})
    f{n} = True
    o{n} = g
    {leaf}._grad = constant(r{n}, {char!r})
"""


def alias(cls: Any, array: np.ndarray, version: list[Any]) -> Any:
    """A tensor in the memory of one that exists, with which it counts changes."""
    made = cls._make(array)
    made._version = version
    return made


def hooked(leaf: Any) -> bool:
    """Whether a leaf has hooks of its own."""
    return bool(leaf._extra is not None and (leaf._extra.hooks or leaf._extra.post_hooks))


def written_out(recording: Any) -> Any:
    """The function from a tuple of tensors to the result; None for a recording that needs the long way."""
    program: Program = recording.program
    structure = recording.structure
    plain = (
        recording.flat_form is not None
        and len(program.stages) == 1
        and not isinstance(program.stages[0], Host)
        and not kernels.machine.plain()
        and not recording.apart
        and not recording.pinned
        and len(recording.first) + len(recording.makers) <= 2 * MOST
        and all(ref is None for *_, ref in recording.makers)
        and all(_whole(ref, recording) for ref, _, _ in recording.checks)
        and (structure is SLOT or structure is None or _rows(structure))
    )
    if not plain:
        return None
    scope: dict[str, Any] = {}
    lines = [*_guards(recording, scope), *_body(recording, scope)]
    return _compiled("def enter(args):\n" + "\n".join("    " + line for line in lines) + "\n", scope)


def _rows(structure: Any) -> bool:
    """Whether a structure is a tensor, or tuples and lists of such."""
    if structure is SLOT:
        return True
    return type(structure) is tuple and structure[0] in (tuple, list) and all(map(_rows, structure[1:]))


def _whole(ref: Ref, recording: Any) -> bool:
    """Whether a reference is all of a result, as it is made for each run."""
    memory = ref.memory
    if memory not in recording.results:
        return False
    shape, dtype, *_ = recording.makers[memory.number]
    return bool(ref.contiguous and ref.first == 0 and ref.shape == shape and ref.char == dtype.char)


def _guards(recording: Any, scope: dict[str, Any]) -> Iterator[str]:
    """The lines that leave if the call is not like the recorded one, and name its tensors."""
    classes, form, grad, kind, account, seen = recording.flat_form
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
        shape, char, node = form[j]
        scope.update({f"i{j}": shape, f"n{j}": cls, "leaf": LEAF})
        asked += [f"type({x}) is not n{j}", f"{x}._char != {char!r}", f"{x}._array.shape != i{j}"]
        asked += [f"{x}._node is not {'leaf' if node is LEAF else None}"]
        asked += [f"{x}._view is not None and {x}._source() is not {'leaf' if node is LEAF else None}"]
    asked += [f"x{j}._grad is not None" for j in recording.bare]
    asked += [
        f"x{j}._extra is not None and hooked(x{j})" for j, (*_, node) in enumerate(form) if node is LEAF
    ]
    scope["hooked"] = hooked
    for j, value in recording.fixed:
        scope[f"q{j}"] = value
        asked.append(f"x{j} is not q{j}")
    if recording.plain_state:
        scope.update({"shared": recording.plain_state, "in_state": recording.in_state})
        lies = [f"id({x}._array) in shared or id({x}._array.base) in shared" for x in names]
        asked.append(f"({' or '.join(lies)}) and in_state(args)")
    if recording.overlaps:
        scope["overlapping"] = recording.overlapping
        asked.append("overlapping(args)")
    yield from _leave_if(asked)


def _leave_if(asked: list[str]) -> list[str]:
    return [f"if ({' or '.join(asked)}):", "    return other"]


def _body(recording: Any, scope: dict[str, Any]) -> Iterator[str]:
    """The lines that run the program."""
    program = recording.program
    scope.update({
        "references": sys.getrefcount, "whole": buffers.whole, "constant": results.constant, "spaces": program.spaces,
        "workspace": program.workspace, "done": program.done, "empty": buffers.empty, "empty_small": np.empty,
    })  # fmt: skip
    for k, j in enumerate(recording.first):
        yield f"b{k} = x{j}._array"
    for k, call in enumerate(recording.before):
        scope[f"before{k}"] = call
        yield f"before{k}()"
    leaves = {}
    for n, (shape, dtype, leaf, _) in enumerate(recording.makers):
        scope.update({f"s{n}": shape, f"d{n}": dtype})
        if leaf is None:
            small = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize < buffers.LARGE
            yield f"r{n} = empty{'_small' * small}(s{n}, d{n})"
            continue
        leaves[n] = _leaf(leaf, f"l{n}", scope)
        yield from _GRADIENT.format(n=n, leaf=leaves[n], char=dtype.char).splitlines()
    for k, call in enumerate(recording.before):
        if call.counts:
            yield f"before{k}.commit()"
    yield "try:"
    yield "    space = spaces.pop()"
    yield "except IndexError:"
    yield "    space = workspace()"
    if program.arena_size > PRIVATE:
        yield f"space.take({program.arena_size})"
    for k, (generator, _, _) in enumerate(recording.generators):
        scope[f"g{k}"] = generator
    block = list(_guarded_run(recording, scope, leaves))
    if recording.locks:
        scope |= {f"lock{k}": lock for k, lock in enumerate(recording.locks)}
        yield f"with {', '.join(f'lock{k}' for k in range(len(recording.locks)))}:"
        yield from ["    " + line for line in block]
    else:
        yield from block
    for k, version in enumerate(recording.versions):
        scope[f"v{k}"] = version
        yield f"v{k}[0] += 1"
    for k, leaf in enumerate(recording.cleared):
        yield f"{_leaf(leaf, f'cleared{k}', scope)}._grad = None"
    for k, call in enumerate(recording.after):
        scope[f"after{k}"] = call
        yield f"after{k}()"
    yield from _results(recording, scope)


def _guarded_run(recording: Any, scope: dict[str, Any], leaves: dict[int, str]) -> Iterator[str]:
    """The lines that run the machine, look whether it met bad values, and put gradients back if something raises."""
    numbers = range(len(recording.generators))
    yield from [f"at{k} = g{k}._offset" for k in numbers]
    yield "try:"
    yield from ["    " + line for line in _run(recording, scope)]
    for k, (ref, check, fine) in enumerate(recording.checks):
        scope.update({f"check{k}": check, f"fine{k}": fine})
        result = f"r{ref.memory.number}"
        # What the check had no objection to at the recording need not be asked again.
        yield f"    if {f'{result}.item() != fine{k}' if fine is not None else 'True'}:"
        yield f"        check{k}({result})"
    yield "except BaseException:"
    yield from [f"    if f{n}: {leaf}._grad = o{n}" for n, leaf in leaves.items()]
    large = recording.program.arena_size > PRIVATE
    yield from ["    raise", "finally:", "    done(space)" if large else "    spaces.append(space)"]
    for k, (_, _, used) in enumerate(recording.generators):
        yield f"g{k}._offset = (at{k} + {used}) & {0x7FFF_FFFF_FFFF_FFFF}"


def _leaf(leaf: Any, name: str, scope: dict[str, Any]) -> str:
    """The name of a leaf: an argument, or a tensor from outside."""
    if type(leaf) is int:
        return f"x{leaf}"
    scope[name] = leaf
    return name


def _run(recording: Any, scope: dict[str, Any]) -> Iterator[str]:
    """The lines that bind arrays and run the machine."""
    program = recording.program
    stage = program.stages[0]
    bound = _bound(recording)
    program.prepare(len(bound))
    scope.update({"program": program.enter, "bind": program.bind, "loop": program.loop, "count": stage.count})
    at = FIRST
    if len(bound) > MOST:
        yield f"bind(loop, space.bases, space.bases, {FIRST}, {', '.join(bound[:MOST])}, 0, 0)"
        at, bound = FIRST + MOST, bound[MOST:]
    if stage.large:
        scope.update({"stage": stage, "owner": program})
        yield f"stage.enter(owner, space.bases, {at}, [{', '.join(bound)}])"
        return
    scope.update({"code": stage.code(1), "fresh_code": stage.code})
    code = "fresh_code(1)" if stage.live else "code"
    yield f"program(loop, {code}, space.bases, {at}, {''.join(a + ', ' for a in bound)}0, count)"


def _bound(recording: Any) -> list[str]:
    return [f"b{k}" for k in range(len(recording.first))] + [f"r{n}" for n in range(len(recording.makers))]


def _results(recording: Any, scope: dict[str, Any]) -> Iterator[str]:
    """The lines that make tensors of the results, give them their place on the tape, and return them."""
    outer = recording.outer
    attached = bool(outer.outputs) and not (
        outer.truncated and not any(how == "argument" for how, _ in outer.edges)
    )
    names = []
    for k, (how, what, cls) in enumerate(recording.outputs):
        names.append(f"t{k}")
        scope[f"output{k}"] = cls
        node = ""
        if how == "argument":
            yield f"t{k} = x{what}"
        elif how == "made":
            if k in outer.outputs and not attached:  # its graph was used up: one entry says so for all runs
                scope["gone"] = recording.used_up()
                node = f"gone, {outer.outputs.index(k)}"
            if _whole(what, recording):
                yield f"t{k} = constant(r{what.memory.number}, {what.char!r})"
                if node:
                    yield f"t{k}._node, t{k}._index = {node}"
            else:
                scope.update({f"p{k}": what, "array": recording._array})
                yield f"t{k} = output{k}._make(array(p{k}, [{', '.join(_bound(recording))}]), {node})"
        else:
            scope[f"w{k}_"] = what
            scope["alias"] = alias
            makers = {"same": f"w{k}_", "again": f"t{what}", "alias": f"alias(output{k}, *w{k}_)"}
            yield f"t{k} = {makers.get(how, f'output{k}._make(w{k}_.copy())')}"
    if attached:
        scope["attach"] = recording._attach
        starts = "".join(f"(g{k}, at{k}), " for k in range(len(recording.generators)))
        yield f"attach([{', '.join(names)}], args, [{', '.join(_bound(recording))}], ({starts}))"
    yield f"return {_returned(recording.structure, iter(names))}"


def _returned(structure: Any, names: Iterator[str]) -> str:
    if structure is None:
        return "None"
    if structure is SLOT:
        return next(names)
    items = [_returned(s, names) for s in structure[1:]]
    return f"[{', '.join(items)}]" if structure[0] is list else f"({''.join(i + ', ' for i in items)})"


def _compiled(text: str, scope: dict[str, Any]) -> Any:
    filename = f"<tapegrad program {id(scope):x}>"
    linecache.cache[filename] = (len(text), None, text.splitlines(True), filename)
    exec(compile(text, filename, "exec"), scope)
    enter = scope["enter"]
    weakref.finalize(enter, linecache.cache.pop, filename, None)
    return enter
