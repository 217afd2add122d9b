"""PyTorch's table of operations, and its samples as tapegrad's.

The table (OpInfo) ships in the torch wheel: per operation a callable, the dtypes it takes, and generators of
sample inputs, plain and wrong ones. This module finds the same operation in tapegrad and converts samples
with their strides.
"""

from __future__ import annotations

import json
import pathlib
import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch.testing._internal.common_methods_invocations import op_db

import tapegrad as tg

TIERS: dict[str, list[str]] = json.loads((pathlib.Path(__file__).parent / "operations.json").read_text())


def full_name(info: Any) -> str:
    """Name and variant, as in operations.json."""
    return f"{info.name}.{info.variant_test_name}" if info.variant_test_name else str(info.name)


TABLE: dict[str, Any] = {full_name(info): info for info in op_db}
# Python's own names for what the table calls otherwise.
RENAMED = {"__rdiv__": "Tensor.__rtruediv__"}


def _slice(x: Any, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Any:
    return x[(*[slice(None)] * (dim % x.dim()), slice(start, end, step))]


SPELLED: dict[str, Callable[..., Any]] = {"slice": _slice}  # internal functions that users spell otherwise


# Arguments that take the chance out of a call; what is drawn is tested with the random functions.
WITHOUT_CHANCE: dict[str, dict[str, Any]] = {
    "nn.functional.dropout": {"training": False},
    "nn.functional.dropout2d": {"training": False},
    "nn.functional.multi_head_attention_forward": {"training": False},
    "nn.functional.scaled_dot_product_attention": {"dropout_p": 0.0},
}
# The fused kernel has no second derivative; torch's composite has.
torch.backends.cuda.enable_flash_sdp(False)


class Unsupported(Exception):
    """A sample holds something that tapegrad does not have at all (complex numbers, sparse layouts)."""


def function(info: Any) -> Callable[..., Any]:
    """tapegrad's function for an operation of the table; AttributeError if there is none."""
    if isinstance(info.op, types.FunctionType) and info.op.__module__.startswith("torch.testing"):
        return rebound(info.op)
    if info.name in SPELLED:
        return SPELLED[info.name]
    path = RENAMED.get(info.name, f"Tensor.{info.name}" if info.name.startswith("__") else info.name)
    found: Any = tg
    for part in path.split("."):
        found = getattr(found, part)
    return found  # type: ignore[no-any-return]


def rebound(fn: Any) -> Any:
    """A function of torch's tests that uses tapegrad where it says torch."""
    if not isinstance(fn, types.FunctionType):
        return fn
    scope = {**fn.__globals__, "torch": tg, "F": tg.nn.functional}
    made = types.FunctionType(fn.__code__, scope, fn.__name__, fn.__defaults__, fn.__closure__)
    made.__kwdefaults__ = fn.__kwdefaults__
    return made


# -- samples ---------------------------------------------------------------------------------------


class Sample:
    """Arguments of one call, for torch and for tapegrad, and the leaves among them in the same order."""

    def __init__(self, source: Any) -> None:
        self.process = source.output_process_fn_grad
        self.torch_leaves: list[Any] = []
        self.leaves: list[Any] = []
        self._seen: dict[int, tuple[Any, Any]] = {}
        self._memories: dict[int, np.ndarray] = {}
        pairs = [self._pair(a) for a in (source.input, *source.args)]
        named = {k: self._pair(v) for k, v in source.kwargs.items()}
        self.torch_args, self.args = [a for a, _ in pairs], [b for _, b in pairs]
        self.torch_kwargs = {k: a for k, (a, _) in named.items()}
        self.kwargs = {k: b for k, (_, b) in named.items()}

    def _pair(self, x: Any) -> tuple[Any, Any]:
        """An argument for torch (detached from what made it) and for tapegrad."""
        if isinstance(x, torch.Tensor):
            if id(x) not in self._seen:
                self._seen[id(x)] = self._tensors(x)
            return self._seen[id(x)]
        if isinstance(x, slice):
            parts = [self._pair(v) for v in (x.start, x.stop, x.step)]
            return slice(*[a for a, _ in parts]), slice(*[b for _, b in parts])
        if isinstance(x, (tuple, list)):
            parts = [self._pair(v) for v in x]
            kind = tuple if isinstance(x, tuple) else list
            return kind(a for a, _ in parts), kind(b for _, b in parts)
        if isinstance(x, dict):
            made = {k: self._pair(v) for k, v in x.items()}
            return {k: a for k, (a, _) in made.items()}, {k: b for k, (_, b) in made.items()}
        return x, plain(x)

    def _tensors(self, x: torch.Tensor) -> tuple[Any, Any]:
        theirs = x.detach()
        made = converted(x, self._memories)
        if x.requires_grad:
            theirs.requires_grad_()
            made.requires_grad_()
            self.torch_leaves.append(theirs)
            self.leaves.append(made)
        return theirs, made

    def __repr__(self) -> str:
        named = [f"{k}={describe(v)}" for k, v in self.torch_kwargs.items()]
        return f"({', '.join([describe(a) for a in self.torch_args] + named)})"


def converted(x: torch.Tensor, memories: dict[int, np.ndarray]) -> Any:
    """A copy as tapegrad's tensor, with the same strides; what shares memory there does so here."""
    if x.is_complex() or x.layout is not torch.strided or x.is_quantized or x.dtype is torch.bfloat16:
        raise Unsupported(f"{x.dtype}, {x.layout}")
    if x.dim() > 64:
        raise Unsupported("more dimensions than NumPy has")
    x = x.detach().resolve_neg()
    storage = x.untyped_storage()
    key = (storage.data_ptr() or id(storage)) * 16 + x.element_size()
    if key not in memories:
        memories[key] = torch.empty(0, dtype=x.dtype).set_(storage).numpy().copy()
    memory = memories[key]
    strides = [s * memory.itemsize for s in x.stride()]
    array = np.lib.stride_tricks.as_strided(memory[x.storage_offset() :], tuple(x.shape), strides)
    if not array.size:
        array = np.empty(tuple(x.shape), memory.dtype)
    return tg.from_numpy(array)


def plain(x: Any) -> Any:
    """An argument that is no tensor: dtypes by name, the rest as it is."""
    if isinstance(x, torch.dtype):
        name = str(x).removeprefix("torch.")
        if name.startswith(("complex", "bfloat", "float8", "q", "uint16", "uint32", "uint64")):
            raise Unsupported(name)
        return getattr(tg, name)
    if isinstance(x, torch.device):
        return str(x)
    if x in (torch.channels_last, torch.channels_last_3d):
        raise Unsupported("orders in memory other than row-major")
    if isinstance(x, (torch.memory_format, torch.layout)):
        return getattr(tg, str(x).removeprefix("torch."))
    if isinstance(x, complex):
        raise Unsupported("complex number")
    return rebound(x)


def describe(x: Any) -> str:
    """An argument in short."""
    if isinstance(x, torch.Tensor):
        kind = str(x.dtype).removeprefix("torch.")
        order = "" if x.is_contiguous() else f", strides {tuple(x.stride())}"
        return f"{kind}{list(x.shape)}{order}"
    if isinstance(x, (tuple, list)):
        return f"[{', '.join(describe(v) for v in x)}]"
    return repr(x)


def dtypes_of(info: Any) -> list[torch.dtype]:
    """float64 and float32; for operations without floating types int64 and bool."""
    known = info.supported_dtypes("cpu")
    found = [d for d in (torch.float64, torch.float32) if d in known]
    return found or [d for d in (torch.int64, torch.bool) if d in known]


def differentiable(info: Any, dtype: torch.dtype) -> bool:
    """Whether torch promises a gradient for this dtype."""
    return bool(info.supports_autograd) and dtype in info.supported_backward_dtypes("cpu")


def samples(info: Any, dtype: torch.dtype, limit: int | None) -> Iterator[tuple[int, Any]]:
    """Numbered samples as the table gives them: all, or ``limit`` evenly spaced ones."""
    torch.manual_seed(0)
    every = list(info.sample_inputs("cpu", dtype, requires_grad=differentiable(info, dtype)))
    step = 1.0 if limit is None else max(1.0, len(every) / limit)
    chosen = sorted({int(j * step) for j in range(len(every)) if j * step < len(every)})
    for j in chosen:
        every[j].kwargs.update(WITHOUT_CHANCE.get(full_name(info), {}))
        yield j, every[j]
