"""Convolutions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ..registry import implements
from .linear import less_zero

_CONV: dict[int, Any] = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
_TRANSPOSED: dict[int, Any] = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}


def resolved_pads(
    auto_pad: str,
    pads: Sequence[int] | None,
    sizes: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
) -> list[int]:
    """Begins, then ends, as `auto_pad` means them."""
    if auto_pad in ("", "NOTSET"):
        return list(pads) if pads else [0] * (2 * len(sizes))
    if auto_pad == "VALID":
        return [0] * (2 * len(sizes))
    begins, ends = [], []
    for size, k, stride, dilation in zip(sizes, kernel, strides, dilations, strict=True):
        total = max(0, (math.ceil(size / stride) - 1) * stride + (k - 1) * dilation + 1 - size)
        small, large = total // 2, total - total // 2
        begins.append(small if auto_pad == "SAME_UPPER" else large)
        ends.append(large if auto_pad == "SAME_UPPER" else small)
    return begins + ends


def torch_pads(pads: Sequence[int]) -> list[int]:
    """ONNX's begins and ends as F.pad wants them: pairs, the last axis first."""
    rank = len(pads) // 2
    return [each for axis in reversed(range(rank)) for each in (pads[axis], pads[axis + rank])]


@implements("Conv")
def conv(
    x: Tensor,
    w: Tensor,
    b: Tensor | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: list[int] | None = None,
    group: int = 1,
    kernel_shape: list[int] | None = None,
    pads: list[int] | None = None,
    strides: list[int] | None = None,
) -> Tensor:
    rank = x.dim() - 2
    strides, dilations = strides or [1] * rank, dilations or [1] * rank
    around = resolved_pads(auto_pad, pads, x.shape[2:], w.shape[2:], strides, dilations)
    if around[:rank] == around[rank:]:
        return _CONV[rank](x, w, b, strides, around[:rank], dilations, group)
    return _CONV[rank](F.pad(x, torch_pads(around)), w, b, strides, 0, dilations, group)


@implements("ConvTranspose")
def conv_transpose(
    x: Tensor,
    w: Tensor,
    b: Tensor | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: list[int] | None = None,
    group: int = 1,
    kernel_shape: list[int] | None = None,
    output_padding: list[int] | None = None,
    output_shape: list[int] | None = None,
    pads: list[int] | None = None,
    strides: list[int] | None = None,
) -> Tensor:
    """The whole result, then cut (or filled up) at both ends: torch cuts both ends alike."""
    rank = x.dim() - 2
    strides, dilations = strides or [1] * rank, dilations or [1] * rank
    extra = output_padding or [0] * rank
    full = [
        (size - 1) * s + (k - 1) * d + 1
        for size, s, k, d in zip(x.shape[2:], strides, w.shape[2:], dilations, strict=True)
    ]
    begins, ends = _cuts(auto_pad, pads, output_shape, full, extra, x.shape[2:], strides)
    in_range = all(e < max(s, d) for e, s, d in zip(extra, strides, dilations, strict=True))
    if begins == ends and in_range and min(begins) >= 0:
        return _TRANSPOSED[rank](x, w, b, strides, begins, extra, group, dilations)
    result = _TRANSPOSED[rank](x, w, None, strides, 0, 0, group, dilations)
    cut = [each for axis in reversed(range(rank)) for each in (-begins[axis], extra[axis] - ends[axis])]
    result = F.pad(result, cut)
    return result if b is None else result + b.reshape(-1, *[1] * rank)


