"""``tapegrad.data`` under the name that PyTorch gives it."""

from __future__ import annotations

from ..data import *  # noqa: F403  # all of its __all__, which is kept there
from ..data import __all__ as __all__
