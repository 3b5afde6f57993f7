"""Convolutions."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch.nn.functional as F
from torch import Tensor

from .. import ops
from ..grids.grid import Grid
from ..kernels import transposed
from ..run.handlers import handles
from ..run.overflow import IN_FLOAT32, warn_of_overflow
from ..run.session import Session
from .product import Product, compute, pair


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
    rank = weight.dim() - 2
    if input.dim() == rank + 1:
        options = (bias, stride, padding, dilation, groups)
        return session.composed(lambda: func(input.unsqueeze(0), weight, *options).squeeze(0))
    call = session.call("conv")
    x = session.settle(input, call.site("input"))
    strides, dilations = pair(stride, rank), pair(dilation, rank)
    pads = _pads(padding, weight.shape[2:], dilations)

    def in_float(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        result: Tensor = func(x, weight, bias, stride, padding, dilation, groups)
        return result

    in_integers = functools.partial(_sums, stride=strides, pads=pads, dilation=dilations, groups=groups)
    product = Product(x, weight, bias, 0, -1 - rank, in_float, in_integers)
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
    """onnxruntime has no integer kernel for it, but one for the convolution that computes all phases of its result."""
    rank = weight.dim() - 2
    if input.dim() == rank + 1:
        options = (bias, stride, padding, output_padding, groups, dilation)
        return session.composed(lambda: func(input.unsqueeze(0), weight, *options).squeeze(0))
    call = session.call("conv_transpose")
    if session.for_a_chip and groups > 1:  # it has one scale, and no place for those of the channels of several groups
        call = call.with_weights(per_channel=False)
    x = session.settle(input, call.site("input"))
    steps, pads, more, dilations = (pair(each, rank) for each in (stride, padding, output_padding, dilation))

    def in_float(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        weight = transposed.turned(weight, groups)
        result: Tensor = func(x, weight, bias, stride, padding, output_padding, groups, dilation)
        return result

    def in_whole_numbers(x: Tensor, x_grid: Grid, w: Tensor, w_grid: Grid, bias: Tensor | None) -> Tensor:
        w = transposed.turned(w, groups)
        return ops.conv_transpose(x, x_grid, w, w_grid, bias, steps, pads, more, dilations, groups)

    def exact(x: Tensor, x_grid: Grid, w: Tensor, w_grid: Grid, bias: Tensor | None) -> Tensor:
        warn_of_overflow(session, call, x_grid, w, bias, IN_FLOAT32)
        sums = in_whole_numbers(x, x_grid, w, w_grid, bias)
        return ops.rescale(sums, x_grid, w_grid, -1 - rank if w_grid.per_channel else None)

    product = Product(x, transposed.turned(weight, groups), bias, 0, -1 - rank, in_float, exact=exact)
    if session.for_a_chip:
        return compute(session, call, replace(product, in_integers=in_whole_numbers))
    plan = transposed.phases(weight.shape[2:], steps, pads, more, dilations)

    def in_integers(x: Tensor, x_grid: Grid, w: Tensor, w_grid: Grid, bias: Tensor | None) -> Tensor:
        kernel, ones = transposed.as_convolution(w, plan.taps, steps, dilations, groups), [1] * rank
        return ops.conv(x, x_grid, kernel, w_grid, bias, ones, plan.pads, ones, groups)

    spread = functools.partial(transposed.spread, phases=math.prod(steps), groups=groups)
    woven = functools.partial(transposed.weave, stride=steps, crops=plan.crops, groups=groups)
    return compute(session, call, replace(product, in_integers=in_integers, spread=spread, woven=woven))
