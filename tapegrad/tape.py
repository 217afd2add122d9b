"""The tape: what was recorded, and the values it was recorded from.

A :class:`Value` is an array with its place on the tape (:class:`Entry`), its gradient and its
version. An Entry is one recorded operation: its op, edges to the entries or leaves of the inputs
that need gradients, the saved arrays that its rules name, and a position that only grows.

Ownership: a Value owns its Entry, an Entry owns the entries and leaves at its edges, and never a
Value that it produced. So a graph that nobody can reach is gone at once, without the garbage
collector, and there are no cycles.
"""

from __future__ import annotations

import gc
import itertools
import sys
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from . import config, dtypes, sources
from .hooks import RemovableHandle
from .kernels.recording import active, changed, now
from .modes import hooked, modes
from .results import constant, share
from .sites import _ours as _ours
from .sites import _user_frame as _user_frame
from .sites import describe_site as describe_site
from .sites import shown_file as shown_file
from .sites import site as site
from .sites import site_line as site_line

_positions = itertools.count()
_next_position = _positions.__next__
share(globals())  # keeps constant up to date
_NO_DTYPE = np.dtype(np.float32)  # of an entry without outputs


class _Leaf:
    """Stands in Value._node for "a leaf that requires grad"."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "LEAF"


LEAF = _Leaf()


class View:
    """How a Value lies in another one's memory: the base, and the view operations from it."""

    __slots__ = ("base", "multiple", "recorded", "seen", "steps")

    def __init__(self, base: Value, steps: tuple[Any, ...], recorded: bool, multiple: bool) -> None:
        self.base = base
        self.steps = steps
        # The base's node when this view's node was derived; another one there means it is stale.
        self.seen = base._node
        self.recorded = recorded
        self.multiple = multiple  # one of several outputs (split, unbind): not to be changed in place


class Extra:
    """What few Values have: hooks, and the wish to keep the gradient of a non-leaf."""

    __slots__ = ("hooks", "post_hooks", "retains")

    def __init__(self) -> None:
        self.hooks: OrderedDict[int, Any] | None = None  # of a leaf; an entry keeps those of its outputs
        self.post_hooks: OrderedDict[int, Any] | None = None
        self.retains = False


class Value:
    """An array on the tape. ``Tensor`` adds everything that users call."""

    __slots__ = (
        "__weakref__",
        "_array",
        "_char",  # dtype character if the array is C-contiguous, else "": what fast paths ask for
        "_extra",
        "_grad",
        "_index",  # which output of the entry
        "_node",  # Entry, LEAF, or None for a constant
        "_version",  # [number of in-place changes, (op, site) of the last]; shared by views and detach()
        "_view",
    )

    _array: np.ndarray
    _char: str
    _extra: Extra | None
    _grad: Any
    _index: int
    _node: Any
    _version: list[Any]
    _view: View | None
    # The class of results: that of the inputs, but a Parameter's is the plain one.
    _result: type[Any]

    @classmethod
    def _make(cls, array: np.ndarray, node: Any = None, index: int = 0) -> Any:
        """A Value over an array, which is not copied."""
        if type(array) is not np.ndarray:
            array = np.asarray(array)  # kernels read the array object itself: a NumPy scalar would crash them
        made = constant(array, array.dtype.char if array.flags.c_contiguous else "")
        if node is not None:
            made._node = node
            made._index = index
        return made

    def _set_array(self, array: np.ndarray) -> None:
        """Put another array in this tensor's place."""
        array = np.asarray(array)
        changed(self._array)
        self._array = array
        self._char = array.dtype.char if array.flags.c_contiguous else ""

    def _source(self) -> Any:
        """The node that produced this value: Entry, LEAF or None."""
        view = self._view
        if view is not None and view.base._node is not view.seen:
            _rederive(self, view)
        return self._node

    def _edge(self) -> Any:
        """What an entry that used this value points to: an Entry, this leaf, or None."""
        node = self._node if self._view is None else self._source()
        return self if node is LEAF else node  # None for a constant

    def _move(self, node: Any, index: int) -> None:
        """Give this value another node; if its gradient is kept, then that of the newest state."""
        if self._extra is not None and self._extra.retains:
            if type(self._node) is Entry:
                self._node._more().retain.pop(self._index, None)
            if type(node) is Entry:
                node._more().retain[index] = weakref.ref(self)
        self._node, self._index = node, index

    def _bump(self, op: str = "in-place operation") -> None:
        """Count an in-place change, so that a saved older state is noticed."""
        version = self._version
        version[0] += 1
        version[1] = (op, site())
        if active and (recorder := now()) is not None:
            recorder.bumped(version)


def _rederive(value: Value, view: View) -> None:
    """Give a view its history anew after its base was changed in place."""
    node = view.base._node
    if node is not None and value._node is not LEAF:
        value._move(_derived(view), 0)
    view.seen = node


