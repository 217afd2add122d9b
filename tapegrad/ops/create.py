"""Methods that make new tensors of a tensor's dtype."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import dtypes
from ..device import check_device
from ..kernels.recording import active, now
from . import interop
from .dims import shape_args


class CreationMethods:
    """a.new_zeros(2, 3), ..."""

    __slots__ = ()

    def _new(self, array: np.ndarray, requires_grad: bool) -> Any:
        made = self._make(array)  # type: ignore[attr-defined]
        if active and (recorder := now()) is not None:
            recorder.constant(made)
        return made.requires_grad_() if requires_grad else made

    def _new_type(self, dtype: Any, device: Any) -> np.dtype:
        check_device(device)
        return self._array.dtype if dtype is None else dtypes.as_dtype(dtype).numpy  # type: ignore[attr-defined]

    def new_empty(
        self, *size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False
    ) -> Any:
        """An uninitialised tensor of this dtype."""
        return self._new(np.empty(shape_args(size), self._new_type(dtype, device)), requires_grad)

    def new_zeros(
        self, *size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False
    ) -> Any:
        """Zeros of this dtype."""
        return self._new(np.zeros(shape_args(size), self._new_type(dtype, device)), requires_grad)

    def new_ones(self, *size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Any:
        """Ones of this dtype."""
        return self._new(np.ones(shape_args(size), self._new_type(dtype, device)), requires_grad)

    def new_full(
        self,
        size: Any,
        fill_value: Any,
        *,
        dtype: Any = None,
        device: Any = None,
        requires_grad: bool = False,
    ) -> Any:
        """One value everywhere, of this dtype."""
        return self._new(
            np.full(shape_args((size,)), fill_value, self._new_type(dtype, device)), requires_grad
        )

    def new_tensor(
        self, data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
    ) -> Any:
        """A copy of ``data`` in this dtype."""
        return self._new(
            interop.to_array(data, dtypes.as_dtype(self._new_type(dtype, device))), requires_grad
        )
