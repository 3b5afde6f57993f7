"""Transposed convolutions as they are, for what runs no convolution of their phases: linger's chips, and 16 bits."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from .. import kernels
from ..grids.grid import Grid
from .core import define, grid_of


def _conv_transpose(
    x: Tensor,
    x_scale: Tensor,
    x_zero: int,
    w: Tensor,
    w_scale: Tensor,
    bias: Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    output_padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> Tensor:
    grid = grid_of(x, x_scale, x_zero)
    how = (stride, padding, output_padding, dilation, groups)
    return kernels.conv_transpose_sums(x, grid, w, 0, bias, *how).to(torch.float32)


def _conv_transpose_fake(
    x: Tensor,
    x_scale: Tensor,
    x_zero: int,
    w: Tensor,
    w_scale: Tensor,
    bias: Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    output_padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> Tensor:
    rows = zip(x.shape[2:], w.shape[2:], stride, padding, output_padding, dilation, strict=True)
    sizes = [(n - 1) * s - 2 * p + d * (k - 1) + o + 1 for n, k, s, p, o, d in rows]
    return x.new_empty([x.shape[0], w.shape[1] * groups, *sizes], dtype=torch.float32)


define(
    "conv_transpose(Tensor x, Tensor x_scale, int x_zero_point, Tensor w, Tensor w_scale, Tensor? bias, int[] stride, "
    "int[] padding, int[] output_padding, int[] dilation, int groups) -> Tensor",
    _conv_transpose,
    _conv_transpose_fake,
)


def conv_transpose(
    x: Tensor,
    x_grid: Grid,
    w: Tensor,
    w_grid: Grid,
    bias: Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    output_padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> Tensor:
    """The sums; w is (in, out / groups, ...) and has one scale, or one for every output channel of all groups."""
    how = ([*stride], [*padding], [*output_padding], [*dilation], groups)
    result: Tensor = torch.ops.onward.conv_transpose(x, x_grid.scale, x_grid.zero_point, w, w_grid.scale, bias, *how)
    return result
