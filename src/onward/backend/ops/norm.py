"""Normalizations."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ..registry import implements
from ..values import holder


@implements("BatchNormalization")
def batch_norm(
    x: Tensor,
    scale: Tensor,
    bias: Tensor,
    mean: Tensor,
    var: Tensor,
    *,
    epsilon: float = 1e-5,
    momentum: float = 0.9,
    training_mode: int = 0,
    spatial: int = 1,
    is_test: int = 1,
    outputs: int,
) -> Any:
    """With training_mode, by the batch's own statistics; the running ones come out next to the result."""
    if not training_mode:
        kind = torch.promote_types(x.dtype, mean.dtype)
        same = [each.to(kind) for each in (x, mean, var, scale, bias)]
        result = F.batch_norm(same[0], same[1], same[2], same[3], same[4], False, 0.0, epsilon)
        return (result.to(x.dtype), mean, var)[:outputs] if outputs > 1 else result.to(x.dtype)
    axes = [axis for axis in range(x.dim()) if axis != 1]
    now_mean, now_var = x.mean(axes), x.var(axes, correction=0)
    shape = [1, -1, *[1] * (x.dim() - 2)]
    result = (x - now_mean.reshape(shape)) / torch.sqrt(now_var.reshape(shape) + epsilon)
    result = result * scale.reshape(shape) + bias.reshape(shape)
    running = [old * momentum + new * (1 - momentum) for old, new in ((mean, now_mean), (var, now_var))]
    return (result, *running)[:outputs] if outputs > 1 else result


@implements("InstanceNormalization")
def instance_norm(x: Tensor, scale: Tensor, bias: Tensor, *, epsilon: float = 1e-5) -> Tensor:
    return F.instance_norm(x, weight=scale, bias=bias, eps=epsilon)


@implements("LayerNormalization")
def layer_norm(
    x: Tensor,
    scale: Tensor,
    bias: Tensor | None = None,
    *,
    axis: int = -1,
    epsilon: float = 1e-5,
    stash_type: int = 1,
    outputs: int,
) -> Any:
    axes = list(range(axis % x.dim(), x.dim()))
    shape = list(x.shape[axes[0] :])
    if outputs == 1 and list(scale.shape) == shape and (bias is None or list(bias.shape) == shape):
        return F.layer_norm(x, shape, scale, bias, epsilon)
    wide = x.to(holder(stash_type))
    mean = wide.mean(axes, keepdim=True)
    inverse = torch.rsqrt(((wide - mean) ** 2).mean(axes, keepdim=True) + epsilon)
    result = ((wide - mean) * inverse).to(x.dtype) * scale
    result = result if bias is None else result + bias
    return (result, mean, inverse)[:outputs] if outputs > 1 else result


@implements("RMSNormalization")
def rms_norm(x: Tensor, scale: Tensor, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1) -> Tensor:
    axes = list(range(axis % x.dim(), x.dim()))
    wide = x.to(holder(stash_type))
    return (wide * torch.rsqrt((wide * wide).mean(axes, keepdim=True) + epsilon)).to(x.dtype) * scale


@implements("GroupNormalization", since=21)
def group_norm(
    x: Tensor, scale: Tensor, bias: Tensor, *, num_groups: int, epsilon: float = 1e-5, stash_type: int = 1
) -> Tensor:
    return F.group_norm(x.to(holder(stash_type)), num_groups, None, None, epsilon).to(x.dtype) * scale.reshape(
        1, -1, *[1] * (x.dim() - 2)
    ) + bias.reshape(1, -1, *[1] * (x.dim() - 2))


@implements("LRN")
def lrn(x: Tensor, *, size: int, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0) -> Tensor:
    square = (x * x).transpose(1, -1)
    before, after = (size - 1) // 2, size - 1 - (size - 1) // 2
    sums = F.pad(square, [before, after]).unfold(-1, size, 1).sum(-1).transpose(1, -1)
    return x / (bias + alpha / size * sums) ** beta


@implements("LpNormalization")
def lp_norm(x: Tensor, *, axis: int = -1, p: int = 2) -> Tensor:
    length = torch.linalg.vector_norm(x, p, axis, keepdim=True)
    return torch.where(length == 0, torch.zeros_like(x), x / length)


@implements("MeanVarianceNormalization")
def mean_variance_norm(x: Tensor, *, axes: list[int] | None = None) -> Tensor:
    along = [0, 2, 3] if axes is None else axes
    centred = x - x.mean(along, keepdim=True)
    return centred / ((centred**2).mean(along, keepdim=True).sqrt() + 1e-9)
