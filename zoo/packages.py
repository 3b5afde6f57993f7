"""The packages that are swept, each by a module with `names()` and `case(name)`."""

from __future__ import annotations

import importlib
from types import ModuleType

PACKAGES = ("transformers", "timm", "torchvision", "diffusers")


def module(package: str) -> ModuleType:
    if package not in PACKAGES:
        raise ValueError(f"no sweep of {package!r}; choose from {', '.join(PACKAGES)}")
    return importlib.import_module(f".{package}_models", __package__)
