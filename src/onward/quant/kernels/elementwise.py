"""Sums and products of two quantised tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from ..grids.grid import Grid, dtype_bounds
from ._fma import fma
from .basic import centred, dequantize, quantize


def add(a: Tensor, ga: Grid, b: Tensor, gb: Grid, gy: Grid) -> Tensor:
    """a + b, broadcast.

        Add(DequantizeLinear(a), DequantizeLinear(b)) -> QuantizeLinear     -> QLinearAdd (com.microsoft)

    Fused where all three are uint8 or all three int8, one scale each; either may be a constant.

    The runtime does not centre the integers: it folds both zero points into one float32 number and then adds the two
    scaled operands with fused multiply-adds, the second operand first. Where a single element of the first operand
    meets a row of the second, the operands change places.
    """
    if _changes_places(a.shape, b.shape):
        a, ga, b, gb = b, gb, a, ga
    low, high = dtype_bounds(ga.dtype)
    if max(a.numel(), b.numel()) <= (high - low + 1) ** 2:
        return _sum(a.to(torch.float32), ga, b.to(torch.float32), gb, gy)
    every = torch.arange(low, high + 1, dtype=torch.float32, device=a.device)  # fewer pairs than elements: a table
    return _sum(every[:, None], ga, every, gb, gy)[a.to(torch.int64) - low, b.to(torch.int64) - low]


def _sum(a: Tensor, ga: Grid, b: Tensor, gb: Grid, gy: Grid) -> Tensor:
    ratio_a, ratio_b = ga.scale / gy.scale, gb.scale / gy.scale
    zero = torch.tensor(float(ga.zero_point), device=a.device)
    fixed = gy.zero_point - fma(ratio_a, zero, ratio_b * gb.zero_point)
    return _bounded(fma(a, ratio_a, fma(b, ratio_b, fixed)), gy)


def _changes_places(a: torch.Size, b: torch.Size) -> bool:
    """Whether, in the runtime's innermost loop, the first operand stands still.

    The loop is over the innermost axis that both have and that is not 1 in both, or else the outermost both have.
    """
    common = min(len(a), len(b))
    if common == 0:
        return not a or a[-1] == 1
    pairs = [(a[-1 - each], b[-1 - each]) for each in range(common)]
    return next((pair for pair in pairs if max(pair) > 1), pairs[-1])[0] == 1


def mul(a: Tensor, ga: Grid, b: Tensor, gb: Grid, gy: Grid) -> Tensor:
    """a * b, broadcast.

        Mul(DequantizeLinear(a), DequantizeLinear(b)) -> QuantizeLinear     -> QLinearMul (com.microsoft)

    Fused under the conditions of `add`. The zero point is added before rounding: with an odd one, half to even
    rounds other ties up.
    """
    ratio = ga.scale * gb.scale / gy.scale
    return _bounded((centred(a, ga) * centred(b, gb)).to(torch.float32) * ratio + gy.zero_point, gy)


def _bounded(total: Tensor, grid: Grid) -> Tensor:
    """Float32 numbers that have the zero point in them already."""
    return total.round().clamp(grid.low, grid.high).to(torch.int32).to(grid.torch_dtype)


def through_float(
    function: Callable[..., Tensor], tensors: Sequence[Tensor], grids: Sequence[Grid], gy: Grid
) -> Tensor:
    """What has no integer kernel: float32 between DequantizeLinear and QuantizeLinear, and so it stays in the runtime.

        f(DequantizeLinear(a), ...) -> QuantizeLinear

    Exact where f is a single operation that IEEE 754 rounds: Sub, Div, Min, Max, Neg, Abs, and Add and Mul of 16 bit
    integers. Not for what sums (Conv, MatMul, ReduceMean, LayerNormalization): the order of a float32 sum is
    the runtime's own, and a result next to a tie ends one step off.
    """
    return quantize(function(*[dequantize(q, grid) for q, grid in zip(tensors, grids, strict=True)]), gy)
