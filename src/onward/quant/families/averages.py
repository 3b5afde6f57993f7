"""Averages and sums: by the runtime's integer kernels, or by sums of whole numbers.

    AveragePool(DequantizeLinear(x)) -> QuantizeLinear          -> QLinearAveragePool (com.microsoft)
    GlobalAveragePool(DequantizeLinear(x)) -> QuantizeLinear    -> QLinearGlobalAveragePool (com.microsoft)

onnxruntime fuses these where both are uint8 or both int8.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ...lower.emitter import Emitter, Value
from ...lower.ops import pool as float_pools
from ..exact.declare import GridValues, exact
from ..exact.integers import around_zero, centered, dequantize, dequantized, quantize, quantized, to_grid, values_of
from ..exact.sums import requantize
from ..grids.grid import Grid, is_power_of_two
from ..run.handlers import handles
from ..run.session import Call, QuantSession
from ..run.states import Pending
from .convolution import Sliding, conv
from .product import pair


@dataclass(frozen=True)
class Windows:
    """Where averages are taken; `counted` says whether padding counts."""

    kernel: list[int]
    stride: list[int]
    padding: list[int]
    ceil_mode: bool = False
    counted: bool = False


@exact
def global_average_pool(x: Tensor, x_grid: Grid, grid: Grid) -> Tensor:
    """The averages over all axes behind the second, which stay as 1; x of rank 3 or more. The sum is exact, the factor
    sx / (sy * count). The runtime refuses factors outside 2**-32 .. 256."""
    count = 1
    for size in x.shape[2:]:
        count *= size
    total = around_zero(x, x_grid).sum(list(range(2, x.dim())), keepdim=True, dtype=torch.int32)
    return to_grid(total.to(torch.float32) * (x_grid.scale / (grid.scale * count)), grid)


global_average_pool.shape(lambda x, *_: x.new_empty([*x.shape[:2], *[1] * (x.dim() - 2)]))


@global_average_pool.lowers()
def _(g: Emitter, x: Value, x_grid: GridValues, grid: GridValues) -> Value:
    y = g.op.GlobalAveragePool(dequantized(g, x, x_grid.scale, x_grid.zero_point))
    return quantized(g, y, grid, "half_even")


@exact
def average_pool(x: Tensor, x_grid: Grid, grid: Grid, at: Windows) -> Tensor:
    """The averages of windows on another grid of the same type.

    The runtime sums float32 numbers one after the other, in the order of the window; only where the window is the whole
    image and nothing is padded does it sum integers. With ceil_mode and counted padding it divides by the whole kernel
    even where a window reaches over the padding's end, and torch does not: see `average_by_kernel`.
    """
    if list(x.shape[2:]) == list(at.kernel) and not any(at.padding):
        return global_average_pool.kernel(x, x_grid, grid)
    total, count = _sums_of_windows(values_of(x, x_grid), at)
    if at.counted:
        count = torch.full_like(count, torch.Size(at.kernel).numel())
    steps = total / count / grid.scale + grid.zero_point
    return steps.round().clamp(grid.low, grid.high).to(torch.int32).to(grid.torch_dtype)


@average_pool.shape
def _(x: Tensor, x_grid: GridValues, grid: GridValues, at: Windows) -> Tensor:
    pool = (F.avg_pool1d, F.avg_pool2d, F.avg_pool3d)[len(at.kernel) - 1]
    return pool(x.to(torch.float32), at.kernel, at.stride, at.padding, at.ceil_mode, at.counted).to(x.dtype)


@average_pool.lowers()
def _(g: Emitter, x: Value, x_grid: GridValues, grid: GridValues, at: Windows) -> Value:
    windows = float_pools.windows(len(at.kernel), at.kernel, at.stride, at.padding, ceil=at.ceil_mode)
    y = float_pools.average_pool(g, dequantized(g, x, x_grid.scale, x_grid.zero_point), windows, at.counted)
    return quantized(g, y, grid, "half_even")


def _sums_of_windows(values: Tensor, at: Windows) -> tuple[Tensor, Tensor]:
    """The float32 sum of each window in the runtime's order, and how many of its elements are in the image."""
    shape = values.shape[2:]
    axes = list(zip(shape, at.kernel, at.stride, at.padding, strict=True))
    sizes = [_windows(*each, at.ceil_mode) for each in axes]
    pads = []
    for count, (size, k, s, p) in reversed(list(zip(sizes, axes, strict=True))):
        pads += [p, max((count - 1) * s + k - size - p, 0)]
    inside = F.pad(torch.ones(shape, device=values.device), pads)
    values = F.pad(values, pads)  # a zero more does not change a float32 sum
    total, elements = torch.zeros((), device=values.device), torch.zeros((), device=values.device)
    for offset in itertools.product(*map(range, at.kernel)):
        window = tuple(slice(o, o + (n - 1) * s + 1, s) for o, n, s in zip(offset, sizes, at.stride, strict=True))
        total, elements = total + values[(slice(None), slice(None)) + window], elements + inside[window]
    return total, elements


