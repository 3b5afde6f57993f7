"""Fake quantization, for training: floats that lie on the grid, with gradients that pass straight through.

The gradient of the values is 1 where they are inside the grid and 0 where they are clipped. The ends of the range
follow the batches (`plain_grids.follow`), or are learned (`learned.py`). Everything is computed in float32, under
autocast and for float64 too, and comes back in the type of the input; in float32 it is dequantize(quantize(x)) to the
last bit.

Two or three passes over the values are all that it takes, with the loops of `native.py`. PyTorch has fused operators
for this (torch.fake_quantize_per_tensor_affine). They are not used: on the CPU they take six times as long as PyTorch's
vectorised operations one by one (2.13: 19.7 against 3.3 ms for 1.6 million values), and they multiply by the reciprocal
of the scale where the integer kernels divide, which differs next to ties.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from .. import native
from ..config.settings import Activations, Weights
from ..native import UNBOUNDED, Bounds
from .grid import weight_scale, weight_steps
from .plain_grids import follow, steps_between
from .ranges import weight_range
from .sites import Site

_TINY = torch.finfo(torch.float32).tiny
_LARGE = 1 << 17  # values from which on one pass less is worth a function for autograd that is written in Python
_hardtanh = torch._C._nn.hardtanh  # without the checks of torch.nn.functional.hardtanh
_hardtanh_backward = torch.ops.aten.hardtanh_backward.default


def fake_quantize(
    x: Tensor,
    low: Tensor | float,
    high: Tensor | float,
    spec: Activations,
    *,
    rounding: str = "half_even",
    bounds: Bounds = UNBOUNDED,
) -> Tensor:
    """An activation on the grid of the range from `low` to `high`, as it is between `bounds`."""
    values = as_float32(x)
    steps = steps_between(_number(low), _number(high), spec, bounds)
    clips = None
    if native.reads(values) and (ends := native.ends(values)) is not None:
        clips = not (steps.low < ends[0] and ends[1] < steps.high)
    out = _straight(values, steps.scale, steps.low, steps.high, clips, rounding)
    return out if x.dtype is torch.float32 else out.to(x.dtype)


def fake_quantize_following(x: Tensor, held: Tensor, site: Site, bounds: Bounds = UNBOUNDED) -> Tensor | None:
    """Put an activation on the grid of a site, whose range, [low, high], moves towards that of the batch. None if the
    site has seen masks."""
    values = as_float32(x)
    found = native.follow(values, held, site.settings, bounds) if native.reads(values) and native.holds(held) else None
    if found is not None:
        out = _straight(values, *found, site.rounding)
    else:
        steps = follow(held, values, site, bounds)
        if steps is None:
            return None
        out = _straight(values, steps.scale, steps.low, steps.high, None, site.rounding)
    return out if x.dtype is torch.float32 else out.to(x.dtype)


def as_float32(x: Tensor) -> Tensor:
    return x if x.dtype is torch.float32 else x.to(torch.float32)


def _number(end: Tensor | float) -> float:
    return end.item() if isinstance(end, Tensor) else end


def within(x: Tensor, bounds: Bounds) -> Tensor:
    """x between bounds, by the function whose gradient is the fastest."""
    if bounds == UNBOUNDED:
        return x
    if bounds == (0, None):
        return torch.relu(x)
    return torch.clamp(x, *bounds) if None in bounds else functional.hardtanh(x, *bounds)  # type: ignore[arg-type]


def _straight(x: Tensor, scale: float, low: float, high: float, clips: bool | None, rounding: str) -> Tensor:
    """Clipped half a step outside of the grid, which has the gradient; then rounded in place, which has none.

    One division, one rounding, one multiplication, as the integer kernels do them; what was clipped is rounded to the
    ends of the grid. But for large tensors nothing is written in Python for autograd, and one tensor is allocated, as
    for a ReLU: what is allocated costs more than what is computed. `clips` says whether values are clipped, if the
    loops of `native.py` have looked: where none is a copy does, whose gradient is the one that comes.
    """
    if clips is None:
        out = _hardtanh(x, low, high)
        round_to_steps(out.detach(), scale, rounding)
        return out
    if clips and x.numel() >= _LARGE:
        limited: Tensor = _Limited.apply(x, scale, low, high, rounding == "half_up")
        return limited
    out = _hardtanh(x, low, high) if clips else x.clone()
    native.round_(out, scale, rounding == "half_up")
    return out


def round_to_steps(x: Tensor, scale: float, rounding: str, ends: tuple[int, int] | None = None) -> Tensor:
    """In place, in PyTorch's own operations: x to the nearest multiple of a scale, no further than `ends` of them."""
    step = _step(x, scale)
    x.div_(step)
    x = x.add_(0.5).floor_() if rounding == "half_up" else x.round_()
    if ends is not None:
        x.clamp_(*ends)
    return x.mul_(step)


def _step(x: Tensor, scale: float) -> Tensor:
    """The scale as a tensor, next to x. A number would be made one at each use, and a GPU multiplies by the reciprocal
    of a number."""
    return torch.scalar_tensor(scale, dtype=torch.float32, device=x.device)


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
    if native.reads(weight) and weight.is_contiguous():
        out = weight.clone()
        native.round_weight_(out, axis if spec.per_channel else None, weight_steps(spec))
        return out
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


class _Limited(torch.autograd.Function):
    """Clipping and rounding of a large tensor in one pass. It keeps a byte for each value and not the value."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, scale: float, low: float, high: float, half_up: bool) -> Tensor:
        inside = torch.empty_like(x, dtype=torch.bool)
        out = native.round_limited(x, scale, low, high, half_up, inside)
        ctx.save_for_backward(inside)
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        grad, (inside,) = grads[0], ctx.saved_tensors
        if (slopes := native.aligned(grad, inside)) is not None:
            return native.keep(slopes, inside), None, None, None, None
        return grad * inside, None, None, None, None  # also for a gradient of the gradient


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
