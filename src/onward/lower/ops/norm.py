"""Normalisation: by batch, layer, instance, group, and root mean square."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ..emitter import Emitter, Value
from ..registry import lowers

aten = torch.ops.aten


def _filled(g: Emitter, x: Value | None, size: Any, number: float, dtype: torch.dtype) -> Value:
    """A parameter, or what stands for one that is not there."""
    if x is not None:
        return x
    if not isinstance(size, int):
        raise g.unsupported("normalisation without weights over a dynamic channel axis")
    return g.const_tensor(torch.full((size,), number, dtype=dtype))


def _per_channel(g: Emitter, x: Value, rank: int) -> Value:
    """A parameter of one number per channel, shaped to meet axis 1 of a tensor of a rank."""
    return g.unsqueeze(x, list(range(1, rank - 1)))


@lowers(aten.batch_norm.default)
def batch_norm(
    g: Emitter,
    x: Value,
    weight: Value | None,
    bias: Value | None,
    mean: Value | None,
    variance: Value | None,
    training: bool,
    momentum: float,
    epsilon: float,
    cudnn_enabled: bool = True,
) -> Value:
    """batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, bool training,
    float momentum, float eps, bool cudnn_enabled) -> Tensor"""
    if training or mean is None or variance is None:
        return _by_batch_statistics(g, x, weight, bias, epsilon)
    dtype = g.dtype(mean)
    size = g.known_dims(mean)[0]
    weight, bias = _filled(g, weight, size, 1.0, dtype), _filled(g, bias, size, 0.0, dtype)
    parameters = g.promote(weight, bias, mean, variance, dtype=dtype)
    return g.op.BatchNormalization(g.cast(x, dtype), *parameters, epsilon=epsilon)


def _by_batch_statistics(g: Emitter, x: Value, weight: Value | None, bias: Value | None, epsilon: float) -> Value:
    """Mean and variance of this very batch, per channel."""
    rank = g.rank(x)
    return _standardised(g, x, [axis for axis in range(rank) if axis != 1], weight, bias, epsilon)


def _standardised(
    g: Emitter, x: Value, axes: Sequence[int], weight: Value | None, bias: Value | None, epsilon: float
) -> Value:
    """(x - mean) / sqrt(variance + epsilon) over some axes, then scale and shift per channel."""
    rank = g.rank(x)
    centred = g.op.Sub(x, g.reduce("ReduceMean", x, axes, keepdims=True))
    variance = g.reduce("ReduceMean", g.op.Mul(centred, centred), axes, keepdims=True)
    result = g.op.Div(centred, g.op.Sqrt(g.op.Add(variance, g.like(x, epsilon))))
    if weight is not None:
        result = g.op.Mul(result, _per_channel(g, g.cast(weight, g.dtype(x)), rank))
    return result if bias is None else g.op.Add(result, _per_channel(g, g.cast(bias, g.dtype(x)), rank))


@lowers(aten.layer_norm.default)
def layer_norm(
    g: Emitter,
    x: Value,
    normalized_shape: Sequence[Any],
    weight: Value | None = None,
    bias: Value | None = None,
    epsilon: float = 1e-5,
    cudnn_enable: bool = True,
) -> Value:
    """layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, Tensor? bias=None, float eps=1e-05,
    bool cudnn_enable=True) -> Tensor"""
    return g.layer_norm(x, len(normalized_shape), weight, bias, epsilon)


@lowers(aten.rms_norm.default)
def rms_norm(
    g: Emitter, x: Value, normalized_shape: Sequence[Any], weight: Value | None = None, epsilon: float | None = None
) -> Value:
    """rms_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, float? eps=None) -> Tensor"""
    dtype = g.dtype(x)
    wide = torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype  # as PyTorch computes it
    number = torch.finfo(wide).eps if epsilon is None else epsilon
    values = g.cast(x, wide)
    rank = g.rank(x)
    axes = list(range(rank - len(normalized_shape), rank))
    square = g.reduce("ReduceMean", g.op.Mul(values, values), axes, keepdims=True)
    result = g.op.Div(values, g.op.Sqrt(g.op.Add(square, g.like(values, number))))
    if weight is not None:
        result = g.op.Mul(result, g.cast(weight, wide))
    return result
