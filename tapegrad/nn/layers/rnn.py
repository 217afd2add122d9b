"""Recurrent networks: RNN, LSTM, GRU over padded or packed sequences."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from ... import dtypes
from ...ops import shape as shapes
from ...tensor import Tensor
from .. import functional as F
from .. import init
from ..module import Module
from ..parameter import empty_parameter
from ..utils.rnn import PackedSequence
from . import recurrence
from .recurrence import State

GATES = {"RNN_TANH": 1, "RNN_RELU": 1, "LSTM": 4, "GRU": 3}
_OPTIONS = (
    ("proj_size", 0),
    ("num_layers", 1),
    ("bias", True),
    ("batch_first", False),
    ("dropout", 0.0),
    ("bidirectional", False),
)


class RNNBase(Module):
    """What recurrent networks share: parameters, checks, layers and directions.

    Input (T, N, input_size), (N, T, input_size) if ``batch_first``, (T, input_size), or a PackedSequence.
    """

    def __init__(
        self,
        mode: str,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Any = None,
        dtype: dtypes.dtype | None = None,
    ) -> None:
        super().__init__()
        self._check_options(mode, num_layers, dropout)
        self._check_types(bias=bias, batch_first=batch_first)
        self._check_sizes(input_size, hidden_size, num_layers, proj_size)
        self.mode = mode
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.dropout = float(dropout)
        self.bidirectional = bidirectional
        self.proj_size = proj_size
        rows = GATES[mode] * hidden_size
        out = proj_size or hidden_size
        directions = 2 if bidirectional else 1
        self._all_weights: list[list[str]] = []
        for layer in range(num_layers):
            for suffix in ("", "_reverse")[:directions]:
                width = input_size if layer == 0 else out * directions
                shapes_of: dict[str, tuple[int, ...]] = {"weight_ih": (rows, width), "weight_hh": (rows, out)}
                if bias:
                    shapes_of |= {"bias_ih": (rows,), "bias_hh": (rows,)}
                if proj_size:
                    shapes_of["weight_hr"] = (proj_size, hidden_size)
                names = []
                for name, shape in shapes_of.items():
                    names.append(f"{name}_l{layer}{suffix}")
                    setattr(self, names[-1], empty_parameter(*shape, device=device, dtype=dtype))
                self._all_weights.append(names)
        self.reset_parameters()

    def _check_options(self, mode: str, num_layers: int, dropout: Any) -> None:
        if mode not in GATES:
            raise ValueError(f"Unrecognized RNN mode: {mode}")
        if isinstance(dropout, bool) or not isinstance(dropout, (int, float)) or not 0 <= dropout <= 1:
            raise ValueError(
                "dropout should be a number in range [0, 1] representing the probability of an element "
                "being zeroed"
            )
        if dropout > 0 and num_layers == 1:
            warnings.warn(
                "dropout option adds dropout after all but last recurrent layer, so non-zero dropout expects "
                f"num_layers greater than 1, but got dropout={dropout} and num_layers={num_layers}",
                stacklevel=4,
            )

    @staticmethod
    def _check_types(**flags: Any) -> None:
        for name, value in flags.items():
            if not isinstance(value, bool):
                raise TypeError(f"{name} should be of type bool, got: {type(value).__name__}")

    @staticmethod
    def _check_sizes(input_size: int, hidden_size: int, num_layers: int, proj_size: int) -> None:
        for name, value in (("input_size", input_size), ("hidden_size", hidden_size)):
            if not isinstance(value, int):
                raise TypeError(f"{name} should be of type int, got: {type(value).__name__}")
            if value <= 0:
                raise ValueError(f"{name} must be greater than zero")
        if num_layers <= 0:
            raise ValueError("num_layers must be greater than zero")
        if proj_size < 0:
            raise ValueError("proj_size should be a positive integer or zero to disable projections")
        if proj_size >= hidden_size:
            raise ValueError("proj_size has to be smaller than hidden_size")

    def reset_parameters(self) -> None:
        """Uniform in +-1/sqrt(hidden_size)."""
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def flatten_parameters(self) -> None:
        """Nothing to do: there is no joint buffer of the weights."""

    @property
    def all_weights(self) -> list[list[Tensor]]:
        """The parameters, grouped by layer and direction."""
        return [[getattr(self, name) for name in names] for names in self._all_weights]

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}"
        for name, default in _OPTIONS:
            value = getattr(self, name)
            if value != default:
                text += f", {name}={value}"
        return text

    # ---- running

    def _cell(self) -> Callable[..., State]:
        return {
            "LSTM": recurrence.lstm,
            "GRU": recurrence.gru,
            "RNN_TANH": recurrence.tanh,
            "RNN_RELU": recurrence.relu,
        }[self.mode]

    def _run(self, data: Tensor, sizes: Sequence[int] | None, state: State) -> tuple[Tensor, State]:
        """All layers over steps (T, N, F), or packed (sum of lengths, F) with the sizes of its steps.

        ``state`` has (layers * directions, N, H) tensors, and so has the returned one.
        """
        directions = 2 if self.bidirectional else 1
        finals = []
        for layer in range(self.num_layers):
            outputs = []
            for direction in range(directions):
                index = layer * directions + direction
                weights = recurrence.Weights.of(self, self._all_weights[index])
                out, last = recurrence.run(
                    self._cell(), data, sizes, weights, tuple(s[index] for s in state), direction == 1
                )
                outputs.append(out)
                finals.append(last)
            data = outputs[0] if directions == 1 else shapes.cat(outputs, -1)
            if self.dropout and layer + 1 < self.num_layers:
                data = F.dropout(data, self.dropout, self.training)
        return data, tuple(shapes.stack(parts) for parts in zip(*finals, strict=True))

    def _state_sizes(self) -> tuple[int, ...]:
        """Width of each tensor of the state."""
        return (self.hidden_size,)

    def _checked_state(self, given: Any, batch: int, batched: bool, like: Tensor) -> State:
        """The given initial state with a batch dimension, or zeros."""
        layers = self.num_layers * (2 if self.bidirectional else 1)
        widths = self._state_sizes()
        if given is None:
            return tuple(like.new_zeros((layers, batch, w)) for w in widths)
        state = given if isinstance(given, tuple) else (given,)
        if len(state) != len(widths):
            raise RuntimeError(
                f"{type(self).__name__}: expected a state of {len(widths)} tensors, got {len(state)}"
            )
        ready = []
        for s, width in zip(state, widths, strict=True):
            wanted_dim = 3 if batched else 2
            if s.dim() != wanted_dim:
                raise RuntimeError(
                    f"For {'batched 3-D' if batched else 'unbatched 2-D'} input, hx should also be "
                    f"{wanted_dim}-D but "
                    f"got {s.dim()}-D tensor"
                )
            s = s if batched else s.unsqueeze(1)
            if tuple(s.shape) != (layers, batch, width):
                raise RuntimeError(f"Expected hidden size {(layers, batch, width)}, got {list(s.shape)}")
            ready.append(s)
        return tuple(ready)

    def _forward(self, input: Any, hx: Any) -> tuple[Any, State]:
        """Output and final state, in the form (padded, packed, unbatched) of the input."""
        if isinstance(input, PackedSequence):
            return self._forward_packed(input, hx)
        if input.dim() not in (2, 3):
            raise ValueError(
                f"{type(self).__name__}: Expected input to be 2D or 3D, got {input.dim()}D instead"
            )
        batched = input.dim() == 3
        data = input if batched else input.unsqueeze(1)
        if batched and self.batch_first:
            data = data.transpose(0, 1)
        self._check_width(data)
        out, state = self._run(data, None, self._checked_state(hx, int(data.shape[1]), batched, data))
        if not batched:
            return out.squeeze(1), tuple(s.squeeze(1) for s in state)
        return (out.transpose(0, 1) if self.batch_first else out), state

    def _forward_packed(self, input: PackedSequence, hx: Any) -> tuple[PackedSequence, State]:
        sizes = input.batch_sizes.tolist()
        self._check_width(input.data)
        state = self._checked_state(hx, sizes[0], True, input.data)
        if hx is not None and input.sorted_indices is not None:
            state = tuple(s.index_select(1, input.sorted_indices) for s in state)
        out, state = self._run(input.data, sizes, state)
        if input.unsorted_indices is not None:
            state = tuple(s.index_select(1, input.unsorted_indices) for s in state)
        return PackedSequence(out, input.batch_sizes, input.sorted_indices, input.unsorted_indices), state

    def _check_width(self, data: Tensor) -> None:
        if data.dtype != self.weight_ih_l0.dtype:
            wanted = self.weight_ih_l0.dtype
            raise ValueError(
                f"RNN input dtype ({data.dtype}) does not match weight dtype ({wanted}). Convert input: "
                f"input.to({wanted}), or convert model: model.to({data.dtype})"
            )
        if data.shape[-1] != self.input_size:
            raise RuntimeError(
                f"input.size(-1) must be equal to input_size. Expected {self.input_size}, got "
                f"{data.shape[-1]}"
            )


class RNN(RNNBase):
    """h' = tanh(W_ih x + b_ih + W_hh h + b_hh), or with relu.

    ``RNN(input_size, hidden_size, num_layers=1, nonlinearity="tanh", bias=True, batch_first=False,
    dropout=0.0, bidirectional=False)``; returns (output, h_n).
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        nonlinearity: str = "tanh",
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: Any = None,
        dtype: dtypes.dtype | None = None,
    ) -> None:
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'.")
        super().__init__(
            f"RNN_{nonlinearity.upper()}",
            input_size,
            hidden_size,
            num_layers,
            bias,
            batch_first,
            dropout,
            bidirectional,
            device=device,
            dtype=dtype,
        )
        self.nonlinearity = nonlinearity

    def forward(self, input: Any, hx: Tensor | None = None) -> tuple[Any, Tensor]:
        out, (h,) = self._forward(input, hx)
        return out, h


