"""Transformers."""

from __future__ import annotations

from ..layers.transformer import Transformer as Transformer
from ..layers.transformer import TransformerDecoder as TransformerDecoder
from ..layers.transformer import TransformerDecoderLayer as TransformerDecoderLayer
from ..layers.transformer import TransformerEncoder as TransformerEncoder
from ..layers.transformer import TransformerEncoderLayer as TransformerEncoderLayer
