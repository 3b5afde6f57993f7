"""Kernels for `torchvision::nms` and `torchvision::roi_align` where torchvision's compiled ones do not load."""

from __future__ import annotations

import functools
import importlib
import math
import sys
from typing import Any

import torch

_ROI_ALIGN = (
    "roi_align(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width, "
    "int sampling_ratio, bool aligned) -> Tensor"
)


@functools.cache
def kernels_for_torchvision() -> torch.library.Library | None:
    """Cached because the kernels live only as long as the `Library` object does."""
    boxes = importlib.import_module("torchvision.ops.boxes")
    aligning: Any = sys.modules["torchvision.ops.roi_align"]  # the package has a function of the module's name
    if aligning._has_ops():
        return None
    library = torch.library.Library("torchvision", "FRAGMENT")
    library.impl("nms", nms, "CPU")
    if not hasattr(torch.ops.torchvision, "roi_align"):
        library.define(_ROI_ALIGN)
    library.impl("roi_align", roi_align, "CPU")
    library.impl("roi_align", _roi_align_meta, "Meta")
    boxes._assert_has_ops = aligning._assert_has_ops = lambda: None
    aligning._has_ops = lambda: True
    return library


def nms(boxes: torch.Tensor, scores: torch.Tensor, threshold: float) -> torch.Tensor:
    """The indices of the boxes that no better box covers, the best first."""
    sides = boxes[:, 2:] - boxes[:, :2]
    areas = sides.prod(1)
    low = torch.maximum(boxes[:, None, :2], boxes[None, :, :2])
    high = torch.minimum(boxes[:, None, 2:], boxes[None, :, 2:])
    shared = (high - low).clamp(min=0).prod(2)
    covers = shared / (areas[:, None] + areas[None] - shared) > threshold
    kept: list[int] = []
    for index in scores.sort(descending=True, stable=True).indices.tolist():
        if not any(covers[index, other] for other in kept):
            kept.append(index)
    return torch.tensor(kept, dtype=torch.int64)


def roi_align(
    x: torch.Tensor, rois: torch.Tensor, scale: float, high: int, wide: int, ratio: int, aligned: bool
) -> torch.Tensor:
    """The mean of bilinear samples in every part of a region, as torchvision's compiled kernel computes it.

    torchvision's own version in Python extrapolates where the compiled kernel and ONNX have zeros: beyond the border.
    """
    found = x.new_zeros(len(rois), x.shape[1], high, wide)
    for number, (index, *corners) in enumerate(rois.tolist()):
        left, top, right, bottom = (scale * each - (0.5 if aligned else 0.0) for each in corners)
        least = 0.0 if aligned else 1.0
        rows = _weights(top, max(bottom - top, least), high, ratio, x.shape[2])
        columns = _weights(left, max(right - left, least), wide, ratio, x.shape[3])
        found[number] = rows @ x[int(index)] @ columns.T
    return found


def _weights(start: float, length: float, parts: int, ratio: int, size: int) -> torch.Tensor:
    """How much every row of an image counts in every part of an interval."""
    samples = ratio if ratio > 0 else math.ceil(length / parts)
    within = (torch.arange(samples) + 0.5) / max(samples, 1)
    places = start + (torch.arange(parts)[:, None] + within) * (length / parts)
    counts = ((places >= -1) & (places <= size)) / max(samples, 1)
    places = places.clamp(0, size - 1)
    low = places.long()
    share = places - low
    found = torch.zeros(parts, size)
    found.scatter_add_(1, low, (1 - share) * counts)
    return found.scatter_add_(1, (low + 1).clamp(max=size - 1), share * counts)


def _roi_align_meta(
    x: torch.Tensor, rois: torch.Tensor, scale: float, high: Any, wide: Any, *rest: Any
) -> torch.Tensor:
    return x.new_empty(rois.shape[0], x.shape[1], high, wide)
