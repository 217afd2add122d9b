"""The short way through an elementwise op, for the calls that programs make most.

One or two contiguous tensors of one shape and dtype (or a tensor and a number), below the size from
which threads pay. What the general path of elementwise.py works out anew at each call is looked up here (the
kernel by dtype) or written into the text of the function: which arrays are kept depends only on
the op and on which inputs need gradients. Everything else goes the general way, and the first call
with given types does too; it leaves the kernel behind.

The functions are emitted as text, one per op, because at one microsecond per operation every
call, loop and test that the text spares is a measurable part. ``inspect.getsource(tapegrad.mul)`` shows it.
"""

from __future__ import annotations

import linecache
import sys
from collections.abc import Callable
from functools import cache as once
from typing import Any, ClassVar

import numpy as np

from . import config, results, tape
from .elementwise import Elementwise, learned
from .locks import shared
from .modes import hooked, modes, paused
from .tape import LEAF, Entry, Value


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

    ``kind`` rules the types: "same" (PyTorch's promotion), "float" (integers become floating), "floating" (integers
    are refused), "compare" (the result is bool), "integral" (no floating operands). ``derive`` takes the
    derivative from the formula.
    """

    def make(formula: Callable[..., Any]) -> Any:
        op = Elementwise(formula, None if derive else rules, kind, masks, node_name, name)
        plain = not op.params and not op.defaults and not masks and len(op.inputs) in (1, 2)
        if plain and kind in ("same", "float", "floating", "compare"):
            made = _short_way(op)
        else:
            made = _any(op)
        made.__name__ = made.__qualname__ = op.name
        made.__doc__ = formula.__doc__
        made.__module__ = formula.__module__
        made.op = op
        op.function = made
        return made

    return make


# -- the general face -------------------------------------------------------------------------------


def _any(op: Elementwise) -> Any:
    general = op.general

    def call(*inputs: Any, out: Any = None, **params: Any) -> Any:
        if len(inputs) != len(op.inputs) or not params.keys() <= set(op.params):
            inputs, params = _bind(op, inputs, params)
        return general(*inputs, out=out, **params)

    return call


def _bind(
    op: Elementwise, inputs: tuple[Any, ...], given: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments given by name, or parameters given by position, where they belong."""
    names = (*op.inputs, *op.params)
    if len(inputs) > len(names):
        raise TypeError(f"{op.name}() takes at most {len(names)} arguments, {len(inputs)} were given")
    bound = dict(zip(names, inputs, strict=False))
    for key, value in given.items():
        if key not in names:
            raise TypeError(
                f"{op.name}() got an unexpected keyword argument {key!r}; it takes {', '.join(names)}"
            )
        if key in bound:
            raise TypeError(f"{op.name}() got multiple values for argument {key!r}")
        bound[key] = value
    missing = [n for n in op.inputs if n not in bound and n not in op.defaults]
    if missing:
        raise TypeError(f"{op.name}() is missing the argument {missing[0]!r}")
    params = {n: bound[n] for n in op.params if n in bound}
    return tuple(bound.get(n, op.defaults.get(n)) for n in op.inputs), params


# -- the short way ----------------------------------------------------------------------------------

_RESULT = """\
result = constant(made, {char})
"""

_ENTRY = """\
entry = Entry()
entry.op = op
entry.edges = {edges}
entry.indices = {indices}
{keep}
entry.shape = shape
entry.dtype = dtype
entry.several = None
entry.extra = None
entry.position = next_position()
{site}
if hooked and modes.saved_hooks is not None:
    op.pack(entry, modes.saved_hooks)
result._node = entry
return result
"""

_SITE = """\
frame = getframe(1)
code = frame.f_code
if ours.get(code.co_filename, True):
    frame = user_frame(frame)
    code = frame.f_code
entry.code = code
entry.lasti = frame.f_lasti
"""

_NO_SITE = """\
entry.code = None
entry.lasti = 0
"""

