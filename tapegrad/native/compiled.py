"""tg.compile: a function of tensors whose runs are recorded once per signature and then replayed without Python."""

from __future__ import annotations

import functools
import types
import warnings
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from .. import config, dtypes, tape
from ..fastpath import Paused
from ..kernels import recording
from ..kernels.recording import RecordingError, StaleError
from ..locks import shared
from ..modes import modes
from ..tape import LEAF, Value
from . import export
from .entry import OTHER, hooked
from .listing import NativeTape, tape_of
from .outer import Outer
from .outside import outside_values
from .passes import PASSES
from .record import Recorder
from .replay import Recording
from .report import Report, report, sources_of
from .trees import SLOT, flatten

REMEMBERED = 64  # signatures per function; the one that was not used for longest is forgotten
ALTERNATIVES = 4  # recordings per signature: training and evaluation, with and without gradients


class Compiled:
    """A function that records itself, see :func:`compile`."""

    def __init__(self, function: Callable[..., Any], fallback: str | None, without: frozenset[str]) -> None:
        if isinstance(function, types.FunctionType):
            functools.update_wrapper(self, function)
        self.name = getattr(function, "__name__", type(function).__name__)
        self.function = function
        self.fallback = fallback
        self.without = without
        self.recordings: OrderedDict[Any, list[Recording]] = OrderedDict()
        self.fallbacks: dict[Any, str] = {}  # signature -> why it runs eagerly
        self._closure = _closure(function)
        self._enter: Any = None  # the short way into the program that was used last
        self._last: Any = None  # the signature and recording that were used last

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        enter = self._enter
        if enter is not None and not kwargs:
            try:
                result = enter(args)
            except StaleError:
                result = OTHER
            if result is not OTHER:
                return result
            self._enter = None
        if (recording.active and recording.here.recorder is not None) or not config.compiling:
            return self.function(*args, **kwargs)
        tensors: list[Value] = []
        structure: Any = None
        form: Any = None
        if not kwargs:
            form = _plain_form(args)
        if form is None:
            structure = flatten((args, kwargs), tensors)
            form = tuple([_form(t, tensors) for t in tensors])
        else:
            tensors = args  # type: ignore[assignment]
        key = (structure, form, modes.grad, dtypes.get_default_dtype(), self._closure())
        found = self.recordings.get(key)
        if found is not None:
            for r in found:
                if r.fits(tensors):
                    try:
                        result = OTHER if r.enter is None else r.enter(args)
                        if result is OTHER:
                            result = r.run(tensors, self.without)
                        self._enter, self._last = r.enter, (key, r)
                        return result
                    except StaleError:
                        self.recordings[key] = [other for other in found if other is not r]
                        break
        if key in self.fallbacks:
            return self.function(*args, **kwargs)
        return self._record(key, list(tensors), args, kwargs)

    def __getattr__(self, name: str) -> Any:
        # A compiled module still has its parameters, a compiled function its attributes.
        if name == "function":
            raise AttributeError(name)
        return getattr(self.function, name)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    # -- looking inside -------------------------------------------------------------------------------

    def _used(self, what: str) -> tuple[Any, Recording]:
        """Signature and recording that were used last, with a program."""
        if self._last is None:
            raise RuntimeError(
                f"{self.name} has not been called yet, or runs eagerly: there is nothing to {what}"
            )
        key, r = self._last
        if not r.ready:
            r.lower(self.without)
        return key, r

    @property
    def tape(self) -> NativeTape:
        """The steps of the program that was used last: prints as a table, ``draw()`` is a picture."""
        key, r = self._used("look at")
        return tape_of(self.function, key, r)

    @property
    def kernels(self) -> dict[str, str]:
        """The source text of every kernel of the program that was used last, by its label."""
        _, r = self._used("look at")
        programs = [r.program, r.outer.program]
        return {label: text for p in programs if p is not None for label, text in sources_of(p).items()}

    def report(self, profile: bool = False, sources: bool = False) -> Report:
        """What was made: steps after each pass, memory, kernels; also shown by Jupyter, with the kernels' sources.

        ``profile`` measures each step, on one thread and over random arguments, without changing a parameter or other state.
        ``sources`` puts the kernels' sources into the text.
        """
        return report(self, profile, sources)

    def save(self, path: Any) -> None:
        """Write the program that was used last to a file, for :func:`load_compiled`: arguments in, results out, and no
        Python, random numbers or training in between (RecordingError otherwise)."""
        (structure, form, *_), r = self._used("save")
        given = (
            structure if structure is not None else (tuple, (tuple, *[SLOT] * (len(form) // 2)), (dict, ()))
        )
        export.save(r, path, given)

    def _record(self, key: Any, tensors: list[Value], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run the function eagerly, and note what it does."""
        recorder = Recorder([t._array for t in tensors])
        try:
            with Recordings(recorder):
                start = tape._next_position()
                result = self.function(*args, **kwargs)
                values: list[Value] = []
                structure = flatten(result, values)
                outer = Outer(recorder, values, tensors, start)
                flat = _flat_form(args, kwargs)
                if flat is not None:
                    flat = (tuple(map(type, args)), flat, *key[2:4], self._closure, key[4])
                made = Recording(self.name, recorder, structure, values, tensors, outer, flat)
            made.pin(tensors, [v for v, _ in outside_values(self.function, made)])
        except RecordingError as err:
            if self.fallback != "eager":
                raise
            self.fallbacks[key] = str(err)
            warnings.warn(f"{self.name} runs eagerly: {err}", RuntimeWarning, stacklevel=3)
            return self.function(*args, **kwargs)
        with shared:
            kept = self.recordings.setdefault(key, [])
            # A new list, since another thread may be looking through the old one.
            self.recordings[key] = [
                made,
                *[r for r in kept if r.epoch == recording.epoch[0]][: ALTERNATIVES - 1],
            ]
            self._last = key, made
            self.recordings.move_to_end(key)
            while len(self.recordings) > REMEMBERED:
                self.recordings.popitem(last=False)
        return result


class Recordings:
    """Within the block this thread records, and no op takes its short way."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._short = Paused()

    def __enter__(self) -> None:
        recording.active.append(None)  # from now on no thread learns a short way
        self._short.__enter__()
        recording.here.recorder = self._recorder

    def __exit__(self, *exc: object) -> None:
        recording.here.recorder = None
        self._short.__exit__(*exc)
        # Only now: what a thread learned while the block above still counts would stay in sight of the next one that records.
        recording.active.pop()


def _plain_form(args: tuple[Any, ...]) -> Any:
    """What a program depends on, of arguments that are contiguous tensors without need of gradients; else None."""
    form: list[Any] = []
    for a in args:
        if not isinstance(a, Value):
            return None
        char = a._char
        if not char or a._node is not None or (a._view is not None and a._source() is not None):
            return None
        form += (a._array.shape, char)
    return tuple(form) if len(args) < 2 or len(set(map(id, args))) == len(args) else None


def _flat_form(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Shapes, dtypes and nodes of arguments that are different contiguous tensors without a history; else None."""
    if kwargs or not all(isinstance(a, Value) and a._char and a._source() in (None, LEAF) for a in args):
        return None
    if any(map(hooked, args)):
        return None
    if len(set(map(id, args))) < len(args):
        return None
    return tuple([(a._array.shape, a._char, a._node) for a in args])


def _form(tensor: Value, tensors: list[Value]) -> tuple[Any, ...]:
    """What of a tensor the program depends on."""
    array = tensor._array
    node = tensor._source()
    need = node is LEAF if node is LEAF or node is None else "history"
    # Which other argument it is, too: two names for one tensor.
    first = next(j for j, t in enumerate(tensors) if t is tensor)
    char = tensor._char
    # The hooks of a leaf are called as they are then, but those of that leaf.
    hooks = (id(tensor._extra.hooks), id(tensor._extra.post_hooks)) if hooked(tensor) else ()  # type: ignore[union-attr]
    return (
        (array.shape, need, first, char, hooks)
        if char
        else (array.shape, need, first, array.dtype.char, hooks, array.strides)
    )


_SIMPLE = (bool, int, float, str, bytes, type(None))
_MANY = 256  # items of a list or dict from outside that are looked at


def _closure(function: Any) -> Callable[[], Any]:
    """What gives an account of what a function sees from outside: numbers and strings by value, tensors by identity.

    A program is made for those values and tensors, also for those in lists, tuples and dicts.
    """
    code = getattr(function, "__code__", None)
    if code is None:
        return tuple
    scope = function.__globals__
    names = [n for n in code.co_names if n in scope and _matters(scope[n])]
    cells = [
        c
        for c in function.__closure__ or ()
        if (not _is_empty(c) and _matters(c.cell_contents)) or _is_empty(c)
    ]
    if not cells and not names:
        return tuple

    def account() -> Any:
        seen = [_account(scope.get(n)) for n in names]
        return tuple(seen + [None if _is_empty(c) else _account(c.cell_contents) for c in cells])

    return account


def _matters(value: Any) -> bool:
    return isinstance(value, (*_SIMPLE, Value, list, tuple, dict))


def _is_empty(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018 - to be asked is all
    except ValueError:
        return True
    return False


def _account(value: Any) -> Any:
    if isinstance(value, Value):
        return id(value._array)  # which a program keeps alive
    if isinstance(value, _SIMPLE):
        return type(value), value
    if isinstance(value, (list, tuple)) and len(value) <= _MANY:
        return tuple([_account(v) for v in value])
    if isinstance(value, dict) and len(value) <= _MANY:
        return tuple([(str(k), _account(v)) for k, v in value.items()])
    return None


def compile(
    function: Callable[..., Any] | None = None,
    *,
    fallback: str | None = None,
    without: Any = (),
) -> Any:
    """Compile a function of tensors: its first call with a signature is recorded, later ones replay without Python.

    The function may be a whole training step. What it reads and writes besides its arguments (parameters, buffers,
    gradients, the state of optimizers and generators) is read and written in place as in an eager run. A function that
    needs values in Python (``item()``, ``if`` on a tensor) is an error that names the line, unless ``fallback="eager"``.
    ``without`` names passes to leave out. Also a decorator, with or without arguments.

    Watched from call to call: shapes, dtypes and needs of gradients of arguments, whether they share memory, plain values among
    them, the grad mode, training flags and attributes of modules, hooks of leaves and modules, options and state of optimizers,
    tensors and numbers in closures and globals, also in lists and dicts. Not watched: attributes of other objects. Code without
    tensor operations, such as a print, runs at the recording only. Fused products and sums may round once instead of twice, and
    matrix products are the library's own instead of BLAS's; all else is bit by bit as in an eager run.
    """
    if fallback not in (None, "eager"):
        raise ValueError(f"compile(fallback={fallback!r}): choose None or 'eager'")
    known = [p.__name__ for p in PASSES]
    unknown = sorted(set(without) - set(known))
    if unknown:
        raise ValueError(
            f"compile(without=...): there is no pass {', '.join(unknown)}; there are {', '.join(known)}"
        )
    if function is None:
        return lambda f: compile(f, fallback=fallback, without=without)
    if not callable(function):
        raise TypeError(f"compile() takes a function, not {type(function).__name__}")
    made = Compiled(function, fallback, frozenset(without))
    # A module stays one, with parameters to be trained and a state to be saved.
    as_module = getattr(function, "_optimized", None)
    return made if as_module is None else as_module(made)
