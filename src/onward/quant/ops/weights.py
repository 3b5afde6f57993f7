"""Weights that float arithmetic uses: stored as integers, with what makes numbers of them behind."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from .. import kernels
from ..grids.grid import Grid
from .core import define


def _stored(q: Tensor, scale: Tensor, zero: int, dtype: str, axis: int | None, near: Tensor) -> Tensor:
    return kernels.dequantize(q, Grid(scale, zero, dtype, axis=axis))


define(
    "stored(Tensor q, Tensor scale, int zero_point, str dtype, int? axis, Tensor near) -> Tensor",
    _stored,
    lambda q, *_: torch.empty_like(q, dtype=torch.float32),
)


def stored(q: Tensor, grid: Grid, near: Tensor) -> Tensor:
    """The values of a weight that float arithmetic uses, stored as integers with a Cast and a Mul behind them.

    `dequantize` of a constant is a constant, and floats would be stored. `near`, an activation, makes this a step of
    the program. It must not be multiplied with what comes from a DequantizeLinear (`Session.apart`): onnxruntime 1.31
    would make integers of it on its own account, with one scale for all."""
    result: Tensor = torch.ops.onward.stored(q, grid.scale, grid.zero_point, grid.dtype, grid.axis, near)
    return result


def _linear_blocks(x: Tensor, q: Tensor, scale: Tensor, bits: int, block: int) -> Tensor:
    """As MatMulNBits computes it at accuracy level 4, its level behind DequantizeLinear: every block of a row of x is
    rounded to 8 bits of its own, whole numbers are multiplied and summed, and blocks are added in float."""
    short = -x.shape[-1] % block
    rows = functional.pad(x.reshape(-1, x.shape[-1]), (0, short)).unflatten(1, (-1, block))
    weights = functional.pad(q.to(torch.float32), (0, short)).unflatten(1, (-1, block))
    largest = rows.abs().amax(-1, keepdim=True)
    steps = torch.round(rows * torch.where(largest > 0, 127 / largest, 0))
    factors = largest / 127
    y = x.new_zeros(rows.shape[0], q.shape[0])
    for each in range(rows.shape[1]):
        sums = steps[:, each] @ weights[:, each].T  # below 2**24, so exact
        y += sums * (factors[:, each] * scale[:, each])
    return y.reshape(*x.shape[:-1], q.shape[0])


define(
    "linear_blocks(Tensor x, Tensor q, Tensor scale, int bits, int block) -> Tensor",
    _linear_blocks,
    lambda x, q, *_: x.new_empty([*x.shape[:-1], q.shape[0]]),
)


def linear_blocks(x: Tensor, q: Tensor, scale: Tensor, bits: int, block: int) -> Tensor:
    """x @ w.T of floats with a weight in blocks: `q` is [outputs, inputs], `scale` [outputs, blocks of inputs]."""
    result: Tensor = torch.ops.onward.linear_blocks(x, q, scale, bits, block)
    return result
