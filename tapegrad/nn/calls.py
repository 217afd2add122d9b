"""Calling a module: forward hooks, backward hooks, and the call itself."""

from __future__ import annotations

import functools
import warnings
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, MutableMapping
from typing import Any

from .. import config, scopes
from ..hooks import RemovableHandle
from ..kernels.recording import active, hooked, now
from ..tensor import Tensor
from .boundary import BackwardBoundary
from .registry import CALL_HOOKS, Registry

Hook = Callable[..., Any]

# Hooks for every module; the functions at the end of this file register them.
GLOBAL_FORWARD: OrderedDict[int, Hook] = OrderedDict()
GLOBAL_FORWARD_KWARGS: OrderedDict[int, bool] = OrderedDict()
GLOBAL_FORWARD_ALWAYS: OrderedDict[int, bool] = OrderedDict()
GLOBAL_FORWARD_PRE: OrderedDict[int, Hook] = OrderedDict()
GLOBAL_BACKWARD: OrderedDict[int, Hook] = OrderedDict()
GLOBAL_BACKWARD_PRE: OrderedDict[int, Hook] = OrderedDict()


class _Handle(RemovableHandle):
    """Takes out a hook of a module (None: of all). Compiled steps learn that hooks come and go."""

    __slots__ = ("_module",)

    def __init__(
        self, module: Any, hooks: MutableMapping[int, Any], *, extra: Iterable[MutableMapping[int, Any]] = ()
    ) -> None:
        super().__init__(hooks, extra=extra)
        self._module: Any = None if module is None else weakref.ref(module)
        hooked(module)

    def remove(self) -> None:
        """Take the hook out; a second call does nothing."""
        super().remove()
        hooked(None if self._module is None else self._module())

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        super().__setstate__(state)
        self._module = None  # a copy belongs to a copy of the module, which is not known here


