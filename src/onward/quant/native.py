"""The loops of `_native.c`, for tensors that they can read, shared out among the threads that PyTorch may use.

They are compiled when the package is installed, where there is a C compiler. `reads` says whether they can be used for
a tensor; where they cannot, `grids/fake_quantize.py` does the same with PyTorch's operations, which takes two to three
times as long."""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad

from .config.settings import Activations

Bounds = tuple[float | None, float | None]  # of an activation that follows, (0, None) for a ReLU
UNBOUNDED: Bounds = (None, None)

_INTERFACE = 4  # of the loops that are called here: older ones take other arguments

try:
    from . import _native as _loops  # type: ignore[attr-defined]
except ImportError:  # not compiled: no compiler, or run from the sources
    _loops = None
if getattr(_loops, "INTERFACE", 0) != _INTERFACE:  # compiled from an older source, in an editable installation
    _loops = None

_SHARE = 1 << 18  # values that are worth a thread of their own: some 100 us
_pools: dict[int, ThreadPoolExecutor] = {}  # by the number of threads
_PLAIN = frozenset([Tensor, nn.Parameter])
_dispatch_modes = torch._C._len_torch_dispatch_stack
_transforms = torch._C._functorch.peek_interpreter_stack
_tracer = torch._C._get_tracing_state


class Steps(NamedTuple):
    """A grid: values from `low` to `high` are rounded to multiples of `scale`, from `bottom` to `top` of these."""

    scale: float
    low: float
    high: float
    bottom: int
    top: int


def is_compiled() -> bool:
    """Whether there are such loops at all."""
    return _loops is not None


def reads(x: Tensor) -> bool:
    """Whether a tensor is one block of float32 in memory, and nobody watches what PyTorch does to it."""
    return (
        _is_plain(x)
        and not x.is_neg()
        and (x.is_contiguous() or (x.dim() == 4 and x.is_contiguous(memory_format=torch.channels_last)))
    )


def _is_plain(x: Tensor) -> bool:
    return (
        _loops is not None
        and type(x) in _PLAIN
        and x.dtype is torch.float32
        and x.is_cpu
        and x.layout is torch.strided
        # By tracers, vmap and the like: tensors may have no memory then, and what is no operation goes unnoticed.
        and not _dispatch_modes()
        and _transforms() is None
        and _tracer() is None
        and forward_ad._current_level < 0
    )


def holds(range_: Tensor) -> bool:
    """Whether they can read, and write, a range, next to a tensor that they can read."""
    return _loops is not None and range_.is_cpu and range_.dtype is torch.float32 and range_.is_contiguous()


def aligned(grad: Tensor, x: Tensor) -> Tensor | None:
    """The gradient of a tensor that they can read, with its values in the same order; those of heads of attention come
    transposed, and those of a mean expanded. None where a gradient of it will be asked for in turn."""
    if torch.is_grad_enabled() or not _is_plain(grad):
        return None
    if grad.stride() == x.stride() and not grad.is_neg():
        return grad
    return torch.empty_like(x, dtype=torch.float32).copy_(grad)


def ends(x: Tensor) -> tuple[float, float] | None:
    """The smallest and the largest value; None if there is none, or if some value is not finite."""
    count = x.numel()
    if count < 2 * _SHARE:
        found: tuple[float, float] | None = _loops.ends(x.data_ptr(), count)
        return found
    parts = _shared(count, lambda start, number: _loops.ends(_at(x, start), number))
    if None in parts:
        return None
    return min(low for low, _ in parts), max(high for _, high in parts)


def steps_of(held: Tensor, spec: Activations, bounds: Bounds) -> Steps | None:
    """The grid of a range, [low, high]; None for that of a mask."""
    found = _loops.grid(held.data_ptr(), spec.bits, spec.symmetric, spec.power_of_two, *bounds)
    return None if found is None else Steps(*found)


def follow(x: Tensor, held: Tensor, spec: Activations, bounds: Bounds) -> tuple[float, float, float, bool] | None:
    """Move a range towards that of a batch, and give `scale`, `low` and `high` of its grid, and whether values of the
    batch are clipped. None where some values are not finite, for the range of a mask, and for a range that is not
    finite."""
    grid = held.data_ptr(), spec.bits, spec.symmetric, spec.power_of_two, *bounds, spec.averaging
    count = x.numel()
    found: tuple[float, float, float, bool] | None
    if count < 2 * _SHARE:
        found = _loops.follow_values(*grid, x.data_ptr(), count)
    else:
        seen = ends(x)
        found = None if seen is None else _loops.follow(*grid, *seen)
    return found


