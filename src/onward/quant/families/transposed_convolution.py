"""Transposed convolutions. onnxruntime has no integer kernel for them, but one for the convolution that computes all
phases of their result at once:

    the pattern of a convolution with `as_convolution`, its pads, and bias and scales `spread` over the phases
    -> Transpose, Reshape, Transpose, Reshape, Transpose (`weave`) -> Slice (the crops)
    -> QLinearConv, and the others on the integers

Exact under the conditions of a convolution; what is done to the integers after it only moves them. With stride 1 it is
the convolution alone. Linger's chips, and activations of 16 bits, have the transposed convolution itself.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ...lower.bridge import as_dim
from ...lower.emitter import Emitter, Value
from ..exact.declare import GridValues, exact
from ..exact.integers import ROUNDING_IS_TOLD, around_zero, dequantized
from ..exact.sums import in_int32, integer_sums, is_wide, rescale, values_of_sums
from ..grids.grid import Grid
from ..run.handlers import WEIGHT_ONLY, handles
from ..run.overflow import IN_FLOAT32, warn_of_overflow
from ..run.session import QuantSession
from ..run.states import Product
from .convolution import Sliding, conv
from .product import compute, pair, with_stored_weight

_TRANSPOSED = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}


@dataclass(frozen=True)
class Spreading:
    """How a kernel is spread over the result."""

    stride: list[int]
    padding: list[int]
    output_padding: list[int]
    dilation: list[int]
    groups: int


@exact
def conv_transpose(x: Tensor, x_grid: Grid, w: Tensor, w_grid: Grid, bias: Tensor | None, at: Spreading) -> Tensor:
    """The sums, as int32 has them unless they are of sixteen bits. w is (in, out / groups, ...) and has one scale, or
    one for every output channel of all groups."""
    total = _TRANSPOSED[w.dim() - 2](
        around_zero(x, x_grid).to(torch.float64),
        w.to(torch.float64),
        None if bias is None else bias.to(torch.float64),
        at.stride,
        at.padding,
        at.output_padding,
        at.groups,
        at.dilation,
    )
    return (total if is_wide(x) else in_int32(total)).to(torch.float32)


@conv_transpose.shape
def _(x: Tensor, x_grid: GridValues, w: Tensor, w_grid: GridValues, bias: Tensor | None, at: Spreading) -> Tensor:
    rows = zip(x.shape[2:], w.shape[2:], at.stride, at.padding, at.output_padding, at.dilation, strict=True)
    sizes = [(n - 1) * s - 2 * p + d * (k - 1) + o + 1 for n, k, s, p, o, d in rows]
    return x.new_empty([x.shape[0], w.shape[1] * at.groups, *sizes], dtype=torch.float32)


@conv_transpose.lowers()
def _(
    g: Emitter, x: Value, x_grid: GridValues, w: Value, w_grid: GridValues, bias: Value | None, at: Spreading
) -> Value:
    """For a chip the values are multiplied, which it knows how to do in integers. A runtime adds up integers too, in
    one convolution of all phases of the result. Of 16 bits it computes in float, and gets whole numbers, whose sums are
    exact up to 2**24."""
    x_scale, w_scale = x_grid.scale, w_grid.scale
    factor = g.op.Mul(x_scale, w_scale)
    is_told = ROUNDING_IS_TOLD.get()
    weight = g.value_of(w)
    if not is_told and weight is not None and g.dtype(x) is torch.uint8:
        plan = phases(weight.shape[2:], at)
        kernel = as_convolution(turned(weight, at.groups), plan.taps, at)
        return values_of_sums(g, _of_phases(g, x, x_grid.zero_point, kernel, plan, at), bias, factor)
    one = g.like(x_scale, 1.0)
    operands = [
        dequantized(g, x, x_scale if is_told else one, x_grid.zero_point),
        dequantized(g, w, w_scale if is_told else one, 0, 1 if is_told and g.rank(w_scale) else None),
    ]
    if bias is not None:
        axis = 0 if g.rank(w_scale) else None
        operands.append(dequantized(g, bias, factor, 0, axis) if is_told else g.cast(bias, torch.float32))
    sums = g.op.ConvTranspose(
        *operands,
        strides=at.stride,
        pads=at.padding * 2,
        output_padding=at.output_padding,
        dilations=at.dilation,
        group=at.groups,
        kernel_shape=list(g.known_dims(w))[2:],
    )
    if is_told:
        return sums
    rank = len(at.stride)
    return g.op.Mul(sums, g.unsqueeze(factor, list(range(1, 1 + rank))) if g.rank(factor) else factor)


def _of_phases(g: Emitter, x: Value, x_zero: int, kernel: Tensor, plan: Phases, at: Spreading) -> Value:
    """The sums of all phases, side by side in space and without the crops: `weave` in nodes."""
    rank, count = len(at.stride), math.prod(at.stride)
    batch, _, *sizes = (g.dim_size(x, axis) for axis in range(2 + rank))
    pads = zip(plan.pads[:rank], plan.pads[rank:], plan.taps, strict=True)
    sizes = [size + begin + end - taps + 1 for size, (begin, end, taps) in zip(sizes, pads, strict=True)]
    channels = kernel.shape[0] // count
    dims = [as_dim(each) for each in (batch, kernel.shape[0], *sizes)]
    sums = integer_sums(g, x, g.const(x_zero, torch.uint8), kernel, dims, pads=plan.pads, group=at.groups)
    if count > 1:
        sums = g.reshape(sums, [batch, at.groups, *at.stride, channels // at.groups, *sizes])
        order = [each for axis in range(rank) for each in (3 + rank + axis, 2 + axis)]
        sums = g.op.Transpose(sums, perm=[0, 1, 2 + rank, *order])
        sums = g.reshape(sums, [batch, channels, *(size * step for size, step in zip(sizes, at.stride, strict=True))])
    if not any(plan.crops):
        return sums
    ends = [-last or 2**31 - 1 for last in plan.crops[rank:]]
    return g.slice(sums, plan.crops[:rank], ends, list(range(2, 2 + rank)))


# As a convolution


@dataclass(frozen=True)
class Phases:
    """The convolution that computes all phases of a transposed convolution at once; its strides and dilations are 1.

    taps          the size of its kernel
    pads          ONNX's order
    crops         how much is cut off at the beginning and end of each axis, ONNX's order, once the phases are woven
    """

    taps: list[int]
    pads: list[int]
    crops: list[int]


def phases(kernel_shape: Sequence[int], at: Spreading) -> Phases:
    """Nothing depends on the size of the input. Padding that exceeds the kernel is cut off afterwards."""
    stride, padding = at.stride, at.padding
    kernel = [d * (k - 1) + 1 for d, k in zip(at.dilation, kernel_shape, strict=True)]
    taps = [-(-k // s) for k, s in zip(kernel, stride, strict=True)]
    begins = [t - 1 - p // s for t, p, s in zip(taps, padding, stride, strict=True)]
    rows = list(zip(kernel, at.output_padding, padding, stride, strict=True))
    ends = [-(-(k + o - p) // s) - 1 for k, o, p, s in rows]
    first = [p % s for p, s in zip(padding, stride, strict=True)]
    last = [s * (end + 1) + p - k - o for end, (k, o, p, s) in zip(ends, rows, strict=True)]
    missing = [s * max(-each, 0) for each, s in zip(begins + ends, [*stride, *stride], strict=True)]
    crops = [one + other for one, other in zip(first + last, missing, strict=True)]
    return Phases(taps, [max(each, 0) for each in begins + ends], crops)


def as_convolution(w: Tensor, taps: Sequence[int], at: Spreading) -> Tensor:
    """Output s*m + r (r < s, its phase) takes taps r, s + r, 2s + r, ... of the kernel: a small kernel for each phase.

    w is (out, in / groups, ...), out being that of all groups, and the result (groups * phases * out / groups, in /
    groups, ...): the output channels of one phase are neighbors. Taps that some phases lack are zero.
    """
    rank = w.dim() - 2
    inputs = w.shape[1]
    for axis, (t, s, d) in enumerate(zip(taps, at.stride, at.dilation, strict=True)):
        w = w.movedim(2 + axis, -1).unsqueeze(-1)
        w = F.pad(w, (0, d - 1)).flatten(-2)  # zeros between the taps of a dilated kernel
        w = F.pad(w, (0, t * s - w.shape[-1])).movedim(-1, 2 + axis)
    split = w.reshape(at.groups, -1, inputs, *[n for pair in zip(taps, at.stride, strict=True) for n in pair])
    split = split.flip([3 + 2 * axis for axis in range(rank)])
    order = [0, *[4 + 2 * axis for axis in range(rank)], 1, 2, *[3 + 2 * axis for axis in range(rank)]]
    return split.permute(order).reshape(-1, inputs, *taps)


def turned(w: Tensor, groups: int) -> Tensor:
    """The weight of a transposed convolution, (in, out / groups, ...), with its axes in the order of a convolution,
    (out, in / groups, ...). Turned a second time, it is as it was before."""
    if groups == 1:
        return w.transpose(0, 1)
    return w.unflatten(0, (groups, -1)).transpose(1, 2).flatten(0, 1)


def spread(x: Tensor, phases: int, groups: int) -> Tensor:
    """What every output channel has (a scale, a bias) for every channel of the convolution."""
    return x.reshape(groups, 1, -1).expand(groups, phases, -1).reshape(-1)


def weave(q: Tensor, stride: Sequence[int], crops: Sequence[int], groups: int) -> Tensor:
    """The phases that the convolution put into its channels, side by side in space, without the crops.

    With the channels last, as onnxruntime's integer convolutions have them anyway: then rows are moved, and the
    Transposes at both ends meet those of its neighbors. DepthToSpace, which moves elements, takes twice as long.
    """
    rank = len(stride)
    if max(stride) > 1:
        batch, _, *sizes = q.shape
        rows = q.movedim(1, -1)
        if groups == 1:
            rows = rows.reshape(batch, *sizes, *stride[:-1], -1)
            order = [0, *[each for axis in range(1, rank) for each in (axis, rank + axis)], rank, 2 * rank]
        else:
            rows = rows.reshape(batch, *sizes, groups, *stride, -1)
            order = [0, *[each for axis in range(1, rank + 1) for each in (axis, rank + 1 + axis)]]
            order += [rank + 1, 2 * rank + 2]
        rows = rows.permute(order) if order != sorted(order) else rows
        woven = rows.reshape(batch, *[n * s for n, s in zip(sizes, stride, strict=True)], -1)
        q = woven.movedim(-1, 1)
    kept = [slice(first, -last or None) for first, last in zip(crops[:rank], crops[rank:], strict=True)]
    inside = (slice(None), slice(None), *kept)
    return q[inside] if any(crops) else q


# Functions


@handles(F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)
def transposed_convolution(
    session: QuantSession,
    func: Any,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Any:
    rank = weight.dim() - 2
    if input.dim() == rank + 1:
        options = (bias, stride, padding, output_padding, groups, dilation)
        return session.composed(lambda: func(input.unsqueeze(0), weight, *options).squeeze(0))
    call = session.call("conv_transpose")
    if session.for_a_chip and groups > 1:  # it has one scale, and no place for those of the channels of several groups
        call = call.with_weights(per_channel=False)
    x = session.settle(input, call.site("input"))
    steps, pads, more, dilations = (pair(each, rank) for each in (stride, padding, output_padding, dilation))
    at = Spreading(steps, pads, more, dilations, groups)

    def in_float(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        weight = turned(weight, groups)
        result: Tensor = func(x, weight, bias, stride, padding, output_padding, groups, dilation)
        return result

    def in_whole_numbers(x: Tensor, x_grid: Grid, w: Tensor, w_grid: Grid, bias: Tensor | None) -> Tensor:
        return conv_transpose(x, x_grid, turned(w, groups), w_grid, bias, at)

    def exactly(x: Tensor, x_grid: Grid, w: Tensor, w_grid: Grid, bias: Tensor | None) -> Tensor:
        warn_of_overflow(session.controller, call, x_grid, w, bias, IN_FLOAT32)
        sums = in_whole_numbers(x, x_grid, w, w_grid, bias)
        return rescale(sums, x_grid, w_grid, -1 - rank if w_grid.per_channel else None)

    product = Product(x, turned(weight, groups), bias, 0, -1 - rank, in_float, exact=exactly)
    if session.for_a_chip:
        return compute(session, call, replace(product, in_integers=in_whole_numbers))
    plan = phases(weight.shape[2:], at)
    ones = [1] * rank

    def in_integers(x: Tensor, x_grid: Grid, w: Tensor, w_grid: Grid, bias: Tensor | None) -> Tensor:
        kernel = as_convolution(w, plan.taps, at)
        return conv(x, x_grid, kernel, w_grid, bias, Sliding(ones, plan.pads, ones, groups))

    over_phases = functools.partial(spread, phases=math.prod(at.stride), groups=groups)
    woven = functools.partial(weave, stride=at.stride, crops=plan.crops, groups=groups)
    return compute(session, call, replace(product, in_integers=in_integers, spread=over_phases, woven=woven))


@handles(F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d, table=WEIGHT_ONLY)
def with_integer_weight(
    session: QuantSession, func: Any, input: Tensor, weight: Tensor, *args: Any, **kwargs: Any
) -> Any:
    """The weight is stored with its output channels first, which are spread over the second axis and the groups, so
    that each has a scale."""
    spec = session.call("conv_transpose").settings.weights
    groups = args[4] if len(args) > 4 else kwargs.get("groups", 1)  # bias, stride, padding, output_padding, groups
    turn = functools.partial(turned, groups=groups)
    return with_stored_weight(session, func, input, weight, args, kwargs, spec, turn)
