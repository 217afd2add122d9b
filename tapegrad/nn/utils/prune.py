"""Pruning: some elements of a parameter, or whole channels, are held at zero by a mask.

A pruned parameter NAME becomes the parameter NAME_orig and the buffer NAME_mask; NAME itself is their
product, which a hook computes anew before each forward.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar

from ...modes import no_grad
from ...tensor import Tensor
from ..module import Module
from .convert_parameters import parameters_to_vector


class BasePruningMethod(ABC):
    """A way to choose the mask. Subclasses write ``compute_mask``; an instance is the hook of one parameter.

    ``PRUNING_TYPE`` says on what a repeated pruning works: "unstructured" on the elements that are left,
    "structured" on the channels of ``dim`` that are left, "global" on everything.
    """

    PRUNING_TYPE: ClassVar[str]
    _tensor_name: str

    @abstractmethod
    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """A mask of ones and zeros for scores ``t``, at most where ``default_mask`` is one."""

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self._tensor_name, self.apply_mask(module))

    def apply_mask(self, module: Module) -> Tensor:
        """The masked parameter."""
        mask, original = (getattr(module, f"{self._tensor_name}_{part}") for part in ("mask", "orig"))
        made: Tensor = mask.to(dtype=original.dtype) * original
        return made

    @classmethod
    def apply(
        cls, module: Module, name: str, *args: Any, importance_scores: Tensor | None = None, **kwargs: Any
    ) -> BasePruningMethod:
        """Prune a parameter by ``cls(*args, **kwargs)``, after what pruned it already; returns the hook."""
        method = cls(*args, **kwargs)
        method._tensor_name = name
        original = getattr(module, name)
        if importance_scores is not None and importance_scores.shape != original.shape:
            raise AssertionError(
                f"importance_scores should have the same shape as parameter {name} of {module}, got "
                f"{importance_scores.shape} vs {original.shape}"
            )
        scores = original if importance_scores is None else importance_scores
        earlier = [
            (key, hook)
            for key, hook in module._forward_pre_hooks.items()
            if isinstance(hook, BasePruningMethod) and hook._tensor_name == name
        ]
        hook: BasePruningMethod = method
        if earlier:
            key, known = earlier[0]
            hook = known if isinstance(known, PruningContainer) else PruningContainer(known)
            hook.add_pruning_method(method)
            mask = getattr(module, f"{name}_mask").detach().clone()
        else:
            mask = _ones_like(original)
        with no_grad():
            mask = hook.compute_mask(scores, default_mask=mask)
        if earlier:
            del module._forward_pre_hooks[key]
        else:
            del module._parameters[name]
            module.register_parameter(f"{name}_orig", original)
        module.register_buffer(f"{name}_mask", mask)
        setattr(module, name, hook.apply_mask(module))
        module.register_forward_pre_hook(hook)
        return hook

    def prune(
        self, t: Tensor, default_mask: Tensor | None = None, importance_scores: Tensor | None = None
    ) -> Tensor:
        """A pruned tensor, without a module."""
        scores = t if importance_scores is None else importance_scores
        if scores.shape != t.shape:
            raise AssertionError(
                f"importance_scores should have the same shape as tensor t, got {scores.shape} vs {t.shape}"
            )
        mask = self.compute_mask(scores, default_mask=_ones_like(t) if default_mask is None else default_mask)
        made: Tensor = t * mask
        return made

    def remove(self, module: Module) -> None:
        """Make the pruned values the parameter again."""
        name = self._tensor_name
        values = self.apply_mask(module)
        if hasattr(module, name):
            delattr(module, name)
        original = module._parameters.pop(f"{name}_orig")
        del module._buffers[f"{name}_mask"]
        if original is None:
            raise RuntimeError(f"{name}_orig of {module._get_name()} is None: there is nothing to be pruned")
        original.data = values.data
        setattr(module, name, original)


class PruningContainer(BasePruningMethod):
    """Several prunings of one parameter, each working on what the ones before have left."""

    def __init__(self, *args: BasePruningMethod) -> None:
        self._pruning_methods: tuple[BasePruningMethod, ...] = ()
        if len(args) == 1:
            self._tensor_name = args[0]._tensor_name
        for method in args:
            self.add_pruning_method(method)

    def add_pruning_method(self, method: Any) -> None:
        """Append one for the same parameter."""
        if not isinstance(method, BasePruningMethod):
            raise TypeError(f"{type(method)} is not a BasePruningMethod subclass")
        if self._tensor_name != method._tensor_name:
            raise ValueError(
                f"Can only add pruning methods acting on the parameter named '{self._tensor_name}' to "
                f"PruningContainer {self}. Found '{method._tensor_name}'"
            )
        self._pruning_methods += (method,)

    def __len__(self) -> int:
        return len(self._pruning_methods)

    def __iter__(self) -> Iterator[BasePruningMethod]:
        return iter(self._pruning_methods)

    def __getitem__(self, idx: Any) -> Any:
        return self._pruning_methods[idx]

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask so far, with the part that the last method may work on replaced by its mask."""
        method = self._pruning_methods[-1]
        part: Any
        if method.PRUNING_TYPE == "unstructured":
            part = default_mask == 1
        elif method.PRUNING_TYPE == "structured":
            dim = _checked_dim(t, method.dim)  # type: ignore[attr-defined]
            others = [d for d in range(t.dim()) if d != dim]
            part = (*(slice(None),) * dim, default_mask.sum(others) != 0)
        elif method.PRUNING_TYPE == "global":
            part = (slice(None),) * t.dim()
        else:
            raise ValueError(f"Unrecognized PRUNING_TYPE {method.PRUNING_TYPE}")
        mask: Tensor = default_mask.to(dtype=t.dtype).clone()
        mask[part] = method.compute_mask(t[part], default_mask=default_mask[part]).to(dtype=mask.dtype)
        return mask


