"""Transposed convolutions. onnxruntime has no integer kernel for them, so they are written as convolutions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from ...errors import InputError
from ..grid import Grid
from .basic import centred, requantize

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

        the pattern of conv with `as_convolution(w, ...)`, its pads, and bias and scales repeated for each phase
        -> DepthToSpace(mode="CRD") (two dimensions, one stride), or Reshape, Transpose, Reshape -> Slice (the crops)
        -> QLinearConv, and the others on the integers

    Exact under the conditions of `conv`; what is done to the integers after it only moves them. With stride 1 it is
    the convolution alone. gw has one scale, or one for each output channel: along axis 1, or along axis 0 where every
    channel is its own group.
    """
    rank = x.dim() - 2
    total = _TRANSPOSED[rank](
        centred(x, gx).to(torch.float64),
        centred(w, gw).to(torch.float64),
        None if bias is None else bias.to(torch.float64),
        list(stride) or 1,
        list(padding) or 0,
        list(output_padding) or 0,
        groups,
        list(dilation) or 1,
    )
    factor = gx.scale * output_scales(gw, w, groups) / gy.scale
    return requantize(total, factor.reshape(-1, *[1] * rank) if factor.dim() else factor, gy)


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
class Convolution:
    """A transposed convolution as a convolution that computes all phases of the output at once.

    weight        (groups * out * phases, in / groups, ...): the phases of one output channel are neighbours
    pads          of the convolution, ONNX's order; its strides and dilations are 1
    crops         how much is cut off at the beginning and end of each axis, ONNX's order, once the phases are woven
    """

    weight: Tensor
    pads: list[int]
    crops: list[int]


def as_convolution(
    w: Tensor,
    zero_point: int,
    stride: Sequence[int],
    padding: Sequence[int],
    output_padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> Convolution:
    """Output s*m + r (r < s, its phase) takes taps r, s + r, 2s + r, ... of the kernel: a small kernel for each phase.

    Nothing depends on the size of the input. Taps that some phases lack are filled with the weight's zero point.
    """
    rank = w.dim() - 2
    kernel = [d * (k - 1) + 1 for d, k in zip(dilation, w.shape[2:], strict=True)]
    taps = [-(-k // s) for k, s in zip(kernel, stride, strict=True)]
    full = w.new_full([*w.shape[:2], *[t * s for t, s in zip(taps, stride, strict=True)]], zero_point)
    full[(slice(None), slice(None)) + tuple(slice(0, k, d) for k, d in zip(kernel, dilation, strict=True))] = w
    inputs, outputs = w.shape[0] // groups, w.shape[1]
    split = full.reshape(groups, inputs, outputs, *[n for pair in zip(taps, stride, strict=True) for n in pair])
    split = split.flip([3 + 2 * axis for axis in range(rank)])
    order = [0, 2, *[4 + 2 * axis for axis in range(rank)], 1, *[3 + 2 * axis for axis in range(rank)]]
    phases = torch.Size(stride).numel()
    weight = split.permute(order).reshape(groups * outputs * phases, inputs, *taps)

    begins = [t - 1 - p // s for t, p, s in zip(taps, padding, stride, strict=True)]
    rows = list(zip(kernel, output_padding, padding, stride, strict=True))
    ends = [-(-(k + o - p) // s) - 1 for k, o, p, s in rows]
    if min(begins + ends) < 0:
        raise InputError(f"a transposed convolution whose padding {tuple(padding)} exceeds its kernel has no output")
    last = [s * (end + 1) + p - k - o for end, (k, o, p, s) in zip(ends, rows, strict=True)]
    return Convolution(weight.contiguous(), begins + ends, [p % s for p, s in zip(padding, stride, strict=True)] + last)


def weave(q: Tensor, stride: Sequence[int], crops: Sequence[int]) -> Tensor:
    """The phases that the convolution put into neighbouring channels, side by side in space, without the crops."""
    rank = len(stride)
    batch, channels, *sizes = q.shape
    split = q.reshape(batch, channels // torch.Size(stride).numel(), *stride, *sizes)
    order = [0, 1, *[each for axis in range(rank) for each in (2 + rank + axis, 2 + axis)]]
    woven = split.permute(order).reshape(batch, -1, *[n * s for n, s in zip(sizes, stride, strict=True)])
    for axis in range(rank):
        size = woven.shape[2 + axis] - crops[axis] - crops[rank + axis]
        woven = woven.narrow(2 + axis, crops[axis], size)
    return woven
