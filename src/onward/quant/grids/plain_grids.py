"""The grid of a range in plain numbers, for training: one range after another, at every site and every step.

`grid.py` has the same for tensors, which evaluation and export need. Here it is to the last bit what that gives, for a
tenth of the time; and what `_native.c` gives, for a tenth of that.
"""

from __future__ import annotations

import math
from ctypes import c_float

import torch
from torch import Tensor

from .. import native
from ..config.settings import Activations
from ..native import UNBOUNDED, Bounds, Steps
from .sites import MASK, Site

_TINY = torch.finfo(torch.float32).tiny
_NEARLY = 1 - 2.0**-22  # four units in the last place of a float32
_LARGE = 16384  # values from which on two passes take less time than aminmax (PyTorch 2.13: 13 and 17 us for 64,000)

_SPOILT = Steps(0.0, 0.0, 0.0, 0, 0)  # what there is instead of the grid of a range that is not finite


def steps_between(low: float, high: float, spec: Activations, bounds: Bounds = UNBOUNDED) -> Steps:
    """The grid of the range from `low` to `high`.

    Nothing passes half a step outside of it, or outside of the bounds. Half a step but for some millionths of the
    value, so that these are rounded to the ends of the grid and not beyond.
    """
    scale, zero, first, last = plain_scale_and_zero_point(low, high, spec)
    bottom, top = first - zero, last - zero
    least, most = (bottom - 0.5) * _NEARLY * scale, (top + 0.5) * _NEARLY * scale
    if bounds != UNBOUNDED:
        low_bound, high_bound = (None if bound is None else min(max(bound, least), most) for bound in bounds)
        least = least if low_bound is None else low_bound
        most = most if high_bound is None else max(least, high_bound)
    return Steps(scale, least, most, bottom, top)


def steps_of(held: Tensor, site: Site, bounds: Bounds = UNBOUNDED) -> Steps | None:
    """The grid of the range of a site, [low, high]; None if the range is that of a mask."""
    if native.holds(held):
        steps = native.steps_of(held, site.settings, bounds)
    else:
        low, high = held.tolist()
        steps = _steps_of_range(low, high, site.settings, bounds)
    return _checked(steps, held, site)


def follow(held: Tensor, x: Tensor, site: Site, bounds: Bounds = UNBOUNDED) -> Steps | None:
    """The grid of a site after its range has moved towards that of a batch. A batch without finite values moves
    nothing."""
    low, high = held.tolist()
    if not low < MASK and math.isfinite(high - low):
        low, high = follow_(held, x, site.settings.averaging, bounds)
    return _checked(_steps_of_range(low, high, site.settings, bounds), held, site)


def _steps_of_range(low: float, high: float, spec: Activations, bounds: Bounds) -> Steps | None:
    if low < MASK:
        return None
    return steps_between(low, high, spec, bounds) if math.isfinite(high - low) else _SPOILT


def _checked(steps: Steps | None, held: Tensor, site: Site) -> Steps | None:
    if steps is not None and steps.scale == 0:
        site.check(*held.tolist())
    return steps


def follow_(held: Tensor, x: Tensor, averaging: float, bounds: Bounds = UNBOUNDED) -> tuple[float, float]:
    """Move the range and give its ends."""
    ends = finite_ends(x, bounds)
    if ends is not None:
        low, high = held.tolist()
        moved = low + averaging * (ends[0] - low), high + averaging * (ends[1] - high)
        held.copy_(torch.tensor(moved))
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


def plain_scale_and_zero_point(low: float, high: float, spec: Activations) -> tuple[float, int, int, int]:
    """`grid.scale_and_zero_point` of one range in plain numbers."""
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
