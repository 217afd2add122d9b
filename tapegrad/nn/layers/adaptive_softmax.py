"""Softmax over many classes of which few are frequent.

Edouard Grave et al., "Efficient softmax approximation for GPUs", arXiv:1609.04309.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

from ... import dtypes
from ...ops.arithmetic import where
from ...ops.shape import cat
from ...tensor import Tensor
from .. import functional as F
from ..containers import ModuleList, Sequential
from ..module import Module
from .linear import Linear


class _ASMoutput(NamedTuple):
    output: Tensor
    loss: Tensor


class AdaptiveLogSoftmaxWithLoss(Module):
    """Log-probability of each row's target, and the mean loss, over ``n_classes`` sorted by frequency.

    The classes below ``cutoffs[0]`` stand in the head, together with one entry for each cluster that the
    other cutoffs delimit; cluster i is reached through a projection to
    ``in_features // div_value ** (i + 1)`` features. Input (N, in_features), target (N,).
    """

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        cutoffs: Sequence[int],
        div_value: float = 4.0,
        head_bias: bool = False,
        device: Any = None,
        dtype: dtypes.dtype | None = None,
    ) -> None:
        super().__init__()
        cutoffs = list(cutoffs)
        if not cutoffs:
            raise ValueError("cutoffs should be a sequence of length larger than 0")
        rising = all(a < b for a, b in itertools.pairwise([0, *cutoffs, n_classes]))
        if not rising or any(int(c) != c for c in cutoffs):
            raise ValueError(
                "cutoffs should be a sequence of unique, positive integers sorted in an increasing order, where "
                f"each value is between 1 and n_classes-1, got {cutoffs} for {n_classes} classes"
            )
        self.in_features = in_features
        self.n_classes = n_classes
        self.cutoffs = [*cutoffs, n_classes]
        self.div_value = div_value
        self.head_bias = head_bias
        self.shortlist_size = self.cutoffs[0]
        self.n_clusters = len(self.cutoffs) - 1
        self.head_size = self.shortlist_size + self.n_clusters
        self.head = Linear(in_features, self.head_size, head_bias, device, dtype)
        self.tail = ModuleList()
        for i, (low, high) in enumerate(itertools.pairwise(self.cutoffs)):
            narrow = int(in_features // div_value ** (i + 1))
            down = Linear(in_features, narrow, False, device, dtype)
            self.tail.append(Sequential(down, Linear(narrow, high - low, False, device, dtype)))

    def reset_parameters(self) -> None:
        """As Linear, everywhere."""
        self.head.reset_parameters()
        for down, up in self.tail:
            down.reset_parameters()
            up.reset_parameters()

    def forward(self, input_: Tensor, target_: Tensor) -> _ASMoutput:
        self._check(input_, target_)
        batched = target_.dim() == 1
        input = input_ if batched else input_.unsqueeze(0)
        target = target_ if batched else target_.unsqueeze(0)
        if len(target) and not (int(target.min()) >= 0 and int(target.max()) < self.n_classes):
            raise RuntimeError(
                f"Target values should be in [0, {self.n_classes - 1}], but values in range "
                f"[{int(target.min())}, {int(target.max())}] were found. "
            )
        # Each row's place in the head; for a class of a cluster it is that of the cluster.
        place = target.clone()
        output = input.new_zeros(len(target))
        for i, (low, high) in enumerate(itertools.pairwise(self.cutoffs)):
            inside = (target >= low) & (target < high)
            rows = inside.nonzero().squeeze(1)
            if not len(rows):
                continue
            place[inside] = self.shortlist_size + i
            likely = F.log_softmax(self.tail[i](input.index_select(0, rows)), dim=1)
            local = likely.gather(1, (target[inside] - low).unsqueeze(1)).squeeze(1)
            output = output.index_copy(0, rows, local)
        head = F.log_softmax(self.head(input), dim=1)
        output = output + head.gather(1, place.unsqueeze(1)).squeeze(1)
        loss = (-output).mean()
        return _ASMoutput(output if batched else output.squeeze(0), loss)

    @staticmethod
    def _check(input: Tensor, target: Tensor) -> None:
        if target.dim() > 1:
            raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
        if input.dim() != target.dim() + 1:
            raise RuntimeError(
                f"{target.dim()}D target tensor expects {target.dim() + 1}D input tensors, but found inputs "
                f"with size {list(input.shape)}"
            )
        if target.dim() and input.shape[0] != target.shape[0]:
            raise RuntimeError("Input and target should have the same size in the batch dimension.")

    def _full(self, input: Tensor, head_output: Tensor) -> Tensor:
        """Log-probabilities of all classes."""
        head = F.log_softmax(head_output, dim=1)
        parts = [head[:, : self.shortlist_size]]
        for i, cluster in enumerate(self.tail):
            parts.append(F.log_softmax(cluster(input), dim=1) + head[:, self.shortlist_size + i].unsqueeze(1))
        made: Tensor = cat(parts, 1)
        return made

    def log_prob(self, input: Tensor) -> Tensor:
        """Log-probabilities of all classes: (N, in_features) to (N, n_classes)."""
        return self._full(input, self.head(input))

    def predict(self, input: Tensor) -> Tensor:
        """The most likely class of each row, (N,). Clusters are only computed if the head names one."""
        head = self.head(input)
        best: Tensor = head.argmax(1)
        outside = best >= self.shortlist_size
        if not bool(outside.any()):
            return best
        made: Tensor = where(outside, self._full(input, head).argmax(1), best)
        return made
