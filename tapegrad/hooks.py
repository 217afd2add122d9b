"""Handles that take a registered hook out again."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Iterable, MutableMapping
from types import TracebackType
from typing import Any

_ids = itertools.count()


class HookDict(dict[int, Any]):
    """A dict of hooks by id. A plain dict cannot be referenced weakly, this one can."""

    __slots__ = ("__weakref__",)


class RemovableHandle:
    """What a ``register_..._hook`` call returns; ``remove()`` undoes the registration.

    Usage: ``handle = RemovableHandle(hooks); hooks[handle.id] = fn``. The handle refers to the dict
    weakly, so that a forgotten handle does not keep a module or a graph alive. Used as a context
    manager, it removes the hook at the end of the block.

    ``hooks`` is a dict that can be referenced weakly: an OrderedDict or a HookDict. ``extra`` are
    further dicts of the same owner that may hold something under the same id.
    """

    __slots__ = ("__weakref__", "_dicts", "id")

    def __init__(
        self, hooks: MutableMapping[int, Any], *, extra: Iterable[MutableMapping[int, Any]] = ()
    ) -> None:
        self._dicts = [weakref.ref(d) for d in (hooks, *extra)]
        self.id = next(_ids)
        while self.id in hooks:  # it came with a pickle from another process
            self.id = next(_ids)

    def remove(self) -> None:
        """Take the hook out; a second call does nothing."""
        for ref in self._dicts:
            hooks = ref()
            if hooks is not None:
                hooks.pop(self.id, None)

    def __getstate__(self) -> tuple[Any, ...]:
        """The dicts themselves: a copy of a module takes its handles with it, which then belong to the copy."""
        return [ref() for ref in self._dicts], self.id

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        dicts, self.id = state
        self._dicts = [weakref.ref(d) for d in dicts if d is not None]

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.remove()
