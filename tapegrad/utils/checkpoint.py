"""checkpoint: keep no intermediates of a block, compute them again in backward."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from ..autograd.graph import saved_tensors_hooks
from ..modes import enable_grad
from ..random import get_rng_state, set_rng_state


class _Block:
    """One checkpointed call: what it takes to run it again, and what the second run saved."""

    def __init__(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], preserve_rng: bool
    ) -> None:
        self.function = function
        self.args = args
        self.kwargs = kwargs
        self.rng = get_rng_state() if preserve_rng else None
        self.count = 0
        self.found: dict[int, Any] = {}
        self.lock = threading.Lock()

    def pack(self, tensor: Any) -> int:
        self.count += 1
        return self.count - 1

    def unpack(self, number: int) -> Any:
        with self.lock:
            if number not in self.found:
                self._run_again()
            return self.found.pop(number)

    def _run_again(self) -> None:
        self.found.clear()
        numbers = iter(range(self.count + 1))

        def keep(tensor: Any) -> Any:
            self.found[next(numbers, self.count)] = tensor
            return tensor

        now = get_rng_state() if self.rng is not None else None
        if self.rng is not None:
            set_rng_state(self.rng)
        try:
            with enable_grad(), saved_tensors_hooks(keep, lambda t: t):
                self.function(*self.args, **self.kwargs)
        finally:
            if now is not None:
                set_rng_state(now)
        if len(self.found) != self.count:
            raise RuntimeError(
                f"checkpoint: recomputing {getattr(self.function, '__name__', self.function)!r} saved {len(self.found)} tensors where the first run saved "
                f"{self.count}: the function must do the same each time"
            )


def checkpoint(
    function: Callable[..., Any],
    *args: Any,
    use_reentrant: bool | None = None,
    preserve_rng_state: bool = True,
    context_fn: Any = None,
    determinism_check: str = "default",
    debug: bool = False,
    **kwargs: Any,
) -> Any:
    """``function(*args, **kwargs)``, keeping only its arguments; intermediates are recomputed in backward.

    With ``preserve_rng_state`` the random numbers of the second run are those of the first. ``use_reentrant``
    selects between two mechanisms of PyTorch; both values give the one mechanism here.
    """
    if context_fn is not None:
        raise RuntimeError("checkpoint: context_fn is not supported")
    if use_reentrant is None:
        warnings.warn(
            "checkpoint: pass use_reentrant=False explicitly, as PyTorch asks for", UserWarning, stacklevel=2
        )
    block = _Block(function, args, kwargs, preserve_rng_state)
    with saved_tensors_hooks(block.pack, block.unpack):
        return function(*args, **kwargs)


def checkpoint_sequential(
    functions: Any, segments: int, input: Any, use_reentrant: bool | None = False, **kwargs: Any
) -> Any:
    """A sequence of modules run in ``segments`` checkpointed parts (the last one plainly)."""
    parts: Sequence[Any] = list(functions.children()) if hasattr(functions, "children") else list(functions)
    size = max(1, len(parts) // segments)
    bounds = [min(j * size, len(parts)) for j in range(segments)] + [len(parts)]

    def run(a: int, b: int) -> Callable[[Any], Any]:
        def forward(x: Any) -> Any:
            for part in parts[a:b]:
                x = part(x)
            return x

        return forward

    for a, b in zip(bounds[:-2], bounds[1:-1], strict=True):
        input = checkpoint(run(a, b), input, use_reentrant=use_reentrant, **kwargs)
    return run(bounds[-2], bounds[-1])(input)
