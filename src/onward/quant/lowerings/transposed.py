"""Transposed convolutions as they are: see ops/transposed.py."""

from __future__ import annotations

import torch

from ...lower import lowers
from ...lower.emitter import Emitter, Value
from .core import ROUNDING_IS_TOLD, dequantized

onward = torch.ops.onward


@lowers(onward.conv_transpose.default)
def conv_transpose(
    g: Emitter,
    x: Value,
    x_scale: Value,
    x_zero: int,
    w: Value,
    w_scale: Value,
    bias: Value | None,
    stride: list[int],
    padding: list[int],
    output_padding: list[int],
    dilation: list[int],
    groups: int,
) -> Value:
    """conv_transpose(Tensor x, Tensor x_scale, int x_zero_point, Tensor w, Tensor w_scale, Tensor? bias, int[] stride,
    int[] padding, int[] output_padding, int[] dilation, int groups) -> Tensor

    For a chip the values are multiplied, which it knows how to do in integers. A runtime computes in float, and gets
    whole numbers, whose sums are exact up to 2**24."""
    factor = g.op.Mul(x_scale, w_scale)
    is_told = ROUNDING_IS_TOLD.get()
    one = g.like(x_scale, 1.0)
    operands = [
        dequantized(g, x, x_scale if is_told else one, x_zero),
        dequantized(g, w, w_scale if is_told else one, 0, 1 if is_told and g.rank(w_scale) else None),
    ]
    if bias is not None:
        axis = 0 if g.rank(w_scale) else None
        operands.append(dequantized(g, bias, factor, 0, axis) if is_told else g.cast(bias, torch.float32))
    sums = g.op.ConvTranspose(
        *operands,
        strides=stride,
        pads=padding * 2,
        output_padding=output_padding,
        dilations=dilation,
        group=groups,
        kernel_shape=list(g.known_dims(w))[2:],
    )
    if is_told:
        return sums
    rank = len(stride)
    return g.op.Mul(sums, g.unsqueeze(factor, list(range(1, 1 + rank))) if g.rank(factor) else factor)
