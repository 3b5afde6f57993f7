"""Normalisation: by batch, layer, instance, group, and root mean square."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from onward.capture.program.facts import SymDim

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
    if mean is None or variance is None or (training and not _has_training_form(g, x)):
        return _by_batch_statistics(g, x, weight, bias, epsilon)
    dtype = g.dtype(mean)
    size = g.known_dims(mean)[0]
    weight, bias = _filled(g, weight, size, 1.0, dtype), _filled(g, bias, size, 0.0, dtype)
    inputs = [g.cast(x, dtype), *g.promote(weight, bias, mean, variance, dtype=dtype)]
    if not training:
        return g.op.BatchNormalization(*inputs, epsilon=epsilon)
    settings = {"epsilon": epsilon, "momentum": 1 - momentum, "training_mode": 1}  # ONNX weighs the old statistics
    result, *statistics = g.node("BatchNormalization", inputs, settings, outputs=3)
    for each in statistics:
        g.annotate(each, (size,), dtype)
    return g.annotate(result, g.known_dims(x), dtype)


def _has_training_form(g: Emitter, x: Value) -> bool:
    """Whether BatchNormalization can be in training form, from opset 14 on.

    onnxruntime 1.31 makes one of equal constants of up to 8 elements, and then updates the running statistics in
    memory that they share with scale and bias: a fresh norm of 8 channels would give wrong numbers.
    """
    channels = g.known_dims(x)[1]
    return g.opset >= 14 and isinstance(channels, int) and channels > 8


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


@lowers(aten.native_layer_norm.default)
def native_layer_norm(
    g: Emitter, x: Value, normalized_shape: Sequence[Any], weight: Value | None, bias: Value | None, epsilon: float
) -> tuple[Value, Value, Value]:
    """native_layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight, Tensor? bias, float eps)
    -> (Tensor, Tensor, Tensor)"""
    rank = g.rank(x)
    result = g.layer_norm(x, len(normalized_shape), weight, bias, epsilon)
    mean, inverse = _mean_and_inverse(g, x, list(range(rank - len(normalized_shape), rank)), epsilon, keepdims=True)
    return result, mean, inverse


def _mean_and_inverse(
    g: Emitter, x: Value, axes: Sequence[int], epsilon: float, *, keepdims: bool
) -> tuple[Value, Value]:
    """The mean over some axes, and one over the standard deviation."""
    mean = g.reduce("ReduceMean", x, axes, keepdims=True)
    centred = g.op.Sub(x, mean)
    variance = g.reduce("ReduceMean", g.op.Mul(centred, centred), axes, keepdims)
    inverse = g.op.Reciprocal(g.op.Sqrt(g.op.Add(variance, g.like(x, epsilon))))
    return mean if keepdims else g.squeeze(mean, axes), inverse


@lowers(aten.rms_norm.default)
def rms_norm(
    g: Emitter, x: Value, normalized_shape: Sequence[Any], weight: Value | None = None, epsilon: float | None = None
) -> Value:
    """rms_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, float? eps=None) -> Tensor"""
    dtype = g.dtype(x)
    wide = torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype  # as PyTorch computes it
    number = torch.finfo(wide).eps if epsilon is None else epsilon
    values = g.cast(x, wide)
    count, rank = len(normalized_shape), g.rank(x)
    sizes = g.known_dims(x)[rank - count :]
    if g.opset >= 23 and (weight is not None or all(isinstance(size, int) for size in sizes)):
        scale = g.const_tensor(torch.ones(sizes, dtype=wide)) if weight is None else g.cast(weight, wide)  # type: ignore[arg-type]
        return g.op.RMSNormalization(values, scale, axis=-count, epsilon=number)
    # With Pow, onnxruntime 1.31 runs the whole as one kernel. For float64 that one takes 1e-5 for any epsilon.
    squares = g.op.Mul(values, values) if wide is torch.float64 else g.op.Pow(values, g.like(values, 2))
    mean = g.reduce("ReduceMean", squares, list(range(rank - count, rank)), keepdims=True)
    result = g.op.Div(values, g.op.Sqrt(g.op.Add(mean, g.like(values, number))))
    return result if weight is None else g.op.Mul(result, g.cast(weight, wide))


@lowers(aten.instance_norm.default)
def instance_norm(
    g: Emitter,
    x: Value,
    weight: Value | None,
    bias: Value | None,
    mean: Value | None,
    variance: Value | None,
    use_input_stats: bool,
    momentum: float,
    epsilon: float,
    cudnn_enabled: bool = True,
) -> Value:
    """instance_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var,
    bool use_input_stats, float momentum, float eps, bool cudnn_enabled) -> Tensor"""
    if not use_input_stats:
        return batch_norm(g, x, weight, bias, mean, variance, False, momentum, epsilon)
    channels = g.known_dims(x)[1]
    if not isinstance(channels, int) or g.dtype(x) is torch.float64 or _may_be_empty(g, x):  # float32 only in 1.31
        return _standardised(g, x, list(range(2, g.rank(x))), weight, bias, epsilon)
    return _by_instance(g, x, channels, weight, bias, epsilon)


def _may_be_empty(g: Emitter, x: Value) -> bool:
    """Whether a tensor may have no elements: InstanceNormalization of onnxruntime 1.31 ends the process then."""
    return any(isinstance(dim, SymDim) and g.may_be_empty(dim) for dim in g.known_dims(x))


def _by_instance(
    g: Emitter, x: Value, channels: int, weight: Value | None, bias: Value | None, epsilon: float
) -> Value:
    dtype = g.dtype(x)
    weight, bias = _filled(g, weight, channels, 1.0, dtype), _filled(g, bias, channels, 0.0, dtype)
    return g.op.InstanceNormalization(x, *g.promote(weight, bias, dtype=dtype), epsilon=epsilon)


@lowers(aten.group_norm.default)
def group_norm(
    g: Emitter,
    x: Value,
    num_groups: int,
    weight: Value | None = None,
    bias: Value | None = None,
    epsilon: float = 1e-5,
    cudnn_enabled: bool = True,
) -> Value:
    """group_norm(Tensor input, int num_groups, Tensor? weight=None, Tensor? bias=None, float eps=1e-05,
    bool cudnn_enabled=True) -> Tensor

    Each group as a channel of an instance norm: twice as fast in onnxruntime 1.31 as GroupNormalization (opset 21),
    which it expands.
    """
    rank = g.rank(x)
    groups = _grouped(g, x, num_groups)
    if g.dtype(x) is torch.float64 or _may_be_empty(g, x):
        result = _standardised(g, groups, [2], None, None, epsilon)
    else:
        result = _by_instance(g, groups, num_groups, None, None, epsilon)
    result = g.reshape(result, g.known_dims(x))
    if weight is not None:
        result = g.op.Mul(result, _per_channel(g, weight, rank))
    return result if bias is None else g.op.Add(result, _per_channel(g, bias, rank))


def _grouped(g: Emitter, x: Value, num_groups: int) -> Value:
    """[batch, groups, elements]"""
    return g.reshape(x, [g.known_dims(x)[0], num_groups, -1])


@lowers(aten.native_group_norm.default)
def native_group_norm(
    g: Emitter,
    x: Value,
    weight: Value | None,
    bias: Value | None,
    batch: Any,
    channels: Any,
    size: Any,
    num_groups: int,
    epsilon: float,
) -> tuple[Value, Value, Value]:
    """native_group_norm(Tensor input, Tensor? weight, Tensor? bias, SymInt N, SymInt C, SymInt HxW, int group,
    float eps) -> (Tensor, Tensor, Tensor)"""
    result = group_norm(g, x, num_groups, weight, bias, epsilon)
    mean, inverse = _mean_and_inverse(g, _grouped(g, x, num_groups), [2], epsilon, keepdims=False)
    return result, mean, inverse


@lowers(aten.native_batch_norm.default, aten._native_batch_norm_legit.default)
def native_batch_norm(
    g: Emitter,
    x: Value,
    weight: Value | None,
    bias: Value | None,
    mean: Value | None,
    variance: Value | None,
    training: bool,
    momentum: float,
    epsilon: float,
) -> tuple[Value, Value, Value]:
    """native_batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var,
    bool training, float momentum, float eps) -> (Tensor, Tensor, Tensor)"""
    result = batch_norm(g, x, weight, bias, mean, variance, training, momentum, epsilon)
    if not training:
        nothing = g.const_tensor(torch.empty(0, dtype=g.out[1].dtype))
        return result, nothing, nothing
    axes = [axis for axis in range(g.rank(x)) if axis != 1]
    saved_mean, saved_inverse = _mean_and_inverse(g, x, axes, epsilon, keepdims=False)
    return result, saved_mean, saved_inverse


@lowers(aten._native_batch_norm_legit_no_training.default)
def _native_batch_norm_legit_no_training(
    g: Emitter,
    x: Value,
    weight: Value | None,
    bias: Value | None,
    mean: Value,
    variance: Value,
    momentum: float,
    epsilon: float,
) -> tuple[Value, Value, Value]:
    """_native_batch_norm_legit_no_training(Tensor input, Tensor? weight, Tensor? bias, Tensor running_mean,
    Tensor running_var, float momentum, float eps) -> (Tensor, Tensor, Tensor)"""
    return native_batch_norm(g, x, weight, bias, mean, variance, False, momentum, epsilon)


@lowers(aten._native_batch_norm_legit.no_stats)
def _native_batch_norm_legit_no_stats(
    g: Emitter, x: Value, weight: Value | None, bias: Value | None, training: bool, momentum: float, epsilon: float
) -> tuple[Value, Value, Value]:
    """_native_batch_norm_legit.no_stats(Tensor input, Tensor? weight, Tensor? bias, bool training, float momentum,
    float eps) -> (Tensor, Tensor, Tensor)"""
    return native_batch_norm(g, x, weight, bias, None, None, True, momentum, epsilon)