class Called(Registry):
    """The call of a module with its hooks."""

    forward: Callable[..., Any]
    _is_full_backward_hook: bool | None
    _forward_hooks: OrderedDict[int, Hook]
    _forward_hooks_with_kwargs: OrderedDict[int, bool]
    _forward_hooks_always_called: OrderedDict[int, bool]
    _forward_pre_hooks: OrderedDict[int, Hook]
    _forward_pre_hooks_with_kwargs: OrderedDict[int, bool]
    _backward_hooks: OrderedDict[int, Hook]
    _backward_pre_hooks: OrderedDict[int, Hook]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if active and (recorder := now()) is not None:
            recorder.module(self)
        if (
            self._forward_hooks
            or self._forward_pre_hooks
            or self._backward_hooks
            or self._backward_pre_hooks
            or GLOBAL_FORWARD
            or GLOBAL_FORWARD_PRE
            or GLOBAL_BACKWARD
            or GLOBAL_BACKWARD_PRE
            or config.record_modules
        ):
            return self._call_with_hooks(args, kwargs)
        return self.forward(*args, **kwargs)

    def _watched(self) -> bool:
        """Whether a call is more than ``forward``: what ``__call__`` asks, for those who would do without it."""
        if active and (recorder := now()) is not None:
            recorder.module(self)
        everywhere = (GLOBAL_FORWARD, GLOBAL_FORWARD_PRE, GLOBAL_BACKWARD, GLOBAL_BACKWARD_PRE)
        return config.record_modules or any(everywhere) or any(getattr(self, name) for name in CALL_HOOKS)

    def _call_with_hooks(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        floor = scopes.floor_of((args, kwargs)) if config.record_modules else None
        called: set[int] = set()
        result = None
        try:
            args, kwargs = self._run_pre_hooks(args, kwargs)
            boundary = self._boundary()
            if boundary is not None:
                args = boundary.enter(args)
            result = self.forward(*args, **kwargs)
            for key, hook, with_kwargs, _ in self._all_forward_hooks():
                called.add(key)
                changed = hook(self, args, kwargs, result) if with_kwargs else hook(self, args, result)
                if changed is not None:
                    result = changed
            if boundary is not None:
                result = boundary.leave(result)
            self._watch_old_backward_hooks(args, result)
            if floor is not None:
                scopes.mark(self, floor, result)
            return result
        except Exception:
            self._run_always_called(called, args, kwargs, result)
            raise

    def _run_pre_hooks(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        for key, hook in (*GLOBAL_FORWARD_PRE.items(), *self._forward_pre_hooks.items()):
            if key in self._forward_pre_hooks_with_kwargs:
                changed = hook(self, args, kwargs)
                if changed is None:
                    continue
                if not (isinstance(changed, tuple) and len(changed) == 2):
                    raise RuntimeError(
                        "a forward pre-hook registered with_kwargs=True must return None or a tuple of "
                        f"(new_args, new_kwargs), got {changed!r}"
                    )
                args, kwargs = changed
            else:
                changed = hook(self, args)
                if changed is not None:
                    args = changed if isinstance(changed, tuple) else (changed,)
        return args, kwargs

    def _all_forward_hooks(self) -> Iterator[tuple[int, Hook, bool, bool]]:
        """Key, hook, whether it takes kwargs, whether it runs after an error too."""
        for key, hook in list(GLOBAL_FORWARD.items()):
            yield key, hook, key in GLOBAL_FORWARD_KWARGS, key in GLOBAL_FORWARD_ALWAYS
        own_kwargs, own_always = self._forward_hooks_with_kwargs, self._forward_hooks_always_called
        for key, hook in list(self._forward_hooks.items()):
            yield key, hook, key in own_kwargs, key in own_always

    def _run_always_called(
        self, called: set[int], args: tuple[Any, ...], kwargs: dict[str, Any], result: Any
    ) -> None:
        """After an error, hooks that asked for it still run; what they raise becomes a warning."""
        for key, hook, with_kwargs, always in self._all_forward_hooks():
            if not always or key in called:
                continue
            try:
                changed = hook(self, args, kwargs, result) if with_kwargs else hook(self, args, result)
                if changed is not None:
                    result = changed
            except Exception as err:  # noqa: BLE001 - the first error is the one to be seen
                warnings.warn(
                    f"a forward hook with always_call=True raised an exception that was silenced, because "
                    f"forward had raised another one: {err}",
                    stacklevel=4,
                )

    def _boundary(self) -> BackwardBoundary | None:
        """What carries full backward hooks around this call, if there are any."""
        before = [*GLOBAL_BACKWARD_PRE.values(), *self._backward_pre_hooks.values()]
        after = [*GLOBAL_BACKWARD.values()]
        if self._is_full_backward_hook is True:
            after += self._backward_hooks.values()
        return BackwardBoundary(self, after, before) if before or after else None

    def _watch_old_backward_hooks(self, args: tuple[Any, ...], result: Any) -> None:
        if self._is_full_backward_hook is not False or not self._backward_hooks:
            return
        found = result
        while not isinstance(found, Tensor):
            if isinstance(found, dict):
                found = next((v for v in found.values() if isinstance(v, Tensor)), None)
            elif isinstance(found, (list, tuple)) and found:
                found = found[0]
            else:
                return
        node = found.grad_fn
        if node is None:
            return
        inputs = {a.grad_fn for a in args if isinstance(a, Tensor) and a.grad_fn is not None}
        if found is not result or inputs != {fn for fn, _ in node.next_functions if fn is not None}:
            warnings.warn(
                "register_backward_hook sees only the last operation of forward: if forward has several, "
                "grad_input lacks some gradients. Use register_full_backward_hook.",
                FutureWarning,
                stacklevel=4,
            )
        for hook in self._backward_hooks.values():
            node.register_hook(functools.partial(hook, self))

    # ---- registering hooks

    def register_forward_pre_hook(
        self, hook: Hook, *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """``hook(module, args)``, or ``hook(module, args, kwargs)``, runs before forward.

        What it returns replaces the arguments: a value, a tuple, or (args, kwargs) with kwargs.
        """
        handle = _Handle(self, self._forward_pre_hooks, extra=[self._forward_pre_hooks_with_kwargs])
        _insert(self._forward_pre_hooks, handle.id, hook, prepend)
        if with_kwargs:
            self._forward_pre_hooks_with_kwargs[handle.id] = True
        return handle

    def register_forward_hook(
        self, hook: Hook, *, prepend: bool = False, with_kwargs: bool = False, always_call: bool = False
    ) -> RemovableHandle:
        """``hook(module, args, output)``, or ``hook(module, args, kwargs, output)``, runs after forward.

        What it returns, if not None, replaces the output. With ``always_call`` it runs even if
        forward raised.
        """
        handle = _Handle(
            self,
            self._forward_hooks,
            extra=[self._forward_hooks_with_kwargs, self._forward_hooks_always_called],
        )
        _insert(self._forward_hooks, handle.id, hook, prepend)
        if with_kwargs:
            self._forward_hooks_with_kwargs[handle.id] = True
        if always_call:
            self._forward_hooks_always_called[handle.id] = True
        return handle

    def register_full_backward_pre_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """``hook(module, grad_output)`` runs before the module's backward and may replace grad_output."""
        handle = _Handle(self, self._backward_pre_hooks)
        _insert(self._backward_pre_hooks, handle.id, hook, prepend)
        return handle

    def register_full_backward_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """``hook(module, grad_input, grad_output)`` runs once the gradients of the inputs are there.

        What it returns, if not None, replaces grad_input. Inputs and outputs that are not tensors
        have None in the tuples.
        """
        self._choose_backward_kind(full=True)
        handle = _Handle(self, self._backward_hooks)
        _insert(self._backward_hooks, handle.id, hook, prepend)
        return handle

    def register_backward_hook(self, hook: Hook) -> RemovableHandle:
        """Old form: sees the gradients of the last operation of forward only.

        Right for modules of one operation; else use ``register_full_backward_hook``.
        """
        self._choose_backward_kind(full=False)
        handle = _Handle(self, self._backward_hooks)
        self._backward_hooks[handle.id] = hook
        return handle

    def _choose_backward_kind(self, full: bool) -> None:
        if self._is_full_backward_hook is (not full):
            raise RuntimeError(
                "cannot use both regular backward hooks and full backward hooks on a single Module: use "
                "register_full_backward_hook for all of them"
            )
        self._is_full_backward_hook = full


def _insert(hooks: OrderedDict[int, Hook], key: int, hook: Hook, first: bool) -> None:
    hooks[key] = hook
    if first:
        hooks.move_to_end(key, last=False)


# ---- hooks for every module


def register_module_forward_pre_hook(hook: Hook) -> RemovableHandle:
    """``hook(module, args)`` before the forward of every module."""
    handle = _Handle(None, GLOBAL_FORWARD_PRE)
    GLOBAL_FORWARD_PRE[handle.id] = hook
    return handle


def register_module_forward_hook(
    hook: Hook, *, with_kwargs: bool = False, always_call: bool = False
) -> RemovableHandle:
    """``hook(module, args, output)`` after the forward of every module, before its own hooks."""
    handle = _Handle(None, GLOBAL_FORWARD, extra=[GLOBAL_FORWARD_KWARGS, GLOBAL_FORWARD_ALWAYS])
    GLOBAL_FORWARD[handle.id] = hook
    if with_kwargs:
        GLOBAL_FORWARD_KWARGS[handle.id] = True
    if always_call:
        GLOBAL_FORWARD_ALWAYS[handle.id] = True
    return handle


def register_module_full_backward_pre_hook(hook: Hook) -> RemovableHandle:
    """``hook(module, grad_output)`` before the backward of every module."""
    handle = _Handle(None, GLOBAL_BACKWARD_PRE)
    GLOBAL_BACKWARD_PRE[handle.id] = hook
    return handle


def register_module_full_backward_hook(hook: Hook) -> RemovableHandle:
    """``hook(module, grad_input, grad_output)`` after the backward of every module."""
    handle = _Handle(None, GLOBAL_BACKWARD)
    GLOBAL_BACKWARD[handle.id] = hook
    return handle