class LSTM(RNNBase):
    """Long short-term memory, gates in the order input, forget, cell, output.

    ``LSTM(input_size, hidden_size, num_layers=1, bias=True, batch_first=False, dropout=0.0,
    bidirectional=False, proj_size=0)``; returns (output, (h_n, c_n)).
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Any = None,
        dtype: dtypes.dtype | None = None,
    ) -> None:
        super().__init__(
            "LSTM",
            input_size,
            hidden_size,
            num_layers,
            bias,
            batch_first,
            dropout,
            bidirectional,
            proj_size,
            device,
            dtype,
        )

    def _state_sizes(self) -> tuple[int, ...]:
        return (self.proj_size or self.hidden_size, self.hidden_size)

    def forward(self, input: Any, hx: tuple[Tensor, Tensor] | None = None) -> tuple[Any, State]:
        return self._forward(input, hx)


class GRU(RNNBase):
    """Gated recurrent units, gates in the order reset, update, new.

    ``GRU(input_size, hidden_size, num_layers=1, bias=True, batch_first=False, dropout=0.0,
    bidirectional=False)``; returns (output, h_n).
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: Any = None,
        dtype: dtypes.dtype | None = None,
    ) -> None:
        super().__init__(
            "GRU",
            input_size,
            hidden_size,
            num_layers,
            bias,
            batch_first,
            dropout,
            bidirectional,
            device=device,
            dtype=dtype,
        )

    def forward(self, input: Any, hx: Tensor | None = None) -> tuple[Any, Tensor]:
        out, (h,) = self._forward(input, hx)
        return out, h
