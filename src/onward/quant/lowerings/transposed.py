"""Transposed convolutions as they are: see ops/transposed.py."""

from __future__ import annotations

import math

import torch

from ...lower import lowers
from ...lower.bridge import as_dim
from ...lower.emitter import Emitter, Value
from ..kernels.transposed import Phases, as_convolution, phases, turned
from .core import ROUNDING_IS_TOLD, dequantized
from .half_up import integer_sums, values_of_sums

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

    For a chip the values are multiplied, which it knows how to do in integers. A runtime adds up integers too, in one
    convolution of all phases of the result. Of 16 bits it computes in float, and gets whole numbers, whose sums are
    exact up to 2**24."""
    factor = g.op.Mul(x_scale, w_scale)
    is_told = ROUNDING_IS_TOLD.get()
    weight = g.value_of(w)
    if not is_told and weight is not None and g.dtype(x) is torch.uint8:
        plan = phases(weight.shape[2:], stride, padding, output_padding, dilation)
        kernel = as_convolution(turned(weight, groups), plan.taps, stride, dilation, groups)
        return values_of_sums(g, _of_phases(g, x, x_zero, kernel, plan, stride, groups), bias, factor)
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


def _of_phases(
    g: Emitter, x: Value, x_zero: int, kernel: torch.Tensor, plan: Phases, stride: list[int], groups: int
) -> Value:
    """The sums of all phases, side by side in space and without the crops: `kernels.transposed.weave` in nodes."""
    rank, count = len(stride), math.prod(stride)
    batch, _, *sizes = (g.dim_size(x, axis) for axis in range(2 + rank))
    pads = zip(plan.pads[:rank], plan.pads[rank:], plan.taps, strict=True)
    sizes = [size + begin + end - taps + 1 for size, (begin, end, taps) in zip(sizes, pads, strict=True)]
    channels = kernel.shape[0] // count
    dims = [as_dim(each) for each in (batch, kernel.shape[0], *sizes)]
    sums = integer_sums(g, x, g.const(x_zero, torch.uint8), kernel, dims, pads=plan.pads, group=groups)
    if count > 1:
        sums = g.reshape(sums, [batch, groups, *stride, channels // groups, *sizes])
        order = [each for axis in range(rank) for each in (3 + rank + axis, 2 + axis)]
        sums = g.op.Transpose(sums, perm=[0, 1, 2 + rank, *order])
        sums = g.reshape(sums, [batch, channels, *(size * step for size, step in zip(sizes, stride, strict=True))])
    if not any(plan.crops):
        return sums
    ends = [-last or 2**31 - 1 for last in plan.crops[rank:]]
    return g.slice(sums, plan.crops[:rank], ends, list(range(2, 2 + rank)))
