"""Maxima and minima, and values in their order.

MaxPool takes integers as they are (opset 12, uint8 and int8), and a result lies on the grid of its input. On a grid
many values are equal. PyTorch may put any of these first; runtimes put the one with the lower index there, and so does
evaluation: which expert or which box is taken must not depend on who computes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ...capture.attempt.session import is_capturing
from ..exact.integers import dequantize, quantize
from ..grids.grid import Grid
from ..run.handlers import HANDLERS, SWITCHED_OFF, handles
from ..run.session import Phase, QuantSession
from .averages import even_windows, rank_of, sizes_given
from .shape import moved

_MAX = {torch.max_pool1d: F.max_pool1d, torch.max_pool2d: F.max_pool2d, torch.max_pool3d: F.max_pool3d}


@handles(F.max_pool1d, F.max_pool2d, F.max_pool3d, torch.max_pool1d, torch.max_pool2d, torch.max_pool3d)
def max_pool(
    session: QuantSession,
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


def _largest_of(session: QuantSession, pool: Any, x: Tensor, *how: Any) -> Any:
    """Windows of integers. Torch has those of one axis only together with the indices, and fails with the channels
    last: it counts places with the type of the values."""

    def of_integers(q: Tensor, _: Grid) -> Tensor:
        q = q.contiguous()
        found: Tensor = F.max_pool1d_with_indices(q, *how)[0] if pool is F.max_pool1d else pool(q, *how)
        return found

    return moved(session, x, lambda x: pool(x, *how), of_integers)


@handles(F.adaptive_max_pool1d, F.adaptive_max_pool2d, F.adaptive_max_pool3d)
def adaptive_max_pool(
    session: QuantSession, func: Any, input: Tensor, output_size: Any, return_indices: bool = False
) -> Any:
    if return_indices or not session.has_grid(input):
        return NotImplemented
    rank = rank_of(func)
    windows = even_windows(input, output_size, rank)
    given = sizes_given(output_size, rank)
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
    return quantize(func(dequantize(q, grid), size), grid)


@handles(torch.amax, torch.amin, Tensor.amax, Tensor.amin)
def extreme(session: QuantSession, func: Any, input: Tensor, dim: Any = (), keepdim: bool = False) -> Any:
    return moved(session, input, lambda x: func(x, dim, keepdim))


@handles(torch.max, torch.min, Tensor.max, Tensor.min)
def max_or_min(session: QuantSession, func: Any, input: Tensor, *args: Any, **kwargs: Any) -> Any:
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
def larger_or_smaller(session: QuantSession, func: Any, input: Tensor, other: Tensor) -> Any:
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


# Values in their order


@handles(torch.topk, Tensor.topk, table=SWITCHED_OFF)
@handles(torch.topk, Tensor.topk, table=HANDLERS)
def topk(
    session: QuantSession, func: Any, input: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True
) -> Any:
    """Without `sorted` a runtime could choose any order as well: a file always has it."""
    if session.phase is not Phase.EXACT or input.dim() == 0:
        return NotImplemented
    if is_capturing() or k > input.shape[dim]:
        return session.in_float(func, input, k, dim, largest, True)
    return session.in_float(_first_of_equals, input, k, dim, largest)


def _first_of_equals(x: Tensor, k: int, dim: int, largest: bool) -> Any:
    values, indices = torch.sort(x, dim=dim, descending=largest, stable=True)
    return torch.return_types.topk((values.narrow(dim, 0, k), indices.narrow(dim, 0, k)))


_SORTS = (torch.sort, Tensor.sort, torch.argsort, Tensor.argsort)


@handles(*_SORTS, table=SWITCHED_OFF)
@handles(*_SORTS, table=HANDLERS)
def sort(
    session: QuantSession,
    func: Any,
    input: Tensor,
    dim: int = -1,
    descending: bool = False,
    stable: bool | None = False,
) -> Any:
    if not session.is_evaluated:  # what is captured is written as it is called, training is PyTorch's
        return NotImplemented
    return session.in_float(func, input, dim=dim, descending=descending, stable=True)
