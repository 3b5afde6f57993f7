"""AveragePool and GlobalAveragePool between DequantizeLinear and QuantizeLinear."""

from __future__ import annotations

import torch

from ...lower import lowers
from ...lower.emitter import Emitter, Value
from ...lower.ops.pool import average_pool as _pool
from ...lower.ops.pool import windows
from .core import dequantized, quantized

onward = torch.ops.onward


@lowers(onward.average_pool.default)
def average_pool(
    g: Emitter,
    x: Value,
    x_scale: Value,
    x_zero: int,
    scale: Value,
    zero: int,
    dtype: str,
    low: int,
    high: int,
    axis: int | None,
    kernel: list[int],
    stride: list[int],
    padding: list[int],
    ceil_mode: bool,
    counted: bool,
) -> Value:
    """average_pool(Tensor x, Tensor x_scale, int x_zero_point, Tensor scale, int zero_point, str dtype, int low,
    int high, int? axis, int[] kernel, int[] stride, int[] padding, bool ceil_mode, bool counted) -> Tensor"""
    at = windows(len(kernel), kernel, stride, padding, ceil=ceil_mode)
    y = _pool(g, dequantized(g, x, x_scale, x_zero), at, counted)
    return quantized(g, y, scale, zero, dtype, low, high, axis, "half_even")


@lowers(onward.global_average_pool.default)
def global_average_pool(
    g: Emitter,
    x: Value,
    x_scale: Value,
    x_zero: int,
    scale: Value,
    zero: int,
    dtype: str,
    low: int,
    high: int,
    axis: int | None,
) -> Value:
    """global_average_pool(Tensor x, Tensor x_scale, int x_zero_point, Tensor scale, int zero_point, str dtype,
    int low, int high, int? axis) -> Tensor"""
    y = g.op.GlobalAveragePool(dequantized(g, x, x_scale, x_zero))
    return quantized(g, y, scale, zero, dtype, low, high, axis, "half_even")
