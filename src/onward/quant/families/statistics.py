"""Norms of integers whose sums are exact: the same numbers in whatever order a runtime adds them up.

The mean and the mean square of integers are sums of whole numbers, which float64 has up to `2**53`. What is done with
the two, a few numbers for each row, is done in float64 as well and rounded to float32 at the end; every value is then
shifted and multiplied, one operation of IEEE 754 each.
"""

from __future__ import annotations

import torch
from torch import Tensor

from .. import ops
from ..grids.grid import Grid


def normalised(q: Tensor, grid: Grid, axes: list[int], epsilon: float, *, centre: bool = True) -> Tensor:
    """(x - mean) / sqrt(variance + epsilon) over some axes; without `centre`, x / sqrt(mean square + epsilon)."""
    whole = ops.centred(q, grid)
    wide = whole.to(torch.float64)
    scale = float(grid.scale)
    square = torch.mean(wide * wide, axes, keepdim=True)
    if centre:
        mean = torch.mean(wide, axes, keepdim=True)
        square = torch.clamp(square - mean * mean, min=0.0)
        whole = whole - mean.to(torch.float32)
    return whole * (scale / torch.sqrt(square * scale**2 + epsilon)).to(torch.float32)


def scaled(y: Tensor, weight: Tensor | None, bias: Tensor | None, behind: int = 0) -> Tensor:
    """y * weight + bias, which have one number for each index of an axis that has so many `behind` it, or of the last
    axes."""
    if weight is not None:
        y = y * weight.reshape([*weight.shape, *[1] * behind])
    return y if bias is None else y + bias.reshape([*bias.shape, *[1] * behind])
