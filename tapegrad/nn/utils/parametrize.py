"""Parameters computed from other parameters: ``register_parametrization`` and its inverse.

The parameter moves to ``module.parametrizations.NAME.original``, and the module's class becomes a subclass
with a property NAME that computes the value whenever it is read.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ...modes import no_grad
from ...tensor import Tensor
from ..containers import ModuleDict, ModuleList
from ..module import Module
from ..parameter import Parameter

_cache_depth = 0
_cache: dict[tuple[int, str], Any] = {}


@contextmanager
def cached() -> Iterator[None]:
    """Within the block, each parametrized value is computed once."""
    global _cache_depth
    _cache_depth += 1
    try:
        yield
    finally:
        _cache_depth -= 1
        if not _cache_depth:
            _cache.clear()


class ParametrizationList(ModuleList):
    """The parametrizations of one tensor, and the tensors that they start from.

    ``original`` if there is one, ``original0``, ``original1``, ... if the first parametrization's
    ``right_inverse`` returns several.
    """

    def __init__(self, modules: Sequence[Module], original: Tensor, unsafe: bool = False) -> None:
        if not modules:
            raise ValueError("ParametrizationList requires one or more modules.")
        super().__init__(modules)
        self.unsafe = unsafe
        start: Any = original
        with no_grad():
            for module in reversed(modules):
                if hasattr(module, "right_inverse"):
                    # One that says that it has none counts as having none.
                    with contextlib.suppress(NotImplementedError):
                        start = module.right_inverse(start)
        if not isinstance(start, Tensor) and not isinstance(start, Sequence):
            raise ValueError(
                "'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). Got "
                f"{type(start).__name__}"
            )
        self.is_tensor = isinstance(start, Tensor)
        self.ntensors = 1
        if isinstance(start, Tensor):
            if start.dtype != original.dtype:
                raise ValueError(
                    f"When `right_inverse` outputs one tensor, it may not change the dtype: {start.dtype} "
                    "instead of "
                    f"{original.dtype}"
                )
            _keep(self, "original", start, original)
        else:
            self.ntensors = len(start)
            for i, part in enumerate(start):
                if not isinstance(part, Tensor):
                    raise ValueError(
                        "'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). "
                        "Got element "
                        f"{i} of the sequence with type {type(part).__name__}."
                    )
                _keep(self, f"original{i}", part, original)
        if not unsafe:
            self._check(original)

    def _check(self, original: Tensor) -> None:
        with no_grad():
            made = self()
        if not isinstance(made, Tensor):
            raise ValueError(f"A parametrization must return a tensor. Got {type(made).__name__}.")
        for what in ("dtype", "shape"):
            if getattr(made, what) != getattr(original, what):
                raise ValueError(
                    f"Registering a parametrization may not change the {what} of the tensor, unless "
                    "`unsafe` flag is "
                    f"enabled: {getattr(original, what)} became {getattr(made, what)}"
                )

    def _originals(self) -> list[Tensor]:
        return [
            getattr(self, n)
            for n in (["original"] if self.is_tensor else [f"original{i}" for i in range(self.ntensors)])
        ]

    def right_inverse(self, value: Tensor) -> None:
        """Set the originals so that the parametrized tensor becomes ``value``."""
        with no_grad():
            start: Any = value
            for module in reversed(list(self)):
                if not hasattr(module, "right_inverse"):
                    raise RuntimeError(
                        f"parametrization {type(module).__name__} does not implement right_inverse, so the "
                        "tensor cannot "
                        "be assigned"
                    )
                start = module.right_inverse(start)
            parts = [start] if self.is_tensor else list(start)
            if len(parts) != self.ntensors:
                raise ValueError(f"'right_inverse' must return {self.ntensors} tensors, got {len(parts)}")
            for original, part in zip(self._originals(), parts, strict=True):
                if original.shape == part.shape:
                    original.copy_(part)
                else:
                    original.data = part.detach()

    def forward(self) -> Tensor:
        first, *rest = list(self)
        value: Tensor = first(*self._originals())
        for module in rest:
            value = module(value)
        return value


def _keep(owner: Module, name: str, tensor: Tensor, like: Tensor) -> None:
    """Register a tensor as a parameter or a buffer, whichever the old one was."""
    if isinstance(like, Parameter):
        if tensor is like:
            owner.register_parameter(name, like)
        else:
            owner.register_parameter(name, Parameter(tensor.detach(), requires_grad=like.requires_grad))
    else:
        owner.register_buffer(name, tensor)


def register_parametrization(
    module: Module, tensor_name: str, parametrization: Module, *, unsafe: bool = False
) -> Module:
    """Compute the parameter or buffer ``tensor_name`` of ``module`` by ``parametrization`` from now on.

    ``parametrization.forward`` maps the original tensor to the value; ``right_inverse``, if there is one,
    maps a value to an original. Unless ``unsafe``, shape and dtype must stay as they are.
    """
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        _stack(module, tensor_name, parametrization, unsafe)
        return module
    if tensor_name not in module._parameters and tensor_name not in module._buffers:
        raise ValueError(
            f"Module '{module}' does not have a parameter, a buffer, or a parametrized element with name "
            f"'{tensor_name}'"
        )
    original = getattr(module, tensor_name)
    made = ParametrizationList([parametrization], original, unsafe=unsafe)
    delattr(module, tensor_name)
    if not is_parametrized(module):
        _inject_class(module)
        module.parametrizations = ModuleDict()
    _inject_property(module, tensor_name)
    module.parametrizations[tensor_name] = made
    return module


def _stack(module: Module, name: str, parametrization: Module, unsafe: bool) -> None:
    """Add a parametrization on top of those that are there."""
    held = module.parametrizations[name]
    value = getattr(module, name)
    if not unsafe:
        with no_grad():
            changed = parametrization(value)
            if (
                not isinstance(changed, Tensor)
                or changed.dtype != value.dtype
                or changed.shape != value.shape
            ):
                raise ValueError(
                    "Registering a parametrization may not change the dtype or shape of the tensor, unless "
                    "the `unsafe` "
                    "flag is enabled."
                )
            if hasattr(parametrization, "right_inverse"):
                back = parametrization.right_inverse(changed)
                if not isinstance(back, Tensor) or back.dtype != value.dtype or back.shape != value.shape:
                    raise ValueError(
                        "parametrization.right_inverse must return a tensor of the same shape and dtype"
                    )
    held.append(parametrization)
    held.unsafe |= unsafe


def _inject_class(module: Module) -> None:
    base = type(module)

    def refuse(self: Any) -> Any:
        raise RuntimeError(
            "Serialization of parametrized modules is only supported through state_dict(), because their "
            "class is made "
            "at run time"
        )

    def deepcopied(self: Any, memo: dict[int, Any]) -> Any:
        twin = memo.get(id(self))
        if twin is None:
            twin = memo[id(self)] = object.__new__(type(self))
            twin.__dict__.update(copy.deepcopy(self.__dict__, memo))
            # A class of its own: removing a parametrization from one must not change the other.
            twin.__class__ = type(type(self).__name__, type(self).__bases__, dict(vars(type(self))))
        return twin

    module.__class__ = type(
        f"Parametrized{base.__name__}",
        (base,),
        {"__getstate__": refuse, "__deepcopy__": deepcopied, "__module__": base.__module__},
    )


def _inject_property(module: Module, name: str) -> None:
    def get(self: Any) -> Any:
        compute = self.parametrizations[name]
        if not _cache_depth:
            return compute()
        key = (id(self), name)
        if key not in _cache:
            _cache[key] = compute()
        return _cache[key]

    def put(self: Any, value: Tensor) -> None:
        self.parametrizations[name].right_inverse(value)

    setattr(type(module), name, property(get, put))


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Whether the module has parametrizations, or one of that tensor."""
    held = module._modules.get("parametrizations")
    if not isinstance(held, ModuleDict):
        return False
    return len(held) > 0 if tensor_name is None else tensor_name in held