def _derived(view: View) -> Any:
    """The entries of a view's operations anew, from where its base stands now; the last of them."""
    base = view.base
    edge, index, array = base._edge(), base._index, base._array
    for op, params in view.steps:
        saved = op.static_saves(array)
        array = op.forward(array, **params)
        entry = record(op, (edge,), (index,), saved, (), params, ((array.shape, array.dtype),))
        edge, index = entry, 0
    return edge


def before_write(value: Value) -> tuple[Any, int]:
    """Node and output of a value that is about to be changed in place, as the change's entry shall see them.

    Hooks stay with the node that they were registered on. A change through a view goes on from the base's history, so
    that it leaves out the nodes of the view that have hooks: those see only what was made from the view before.
    """
    view, node = value._view, value._node
    if view is not None and type(node) is Entry:
        entry = node
        for _ in view.steps:
            if entry.extra is not None:
                return _derived(view), 0
            entry = entry.edges[0]
            if type(entry) is not Entry:
                break
    return node, value._index


class Entry:
    """One recorded operation; ``Tensor.grad_fn``."""

    __slots__ = (
        "__weakref__",
        "code",
        "dtype",
        "edges",
        "extra",
        "held",
        "indices",
        "lasti",
        "op",
        "params",
        "position",
        "saved",
        "scope",
        "several",
        "shape",
        "stamps",
    )

    op: Any
    position: int
    edges: tuple[Any, ...]  # per input: Entry, leaf Value, or None
    indices: tuple[int, ...]  # per input: which output of that entry
    saved: Any  # arrays and numbers by slot (see op.py), or Truncated
    stamps: tuple[Any, ...]  # per slot two items: the version counter (or None) and its value when saved
    params: Any  # static parameters by name; of an entry recorded on the short way, its derivative
    shape: tuple[int, ...]  # of the first output
    dtype: np.dtype
    several: (
        tuple[tuple[tuple[int, ...], np.dtype], ...] | None
    )  # shape and dtype per output, if there are several
    code: Any  # the user's code object and instruction: file and line are looked up when asked for
    lasti: int
    extra: EntryExtra | None
    # Unset on most entries, so that recording does not pay for them:
    held: tuple[Any, int]  # where a backward with retain_graph=True left the saved arrays in place
    scope: Any  # which modules' calls ended here, see scopes.py

    def name(self) -> str:
        """PyTorch's name for the node, e.g. "MulBackward0"."""
        return str(self.op.node_name)

    @property
    def meta(self) -> tuple[tuple[tuple[int, ...], np.dtype], ...]:
        """Shape and dtype per output."""
        return ((self.shape, self.dtype),) if self.several is None else self.several

    def output(self, index: int) -> tuple[tuple[int, ...], np.dtype]:
        """Shape and dtype of one output."""
        return (self.shape, self.dtype) if self.several is None else self.several[index]

    @property
    def next_functions(self) -> tuple[tuple[Any, int], ...]:
        """Per input: the node it came from (AccumulateGrad for a leaf, None for a constant) and which output."""
        return tuple(
            (AccumulateGrad(e) if isinstance(e, Value) else e, i if e is not None else 0)
            for e, i in zip(self.edges, self.indices, strict=True)
        )

    @property
    def site(self) -> str:
        """File and line of the user's code that recorded this entry."""
        return describe_site((self.code, self.lasti))

    @property
    def truncated(self) -> bool:
        """Whether a backward has released what this entry saved."""
        return type(self.saved) is Truncated

    @property
    def retained(self) -> bool:
        """Whether a backward with retain_graph=True has been here and left the saved arrays in place."""
        return type(self.saved) is not Truncated and hasattr(self, "held")

    @property
    def rule(self) -> str:
        """The derivative rules of this entry's inputs that need gradients, as source text."""
        return sources.rules_text(self.op, [edge is not None for edge in self.edges])

    @property
    def kernel(self) -> str:
        """The source text of what computes this entry: generated loops, or the function over arrays."""
        return sources.kernel_text(self.op, [edge is not None for edge in self.edges])

    @property
    def metadata(self) -> dict[Any, Any]:
        """A dictionary for the user's notes."""
        return self._more().metadata

    def register_hook(self, hook: Callable[[tuple[Any, ...], tuple[Any, ...]], Any]) -> RemovableHandle:
        """Call ``hook(grad_inputs, grad_outputs)`` after each replay; a returned tuple replaces grad_inputs."""
        return _add_hook(self._more().post, hook)

    def register_prehook(self, hook: Callable[[tuple[Any, ...]], Any]) -> RemovableHandle:
        """Call ``hook(grad_outputs)`` before each replay; a returned tuple replaces them."""
        return _add_hook(self._more().pre, hook)

    def _more(self) -> EntryExtra:
        if self.extra is None:
            self.extra = EntryExtra()
        return self.extra

    def __repr__(self) -> str:
        return f"<{self.op.node_name} #{self.position}>"

    def saved_value(self, name: str) -> Any:
        """What the entry saved under a name of its op's save list (``entry.op.slots``), as a tensor."""
        return self.op.show_saved(self, name)

    # PyTorch's names for it. A __getattr__ would serve all of them, and slow down every other attribute.
    _saved_self = property(lambda self: self.saved_value("self"))
    _saved_other = property(lambda self: self.saved_value("other"))
    _saved_result = property(lambda self: self.saved_value("result"))
    _saved_input = property(lambda self: self.saved_value("input"))
    _saved_exponent = property(lambda self: self.saved_value("exponent"))
    _saved_weight = property(lambda self: self.saved_value("weight"))
    _saved_target = property(lambda self: self.saved_value("target"))
    _saved_dim = property(lambda self: self.saved_value("dim"))
    _saved_index = property(lambda self: self.saved_value("index"))


