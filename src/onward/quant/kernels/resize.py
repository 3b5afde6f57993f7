"""Images in other sizes."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ..grid import Grid
from .basic import dequantize, quantize


def resize_bilinear(
    x: Tensor, gx: Grid, size: Sequence[int], gy: Grid, align_corners: bool = False, scales: Sequence[float] = ()
) -> Tensor:
    """interpolate(mode="bilinear") of (batch, channels, height, width) without antialiasing.

        Resize(DequantizeLinear(x), mode="linear", half_pixel or align_corners) -> QuantizeLinear

    Stays in float between the two, also where both grids are one. The runtime weighs the four neighbours with float32
    products that it sums from left to right; torch interpolates one axis after the other, and where the factor is 2
    and the grids are one, every fourth sum is near a tie and one in a hundred results differs from torch's by a step.
    scales are Resize's own, where it has scales and not sizes.

    Nearest neighbours need no kernel: Resize on the integers (opset 10; uint8 and int8) copies them.
    """
    height, width = x.shape[2:]
    scales = list(scales) or [size[0] / height, size[1] / width]
    above, below, down_above, down_below = _neighbours(height, size[0], scales[0], align_corners, x.device)
    left, right, to_left, to_right = _neighbours(width, size[1], scales[1], align_corners, x.device)
    values = dequantize(x, gx)
    upper, lower = values[:, :, above], values[:, :, below]
    near, far = down_below[:, None], down_above[:, None]  # the nearer a row is, the more the other's distance weighs
    total = (to_right * near) * upper[..., left]
    total = total + (to_left * near) * upper[..., right]
    total = total + (to_right * far) * lower[..., left]
    total = total + (to_left * far) * lower[..., right]
    return quantize(total, gy)


def _neighbours(
    size: int, result: int, scale: float, align_corners: bool, device: torch.device
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """For each index of the result the two indices of the image around it, and its float32 distances from them."""
    index = torch.arange(result, dtype=torch.float32, device=device)
    factor = torch.tensor(scale, dtype=torch.float32)
    if float(factor) == 1:
        place = index
    elif align_corners:
        place = torch.zeros_like(index) if result == 1 else index * float(size - 1) / float(result - 1)
    else:
        place = (index + 0.5) / factor - 0.5
    place = place.clamp(0, size - 1)
    first = place.to(torch.int64)
    second = (first + 1).clamp(max=size - 1)
    edge = first == second
    before, after = (place - first).abs(), (place - second).abs()
    return first, second, torch.where(edge, 0.5, before), torch.where(edge, 0.5, after)
