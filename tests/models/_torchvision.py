"""Import torchvision's Python models even where its compiled operators do not load.

A torchvision wheel built for another PyTorch (a CUDA build beside a CPU torch, for one) fails at import: it registers
fake kernels for operators that its shared library never defined. The classification models use none of them, so
defining the two schemas that are touched at import is enough. Where the shared library does load, nothing is done.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
from pathlib import Path
from types import ModuleType

import torch

_SCHEMAS = {
    "nms": "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms": "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
}


@functools.cache
def torchvision_models() -> ModuleType:
    """`torchvision.models`, imported with or without torchvision's compiled operators."""
    if not _compiled_operators_load():
        _define_missing_schemas()
    return importlib.import_module("torchvision.models")


def _compiled_operators_load() -> bool:
    spec = importlib.util.find_spec("torchvision")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("torchvision is not installed; it is part of the development extra")
    for library in sorted(Path(spec.origin).parent.glob("_C*.so")):
        try:
            torch.ops.load_library(library)
        except (OSError, RuntimeError):
            continue
        return True
    return False


@functools.cache
def _define_missing_schemas() -> torch.library.Library:
    """Cached because the definitions live only as long as the `Library` object does."""
    library = torch.library.Library("torchvision", "FRAGMENT")
    for name, schema in _SCHEMAS.items():
        if not hasattr(torch.ops.torchvision, name):
            library.define(schema)
    return library
