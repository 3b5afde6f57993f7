"""Images made larger or smaller: the nearest pixel is one of the integers, anything between is a new value."""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F
from torch import Tensor

from .. import ops
from ..grid import Grid
from ..session import Session
from .pooling import for_exact_sums
from .registry import handles
from .shape import moved


@handles(F.interpolate, F.upsample, F.upsample_nearest, F.upsample_bilinear)
def interpolate(
    session: Session,
    func: Any,
    input: Tensor,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Any:
    """What lies between pixels is computed from whole numbers: with factors such as 2 nothing of it is rounded, and
    the runtime's result is the same whatever its order."""
    if func is F.upsample_bilinear:
        mode, align_corners = "bilinear", True
    if func is F.upsample_nearest:
        mode = "nearest"

    def resized(x: Tensor) -> Tensor:
        return F.interpolate(x, size, scale_factor, mode, align_corners, recompute_scale_factor, antialias)

    if mode.startswith("nearest"):
        return moved(session, input, resized)
    if not session.has_grid(input):
        return NotImplemented
    call = session.call("interpolate")
    x = session.settle(input)
    found = session.integers(x)
    if found is None:
        return session.wait(resized(x), call)
    q, x_grid = found

    def requantise(grid: Grid) -> Tensor:
        numbers, onto = for_exact_sums(session, q, x_grid, grid)
        return ops.quantize(resized(numbers), onto, call.settings.rounding)

    return session.wait(resized(x), call, requantise)
