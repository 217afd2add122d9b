"""state_dict and load_state_dict: a module's parameters and buffers by dotted names."""

from __future__ import annotations

from collections import OrderedDict, namedtuple
from collections.abc import Callable, Mapping
from typing import Any

from ..hooks import RemovableHandle
from ..modes import no_grad
from ..tensor import Tensor
from .parameter import Parameter, is_lazy
from .registry import Registry

Hook = Callable[..., Any]
EXTRA_STATE = "_extra_state"


class _IncompatibleKeys(namedtuple("_IncompatibleKeys", ["missing_keys", "unexpected_keys"])):
    """What load_state_dict could not match."""

    __slots__ = ()

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return super().__repr__()

    __str__ = __repr__


class Stateful(Registry):
    """Saving and loading of state."""

    _version: int = 1
    _state_dict_hooks: OrderedDict[int, Hook]
    _state_dict_pre_hooks: OrderedDict[int, Hook]
    _load_state_dict_pre_hooks: OrderedDict[int, Hook]
    _load_state_dict_post_hooks: OrderedDict[int, Hook]

    # ---- saving

    def state_dict(
        self, *args: Any, destination: Any = None, prefix: str = "", keep_vars: bool = False
    ) -> Any:
        """All parameters and persistent buffers by dotted name.

        The values are detached and share memory with the module; ``keep_vars`` gives the
        parameters themselves.
        """
        if args:
            # The old positional form: destination, prefix, keep_vars.
            options: list[Any] = [destination, prefix, keep_vars]
            options[: len(args)] = args
            destination, prefix, keep_vars = options
        if destination is None:
            destination = OrderedDict()
            destination._metadata = OrderedDict()  # the version of each module's layout
        local_metadata = {"version": self._version}
        if hasattr(destination, "_metadata"):
            destination._metadata[prefix[:-1]] = local_metadata
        for hook in self._state_dict_pre_hooks.values():
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, module in self._modules.items():
            if module is not None:
                module.state_dict(destination=destination, prefix=f"{prefix}{name}.", keep_vars=keep_vars)
        for hook in self._state_dict_hooks.values():
            changed = hook(self, destination, prefix, local_metadata)
            if changed is not None:
                if isinstance(hook, _InPlace):
                    raise RuntimeError(
                        "a state_dict post-hook must return None: it changes the dict in place"
                    )
                destination = changed
        return destination

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        """Put this module's own state (not its children's) into ``destination``."""
        for name, param in self._parameters.items():
            if param is not None:
                destination[prefix + name] = param if keep_vars else param.detach()
        for name, buffer in self._buffers.items():
            if buffer is not None and name not in self._non_persistent_buffers_set:
                destination[prefix + name] = buffer if keep_vars else buffer.detach()
        if type(self).get_extra_state is not Stateful.get_extra_state:
            destination[prefix + EXTRA_STATE] = self.get_extra_state()

    def get_extra_state(self) -> Any:
        """Override, with ``set_extra_state``, to keep more than tensors in the state_dict."""
        raise RuntimeError(
            "get_extra_state has to be overridden by the module, together with set_extra_state"
        )

    def set_extra_state(self, state: Any) -> None:
        """Override to take back what ``get_extra_state`` returned."""
        raise RuntimeError(
            "set_extra_state has to be overridden by the module, together with get_extra_state"
        )

    # ---- loading

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> _IncompatibleKeys:
        """Copy values into the parameters and buffers of the same names.

        ``strict``: missing and unexpected keys are errors; else they are returned. ``assign``: the
        given tensors take the places of the old ones instead of being copied.
        """
        if not isinstance(state_dict, Mapping):
            raise TypeError(f"expected state_dict to be dict-like, got {type(state_dict)}")
        missing: list[str] = []
        unexpected: list[str] = []
        errors: list[str] = []
        metadata = getattr(state_dict, "_metadata", None)
        # A copy, because hooks may rename keys.
        state: Any = OrderedDict(state_dict)
        if metadata is not None:
            state._metadata = metadata
        _load(self, state, "", metadata or {}, assign, strict, missing, unexpected, errors)
        if strict:
            for what, keys in (("Missing", missing), ("Unexpected", unexpected)):
                if keys:
                    listed = ", ".join(f'"{key}"' for key in keys)
                    errors.insert(0, f"{what} key(s) in state_dict: {listed}.")
        if errors:
            lines = "\n\t".join(errors)
            raise RuntimeError(f"Error(s) in loading state_dict for {type(self).__name__}:\n\t{lines}")
        return _IncompatibleKeys(missing, unexpected)

    def _load_from_state_dict(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        """Take this module's own state (not its children's) out of ``state_dict``."""
        for hook in self._load_state_dict_pre_hooks.values():
            # The module is passed at the call: a hook that held it would make a reference cycle.
            first = (self,) if isinstance(hook, _WithModule) else ()
            hook(
                *first, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
            )
        assign = local_metadata.get("assign_to_params_buffers", False)
        buffers = {k: v for k, v in self._buffers.items() if k not in self._non_persistent_buffers_set}
        for name, own in (*self._parameters.items(), *buffers.items()):
            if own is None:
                continue
            key = prefix + name
            if key not in state_dict:
                if strict:
                    missing_keys.append(key)
                continue
            problem = self._take(name, own, state_dict[key], key, assign)
            if problem:
                error_msgs.append(problem)
        self._load_extra_state(state_dict, prefix, strict, missing_keys, unexpected_keys)
        if strict:
            unexpected_keys.extend(self._unknown_keys(state_dict, prefix))

    def _take(self, name: str, own: Tensor, given: Any, key: str, assign: bool) -> str | None:
        """Put one loaded tensor in its place; what is wrong with it, else None."""
        if not isinstance(given, Tensor):
            return (
                f'while loading "{key}", expected a Tensor but received {type(given).__name__}; use '
                "tapegrad.from_numpy or tapegrad.tensor"
            )
        if is_lazy(given):
            return (
                None if is_lazy(own) else f"{key} is uninitialized in the checkpoint, but not in this model"
            )
        if own.dim() == 0 and given.dim() == 1 and not assign and given.shape[0] == 1:
            given = given[0]
        if given.shape != own.shape:
            return (
                f"size mismatch for {key}: copying a param with shape {tuple(given.shape)} from checkpoint, "
                "the "
                f"shape in current model is {tuple(own.shape)}."
            )
        with no_grad():
            if not assign:
                own.copy_(given)
            elif isinstance(own, Parameter):
                if not isinstance(given, Parameter):
                    given = Parameter(given, requires_grad=own.requires_grad)
                else:
                    given.requires_grad_(own.requires_grad)
                self._parameters[name] = given
            else:
                self._buffers[name] = given
        return None

    def _load_extra_state(
        self, state_dict: dict[str, Any], prefix: str, strict: bool, missing: list[str], unexpected: list[str]
    ) -> None:
        key = prefix + EXTRA_STATE
        if type(self).set_extra_state is not Stateful.set_extra_state:
            if key in state_dict:
                self.set_extra_state(state_dict[key])
            elif strict:
                missing.append(key)
        elif strict and key in state_dict:
            unexpected.append(key)

    def _unknown_keys(self, state_dict: dict[str, Any], prefix: str) -> list[str]:
        known = {k for k in self._buffers if k not in self._non_persistent_buffers_set}
        known |= {k for k, v in self._parameters.items() if v is not None}
        known -= {k for k, v in self._buffers.items() if v is None}
        unknown = []
        for key in state_dict:
            if not key.startswith(prefix) or key == prefix + EXTRA_STATE:
                continue
            first, *rest = key[len(prefix) :].split(".", 1)
            if first not in self._modules if rest else first not in known:
                unknown.append(key)
        return unknown

    # ---- hooks

    def _register_state_dict_hook(self, hook: Hook) -> RemovableHandle:
        """``hook(module, state_dict, prefix, local_metadata)``, which may return another dict."""
        handle = RemovableHandle(self._state_dict_hooks)
        self._state_dict_hooks[handle.id] = hook
        return handle

    def register_state_dict_post_hook(self, hook: Hook) -> RemovableHandle:
        """``hook(module, state_dict, prefix, local_metadata)`` changes the made dict in place."""
        return self._register_state_dict_hook(_InPlace(hook))

    def register_state_dict_pre_hook(self, hook: Hook) -> RemovableHandle:
        """``hook(module, prefix, keep_vars)`` runs before state_dict collects anything."""
        handle = RemovableHandle(self._state_dict_pre_hooks)
        self._state_dict_pre_hooks[handle.id] = hook
        return handle

    def _register_load_state_dict_pre_hook(self, hook: Hook, with_module: bool = False) -> RemovableHandle:
        handle = RemovableHandle(self._load_state_dict_pre_hooks)
        self._load_state_dict_pre_hooks[handle.id] = _WithModule(hook) if with_module else hook
        return handle

    def register_load_state_dict_pre_hook(self, hook: Hook) -> RemovableHandle:
        """A hook before this module loads its state.

        ``hook(module, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys,
        error_msgs)``
        may rename keys of ``state_dict``.
        """
        return self._register_load_state_dict_pre_hook(hook, with_module=True)

    def register_load_state_dict_post_hook(self, hook: Hook) -> RemovableHandle:
        """``hook(module, incompatible_keys)`` runs after loading and may edit the two lists of keys."""
        handle = RemovableHandle(self._load_state_dict_post_hooks)
        self._load_state_dict_post_hooks[handle.id] = hook
        return handle


class _Wrapped:
    def __init__(self, hook: Hook) -> None:
        self.hook = hook

    def __call__(self, *args: Any) -> Any:
        return self.hook(*args)


class _InPlace(_Wrapped):
    """A hook whose return value must be None."""


class _WithModule(_Wrapped):
    """A hook that receives the module first."""


def _load(
    module: Stateful,
    state: dict[str, Any],
    prefix: str,
    metadata: Mapping[str, dict[str, Any]],
    assign: bool,
    strict: bool,
    missing: list[str],
    unexpected: list[str],
    errors: list[str],
) -> None:
    local = dict(metadata.get(prefix[:-1], {}))
    if assign:
        local["assign_to_params_buffers"] = True
    # Missing keys are collected in any case; strict only decides what becomes of them.
    module._load_from_state_dict(state, prefix, local, True, missing, unexpected, errors)
    for name, child in module._modules.items():
        if child is not None:
            inner = prefix + name + "."
            below = {k: v for k, v in state.items() if k.startswith(inner)}
            _load(child, below, inner, metadata, assign, strict, missing, unexpected, errors)
    for hook in module._load_state_dict_post_hooks.values():
        if hook(module, _IncompatibleKeys(missing, unexpected)) is not None:
            raise RuntimeError(
                "a load_state_dict post-hook must return None; edit incompatible_keys in place instead"
            )
