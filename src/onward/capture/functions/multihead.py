"""`nn.MultiheadAttention` with the batch first.

PyTorch computes it with the sequence first and heads merged into the batch, which costs a dozen reshapes and transposes
per layer that no runtime undoes. The same attention, batch first, needs five:

    linear -> Reshape, Transpose, three slices -> attention -> Transpose, Reshape -> linear

The transposes around the call (`batch_first=True`) then meet their opposites and vanish.
"""

from __future__ import annotations

import inspect
import math
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import functional

from ...tables import registrar
from .intercepts import Intercept

if TYPE_CHECKING:
    from ..record.tracer import Tracer

INTERCEPTS: dict[Any, Intercept] = {}
intercepts = registrar(INTERCEPTS)

_SIGNATURE = inspect.signature(functional.multi_head_attention_forward)
_RARE = ("bias_k", "bias_v", "static_k", "static_v", "add_zero_attn", "use_separate_proj_weight")


@intercepts(functional.multi_head_attention_forward)
def multi_head_attention(tracer: Tracer, func: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    """The usual case: batched, one weight for all projections. The others take PyTorch's own way."""
    bound = _SIGNATURE.bind(*args, **kwargs)
    bound.apply_defaults()
    given = bound.arguments
    if any(_counts(given[name]) for name in _RARE) or given["query"].dim() != 3 or given["in_proj_weight"] is None:
        return NotImplemented
    if given["training"] and given["dropout_p"] > 0:
        return NotImplemented
    heads = given["num_heads"]
    query, key, value = _project(given, heads)
    if given["need_weights"]:
        attended, weights = _attend_openly(query, key, value, _bias(given, heads, query.dtype))
        if given["average_attn_weights"]:
            weights = weights.mean(1)
    else:
        attended, weights = _attend(given, query, key, value, heads), None
    merged = attended.transpose(1, 2).flatten(2)
    result = functional.linear(merged, given["out_proj_weight"], given["out_proj_bias"])
    # In memory it lies as PyTorch's result does, so that views of it are views here.
    return result.transpose(0, 1).contiguous(), weights


def _counts(argument: Any) -> bool:
    """Whether an argument asks for something: neither None nor False."""
    return isinstance(argument, Tensor) or bool(argument)


def _project(given: dict[str, Any], heads: int) -> list[Tensor]:
    """Query, key and value as [batch, heads, sequence, size of a head]; equal inputs share a product."""
    inputs = [given["query"], given["key"], given["value"]]
    size = inputs[0].shape[-1]
    weight, bias = given["in_proj_weight"], given["in_proj_bias"]
    result: list[Tensor] = []
    while inputs:
        count = _leading(inputs)
        rows = slice(len(result) * size, (len(result) + count) * size)
        part = weight if count == 3 else weight[rows]
        shift = bias if bias is None or count == 3 else bias[rows]
        product = functional.linear(inputs[0].transpose(0, 1), part, shift)
        split = product.unflatten(-1, (count, heads, -1) if count > 1 else (heads, -1))
        if count == 1:
            result.append(split.transpose(1, 2))
        else:
            turned = split.permute(2, 0, 3, 1, 4)
            result.extend(turned[place] for place in range(count))
        inputs = inputs[count:]
    return result


def _leading(inputs: list[Tensor]) -> int:
    """How many of the first inputs are one and the same tensor."""
    return next((place for place, each in enumerate(inputs) if each is not inputs[0]), len(inputs))


def _attend(given: dict[str, Any], query: Tensor, key: Tensor, value: Tensor, heads: int) -> Tensor:
    padding, mask = given["key_padding_mask"], given["attn_mask"]
    if given["is_causal"] and padding is None and mask is not None:
        return functional.scaled_dot_product_attention(query, key, value, is_causal=True)
    closed = [each for each in (padding, mask) if each is not None]
    if closed and all(each.dtype is torch.bool for each in closed):
        allowed = None
        for each in (_over_keys(padding), _over_heads(mask, heads)):
            if each is not None:
                allowed = ~each if allowed is None else allowed & ~each
        return functional.scaled_dot_product_attention(query, key, value, allowed)
    return functional.scaled_dot_product_attention(query, key, value, _bias(given, heads, query.dtype))


def _attend_openly(query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None) -> tuple[Tensor, Tensor]:
    """As separate operators, because the weights are wanted too; a row without keys is not a number here."""
    scores = (query * (1 / math.sqrt(query.shape[-1]))) @ key.transpose(-2, -1)
    weights = torch.softmax(scores if bias is None else scores + bias, -1)
    return weights @ value, weights


def _bias(given: dict[str, Any], heads: int, dtype: torch.dtype) -> Tensor | None:
    """Both masks as one number per score, minus infinity where closed."""
    total = None
    for mask in (_over_keys(given["key_padding_mask"]), _over_heads(given["attn_mask"], heads)):
        if mask is None:
            continue
        if mask.dtype is torch.bool:
            mask = torch.zeros_like(mask, dtype=dtype).masked_fill(mask, -math.inf)
        total = mask if total is None else total + mask
    return total


def _over_keys(padding: Tensor | None) -> Tensor | None:
    """[batch, keys] to meet [batch, heads, queries, keys]."""
    return None if padding is None else padding[:, None, None, :]


def _over_heads(mask: Tensor | None, heads: int) -> Tensor | None:
    """[batch * heads, queries, keys] to meet [batch, heads, queries, keys]."""
    return mask if mask is None or mask.dim() == 2 else mask.unflatten(0, (-1, heads))
