"""Modules that are not what Python makes of a class: TorchScript's, and those whose code torch.fx has written."""

from __future__ import annotations

from typing import Any, TypeGuard

import torch


def is_interpreted(module: Any) -> TypeGuard[torch.jit.ScriptModule]:
    """Whether TorchScript runs the module. Its tensors and attributes are TorchScript's: Python sees copies of them."""
    return isinstance(module, torch.jit.ScriptModule)


def is_generated(module: Any) -> TypeGuard[torch.fx.GraphModule]:
    """Whether torch.fx has written the module's code, which stands in no file."""
    return isinstance(module, torch.fx.GraphModule)