_UNARY = """\
def short_way({a}, *, out=None):
    # The usual class is asked for first: that takes half as long as isinstance, which also knows subclasses.
    if out is None and (type({a}) is Result or isinstance({a}, Value)):
        char = {a}._char
        if char in kernels_a:
            kernel = kernels_a[char]
            x = {a}._array
            n = x.size
            if n < grain:
                shape = x.shape
                dtype = x.dtype
                made = empty(shape, {out_dtype})
                kernel(x, made, 0, n)
{result}
                node = {a}._node if {a}._view is None else {a}._source()
                if node is None or (paused and not modes.grad){never}:
                    return result
{entry}
    return general({a}, out=out)
"""

_BINARY = """\
def short_way({a}, {b}, *, out=None):
    if out is None and (type({a}) is Result or isinstance({a}, Value)):
        char = {a}._char
        x = {a}._array
        n = x.size
        if type({b}) is Result or isinstance({b}, Value):
            y = {b}._array
            if char is {b}._char and n < grain and char in kernels_aa:
                kernel = kernels_aa[char]
                shape = x.shape
                if shape == y.shape:
                    dtype = x.dtype
                    made = empty(shape, {out_dtype})
                    kernel(x, y, made, 0, n)
{result}
                    node = {a}._node if {a}._view is None else {a}._source()
                    other_node = {b}._node if {b}._view is None else {b}._source()
                    if (node is None and other_node is None) or (paused and not modes.grad){never}:
                        return result
                    if node is LEAF:
                        node = {a}
                    if other_node is LEAF:
                        other_node = {b}
{entry}
        elif n < grain and type({b}) in numbers:
            if char in kernels_an:
                kernel = kernels_an[char]
                shape = x.shape
                dtype = x.dtype
                made = empty(shape, {out_dtype})
                kernel(x, made, float({b}), 0, n)
{result_number}
                node = {a}._node if {a}._view is None else {a}._source()
                if node is None or (paused and not modes.grad){never}:
                    return result
{entry_number}
    return general({a}, {b}, out=out)
"""


def _keep(op: Elementwise, needs: tuple[bool, ...], sources: dict[str, tuple[str, str]], vjp: str) -> str:
    """The statements that save what the rules of the needed inputs name, and note their derivative.

    ``sources`` gives, per slot, the expressions for the array and for its version counter.
    """
    names = op.save_list(needs)
    saved, stamps = [], []
    for slot in op.slots:
        if slot not in names:
            saved.append("None")
            stamps += ["None", "0"]
            continue
        array, counter = sources[slot]
        saved.append(array)
        if counter.endswith("._version"):  # bound to a name once, then read
            name = f"v{len(saved)}"
            stamps += [f"({name} := {counter})", f"{name}[0]"]
        else:
            stamps += [counter, "0"]
    if not names & set(op.slots):
        stamps = []
    return f"entry.saved = {_tuple(saved)}\nentry.stamps = {_tuple(stamps)}\nentry.params = {vjp}"


def _tuple(items: list[str]) -> str:
    return f"({', '.join(items)}{',' if len(items) == 1 else ''})"