def _cuts(
    auto_pad: str,
    pads: Sequence[int] | None,
    output_shape: Sequence[int] | None,
    full: Sequence[int],
    extra: Sequence[int],
    sizes: Sequence[int],
    strides: Sequence[int],
) -> tuple[list[int], list[int]]:
    rank = len(full)
    if output_shape is None and auto_pad in ("SAME_UPPER", "SAME_LOWER"):
        output_shape = [size * stride for size, stride in zip(sizes, strides, strict=True)]
    if output_shape is None:
        around = list(pads) if pads else [0] * (2 * rank)
        return around[:rank], around[rank:]
    totals = [f + e - wanted for f, e, wanted in zip(full, extra, output_shape[-rank:], strict=True)]
    small = [total // 2 for total in totals]
    large = [total - half for total, half in zip(totals, small, strict=True)]
    return (small, large) if auto_pad == "SAME_UPPER" else (large, small)


@implements("ConvInteger")
def conv_integer(
    x: Tensor, w: Tensor, x_zero: Tensor | None = None, w_zero: Tensor | None = None, **attributes: Any
) -> Tensor:
    """In double precision, which holds every product and sum exactly: torch has no convolution of integers."""
    result = conv(less_zero(x, x_zero).double(), less_zero(w, w_zero, 0).double(), **attributes)
    return result.to(torch.int32)


@implements("Col2Im")
def col2im(
    x: Tensor,
    image_shape: Tensor,
    block_shape: Tensor,
    *,
    dilations: list[int] | None = None,
    pads: list[int] | None = None,
    strides: list[int] | None = None,
) -> Tensor:
    image, block = image_shape.tolist(), block_shape.tolist()
    rank = len(image)
    strides, dilations, around = strides or [1] * rank, dilations or [1] * rank, pads or [0] * (2 * rank)
    padded = [size + around[axis] + around[axis + rank] for axis, size in enumerate(image)]
    counts = [
        (size - d * (k - 1) - 1) // s + 1 for size, d, k, s in zip(padded, dilations, block, strides, strict=True)
    ]
    channels = x.shape[1] // math.prod(block)
    columns = x.reshape(x.shape[0], channels, -1)
    index = torch.zeros([1] * (2 * rank), dtype=torch.int64)
    for axis in range(rank):
        places = torch.arange(block[axis]).unsqueeze(1) * dilations[axis] + torch.arange(counts[axis]) * strides[axis]
        shape = [1] * (2 * rank)
        shape[axis], shape[rank + axis] = block[axis], counts[axis]
        index = index * padded[axis] + places.reshape(shape)
    result = x.new_zeros(x.shape[0], channels, math.prod(padded))
    result = result.index_add(2, index.reshape(-1), columns).reshape(x.shape[0], channels, *padded)
    for axis in range(rank):
        result = result.narrow(2 + axis, around[axis], image[axis])
    return result


def _sampled(image: Tensor, y: Tensor, x: Tensor) -> Tensor:
    """Between pixels, (batch, channels, places); outside there are zeros. grid_sample would round the places."""
    height, width = image.shape[2:]
    flat = image.flatten(2)
    result = torch.zeros(())
    for rows, of_rows in ((y.floor(), 1 - (y - y.floor())), (y.floor() + 1, y - y.floor())):
        for columns, of_columns in ((x.floor(), 1 - (x - x.floor())), (x.floor() + 1, x - x.floor())):
            inside = (rows >= 0) & (rows < height) & (columns >= 0) & (columns < width)
            places = torch.where(inside, rows * width + columns, 0).long()
            values = flat.gather(2, places.unsqueeze(1).expand(-1, flat.shape[1], -1))
            weights = torch.where(inside, of_rows * of_columns, 0)
            result = result + values * weights.unsqueeze(1).to(image.dtype)
    return result


@implements("DeformConv")
def deform_conv(
    x: Tensor,
    w: Tensor,
    offset: Tensor,
    b: Tensor | None = None,
    mask: Tensor | None = None,
    *,
    dilations: list[int] | None = None,
    group: int = 1,
    kernel_shape: list[int] | None = None,
    offset_group: int = 1,
    pads: list[int] | None = None,
    strides: list[int] | None = None,
) -> Tensor:
    """In two dimensions: the image is sampled at every tap of every place, and the samples are multiplied."""
    (sh, sw), (dh, dw), around = strides or [1, 1], dilations or [1, 1], pads or [0] * 4
    n, c, h, width = x.shape
    kh, kw = w.shape[2:]
    oh, ow = offset.shape[2:]
    shifts = offset.reshape(n, offset_group, kh * kw, 2, oh, ow)
    ys = (torch.arange(oh) * sh - around[0]).reshape(1, oh, 1) + (torch.arange(kh * kw) // kw * dh).reshape(-1, 1, 1)
    xs = (torch.arange(ow) * sw - around[1]).reshape(1, 1, ow) + (torch.arange(kh * kw) % kw * dw).reshape(-1, 1, 1)
    y = shifts[:, :, :, 0] + ys
    z = shifts[:, :, :, 1] + xs
    image = x.reshape(n * offset_group, c // offset_group, h, width)
    taps = _sampled(image, y.reshape(n * offset_group, -1), z.reshape(n * offset_group, -1))
    taps = taps.reshape(n, offset_group, c // offset_group, kh * kw, oh, ow)
    if mask is not None:
        taps = taps * mask.reshape(n, offset_group, 1, kh * kw, oh, ow)
    columns = taps.reshape(n, group, c // group * kh * kw, oh * ow)
    result = torch.matmul(w.reshape(1, group, w.shape[0] // group, -1), columns).reshape(n, w.shape[0], oh, ow)
    return result if b is None else result + b.reshape(-1, 1, 1)
