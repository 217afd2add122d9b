"""Embeddings."""

from __future__ import annotations

from ..layers.sparse import Embedding as Embedding
from ..layers.sparse import EmbeddingBag as EmbeddingBag
