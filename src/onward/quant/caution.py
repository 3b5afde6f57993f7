"""Warnings about quantised models, and sums that their arithmetic has no room for."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from .grid import Grid

if TYPE_CHECKING:
    from .session import Call, Session

IN_FLOAT32 = 2**24  # whole numbers up to here are exact
IN_INT32 = 2**31 - 1


class QuantizationWarning(UserWarning):
    """Something about a quantised model that its owner should know."""


def largest_sum(x: Grid, weight: Tensor, bias: Tensor | None, room: int = IN_INT32) -> int:
    """What no sum of a product exceeds: every x at the end of its grid that is farther from zero. The weight has its
    output channels first. Integer kernels take sixteen bits byte by byte, and without the bias."""
    reach = max(x.high - x.zero_point, x.zero_point - x.low)
    if room == IN_INT32 and x.dtype in ("uint16", "int16"):
        reach, bias = 255, None
    sums = weight.flatten(1).to(torch.int64).abs().sum(1) * reach
    if bias is not None:
        sums = sums + bias.to(torch.int64).abs()
    return int(sums.max()) if sums.numel() else 0


def _is_small(weight: Tensor, room: int) -> bool:
    """Whether it has so few products that there is no need to look. Of int32 a bias takes half at most."""
    return room == IN_INT32 and weight[:1].numel() * 255 * 128 <= room // 2


def warn_of_overflow(
    session: Session, call: Call, x: Grid, weight: Tensor, bias: Tensor | None, room: int = IN_INT32
) -> None:
    """Once for every product of a model."""
    warned = session.controller.warned
    if call.label in warned or _is_small(weight, room) or largest_sum(x, weight, bias, room) <= room:
        return
    warned.add(call.label)
    where = f"{call.path or 'the model itself'} ({call.name})"
    if room == IN_FLOAT32:
        text = (
            f"{where} is computed in float32, and its sums may exceed 2**24, up to where whole numbers are exact: "
            "results may be a step away from what evaluation says"
        )
    else:
        text = (
            f"{where} adds up so much that its sums may exceed the 32 bits of integer kernels, and would be another "
            "number in onnxruntime: fewer bits for its weights, or a rule with off=True, make sure"
        )
    warnings.warn(text, QuantizationWarning, stacklevel=2)
