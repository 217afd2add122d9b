"""Grad modes: whether operations are recorded. Each thread has its own.

All of them work as a context (``with no_grad():``) and as a decorator (``@no_grad()``).
"""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


class _Modes(threading.local):
    """State of one thread; the class attributes are what a new thread starts with."""

    grad = True
    inference = False
    # Innermost pair of autograd.graph.saved_tensors_hooks, or None.
    saved_hooks: tuple[Callable[[Any], Any], Callable[[Any], Any]] | None = None
    # Set by autograd.detect_anomaly: (check NaN) or None.
    anomaly: bool | None = None


modes = _Modes()
# One item per saved_tensors_hooks block that is open in any thread: the short way of an op asks this
# list first, which is cheaper than asking its thread.
hooked: list[object] = []
# Likewise one item per thread that is not recording.
paused: list[None] = []


def set_grad(enabled: bool) -> None:
    """Set whether this thread records; the only place that does."""
    if enabled is not modes.grad:
        modes.grad = enabled
        if enabled:
            paused.pop()
        else:
            paused.append(None)


def is_grad_enabled() -> bool:
    """Whether operations of this thread are being recorded."""
    return modes.grad


def is_inference_mode_enabled() -> bool:
    """Whether this thread is inside inference_mode."""
    return modes.inference


class _Mode:
    """A context that sets the grad mode and restores what was there; reentrant and reusable."""

    def __init__(self, enabled: bool) -> None:
        self._enabled = enabled
        self._before: list[tuple[bool, bool]] = []

    def __enter__(self) -> None:
        self._before.append((modes.grad, modes.inference))
        set_grad(self._enabled)

    def __exit__(self, *exc: object) -> None:
        grad, modes.inference = self._before.pop()
        set_grad(grad)

    def _fresh(self) -> _Mode:
        """A context for one call of a decorated function."""
        return type(self)()  # type: ignore[call-arg]

    def __call__(self, fn: F) -> F:
        if inspect.isgeneratorfunction(fn):
            return self._generator(fn)  # type: ignore[return-value]

        @functools.wraps(fn)
        def run(*args: Any, **kwargs: Any) -> Any:
            with self._fresh():
                return fn(*args, **kwargs)

        return run  # type: ignore[return-value]

    def _generator(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        # The mode holds while the generator's body runs, not while its consumer's does.
        @functools.wraps(fn)
        def run(*args: Any, **kwargs: Any) -> Any:
            source = fn(*args, **kwargs)
            try:
                with self._fresh():
                    item = next(source)
                while True:
                    try:
                        sent = yield item
                    except GeneratorExit:
                        source.close()
                        raise
                    except BaseException as err:  # noqa: BLE001 - handed on to the generator
                        with self._fresh():
                            item = source.throw(err)
                    else:
                        with self._fresh():
                            item = source.send(sent)
            except StopIteration as stop:
                return stop.value

        return run


class no_grad(_Mode):
    """Nothing is recorded inside, whatever the inputs."""

    def __init__(self) -> None:
        super().__init__(False)

    def __new__(cls, fn: Any = None) -> Any:
        # Also as a bare decorator: @no_grad without parentheses.
        made = object.__new__(cls)
        if fn is None:
            return made
        made.__init__()  # type: ignore[misc]
        return made(fn)


class enable_grad(_Mode):
    """Operations are recorded inside, also within no_grad."""

    def __init__(self) -> None:
        super().__init__(True)

    __new__ = no_grad.__new__  # type: ignore[assignment]


class set_grad_enabled(_Mode):
    """Set recording on or off: at once when called, and restored at the end when used as a context."""

    def __init__(self, mode: bool) -> None:
        super().__init__(bool(mode))
        self._initial = (modes.grad, modes.inference)
        set_grad(bool(mode))

    def __enter__(self) -> None:
        self._before.append(self._initial)
        set_grad(self._enabled)

    def __call__(self, fn: F) -> F:
        set_grad(self._initial[0])  # a decorator only acts while its function runs
        return super().__call__(fn)

    def _fresh(self) -> _Mode:
        return set_grad_enabled(self._enabled)


class inference_mode(_Mode):
    """Like no_grad; ``inference_mode(False)`` leaves recording on."""

    def __init__(self, mode: bool = True) -> None:
        super().__init__(not mode)
        self._mode = mode

    def __enter__(self) -> None:
        super().__enter__()
        modes.inference = self._mode

    def _fresh(self) -> _Mode:
        return inference_mode(self._mode)
