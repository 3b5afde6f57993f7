"""Fake quantisation, for training: floats that lie on the grid, with gradients that pass straight through.

The gradient of the values is 1 where they are inside the grid and 0 where they are clipped. The ends of the range are
followed by `moving_range_`, or learned (`Activations.learned`). Everything is computed in float32, under autocast and
for float64 too, and comes back in the type of the input; in float32 it is dequantize(quantize(x)) to the last bit.

PyTorch has fused operators for this (torch.fake_quantize_per_tensor_affine). They are not used: on the CPU they take
six times as long as the four vectorised operations here (2.13: 19.7 against 3.3 ms for 1.6 million values), and they
multiply by the reciprocal of the scale where the integer kernels divide, which differs next to ties.
"""

from __future__ import annotations

import math
from ctypes import c_float
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import functional

from .grid import weight_scale, weight_steps
from .ranges import weight_range

if TYPE_CHECKING:
    from .config import Activations, Weights

_TINY = torch.finfo(torch.float32).tiny
_hardtanh_backward = torch.ops.aten.hardtanh_backward.default
_threshold_backward = torch.ops.aten.threshold_backward.default


def fake_quantize(x: Tensor, low: Tensor, high: Tensor, spec: Activations, *, rounding: str = "half_even") -> Tensor:
    """An activation on the grid of the range from `low` to `high` (0-d).

    Where the range is learned, `low` and `high` get gradients; `_Learned` says which.
    """
    values = x.to(torch.float32)
    scale, zero, first, last = plain_scale_and_zero_point(low.item(), high.item(), spec)
    if spec.learned:
        out = _Learned.apply(values, low, high, scale, first - zero, last - zero, spec, rounding)
    else:
        # A tensor, because a GPU multiplies by the reciprocal of a number.
        out = _Straight.apply(values, values.new_tensor(scale), first - zero, last - zero, rounding)
    return out.to(x.dtype)


def fake_quantize_weight(weight: Tensor, spec: Weights, *, axis: int = 0, high: Tensor | None = None) -> Tensor:
    """A weight on its grid: that of its own range, or of the largest magnitudes `high`. Half to even always, because
    weights are rounded when the model is exported, not by the target.
    """
    high = weight_range(weight, spec, axis) if high is None else high.detach()
    if spec.block_size is not None:
        return _blockwise(weight, high, spec)
    scale, steps = weight_scale(high, spec), weight_steps(spec)
    if scale.dim():
        scale = scale.reshape([-1 if each == axis else 1 for each in range(weight.dim())])
    first = -steps - int(spec.power_of_two)
    out = _Straight.apply(weight.to(torch.float32), scale, first, steps, "half_even")
    return out.to(weight.dtype)


def _blockwise(weight: Tensor, high: Tensor, spec: Weights) -> Tensor:
    """Rows of [channels, inputs] in blocks, each with a scale of its own; the last may be short."""
    rows, size = weight.flatten(1), spec.block_size or 1
    blocks = functional.pad(rows, (0, -rows.shape[1] % size)).reshape(-1, size)
    out = fake_quantize_weight(blocks, replace(spec, block_size=None), high=high.reshape(-1))
    return out.reshape(rows.shape[0], -1)[:, : rows.shape[1]].reshape(weight.shape)


@torch.no_grad()
def moving_range_(low: Tensor, high: Tensor, x: Tensor, averaging: float) -> bool:
    """Move a range, in place, towards that of a batch. A range that has seen nothing is (inf, -inf) and starts with it.

    Values that are not finite are left out; a batch without any other changes nothing and gives False.
    """
    if x.numel() == 0:
        return False
    first, last = torch.aminmax(x.detach())
    if not math.isfinite(float(last) - float(first)):
        finite = x.detach()[x.detach().isfinite()]
        if finite.numel() == 0:
            return False
        first, last = torch.aminmax(finite)
    first, last = first.to(low.dtype), last.to(high.dtype)
    if float(low) > float(high):
        low.copy_(first)
        high.copy_(last)
    else:
        low.lerp_(first, averaging)
        high.lerp_(last, averaging)
    return True


