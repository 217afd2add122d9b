"""Recurrent networks."""

from __future__ import annotations

from ..layers.rnn import GRU as GRU
from ..layers.rnn import LSTM as LSTM
from ..layers.rnn import RNN as RNN
from ..layers.rnn import RNNBase as RNNBase
from ..layers.rnn_cells import GRUCell as GRUCell
from ..layers.rnn_cells import LSTMCell as LSTMCell
from ..layers.rnn_cells import RNNCell as RNNCell
from ..layers.rnn_cells import RNNCellBase as RNNCellBase
