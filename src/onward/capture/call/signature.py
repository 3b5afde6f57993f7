"""What a model written in Python can be called with."""

from __future__ import annotations

import inspect
from typing import Any

import torch


def python_signature(model: Any) -> inspect.Signature | None:
    """The signature of a module's forward, or of a function; None if Python does not know it."""
    told = getattr(model, "__signature__", None)  # a module whose forward is made at run time says what it takes
    if isinstance(model, torch.nn.Module) and isinstance(told, inspect.Signature):
        return told
    try:
        return inspect.signature(model.forward if isinstance(model, torch.nn.Module) else model)
    except (TypeError, ValueError):
        return None