def _short_way(op: Elementwise) -> Any:
    """Emit and compile (as Python) the function of an op with one or two inputs."""
    never = "" if op.rules else " or True"
    a = "input"  # not the op's own name for it, which may be one that the text uses; see _compiled
    compares = op.kind == "compare"
    result = _RESULT.format(char='"?"' if compares else "char")
    out_dtype = "boolean" if compares else "dtype"
    site = (_SITE if config.record_lines else _NO_SITE).rstrip("\n")
    edge = f"({a} if node is LEAF else node,"
    if len(op.inputs) == 1:
        sources = {op.inputs[0]: ("x", f"{a}._version"), "out": ("made", "result._version")}
        keep = _keep(op, (True,), sources, "vjp_1")
        entry = _ENTRY.format(
            edges=f"{edge})", indices=f"(0,) if not {a}._index else ({a}._index,)", keep=keep, site=site
        )
        text = _UNARY.format(
            a=a, never=never, out_dtype=out_dtype, result=_indent(result, 16), entry=_indent(entry, 16)
        )
    else:
        b = "other"
        first, second = op.inputs
        sources = {
            first: ("x", f"{a}._version"),
            second: ("y", f"{b}._version"),
            "out": ("made", "result._version"),
        }
        cases = [
            ("if other_node is None:", _keep(op, (True, False), sources, "vjp_10")),
            ("elif node is None:", _keep(op, (False, True), sources, "vjp_01")),
            ("else:", _keep(op, (True, True), sources, "vjp_11")),
        ]
        keep = "\n".join(f"{test}\n{_indent(lines, 4)}" for test, lines in cases)
        # The usual indices are a constant of the function, which costs nothing to make.
        indices = f"({a}._index, {b}._index) if {a}._index or {b}._index else (0, 0)"
        entry = _ENTRY.format(edges="(node, other_node)", indices=indices, keep=keep, site=site)
        keep_number = _keep(op, (True, False), {**sources, second: (b, "None")}, "vjp_n")
        entry_number = _ENTRY.format(
            edges=f"{edge} None)",
            indices=f"({a}._index, 0) if {a}._index else (0, 0)",
            keep=keep_number,
            site=site,
        )
        text = _BINARY.format(
            a=a,
            b=b,
            never=never,
            out_dtype=out_dtype,
            result=_indent(result, 20),
            entry=_indent(entry, 20),
            result_number=_indent(result, 16),
            entry_number=_indent(entry_number, 16),
        )
    return _compiled(op, text)


def _indent(text: str, width: int) -> str:
    return "\n".join([" " * width + line for line in text.splitlines()])


def _compiled(op: Elementwise, text: str) -> Any:
    scope: dict[str, Any] = {
        "Entry": Entry, "boolean": np.dtype(bool), "LEAF": LEAF, "Value": Value, "empty": np.empty, "general": op.general,
        "getframe": sys._getframe, "grain": config.grain, "hooked": hooked, "modes": modes, "paused": paused,
        "next_position": tape._next_position, "numbers": (float, int), "op": op, "ours": tape._ours,
        "user_frame": tape._user_frame,
    }  # fmt: skip
    if len(op.inputs) == 1:
        alone = op.variant("a")
        scope |= {"kernels_a": alone.flat, "vjp_1": alone.vjp((True,))}
    else:
        pair, number = op.variant("aa"), op.variant("an")
        scope |= {"kernels_aa": pair.flat, "kernels_an": number.flat, "vjp_n": number.vjp((True, False))}
        scope |= {
            f"vjp_{a:d}{b:d}": pair.vjp((a, b)) for a, b in ((True, True), (True, False), (False, True))
        }
    exec(_code(text), scope)
    results.share(scope)
    made = scope["short_way"]
    # Callers may give the inputs by the names that the op has for them.
    code = made.__code__
    made.__code__ = code.replace(co_varnames=(*op.inputs, *code.co_varnames[len(op.inputs) :]))
    return made


@once
def _code(text: str) -> Any:
    """Compiled text. Ops that keep the same things share it, each with globals of its own."""
    filename = f"<tapegrad short way {hash(text):x}>"
    linecache.cache[filename] = (len(text), None, text.splitlines(True), filename)
    return compile(text, filename, "exec")


class Paused:
    """Within the block no op takes its short way, in any thread: the kernels that it looks up are out of sight.

    They come back when the last thread has left its block.
    """

    _inside: ClassVar[list[None]] = []
    _kernels: ClassVar[list[tuple[Any, dict[str, Any]]]] = []

    def __enter__(self) -> None:
        with shared:
            self._inside.append(None)
            if len(self._inside) == 1:
                self._kernels[:] = [(variant, dict(variant.flat)) for variant in learned]
                for variant, _ in self._kernels:
                    variant.flat.clear()

    def __exit__(self, *exc: object) -> None:
        with shared:
            self._inside.pop()
            if not self._inside:
                for variant, flat in self._kernels:
                    variant.flat.update(flat)
                self._kernels.clear()