def pads_for_ceil(
    sizes: Sequence[int], kernel: Sequence[int], stride: Sequence[int], padding: Sequence[int]
) -> tuple[list[int], list[int]]:
    """How far to pad the integers at the beginning and end, so that there are torch's windows and no more."""
    ends = []
    for size, k, s, p in zip(sizes, kernel, stride, padding, strict=True):
        last = (_windows(size, k, s, p, True) - 1) * s + k
        ends.append(torch.sym_max(torch.sym_min(p, last - size - p), 0))  # of sizes that vary, too
    return list(padding), ends


def _windows(size: int, kernel: int, stride: int, padding: int, ceil_mode: bool) -> int:
    """How many windows there are; one that starts in the padding behind the image does not count."""
    room = size + 2 * padding - kernel
    if not ceil_mode:
        return room // stride + 1
    return torch.sym_min(-(-room // stride), (size + padding - 1) // stride) + 1


def average_by_kernel(q: Tensor, x_grid: Grid, grid: Grid, at: Windows, by_convolution: bool) -> Tensor:
    """The averages by one of the runtime's kernels. With ceil_mode it would count what lies beyond the padding, too:
    what counts is made part of the image then."""
    if at.ceil_mode and at.counted:
        begins, ends = pads_for_ceil(q.shape[2:], at.kernel, at.stride, at.padding)
        pads = [each for both in zip(reversed(begins), reversed(ends), strict=True) for each in both]
        q = F.pad(q, pads, value=x_grid.zero_point)
        at = replace(at, padding=[0] * len(at.padding), counted=False)
    elif by_convolution and not at.ceil_mode and (at.counted or not any(at.padding)):
        return _average_by_convolution(q, x_grid, grid, at)
    return average_pool(q, x_grid, grid, at)


def _average_by_convolution(q: Tensor, x_grid: Grid, grid: Grid, at: Windows) -> Tensor:
    """The average as a convolution with ones, a group for each channel. QLinearAveragePool computes in float, with one
    rounding more: it takes three to five times as long in onnxruntime 1.31."""
    channels, ones = q.shape[1], [1] * len(at.kernel)
    weight, w_grid = averaging_weights(channels, at.kernel)
    sums = conv(q, x_grid, weight, w_grid, None, Sliding(at.stride, at.padding * 2, ones, channels))
    return requantize(sums, x_grid, w_grid, None, grid, "half_even")


def averaging_weights(channels: int, kernel: Sequence[int]) -> tuple[Tensor, Grid]:
    """Weights that make a convolution with a group for each channel the average over windows. They serve windows that
    count the padding, or have none, without ceil_mode."""
    weights = torch.ones(channels, 1, *kernel, dtype=torch.int8)
    return weights, Grid(torch.tensor(1 / torch.Size(kernel).numel(), dtype=torch.float32), 0, "int8")


# Functions


def has_kernel(call: Call, x_grid: Grid, grid: Grid) -> bool:
    """Whether the runtime averages such integers: of eight bits, and half to even."""
    return x_grid.dtype == grid.dtype == "uint8" and call.settings.rounding == "half_even"


@handles(F.avg_pool1d, F.avg_pool2d, F.avg_pool3d)
def avg_pool(
    session: QuantSession,
    func: Any,
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Any:
    """The average of a window. With padding or a divisor of the caller's, whole numbers are averaged in float."""
    if not session.has_grid(input):
        return NotImplemented
    call = session.call("avg_pool")
    x = session.settle(input)
    rank = rank_of(func)
    extra = () if rank == 1 else (divisor_override,)
    y = func(x, kernel_size, stride, padding, ceil_mode, count_include_pad, *extra)
    found = session.integers(x)
    if found is None:
        return session.wait(y, call)
    kernel, pads = pair(kernel_size, rank), pair(padding, rank)
    windows = Windows(
        kernel, kernel if stride in (None, ()) else pair(stride, rank), pads, ceil_mode, count_include_pad and any(pads)
    )
    return _averaged(
        session,
        call,
        y,
        x,
        lambda values: func(values, kernel_size, stride, padding, ceil_mode, count_include_pad, *extra),
        windows if divisor_override is None and x.dim() == rank + 2 else None,
    )


@handles(F.adaptive_avg_pool1d, F.adaptive_avg_pool2d, F.adaptive_avg_pool3d)
def adaptive_avg_pool(session: QuantSession, func: Any, input: Tensor, output_size: Any) -> Any:
    if not session.has_grid(input):
        return NotImplemented
    rank = rank_of(func)
    if all(each is None for each in sizes_given(output_size, rank)):
        return input  # whatever waits goes on waiting
    call = session.call("adaptive_avg_pool")
    x = session.settle(input)
    sizes = _sizes(x, output_size, rank)
    has_size = _is_there(output_size, x.shape[-rank:])
    found = session.integers(x)
    if has_size and found is None:
        return x
    if has_size:
        y = x.clone()
    elif all(type(each) is int for each in sizes):
        y = func(x, output_size)
    else:  # torch wants numbers
        y = _by_sums(x, sizes)
    if found is None:
        return session.wait(y, call)
    windows = even_windows(x, output_size, rank) if x.dim() == rank + 2 else None
    pooled = _adaptive_average(session, call, y, x, sizes, windows)
    tag = session.tag(pooled)
    assert isinstance(tag, Pending) and tag.requantize is not None
    onto_output, grid = tag.requantize, found[1]
    # Calibration may have seen images of the size that is asked for alone. Averages lie where the values do.
    otherwise = lambda: x if has_size else session.on_grid(onto_output(grid), grid)  # noqa: E731
    return session.learn(pooled, otherwise=otherwise)


def _adaptive_average(
    session: QuantSession, call: Call, y: Tensor, x: Tensor, sizes: list[Any], kernel: list[int] | None
) -> Tensor:
    """Windows of one size by the runtime's kernel, others by their sums. A file whose sizes vary has nothing but sums,
    also where evaluation finds windows of one size: a sum is therefore scaled as that kernel does it."""
    rank = len(sizes)
    if sizes == [1] * rank:
        return _global_average(session, call, y, x, rank)
    if session.for_a_chip:
        pool = (F.avg_pool1d, F.avg_pool2d, F.avg_pool3d)[rank - 1]
        by_pool = None if kernel is None else (lambda values: pool(values, kernel))
        return _averaged(session, call, y, x, by_pool or (lambda values: _by_sums(values, sizes)), None)
    q, x_grid = session.integers(x)  # type: ignore[misc]

    def onto_output(grid: Grid) -> Tensor:
        if kernel is not None and has_kernel(call, x_grid, grid):
            return average_by_kernel(q, x_grid, grid, Windows(kernel, kernel, [0] * rank), by_convolution=True)
        sums, counts = _sums_up_to(centered(q, x_grid), sizes)
        steps = sums * (x_grid.scale * (1 / counts) / grid.scale)
        return quantize(steps, replace(grid, scale=torch.ones_like(grid.scale)), call.settings.rounding)

    return session.wait(y, call, onto_output)


@handles(torch.mean, Tensor.mean)
def mean(
    session: QuantSession, func: Any, input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None
) -> Any:
    if not session.has_grid(input) or dtype not in (None, torch.float32):
        return NotImplemented
    call = session.call("mean")
    x = session.settle(input)
    axes = _axes(dim, x.dim())
    y = torch.mean(x, axes, keepdim)
    if session.integers(x) is None:
        return session.wait(y, call)
    if x.dim() > 2 and axes == list(range(2, x.dim())):
        flat = None if keepdim else (lambda q: q.flatten(1))
        return _global_average(session, call, y, x, x.dim() - 2, flat)
    return _averaged(session, call, y, x, lambda values: torch.mean(values, axes, keepdim), None, in_sums=True)


@handles(torch.sum, Tensor.sum)
def sum_(
    session: QuantSession, func: Any, input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None
) -> Any:
    if not session.has_grid(input) or dtype not in (None, torch.float32):
        return NotImplemented
    call = session.call("sum")
    x = session.settle(input)
    axes = _axes(dim, x.dim())
    y = torch.sum(x, axes, keepdim)
    if session.integers(x) is None:
        return session.wait(y, call)
    return _averaged(session, call, y, x, lambda values: torch.sum(values, axes, keepdim), None, in_sums=True)


def _averaged(
    session: QuantSession,
    call: Call,
    y: Tensor,
    x: Tensor,
    average: Callable[[Tensor], Tensor],
    windows: Windows | None,
    *,
    in_sums: bool = False,
) -> Tensor:
    """A result that waits: the runtime's own kernel for windows, or `average` of numbers whose sums are exact.
    `in_sums`: it may add up so many that they are taken in float64."""
    q, x_grid = session.integers(x)  # type: ignore[misc]

    def onto_output(grid: Grid) -> Tensor:
        if windows is not None and has_kernel(call, x_grid, grid):
            return average_by_kernel(q, x_grid, grid, windows, by_convolution=not session.for_a_chip)
        numbers, onto = for_exact_sums(session, q, x_grid, grid)
        wide = in_sums and not session.for_a_chip and _may_be_large(numbers, x_grid, y)
        return quantize(_in_float64(average, numbers) if wide else average(numbers), onto, call.settings.rounding)

    return session.wait(y, call, onto_output)


def for_exact_sums(session: QuantSession, q: Tensor, x_grid: Grid, grid: Grid) -> tuple[Tensor, Grid]:
    """Numbers whose sums are exact below 2**24 in whatever order they are taken, and the grid for what comes of them:
    whole ones, whose scale is left to the QuantizeLinear behind. For a chip, whose scales are powers of two, the values
    are as good, and its file says the scales that they have."""
    if session.for_a_chip and all(is_power_of_two(float(each.scale)) for each in (x_grid, grid)):
        return dequantize(q, x_grid), grid
    return centered(q, x_grid), replace(grid, scale=grid.scale / x_grid.scale)


def _global_average(
    session: QuantSession, call: Call, y: Tensor, x: Tensor, rank: int, shaped: Callable[[Tensor], Tensor] | None = None
) -> Tensor:
    """Over all of the last axes: the runtime has a kernel for whole images, with a batch and channels."""
    q, x_grid = session.integers(x)  # type: ignore[misc]
    axes = list(range(-rank, 0))

    def average(values: Tensor) -> Tensor:
        return torch.mean(values, axes, keepdim=True)

    def onto_output(grid: Grid) -> Tensor:
        if has_kernel(call, x_grid, grid) and q.dim() == rank + 2:
            pooled = global_average_pool(q, x_grid, grid)
        else:
            numbers, onto = for_exact_sums(session, q, x_grid, grid)
            wide = not session.for_a_chip and _may_be_large(numbers, x_grid, y)
            means = _in_float64(average, numbers) if wide else average(numbers)
            pooled = quantize(means, onto, call.settings.rounding)
        return pooled if shaped is None else shaped(pooled)

    return session.wait(y, call, onto_output)


def _in_float64(average: Callable[[Tensor], Tensor], numbers: Tensor) -> Tensor:
    return average(numbers.to(torch.float64)).to(torch.float32)


def _may_be_large(x: Tensor, grid: Grid, y: Tensor) -> bool:
    """Whether sums of so many whole numbers may reach 2**24. Sizes that change may be any."""
    reach = max(grid.high - grid.zero_point, grid.zero_point - grid.low)
    sizes = x.numel(), y.numel()
    if not all(type(each) is int for each in sizes):
        return reach > 255
    return sizes[0] // max(sizes[1], 1) * reach >= 2**24


def _by_sums(x: Tensor, sizes: Sequence[Any]) -> Tensor:
    sums, counts = _sums_up_to(x, sizes)
    return sums / counts


def _sums_up_to(x: Tensor, sizes: Sequence[Any]) -> tuple[Tensor, Tensor]:
    """The sums of the windows of an adaptive pooling of whole numbers, and how many each adds up.

    They are differences of sums from the beginning on, which are exact in float64 and want no product of matrices."""
    x, counts = x.to(torch.float64), torch.ones((), dtype=torch.float64, device=x.device)
    for axis, size in enumerate(sizes, -len(sizes)):
        length = x.shape[axis]
        places = torch.arange(size, device=x.device)
        begins, ends = places * length // size, ((places + 1) * length + (size - 1)) // size
        total = x.cumsum(axis)
        before = total.index_select(axis, begins) - x.index_select(axis, begins)
        x = total.index_select(axis, ends - 1) - before
        counts = counts.unsqueeze(-1) * (ends - begins)
    return x.to(torch.float32), counts.to(torch.float32)


def rank_of(func: Any) -> int:
    return int(func.__name__[-2])


def sizes_given(size: Any, rank: int) -> list[Any]:
    return [size] * rank if isinstance(size, int) or size is None else list(size)


def _sizes(x: Tensor, size: Any, rank: int) -> list[Any]:
    """The size asked for along each axis; None is that of x."""
    given = sizes_given(size, rank)
    return [x.shape[each - rank] if given[each] is None else given[each] for each in range(rank)]


def _is_there(wanted: Any, sizes: Sequence[Any]) -> bool:
    """Whether an image has the size that is asked for, and always will: None is whatever size it has."""
    pairs = zip(sizes_given(wanted, len(sizes)), sizes, strict=True)
    return all(one is None or (isinstance(size, int) and one == size) for one, size in pairs)


def even_windows(x: Tensor, size: Any, rank: int) -> list[int] | None:
    """The window of an adaptive pooling, where it is the same everywhere, and in every run of a file."""
    given = sizes_given(size, rank)
    pairs = [(count, length) for count, length in zip(given, x.shape[-rank:], strict=True) if count is not None]
    if any(type(count) is not int or type(length) is not int or length % count for count, length in pairs):
        return None
    return [1 if count is None else length // count for count, length in zip(given, x.shape[-rank:], strict=True)]


def _axes(dim: Any, rank: int) -> list[int]:
    if dim is None or (not isinstance(dim, int) and not len(dim)):
        return list(range(rank))
    return sorted(each % rank for each in ([dim] if isinstance(dim, int) else dim))
