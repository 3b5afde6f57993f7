"""Weights that float arithmetic uses: stored as integers, with what makes numbers of them behind."""

from __future__ import annotations

import torch
from torch import Tensor

from .. import kernels
from ..grid import Grid
from .core import define


def _stored(q: Tensor, scale: Tensor, zero: int, dtype: str, axis: int | None, near: Tensor) -> Tensor:
    return kernels.dequantize(q, Grid(scale, zero, dtype, axis=axis))


define(
    "stored(Tensor q, Tensor scale, int zero_point, str dtype, int? axis, Tensor near) -> Tensor",
    _stored,
    lambda q, *_: torch.empty_like(q, dtype=torch.float32),
)


def stored(q: Tensor, grid: Grid, near: Tensor) -> Tensor:
    """The values of a weight that float arithmetic uses, stored as integers with a DequantizeLinear behind them.

    `dequantize` of a constant is a constant, and floats would be stored. `near`, an activation, makes this a step of
    the program. (Floats between DequantizeLinear and QuantizeLinear also are what onnxruntime 1.31 makes integers of on
    its own account, with one scale for all.)"""
    result: Tensor = torch.ops.onward.stored(q, grid.scale, grid.zero_point, grid.dtype, grid.axis, near)
    return result
