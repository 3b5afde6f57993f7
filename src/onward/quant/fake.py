"""Rounding to a grid in training: values as evaluation will have them, gradients as if nothing had happened."""

from __future__ import annotations

import torch
from torch import Tensor

from . import kernels
from .config import Activations, Weights
from .grid import Grid, grid_from_range, weight_grid
from .ranges import weight_range


def fake_quantize(x: Tensor, low: Tensor, high: Tensor, spec: Activations, *, rounding: str = "half_even") -> Tensor:
    """The values of x on the grid of a range. Gradients pass where x is inside of it."""
    grid = grid_from_range(low.detach(), high.detach(), spec)
    return _straight_through(x, grid)


def fake_quantize_weight(weight: Tensor, spec: Weights, *, axis: int = 0) -> Tensor:
    """The values of a weight on its grid."""
    grid = weight_grid(weight_range(weight.detach(), spec, axis), spec, axis)
    return _straight_through(weight, grid)


def _straight_through(x: Tensor, grid: Grid) -> Tensor:
    first, last = (
        torch.tensor(end - grid.zero_point, dtype=torch.float32) * grid.scale_for(x.dim())
        for end in (grid.low, grid.high)
    )
    inside = torch.clamp(x, first, last)
    with torch.no_grad():
        step = kernels.dequantize(kernels.quantize(x, grid), grid) - inside
    return inside + step
