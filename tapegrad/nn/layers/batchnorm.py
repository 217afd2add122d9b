"""Normalisation by running statistics: batch norm and instance norm."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from ... import dtypes
from ...tensor import Tensor
from .. import functional as F
from .. import init
from ..module import Module
from ..parameter import Parameter, empty, empty_parameter


def _count() -> Tensor:
    made: Tensor = Tensor._make(np.array(0, np.int64))
    return made


class _NormBase(Module):
    """Parameters, running statistics and printing."""

    _version = 2
    dims: ClassVar[tuple[int, ...]]
    weight: Parameter | None
    bias: Parameter | None
    running_mean: Tensor | None
    running_var: Tensor | None
    num_batches_tracked: Tensor | None

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: dtypes.dtype | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.affine = affine
        self.track_running_stats = track_running_stats
        for name, wanted in (("weight", affine), ("bias", affine and bias)):
            made = empty_parameter(num_features, device=device, dtype=dtype) if wanted else None
            self.register_parameter(name, made)
        for name in ("running_mean", "running_var"):
            self.register_buffer(name, empty((num_features,), device, dtype) if track_running_stats else None)
        self.register_buffer("num_batches_tracked", _count() if track_running_stats else None)
        self.reset_parameters()

    def reset_running_stats(self) -> None:
        """Mean 0, variance 1, no batches seen."""
        if self.track_running_stats:
            self.running_mean.zero_()  # type: ignore[union-attr]
            self.running_var.fill_(1)  # type: ignore[union-attr]
            self.num_batches_tracked.zero_()  # type: ignore[union-attr]

    def reset_parameters(self) -> None:
        """Scale 1, shift 0, and the statistics as new."""
        self.reset_running_stats()
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() not in self.dims:
            wanted = " or ".join(f"{n}D" for n in self.dims)
            raise ValueError(f"{type(self).__name__}: expected {wanted} input (got {input.dim()}D input)")

    def extra_repr(self) -> str:
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
            f"bias={self.bias is not None}, track_running_stats={self.track_running_stats}"
        )

    def _load_from_state_dict(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        key = prefix + "num_batches_tracked"
        if self.track_running_stats and (local_metadata.get("version") or 1) < 2 and key not in state_dict:
            # Version 1 did not count batches.
            tracked = self.num_batches_tracked
            state_dict[key] = tracked if tracked is not None else _count()
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )


class _BatchNorm(_NormBase):
    def forward(self, input: Tensor) -> Any:
        self._check_input_dim(input)
        factor = 0.0 if self.momentum is None else self.momentum
        tracks = self.training and self.track_running_stats
        if tracks and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:
                factor = 1.0 / float(self.num_batches_tracked)  # the mean over all batches
        by_batch = self.training or (self.running_mean is None and self.running_var is None)
        # Statistics are handed over if they shall be used, or updated.
        shared = not self.training or self.track_running_stats
        return F.batch_norm(
            input,
            self.running_mean if shared else None,
            self.running_var if shared else None,
            self.weight,
            self.bias,
            by_batch,
            factor,
            self.eps,
        )


class BatchNorm1d(_BatchNorm):
    """(x - mean) / sqrt(var + eps) * weight + bias per channel, over (N, C) or (N, C, L).

    Training uses the batch's statistics and moves the running ones towards them by ``momentum``;
    evaluation uses the running ones.
    """

    dims = (2, 3)


class BatchNorm2d(_BatchNorm):
    """BatchNorm1d for (N, C, H, W)."""

    dims = (4,)


class BatchNorm3d(_BatchNorm):
    """BatchNorm1d for (N, C, D, H, W)."""

    dims = (5,)


class SyncBatchNorm(_BatchNorm):
    """Refused: there is one process, so batches are never spread; use BatchNorm."""

    dims = ()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise RuntimeError(
            "SyncBatchNorm needs several processes, which tapegrad does not have: use BatchNorm1d/2d/3d"
        )


class _InstanceNorm(_NormBase):
    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: Any = None,
        dtype: dtypes.dtype | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)

    def forward(self, input: Tensor) -> Any:
        self._check_input_dim(input)
        without_batch = input.dim() == self.dims[0]
        channels = input.shape[0 if without_batch else 1]
        if channels != self.num_features and self.affine:
            raise ValueError(
                f"expected input's size at dim={0 if without_batch else 1} to match num_features "
                f"({self.num_features}), but got: {channels}."
            )
        out = F.instance_norm(
            input.unsqueeze(0) if without_batch else input,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training or not self.track_running_stats,
            0.0 if self.momentum is None else self.momentum,
            self.eps,
        )
        return out.squeeze(0) if without_batch else out


class InstanceNorm1d(_InstanceNorm):
    """Normalises each channel of each sample of (N, C, L) or (C, L)."""

    dims = (2, 3)


class InstanceNorm2d(_InstanceNorm):
    """Normalises each channel of each sample of (N, C, H, W) or (C, H, W)."""

    dims = (3, 4)


class InstanceNorm3d(_InstanceNorm):
    """Normalises each channel of each sample of (N, C, D, H, W) or (C, D, H, W)."""

    dims = (4, 5)
