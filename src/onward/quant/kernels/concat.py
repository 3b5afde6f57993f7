"""Tensors side by side, and one or the other: each is brought to the grid of the result."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ..grids.grid import Grid
from .basic import clip, dequantize, quantize


def regrid(q: Tensor, grid: Grid, target: Grid) -> Tensor:
    """The same numbers on another grid.

        LeakyRelu(DequantizeLinear(q), alpha=1) -> QuantizeLinear      -> QLinearLeakyRelu (com.microsoft): a table

    A bare DequantizeLinear -> QuantizeLinear will not do: behind another QuantizeLinear and before another
    DequantizeLinear of the same type onnxruntime merges the two pairs into one with a scale and a zero point of its own
    making, and a third of the results move by a step. Where both grids are the same, no node: the integers are left
    alone, and bounded.
    """
    return clip(q, target) if grid.same_as(target) else quantize(dequantize(q, grid), target)


def concat(tensors: Sequence[Tensor], grids: Sequence[Grid], gy: Grid, axis: int) -> Tensor:
    """torch.cat.

        Concat(DequantizeLinear(x), ...) -> QuantizeLinear      -> QLinearConcat (com.microsoft)
        Concat(x, ...)                                          on the integers, where all have the grid of y

    Fused where all are uint8 or all int8.
    """
    return torch.cat([regrid(q, grid, gy) for q, grid in zip(tensors, grids, strict=True)], axis)


def where(condition: Tensor, a: Tensor, ga: Grid, b: Tensor, gb: Grid, gy: Grid) -> Tensor:
    """torch.where.

        Where(condition, DequantizeLinear(a), DequantizeLinear(b)) -> QuantizeLinear    -> QLinearWhere (com.microsoft)
        Where(condition, a, b)                                  on the integers, where both have the grid of y

    Fused where all three are uint8 or all three int8.
    """
    return torch.where(condition, regrid(a, ga, gy), regrid(b, gb, gy))