class EntryExtra:
    """Hooks of an entry and of its outputs."""

    __slots__ = ("metadata", "outputs", "post", "pre", "retain")

    def __init__(self) -> None:
        self.pre: OrderedDict[int, Any] = OrderedDict()
        self.post: OrderedDict[int, Any] = OrderedDict()
        self.outputs: dict[int, OrderedDict[int, Any]] = {}
        self.retain: dict[int, Any] = {}  # output -> weak reference to the Value that keeps its gradient
        self.metadata: dict[Any, Any] = {}


def _add_hook(hooks: OrderedDict[int, Any], hook: Any) -> RemovableHandle:
    handle = RemovableHandle(hooks)
    hooks[handle.id] = hook
    return handle


class AccumulateGrad:
    """The end of an edge at a leaf: where its gradient is added up."""

    __slots__ = ("variable",)

    def __init__(self, variable: Value) -> None:
        self.variable = variable

    def name(self) -> str:
        return "torch::autograd::AccumulateGrad".rpartition("::")[2]

    @property
    def next_functions(self) -> tuple[()]:
        return ()

    def register_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook((), (grad,))`` after the leaf's gradient was accumulated."""
        return self.variable.register_post_accumulate_grad_hook(  # type: ignore[attr-defined,no-any-return]
            lambda leaf: hook((), (leaf.grad,))
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AccumulateGrad) and other.variable is self.variable

    def __hash__(self) -> int:
        return hash(id(self.variable))

    def __repr__(self) -> str:
        return "<AccumulateGrad>"


class Truncated:
    """Takes the place of saved arrays that were given up, and remembers where."""

    __slots__ = ("where",)

    def __init__(self, where: tuple[Any, int]) -> None:
        self.where = where


def record(
    op: Any,
    edges: tuple[Any, ...],
    indices: tuple[int, ...],
    saved: Any,
    stamps: tuple[Any, ...],
    params: Any,
    meta: tuple[Any, ...],
) -> Entry:
    """Append an entry."""
    entry = Entry()
    entry.op = op
    entry.edges = edges
    entry.indices = indices
    entry.saved = saved
    entry.stamps = stamps
    entry.params = params
    entry.shape, entry.dtype = meta[0] if meta else ((), _NO_DTYPE)
    entry.several = meta if len(meta) > 1 else None
    entry.extra = None
    entry.position = _next_position()
    if config.record_lines:
        frame: Any = sys._getframe(2)
        code = frame.f_code
        if _ours.get(code.co_filename, True):
            frame = _user_frame(frame)
            code = frame.f_code
        entry.code = code
        entry.lasti = frame.f_lasti
    else:
        entry.code = None
        entry.lasti = 0
    if hooked and modes.saved_hooks is not None:
        op.pack(entry, modes.saved_hooks)
    return entry


# -- what is on the tape --------------------------------------------------------------------------


def reachable(nodes: list[Any]) -> list[Entry]:
    """All entries that the given ones depend on, themselves included, in recorded order."""
    seen: set[Entry] = set()
    stack = [n for n in nodes if type(n) is Entry]
    while stack:
        entry = stack.pop()
        if entry not in seen:
            seen.add(entry)
            stack += [e for e in entry.edges if type(e) is Entry]
    return sorted(seen, key=lambda e: e.position)


def live_entries() -> list[Entry]:
    """Every entry that exists in this process, in recorded order.

    Recording keeps no list of entries, since that would cost each operation; they are found among
    the objects that Python's collector knows, which is only done when somebody asks.
    """
    return sorted((o for o in gc.get_objects() if type(o) is Entry), key=lambda e: e.position)


def live_values() -> Iterator[Value]:
    """Every tensor that exists in this process."""
    for found in gc.get_objects():
        # Not isinstance(), which asks an object for its class: a stranger's proxy may do anything then.
        if issubclass(type(found), Value):
            yield found


def saved_arrays(entry: Entry) -> Iterator[tuple[str, np.ndarray]]:
    """Names and arrays that an entry keeps alive."""
    if type(entry.saved) is not Truncated:
        for name, item in zip(entry.op.slots, entry.saved, strict=False):
            if isinstance(item, np.ndarray):
                yield name, item


def dtype_of(value: Value) -> dtypes.dtype:
    """The dtype of a value's array."""
    return dtypes.of(value._array)
