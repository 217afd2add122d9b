"""Module: the base class of layers and networks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

from .. import dtypes
from ..device import check_device
from ..inspection import pages
from ..modes import no_grad
from ..tensor import Tensor
from .calls import Called
from .state import Stateful


class Module(Stateful, Called):
    """A layer, or a network of layers.

    Subclasses call ``super().__init__()``, assign parameters and submodules as attributes, and write
    ``forward``. Calling the module runs its hooks and ``forward``.
    """

    def forward(self, *input: Any) -> Any:
        raise NotImplementedError(
            f'Module [{type(self).__name__}] is missing the required "forward" function'
        )

    # ---- modes

    def train(self, mode: bool = True) -> Self:
        """Set training mode (or not) here and in all submodules, for Dropout, BatchNorm and the like."""
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self) -> Self:
        """The same as ``train(False)``."""
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Let autograd record operations on the parameters, or not (freeze them)."""
        for param in self.parameters():
            param.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Clear the gradients of all parameters, or fill them with zeros."""
        for param in self.parameters():
            grad = param.grad
            if grad is None:
                continue
            if set_to_none:
                param.grad = None
            else:
                grad = grad.detach_() if grad.grad_fn is not None else grad.requires_grad_(False)
                grad.zero_()

    def apply(self, fn: Callable[[Any], Any]) -> Self:
        """Call ``fn`` on every submodule, children first, then on itself."""
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    # ---- conversion

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Replace the data of parameters, their gradients and buffers by what ``fn`` makes of it."""
        if recurse:
            for module in self.children():
                module._apply(fn)
        with no_grad():
            for param in self._parameters.values():
                if param is None:
                    continue
                param.data = fn(param)
                if param.grad is not None:
                    # A gradient must have its tensor's dtype, so it goes away before it comes back.
                    grad, param.grad = param.grad, None
                    param.grad = fn(grad).requires_grad_(grad.requires_grad)
            for name, buffer in self._buffers.items():
                if buffer is not None:
                    self._buffers[name] = fn(buffer)
        return self

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """Convert floating parameters and buffers in place.

        ``to(dtype)``, ``to("cpu")``, ``to(device, dtype)``, or ``to(tensor)`` for the dtype of a tensor.
        """
        dtype = _parse_to(args, kwargs)
        if dtype is None:
            return self
        if not dtype.is_floating_point:
            raise TypeError(f"nn.Module.to only accepts floating point dtypes, but got desired dtype={dtype}")
        return self._apply(lambda t: t.to(dtype) if t.is_floating_point() else t)

    def type(self, dst_type: dtypes.dtype) -> Self:
        """Convert all parameters and buffers to a dtype."""
        wanted = dtypes.of_type(dst_type)
        return self._apply(lambda t: t.to(wanted))

    def float(self) -> Self:
        """Convert floating parameters and buffers to float32."""
        return self.to(dtypes.float32)

    def double(self) -> Self:
        """Convert floating parameters and buffers to float64."""
        return self.to(dtypes.float64)

    def half(self) -> Self:
        """Convert floating parameters and buffers to float16."""
        return self.to(dtypes.float16)

    def bfloat16(self) -> Self:
        """Refused: there is no such dtype."""
        raise RuntimeError(
            f"{self._get_name()}.bfloat16(): tapegrad has no bfloat16; use .half() or .float()"
        )

    def to_empty(self, *, device: Any, recurse: bool = True) -> Self:
        """Replace all parameters and buffers by ones of equal shapes and dtypes and arbitrary values."""
        check_device(device)
        return self._apply(lambda t: t.new_empty(t.shape), recurse)

    def cpu(self) -> Self:
        """Return itself: everything is on the CPU."""
        return self

    def cuda(self, device: Any = None) -> Self:
        """Refused: there is no such device."""
        check_device("cuda")
        return self

    def xpu(self, device: Any = None) -> Self:
        """Refused: there is no such device."""
        check_device("xpu")
        return self

    def share_memory(self) -> Self:
        """Refused: tensors live in the memory of one process."""
        raise RuntimeError(
            "share_memory is not supported: tapegrad's tensors belong to one process; use threads"
        )

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Refused: a module is not compiled in place."""
        raise RuntimeError(
            f"{self._get_name()}.compile() is not supported: write model = tapegrad.compile(model), which gives a module"
        )

    def _optimized(self, run: Callable[..., Any]) -> OptimizedModule:
        """What ``tapegrad.compile`` makes of a module, given its compiled call."""
        return OptimizedModule(self, run)

    # ---- printing

    def _get_name(self) -> str:
        return type(self).__name__

    def extra_repr(self) -> str:
        """What stands in the parentheses after the name; override it."""
        return ""

    def __repr__(self) -> str:
        extra = self.extra_repr()
        extra_lines = extra.split("\n") if extra else []
        child_lines = [f"({name}): {indented(repr(module))}" for name, module in self._modules.items()]
        name = self._get_name()
        if not child_lines and len(extra_lines) <= 1:
            return f"{name}({extra})"
        return f"{name}(\n  " + "\n  ".join(extra_lines + child_lines) + "\n)"

    def _repr_html_(self) -> str:
        """For Jupyter: a tree that unfolds, with the shapes of parameters."""
        return pages.module(self)


class OptimizedModule(Module):
    """A module whose calls a compiled program answers, made by ``tapegrad.compile(module)``.

    The module is its only child, ``_orig_mod``, and has all parameters, buffers, modes and attributes.
    """

    _run: Any

    def __init__(self, module: Module, run: Callable[..., Any]) -> None:
        super().__init__()
        self._modules["_orig_mod"] = module
        self.__dict__["_run"] = run

    def forward(self, *input: Any, **kwargs: Any) -> Any:
        return self._run(*input, **kwargs)

    @property
    def training(self) -> bool:
        return bool(self._orig_mod.training)

    @training.setter
    def training(self, mode: bool) -> None:
        self._orig_mod.training = mode

    def __getattr__(self, name: str) -> Any:
        """The module's own attributes; else the program's, ``report`` say."""
        if name == "_orig_mod":
            return super().__getattr__(name)
        for owner in (self._orig_mod, self.__dict__.get("_run")):
            if hasattr(owner, name):
                return getattr(owner, name)
        return super().__getattr__(name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "training":
            object.__setattr__(self, name, value)
        else:
            setattr(self._orig_mod, name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self._orig_mod, name)

    def __reduce_ex__(self, protocol: Any) -> Any:
        # Of the program only how it was made: a copy compiles its own.
        return _compiled_again, (self._orig_mod, type(self._run), self._run.fallback, self._run.without)


def _compiled_again(module: Module, kind: Any, fallback: Any, without: Any) -> OptimizedModule:
    return module._optimized(kind(module, fallback, without))


def indented(text: str, by: int = 2) -> str:
    """All lines but the first moved to the right."""
    return text.replace("\n", "\n" + " " * by)


def _parse_to(args: tuple[Any, ...], kwargs: dict[str, Any]) -> dtypes.dtype | None:
    """The dtype that the arguments of ``to`` ask for."""
    unknown = set(kwargs) - {"device", "dtype", "non_blocking", "tensor", "memory_format", "copy"}
    if unknown:
        raise TypeError(f"to() got an unexpected keyword argument {min(unknown)!r}")
    if kwargs.get("memory_format") is not None:
        raise RuntimeError("memory_format is not supported: tensors are kept in row-major order")
    check_device(kwargs.get("device"))
    dtype = kwargs.get("dtype")
    for value in (*args, kwargs.get("tensor")):
        if isinstance(value, Tensor):
            dtype = value.dtype
        elif isinstance(value, dtypes.dtype):
            dtype = value
        elif not isinstance(value, bool):  # a bool is the old positional non_blocking
            check_device(value)
    return dtype if dtype is None else dtypes.as_dtype(dtype)
