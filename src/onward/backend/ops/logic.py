"""Infinities and shifted bits."""

from __future__ import annotations

import torch
from torch import Tensor

from ...onnx_operators.unsigned_integers import widened
from ..registry import implements


@implements("IsInf")
def is_inf(x: Tensor, *, detect_negative: int = 1, detect_positive: int = 1) -> Tensor:
    found = torch.isinf(x) if x.element_size() > 1 else torch.isinf(x.float())
    if not detect_negative:
        found = found & (x.float() > 0)
    if not detect_positive:
        found = found & (x.float() < 0)
    return found


@implements("BitShift")
@widened
def bit_shift(x: Tensor, y: Tensor, *, direction: str) -> Tensor:
    return torch.bitwise_left_shift(x, y) if direction == "LEFT" else torch.bitwise_right_shift(x, y)
