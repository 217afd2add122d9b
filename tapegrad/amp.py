"""Mixed precision as programs write it that also run without a GPU: switched off.

Half precision pays where the hardware computes with it. Here it does not, so ``autocast`` and ``GradScaler`` for
"cuda" warn and do nothing, as in PyTorch without CUDA, and for "cpu" they are refused unless disabled.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self


class autocast:
    """A context or decorator that changes nothing: ``with autocast("cuda", enabled=use_amp): ...``."""

    def __init__(
        self,
        device_type: str,
        dtype: Any = None,
        enabled: bool = True,
        cache_enabled: bool | None = None,
    ) -> None:
        if not isinstance(device_type, str):
            raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
        _check(device_type)
        if enabled and device_type == "cuda":
            warnings.warn("CUDA is not available. Disabling autocast.", UserWarning, stacklevel=2)
        elif enabled:
            raise RuntimeError(
                "autocast: tapegrad does not compute in half precision on the CPU; use enabled=False"
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, err: Any, trace: TracebackType | None) -> None:
        pass

    def __call__(self, func: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(func)
        def run(*args: Any, **kwargs: Any) -> Any:
            with self:
                return func(*args, **kwargs)

        return run


class GradScaler:
    """Scales nothing: ``scale(loss)`` is the loss, ``step(optimizer)`` a step."""

    def __init__(
        self,
        device: str = "cuda",
        init_scale: float = 65536.0,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        _check(device)
        if enabled and device == "cuda":
            warnings.warn(
                "GradScaler is enabled, but CUDA is not available. Disabling.", UserWarning, stacklevel=2
            )
        elif enabled:
            raise RuntimeError(
                "GradScaler: gradients on the CPU are not in half precision, so there is nothing to scale; use "
                "enabled=False"
            )

    def scale(self, outputs: Any) -> Any:
        """The outputs."""
        return outputs

    def unscale_(self, optimizer: Any) -> None:
        """Nothing to undo."""

    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """``optimizer.step(*args, **kwargs)``"""
        return optimizer.step(*args, **kwargs)

    def update(self, new_scale: Any = None) -> None:
        """Nothing to adapt."""

    def get_scale(self) -> float:
        """1.0"""
        return 1.0

    def is_enabled(self) -> bool:
        """False."""
        return False

    def state_dict(self) -> dict[str, Any]:
        """Empty."""
        return {}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Nothing to restore."""


def is_autocast_available(device_type: str) -> bool:
    """False."""
    _check(device_type)
    return False


def is_autocast_enabled(device_type: str | None = None) -> bool:
    """False."""
    return False


def _check(device_type: str) -> None:
    if device_type not in ("cpu", "cuda"):
        raise RuntimeError(f"Invalid device string: {device_type!r}; there are 'cpu' and 'cuda'")
