"""Sampling at computed places."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ..emitter import Emitter, Value
from ..registry import lowers

aten = torch.ops.aten

_MODES = ("linear", "nearest", "cubic")
_OLD_MODES = ("bilinear", "nearest", "bicubic")  # opsets 16 to 19
_PADDING = ("zeros", "border", "reflection")


@lowers(aten.grid_sampler.default, aten.grid_sampler_2d.default, since=16)
def grid_sampler(g: Emitter, x: Value, grid: Value, mode: int, padding: int, align_corners: bool) -> Value:
    """grid_sampler(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners)
    -> Tensor"""
    if g.rank(x) > 4 and g.opset < 20:
        raise g.needs_opset(20)
    names = _MODES if g.opset >= 20 else _OLD_MODES
    return g.op.GridSample(x, grid, mode=names[mode], padding_mode=_PADDING[padding], align_corners=align_corners)


@lowers(aten.grid_sampler_3d.default, since=20)
def grid_sampler_3d(g: Emitter, x: Value, grid: Value, mode: int, padding: int, align_corners: bool) -> Value:
    """grid_sampler_3d(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners)
    -> Tensor"""
    return grid_sampler(g, x, grid, mode, padding, align_corners)


@lowers(aten.affine_grid_generator.default)
def affine_grid_generator(g: Emitter, theta: Value, size: Sequence[Any], align_corners: bool) -> Value:
    """affine_grid_generator(Tensor theta, SymInt[] size, bool align_corners) -> Tensor

    Each place of the grid is a point of the cube from -1 to 1, and theta [N, d, d + 1] maps it: one product per
    coordinate, the last axis of the grid first in theta, and the last column is added.
    """
    dtype, spatial = g.dtype(theta), list(size[2:])
    rank = len(spatial) + 2
    columns = g.split(g.op.Transpose(theta, perm=[0, 2, 1]), [1] * (len(spatial) + 1), 1)  # each [N, 1, d]
    columns = [g.unsqueeze(column, range(1, rank - 2)) for column in columns]
    result = columns[-1]
    for axis, (column, count) in enumerate(zip(columns, reversed(spatial), strict=False), start=1):
        points = g.unsqueeze(_points(g, count, align_corners, dtype), range(1, axis + 1))
        result = g.op.Add(g.op.Mul(points, column), result)
    return g.annotate(result, g.out.shape)


def _points(g: Emitter, count: Any, align_corners: bool, dtype: torch.dtype) -> Value:
    """So many points from -1 to 1: from end to end, or in the middles of equal parts. A single one lies at 0."""
    numbers, total = g.arange(0, count, dtype=dtype), g.cast(g.size(count), dtype)
    one = g.const(1.0, dtype)
    twice = g.op.Sub(g.op.Add(numbers, numbers), g.op.Sub(total, one))  # 1 - n, 3 - n .. n - 1
    return g.op.Div(twice, g.max(g.op.Sub(total, one), one) if align_corners else total)
