"""Kernels for `torchvision::nms` and `torchvision::roi_align` where torchvision's compiled ones do not load."""

from __future__ import annotations

import functools
import importlib
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
    library.impl("roi_align", aligning._roi_align, "CPU")  # the version in Python, which torchvision has for compilers
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


def _roi_align_meta(
    x: torch.Tensor, rois: torch.Tensor, scale: float, high: Any, wide: Any, *rest: Any
) -> torch.Tensor:
    return x.new_empty(rois.shape[0], x.shape[1], high, wide)
