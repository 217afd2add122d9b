"""Optimizer: parameter groups, state, hooks and their saving."""

from __future__ import annotations

import functools
import warnings
from collections import OrderedDict, defaultdict
from collections.abc import Callable
from copy import deepcopy
from itertools import chain
from typing import Any

from .. import dtypes
from ..hooks import RemovableHandle
from ..tensor import Tensor

Hook = Callable[..., Any]


class _Required:
    """Stands in ``defaults`` for an option that every group must give."""

    def __repr__(self) -> str:
        return "<required parameter>"


required = _Required()

GLOBAL_PRE: OrderedDict[int, Hook] = OrderedDict()
GLOBAL_POST: OrderedDict[int, Hook] = OrderedDict()
# Hooks by owner attribute; they are not saved with an optimizer.
_HOOKS = (
    "_optimizer_step_pre_hooks",
    "_optimizer_step_post_hooks",
    "_optimizer_state_dict_pre_hooks",
    "_optimizer_state_dict_post_hooks",
    "_optimizer_load_state_dict_pre_hooks",
    "_optimizer_load_state_dict_post_hooks",
)


def register_optimizer_step_pre_hook(hook: Hook) -> RemovableHandle:
    """``hook(optimizer, args, kwargs)`` before the step of every optimizer."""
    return _register(GLOBAL_PRE, hook)


def register_optimizer_step_post_hook(hook: Hook) -> RemovableHandle:
    """``hook(optimizer, args, kwargs)`` after the step of every optimizer."""
    return _register(GLOBAL_POST, hook)


def _register(hooks: OrderedDict[int, Hook], hook: Hook, prepend: bool = False) -> RemovableHandle:
    handle = RemovableHandle(hooks)
    hooks[handle.id] = hook
    if prepend:
        hooks.move_to_end(handle.id, last=False)
    return handle


