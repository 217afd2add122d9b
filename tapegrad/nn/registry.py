"""What a module holds: parameters, buffers and submodules, by attribute or by method."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from ..hooks import RemovableHandle
from ..kernels.recording import assigned
from ..kernels.recording import modules as recorded_modules
from ..tensor import Tensor
from .parameter import Buffer, Parameter

T = TypeVar("T")

# Attributes that __init__ makes; a module pickled without one of them gets an empty one back.
STATE_HOOKS = (
    "_state_dict_hooks",
    "_state_dict_pre_hooks",
    "_load_state_dict_pre_hooks",
    "_load_state_dict_post_hooks",
)
CALL_HOOKS = (
    "_backward_pre_hooks",
    "_backward_hooks",
    "_forward_hooks",
    "_forward_hooks_with_kwargs",
    "_forward_hooks_always_called",
    "_forward_pre_hooks",
    "_forward_pre_hooks_with_kwargs",
)

# Hooks ``hook(module, name, value)`` on what any module registers; the functions at the end of this file add
# them.
Hooks = OrderedDict[int, Callable[[Any, str, Any], Any]]
PARAMETER_HOOKS: Hooks = OrderedDict()
BUFFER_HOOKS: Hooks = OrderedDict()
MODULE_HOOKS: Hooks = OrderedDict()


class Registry:
    """Registration of parameters, buffers and submodules, and the iterators over them."""

    # For classes whose next base is no module: pass on to its __init__ what this one is given.
    call_super_init: bool = False
    dump_patches: bool = False
    training: bool
    _parameters: dict[str, Parameter | None]
    _buffers: dict[str, Tensor | None]
    _modules: dict[str, Any]
    _non_persistent_buffers_set: set[str]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if not self.call_super_init and (args or kwargs):
            what = (
                f"an unexpected keyword argument '{min(kwargs)}'"
                if kwargs
                else f"{len(args)} unexpected arguments"
            )
            raise TypeError(f"{type(self).__name__}.__init__() got {what}")
        own = self.__dict__
        own["training"] = True
        own["_parameters"] = {}
        own["_buffers"] = {}
        own["_non_persistent_buffers_set"] = set()
        own["_is_full_backward_hook"] = None
        for name in CALL_HOOKS + STATE_HOOKS:
            own[name] = OrderedDict()
        own["_modules"] = {}
        if self.call_super_init:
            super().__init__(*args, **kwargs)

    def __setstate__(self, state: dict[str, Any]) -> None:
        own = self.__dict__
        own.update(state)
        own.setdefault("_non_persistent_buffers_set", set())
        own.setdefault("_is_full_backward_hook", None)
        for name in CALL_HOOKS + STATE_HOOKS:
            own.setdefault(name, OrderedDict())

    # ---- registering by name

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Make ``param`` (a Parameter or None) the module's parameter of that name."""
        self._check_name(name, "parameter", self.__dict__.get("_parameters"))
        if param is not None and not isinstance(param, Parameter):
            raise TypeError(
                f"cannot register '{type(param).__name__}' object as parameter '{name}': a Parameter or "
                "None is "
                "needed; wrap it in nn.Parameter(...)"
            )
        if param is not None and param.grad_fn is not None:
            raise ValueError(
                f"cannot register a non-leaf Tensor as parameter '{name}': it is the result of an operation. "
                "Parameters are leaves; compute it in forward() or pass .detach()"
            )
        self._parameters[name] = None if param is None else _through(PARAMETER_HOOKS, self, name, param)

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Make ``tensor`` (or None) a buffer: state without gradient, saved if ``persistent``."""
        self._check_name(name, "buffer", self.__dict__.get("_buffers"))
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(
                f"cannot register '{type(tensor).__name__}' object as buffer '{name}': a Tensor or None is "
                "needed"
            )
        self._buffers[name] = _through(BUFFER_HOOKS, self, name, tensor)
        if persistent:
            self._non_persistent_buffers_set.discard(name)
        else:
            self._non_persistent_buffers_set.add(name)

    def add_module(self, name: str, module: Any) -> None:
        """Make ``module`` (a Module or None) the child of that name."""
        if not isinstance(module, Registry) and module is not None:
            raise TypeError(f"{_typename(module)} is not a Module subclass")
        if not isinstance(name, str):
            raise TypeError(f"module name should be a string, got {_typename(name)}")
        self._check_name(name, "module", self.__dict__.get("_modules"))
        self._modules[name] = _through(MODULE_HOOKS, self, name, module)

    def register_module(self, name: str, module: Any) -> None:
        """The same as ``add_module``."""
        self.add_module(name, module)

    def _check_name(self, name: str, what: str, table: Mapping[str, Any] | None) -> None:
        if table is None:
            raise AttributeError(
                f"cannot assign {what} before Module.__init__() call: call super().__init__() first"
            )
        if not isinstance(name, str):
            raise TypeError(f"{what} name should be a string, got {_typename(name)}")
        if "." in name:
            raise KeyError(f'{what} name can\'t contain ".", got: "{name}"')
        if name == "":
            raise KeyError(f'{what} name can\'t be empty string ""')
        if hasattr(self, name) and name not in table:
            raise KeyError(f"attribute '{name}' already exists")

    # ---- attributes

    def __getattr__(self, name: str) -> Any:
        own = self.__dict__
        for table in ("_parameters", "_buffers", "_modules"):
            held = own.get(table)
            if held is not None and name in held:
                return held[name]
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __setattr__(self, name: str, value: Any) -> None:
        own = self.__dict__
        if recorded_modules:
            assigned(self, name, getattr(self, name, None), value)
        if isinstance(value, Parameter):
            self._free(name, "_parameters", "parameters")
            self.register_parameter(name, value)
        elif name in (own.get("_parameters") or ()):
            self._refuse(name, value, "parameter", "nn.Parameter")
            self._parameters[name] = None
        elif isinstance(value, Registry):
            self._free(name, "_modules", "module")
            own["_modules"][name] = _through(MODULE_HOOKS, self, name, value)
        elif name in (own.get("_modules") or ()):
            self._refuse(name, value, "child module", "nn.Module")
            self._modules[name] = _through(MODULE_HOOKS, self, name, None)
        elif isinstance(value, Buffer):
            self._free(name, "_buffers", "buffer")
            self.register_buffer(name, value, value.persistent)
        elif name in (own.get("_buffers") or ()):
            if not isinstance(value, Tensor):
                self._refuse(name, value, "buffer", "Tensor, nn.Buffer")
            self._buffers[name] = _through(BUFFER_HOOKS, self, name, value)
        else:
            object.__setattr__(self, name, value)

    def _free(self, name: str, table: str, what: str) -> None:
        """Take the name from whatever else holds it, so that each name has one place."""
        own = self.__dict__
        if table not in own:
            raise AttributeError(
                f"cannot assign {what} before Module.__init__() call: call super().__init__() first"
            )
        for other in ("_parameters", "_buffers", "_modules"):
            if other != table:
                own[other].pop(name, None)
        own["_non_persistent_buffers_set"].discard(name)
        own.pop(name, None)

    @staticmethod
    def _refuse(name: str, value: Any, what: str, wanted: str) -> None:
        if value is not None:
            raise TypeError(
                f"cannot assign '{_typename(value)}' as {what} '{name}' ({wanted} or None expected)"
            )

    def __delattr__(self, name: str) -> None:
        if name in self._parameters:
            del self._parameters[name]
        elif name in self._buffers:
            del self._buffers[name]
            self._non_persistent_buffers_set.discard(name)
        elif name in self._modules:
            del self._modules[name]
        else:
            object.__delattr__(self, name)

    def __dir__(self) -> list[str]:
        names = {*super().__dir__(), *self._parameters, *self._modules, *self._buffers}
        return sorted(name for name in names if not name[:1].isdigit())

    # ---- iterating

    def named_modules(
        self, memo: set[Any] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Any]]:
        """All modules of the tree with their dotted names, itself first, each once."""
        memo = set() if memo is None else memo
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                yield from module.named_modules(
                    memo, f"{prefix}.{name}" if prefix else name, remove_duplicate
                )

    def modules(self, remove_duplicate: bool = True) -> Iterator[Any]:
        """All modules of the tree, itself first, each once (unless duplicates are asked for)."""
        for _, module in self.named_modules(remove_duplicate=remove_duplicate):
            yield module

    def named_children(self) -> Iterator[tuple[str, Any]]:
        """The direct submodules with their names, each once."""
        seen = set()
        for name, module in self._modules.items():
            if module is not None and module not in seen:
                seen.add(module)
                yield name, module

    def children(self) -> Iterator[Any]:
        """The direct submodules, each once."""
        for _, module in self.named_children():
            yield module

    def _named_members(
        self,
        members: Callable[[Any], Any],
        prefix: str = "",
        recurse: bool = True,
        remove_duplicate: bool = True,
    ) -> Iterator[tuple[str, Any]]:
        seen = set()
        owners = (
            self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate)
            if recurse
            else [(prefix, self)]
        )
        for path, owner in owners:
            for name, member in members(owner):
                if member is None or id(member) in seen:
                    continue
                if remove_duplicate:
                    seen.add(id(member))
                yield f"{path}.{name}" if path else name, member

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """Parameters with dotted names; a shared one appears once, under its first name."""
        yield from self._named_members(lambda m: m._parameters.items(), prefix, recurse, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """All parameters, of submodules too if ``recurse``; each once."""
        for _, param in self.named_parameters(recurse=recurse):
            yield param

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """Buffers with dotted names, persistent or not."""
        yield from self._named_members(lambda m: m._buffers.items(), prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """All buffers, persistent or not."""
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    # ---- finding by path

    def get_submodule(self, target: str) -> Any:
        """The submodule at a dotted path; the empty path is the module itself."""
        module: Any = self
        for name in target.split(".") if target else ():
            if not hasattr(module, name):
                raise AttributeError(
                    f"{type(module).__name__} has no attribute `{name}` (looking for '{target}')"
                )
            module = getattr(module, name)
            if not isinstance(module, Registry):
                raise AttributeError(f"`{name}` is not an nn.Module (looking for '{target}')")
        return module

    def set_submodule(self, target: str, module: Any, strict: bool = False) -> None:
        """Put a module at a dotted path; with ``strict`` it must replace one that is there."""
        if not target:
            raise ValueError("cannot set the submodule without a target name")
        if not isinstance(module, Registry):
            raise ValueError(f"set_submodule needs an nn.Module, got {_typename(module)}")
        path, _, name = target.rpartition(".")
        parent = self.get_submodule(path)
        if strict and not hasattr(parent, name):
            raise AttributeError(f"{type(parent).__name__} has no attribute `{name}`")
        if hasattr(parent, name) and not isinstance(getattr(parent, name), Registry):
            raise AttributeError(f"`{name}` is not an nn.Module")
        setattr(parent, name, module)

    def get_parameter(self, target: str) -> Parameter:
        """The parameter at a dotted path."""
        found = self._member(target)
        if not isinstance(found, Parameter):
            raise AttributeError(f"`{target}` is not an nn.Parameter")
        return found

    def get_buffer(self, target: str) -> Tensor:
        """The buffer at a dotted path."""
        path, _, name = target.rpartition(".")
        found = self._member(target)
        if name not in self.get_submodule(path)._buffers:
            raise AttributeError(f"`{target}` is not a buffer")
        return found  # type: ignore[no-any-return]

    def _member(self, target: str) -> Any:
        path, _, name = target.rpartition(".")
        owner = self.get_submodule(path)
        if not hasattr(owner, name):
            raise AttributeError(f"{type(owner).__name__} has no attribute `{name}`")
        return getattr(owner, name)


def _typename(value: Any) -> str:
    cls = type(value)
    return cls.__qualname__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"


# ---- hooks on registering, for every module


def _through(hooks: Hooks, module: Registry, name: str, value: Any) -> Any:
    """What the hooks make of a value that is registered."""
    for hook in hooks.values():
        changed = hook(module, name, value)
        if changed is not None:
            value = changed
    return value


def _added(hooks: Hooks, hook: Callable[[Any, str, Any], Any]) -> RemovableHandle:
    handle = RemovableHandle(hooks)
    hooks[handle.id] = hook
    return handle


def register_module_parameter_registration_hook(hook: Callable[[Any, str, Any], Any]) -> RemovableHandle:
    """``hook(module, name, param)`` when a module registers a parameter; may return another one."""
    return _added(PARAMETER_HOOKS, hook)


def register_module_buffer_registration_hook(hook: Callable[[Any, str, Any], Any]) -> RemovableHandle:
    """``hook(module, name, buffer)`` when a module registers a buffer; may return another one."""
    return _added(BUFFER_HOOKS, hook)


def register_module_module_registration_hook(hook: Callable[[Any, str, Any], Any]) -> RemovableHandle:
    """``hook(module, name, submodule)`` when a module registers a child; may return another one."""
    return _added(MODULE_HOOKS, hook)
