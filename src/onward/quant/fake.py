"""Fake quantisation, for training: floats that lie on the grid, with gradients that pass straight through.

The gradient of the values is 1 where they are inside the grid and 0 where they are clipped. The ends of the range are
followed by `follow_`, or learned (`Activations.learned`). Everything is computed in float32, under autocast and
for float64 too, and comes back in the type of the input; in float32 it is dequantize(quantize(x)) to the last bit.

PyTorch has fused operators for this (torch.fake_quantize_per_tensor_affine). They are not used: on the CPU they take
six times as long as the vectorised operations here (2.13: 19.7 against 3.3 ms for 1.6 million values), and they
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
_NEARLY = 1 - 2.0**-22  # four units in the last place of a float32
_hardtanh_backward = torch.ops.aten.hardtanh_backward.default


Bounds = tuple[float | None, float | None]  # of an activation that follows, (0, None) for a ReLU
UNBOUNDED: Bounds = (None, None)


def fake_quantize(
    x: Tensor,
    low: Tensor | float,
    high: Tensor | float,
    spec: Activations,
    *,
    rounding: str = "half_even",
    bounds: Bounds = UNBOUNDED,
) -> Tensor:
    """An activation on the grid of the range from `low` to `high`, as it is between `bounds`.

    Where the range is learned, `low` and `high` are 0-d tensors and get gradients; `_Learned` says which.
    """
    if spec.learned:
        held = torch.stack([torch.as_tensor(low), torch.as_tensor(high)])
        return fake_quantize_learned(x, held, spec, rounding=rounding, bounds=bounds)
    values = x if x.dtype is torch.float32 else x.to(torch.float32)
    scale, zero, first, last = plain_scale_and_zero_point(_number(low), _number(high), spec)
    out = _straight(values, scale, first - zero, last - zero, rounding, bounds)
    return out if x.dtype is torch.float32 else out.to(x.dtype)


def fake_quantize_learned(
    x: Tensor,
    held: Tensor,
    spec: Activations,
    *,
    rounding: str = "half_even",
    bounds: Bounds = UNBOUNDED,
) -> Tensor:
    """The same for a range that is learned, [low, high]: in one tensor, so that autograd has one gradient to keep."""
    values = x if x.dtype is torch.float32 else x.to(torch.float32)
    low, high = held.tolist()
    scale, zero, first, last = plain_scale_and_zero_point(low, high, spec)
    # A ReLU is part of a grid that begins at zero; any other bound comes before it.
    joined = bounds == (0, None) and first == zero
    values = values if joined else within(values, bounds)
    grid = scale, first - zero, last - zero
    out = _Learned.apply(values, held, (low, high), grid, spec, rounding, bounds if joined else UNBOUNDED)
    return out if x.dtype is torch.float32 else out.to(x.dtype)


def _number(end: Tensor | float) -> float:
    return end.item() if isinstance(end, Tensor) else end


def within(x: Tensor, bounds: Bounds) -> Tensor:
    """x between bounds, by the function whose gradient is the fastest."""
    if bounds == UNBOUNDED:
        return x
    if bounds == (0, None):
        return torch.relu(x)
    return torch.clamp(x, *bounds) if None in bounds else functional.hardtanh(x, *bounds)  # type: ignore[arg-type]


def _straight(x: Tensor, scale: float, bottom: int, top: int, rounding: str, bounds: Bounds) -> Tensor:
    """Clipped half a step outside of the grid, which has the gradient; then rounded in place, which has none.

    One division, one rounding, one multiplication, as the integer kernels do them; what was clipped is rounded to the
    ends of the grid. Nothing here is written in Python for autograd, and one tensor is allocated, as for a ReLU: what
    is allocated costs more than what is computed.
    """
    out = functional.hardtanh(x, *_clipped_at((scale, bottom, top), bounds))
    step = _step(x, scale)
    _round_(out.detach().div_(step), rounding).mul_(step)
    return out


def _step(x: Tensor, scale: float) -> Tensor:
    """The scale as a tensor, next to x. A number would be made one at each use, and a GPU multiplies by the reciprocal
    of a number."""
    return torch.scalar_tensor(scale, dtype=torch.float32, device=x.device)


def _round_(steps: Tensor, rounding: str) -> Tensor:
    return steps.add_(0.5).floor_() if rounding == "half_up" else steps.round_()


def fake_quantize_weight(weight: Tensor, spec: Weights, *, axis: int = 0, high: Tensor | None = None) -> Tensor:
    """A weight on its grid: that of its own range, or of the largest magnitudes `high`. Half to even always, because
    weights are rounded when the model is exported, not by the target.
    """
    if high is None and weight.dtype is torch.float32 and _is_plain(spec):
        return _unclipped(weight, spec, axis)
    high = weight_range(weight, spec, axis) if high is None else high.detach()
    if spec.block_size is not None:
        return _blockwise(weight, high, spec)
    scale, steps = weight_scale(high, spec), weight_steps(spec)
    if scale.dim():
        scale = scale.reshape([-1 if each == axis else 1 for each in range(weight.dim())])
    first = -steps - int(spec.power_of_two)
    out = _Straight.apply(weight.to(torch.float32), scale, first, steps)
    return out.to(weight.dtype)


def _is_plain(spec: Weights) -> bool:
    """Whether the range is that of the weight, so that nothing is clipped."""
    return spec.range == "minmax" and not spec.power_of_two and spec.block_size is None


def _unclipped(weight: Tensor, spec: Weights, axis: int) -> Tensor:
    """The usual case in few operations: a copy, which has the gradient, is rounded in place.

    float32 / integer is rounded once here and twice in `weight_scale`, to the same (53 bits are enough for that). A
    channel whose scale would be denormal has the smallest normal one instead of 1, a difference of 1e-36.
    """
    scale = weight.detach().abs()
    if not spec.per_channel:
        scale = scale.amax()
    elif weight.dim() > 1:
        scale = scale.amax([each for each in range(weight.dim()) if each != axis], keepdim=True)
    scale.div_(_step(weight, weight_steps(spec))).clamp_min_(_TINY)
    out = weight.clone()
    out.detach().div_(scale).round_().mul_(scale)
    return out


def _blockwise(weight: Tensor, high: Tensor, spec: Weights) -> Tensor:
    """Rows of [channels, inputs] in blocks, each with a scale of its own; the last may be short."""
    rows, size = weight.flatten(1), spec.block_size or 1
    blocks = functional.pad(rows, (0, -rows.shape[1] % size)).reshape(-1, size)
    out = fake_quantize_weight(blocks, replace(spec, block_size=None), high=high.reshape(-1))
    return out.reshape(rows.shape[0], -1)[:, : rows.shape[1]].reshape(weight.shape)


def follow_(held: Tensor, x: Tensor, averaging: float, bounds: Bounds = UNBOUNDED) -> tuple[float, float]:
    """Move a range, [low, high], towards that of a batch, and give it. A batch without finite values moves nothing."""
    ends = finite_ends(x, bounds)
    if ends is not None and held.is_cpu:  # two numbers: written as an array, without kernels
        numbers = held.numpy()
        low, high = numbers.tolist()
        numbers[:] = low + averaging * (ends[0] - low), high + averaging * (ends[1] - high)
    elif ends is not None:
        held.lerp_(torch.tensor(ends, device=held.device), averaging)
    low, high = held.tolist()
    return low, high


def finite_ends(x: Tensor, bounds: Bounds = UNBOUNDED) -> tuple[float, float] | None:
    """The smallest and the largest finite value, between bounds; None where there is none. After a ReLU the smallest is
    taken to be zero, which every grid has, and not looked for."""
    x = x.detach()
    if x.numel() == 0:
        return None
    low, high = _ends(x, bounds)
    if not math.isfinite(high - low):
        x = x[x.isfinite()]
        if x.numel() == 0:
            return None
        low, high = _ends(x, bounds)
    if bounds == UNBOUNDED:
        return low, high
    least, most = (-math.inf if bounds[0] is None else bounds[0]), (math.inf if bounds[1] is None else bounds[1])
    return min(max(low, least), most), min(max(high, least), most)


def _ends(x: Tensor, bounds: Bounds) -> tuple[float, float]:
    if bounds[0] == 0:
        return 0.0, x.amax().item()
    if x.numel() > _LARGE:
        return x.amin().item(), x.amax().item()
    low, high = torch.aminmax(x)
    return low.item(), high.item()


_LARGE = 16384  # values from which on two passes take less time than aminmax (PyTorch 2.13: 13 and 17 us for 64,000)


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


class _Straight(torch.autograd.Function):
    """A weight whose grid may clip it. `low` and `high` are in steps."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, scale: Tensor, low: int, high: int) -> Tensor:
        ratio = x / scale
        ctx.save_for_backward(ratio)
        ctx.ends = low - 0.5, high + 0.5
        return torch.round(ratio).clamp_(low, high).mul_(scale)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        return _hardtanh_backward(grads[0], *ctx.saved_tensors, *ctx.ends), None, None, None


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
        held: Tensor,
        ends: tuple[float, float],
        grid: tuple[float, int, int],
        spec: Activations,
        rounding: str,
        bounds: Bounds,
    ) -> Tensor:
        scale, bottom, top = grid
        step = _step(x, scale)
        out = _round_(x / step, rounding).clamp_(bottom, top).mul_(step)
        ctx.save_for_backward(x, out)
        ctx.rest = held.device, ends, grid, spec, bounds
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x, out = ctx.saved_tensors
        device, ends, grid, spec, bounds = ctx.rest
        passed = _hardtanh_backward(grads[0], x, *_clipped_at(grid, bounds))
        nothing = (None,) * 5
        if not ctx.needs_input_grad[1]:
            return passed, None, *nothing
        sums = _gradients_in_steps(grads[0], passed, x, out, grid, bounds)
        return passed, torch.tensor(_gradients_of_ends(sums, ends, grid, spec, x.numel()), device=device), *nothing


