"""Attention as onnxruntime has it (com.microsoft)."""

from __future__ import annotations

import itertools
import math
from typing import Any

import torch
from torch import Tensor

from ...errors import BackendError
from ...onnx_operators.python_numbers import number
from ..registry import implements
from .contrib_qlinear import matmul_integer_to_float

_MS = "com.microsoft"


def _heads(x: Tensor, count: int) -> Tensor:
    """(batch, length, width) as (batch, heads, length, width of a head)."""
    return x.unflatten(-1, (count, -1)).transpose(1, 2)


def _merged(x: Tensor) -> Tensor:
    return x.transpose(1, 2).flatten(2)


def _attend(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, scale: float | None) -> tuple[Tensor, Tensor]:
    """What comes out, (batch, length, width), and the scores before the softmax."""
    factor = scale if scale else 1 / math.sqrt(q.shape[-1])
    scores = factor * torch.matmul(q, k.mT)
    scores = scores if bias is None else scores + bias
    return _merged(torch.matmul(torch.softmax(scores, -1), v)), scores


def _total(*parts: Tensor | None) -> Tensor | None:
    given = [part for part in parts if part is not None]
    return sum(given[1:], given[0]) if given else None


def _padding(mask: Tensor | None, batch: int, queries: int, keys: int, filled: float) -> Tensor | None:
    """A mask in one of its forms as something to add, (batch, 1, queries or 1, keys)."""
    if mask is None:
        return None
    if mask.dim() == 1:  # where rows end, and where they start if that is there too
        places = torch.arange(keys)
        if mask.shape[0] not in (batch, 2 * batch):
            raise BackendError(f"a mask of shape {list(mask.shape)} for {batch} rows is not supported")
        seen = places < mask[:batch, None]
        seen = seen & (places >= mask[batch:, None]) if mask.shape[0] == 2 * batch else seen
        seen = seen[:, None, None]
    elif mask.dim() == 2:
        seen = (mask > 0)[:, None, None]
    elif mask.dim() == 3:
        seen = (mask > 0)[:, None]
    else:  # of the longest sequence, of which these are the last queries
        seen = (mask > 0)[:, :, keys - queries : keys, :keys]
    return torch.where(seen, 0.0, filled)


def _causal(queries: int, keys: int, dtype: torch.dtype) -> Tensor:
    later = torch.ones(queries, keys, dtype=torch.bool).triu(keys - queries + 1)
    return torch.where(later, torch.finfo(dtype).min, 0.0).to(dtype)


def _masks(padding: Tensor | None, causal: bool, queries: int, keys: int, dtype: torch.dtype) -> Tensor | None:
    """What is later is hidden whatever the other mask says of it."""
    padding = None if padding is None else padding.to(dtype)
    if not causal:
        return padding
    later = _causal(queries, keys, dtype)
    return later if padding is None else torch.where(later != 0, later, padding)


def _self_attention(
    projected: Tensor,
    sizes: list[int],
    num_heads: int,
    mask: Tensor | None,
    past: Tensor | None,
    bias: Tensor | None,
    unidirectional: int,
    scale: float | None,
    filled: float,
) -> tuple[Tensor, Tensor]:
    """Queries, keys and values are side by side in `projected`. The second result is keys and values, past ones too."""
    q, k, v = (_heads(part, num_heads) for part in projected.split(sizes, -1))
    if past is not None:
        k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
    queries, keys = q.shape[2], k.shape[2]
    padding = _padding(mask, q.shape[0], queries, keys, filled)
    masks = _masks(padding, bool(unidirectional), queries, keys, q.dtype)
    result, _ = _attend(q, k, v, _total(masks, bias), scale)
    return result, torch.stack([k, v]) if k.shape == v.shape else k


