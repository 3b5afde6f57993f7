"""Images read at computed places, as the runtime reads them."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from .functions import is_elsewhere, runtime_function

_MODES = {"bilinear": "linear", "nearest": "nearest", "bicubic": "cubic"}


def grid_sample(x: Tensor, grid: Tensor, mode: str, padding_mode: str, align_corners: bool) -> Tensor:
    """By the runtime's own kernel, which adds up neighbours in another order than torch's.

    GridSample(x, grid, mode, padding_mode, align_corners)        opset 20, or 16 with the modes' names of then
    """
    if is_elsewhere(x) or is_elsewhere(grid):
        return F.grid_sample(x, grid, mode, padding_mode, align_corners)
    how = {"mode": _MODES[mode], "padding_mode": padding_mode, "align_corners": int(align_corners)}
    return runtime_function("GridSample", 20, **how)(x, grid)


def affine_grid(theta: Tensor, size: Sequence[int], align_corners: bool) -> Tensor:
    """One product and one sum at a time, which are the same everywhere: torch has a product of matrices.

    Add(Mul(points, column), ...)
    """
    spatial = list(size[2:])
    ones = [1] * len(spatial)
    columns = [each.reshape(-1, *ones, len(spatial)) for each in theta.unbind(-1)]
    result = columns[-1]
    for axis, count in enumerate(reversed(spatial)):
        twice = 2 * torch.arange(count, device=theta.device, dtype=theta.dtype) - (count - 1)
        points = twice / (torch.sym_max(count - 1, 1) if align_corners else count)
        result = points.reshape(-1, *ones[: axis + 1]) * columns[axis] + result
    return result
