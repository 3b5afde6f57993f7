"""Inputs that say how to compute rather than on what, read as Python's numbers."""

from __future__ import annotations

from typing import Any

import torch


def ints(value: Any) -> list[int]:
    """Several numbers: a tensor, or numbers already, which `torch.compile` or an export may keep symbolic."""
    if isinstance(value, torch.Tensor):
        return [int(item) for item in value.reshape(-1).tolist()]
    return list(value) if isinstance(value, (list, tuple)) else [value]


def number(value: Any) -> Any:
    """One number: a tensor of one element, or a number already."""
    if isinstance(value, torch.Tensor):
        return value.reshape(-1)[0].item()
    return value[0] if isinstance(value, tuple) else value