class Optimizer:
    """Base of all optimizers: ``Optimizer(params, defaults)``.

    ``params`` is an iterable of leaf tensors, of (name, tensor) pairs, or of dicts, one per group,
    each with "params" and options of its own. ``defaults`` holds the options of groups that give none.
    Subclasses write ``step``; they keep what they remember of a parameter in ``self.state[param]``.
    """

    param_groups: list[dict[str, Any]]
    state: defaultdict[Any, dict[str, Any]]
    defaults: dict[str, Any]

    def __init__(self, params: Any, defaults: dict[str, Any]) -> None:
        self.defaults = defaults
        self._prepare()
        if isinstance(params, Tensor):
            raise TypeError(
                "params argument given to the optimizer should be an iterable of Tensors or dicts, but got "
                f"{type(params).__name__}; write [tensor] for a single one"
            )
        self.state = defaultdict(dict)
        self.param_groups = []
        groups = list(params)
        if not groups:
            raise ValueError("optimizer got an empty parameter list")
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(group)

    def _prepare(self) -> None:
        for name in _HOOKS:
            setattr(self, name, OrderedDict())
        cls = type(self)
        # Once per class: hooks surround whatever step the class defines.
        if not getattr(cls.step, "hooked", False):
            cls.step = _with_hooks(cls.step)  # type: ignore[method-assign]

    # ---- groups

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add parameters with their own options, e.g. of layers that are unfrozen later."""
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}")
        group = dict(param_group)
        params = group["params"]
        if isinstance(params, Tensor):
            group["params"] = [params]
        elif isinstance(params, set):
            raise TypeError(
                "optimizer parameters need to be organized in ordered collections, but the ordering of "
                "tensors in "
                "sets will change between runs. Please use a list instead."
            )
        else:
            group["params"] = list(params)
        self._split_names(group)
        for param in group["params"]:
            self._check_param(param)
        for name, default in self.defaults.items():
            if default is required and name not in group:
                raise ValueError(
                    f"parameter group didn't specify a value of required optimization parameter {name}"
                )
            group.setdefault(name, default)
        own = {id(p) for p in group["params"]}
        if len(own) != len(group["params"]):
            warnings.warn(
                "optimizer contains a parameter group with duplicate parameters: each of them is updated as "
                "often "
                "as it appears",
                stacklevel=3,
            )
        if any(id(p) in own for other in self.param_groups for p in other["params"]):
            raise ValueError("some parameters appear in more than one parameter group")
        self.param_groups.append(group)

    def _split_names(self, group: dict[str, Any]) -> None:
        named = [isinstance(p, tuple) for p in group["params"]]
        if any(named):
            if not all(named):
                raise ValueError(
                    "all optimizer params should be with/without names. Some param names are missing"
                )
            group["param_names"] = [name for name, _ in group["params"]]
            group["params"] = [param for _, param in group["params"]]
        if self.param_groups and ("param_names" in group) != ("param_names" in self.param_groups[0]):
            raise ValueError("all optimizer param groups should be with/without names")

    def _check_param(self, param: Any) -> None:
        if not isinstance(param, Tensor):
            raise TypeError(
                f"optimizer can only optimize Tensors, but one of the params is {type(param).__name__}"
            )
        if not (param.is_leaf or param.retains_grad):
            raise ValueError(
                "can't optimize a non-leaf Tensor: it is the result of an operation, and its gradient is "
                "not kept. "
                "Give the optimizer the leaves it was computed from, or .detach() it first"
            )

    # ---- stepping

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update the parameters from their gradients; ``closure``, if given, computes them and the loss."""
        raise NotImplementedError(f"{type(self).__name__} does not define step()")

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Clear the gradients of all parameters, or fill them with zeros."""
        for group in self.param_groups:
            for param in group["params"]:
                if set_to_none:
                    param.grad = None
                elif param.grad is not None:
                    grad = param.grad
                    grad = grad.detach_() if grad.grad_fn is not None else grad.requires_grad_(False)
                    grad.zero_()

    def register_step_pre_hook(self, hook: Hook) -> RemovableHandle:
        """``hook(optimizer, args, kwargs)`` before each step; may return new (args, kwargs).

        ``args`` starts with the optimizer.
        """
        return _register(self._optimizer_step_pre_hooks, hook)  # type: ignore[attr-defined]

    def register_step_post_hook(self, hook: Hook) -> RemovableHandle:
        """``hook(optimizer, args, kwargs)`` after each step."""
        return _register(self._optimizer_step_post_hooks, hook)  # type: ignore[attr-defined]

    # ---- state

    def register_state_dict_pre_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """``hook(optimizer)`` before state_dict."""
        return _register(self._optimizer_state_dict_pre_hooks, hook, prepend)  # type: ignore[attr-defined]

    def register_state_dict_post_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """``hook(optimizer, state_dict)`` after state_dict; may return another one."""
        return _register(self._optimizer_state_dict_post_hooks, hook, prepend)  # type: ignore[attr-defined]

    def register_load_state_dict_pre_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """``hook(optimizer, state_dict)`` before loading; may return another state_dict."""
        return _register(self._optimizer_load_state_dict_pre_hooks, hook, prepend)  # type: ignore[attr-defined]

    def register_load_state_dict_post_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """``hook(optimizer)`` after loading."""
        return _register(self._optimizer_load_state_dict_post_hooks, hook, prepend)  # type: ignore[attr-defined]

    def state_dict(self) -> dict[str, Any]:
        """The state and the groups, with parameters replaced by their position."""
        for hook in self._optimizer_state_dict_pre_hooks.values():  # type: ignore[attr-defined]
            hook(self)
        places: dict[int, int] = {}
        groups = []
        for group in self.param_groups:
            for param in group["params"]:
                places.setdefault(id(param), len(places))
            packed = {k: v for k, v in group.items() if k != "params"}
            packed["params"] = [places[id(p)] for p in group["params"]]
            groups.append(packed)
        state = {places[id(k)] if isinstance(k, Tensor) else k: v for k, v in self.state.items()}
        made: dict[str, Any] = {"state": state, "param_groups": groups}
        for hook in self._optimizer_state_dict_post_hooks.values():  # type: ignore[attr-defined]
            changed = hook(self, made)
            if changed is not None:
                made = changed
        return made

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over the state and the options of a ``state_dict()``; groups must be of equal sizes."""
        given = dict(state_dict)
        for hook in self._optimizer_load_state_dict_pre_hooks.values():  # type: ignore[attr-defined]
            changed = hook(self, given)
            if changed is not None:
                given = changed
        saved = deepcopy(given["param_groups"])
        if len(saved) != len(self.param_groups):
            raise ValueError(
                f"loaded state dict has a different number of parameter groups: {len(saved)} instead of "
                f"{len(self.param_groups)}"
            )
        for ours, theirs in zip(self.param_groups, saved, strict=True):
            if len(ours["params"]) != len(theirs["params"]):
                raise ValueError(
                    "loaded state dict contains a parameter group that doesn't match the size of "
                    "optimizer's group: "
                    f"{len(theirs['params'])} parameters instead of {len(ours['params'])}"
                )
        keys = chain.from_iterable(g["params"] for g in saved)
        owners = chain.from_iterable(g["params"] for g in self.param_groups)
        by_key = dict(zip(keys, owners, strict=True))
        state: defaultdict[Any, dict[str, Any]] = defaultdict(dict)
        for key, value in given["state"].items():
            param = by_key.get(key)
            state[key if param is None else param] = value if param is None else _fitted(param, value)
        groups = []
        for ours, theirs in zip(self.param_groups, saved, strict=True):
            theirs["params"] = ours["params"]
            if "param_names" in ours and "param_names" not in theirs:
                theirs["param_names"] = ours["param_names"]
            groups.append(theirs)
        self.__setstate__({"state": state, "param_groups": groups})
        for hook in self._optimizer_load_state_dict_post_hooks.values():  # type: ignore[attr-defined]
            hook(self)

    def __getstate__(self) -> dict[str, Any]:
        return {"defaults": self.defaults, "state": self.state, "param_groups": self.param_groups}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if _HOOKS[0] not in self.__dict__:
            self._prepare()
        for group in self.param_groups:
            # Options that a state saved by an older version does not know.
            for name, default in self.defaults.items():
                group.setdefault(name, default)

    def __repr__(self) -> str:
        text = f"{type(self).__name__} ("
        for i, group in enumerate(self.param_groups):
            text += f"\nParameter Group {i}\n"
            text += "".join(f"    {key}: {group[key]}\n" for key in sorted(group) if key != "params")
        return text + ")"


