"""Convolutions."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from .. import ops
from ..product import Product, compute, pair
from ..session import Session
from .registry import handles


@handles(F.conv1d, F.conv2d, F.conv3d)
def conv(
    session: Session,
    func: Any,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Any:
    call = session.call("conv")
    x = session.settle(input, call.site("input"))
    rank = weight.dim() - 2
    strides, dilations = pair(stride, rank), pair(dilation, rank)
    pads = _pads(padding, weight.shape[2:], dilations)

    def in_float(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        result: Tensor = func(x, weight, bias, stride, padding, dilation, groups)
        return result

    in_integers = functools.partial(_sums, stride=strides, pads=pads, dilation=dilations, groups=groups)
    product = Product(x, weight, bias, 0, -1 - rank, in_float, in_integers if x.dim() == rank + 2 else None)
    return compute(session, call, product)


def _sums(x: Tensor, x_grid: Any, w: Tensor, w_grid: Any, bias: Tensor | None, **how: Any) -> Tensor:
    return ops.conv(x, x_grid, w, w_grid, bias, **how)


def _pads(padding: Any, kernel: Sequence[int], dilation: Sequence[int]) -> list[int]:
    """Those at the beginning of every axis, then those at the end; "same" puts the odd one at the end."""
    rank = len(kernel)
    if padding == "valid":
        return [0] * (2 * rank)
    if padding == "same":
        total = [step * (size - 1) for size, step in zip(kernel, dilation, strict=True)]
        return [each // 2 for each in total] + [each - each // 2 for each in total]
    return pair(padding, rank) * 2


@handles(F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)
def conv_transpose(
    session: Session,
    func: Any,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Any:
    call = session.call("conv_transpose")
    x = session.settle(input, call.site("input"))

    def in_float(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        result: Tensor = func(x, weight, bias, stride, padding, output_padding, groups, dilation)
        return result

    if groups > 1:  # the axis of output channels is spread over the groups: one scale for all
        call = call.with_weights(per_channel=False)
    rank = weight.dim() - 2
    return compute(session, call, Product(x, weight, bias, 1, -1 - rank, in_float, exact=_unscaled(in_float, rank)))


def _unscaled(in_float: Any, rank: int) -> Any:
    """onnxruntime has no integer kernel: floats that are whole numbers are summed exactly up to 2**24."""

    def run(x: Tensor, x_grid: Any, w: Tensor, w_grid: Any, bias: Tensor | None) -> Tensor:
        sums = in_float(ops.centred(x, x_grid), ops.centred(w, w_grid), None if bias is None else bias.float())
        scale = x_grid.scale * w_grid.scale
        return torch.mul(sums, scale.reshape(-1, *[1] * rank) if scale.dim() else scale)

    return run
