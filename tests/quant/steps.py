"""Exact steps of evaluation put together as evaluation does it: sums of products, and then their grid."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from onward.quant import Grid
from onward.quant.exact.sums import requantize, rescale
from onward.quant.families import convolution
from onward.quant.families import linear as products


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
    """A convolution; `padding` is one number for each axis, or twice as many in ONNX's order."""
    rank = x.dim() - 2
    pads = [*padding] if len(padding) == 2 * rank else [*(padding or [0] * rank)] * 2
    at = convolution.Sliding([*(stride or [1] * rank)], pads, [*(dilation or [1] * rank)], groups)
    sums = convolution.conv(x, gx, w, gw, bias, at)
    return requantize(sums, gx, gw, None if gw.axis is None else -1 - rank, gy, "half_even")


def linear(x: Tensor, gx: Grid, w: Tensor, gw: Grid, bias: Tensor | None, gy: Grid | None) -> Tensor:
    """x @ w.T + bias. float32 where there is no gy."""
    return _finished(products.linear(x, gx, w, gw, bias), gx, gw, None if gw.axis is None else -1, gy)


def matmul(a: Tensor, ga: Grid, b: Tensor, gb: Grid, gy: Grid | None) -> Tensor:
    """a @ b of two activations. float32 where there is no gy."""
    return _finished(products.matmul(a, ga, b, gb), ga, gb, None, gy)


def _finished(sums: Tensor, gx: Grid, gw: Grid, axis: int | None, gy: Grid | None) -> Tensor:
    return rescale(sums, gx, gw, axis) if gy is None else requantize(sums, gx, gw, axis, gy, "half_even")
