"""Pooling. What torch's pools cannot do (unequal pads, ceil_mode as ONNX means it) is done by padding first."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ..registry import implements
from .conv import resolved_pads, torch_pads

_MAX: dict[int, Any] = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}


def frame(
    x: Tensor,
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    pads: Sequence[int] | None,
    auto_pad: str,
    ceil_mode: int,
) -> tuple[list[int], list[int], list[int]]:
    """Pads at the begin, pads at the end, and what ceil_mode adds behind those."""
    rank = x.dim() - 2
    around = resolved_pads(auto_pad, pads, x.shape[2:], kernel, strides, dilations)
    begins, ends = around[:rank], around[rank:]
    beyond = [0] * rank
    if ceil_mode and auto_pad in ("", "NOTSET"):
        for axis, size in enumerate(x.shape[2:]):
            reach = (kernel[axis] - 1) * dilations[axis] + 1
            room = size + begins[axis] + ends[axis] - reach
            count = math.ceil(room / strides[axis]) + 1
            if (count - 1) * strides[axis] >= size + begins[axis]:
                count -= 1  # the last window would start in the padding
            beyond[axis] = max(0, (count - 1) * strides[axis] + reach - size - begins[axis] - ends[axis])
    return begins, ends, beyond


def windows(x: Tensor, kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int]) -> Tensor:
    """Every window as the last axis: (n, c, *places, taps)."""
    rank = len(kernel)
    for axis in range(rank):
        reach = (kernel[axis] - 1) * dilations[axis] + 1
        x = x.unfold(2 + axis, reach, strides[axis])
    taps: tuple[Any, ...] = (..., *(slice(None, None, dilation) for dilation in dilations))
    return x[taps].flatten(2 + rank)


@implements("MaxPool")
def max_pool(
    x: Tensor,
    *,
    kernel_shape: list[int],
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    dilations: list[int] | None = None,
    pads: list[int] | None = None,
    storage_order: int = 0,
    strides: list[int] | None = None,
    outputs: int,
) -> Any:
    rank = x.dim() - 2
    strides, dilations = strides or [1] * rank, dilations or [1] * rank
    begins, ends, beyond = frame(x, kernel_shape, strides, dilations, pads, auto_pad, ceil_mode)
    wide = x if x.is_floating_point() else x.to(torch.float32)
    after = [end + more for end, more in zip(ends, beyond, strict=True)]
    if begins == after and outputs == 1 and all(2 * p <= k for p, k in zip(begins, kernel_shape, strict=True)):
        return _MAX[rank](wide, kernel_shape, strides, begins, dilations).to(x.dtype)
    padded = F.pad(wide, torch_pads(begins + after), value=float("-inf"))
    if outputs == 1:
        return _MAX[rank](padded, kernel_shape, strides, 0, dilations).to(x.dtype)
    values, places = windows(padded, kernel_shape, strides, dilations).max(-1)
    numbers = _numbers(x.shape, storage_order)
    numbers = F.pad(numbers.double(), torch_pads(begins + after), value=-1).to(torch.int64)
    indices = windows(numbers, kernel_shape, strides, dilations).expand(*places.shape, -1)
    return values.to(x.dtype), indices.gather(-1, places.unsqueeze(-1)).squeeze(-1)


def _numbers(shape: Sequence[int], storage_order: int) -> Tensor:
    """The index of every element in the whole tensor."""
    if not storage_order:
        return torch.arange(math.prod(shape)).reshape(tuple(shape))
    inner = math.prod(shape[2:])
    columns = torch.arange(inner).reshape(tuple(reversed(shape[2:]))).permute(*reversed(range(len(shape) - 2)))
    return columns + torch.arange(shape[0] * shape[1]).reshape(shape[0], shape[1], *[1] * (len(shape) - 2)) * inner


@implements("AveragePool")
def average_pool(
    x: Tensor,
    *,
    kernel_shape: list[int],
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    count_include_pad: int = 0,
    dilations: list[int] | None = None,
    pads: list[int] | None = None,
    strides: list[int] | None = None,
) -> Tensor:
    """Sums of windows, divided by how many of their elements count."""
    rank = x.dim() - 2
    strides, dilations = strides or [1] * rank, dilations or [1] * rank
    begins, ends, beyond = frame(x, kernel_shape, strides, dilations, pads, auto_pad, ceil_mode)
    if not any(begins) and not any(ends) and not any(beyond) and rank <= 3 and set(dilations) == {1}:
        return {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}[rank](x, kernel_shape, strides)
    after = [end + more for end, more in zip(ends, beyond, strict=True)]
    ones = x.new_ones(1, 1, *x.shape[2:])
    counted = F.pad(ones, torch_pads(begins + ends), value=1.0 if count_include_pad else 0.0)
    counted = F.pad(counted, torch_pads([0] * rank + beyond))
    sums = windows(F.pad(x, torch_pads(begins + after)), kernel_shape, strides, dilations).sum(-1)
    return sums / windows(counted, kernel_shape, strides, dilations).sum(-1)


@implements("LpPool")
def lp_pool(
    x: Tensor,
    *,
    kernel_shape: list[int],
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    dilations: list[int] | None = None,
    p: float = 2,
    pads: list[int] | None = None,
    strides: list[int] | None = None,
) -> Tensor:
    rank = x.dim() - 2
    strides, dilations = strides or [1] * rank, dilations or [1] * rank
    begins, ends, beyond = frame(x, kernel_shape, strides, dilations, pads, auto_pad, ceil_mode)
    after = [end + more for end, more in zip(ends, beyond, strict=True)]
    padded = F.pad(x, torch_pads(begins + after)).abs()
    return windows(padded**p, kernel_shape, strides, dilations).sum(-1) ** (1 / p)


@implements("GlobalAveragePool")
def global_average_pool(x: Tensor) -> Tensor:
    pools: dict[int, Any] = {3: F.adaptive_avg_pool1d, 4: F.adaptive_avg_pool2d, 5: F.adaptive_avg_pool3d}
    if x.dim() in pools and x.numel():
        return pools[x.dim()](x, 1)
    return x.mean(list(range(2, x.dim())), keepdim=True)


@implements("GlobalMaxPool")
def global_max_pool(x: Tensor) -> Tensor:
    return x.amax(list(range(2, x.dim())), keepdim=True)


@implements("GlobalLpPool")
def global_lp_pool(x: Tensor, *, p: float = 2) -> Tensor:
    return x.abs().pow(p).sum(list(range(2, x.dim())), keepdim=True).pow(1 / p)


@implements("MaxUnpool")
def max_unpool(
    x: Tensor,
    indices: Tensor,
    output_shape: Tensor | None = None,
    *,
    kernel_shape: list[int],
    pads: list[int] | None = None,
    strides: list[int] | None = None,
) -> Tensor:
    """The indices count in the tensor whose size follows from the attributes, whatever size is asked for."""
    rank = x.dim() - 2
    strides, around = strides or [1] * rank, pads or [0] * (2 * rank)
    sizes = [
        (size - 1) * strides[axis] - around[axis] - around[axis + rank] + kernel_shape[axis]
        for axis, size in enumerate(x.shape[2:])
    ]
    shape = [*x.shape[:2], *sizes]
    result = x.new_zeros(math.prod(shape)).scatter(0, indices.reshape(-1), x.reshape(-1)).reshape(shape)
    if output_shape is None:
        return result
    wanted = output_shape.tolist()
    return F.pad(result, [each for axis in reversed(range(x.dim())) for each in (0, wanted[axis] - result.shape[axis])])
