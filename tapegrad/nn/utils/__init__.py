"""Helpers for training: clipping, flattening, parametrizations, sequences."""

from __future__ import annotations

from . import parametrizations as parametrizations
from . import parametrize as parametrize
from . import rnn as rnn
from .clip import clip_grad_norm_ as clip_grad_norm_
from .clip import clip_grad_value_ as clip_grad_value_
from .clip import clip_grads_with_norm_ as clip_grads_with_norm_
from .clip import get_total_norm as get_total_norm
from .convert import parameters_to_vector as parameters_to_vector
from .convert import vector_to_parameters as vector_to_parameters
from .legacy import remove_spectral_norm as remove_spectral_norm
from .legacy import remove_weight_norm as remove_weight_norm
from .legacy import spectral_norm as spectral_norm
from .legacy import weight_norm as weight_norm