@implements("Attention", domain=_MS)
def attention(
    x: Tensor,
    weights: Tensor,
    bias: Tensor | None = None,
    mask_index: Tensor | None = None,
    past: Tensor | None = None,
    attention_bias: Tensor | None = None,
    past_sequence_length: Tensor | None = None,
    *,
    num_heads: int,
    qkv_hidden_sizes: list[int] | None = None,
    unidirectional: int = 0,
    scale: float | None = None,
    mask_filter_value: float = -10000.0,
    do_rotary: int = 0,
    past_present_share_buffer: int = 0,
    rotary_embedding_dim: int = 0,
) -> tuple[Tensor, Tensor]:
    if do_rotary or past_present_share_buffer:
        raise BackendError("Attention with do_rotary or past_present_share_buffer, which exist for GPUs")
    projected = torch.matmul(x, weights)
    projected = projected if bias is None else projected + bias
    sizes = qkv_hidden_sizes or [weights.shape[1] // 3] * 3
    return _self_attention(
        projected, sizes, num_heads, mask_index, past, attention_bias, unidirectional, scale, mask_filter_value
    )


@implements("QAttention", domain=_MS)
def qattention(
    x: Tensor,
    weights: Tensor,
    bias: Tensor,
    x_scale: Tensor,
    weight_scale: Tensor,
    mask_index: Tensor | None = None,
    x_zero: Tensor | None = None,
    weight_zero: Tensor | None = None,
    past: Tensor | None = None,
    *,
    num_heads: int,
    unidirectional: int = 0,
    scale: float | None = None,
    mask_filter_value: float = -10000.0,
    do_rotary: int = 0,
    past_present_share_buffer: int = 0,
) -> tuple[Tensor, Tensor]:
    if do_rotary or past_present_share_buffer:
        raise BackendError("QAttention with do_rotary or past_present_share_buffer, which exist for GPUs")
    projected = matmul_integer_to_float(x, weights, x_scale, weight_scale, x_zero, weight_zero, bias)
    sizes = [weights.shape[1] // 3] * 3
    return _self_attention(
        projected, sizes, num_heads, mask_index, past, None, unidirectional, scale, mask_filter_value
    )


@implements("MultiHeadAttention", domain=_MS)
def multi_head_attention(
    query: Tensor,
    key: Tensor | None = None,
    value: Tensor | None = None,
    bias: Tensor | None = None,
    key_padding_mask: Tensor | None = None,
    attention_bias: Tensor | None = None,
    past_key: Tensor | None = None,
    past_value: Tensor | None = None,
    past_sequence_length: Tensor | None = None,
    cache_indirection: Tensor | None = None,
    *,
    num_heads: int,
    mask_filter_value: float = -10000.0,
    scale: float | None = None,
    unidirectional: int = 0,
    outputs: int,
) -> Any:
    """Queries, keys and values apart, or packed: all three (five axes in query), or keys with values (in key)."""
    if past_sequence_length is not None or cache_indirection is not None:
        raise BackendError("MultiHeadAttention with a shared buffer of the past is not supported")
    q, k, v = _parts(query, key, value, num_heads)
    if bias is not None:
        widths = [q.shape[1] * q.shape[3], k.shape[1] * k.shape[3], v.shape[1] * v.shape[3]]
        of_q, of_k, of_v = bias.split(widths)
        q = q + _heads(of_q[None, None], num_heads)
        if key is None or key.dim() != 4:  # keys that come from another attention have theirs already
            k, v = k + _heads(of_k[None, None], num_heads), v + _heads(of_v[None, None], num_heads)
    if past_key is not None and past_value is not None:
        k, v = torch.cat([past_key, k], 2), torch.cat([past_value, v], 2)
    queries, keys = q.shape[2], k.shape[2]
    padding = _padding(key_padding_mask, q.shape[0], queries, keys, mask_filter_value)
    masks = _masks(padding, bool(unidirectional), queries, keys, q.dtype)
    result, scores = _attend(q, k, v, _total(masks, attention_bias), scale)
    return (result, k, v, scores)[:outputs] if outputs > 1 else result


def _parts(query: Tensor, key: Tensor | None, value: Tensor | None, heads: int) -> tuple[Tensor, Tensor, Tensor]:
    if query.dim() == 5:  # batch, length, heads, three, width
        q, k, v = query.permute(3, 0, 2, 1, 4).unbind(0)
        return q, k, v
    q = _heads(query, heads)
    if key is None:
        raise BackendError("MultiHeadAttention without keys")
    if key.dim() == 5:  # batch, length, heads, two, width
        k, v = key.permute(3, 0, 2, 1, 4).unbind(0)
        return q, k, v
    if value is None:
        raise BackendError("MultiHeadAttention without values")
    return q, key if key.dim() == 4 else _heads(key, heads), value if value.dim() == 4 else _heads(value, heads)


# Rotary positions


def _rotated(x: Tensor, cos: Tensor, sin: Tensor, interleaved: bool) -> Tensor:
    """Pairs of the last axis turned by an angle; the others stay. x is (batch, heads, length, width)."""
    width = 2 * cos.shape[-1]
    turned, rest = x[..., :width], x[..., width:]
    if interleaved:
        first, second = turned[..., 0::2], turned[..., 1::2]
    else:
        first, second = turned.chunk(2, -1)
    a, b = first * cos - second * sin, first * sin + second * cos
    turned = torch.stack([a, b], -1).flatten(-2) if interleaved else torch.cat([a, b], -1)
    return torch.cat([turned, rest], -1)


@implements("RotaryEmbedding", domain=_MS)
def rotary_embedding(
    x: Tensor,
    position_ids: Tensor,
    cos: Tensor,
    sin: Tensor,
    *,
    interleaved: int = 0,
    num_heads: int = 0,
    rotary_embedding_dim: int = 0,
    is_packed_batching: int = 0,
    scale: float = 1.0,
) -> Tensor:
    """`position_ids` are one for each token, or where the first one is."""
    if is_packed_batching or scale != 1:
        raise BackendError("RotaryEmbedding with is_packed_batching or a scale is not supported")
    heads = num_heads or (x.shape[-1] // (2 * cos.shape[1]) if x.dim() == 3 else 0)
    apart = _heads(x, heads) if x.dim() == 3 else x
    places = position_ids.long()
    if position_ids.numel() == 1 and position_ids.dim() < 2:
        places = (places.reshape(1) + torch.arange(apart.shape[2])).expand(apart.shape[0], -1)
    result = _rotated(apart, cos[places].unsqueeze(1), sin[places].unsqueeze(1), bool(interleaved))
    return _merged(result) if x.dim() == 3 else result


@implements("GroupQueryAttention", domain=_MS)
def group_query_attention(
    query: Tensor,
    key: Tensor | None,
    value: Tensor | None,
    past_key: Tensor | None,
    past_value: Tensor | None,
    seqlens_k: Tensor,
    total_sequence_length: Tensor,
    cos: Tensor | None = None,
    sin: Tensor | None = None,
    position_ids: Tensor | None = None,
    attention_bias: Tensor | None = None,
    head_sink: Tensor | None = None,
    *,
    num_heads: int,
    kv_num_heads: int,
    do_rotary: int = 0,
    rotary_interleaved: int = 0,
    local_window_size: int = -1,
    scale: float | None = None,
    smooth_softmax: int = 0,
    softcap: float = 0.0,
) -> tuple[Tensor, Tensor, Tensor]:
    """Causal, with a cache: `seqlens_k` is the place of each row's last token, `past_*` is as long as the cache was."""
    if key is None or value is None:
        width = query.shape[-1] // (num_heads + 2 * kv_num_heads)
        query, key, value = query.split([num_heads * width, kv_num_heads * width, kv_num_heads * width], -1)
    q, k, v = _heads(query, num_heads), _heads(key, kv_num_heads), _heads(value, kv_num_heads)
    length = q.shape[2]
    total = int(number(total_sequence_length))
    ends = seqlens_k.reshape(-1).long() + 1
    starts = torch.zeros_like(ends) if length == total else ends - length  # a prompt begins at 0 whatever its padding
    places = starts[:, None] + torch.arange(length)
    if do_rotary:
        if cos is None or sin is None:
            raise BackendError("GroupQueryAttention with do_rotary, and without cos_cache and sin_cache")
        turn = (places if position_ids is None else position_ids.long()).clamp(0, cos.shape[0] - 1)
        angles = cos[turn].unsqueeze(1), sin[turn].unsqueeze(1)
        q, k = (_rotated(each, *angles, bool(rotary_interleaved)) for each in (q, k))
    k, v = _cached(past_key, k, places, total), _cached(past_value, v, places, total)
    spread = num_heads // kv_num_heads
    result = _windowed(
        q, k.repeat_interleave(spread, 1), v.repeat_interleave(spread, 1), places, ends, attention_bias, head_sink,
        local_window_size, scale, bool(smooth_softmax), softcap,
    )  # fmt: skip
    return result, k, v


def _cached(past: Tensor | None, new: Tensor, places: Tensor, total: int) -> Tensor:
    """The cache with the new tokens at their places."""
    held = 0 if past is None else past.shape[2]
    cache = new.new_zeros(new.shape[0], new.shape[1], max(held, total), new.shape[3])
    if past is not None:
        cache[:, :, :held] = past
    index = places[:, None, :, None].expand(-1, new.shape[1], -1, new.shape[3])
    return cache.scatter(2, index, new)


def _windowed(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    places: Tensor,
    ends: Tensor,
    bias: Tensor | None,
    sink: Tensor | None,
    window: int,
    scale: float | None,
    smooth: bool,
    softcap: float,
) -> Tensor:
    keys = torch.arange(k.shape[2])
    seen = (keys <= places[..., None]) & (keys < ends[:, None, None])
    if window > 0:
        seen = seen & (keys > places[..., None] - window)
    scores = torch.matmul(q, k.mT) * (scale if scale else 1 / math.sqrt(q.shape[-1]))
    scores = softcap * torch.tanh(scores / softcap) if softcap > 0 else scores
    if bias is not None:
        scores = scores.clone()
        scores[..., : bias.shape[-1]] += bias
    scores = scores.masked_fill(~seen[:, None], float("-inf"))
    if sink is not None or smooth:  # one more place that takes its share of the attention, and has no value
        extra = scores.new_zeros(1) if sink is None else sink.reshape(-1, 1, 1).to(scores.dtype)
        scores = torch.cat([scores, extra.expand(*scores.shape[:-1], 1)], -1)
        return _merged(torch.matmul(torch.softmax(scores, -1)[..., :-1], v))
    return _merged(torch.matmul(torch.softmax(scores, -1), v))


@implements("PackedAttention", domain=_MS)
def packed_attention(
    x: Tensor,
    weights: Tensor,
    bias: Tensor,
    token_offset: Tensor,
    cumulative: Tensor,
    attention_bias: Tensor | None = None,
    *,
    num_heads: int,
    qkv_hidden_sizes: list[int] | None = None,
    scale: float | None = None,
) -> Tensor:
    """Sequences one after the other without padding: each attends to itself."""
    projected = torch.matmul(x, weights) + bias
    sizes = qkv_hidden_sizes or [weights.shape[1] // 3] * 3
    ends = cumulative.tolist()
    results = []
    for row, (start, end) in enumerate(itertools.pairwise(ends)):
        q, k, v = (_heads(part, num_heads) for part in projected[None, start:end].split(sizes, -1))
        extra = None
        if attention_bias is not None:
            extra = attention_bias[row % attention_bias.shape[0]][None, :, : end - start, : end - start]
        results.append(_attend(q, k, v, extra, scale)[0][0])
    return torch.cat(results) if results else projected[:0, : sizes[2]]
