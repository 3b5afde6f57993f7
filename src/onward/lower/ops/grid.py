"""Sampling at computed places."""

from __future__ import annotations

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
