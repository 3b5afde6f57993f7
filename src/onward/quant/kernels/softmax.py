"""Softmax from a table of exponentials."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from ...errors import InputError
from ..grids.grid import Grid

_LARGEST = float(np.finfo(np.float32).max)


def softmax(x: Tensor, gx: Grid, gy: Grid, axis: int = -1) -> Tensor:
    """torch.softmax.

        Softmax(DequantizeLinear(x), axis) -> QuantizeLinear        -> QLinearSoftmax (com.microsoft), opset 13

    Fused where both are uint8 (its int8 kernel overflows, 128 becoming -128, and is refused here); gx has one scale.

    The runtime multiplies by floor(1 / sy), a whole number, so sy has to be a reciprocal of one that survives float32:
    1/256, with zero point 0. (1/255 would be taken for 254 steps.) Over an axis of a single element it overflows and
    gives zero: leave such a softmax out of the graph.
    """
    if gx.dtype != "uint8" or gy.dtype != "uint8":
        raise InputError("softmax has an exact integer kernel for uint8 alone")
    rows = x.movedim(axis, -1)
    table = _exponentials(gx.scale.item(), rows.shape[-1])
    shifted = rows.to(torch.int64) + (255 - rows.amax(-1, keepdim=True).to(torch.int64))
    powers = table[shifted.cpu().numpy()]
    total = np.add.accumulate(powers, axis=-1, dtype=np.float32)[..., -1:]  # in order, float32, as the runtime does
    steps = np.float32(math.floor(np.float32(1) / np.float32(gy.scale.item())))
    if rows.shape[-1] == 1:
        q = torch.zeros(rows.shape, dtype=torch.int32)
    else:
        q = torch.from_numpy(np.rint(powers * steps / total)).to(torch.int32)
    return (q + gy.zero_point).clamp(gy.low, gy.high).to(gy.torch_dtype).movedim(-1, axis)


def _exponentials(scale: float, count: int) -> np.ndarray:
    """e**x for the 256 steps below the largest, all shifted up so far that their sum still fits in float32."""
    room = float(np.float32(math.log(np.float32(_LARGEST) / np.float32(count))))  # logf
    shift = max(0.0, room - 5) / scale
    return np.array([math.exp((step - 255 + shift) * scale) for step in range(256)], dtype=np.float64).astype(
        np.float32
    )