def _gradients_in_steps(
    grad: Tensor, passed: Tensor, x: Tensor, out: Tensor, grid: tuple[float, int, int], bounds: Bounds
) -> tuple[float, float, float]:
    """The sums of the gradients at the bottom and at the top of a grid, and of those inside times their rounding error.

    By sums of products alone, which allocate nothing: what is clipped has one of two values, so the sum of
    the gradients that did not pass, and the same with `out`, tell how much of it was at which end. After a ReLU the
    bottom is zero, where no gradient counts.
    """
    scale, bottom, top = grid
    grad, passed, x, out = (each.reshape(-1) for each in (grad, passed, x, out))
    inside = torch.dot(passed, out).item()
    error = (inside - torch.dot(passed, x).item()) / scale
    clipped = (torch.dot(grad, out).item() - inside) / scale
    if bounds[0] is not None:
        return 0.0, clipped / top, error
    total = (grad.sum() - passed.sum()).item()
    at_top = (clipped - bottom * total) / (top - bottom)
    return total - at_top, at_top, error


def _gradients_of_ends(
    sums: tuple[float, float, float],
    ends: tuple[float, float],
    grid: tuple[float, int, int],
    spec: Activations,
    count: int,
) -> tuple[float, float]:
    """What `_gradients_in_steps` found, by the chain rule of `_Learned`, in LSQ's proportion."""
    at_bottom, at_top, error = sums
    scale, bottom, top = grid
    low, high = min(ends[0], 0.0), max(ends[1], 0.0)
    if spec.symmetric:
        steps = (1 << (spec.bits - 1)) - 1
        to_scale = error + at_top * top + at_bottom * bottom
        to_high = to_scale * (scale / max(high, -low, _TINY))
        to_low = -to_high
    else:
        steps, offset = top - bottom, low / scale  # the zero point, before it was rounded, is -offset
        to_scale = error + at_top * (top - offset) + at_bottom * (bottom - offset)
        to_high = to_scale * (scale / max(high - low, _TINY))
        to_low = at_top + at_bottom - to_high
    size = steps**1.5 / math.sqrt(count)
    return to_low * size if ends[0] else 0.0, to_high * size if ends[1] else 0.0


def _clipped_at(grid: tuple[float, int, int], bounds: Bounds) -> tuple[float, float]:
    """The values outside of which nothing passes: half a step outside of the grid, or the bounds. Half a step but for
    some millionths of the value, so that these are rounded to the ends of the grid and not beyond."""
    scale, bottom, top = grid
    least, most = (bottom - 0.5) * _NEARLY * scale, (top + 0.5) * _NEARLY * scale
    if bounds != UNBOUNDED:
        low, high = (None if bound is None else min(max(bound, least), most) for bound in bounds)
        least = least if low is None else low
        most = most if high is None else max(least, high)
    return least, most
