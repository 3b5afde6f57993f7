"""Convolutions in one to three dimensions, grouped and depthwise too.

    Conv(DequantizeLinear(x), DequantizeLinear(w, axis=0), DequantizeLinear(bias, sx*sw, axis=0)) -> QuantizeLinear
    -> QLinearConv

onnxruntime fuses these where x and y are uint8 (int8 is not fused on x86-64, nor are 16 bits), w is int8 or uint8 with
one scale or one for each output channel, and the bias is absent or int32 behind a DequantizeLinear of its own. What
Conv gives goes to its QuantizeLinear alone; without a QuantizeLinear it stays in float. The runtime looks at the bias's
type, not at its scale, which therefore has to be sx*sw.

The factor is float32(sx * sw) / sy for each channel. Exact on machines with VNNI or AMX; with AVX2 alone onnxruntime
adds pairs of u8*s8 products in saturating 16 bits, so weights need 7 bits there (reduce_range). Sums that leave int32,
which takes more than 65793 products of full size, go on from its other end in both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ...lower.emitter import Emitter, Value
from ..exact import sums
from ..exact.declare import GridValues, exact
from ..exact.integers import around_zero
from ..grids.grid import Grid
from ..run.handlers import WEIGHT_ONLY, handles
from ..run.session import QuantSession
from ..run.states import Product
from .product import compute, pair, with_stored_weight

_CONV = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}


@dataclass(frozen=True)
class Sliding:
    """How a kernel goes over an image; `pads` in ONNX's order, all beginnings and then all ends."""

    stride: list[int]
    pads: list[int]
    dilation: list[int]
    groups: int


@exact
def conv(x: Tensor, x_grid: Grid, w: Tensor, w_grid: Grid, bias: Tensor | None, at: Sliding) -> Tensor:
    """The sums of a convolution, as int32 has them; of sixteen bits, without a bias, next to exact in float32.

        Conv(high part of x, w) - Conv(-low part of x, w)       for sixteen bits, whole numbers in float

    ConvInteger of the two bytes of x where sums may reach 2**24.
    """
    weight, values = around_zero(w, w_grid), around_zero(x, x_grid)
    if bias is None and sums.can_be_split(x, x_grid, weight):
        high, low = sums.in_parts(values)
        return _conv(high, weight, None, at) - _conv(low, weight, None, at)
    total = _conv(values.to(sums.sum_type(x_grid, weight, bias)), weight, bias, at)
    return (total if sums.is_wide(x) else sums.in_int32(total)).to(torch.float32)


def _conv(x: Tensor, weight: Tensor, bias: Tensor | None, at: Sliding) -> Tensor:
    rank = x.dim() - 2
    x = F.pad(x, [each for axis in reversed(range(rank)) for each in (at.pads[axis], at.pads[rank + axis])])
    bias = None if bias is None else bias.to(x.dtype)
    return _CONV[rank](x, weight.to(x.dtype), bias, at.stride, 0, at.dilation, at.groups)


@conv.shape
def _(x: Tensor, x_grid: GridValues, w: Tensor, w_grid: GridValues, bias: Tensor | None, at: Sliding) -> Tensor:
    rank = len(at.stride)
    ends = [at.pads[axis] + at.pads[axis + rank] - at.dilation[axis] * (w.shape[axis + 2] - 1) for axis in range(rank)]
    sizes = [(x.shape[axis + 2] + ends[axis] - 1) // at.stride[axis] + 1 for axis in range(rank)]
    return x.new_empty([x.shape[0], w.shape[0], *sizes], dtype=torch.float32)


@conv.lowers()
def _(g: Emitter, x: Value, x_grid: GridValues, w: Value, w_grid: GridValues, bias: Value | None, at: Sliding) -> Value:
    kernel = list(g.known_dims(w))[2:]
    how = dict(strides=at.stride, pads=at.pads, dilations=at.dilation, group=at.groups, kernel_shape=kernel)
    if sums.are_wide(g, x):
        return _of_sixteen_bits(g, x, x_grid.zero_point, w, **how)
    return g.op.Conv(*sums.operands_of(g, x, x_grid, w, w_grid, bias), **how)


def _of_sixteen_bits(g: Emitter, x: Value, zero: int, w: Value, **how: Any) -> Value:
    """In float, whose kernels are faster than ConvInteger, where sums are small enough to be exact.

    onnxruntime 1.31 adds the result of a convolution to another one within its kernel, which rounds in between: that
    is why the second one is of the negative part, and subtracted."""
    known = g.value_of(w)
    if known is None or not sums.parts_fit(known):
        middle = g.const(128, torch.int32)
        unsigned = g.cast(g.op.Add(g.cast(w, torch.int32), middle), torch.uint8)
        offset = g.cast(middle, torch.uint8)
        parts = [g.op.ConvInteger(q, unsigned, point, offset, **how) for q, point in sums.bytes_of(g, x, zero)]
        return sums.joined_bytes(g, *parts, fit=False)
    c = sums.whole_numbers(g, x, zero)
    size = g.like(c, sums.PART)
    high = g.op.Mul(g.round(g.op.Mul(c, g.like(c, 1 / sums.PART))), size)
    weight = g.cast(g.const_kept(known), torch.float32)
    return g.op.Sub(g.op.Conv(high, weight, **how), g.op.Conv(g.op.Sub(high, c), weight, **how))


@handles(F.conv1d, F.conv2d, F.conv3d)
def convolution(
    session: QuantSession,
    func: Any,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Any:
    rank = weight.dim() - 2
    if input.dim() == rank + 1:
        options = (bias, stride, padding, dilation, groups)
        return session.composed(lambda: func(input.unsqueeze(0), weight, *options).squeeze(0))
    call = session.call("conv")
    x = session.settle(input, call.site("input"))
    dilations = pair(dilation, rank)
    at = Sliding(pair(stride, rank), _pads(padding, weight.shape[2:], dilations), dilations, groups)

    def in_float(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        result: Tensor = func(x, weight, bias, stride, padding, dilation, groups)
        return result

    def in_integers(x: Tensor, x_grid: Grid, w: Tensor, w_grid: Grid, bias: Tensor | None) -> Tensor:
        return conv(x, x_grid, w, w_grid, bias, at)

    return compute(session, call, Product(x, weight, bias, 0, -1 - rank, in_float, in_integers))


def _pads(padding: Any, kernel: Sequence[int], dilation: Sequence[int]) -> list[int]:
    """The padding at the beginning of every axis, then at the end; "same" puts the odd one at the end."""
    rank = len(kernel)
    if padding == "valid":
        return [0] * (2 * rank)
    if padding == "same":
        total = [step * (size - 1) for size, step in zip(kernel, dilation, strict=True)]
        return [each // 2 for each in total] + [each - each // 2 for each in total]
    return pair(padding, rank) * 2


@handles(F.conv1d, F.conv2d, F.conv3d, table=WEIGHT_ONLY)
def with_integer_weight(
    session: QuantSession, func: Any, input: Tensor, weight: Tensor, *args: Any, **kwargs: Any
) -> Any:
    """Activations stay in float, and the weight is stored as integers."""
    spec = session.call("conv").settings.weights
    return with_stored_weight(session, func, input, weight, args, kwargs, spec)
