"""Attention.

    softmax(query * scale @ transposed key + bias) @ value

A row whose keys are all masked gives zeros in PyTorch; a softmax over minus infinity would give nan. So masked keys
get the lowest finite number instead, which a softmax turns into exact zeros beside any other key, and the result of a
row without keys is multiplied by zero. What depends on the mask alone is shared by all layers that use it; a mask of
which it is known that every row has a key costs no multiplication.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from ..emitter import Emitter, SizeValue, Value
from ..registry import lowers
from .activation import dropout

aten = torch.ops.aten


@lowers(aten.scaled_dot_product_attention.default)
def scaled_dot_product_attention(
    g: Emitter,
    query: Value,
    key: Value,
    value: Value,
    attn_mask: Value | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Value:
    """scaled_dot_product_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, float dropout_p=0.0,
    bool is_causal=False, *, float? scale=None, bool enable_gqa=False) -> Tensor"""
    dtype = g.dtype(query)
    wide = torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype  # as PyTorch's kernels compute
    query, key, value = g.promote(query, key, value, dtype=wide)
    bias, rows = _bias(g, query, key, attn_mask, is_causal)
    query = g.op.Mul(query, _scale(g, query, scale))
    groups = _groups(g, query, key) if enable_gqa else 1
    if groups == 1:
        return g.cast(_attend(g, query, key, value, bias, rows, dropout_p), dtype)
    query, key, value = _split_heads(g, query, groups), g.unsqueeze(key, [-3]), g.unsqueeze(value, [-3])
    bias, rows = _split_mask(g, bias, groups), _split_mask(g, rows, groups)
    result = _attend(g, query, key, value, bias, rows, dropout_p)
    return g.cast(g.flatten(result, -4, -3), dtype)


@lowers(aten._scaled_dot_product_flash_attention_for_cpu.default)
def _scaled_dot_product_flash_attention_for_cpu(
    g: Emitter,
    query: Value,
    key: Value,
    value: Value,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    attn_mask: Value | None = None,
    scale: float | None = None,
) -> tuple[Value, Value]:
    """_scaled_dot_product_flash_attention_for_cpu(Tensor query, Tensor key, Tensor value, float dropout_p=0.0,
    bool is_causal=False, *, Tensor? attn_mask=None, float? scale=None) -> (Tensor output, Tensor logsumexp)"""
    result = scaled_dot_product_attention(g, query, key, value, attn_mask, dropout_p, is_causal, scale=scale)
    wide = g.out[1].dtype
    query, key = g.promote(query, key, dtype=wide)
    bias, _ = _bias(g, query, key, attn_mask, is_causal)
    scores = _scores(g, g.op.Mul(query, _scale(g, query, scale)), key, bias)
    return result, g.reduce("ReduceLogSumExp", scores, [-1])


def _attend(
    g: Emitter, query: Value, key: Value, value: Value, bias: Value | None, rows: Value | None, dropout_p: float
) -> Value:
    weights = g.softmax(_scores(g, query, key, bias), -1)
    if dropout_p:
        weights = dropout(g, weights, dropout_p, train=True)
    result = g.matmul(weights, value)
    return result if rows is None else g.op.Mul(result, rows)


def _scores(g: Emitter, query: Value, key: Value, bias: Value | None) -> Value:
    """How much each query likes each key."""
    rank = g.rank(key)
    turned = g.op.Transpose(key, perm=[*range(rank - 2), rank - 1, rank - 2])
    product = g.matmul(query, turned)
    return product if bias is None else g.op.Add(product, bias)


def _scale(g: Emitter, query: Value, scale: float | None) -> Value:
    """The given scale, or one over the root of the size of a head."""
    if scale is not None:
        return g.as_value(scale, g.dtype(query))
    size = g.dim_size(query, -1)
    if isinstance(size, SizeValue):
        return g.op.Reciprocal(g.op.Sqrt(g.as_value(size, g.dtype(query))))
    return g.like(query, 1 / math.sqrt(size) if size else 1.0)


def _bias(
    g: Emitter, query: Value, key: Value, mask: Value | None, is_causal: bool
) -> tuple[Value | None, Value | None]:
    """What is added to the scores, and by what rows of the result are multiplied; None where nothing is."""
    dtype = g.dtype(query)
    lowest = torch.finfo(dtype).min
    if is_causal:
        rows = g.unsqueeze(g.arange(0, g.dim_size(query, -2)), [1])
        columns = g.arange(0, g.dim_size(key, -2))
        return _chosen(g, g.less_or_equal(columns, rows), dtype), None
    if mask is None:
        return None, None
    if g.dtype(mask) is torch.bool:
        return _chosen(g, mask, dtype), _rows_with_keys(g, mask, dtype)
    mask = g.cast(mask, dtype)
    if _is_finite(g, mask):
        return mask, None
    open_keys = g.op.Greater(mask, g.like(mask, -math.inf))
    return g.max(mask, g.like(mask, lowest)), _rows_with_keys(g, open_keys, dtype)


def _chosen(g: Emitter, allowed: Value, dtype: torch.dtype) -> Value:
    """Nothing where a key is allowed, the lowest number elsewhere."""
    return g.where(allowed, g.const(0.0, dtype), g.const(torch.finfo(dtype).min, dtype))


def _rows_with_keys(g: Emitter, allowed: Value, dtype: torch.dtype) -> Value | None:
    """1 for rows with at least one key, 0 for others; None if all have one."""
    known = g.value_of(allowed)
    if known is not None and known.device.type != "meta" and bool(known.any(-1).all()):
        return None
    return g.reduce("ReduceMax", g.cast(allowed, dtype), [-1], keepdims=True)


def _is_finite(g: Emitter, mask: Value) -> bool:
    """Whether a mask of numbers certainly holds no infinity: a constant, or a choice between two such."""
    known = g.value_of(mask)
    if known is not None:
        return known.device.type != "meta" and bool(known.isfinite().all())
    node = mask.producer()
    if node is None or node.op_type not in ("Where", "Expand", "Unsqueeze", "Reshape", "Slice"):
        return False
    sources = node.inputs[1:3] if node.op_type == "Where" else node.inputs[:1]
    return all(source is not None and _is_finite(g, source) for source in sources)


def _groups(g: Emitter, query: Value, key: Value) -> int:
    """How many heads of the query share a head of the key."""
    heads, shared = g.known_dims(query)[-3], g.known_dims(key)[-3]
    if not isinstance(heads, int) or not isinstance(shared, int):
        raise g.unsupported("grouped attention with a dynamic number of heads")
    return heads // shared


def _split_heads(g: Emitter, x: Value, groups: int) -> Value:
    """[..., heads, sequence, size] as [..., shared, groups, sequence, size]."""
    shape: list[Any] = list(g.known_dims(x))
    return g.reshape(x, [*shape[:-3], shape[-3] // groups, groups, *shape[-2:]])


def _split_mask(g: Emitter, x: Value | None, groups: int) -> Value | None:
    if x is None or g.rank(x) < 3:
        return x
    return g.unsqueeze(x, [-3]) if g.known_dims(x)[-3] == 1 else _split_heads(g, x, groups)
