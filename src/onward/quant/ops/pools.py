"""Averages over windows and over whole images, by the runtime's integer kernels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from .. import kernels
from ..grids.grid import Grid
from .core import GRID, define, fields


def _average_pool(
    x: Tensor,
    x_scale: Tensor,
    x_zero: int,
    scale: Tensor,
    zero: int,
    dtype: str,
    low: int,
    high: int,
    axis: int | None,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    ceil_mode: bool,
    counted: bool,
) -> Tensor:
    grids = Grid(x_scale, x_zero, dtype), Grid(scale, zero, dtype, low, high, axis)
    return kernels.average_pool(x, grids[0], kernel, grids[1], stride, padding, ceil_mode, counted)


def _average_pool_fake(x: Tensor, x_scale: Tensor, *rest: Any) -> Tensor:
    kernel, stride, padding, ceil_mode, counted = rest[-5:]
    pool = (F.avg_pool1d, F.avg_pool2d, F.avg_pool3d)[len(kernel) - 1]
    return pool(x.to(torch.float32), kernel, stride, padding, ceil_mode, counted).to(x.dtype)


def _global(
    x: Tensor, x_scale: Tensor, x_zero: int, scale: Tensor, zero: int, dtype: str, low: int, high: int, axis: int | None
) -> Tensor:
    return kernels.global_average_pool(x, Grid(x_scale, x_zero, dtype), Grid(scale, zero, dtype, low, high, axis))


define(
    f"average_pool(Tensor x, Tensor x_scale, int x_zero_point, {GRID.format('')}, int[] kernel, int[] stride, "
    "int[] padding, bool ceil_mode, bool counted) -> Tensor",
    _average_pool,
    _average_pool_fake,
)
define(
    f"global_average_pool(Tensor x, Tensor x_scale, int x_zero_point, {GRID.format('')}) -> Tensor",
    _global,
    lambda x, *_: x.new_empty([*x.shape[:2], *[1] * (x.dim() - 2)]),
)


def average_pool(
    x: Tensor,
    x_grid: Grid,
    grid: Grid,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    ceil_mode: bool,
    counted: bool,
) -> Tensor:
    """The averages of windows on another grid of the same type; `counted` says whether padding counts."""
    result: Tensor = torch.ops.onward.average_pool(
        x, x_grid.scale, x_grid.zero_point, *fields(grid), list(kernel), list(stride), list(padding), ceil_mode, counted
    )
    return result


def global_average_pool(x: Tensor, x_grid: Grid, grid: Grid) -> Tensor:
    """The averages of whole images, whose axes stay as 1."""
    result: Tensor = torch.ops.onward.global_average_pool(x, x_grid.scale, x_grid.zero_point, *fields(grid))
    return result
