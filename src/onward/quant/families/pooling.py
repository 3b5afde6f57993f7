"""Maxima of integers, and averages by the runtime's integer kernels or by sums of whole numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from .. import ops
from ..grids.grid import Grid, is_power_of_two
from ..kernels.pool import pads_for_ceil
from ..run.handlers import handles
from ..run.session import Call, Session
from ..run.tags import Pending
from .product import pair
from .shape import moved

_MAX = {torch.max_pool1d: F.max_pool1d, torch.max_pool2d: F.max_pool2d, torch.max_pool3d: F.max_pool3d}


@handles(F.max_pool1d, F.max_pool2d, F.max_pool3d, torch.max_pool1d, torch.max_pool2d, torch.max_pool3d)
def max_pool(
    session: Session,
    func: Any,
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    if return_indices:
        return NotImplemented
    pool = _MAX.get(func, func)
    return _largest_of(session, pool, input, kernel_size, stride or None, padding, dilation, ceil_mode)


def _largest_of(session: Session, pool: Any, x: Tensor, *how: Any) -> Any:
    """Windows of integers. Torch has those of one axis only together with the indices, and fails with the channels
    last: it counts places with the type of the values."""

    def of_integers(q: Tensor, _: Grid) -> Tensor:
        q = q.contiguous()
        found: Tensor = F.max_pool1d_with_indices(q, *how)[0] if pool is F.max_pool1d else pool(q, *how)
        return found

    return moved(session, x, lambda x: pool(x, *how), of_integers)


@handles(F.adaptive_max_pool1d, F.adaptive_max_pool2d, F.adaptive_max_pool3d)
def adaptive_max_pool(
    session: Session, func: Any, input: Tensor, output_size: Any, return_indices: bool = False
) -> Any:
    if return_indices or not session.has_grid(input):
        return NotImplemented
    rank = _rank(func)
    windows = _even_windows(input, output_size, rank)
    given = _given(output_size, rank)
    if windows is None and all(count in (None, 1) for count in given):  # torch has no None of a size that varies
        axes = [axis for axis, count in enumerate(given, -rank) if count == 1]
        return moved(session, input, lambda x: torch.amax(x, axes, keepdim=True))
    if windows is None and None in given:
        return moved(session, input, lambda x: _by_axes(x, given), lambda q, grid: _by_values(_by_axes, q, grid, given))
    if windows is None:
        return moved(
            session, input, lambda x: func(x, output_size), lambda q, grid: _by_values(func, q, grid, output_size)
        )
    pool = (F.max_pool1d, F.max_pool2d, F.max_pool3d)[len(windows) - 1]
    return _largest_of(session, pool, input, windows, windows)


def _by_axes(x: Tensor, sizes: list[Any]) -> Tensor:
    """One axis after the other, without those that stay as they are: torch would make a number of their size."""
    for axis, count in enumerate(sizes, -len(sizes)):
        if count is not None:
            rows = x.movedim(axis, -1)
            x = F.adaptive_max_pool1d(rows.flatten(0, -2), count).unflatten(0, rows.shape[:-1]).movedim(-1, axis)
    return x


def _by_values(func: Any, q: Tensor, grid: Grid, size: Any) -> Tensor:
    return ops.quantize(func(ops.dequantize(q, grid), size), grid)


@handles(torch.amax, torch.amin, Tensor.amax, Tensor.amin)
def extreme(session: Session, func: Any, input: Tensor, dim: Any = (), keepdim: bool = False) -> Any:
    return moved(session, input, lambda x: func(x, dim, keepdim))


@handles(torch.max, torch.min, Tensor.max, Tensor.min)
def max_or_min(session: Session, func: Any, input: Tensor, *args: Any, **kwargs: Any) -> Any:
    """Of all, along an axis (with indices), or of two tensors."""
    is_max = func in (torch.max, Tensor.max)
    other = args[0] if args else kwargs.get("other")
    if isinstance(other, Tensor):
        return larger_or_smaller(session, torch.maximum if is_max else torch.minimum, input, other)
    reduce = torch.amax if is_max else torch.amin
    if not args and not kwargs:
        return moved(session, input, lambda x: reduce(x))
    values = moved(session, input, lambda x: reduce(x, *args, **kwargs))
    if values is NotImplemented:
        return values
    result = func(session.settle(input), *args, **kwargs)
    return type(result)((values, result.indices))


@handles(torch.maximum, torch.minimum, Tensor.maximum, Tensor.minimum)
def larger_or_smaller(session: Session, func: Any, input: Tensor, other: Tensor) -> Any:
    """On the integers where both have one grid, otherwise from grid to grid."""
    if not (session.has_grid(input) and session.has_grid(other)):
        return NotImplemented
    call = session.call("maximum" if func in (torch.maximum, Tensor.maximum) else "minimum")
    a, b = session.settle(input), session.settle(other)
    one, two = session.integers(a), session.integers(b)
    if one is not None and two is not None and one[1].same_as(two[1]) and one[1].dtype == "uint8":
        wide = replace(one[1], low=min(one[1].low, two[1].low), high=max(one[1].high, two[1].high))
        return session.on_grid(func(one[0], two[0]), wide)
    return session.wait(func(a, b), call)


# Averages


@dataclass(frozen=True)
class Windows:
    """Where averages are taken; `counted` says whether padding counts."""

    kernel: list[int]
    stride: list[int]
    padding: list[int]
    ceil_mode: bool = False
    counted: bool = False

    def average(self, q: Tensor, x_grid: Grid, grid: Grid, by_convolution: bool) -> Tensor:
        """By the runtime's kernel. With ceil_mode it would count what lies beyond the padding, too: what counts is
        made part of the image then."""
        at = self
        if self.ceil_mode and self.counted:
            begins, ends = pads_for_ceil(q.shape[2:], self.kernel, self.stride, self.padding)
            pads = [each for both in zip(reversed(begins), reversed(ends), strict=True) for each in both]
            q = F.pad(q, pads, value=x_grid.zero_point)
            at = replace(self, padding=[0] * len(self.padding), counted=False)
        elif by_convolution and not self.ceil_mode and (self.counted or not any(self.padding)):
            return self._by_convolution(q, x_grid, grid)
        return ops.average_pool(q, x_grid, grid, at.kernel, at.stride, at.padding, at.ceil_mode, at.counted)

    def _by_convolution(self, q: Tensor, x_grid: Grid, grid: Grid) -> Tensor:
        """The average as a convolution with ones, a group for each channel. QLinearAveragePool computes in float: it
        takes three to five times as long in onnxruntime 1.31."""
        channels, ones = q.shape[1], [1] * len(self.kernel)
        weight, w_grid = ops.kernels.averaging_weights(channels, self.kernel)
        sums = ops.conv(q, x_grid, weight, w_grid, None, self.stride, self.padding * 2, ones, channels)
        return ops.requantize(sums, x_grid, w_grid, None, grid, "half_even")


def has_kernel(call: Call, x_grid: Grid, grid: Grid) -> bool:
    """Whether the runtime averages such integers: of eight bits, and half to even."""
    return x_grid.dtype == grid.dtype == "uint8" and call.settings.rounding == "half_even"


@handles(F.avg_pool1d, F.avg_pool2d, F.avg_pool3d)
def avg_pool(
    session: Session,
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
    rank = _rank(func)
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
def adaptive_avg_pool(session: Session, func: Any, input: Tensor, output_size: Any) -> Any:
    if not session.has_grid(input):
        return NotImplemented
    rank = _rank(func)
    if all(each is None for each in _given(output_size, rank)):
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
    windows = _even_windows(x, output_size, rank) if x.dim() == rank + 2 else None
    pooled = _adaptive_average(session, call, y, x, sizes, windows)
    tag = session.tag(pooled)
    assert isinstance(tag, Pending) and tag.requantise is not None
    requantise, grid = tag.requantise, found[1]
    # Calibration may have seen images of the size that is asked for alone. Averages lie where the values do.
    tag.otherwise = lambda: x if has_size else session.on_grid(requantise(grid), grid)
    return pooled


def _adaptive_average(
    session: Session, call: Call, y: Tensor, x: Tensor, sizes: list[Any], kernel: list[int] | None
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

    def requantise(grid: Grid) -> Tensor:
        if kernel is not None and has_kernel(call, x_grid, grid):
            return Windows(kernel, kernel, [0] * rank).average(q, x_grid, grid, by_convolution=True)
        sums, counts = _window_sums(ops.centred(q, x_grid), sizes)
        steps = sums * (x_grid.scale * (1 / counts) / grid.scale)
        return ops.quantize(steps, replace(grid, scale=torch.ones_like(grid.scale)), call.settings.rounding)

    return session.wait(y, call, requantise)


@handles(torch.mean, Tensor.mean)
def mean(
    session: Session, func: Any, input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None
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
    session: Session, func: Any, input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None
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
    session: Session,
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

    def requantise(grid: Grid) -> Tensor:
        if windows is not None and has_kernel(call, x_grid, grid):
            return windows.average(q, x_grid, grid, by_convolution=not session.for_a_chip)
        numbers, onto = for_exact_sums(session, q, x_grid, grid)
        wide = in_sums and not session.for_a_chip and _may_be_large(numbers, x_grid, y)
        return ops.quantize(_in_float64(average, numbers) if wide else average(numbers), onto, call.settings.rounding)

    return session.wait(y, call, requantise)


def for_exact_sums(session: Session, q: Tensor, x_grid: Grid, grid: Grid) -> tuple[Tensor, Grid]:
    """Numbers whose sums are exact below 2**24 in whatever order they are taken, and the grid for what comes of them:
    whole ones, whose scale is left to the QuantizeLinear behind. For a chip, whose scales are powers of two, the values
    are as good, and its file says the scales that they have."""
    if session.for_a_chip and all(is_power_of_two(float(each.scale)) for each in (x_grid, grid)):
        return ops.dequantize(q, x_grid), grid
    return ops.centred(q, x_grid), replace(grid, scale=grid.scale / x_grid.scale)


def _global_average(
    session: Session, call: Call, y: Tensor, x: Tensor, rank: int, shaped: Callable[[Tensor], Tensor] | None = None
) -> Tensor:
    """Over all of the last axes: the runtime has a kernel for whole images, with a batch and channels."""
    q, x_grid = session.integers(x)  # type: ignore[misc]
    axes = list(range(-rank, 0))

    def average(values: Tensor) -> Tensor:
        return torch.mean(values, axes, keepdim=True)

    def requantise(grid: Grid) -> Tensor:
        if has_kernel(call, x_grid, grid) and q.dim() == rank + 2:
            pooled = ops.global_average_pool(q, x_grid, grid)
        else:
            numbers, onto = for_exact_sums(session, q, x_grid, grid)
            wide = not session.for_a_chip and _may_be_large(numbers, x_grid, y)
            means = _in_float64(average, numbers) if wide else average(numbers)
            pooled = ops.quantize(means, onto, call.settings.rounding)
        return pooled if shaped is None else shaped(pooled)

    return session.wait(y, call, requantise)


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
    sums, counts = _window_sums(x, sizes)
    return sums / counts


def _window_sums(x: Tensor, sizes: Sequence[Any]) -> tuple[Tensor, Tensor]:
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


def _rank(func: Any) -> int:
    return int(func.__name__[-2])


def _given(size: Any, rank: int) -> list[Any]:
    return [size] * rank if isinstance(size, int) or size is None else list(size)


def _sizes(x: Tensor, size: Any, rank: int) -> list[Any]:
    """The size asked for along each axis; None is that of x."""
    given = _given(size, rank)
    return [x.shape[each - rank] if given[each] is None else given[each] for each in range(rank)]


def _is_there(wanted: Any, sizes: Sequence[Any]) -> bool:
    """Whether an image has the size that is asked for, and always will: None is whatever size it has."""
    pairs = zip(_given(wanted, len(sizes)), sizes, strict=True)
    return all(one is None or (isinstance(size, int) and one == size) for one, size in pairs)


def _even_windows(x: Tensor, size: Any, rank: int) -> list[int] | None:
    """The window of an adaptive pooling, where it is the same everywhere, and in every run of a file."""
    given = _given(size, rank)
    pairs = [(count, length) for count, length in zip(given, x.shape[-rank:], strict=True) if count is not None]
    if any(type(count) is not int or type(length) is not int or length % count for count, length in pairs):
        return None
    return [1 if count is None else length // count for count, length in zip(given, x.shape[-rank:], strict=True)]


def _axes(dim: Any, rank: int) -> list[int]:
    if dim is None or (not isinstance(dim, int) and not len(dim)):
        return list(range(rank))
    return sorted(each % rank for each in ([dim] if isinstance(dim, int) else dim))
