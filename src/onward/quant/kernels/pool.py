"""Averages and maxima over windows."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from ..grids.grid import Grid
from .basic import centred, dequantize, requantize

_MAX_POOL = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}


def global_average_pool(x: Tensor, gx: Grid, gy: Grid) -> Tensor:
    """The average over all axes behind the second, which stay as 1: adaptive_avg_pool to size 1.

        GlobalAveragePool(DequantizeLinear(x)) -> QuantizeLinear    -> QLinearGlobalAveragePool (com.microsoft)

    Fused where both are uint8 or both int8; x of rank 3 or more. The sum is exact, the factor sx / (sy * count).
    The runtime refuses factors outside 2**-32 .. 256.
    """
    axes = list(range(2, x.dim()))
    return _average(x, gx, axes, gy)


def mean(x: Tensor, gx: Grid, axes: Sequence[int], gy: Grid, keepdim: bool = False) -> Tensor:
    """The average over any axes.

        Transpose, so that the axes are the last -> Reshape to (1, -1, count) -> the pattern of global_average_pool
        -> Reshape to the shape of the result

    Transpose and Reshape act on the integers. ReduceMean itself stays in float: the runtime has no integer kernel.
    """
    axes = [axis % x.dim() for axis in axes]
    result = _average(x, gx, axes, gy)
    return result if keepdim else result.squeeze(axes)


def _average(x: Tensor, gx: Grid, axes: list[int], gy: Grid) -> Tensor:
    count = 1
    for axis in axes:
        count *= x.shape[axis]
    total = centred(x, gx).sum(axes, keepdim=True, dtype=torch.int32)
    return requantize(total, gx.scale / (gy.scale * count), gy)


def average_pool(
    x: Tensor,
    gx: Grid,
    kernel: Sequence[int],
    gy: Grid,
    stride: Sequence[int] = (),
    padding: Sequence[int] = (),
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:
    """avg_pool1d, 2d, 3d; adaptive_avg_pool too where the sizes divide: kernel = stride = size / result.

        AveragePool(DequantizeLinear(x)) -> QuantizeLinear      -> QLinearAveragePool (com.microsoft)

    Fused where both are uint8 or both int8. The runtime sums float32 numbers one after the other, in the order of the
    window; only where the window is the whole image and nothing is padded does it sum integers.

    With ceil_mode and count_include_pad the runtime divides by the whole kernel even where a window reaches over the
    padding's end, and torch does not. Then the integers are padded first, by `pads_for_ceil`:
    Pad(x, pads, zero_point) -> AveragePool(ceil_mode=1, count_include_pad=0, no pads).
    """
    stride, padding = list(stride) or list(kernel), list(padding) or [0] * len(kernel)
    if ceil_mode and count_include_pad:
        begins, ends = pads_for_ceil(x.shape[2:], kernel, stride, padding)
        pads = [each for pair in zip(reversed(begins), reversed(ends), strict=True) for each in pair]
        padded = F.pad(x.to(torch.int32), pads, value=gx.zero_point).to(x.dtype)
        return average_pool(padded, gx, kernel, gy, stride, (), True, False)
    if list(x.shape[2:]) == list(kernel) and not any(padding):
        return global_average_pool(x, gx, gy)
    total, count = _window_sums(dequantize(x, gx), kernel, stride, padding, ceil_mode)
    if count_include_pad:
        count = torch.full_like(count, torch.Size(kernel).numel())
    steps = total / count / gy.scale + gy.zero_point
    return steps.round().clamp(gy.low, gy.high).to(torch.int32).to(gy.torch_dtype)


def averaging_weights(channels: int, kernel: Sequence[int]) -> tuple[Tensor, Grid]:
    """Weights that make of `conv` with a group for each channel the average over windows.

    The same average as average_pool's with one rounding less, and three to five times faster in onnxruntime, whose
    QLinearAveragePool converts to float32 and back. For windows that count the padding, or have none, without
    ceil_mode.
    """
    weights = torch.ones(channels, 1, *kernel, dtype=torch.int8)
    return weights, Grid(torch.tensor(1 / torch.Size(kernel).numel(), dtype=torch.float32), 0, "int8")


def pads_for_ceil(
    sizes: Sequence[int], kernel: Sequence[int], stride: Sequence[int], padding: Sequence[int]
) -> tuple[list[int], list[int]]:
    """How far to pad the integers at the beginning and end, so that there are torch's windows and no more."""
    ends = []
    for size, k, s, p in zip(sizes, kernel, stride, padding, strict=True):
        last = (_windows(size, k, s, p, True) - 1) * s + k
        ends.append(torch.sym_max(torch.sym_min(p, last - size - p), 0))  # of sizes that vary, too
    return list(padding), ends


def _window_sums(
    values: Tensor, kernel: Sequence[int], stride: Sequence[int], padding: Sequence[int], ceil_mode: bool
) -> tuple[Tensor, Tensor]:
    """The float32 sum of each window in the runtime's order, and how many of its elements are in the image."""
    shape = values.shape[2:]
    axes = list(zip(shape, kernel, stride, padding, strict=True))
    sizes = [_windows(*each, ceil_mode) for each in axes]
    pads = []
    for count, (size, k, s, p) in reversed(list(zip(sizes, axes, strict=True))):
        pads += [p, max((count - 1) * s + k - size - p, 0)]
    inside = F.pad(torch.ones(shape, device=values.device), pads)
    values = F.pad(values, pads)  # a zero more does not change a float32 sum
    total, elements = torch.zeros((), device=values.device), torch.zeros((), device=values.device)
    for offset in itertools.product(*map(range, kernel)):
        window = tuple(slice(o, o + (n - 1) * s + 1, s) for o, n, s in zip(offset, sizes, stride, strict=True))
        total, elements = total + values[(slice(None), slice(None)) + window], elements + inside[window]
    return total, elements


def _windows(size: int, kernel: int, stride: int, padding: int, ceil_mode: bool) -> int:
    """How many windows there are; one that starts in the padding behind the image does not count."""
    room = size + 2 * padding - kernel
    if not ceil_mode:
        return room // stride + 1
    return torch.sym_min(-(-room // stride), (size + padding - 1) // stride) + 1


def max_pool(
    x: Tensor,
    kernel: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (),
    dilation: Sequence[int] = (),
    ceil_mode: bool = False,
) -> Tensor:
    """The largest integer of each window; its grid is that of x.

        MaxPool(x)      on the integers: opset 12, uint8 and int8

    Also what the runtime makes of DequantizeLinear -> MaxPool -> QuantizeLinear with one grid. Padding never wins.
    """
    rank = len(kernel)
    result = _MAX_POOL[rank](
        x.to(torch.float32), list(kernel), list(stride) or None, list(padding) or 0, list(dilation) or 1, ceil_mode
    )
    return result.to(torch.int32).to(x.dtype)
