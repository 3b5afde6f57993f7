"""Images made larger or smaller, or read at any places: the nearest pixel is one of the integers, anything between is a
new value."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from .. import ops
from ..grids.grid import Grid
from ..run.handlers import handles
from ..run.session import Phase, Session
from .pooling import for_exact_sums
from .product import pair
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

    def requantise(grid: Grid) -> Tensor:
        numbers, onto = for_exact_sums(session, q, x_grid, grid)
        return ops.quantize(exact(numbers), onto, call.settings.rounding)

    def exact(numbers: Tensor) -> Tensor:
        """With the channels last onnxruntime 1.31 has other cubic sums, and none for smaller images: a file whose
        convolutions bring it there does not load. All images in one row have no channels to be moved."""
        if mode != "bicubic" or antialias or session.for_a_chip:
            return resized(numbers)
        return resized(numbers.flatten(0, 1)[None])[0].unflatten(0, numbers.shape[:2])

    return session.wait(exact(x), call, requantise)


@handles(F.grid_sample)
def grid_sample(
    session: Session,
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
    return session.in_float(ops.kernels.grid_sample, input, grid, mode, padding_mode, bool(align_corners))


@handles(F.affine_grid)
def affine_grid(session: Session, func: Any, theta: Tensor, size: Any, align_corners: bool | None = None) -> Any:
    """Written out in the file too, for places that are constants are torch's there."""
    if session.phase is not Phase.EXACT or session.for_a_chip or theta.dtype is not torch.float32:
        return NotImplemented
    return session.in_float(ops.kernels.affine_grid, theta, size, bool(align_corners))


def _is_ours(session: Session) -> bool:
    """Whether values are computed here that onnxruntime will compute from the file."""
    return session.is_evaluated and not session.for_a_chip


_AVERAGES = (F.adaptive_avg_pool1d, F.adaptive_avg_pool2d, F.adaptive_avg_pool3d)
_LINEAR, _CUBIC = ops.kernels.resize_linear, ops.kernels.resize_cubic
_KERNELS = {"linear": _LINEAR, "bilinear": _LINEAR, "trilinear": _LINEAR, "bicubic": _CUBIC}


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
    """The same places and weights, and sums in the same order: what a file has as a Resize, with the factors if they
    were given."""
    found = F.interpolate(x[:1, :1], size, scale_factor, mode, align_corners, recompute).shape[2:]
    factors = None if scale_factor is None or recompute else _factors(scale_factor, len(found))
    if antialias:
        return ops.kernels.resize_antialiased(x, found, factors, mode == "bicubic")
    scales = factors or [after / before for after, before in zip(found, x.shape[2:], strict=True)]
    return _KERNELS[mode](x, found, scales, bool(align_corners))
