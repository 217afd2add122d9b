"""Modules that learn the shapes of their parameters from their first input."""

from __future__ import annotations

from typing import Any

from ..hooks import RemovableHandle
from ..tensor import Tensor
from .module import Module
from .parameter import UninitializedTensorMixin, is_lazy


class LazyModuleMixin(Module):
    """Base of modules that make their parameters at the first call, before forward.

    A subclass, ``class LazyX(LazyModuleMixin, X)``, registers UninitializedParameters and writes
    ``initialize_parameters(input)``, which materializes them. If ``cls_to_become`` is given, the module is of
    that class from then on. Loading a state_dict materializes them too.
    """

    cls_to_become: type[Any] | None = None
    _initialize_hook: RemovableHandle
    _load_hook: RemovableHandle

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # Functions, not bound methods: a module that held itself would be a reference cycle.
        self._load_hook = self._register_load_state_dict_pre_hook(_before_loading, with_module=True)
        self._initialize_hook = self.register_forward_pre_hook(_before_first_call, with_kwargs=True)

    def initialize_parameters(self, *args: Any, **kwargs: Any) -> None:
        """Materialize and fill the parameters according to the arguments of ``forward``."""
        raise NotImplementedError(f"initialize_parameters is not implemented for {type(self).__name__}")

    def has_uninitialized_params(self) -> bool:
        """Whether a parameter or buffer of this module itself is not initialized."""
        return any(is_lazy(held) for held in (*self._parameters.values(), *self._buffers.values()))


def _before_first_call(module: LazyModuleMixin, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    module.initialize_parameters(*args, **kwargs)
    if module.has_uninitialized_params():
        raise RuntimeError(
            f"module {module._get_name()} has not been fully initialized: its initialize_parameters left an "
            "UninitializedParameter or UninitializedBuffer"
        )
    for name in ("_initialize_hook", "_load_hook"):
        getattr(module, name).remove()
        delattr(module, name)
    if module.cls_to_become is not None:
        module.__class__ = module.cls_to_become


def _before_loading(module: LazyModuleMixin, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
    for name, held in (*module._parameters.items(), *module._buffers.items()):
        given = state_dict.get(prefix + name)
        if isinstance(held, UninitializedTensorMixin) and isinstance(given, Tensor) and not is_lazy(given):
            held.materialize(given.shape)
