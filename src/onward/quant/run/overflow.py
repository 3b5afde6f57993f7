"""Sums of products that integer arithmetic has no room for: warnings, and errors where calibration saw them."""

from __future__ import annotations

import math
import warnings

import torch
from torch import Tensor

from ...capture.attempt.session import is_capturing
from ...errors import QuantizationError
from ..config.checks import QuantizationWarning
from ..grids.grid import Grid
from .calls import Call
from .controller import Controller

IN_FLOAT32 = 2**24  # whole numbers up to here are exact
IN_INT32 = 2**31 - 1


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
    controller: Controller,
    call: Call,
    x: Grid,
    weight: Tensor,
    bias: Tensor | None,
    room: int = IN_INT32,
    w_scale: Tensor | None = None,
) -> None:
    """Warn once for every product of a model whose sums may leave int32. From there on they go on from the other end,
    in onnxruntime as in evaluation. A product whose sums did so in calibration, which `w_scale` tells, is not
    exported."""
    warned = controller.warned
    if _is_small(weight, room) or (call.label in warned and not is_capturing()):
        return
    largest = largest_sum(x, weight, bias, room)
    if largest <= room:
        return
    where = call.told
    sums = f"{where} adds up {weight[:1].numel()} products"
    if w_scale is not None:
        refuse_overflow(call, x, w_scale, sums, _remedy(call, largest / room))
    if call.label in warned:
        return
    warned.add(call.label)
    if room == IN_FLOAT32:
        text = (
            f"{where} is computed in float32, and its sums may exceed 2**24, up to where whole numbers are exact: "
            "results may be a step away from what evaluation says"
        )
    else:
        text = (
            f"{sums}, whose sums may exceed the 32 bits of integer kernels: then they are another number, in "
            f"onnxruntime as in evaluation. {_remedy(call, largest / room)}"
        )
    warnings.warn(text, QuantizationWarning, stacklevel=2)


def refuse_overflow(call: Call, x: Grid, scale: Tensor, sums: str, hint: str) -> None:
    """Export no product whose sums left int32 in calibration; `scale` is that of the other operand."""
    if is_capturing() and _seen(call, x, scale) > IN_INT32:
        raise QuantizationError(
            f"{sums}, and what calibration saw of them is more than the 32 bits of integer kernels hold", hint=hint
        )


def _seen(call: Call, x: Grid, scale: Tensor) -> float:
    """How large a sum must have been while the range of the result was found; of the channel with the largest scale, so
    that it is certain. Zero where the result has no range, and for sixteen bits, which are added up by bytes."""
    held = call.site("output").range
    if held is None or x.dtype in ("uint16", "int16"):
        return 0.0
    return float(held.detach().abs().max()) / (float(x.scale) * float(scale.max()))


def _remedy(call: Call, excess: float) -> str:
    """What keeps sums inside that are so many times too large."""
    bits = call.weight_bits - math.ceil(math.log2(excess))
    if not call.path:
        return f"Weights of {bits} bits keep them inside" if bits >= 2 else "Several layers of fewer inputs would do"
    fewer = f"Rule({call.path!r}, weights={{'bits': {bits}}}) keeps them inside, " if bits >= 2 else ""
    return f"{fewer}Rule({call.path!r}, off=True) leaves it in float"