def round_(x: Tensor, scale: float, half_up: bool) -> None:
    """In place: to the nearest multiple of a scale."""
    count = x.numel()
    if count < 2 * _SHARE:
        _loops.round(x.data_ptr(), count, scale, half_up)
    else:
        _shared(count, lambda start, count: _loops.round(_at(x, start), count, scale, half_up))


def round_limited(
    x: Tensor, scale: float, low: float, high: float, half_up: bool, inside: Tensor | None = None
) -> Tensor:
    """Limit values to the range that passes and round them, in new memory. `inside` gets a byte for each value: whether
    it passes."""
    out, count = torch.empty_like(x), x.numel()
    if count < 2 * _SHARE:
        place = 0 if inside is None else inside.data_ptr()
        _loops.round_limited(x.data_ptr(), out.data_ptr(), place, count, scale, low, high, half_up)
        return out

    def work(start: int, count: int) -> None:
        place = 0 if inside is None else inside.data_ptr() + start
        _loops.round_limited(_at(x, start), _at(out, start), place, count, scale, low, high, half_up)

    _shared(count, work)
    return out


def keep(grad: Tensor, inside: Tensor) -> Tensor:
    """The gradient of what passes, and zeros."""
    passed = torch.empty_like(grad)

    def work(start: int, count: int) -> None:
        _loops.keep(_at(grad, start), inside.data_ptr() + start, _at(passed, start), count)

    _shared(grad.numel(), work)
    return passed


def round_weight_(weight: Tensor, axis: int | None, steps: int) -> None:
    """In place: every channel of a contiguous weight (or all of it) onto the grid of its largest magnitude."""
    shape, count = weight.shape, weight.numel()
    channels = 1 if axis is None else shape[axis]
    outer = 1 if not axis else math.prod(shape[:axis])
    inner = count // max(outer * channels, 1)
    if count < 2 * _SHARE:
        _loops.round_weight(weight.data_ptr(), outer, channels, inner, 0, channels, steps)
        return

    def work(first: int, number: int) -> None:
        _loops.round_weight(weight.data_ptr(), outer, channels, inner, first, first + number, steps)

    _shared(channels, work, max(_SHARE // max(outer * inner, 1), 1))


def gradients(
    grad: Tensor, x: Tensor, held: Tensor, steps: Steps, symmetric: bool, half_up: bool, after_relu: bool, counted: int
) -> tuple[Tensor, Tensor]:
    """The gradient that passes, and that of the ends of a range, in proportion to `counted` values. After a ReLU the
    bottom is zero, where none counts."""
    passed, ends, count = torch.empty_like(x), torch.empty_like(held), x.numel()
    scale, low, high, bottom, top = steps
    grid = held.data_ptr(), ends.data_ptr(), scale, bottom, top, symmetric, counted
    if count < 2 * _SHARE:
        places = grad.data_ptr(), x.data_ptr(), passed.data_ptr()
        _loops.all_gradients(*places, count, scale, low, high, half_up, *grid, not after_relu)
        return passed, ends

    def work(start: int, number: int) -> tuple[float, float, float]:
        places = _at(grad, start), _at(x, start), _at(passed, start)
        found: tuple[float, float, float] = _loops.gradients(*places, number, scale, low, high, half_up)
        return found

    at_bottom, at_top, error = map(sum, zip(*_shared(count, work), strict=True))
    _loops.share_out(0.0 if after_relu else at_bottom, at_top, error, *grid)
    return passed, ends


def _at(x: Tensor, start: int) -> int:
    return x.data_ptr() + 4 * start


def _shared(count: int, work: Callable[[int, int], Any], share: int = _SHARE) -> list[Any]:
    """work(start, count) for all of it at once, or for parts side by side where there is enough."""
    threads = 1 if count < 2 * share else min(count // share, torch.get_num_threads())
    if threads == 1:
        return [work(0, count)]
    starts = [count * each // threads for each in range(threads + 1)]
    parts = [(first, last - first) for first, last in itertools.pairwise(starts)]
    waiting = [_pool(threads - 1).submit(work, *part) for part in parts[1:]]
    return [work(*parts[0]), *(each.result() for each in waiting)]


def _pool(threads: int) -> ThreadPoolExecutor:
    found = _pools.get(threads)
    if found is None:
        found = _pools[threads] = ThreadPoolExecutor(threads, thread_name_prefix="onward")
    return found


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pools.clear)  # the threads of a pool stay behind
