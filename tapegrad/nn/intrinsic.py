"""Layers that run as one kernel, as in ``torch.ao.nn.intrinsic``, and networks that are given them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any, ClassVar, TypeVar

from ..tensor import Tensor
from .containers import Sequential
from .layers.activation import ReLU
from .layers.batchnorm import BatchNorm1d, BatchNorm2d, BatchNorm3d
from .layers.conv import Conv1d, Conv2d, Conv3d
from .layers.linear import Identity
from .module import Module
from .utils.fusion import fuse_conv_bn_eval
from .utils.parametrize import type_before_parametrizations

__all__ = ["ConvReLU1d", "ConvReLU2d", "ConvReLU3d", "fuse_modules"]

M = TypeVar("M", bound=Module)


class _ConvReLU(Sequential):
    """A convolution and its ReLU, whose result is written once.

    Children that are watched by hooks, or that do something else than their class says, are called one after the other.
    """

    conv: ClassVar[type[Module]]

    def __init__(self, conv: Module, relu: Module) -> None:
        kinds = type_before_parametrizations(conv), type_before_parametrizations(relu)
        if kinds != (self.conv, ReLU):
            raise AssertionError(
                f"Incorrect types for input modules: {kinds[0].__name__} and {kinds[1].__name__}"
            )
        super().__init__(conv, relu)

    def forward(self, input: Tensor) -> Any:
        if len(self) == 2:
            conv, relu = self
            if _as_it_is(conv, self.conv) and _as_it_is(relu, ReLU):
                return conv._conv_forward(input, conv.weight, conv.bias, "relu")
        return super().forward(input)


def _as_it_is(module: Any, kind: type[Module]) -> bool:
    """Whether a call does what the class says and nothing else."""
    own = type_before_parametrizations(module) is kind and "forward" not in vars(module)
    return own and not module._watched()


class ConvReLU1d(_ConvReLU):
    """Conv1d and ReLU in one pass: ``ConvReLU1d(conv, relu)``."""

    conv = Conv1d


class ConvReLU2d(_ConvReLU):
    """Conv2d and ReLU in one pass: ``ConvReLU2d(conv, relu)``."""

    conv = Conv2d


class ConvReLU3d(_ConvReLU):
    """Conv3d and ReLU in one pass: ``ConvReLU3d(conv, relu)``."""

    conv = Conv3d


# What layers of these classes become.
_FUSED: dict[tuple[type[Module], ...], Callable[..., Module]] = {}
for _conv, _bn, _both in (
    (Conv1d, BatchNorm1d, ConvReLU1d),
    (Conv2d, BatchNorm2d, ConvReLU2d),
    (Conv3d, BatchNorm3d, ConvReLU3d),
):
    _FUSED[_conv, ReLU] = _both
    _FUSED[_conv, _bn] = fuse_conv_bn_eval
    _FUSED[_conv, _bn, ReLU] = lambda conv, bn, relu, both=_both: both(fuse_conv_bn_eval(conv, bn), relu)


def fuse_modules(
    model: M, modules_to_fuse: Sequence[str] | Sequence[Sequence[str]], inplace: bool = False
) -> M:
    """A copy of a network, or the network itself, in which layers that follow one another are one.

    ``modules_to_fuse`` names them, as ``["conv1", "relu1"]`` or a list of such lists: a convolution and a ReLU, or, in
    evaluation mode, a batch norm or both. The first becomes the fused layer, the others Identity.
    """
    if not inplace:
        model = deepcopy(model)
    lists: Any = modules_to_fuse
    for names in [lists] if all(isinstance(n, str) for n in lists) else lists:
        modules = [model.get_submodule(n) for n in names]
        kinds = tuple(type(m) for m in modules)
        if kinds not in _FUSED:
            raise NotImplementedError(
                f"did not find fuser method for {', '.join(k.__name__ for k in kinds)}: a convolution can be fused with a ReLU, "
                "a batch norm, or both in this order"
            )
        made = [_FUSED[kinds](*modules), *(Identity() for _ in names[1:])]
        for name, module in zip(names, made, strict=True):
            module.training = modules[0].training
            model.set_submodule(name, module)
    return model
