"""Operators on images and boxes."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ...onnx_operators.python_numbers import number
from ..registry import implements


@implements("GridSample")
def grid_sample(
    x: Tensor, grid: Tensor, *, align_corners: int = 0, mode: str = "linear", padding_mode: str = "zeros"
) -> Tensor:
    kind = {"linear": "bilinear", "cubic": "bicubic"}.get(mode, mode)
    return F.grid_sample(x, grid, mode=kind, padding_mode=padding_mode, align_corners=bool(align_corners))


@implements("AffineGrid")
def affine_grid(theta: Tensor, size: Tensor, *, align_corners: int = 0) -> Tensor:
    return F.affine_grid(theta, size.tolist(), bool(align_corners))


@implements("NonMaxSuppression")
def non_max_suppression(
    boxes: Tensor,
    scores: Tensor,
    max_output: Any = None,
    iou_threshold: Any = None,
    score_threshold: Any = None,
    *,
    center_point_box: int = 0,
) -> Tensor:
    most = 0 if max_output is None else int(number(max_output))
    limit = 0.0 if iou_threshold is None else number(iou_threshold)
    found: list[list[int]] = []
    for batch in range(scores.shape[0]):
        corners = _corners(boxes[batch], center_point_box)
        overlaps = _overlaps(corners)
        for kind in range(scores.shape[1]):
            mine = scores[batch, kind]
            kept: list[int] = []
            for place in torch.argsort(mine, descending=True, stable=True).tolist():
                if len(kept) == most or (score_threshold is not None and mine[place] <= number(score_threshold)):
                    break
                if all(overlaps[place, other] <= limit for other in kept):
                    kept.append(place)
            found += [[batch, kind, place] for place in kept]
    return torch.tensor(found, dtype=torch.int64).reshape(-1, 3)


def _corners(boxes: Tensor, center_point_box: int) -> Tensor:
    """Lower and upper corner, whichever two corners were given."""
    if center_point_box:
        x, y, w, h = boxes.unbind(-1)
        return torch.stack([x - w / 2, y - h / 2, x + w / 2, y + h / 2], -1)
    first, second = boxes[:, :2], boxes[:, 2:]
    return torch.cat([torch.minimum(first, second), torch.maximum(first, second)], -1)


def _overlaps(boxes: Tensor) -> Tensor:
    low = torch.maximum(boxes[:, None, :2], boxes[None, :, :2])
    high = torch.minimum(boxes[:, None, 2:], boxes[None, :, 2:])
    common = (high - low).clamp(min=0).prod(-1)
    areas = (boxes[:, 2:] - boxes[:, :2]).prod(-1)
    return common / (areas[:, None] + areas[None] - common)


@implements("RoiAlign")
def roi_align(
    x: Tensor,
    rois: Tensor,
    batch_indices: Tensor,
    *,
    coordinate_transformation_mode: str = "output_half_pixel",
    mode: str = "avg",
    output_height: int = 1,
    output_width: int = 1,
    sampling_ratio: int = 0,
    spatial_scale: float = 1.0,
    opset: int,
) -> Tensor:
    shift = 0.5 if opset >= 16 and coordinate_transformation_mode == "half_pixel" else 0.0
    results = []
    for roi, batch in zip(rois, batch_indices.tolist(), strict=True):
        x1, y1, x2, y2 = (roi * spatial_scale - shift).tolist()
        width, height = x2 - x1, y2 - y1
        if not shift:
            width, height = max(width, 1.0), max(height, 1.0)
        rows = _samples(y1, height, output_height, sampling_ratio)
        columns = _samples(x1, width, output_width, sampling_ratio)
        taps = _bilinear_taps(x[batch], rows.reshape(-1), columns.reshape(-1), mode == "max")
        taps = taps.reshape(taps.shape[0], output_height, rows.shape[1], output_width, columns.shape[1], -1)
        results.append(taps.amax((2, 4, 5)) if mode == "max" else taps.sum(-1).mean((2, 4)))
    return torch.stack(results) if results else x.new_zeros(0, x.shape[1], output_height, output_width)


def _samples(start: float, length: float, bins: int, ratio: int) -> Tensor:
    """Places of the samples of each bin."""
    each = length / bins
    count = ratio if ratio > 0 else max(1, math.ceil(each))
    inner = (torch.arange(count, dtype=torch.float32) + 0.5) * each / count
    return start + torch.arange(bins, dtype=torch.float32).unsqueeze(1) * each + inner


def _bilinear_taps(image: Tensor, rows: Tensor, columns: Tensor, largest: bool) -> Tensor:
    """The four weighted neighbours of each place, (channels, rows, columns, 4); `largest` takes their maximum."""

    def parts(places: Tensor, size: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        outside = (places < -1) | (places > size)
        places = places.clamp(min=0)
        low = places.floor().clamp(max=size - 1)
        high = (low + 1).clamp(max=size - 1)
        part = torch.where(low >= size - 1, torch.zeros_like(places), places - low)
        inside = (~outside).to(image.dtype)
        return low.long(), high.long(), (1 - part) * inside, part * inside

    y0, y1, wy0, wy1 = parts(rows, image.shape[1])
    x0, x1, wx0, wx1 = parts(columns, image.shape[2])
    pairs = [(y, x, wy[:, None] * wx) for y, wy in ((y0, wy0), (y1, wy1)) for x, wx in ((x0, wx0), (x1, wx1))]
    return torch.stack([image[:, y][:, :, x] * weight for y, x, weight in pairs], -1)


@implements("MaxRoiPool")
def max_roi_pool(x: Tensor, rois: Tensor, *, pooled_shape: list[int], spatial_scale: float = 1.0) -> Tensor:
    results = []
    for roi in rois:
        batch, *corners = roi.tolist()
        x1, y1, x2, y2 = (round(each * spatial_scale) for each in corners)
        part = x[int(batch), :, max(y1, 0) : y2 + 1, max(x1, 0) : x2 + 1]
        results.append(F.adaptive_max_pool2d(part, pooled_shape))
    return torch.stack(results)