def type_before_parametrizations(module: Module) -> type[Module]:
    """The class that the module had before tensors of it were parametrized."""
    return type(module).__bases__[0] if is_parametrized(module) else type(module)


def remove_parametrizations(module: Module, tensor_name: str, leave_parametrized: bool = True) -> Module:
    """Take the parametrizations of a tensor away; it keeps its value, or becomes the original again."""
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"Module {module} does not have a parametrization on {tensor_name}")
    held = module.parametrizations[tensor_name]
    if held.is_tensor:
        original = held.original
        if leave_parametrized:
            with no_grad():
                value = getattr(module, tensor_name)
            if isinstance(original, Parameter):
                original.data = value.detach()
            else:
                original = value
    elif leave_parametrized:
        tracked = any(p.requires_grad for p in held.parameters(recurse=False))
        value = getattr(module, tensor_name).detach()
        original = Parameter(value, requires_grad=tracked) if list(held.parameters(recurse=False)) else value
    else:
        raise ValueError(
            "Cannot leave unparametrized (`leave_parametrized=False`) a tensor that is parametrized in "
            "terms of a "
            "sequence of tensors."
        )
    delattr(type(module), tensor_name)
    del module.parametrizations[tensor_name]
    if not is_parametrized(module):
        delattr(module, "parametrizations")
        module.__class__ = type(module).__bases__[0]
    _keep(module, tensor_name, original, original)
    return module
