"""Fake quantization with a range that is learned: its ends get gradients (LSQ, LSQ+, TQT)."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from .. import native
from ..config.settings import Activations
from ..native import UNBOUNDED, Bounds, Steps
from .fake_quantize import as_float32, round_to_steps, within
from .plain_grids import steps_of
from .sites import Site

_TINY = torch.finfo(torch.float32).tiny
_hardtanh_backward = torch.ops.aten.hardtanh_backward.default


def fake_quantize_learned(x: Tensor, held: Tensor, site: Site, bounds: Bounds = UNBOUNDED) -> Tensor | None:
    """An activation on the grid of the range of a site, [low, high], which is one tensor so that autograd has one
    gradient to keep. None if what the site has seen were masks."""
    steps = steps_of(held, site, bounds)
    if steps is None:
        return None
    values = as_float32(x)
    # A ReLU is part of a grid that begins at zero; any other bound comes before it.
    joined = bounds == (0, None) and steps.bottom == 0
    if not joined and bounds != UNBOUNDED:
        values = within(values, bounds)
        steps = steps_of(held, site)
    loops = native.reads(values) and native.holds(held)
    apply = _apply if loops else _Learned.apply
    out: Tensor = apply(values, held, (steps, site.settings, site.rounding, joined, loops))
    return out if x.dtype is torch.float32 else out.to(x.dtype)


class _Learned(torch.autograd.Function):
    """Straight-through for the values, and gradients for the ends of the range.

    Rounding, also that of the zero point, is taken as straight through:
     - a clipped value is an end of the grid: it moves the end of the range that clips it;
     - a value inside moves with the scale by its rounding error in steps, and the scale by scale / span with an end.
       For a power of two the same: the jump to the next power is straight through too, as in TQT.

    The sums grow with the number of values, and how large a threshold is next to a weight depends on the number of
    steps. As in LSQ they are scaled so that thresholds and weights change at similar rates, and one learning rate
    serves both, but never made larger than they are (`_counted`). A symmetric range has one threshold: both ends get
    its gradient, with opposite signs. An end that is exactly zero stays there: after a ReLU the zero point has to
    remain 0.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, held: Tensor, rest: tuple[Steps, Activations, str, bool, bool]) -> Tensor:
        steps, _, rounding, _, loops = ctx.rest = rest
        if loops:
            out = native.round_limited(x, *steps[:3], rounding == "half_up")
        else:
            out = _rounded(x, steps, rounding)
        ctx.save_for_backward(x, held)
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (x, held), grad = ctx.saved_tensors, grads[0]
        steps, spec, rounding, after_relu, loops = ctx.rest
        if not ctx.needs_input_grad[1]:
            return _hardtanh_backward(grad, x, steps.low, steps.high), None, None
        if loops and (slopes := native.aligned(grad, x)) is not None:
            how = spec.symmetric, rounding == "half_up", after_relu
            passed, ends = native.gradients(slopes, x, held, steps, *how, _counted(x.numel(), spec))
            return passed, ends, None
        passed = _hardtanh_backward(grad, x, steps.low, steps.high)
        sums = _gradients_in_steps(grad, passed, x, _rounded(x, steps, rounding), steps)
        if after_relu:  # the bottom is zero, where no gradient counts
            sums = 0.0, *sums[1:]
        low, high = held.tolist()
        of_ends = _gradients_of_ends(sums, (low, high), steps, spec, _counted(x.numel(), spec))
        return passed, torch.tensor(of_ends, device=held.device), None


# Without the care for transforms such as vmap: `native.reads` has seen that there is none.
_apply = super(torch.autograd.Function, _Learned).apply


def _counted(values: int, spec: Activations) -> int:
    """The number of values that LSQ's proportion, steps**1.5 / values**0.5, is computed from: at least so many that the
    proportion is no more than 1. A clipping bound shifts every clipped value, as a bias shifts every value, and a bias
    takes its gradient as it is. The proportion alone is hundreds for the outputs of 8 bits, and millions with 16: an
    end of the range then leaped over the other one at the first clipped value, unless the optimizer was one that does
    not see how large gradients are."""
    steps = (1 << (spec.bits - int(spec.symmetric))) - 1
    return max(values, steps**3)


def _rounded(x: Tensor, steps: Steps, rounding: str) -> Tensor:
    return round_to_steps(x.detach().clone(), steps.scale, rounding, (steps.bottom, steps.top))


def _gradients_in_steps(
    grad: Tensor, passed: Tensor, x: Tensor, out: Tensor, steps: Steps
) -> tuple[float, float, float]:
    """The sums of the gradients at the bottom and at the top of a grid, and of those inside times their rounding error,
    for which `out` is used up.

    By sums of products alone, which allocate nothing: what is clipped has one of two values, so the sum of
    the gradients that did not pass, and the same with `out`, tell how much of it was at which end.
    """
    grad, passed, x, out = (each.reshape(-1) for each in (grad, passed, x, out))
    clipped = (torch.dot(grad, out).item() - torch.dot(passed, out).item()) / steps.scale
    error = torch.dot(passed, out.sub_(x)).item() / steps.scale
    total = (grad.sum() - passed.sum()).item()
    at_top = (clipped - steps.bottom * total) / (steps.top - steps.bottom)
    return total - at_top, at_top, error


def _gradients_of_ends(
    sums: tuple[float, float, float], ends: tuple[float, float], steps: Steps, spec: Activations, count: int
) -> tuple[float, float]:
    """What `_gradients_in_steps` found, by the chain rule of `_Learned`, in LSQ's proportion."""
    at_bottom, at_top, error = sums
    scale, bottom, top = steps.scale, steps.bottom, steps.top
    low, high = min(ends[0], 0.0), max(ends[1], 0.0)
    if spec.symmetric:
        number = (1 << (spec.bits - 1)) - 1
        to_scale = error + at_top * top + at_bottom * bottom
        to_high = to_scale * (scale / max(high, -low, _TINY))
        to_low = -to_high
    else:
        number, offset = top - bottom, low / scale  # the zero point, before it was rounded, is -offset
        to_scale = error + at_top * (top - offset) + at_bottom * (bottom - offset)
        to_high = to_scale * (scale / max(high - low, _TINY))
        to_low = at_top + at_bottom - to_high
    size = number**1.5 / math.sqrt(max(count, 1))  # of no values all sums are 0
    return to_low * size if ends[0] else 0.0, to_high * size if ends[1] else 0.0
