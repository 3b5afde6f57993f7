"""Sequences, images and volumes in other sizes."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ..grids.grid import Grid
from .basic import dequantize, quantize
from .functions import is_elsewhere, runtime_function


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
    return quantize(
        resize_linear(dequantize(x, gx), size, list(scales) or [size[0] / height, size[1] / width], align_corners), gy
    )


def resize_linear(values: Tensor, size: Sequence[int], scales: Sequence[float], align_corners: bool = False) -> Tensor:
    """The float part of it, for one to three axes. Of sequences the runtime makes volumes, whose depth and height are
    the batch and the channels: the last of these it takes twice, by a half."""
    if values.dim() == 3:
        whole, factors = [*values.shape[:2], *size], [1.0, 1.0, *scales]
        return resize_linear(values[None, None], whole, factors, align_corners)[0, 0]
    lengths, rank = values.shape[2:], len(size)
    found = [_neighbours(lengths[axis], size[axis], scales[axis], align_corners, values.device) for axis in range(rank)]
    total: Tensor | None = None
    for corner in itertools.product((0, 1), repeat=rank):
        part, weight = values, torch.ones((), device=values.device)
        for axis in reversed(range(rank)):  # weights of rows come first
            first, second, before, after = found[axis]
            # the nearer a row is, the more the other's distance weighs
            place, share = (second, before) if corner[axis] else (first, after)
            part = part.index_select(2 + axis, place)
            weight = weight * share.reshape(-1, *[1] * (rank - 1 - axis))
        total = part * weight if total is None else total + part * weight
    assert total is not None
    return total


def resize_antialiased(values: Tensor, size: Sequence[int], scales: Sequence[float] | None, cubic: bool) -> Tensor:
    """interpolate(antialias=True) of images, by the runtime's own kernel: with scales where the file has them.

    Resize(x, None, scales, sizes, antialias=1, exclude_outside=1)        opset 18
    """
    if is_elsewhere(values):
        given: dict[str, Any] = {"size": list(size)} if scales is None else {"scale_factor": list(scales)}
        return F.interpolate(values, mode="bicubic" if cubic else "bilinear", antialias=True, **given)
    how: dict[str, Any] = {"mode": "cubic", "cubic_coeff_a": -0.5} if cubic else {"mode": "linear"}
    resize = runtime_function("Resize", 18, antialias=1, exclude_outside=1, **how)
    if scales is not None:
        return resize(values, None, torch.tensor([1.0, 1.0, *scales]))
    return resize(values, None, None, torch.tensor([*values.shape[:2], *size]))


def _neighbours(
    size: int, result: int, scale: float, align_corners: bool, device: torch.device
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """For each index of the result the two indices of the image around it, and its float32 distances from them."""
    place = _places(size, result, scale, align_corners, device).clamp(0, size - 1)
    first = place.to(torch.int64)
    second = (first + 1).clamp(max=size - 1)
    edge = first == second
    before, after = (place - first).abs(), (place - second).abs()
    return first, second, torch.where(edge, 0.5, before), torch.where(edge, 0.5, after)


def _places(size: int, result: int, scale: float, align_corners: bool, device: torch.device) -> Tensor:
    """Where each index of the result lies in the image."""
    index = torch.arange(result, dtype=torch.float32, device=device)
    factor = torch.tensor(scale, dtype=torch.float32)
    if float(factor) == 1:
        return index
    if align_corners:
        return torch.zeros_like(index) if result == 1 else index * float(size - 1) / float(result - 1)
    return (index + 0.5) / factor - 0.5


def resize_cubic(x: Tensor, size: Sequence[int], scales: Sequence[float], align_corners: bool = False) -> Tensor:
    """interpolate(mode="bicubic") of (batch, channels, height, width) without antialiasing, as Resize has it.

        Resize(x, mode="cubic", cubic_coeff_a=-0.75, half_pixel or align_corners)

    The runtime divides by the factor where torch multiplies by its reciprocal: where that is no number of float32, as
    for a factor of 3, places differ in their last bits, and one value of an integer in four hundred by a step.
    """
    for axis in (1, 0):  # within a row first; sums from left to right
        found = _cubic_weights(x.shape[2 + axis], size[axis], scales[axis], align_corners, x.device)
        parts = [x.index_select(2 + axis, index) * (weight if axis else weight[:, None]) for index, weight in found]
        x = ((parts[0] + parts[1]) + parts[2]) + parts[3]
    return x


def _cubic_weights(
    size: int, result: int, scale: float, align_corners: bool, device: torch.device
) -> list[tuple[Tensor, Tensor]]:
    """For each index of the result the four of the image around it, and what each counts."""
    place = _places(size, result, scale, align_corners, device)
    first = place.floor()
    near, a = place - first, -0.75
    far, back = near + 1, 1 - near
    weights = [
        ((a * far - 5 * a) * far + 8 * a) * far - 4 * a,
        ((a + 2) * near - (a + 3)) * near * near + 1,
        ((a + 2) * back - (a + 3)) * back * back + 1,
        ((a * (back + 1) - 5 * a) * (back + 1) + 8 * a) * (back + 1) - 4 * a,
    ]
    indices = [(first.to(torch.int64) + offset).clamp(0, size - 1) for offset in (-1, 0, 1, 2)]  # outside is the edge
    return list(zip(indices, weights, strict=True))
