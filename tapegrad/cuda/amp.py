"""The old place of mixed precision; see ``tapegrad.amp``."""

from __future__ import annotations

import warnings
from typing import Any

from .. import amp


class autocast(amp.autocast):
    """``tapegrad.amp.autocast("cuda", ...)``"""

    def __init__(self, enabled: bool = True, dtype: Any = None, cache_enabled: bool = True) -> None:
        warnings.warn(
            "`cuda.amp.autocast(args...)` is deprecated. Please use `amp.autocast('cuda', args...)` instead.",
            FutureWarning,
            stacklevel=2,
        )
        super().__init__("cuda", dtype, enabled, cache_enabled)


class GradScaler(amp.GradScaler):
    """``tapegrad.amp.GradScaler("cuda", ...)``"""

    def __init__(
        self,
        init_scale: float = 65536.0,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        warnings.warn(
            "`cuda.amp.GradScaler(args...)` is deprecated. Please use `amp.GradScaler('cuda', args...)` instead.",
            FutureWarning,
            stacklevel=2,
        )
        super().__init__("cuda", init_scale, growth_factor, backoff_factor, growth_interval, enabled)
