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
    if not bool(error.any()):  # by far the usual case: both had room in float64
        return total.to(torch.float32)
    bits = total.view(torch.int64)
    step = torch.where((error > 0) == (total > 0), 1, -1)  # in magnitude, as the bits count
    odd = torch.where((error != 0) & ((bits & 1) == 0), bits + step, bits)
    return odd.view(torch.float64).to(torch.float32)