class Identity(BasePruningMethod):
    """Prunes nothing, but gives the parameter its mask."""

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        return default_mask


class _Amount(BasePruningMethod):
    """``amount`` is a share (a float in [0, 1]) or a number (an int)."""

    def __init__(self, amount: Any) -> None:
        if isinstance(amount, bool) or not isinstance(amount, (int, float)):
            raise TypeError(f"Invalid type for amount: {amount}. Must be int or float.")
        if amount < 0 or (isinstance(amount, float) and amount > 1.0):
            raise ValueError(
                f"amount={amount} should either be a float in the range [0, 1] or a non-negative integer"
            )
        self.amount = amount

    def _number(self, of: int) -> int:
        if isinstance(self.amount, float):
            return round(self.amount * of)
        if self.amount > of:
            raise ValueError(
                f"amount={self.amount} should be smaller than the number of parameters to prune={of}"
            )
        return int(self.amount)


class _Elements(_Amount):
    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        mask: Tensor = default_mask.clone()
        count = self._number(t.numel())
        if count:
            lowest = self._scores(t).reshape(-1).topk(count, largest=False).indices
            mask.view(-1)[lowest] = 0
        return mask

    def _scores(self, t: Tensor) -> Tensor:
        raise NotImplementedError


class RandomUnstructured(_Elements):
    """Elements at random."""

    def _scores(self, t: Tensor) -> Tensor:
        return _random(t)


class L1Unstructured(_Elements):
    """The elements of the smallest absolute values."""

    def _scores(self, t: Tensor) -> Tensor:
        made: Tensor = t.abs()
        return made


class _Channels(_Amount):
    PRUNING_TYPE = "structured"

    def __init__(self, amount: float, dim: int = -1) -> None:
        super().__init__(amount)
        self.dim = dim

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        if t.dim() <= 1:
            raise ValueError(
                "Structured pruning can only be applied to multidimensional tensors. Found tensor of shape "
                f"{t.shape} with {t.dim()} dims"
            )
        dim = _checked_dim(t, self.dim)
        count = self._number(t.shape[dim])
        mask: Tensor = default_mask.clone()
        if count:
            lowest = self._scores(t, dim).topk(count, largest=False).indices
            mask[(*(slice(None),) * dim, lowest)] = 0
        return mask

    def _scores(self, t: Tensor, dim: int) -> Tensor:
        raise NotImplementedError


class RandomStructured(_Channels):
    """Channels at random."""

    def _scores(self, t: Tensor, dim: int) -> Tensor:
        return _random(t.new_empty(t.shape[dim]))


class LnStructured(_Channels):
    """The channels of the smallest n-norms."""

    def __init__(self, amount: float, n: Any, dim: int = -1) -> None:
        super().__init__(amount, dim)
        self.n = n

    def _scores(self, t: Tensor, dim: int) -> Tensor:
        made: Tensor = t.norm(self.n, dim=[d for d in range(t.dim()) if d != dim])
        return made


