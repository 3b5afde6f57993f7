"""Images made larger or smaller, or read at any places. The nearest pixel is one of the integers; anything between
pixels is a new value, computed in float as the runtime computes it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ..exact.integers import quantize
from ..exact.runtime import is_elsewhere, runtime_function
from ..grids.grid import Grid
from ..run.handlers import handles
from ..run.session import Phase, QuantSession
from .averages import for_exact_sums
from .product import pair
from .shape import moved

# As the runtime computes


def resize_linear(values: Tensor, size: Sequence[int], scales: Sequence[float], align_corners: bool = False) -> Tensor:
    """Resize(x, mode="linear", half_pixel or align_corners) of one to three axes; `scales` are Resize's own.

    The runtime weighs the neighbors with float32 products that it sums from left to right. torch interpolates one axis
    after the other, and where the factor is 2 and the grids are one, every fourth sum is near a tie, and one in a
    hundred results differs from torch's by a step. The runtime makes volumes of sequences, whose depth and height are
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


_MODES = {"bilinear": "linear", "nearest": "nearest", "bicubic": "cubic"}


def grid_sample(x: Tensor, grid: Tensor, mode: str, padding_mode: str, align_corners: bool) -> Tensor:
    """F.grid_sample by the runtime's own kernel, which adds up neighbors in another order than torch's.

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


# Functions


@handles(F.interpolate, F.upsample, F.upsample_nearest, F.upsample_bilinear)
def interpolate(
    session: QuantSession,
    func: Any,
    input: Tensor,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Any:
    """What lies between pixels is computed from whole numbers: with factors such as 2 nothing of it is rounded. With
    others evaluation computes as the runtime does."""
    if func is F.upsample_bilinear:
        mode, align_corners = "bilinear", True
    if func is F.upsample_nearest:
        mode = "nearest"

    def resized(x: Tensor) -> Tensor:
        how = size, scale_factor, mode, align_corners, recompute_scale_factor, antialias
        is_resize = not (antialias and align_corners)  # with both it is two products of matrices
        if mode in _KERNELS and is_resize and _is_ours(session):
            return _as_the_runtime_does(x, *how)
        return F.interpolate(x, *how)

    if mode.startswith("nearest"):
        return moved(session, input, resized)
    if not session.has_grid(input):
        return NotImplemented
    if mode == "area":
        sizes = pair(size, input.dim() - 2) if scale_factor is None else _sizes_by(scale_factor, input.shape[2:])
        return session.again(_AVERAGES[len(sizes) - 1], input, sizes)
    call = session.call("interpolate")
    x = session.settle(input)
    found = session.integers(x)
    if found is None:
        return session.wait(resized(x), call)
    q, x_grid = found

    def onto_output(grid: Grid) -> Tensor:
        numbers, onto = for_exact_sums(session, q, x_grid, grid)
        return quantize(exact(numbers), onto, call.settings.rounding)

    def exact(numbers: Tensor) -> Tensor:
        """With the channels last onnxruntime 1.31 has other cubic sums, and none for smaller images: a file whose
        convolutions bring it there does not load. All images in one row have no channels to be moved."""
        if mode != "bicubic" or antialias or session.for_a_chip:
            return resized(numbers)
        return resized(numbers.flatten(0, 1)[None])[0].unflatten(0, numbers.shape[:2])

    return session.wait(exact(x), call, onto_output)


@handles(F.grid_sample)
def sample(
    session: QuantSession,
    func: Any,
    input: Tensor,
    grid: Tensor,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool | None = None,
) -> Any:
    """In float, from places that are float: what comes of it lies on no grid."""
    if not _is_ours(session) or not (input.dtype is grid.dtype is torch.float32):
        return NotImplemented
    return session.in_float(grid_sample, input, grid, mode, padding_mode, bool(align_corners))


@handles(F.affine_grid)
def affine_places(session: QuantSession, func: Any, theta: Tensor, size: Any, align_corners: bool | None = None) -> Any:
    """Written out in the file too, for places that are constants are torch's there."""
    if session.phase is not Phase.EXACT or session.for_a_chip or theta.dtype is not torch.float32:
        return NotImplemented
    return session.in_float(affine_grid, theta, size, bool(align_corners))


def _is_ours(session: QuantSession) -> bool:
    """Whether values are computed here that onnxruntime will compute from the file."""
    return session.is_evaluated and not session.for_a_chip


_AVERAGES = (F.adaptive_avg_pool1d, F.adaptive_avg_pool2d, F.adaptive_avg_pool3d)
_KERNELS = {
    "linear": resize_linear, "bilinear": resize_linear, "trilinear": resize_linear, "bicubic": resize_cubic,
}  # fmt: skip


def _sizes_by(factor: Any, sizes: Sequence[int]) -> list[int]:
    return [math.floor(size * each) for size, each in zip(sizes, _factors(factor, len(sizes)), strict=True)]


def _factors(factor: Any, rank: int) -> list[float]:
    return list(factor) if isinstance(factor, (tuple, list)) else [factor] * rank


def _as_the_runtime_does(
    x: Tensor,
    size: Any,
    scale_factor: Any,
    mode: str,
    align_corners: bool | None,
    recompute: bool | None,
    antialias: bool,
) -> Tensor:
    """Resize as the runtime does, with its places and weights, and sums in its order: what a file has as a Resize, with
    the factors if they were given."""
    found = F.interpolate(x[:1, :1], size, scale_factor, mode, align_corners, recompute).shape[2:]
    factors = None if scale_factor is None or recompute else _factors(scale_factor, len(found))
    if antialias:
        return resize_antialiased(x, found, factors, mode == "bicubic")
    scales = factors or [after / before for after, before in zip(found, x.shape[2:], strict=True)]
    return _KERNELS[mode](x, found, scales, bool(align_corners))
