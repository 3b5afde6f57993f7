"""Weights stored as integers."""

from __future__ import annotations

import torch

from ...lower import lowers
from ...lower.emitter import Emitter, Value
from .core import check_type, dequantized

onward = torch.ops.onward


@lowers(onward.stored.default)
def stored(g: Emitter, q: Value, scale: Value, zero: int, dtype: str, axis: int | None, near: Value) -> Value:
    """stored(Tensor q, Tensor scale, int zero_point, str dtype, int? axis, Tensor near) -> Tensor"""
    check_type(g, dtype)
    return dequantized(g, q, scale, zero, axis)
