"""What a model can be called with: Python's signature, or TorchScript's."""

from __future__ import annotations

import inspect
from typing import Any

import torch


def is_script(value: Any) -> bool:
    """A scripted or traced module, or function."""
    return isinstance(value, (torch.jit.ScriptModule, torch.jit.ScriptFunction))


def script_signature(called: Any) -> inspect.Signature:
    """A script's parameters as Python's."""
    is_module = isinstance(called, torch.jit.ScriptModule)
    schema = called._c._get_method("forward").schema if is_module else called.schema
    kinds = inspect.Parameter
    return inspect.Signature(
        [
            kinds(
                each.name,
                kinds.POSITIONAL_OR_KEYWORD,
                default=each.default_value if each.has_default_value() else kinds.empty,
            )
            for each in schema.arguments[1 if is_module else 0 :]
        ]
    )
