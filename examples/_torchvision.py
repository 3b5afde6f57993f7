"""torchvision's models, also where its compiled operators do not load.

A torchvision that was built for another PyTorch (one with CUDA, say) fails at import, because operators are missing
that its classifiers never use. Declaring these two is enough. Where torchvision loads as it is, nothing is done.
"""

from __future__ import annotations

from types import ModuleType

import torch

_declared = torch.library.Library("torchvision", "FRAGMENT")  # a declaration lasts as long as this object


def torchvision_models() -> ModuleType:
    """`torchvision.models`."""
    import importlib

    try:
        return importlib.import_module("torchvision.models")
    except RuntimeError:  # "operator torchvision::nms does not exist"
        for name in ("nms", "qnms"):
            if not hasattr(torch.ops.torchvision, name):
                _declared.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        return importlib.import_module("torchvision.models")
