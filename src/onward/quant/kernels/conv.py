"""Convolutions: exact sums of integers, then one float32 multiplication."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from ..grids.grid import Grid
from .basic import centred, in_int32, requantize, sum_type
from .parts import in_parts, is_wide, parts_fit

_CONV = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}


def conv(
    x: Tensor,
    gx: Grid,
    w: Tensor,
    gw: Grid,
    bias: Tensor | None,
    gy: Grid,
    stride: Sequence[int] = (),
    padding: Sequence[int] = (),
    dilation: Sequence[int] = (),
    groups: int = 1,
) -> Tensor:
    """A convolution in one to three dimensions, grouped and depthwise too; x is (batch, channels, ...).

        Conv(DequantizeLinear(x), DequantizeLinear(w, axis=0), DequantizeLinear(bias, sx*sw, axis=0)) -> QuantizeLinear
        -> QLinearConv

    Fused where x and y are uint8 (int8 is not fused on x86-64, nor 16 bit), w is int8 or uint8 with one scale or one
    for each output channel, and the bias is absent or int32 behind a DequantizeLinear of its own. What Conv gives goes
    to its QuantizeLinear alone; without a QuantizeLinear it stays in float. The runtime looks at the bias's type,
    not at its scale, which therefore has to be sx*sw.

    The factor is float32(sx * sw) / sy for each channel. Exact on machines with VNNI or AMX; with AVX2 alone
    onnxruntime adds pairs of u8*s8 products in saturating 16 bit, so weights need 7 bits there (reduce_range).
    Sums that leave int32, which takes more than 65793 products of full size, go on from its other end in both.

    padding is one number for each dimension, or twice as many in ONNX's order (all beginnings, then all ends).
    """
    total = conv_sums(x, gx, w, gw, bias, stride, padding, dilation, groups)
    return requantize(total, _factor(gx, gw, gy, x.dim()), gy)


def conv_sums(
    x: Tensor,
    gx: Grid,
    w: Tensor,
    gw: Grid,
    bias: Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> Tensor:
    """The sums alone, as int32 has them, in float32 or float64; of sixteen bits, without a bias, next to exact in
    float32.

        Conv(high part of x, w) - Conv(-low part of x, w)       for sixteen bits, whole numbers in float

    ConvInteger of the two bytes of x where sums may reach 2**24.
    """
    weight = centred(w, gw)
    how = (stride, padding, dilation, groups)
    if is_wide(x) and bias is None and sum_type(gx, weight, None, parts_fit(weight)) is torch.float32:
        high, low = in_parts(centred(x, gx))
        return _conv(high, weight, None, *how) - _conv(low, weight, None, *how)
    total = _conv(centred(x, gx).to(sum_type(gx, weight, bias)), weight, bias, *how)
    return total if is_wide(x) else in_int32(total)


def _conv(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> Tensor:
    rank = x.dim() - 2
    if len(padding) == 2 * rank:
        x = F.pad(x, [each for axis in reversed(range(rank)) for each in (padding[axis], padding[rank + axis])])
        padding = ()
    return _CONV[rank](
        x,
        weight.to(x.dtype),
        None if bias is None else bias.to(x.dtype),
        list(stride) or 1,
        list(padding) or 0,
        list(dilation) or 1,
        groups,
    )


def _factor(gx: Grid, gw: Grid, gy: Grid, rank: int) -> Tensor:
    """float32 in this order, for each output channel."""
    factor = gx.scale * gw.scale / gy.scale
    return factor.reshape(-1, *[1] * (rank - 2)) if factor.dim() else factor
