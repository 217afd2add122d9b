"""Recurrent cells: one step for a batch."""

from __future__ import annotations

import math
from typing import Any

from ... import dtypes
from ...tensor import Tensor
from .. import functional as F
from .. import init
from ..module import Module
from ..parameter import empty_parameter
from . import recurrence
from .recurrence import State, Weights


class RNNCellBase(Module):
    """Parameters, checks and printing of a cell with ``num_chunks`` gates."""

    bias: bool
    states = 1

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool,
        num_chunks: int,
        device: Any = None,
        dtype: dtypes.dtype | None = None,
    ) -> None:
        super().__init__()
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.bias = bias
        rows = num_chunks * hidden_size
        self.weight_ih = empty_parameter(rows, input_size, device=device, dtype=dtype)
        self.weight_hh = empty_parameter(rows, hidden_size, device=device, dtype=dtype)
        for name in ("bias_ih", "bias_hh"):
            self.register_parameter(name, empty_parameter(rows, device=device, dtype=dtype) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Uniform in +-1/sqrt(hidden_size)."""
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}"
        if self.bias is not True:
            text += f", bias={self.bias}"
        nonlinearity = self.__dict__.get("nonlinearity", "tanh")
        return text if nonlinearity == "tanh" else f"{text}, nonlinearity={nonlinearity}"

    def _step(self, cell: Any, input: Tensor, hx: Any) -> State:
        name = type(self).__name__
        if input.dim() not in (1, 2):
            raise ValueError(f"{name}: Expected input to be 1D or 2D, got {input.dim()}D instead")
        batched = input.dim() == 2
        x = input if batched else input.unsqueeze(0)
        if x.shape[1] != self.input_size:
            raise RuntimeError(
                f"{name}: input has inconsistent input_size: got {x.shape[1]} expected {self.input_size}"
            )
        if hx is None:
            zeros = x.new_zeros((x.shape[0], self.hidden_size))
            state: State = (zeros,) * self.states
        else:
            state = self._checked(hx if isinstance(hx, tuple) else (hx,), x, batched)
        weights = Weights(self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh, None)
        made = cell(F.linear(x, weights.ih, weights.b_ih), state, weights)
        return made if batched else tuple(s.squeeze(0) for s in made)

    def _checked(self, state: State, x: Tensor, batched: bool) -> State:
        name = type(self).__name__
        ready = []
        for s in state:
            if s.dim() not in (1, 2):
                raise ValueError(f"{name}: Expected hidden to be 1D or 2D, got {s.dim()}D instead")
            s = s if batched else s.unsqueeze(0)
            if tuple(s.shape) != (x.shape[0], self.hidden_size):
                raise RuntimeError(
                    f"{name}: hidden state of shape {list(s.shape)} does not fit: expected "
                    f"{[x.shape[0], self.hidden_size]}"
                )
            ready.append(s)
        return tuple(ready)


class RNNCell(RNNCellBase):
    """h' = tanh(W_ih x + b_ih + W_hh h + b_hh), or with relu; x (N, input_size), h (N, hidden_size)."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: Any = None,
        dtype: dtypes.dtype | None = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        if self.nonlinearity not in ("tanh", "relu"):
            raise RuntimeError(f"Unknown nonlinearity: {self.nonlinearity}")
        cell = recurrence.tanh if self.nonlinearity == "tanh" else recurrence.relu
        return self._step(cell, input, hx)[0]


class LSTMCell(RNNCellBase):
    """One step of an LSTM: x (N, input_size) and (h, c) to the new (h, c)."""

    states = 2

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: Any = None,
        dtype: dtypes.dtype | None = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 4, device, dtype)

    def forward(self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None) -> State:
        return self._step(recurrence.lstm, input, hx)


class GRUCell(RNNCellBase):
    """One step of a GRU: x (N, input_size) and h (N, hidden_size) to the new h."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: Any = None,
        dtype: dtypes.dtype | None = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 3, device, dtype)

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        return self._step(recurrence.gru, input, hx)[0]
