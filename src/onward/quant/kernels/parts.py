"""Activations of sixteen bits in two parts, because no kernel multiplies them as they are.

    c = high + low      high = 256 * round(c / 256), low from -128 to 128

A sum of products of one part with weights of eight bits is a whole number that float32 has, up to `2**24`; so is 256
times such a number. Each of the two sums is therefore exact in whatever order it is taken, and their own sum is rounded
once: it is the float32 number next to the whole sum.
"""

from __future__ import annotations

import torch
from torch import Tensor

PART = 256


def in_parts(c: Tensor) -> tuple[Tensor, Tensor]:
    """The high part and the negative of the low one, float32: their products are subtracted."""
    c = c.to(torch.float32)
    high = torch.round(c / PART) * PART
    return high, high - c


def parts_fit(w: Tensor) -> bool:
    """Whether the sums of a part, or of a byte, stay below 2**24 with such a weight, an output in each row."""
    if w.numel() == 0:
        return True
    return int(w.flatten(1).to(torch.int64).abs().sum(1).max()) * PART < 2**24


def is_wide(q: Tensor) -> bool:
    """Whether integers are of sixteen bits."""
    return q.dtype in (torch.uint16, torch.int16)
