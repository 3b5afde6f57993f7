"""A fused multiply-add of float32: one rounding, as the processor's instruction has it."""

from __future__ import annotations

import torch
from torch import Tensor


def fma(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    """float32(a * b + c) for float32 tensors.

    The product of two float32 is exact in float64. The sum may not be, and rounding it twice can end on the wrong
    side of a tie, so it is rounded to odd in float64 first: of the two float64 next to the exact sum the one whose
    last bit is set, which stands on no float32 and no midpoint between two.
    """
    product, wide = a.double() * b.double(), c.double()
    total = product + wide
    back = total - product
    error = (product - (total - back)) + (wide - back)  # Knuth: total + error is the exact sum
    even = (total.view(torch.int64) & 1) == 0
    away = torch.where(error > 0, torch.inf, -torch.inf).to(torch.float64)
    odd = torch.where((error != 0) & even, torch.nextafter(total, away), total)
    return odd.to(torch.float32)
