"""Attention: the scaled dot product, and all of multi-head attention."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...ops import shape as shapes
from ...ops.arithmetic import where
from ...ops.dropout import functional_dropout as dropout
from ...ops.matmul import linear
from ...ops.softmax import masked_softmax
from ...tensor import Tensor


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """softmax(query @ key.T * scale + mask) @ value.

    query (N, ..., L, E), key (N, ..., S, E), value (N, ..., S, V). A bool mask is True where attention
    is allowed, another is added. ``scale`` is 1 / sqrt(E) unless given. ``enable_gqa`` repeats the heads
    (dimension -3) of key and value. A row without any allowed key gives zeros.
    """
    if is_causal and attn_mask is not None:
        raise RuntimeError(
            "scaled_dot_product_attention: Explicit attn_mask should not be set when is_causal=True"
        )
    for name, t in (("query", query), ("key", key), ("value", value)):
        if t.dim() < 2:
            raise RuntimeError(
                f"scaled_dot_product_attention: {name} must have at least 2 dimensions, got {t.dim()}"
            )
    if not query.dtype == key.dtype == value.dtype:
        raise RuntimeError(
            f"Expected query, key, and value to have the same dtype, but got query.dtype: {query.dtype} "
            "key.dtype: "
            f"{key.dtype} and value.dtype: {value.dtype} instead."
        )
    if enable_gqa:
        repeats = query.shape[-3] // key.shape[-3]
        if query.shape[-3] != repeats * key.shape[-3] or query.shape[-3] % value.shape[-3]:
            raise RuntimeError(
                f"scaled_dot_product_attention: with enable_gqa the heads of query ({query.shape[-3]}) must "
                "be a "
                f"multiple of those of key ({key.shape[-3]}) and value ({value.shape[-3]})"
            )
        key = key.repeat_interleave(repeats, -3)
        value = value.repeat_interleave(query.shape[-3] // value.shape[-3], -3)
    factor = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    scores = (query * factor) @ key.transpose(-2, -1)
    allowed: Tensor | None = None
    if is_causal:
        allowed = Tensor._make(np.tri(query.shape[-2], key.shape[-2], dtype=bool))
    elif attn_mask is not None and attn_mask._array.dtype.char == "?":
        allowed = attn_mask
    elif attn_mask is not None:
        if not attn_mask.is_floating_point():
            raise RuntimeError(f"Expected attn_mask dtype to be bool or float, but got {attn_mask.dtype}")
        scores = scores + attn_mask
    if allowed is not None:
        scores = where(allowed, scores, -math.inf)
    weights = masked_softmax(scores)
    if dropout_p > 0.0:
        weights = dropout(weights, dropout_p, True)
    made: Tensor = weights @ value
    return made


def multi_head_attention_forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Tensor | None,
    in_proj_bias: Tensor | None,
    bias_k: Tensor | None,
    bias_v: Tensor | None,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Tensor,
    out_proj_bias: Tensor | None,
    training: bool = True,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Tensor | None = None,
    k_proj_weight: Tensor | None = None,
    v_proj_weight: Tensor | None = None,
    static_k: Tensor | None = None,
    static_v: Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """Multi-head attention over (L, N, E), (S, N, E), (S, N, E), or without N; see nn.MultiheadAttention."""
    batched = _check_ranks(query, key, value, key_padding_mask, attn_mask, num_heads)
    if not batched:
        same = query is key, key is value
        query, key, value = (t.unsqueeze(1) for t in (query, key, value))
        key = query if same[0] else key
        value = key if same[1] else value
        if key_padding_mask is not None:
            key_padding_mask = key_padding_mask.unsqueeze(0)
    length, batch, width = query.shape
    source = key.shape[0]
    if is_causal and attn_mask is None:
        raise RuntimeError("Need attn_mask if specifying the is_causal hint.")
    if width != embed_dim_to_check:
        raise AssertionError(f"was expecting embedding dimension of {embed_dim_to_check}, but got {width}")
    if width % num_heads:
        raise AssertionError(f"embed_dim {width} not divisible by num_heads {num_heads}")
    weights = (q_proj_weight, k_proj_weight, v_proj_weight) if use_separate_proj_weight else in_proj_weight
    q, k, v = _projected(query, key, value, weights, in_proj_bias)
    attn_mask = _attention_mask(attn_mask, (batch * num_heads, length, source), q)
    padding = _added(key_padding_mask, q)
    if bias_k is not None and bias_v is not None:
        if static_k is not None or static_v is not None:
            raise AssertionError("bias cannot be added to static key or value.")
        k, v = (shapes.cat([t, b.repeat(1, batch, 1)]) for t, b in ((k, bias_k), (v, bias_v)))
        attn_mask, padding = _one_more(attn_mask), _one_more(padding)
    head = width // num_heads
    q = q.reshape(length, batch * num_heads, head).transpose(0, 1)
    k = k.reshape(k.shape[0], batch * num_heads, head).transpose(0, 1) if static_k is None else static_k
    v = v.reshape(v.shape[0], batch * num_heads, head).transpose(0, 1) if static_v is None else static_v
    if add_zero_attn:
        k, v = (shapes.cat([t, t.new_zeros((t.shape[0], 1, head))], 1) for t in (k, v))
        attn_mask, padding = _one_more(attn_mask), _one_more(padding)
    source = k.shape[1]
    scores = (q * (1.0 / math.sqrt(head))) @ k.transpose(-2, -1)
    if padding is not None:
        wide = padding.view(batch, 1, 1, source).expand(-1, num_heads, -1, -1)
        wide = wide.reshape(batch * num_heads, 1, source)
        attn_mask = wide if attn_mask is None else attn_mask + wide
    if attn_mask is not None:
        scores = scores + attn_mask
    shares = scores.softmax(-1) if need_weights else masked_softmax(scores)
    if dropout_p > 0.0 and training:
        shares = dropout(shares, dropout_p, True)
    out = (shares @ v).transpose(0, 1).reshape(length, batch, width)
    out = linear(out, out_proj_weight, out_proj_bias)
    seen = None
    if need_weights:
        seen = shares.view(batch, num_heads, length, source)
        seen = seen.mean(1) if average_attn_weights else seen
        seen = seen if batched else seen.squeeze(0)
    return (out if batched else out.squeeze(1)), seen


def _check_ranks(
    query: Tensor, key: Tensor, value: Tensor, padding: Tensor | None, mask: Tensor | None, heads: int
) -> bool:
    """Whether there is a batch dimension."""
    if query.dim() not in (2, 3):
        raise AssertionError(
            f"query should be unbatched 2D or batched 3D tensor but received {query.dim()}-D query tensor"
        )
    rank = query.dim()
    if key.dim() != rank or value.dim() != rank:
        raise AssertionError(
            f"For {rank}-D query, expected key and value to be {rank}-D but found {key.dim()}-D and "
            f"{value.dim()}-D tensors "
            "respectively"
        )
    if padding is not None and padding.dim() != rank - 1:
        raise AssertionError(
            f"For {rank}-D query, expected key_padding_mask to be None or {rank - 1}-D but found "
            f"{padding.dim()}-D tensor instead"
        )
    if mask is not None and mask.dim() not in (2, 3):
        raise AssertionError(
            f"expected attn_mask to be None, 2-D or 3-D but found {mask.dim()}-D tensor instead"
        )
    if (
        rank == 2
        and mask is not None
        and mask.dim() == 3
        and tuple(mask.shape) != (heads, query.shape[0], key.shape[0])
    ):
        raise AssertionError(
            f"Expected attn_mask shape to be {(heads, query.shape[0], key.shape[0])} but got "
            f"{tuple(mask.shape)}"
        )
    return rank == 3


def _projected(
    query: Tensor, key: Tensor, value: Tensor, weights: Any, bias: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """The three inputs through their projections; inputs that are one object share a product."""
    if isinstance(weights, tuple):
        if any(w is None for w in weights):
            raise AssertionError(
                "use_separate_proj_weight is True, so q_proj_weight, k_proj_weight, v_proj_weight are needed"
            )
        if key.shape[:2] != value.shape[:2]:
            raise AssertionError(
                f"key's sequence and batch dims {tuple(key.shape[:2])} do not match value's "
                f"{tuple(value.shape[:2])}"
            )
        biases = (None, None, None) if bias is None else bias.chunk(3)
        q, k, v = (linear(t, w, b) for t, w, b in zip((query, key, value), weights, biases, strict=True))
        return q, k, v
    if weights is None:
        raise AssertionError("use_separate_proj_weight is False but in_proj_weight is None")
    if key.shape != value.shape:
        raise AssertionError(f"key shape {tuple(key.shape)} does not match value shape {tuple(value.shape)}")
    width = query.shape[-1]
    if query is key and key is value:
        q, k, v = linear(query, weights, bias).chunk(3, -1)
        return q, k, v
    first, rest = weights.split([width, 2 * width])
    b_first, b_rest = (None, None) if bias is None else bias.split([width, 2 * width])
    q = linear(query, first, b_first)
    if key is value:
        k, v = linear(key, rest, b_rest).chunk(2, -1)
        return q, k, v
    b_k, b_v = (None, None) if b_rest is None else b_rest.chunk(2)
    w_k, w_v = rest.chunk(2)
    return q, linear(key, w_k, b_k), linear(value, w_v, b_v)


def _added(mask: Tensor | None, like: Tensor) -> Tensor | None:
    """A mask in the form that is added to scores; a bool mask is True where attention is forbidden."""
    if mask is None:
        return None
    if mask._array.dtype.char == "?":
        made: Tensor = where(mask, like.new_full((), -math.inf), 0.0)
        return made
    if not mask.is_floating_point():
        raise AssertionError(f"only bool and floating types of masks are supported, got {mask.dtype}")
    return mask


def _attention_mask(mask: Tensor | None, wanted: tuple[int, int, int], like: Tensor) -> Any:
    mask = _added(mask, like)
    if mask is None:
        return None
    if mask.dim() == 2:
        if tuple(mask.shape) != wanted[1:]:
            raise RuntimeError(
                f"The shape of the 2D attn_mask is {tuple(mask.shape)}, but should be {wanted[1:]}."
            )
        return mask.unsqueeze(0)
    if tuple(mask.shape) != wanted:
        raise RuntimeError(f"The shape of the 3D attn_mask is {tuple(mask.shape)}, but should be {wanted}.")
    return mask


def _one_more(mask: Tensor | None) -> Tensor | None:
    """A mask with one more allowed key at the end."""
    if mask is None:
        return None
    made: Tensor = shapes.cat([mask, mask.new_zeros((*mask.shape[:-1], 1))], -1)
    return made