class CustomFromMask(BasePruningMethod):
    """By a mask that is given."""

    PRUNING_TYPE = "global"

    def __init__(self, mask: Tensor) -> None:
        self.mask = mask

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        if default_mask.shape != self.mask.shape:
            raise AssertionError(
                f"the mask has the shape {self.mask.shape}, the parameter {default_mask.shape}"
            )
        made: Tensor = default_mask * self.mask.to(dtype=default_mask.dtype)
        return made


def _random(t: Tensor) -> Tensor:
    made: Tensor = t.detach().new_empty(t.shape).uniform_()
    return made


def _ones_like(t: Tensor) -> Tensor:
    made: Tensor = t.detach().new_ones(t.shape)
    return made


def _checked_dim(t: Tensor, dim: int) -> int:
    if not -t.dim() <= dim < t.dim():
        raise IndexError(f"Invalid index {dim} for tensor of size {t.shape}")
    return dim % t.dim()


# ---- as functions


def identity(module: Module, name: str) -> Module:
    """Give a parameter a mask of ones."""
    Identity.apply(module, name)
    return module


def random_unstructured(module: Module, name: str, amount: float) -> Module:
    """Prune elements at random."""
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(
    module: Module, name: str, amount: float, importance_scores: Tensor | None = None
) -> Module:
    """Prune the elements of the smallest absolute values (or scores)."""
    L1Unstructured.apply(module, name, amount=amount, importance_scores=importance_scores)
    return module


def random_structured(module: Module, name: str, amount: float, dim: int) -> Module:
    """Prune channels of ``dim`` at random."""
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(
    module: Module, name: str, amount: float, n: Any, dim: int, importance_scores: Tensor | None = None
) -> Module:
    """Prune the channels of ``dim`` of the smallest n-norms."""
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def global_unstructured(
    parameters: Iterable[tuple[Module, str]],
    pruning_method: type[BasePruningMethod],
    importance_scores: dict[tuple[Module, str], Tensor] | None = None,
    **kwargs: Any,
) -> None:
    """Prune several parameters as if they were one vector: ``parameters`` holds (module, name) pairs."""
    if not isinstance(parameters, Iterable):
        raise TypeError("global_unstructured(): parameters is not an Iterable")
    pairs = list(parameters)
    if importance_scores is not None and not isinstance(importance_scores, dict):
        raise TypeError("global_unstructured(): importance_scores must be of type dict")
    chosen = importance_scores or {}
    held = [getattr(module, name) for module, name in pairs]
    scores = parameters_to_vector([chosen.get(pair, t) for pair, t in zip(pairs, held, strict=True)])
    masks = [
        getattr(module, f"{name}_mask", _ones_like(t)) for (module, name), t in zip(pairs, held, strict=True)
    ]
    method = pruning_method(**kwargs)
    if method.PRUNING_TYPE != "unstructured":
        raise TypeError(
            f'Only "unstructured" PRUNING_TYPE supported for the `pruning_method`. Found method {pruning_method} '
            f"of type {method.PRUNING_TYPE}"
        )
    method._tensor_name = "all"
    with no_grad():
        mask: Any = PruningContainer(method).compute_mask(scores, parameters_to_vector(masks))
    start = 0
    for (module, name), t in zip(pairs, held, strict=True):
        custom_from_mask(module, name, mask=mask[start : start + t.numel()].view_as(t))
        start += t.numel()


def custom_from_mask(module: Module, name: str, mask: Tensor) -> Module:
    """Prune where a mask is zero."""
    CustomFromMask.apply(module, name, mask)
    return module


def remove(module: Module, name: str) -> Module:
    """Make a pruned parameter an ordinary one, with its zeros."""
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, BasePruningMethod) and hook._tensor_name == name:
            hook.remove(module)
            del module._forward_pre_hooks[key]
            return module
    raise ValueError(f"Parameter '{name}' of module {module} has to be pruned before pruning can be removed")


def is_pruned(module: Module) -> bool:
    """Whether a parameter of the module or below is pruned."""
    return any(
        isinstance(hook, BasePruningMethod)
        for inner in module.modules()
        for hook in inner._forward_pre_hooks.values()
    )