def plain_scale_and_zero_point(low: float, high: float, spec: Activations) -> tuple[float, int, int, int]:
    """`grid.scale_and_zero_point` of one range in plain numbers: the same to the last bit, for a tenth of the time."""
    low, high = min(low, 0.0), max(high, 0.0)
    signed = spec.symmetric and spec.bits > 8
    first = -(1 << (spec.bits - 1)) if signed else 0
    last = first + (1 << spec.bits) - 1
    if spec.symmetric:
        span, steps = max(high, -low), (1 << (spec.bits - 1)) - 1
    else:
        span, steps = high - low, (1 << spec.bits) - 1
    if spec.power_of_two:
        mantissa, exponent = math.frexp(span / (steps + 1))
        scale = math.ldexp(1.0, exponent - (mantissa == 0.5)) if span > 0 else 0.0
    else:
        scale = span / steps
    scale = 1.0 if scale < _TINY else c_float(scale).value
    if spec.symmetric:
        return scale, 0 if signed else 1 << (spec.bits - 1), first, last
    return scale, min(max(round(first - low / scale), first), last), first, last


def _round(ratio: Tensor, rounding: str) -> Tensor:
    return torch.floor(ratio + 0.5) if rounding == "half_up" else torch.round(ratio)


class _Straight(torch.autograd.Function):
    """One division, one rounding, one multiplication, as the integer kernels do them. `low` and `high` are in steps."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, scale: Tensor, low: int, high: int, rounding: str) -> Tensor:
        ratio = x / scale
        ctx.save_for_backward(ratio)
        ctx.ends = low - 0.5, high + 0.5
        return _round(ratio, rounding).clamp_(low, high).mul_(scale)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        return _hardtanh_backward(grads[0], *ctx.saved_tensors, *ctx.ends), None, None, None, None


class _Learned(torch.autograd.Function):
    """Straight-through for the values, and gradients for the ends of the range (LSQ, LSQ+, TQT).

    Rounding, also that of the zero point, is taken as straight through:
     - a clipped value is an end of the grid: it moves the end of the range that clips it;
     - a value inside moves with the scale by its rounding error in steps, and the scale by scale / span with an end.
       For a power of two the same: the jump to the next power is straight through too, as in TQT.

    The sums grow with the number of values, and how large a threshold is next to a weight depends on the number of
    steps. As in LSQ they are scaled so that thresholds and weights change at similar rates, and one learning rate
    serves both. A symmetric range has one threshold: both ends get its gradient, with opposite signs. An end that is
    exactly zero stays there: after a ReLU the zero point has to remain 0.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        low: Tensor,
        high: Tensor,
        scale: float,
        bottom: int,
        top: int,
        spec: Activations,
        rounding: str,
    ) -> Tensor:
        step = x.new_tensor(scale)
        ratio = x / step
        ctx.save_for_backward(ratio, low, high)
        ctx.rest = scale, bottom, top, spec, rounding
        return _round(ratio, rounding).clamp_(bottom, top).mul_(step)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        ratio, low, high = ctx.saved_tensors
        scale, bottom, top, spec, rounding = ctx.rest
        passed = _hardtanh_backward(grads[0], ratio, bottom - 0.5, top + 0.5)
        nothing = (None,) * 5
        if not (ctx.needs_input_grad[1] or ctx.needs_input_grad[2]):
            return passed, None, None, *nothing
        error = torch.dot(passed.reshape(-1), _round(ratio, rounding).sub_(ratio).reshape(-1))
        at_top = _threshold_backward(grads[0], ratio, top + 0.5).sum()
        at_bottom = grads[0].sum() - passed.sum() - at_top
        low_, high_ = low.item(), high.item()
        if spec.symmetric:
            steps = (1 << (spec.bits - 1)) - 1
            to_scale = error + at_top * top + at_bottom * bottom
            to_high = to_scale * (scale / max(high_, -low_, _TINY))
            to_low = -to_high
        else:
            steps, offset = top - bottom, min(low_, 0.0) / scale  # the zero point, before it was rounded, is -offset
            to_scale = error + at_top * (top - offset) + at_bottom * (bottom - offset)
            to_high = to_scale * (scale / max(max(high_, 0.0) - min(low_, 0.0), _TINY))
            to_low = at_top + at_bottom - to_high
        size = steps**1.5 / math.sqrt(ratio.numel())
        return passed, _unless_zero(to_low * size, low), _unless_zero(to_high * size, high), *nothing


def _unless_zero(grad: Tensor, end: Tensor) -> Tensor:
    return torch.where(end == 0, torch.zeros_like(end), grad.to(end.dtype).reshape(end.shape))
