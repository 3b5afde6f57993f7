"""Transposed convolutions. onnxruntime has no integer kernel for them, so they are written as convolutions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from ...errors import InputError
from ..grids.grid import Grid
from .basic import centred, in_int32, requantize
from .parts import is_wide

_TRANSPOSED = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}


def conv_transpose(
    x: Tensor,
    gx: Grid,
    w: Tensor,
    gw: Grid,
    bias: Tensor | None,
    gy: Grid,
    stride: Sequence[int] = (),
    padding: Sequence[int] = (),
    output_padding: Sequence[int] = (),
    dilation: Sequence[int] = (),
    groups: int = 1,
) -> Tensor:
    """A transposed convolution in one to three dimensions; w is (in, out / groups, ...) as torch has it.

        the pattern of conv with `as_convolution`, its pads, and bias and scales `spread` over the phases
        -> Transpose, Reshape, Transpose, Reshape, Transpose (`weave`) -> Slice (the crops)
        -> QLinearConv, and the others on the integers

    Exact under the conditions of `conv`; what is done to the integers after it only moves them. With stride 1 it is
    the convolution alone. gw has one scale, or one for each output channel: along axis 1, or along axis 0 where every
    channel is its own group.
    """
    rank = x.dim() - 2
    total = conv_transpose_sums(x, gx, w, gw.zero_point, bias, stride, padding, output_padding, dilation, groups)
    factor = gx.scale * output_scales(gw, w, groups) / gy.scale
    return requantize(total, factor.reshape(-1, *[1] * rank) if factor.dim() else factor, gy)


def conv_transpose_sums(
    x: Tensor,
    gx: Grid,
    w: Tensor,
    w_zero: int,
    bias: Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    output_padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> Tensor:
    """The sums alone, as int32 has them unless they are of sixteen bits, in float64."""
    total = _TRANSPOSED[w.dim() - 2](
        centred(x, gx).to(torch.float64),
        w.to(torch.float64) - w_zero,
        None if bias is None else bias.to(torch.float64),
        list(stride) or 1,
        list(padding) or 0,
        list(output_padding) or 0,
        groups,
        list(dilation) or 1,
    )
    return total if is_wide(x) else in_int32(total)


def output_scales(gw: Grid, w: Tensor, groups: int) -> Tensor:
    """The weight's scale for each output channel, or the one that all have."""
    if gw.axis is None:
        return gw.scale
    if gw.axis == 1:
        return gw.scale.repeat(groups)
    if gw.axis == 0 and w.shape[0] == groups and w.shape[1] == 1:
        return gw.scale
    raise InputError(
        f"a transposed convolution with {groups} groups cannot have one scale for each index of its weight's axis "
        f"{gw.axis}",
        hint="one scale for all, or one for each output channel: axis 1, or axis 0 where every channel is a group",
    )


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


def phases(
    kernel_shape: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    output_padding: Sequence[int],
    dilation: Sequence[int],
) -> Phases:
    """Nothing depends on the size of the input. Padding that exceeds the kernel is cut off afterwards."""
    kernel = [d * (k - 1) + 1 for d, k in zip(dilation, kernel_shape, strict=True)]
    taps = [-(-k // s) for k, s in zip(kernel, stride, strict=True)]
    begins = [t - 1 - p // s for t, p, s in zip(taps, padding, stride, strict=True)]
    rows = list(zip(kernel, output_padding, padding, stride, strict=True))
    ends = [-(-(k + o - p) // s) - 1 for k, o, p, s in rows]
    first = [p % s for p, s in zip(padding, stride, strict=True)]
    last = [s * (end + 1) + p - k - o for end, (k, o, p, s) in zip(ends, rows, strict=True)]
    missing = [s * max(-each, 0) for each, s in zip(begins + ends, [*stride, *stride], strict=True)]
    crops = [one + other for one, other in zip(first + last, missing, strict=True)]
    return Phases(taps, [max(each, 0) for each in begins + ends], crops)


def as_convolution(
    w: Tensor, taps: Sequence[int], stride: Sequence[int], dilation: Sequence[int], groups: int
) -> Tensor:
    """Output s*m + r (r < s, its phase) takes taps r, s + r, 2s + r, ... of the kernel: a small kernel for each phase.

    w is (out, in / groups, ...), out being that of all groups, and the result (groups * phases * out / groups, in /
    groups, ...): the output channels of one phase are neighbours. Taps that some phases lack are zero.
    """
    rank = w.dim() - 2
    inputs = w.shape[1]
    for axis, (t, s, d) in enumerate(zip(taps, stride, dilation, strict=True)):
        w = w.movedim(2 + axis, -1).unsqueeze(-1)
        w = F.pad(w, (0, d - 1)).flatten(-2)  # zeros between the taps of a dilated kernel
        w = F.pad(w, (0, t * s - w.shape[-1])).movedim(-1, 2 + axis)
    split = w.reshape(groups, -1, inputs, *[n for pair in zip(taps, stride, strict=True) for n in pair])
    split = split.flip([3 + 2 * axis for axis in range(rank)])
    order = [0, *[4 + 2 * axis for axis in range(rank)], 1, 2, *[3 + 2 * axis for axis in range(rank)]]
    return split.permute(order).reshape(-1, inputs, *taps)


def turned(w: Tensor, groups: int) -> Tensor:
    """The weight of a transposed convolution, (in, out / groups, ...), as that of a convolution has its axes, (out,
    in / groups, ...), and one that was turned as it was before."""
    if groups == 1:
        return w.transpose(0, 1)
    return w.unflatten(0, (groups, -1)).transpose(1, 2).flatten(0, 1)


def spread(x: Tensor, phases: int, groups: int) -> Tensor:
    """What every output channel has (a scale, a bias) for every channel of the convolution."""
    return x.reshape(groups, 1, -1).expand(groups, phases, -1).reshape(-1)


def weave(q: Tensor, stride: Sequence[int], crops: Sequence[int], groups: int) -> Tensor:
    """The phases that the convolution put into its channels, side by side in space, without the crops.

    With the channels last, as onnxruntime's integer convolutions have them anyway: then rows are moved, and the
    Transposes at both ends meet those of its neighbours. DepthToSpace, which moves elements, takes twice as long.
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