def _with_hooks(step: Callable[..., Any]) -> Callable[..., Any]:
    """A step with the hooks before and after it."""

    @functools.wraps(step)
    def hooked(self: Any, *args: Any, **kwargs: Any) -> Any:
        self._stepped = True
        before = (*GLOBAL_PRE.values(), *self._optimizer_step_pre_hooks.values())
        after = (*self._optimizer_step_post_hooks.values(), *GLOBAL_POST.values())
        if not before and not after:
            return step(self, *args, **kwargs)
        given = (self, *args)  # hooks see the arguments with the optimizer in front
        for hook in before:
            changed = hook(self, given, kwargs)
            if changed is None:
                continue
            if not (isinstance(changed, tuple) and len(changed) == 2):
                raise RuntimeError(
                    f"a step pre-hook must return None or a tuple of (new_args, new_kwargs), got {changed!r}"
                )
            given, kwargs = changed
        result = step(*given, **kwargs)
        for hook in after:
            hook(self, given, kwargs)
        return result

    hooked.hooked = True  # type: ignore[attr-defined]
    return hooked


def _fitted(param: Tensor, value: Any, key: str | None = None) -> Any:
    """Loaded state in the dtype of its parameter; step counts stay as they are."""
    if isinstance(value, Tensor):
        if key == "step" or not param.is_floating_point():
            return value
        return value.to(dtype=param.dtype)
    if isinstance(value, dict):
        return {k: _fitted(param, v, k) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_fitted(param, v) for v in value)
    return value


def step_dtype() -> dtypes.dtype:
    """The type of step counts."""
    return dtypes.float64 if dtypes.get_default_dtype() is dtypes.float64 else dtypes.float32
