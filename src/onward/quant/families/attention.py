"""Attention, taken apart: products in integers, masks and softmax in float between them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ..run.handlers import WEIGHT_ONLY, handles
from ..run.session import Call, Phase, QuantSession
from .linear import of_activations
from .softmax import onto_grid_of_shares, shares, values_for_softmax


@handles(F.scaled_dot_product_attention)
def scaled_dot_product_attention(
    session: QuantSession,
    func: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    if any(each.dtype is not torch.float32 for each in (query, key, value)):
        return NotImplemented
    call = session.call("attention")
    q, k, v = (
        session.settle(each, call.site(role)) for role, each in (("query", query), ("key", key), ("value", value))
    )
    if enable_gqa:
        k, v = (session.again(_repeated, each, q) for each in (k, v))
    weights = _weights(session, call, q, k, attn_mask, is_causal, scale)
    return of_activations(session, call, _dropped(session, weights, dropout_p), v)


def _repeated(x: Tensor, query: Tensor) -> Tensor:
    """Every head of the keys serves several of the queries."""
    return x.repeat_interleave(query.size(-3) // x.size(-3), -3)


def _dropped(session: QuantSession, weights: Tensor, p: float) -> Tensor:
    return session.put(torch.dropout(weights, p, True), session.tag(weights)) if p else weights


def _weights(
    session: QuantSession,
    call: Call,
    q: Tensor,
    k: Tensor,
    mask: Tensor | None,
    is_causal: bool = False,
    scale: float | None = None,
) -> Tensor:
    """softmax(q @ k.T * scale + mask), on its grid."""
    factor = 1 / math.sqrt(q.size(-1)) if scale is None else scale
    if is_causal:
        mask = torch.ones(q.size(-2), k.size(-2), dtype=torch.bool, device=q.device).tril()
    turned = session.again(torch.transpose, k, -2, -1)
    if session.for_a_chip or factor <= 0:
        scores = of_activations(session, call, q, turned)
        waiting = session.tag(scores)
        scores = session.finish(scores, call.site("scores"), getattr(waiting, "requantize", None))
        raw = values_for_softmax(session, scores, factor, alone=mask is None)
    else:  # the sums as floats: nothing but the softmax reads them
        raw = of_activations(session, call, q, turned, factor)
    zeros = session.phase is not Phase.EXACT
    return onto_grid_of_shares(session, _shares(raw, mask, shares(session), zeros), call.settings)


def _shares(
    scores: Tensor, mask: Tensor | None, softmax: Callable[[Tensor, int], Tensor] = torch.softmax, zeros: bool = True
) -> Tensor:
    """The softmax of masked scores. `zeros`: a row in which everything is masked is made zero."""
    if mask is None:
        return softmax(scores, -1)
    scores = scores.masked_fill(~mask, -math.inf) if mask.dtype is torch.bool else scores + mask
    y = softmax(scores, -1)
    return torch.nan_to_num(y, nan=0.0) if zeros else y


@handles(F.multi_head_attention_forward)
@handles(F.multi_head_attention_forward, table=WEIGHT_ONLY)
def multi_head_attention_forward(session: QuantSession, func: Any, *args: Any, **kwargs: Any) -> Any:
    """The functions that attention calls pass through the session again, which `func` itself would keep to itself."""
    return _multi_head_attention(session, *args, **kwargs)


def _multi_head_attention(
    session: QuantSession,
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
    """torch.nn.functional.multi_head_attention_forward: sequences first, then the batch, if there is one."""
    is_batched = query.dim() == 3
    weights = (q_proj_weight, k_proj_weight, v_proj_weight) if use_separate_proj_weight else _thirds(in_proj_weight)

    def heads() -> tuple[Tensor, ...]:
        inputs = (query, key, value) if is_batched else tuple(each.unsqueeze(1) for each in (query, key, value))
        q, k, v = _projected(inputs, weights, _thirds(in_proj_bias))
        _, batch, size = q.shape
        if bias_k is not None and bias_v is not None:
            k, v = (torch.cat([each, row.expand(1, batch, size)]) for each, row in ((k, bias_k), (v, bias_v)))
        q, k, v = (each.unflatten(2, (num_heads, size // num_heads)).permute(1, 2, 0, 3) for each in (q, k, v))
        k = k if static_k is None else static_k.unflatten(0, (batch, num_heads))
        v = v if static_v is None else static_v.unflatten(0, (batch, num_heads))
        if add_zero_attn:
            k, v = (F.pad(each, (0, 0, 0, 1)) for each in (k, v))
        return q, k, v

    call = session.call("attention")
    roles = zip(("query", "key", "value"), session.composed(heads), strict=True)
    in_float = call.settings.weight_only
    q, k, v = (each if in_float else session.settle(each, call.site(role)) for role, each in roles)
    if key_padding_mask is not None and not is_batched:
        key_padding_mask = key_padding_mask.unsqueeze(0)
    mask = _merged_mask(attn_mask, key_padding_mask, k, key.size(0), num_heads)
    shares = _shares(q @ k.mT / math.sqrt(q.size(-1)), mask) if in_float else _weights(session, call, q, k, mask)
    dropped = _dropped(session, shares, dropout_p if training else 0.0)
    y = dropped @ v if in_float else of_activations(session, call, dropped, v)

    def result() -> tuple[Tensor, Tensor | None]:
        out = F.linear(y.permute(2, 0, 1, 3).flatten(2), out_proj_weight, out_proj_bias)
        seen = None if not need_weights else shares.mean(1) if average_attn_weights else shares
        if not is_batched:
            return out.squeeze(1), None if seen is None else seen.squeeze(0)
        return out, seen

    found: tuple[Tensor, Tensor | None] = session.composed(result)
    return found


def _thirds(x: Tensor | None) -> tuple[Any, ...]:
    return (None, None, None) if x is None else x.chunk(3)


def _projected(inputs: tuple[Tensor, ...], weights: tuple[Any, ...], biases: tuple[Any, ...]) -> list[Tensor]:
    return [F.linear(x, weight, bias) for x, weight, bias in zip(inputs, weights, biases, strict=True)]


def _merged_mask(mask: Tensor | None, padding: Tensor | None, keys: Tensor, length: int, heads: int) -> Tensor | None:
    """A mask and a padding as numbers that are added to scores of the form (batch, heads, queries, keys). `length` is
    the number of keys before some were appended, which are never masked."""
    found = None
    if mask is not None:
        if mask.dim() == 3:
            mask = mask.unflatten(0, (-1, heads))
        found = _as_numbers(mask)
    if padding is not None:
        numbers = _as_numbers(padding)[:, None, None, :]
        found = numbers if found is None else found + numbers
    return found if found is None else F.pad(found, (0, keys.size(2) - length))


def _as_numbers(mask: Tensor) -> Tensor:
    """True means masked."""
    if mask.dtype is not torch.bool:
        return mask
    return torch.zeros(mask.shape, device=mask.device).masked_fill(mask, -math.inf)
