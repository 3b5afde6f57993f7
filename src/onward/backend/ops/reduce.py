"""Reductions along axes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ..registry import implements
from ..values import ints
from ._wide import widened


def _reduction(function: Callable[[Tensor, list[int], bool], Tensor], each: Callable[[Tensor], Tensor]) -> Any:
    """`each` is what remains of the function where there is nothing to reduce."""

    @widened
    def run(x: Tensor, axes: Any = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0) -> Tensor:
        chosen = [] if axes is None else ints(axes)
        if not chosen and noop_with_empty_axes:
            return each(x)
        chosen = [axis % max(x.dim(), 1) for axis in chosen] or list(range(x.dim()))
        if x.dim() == 0:
            return function(x.reshape(1), [0], False)
        return function(x, chosen, bool(keepdims)).to(x.dtype)

    return run


def _extreme(function: Callable[..., Tensor], empty: str) -> Callable[[Tensor, list[int], bool], Tensor]:
    def run(x: Tensor, axes: list[int], keepdims: bool) -> Tensor:
        if x.numel():
            return function(x, axes, keepdims)
        lowest: Any
        highest: Any
        if x.dtype == torch.bool:
            lowest, highest = False, True
        elif x.is_floating_point():
            lowest, highest = float("-inf"), float("inf")
        else:
            info = torch.iinfo(x.dtype)
            lowest, highest = info.min, info.max
        return _empty(x, axes, keepdims, lowest if empty == "lowest" else highest)

    return run


def _empty(x: Tensor, axes: list[int], keepdims: bool, fill: Any) -> Tensor:
    sizes = [1 if axis in axes else size for axis, size in enumerate(x.shape) if keepdims or axis not in axes]
    return torch.full(sizes, fill, dtype=x.dtype, device=x.device)


def _prod(x: Tensor, axes: list[int], keepdims: bool) -> Tensor:
    for axis in sorted(axes, reverse=True):
        x = torch.prod(x, axis, keepdim=keepdims, dtype=x.dtype)
    return x


def _mean(x: Tensor, axes: list[int], keepdims: bool) -> Tensor:
    if x.is_floating_point():
        return x.mean(axes, keepdim=keepdims)
    return x.to(torch.float64).mean(axes, keepdim=keepdims)


def _sum(x: Tensor, axes: list[int], keepdims: bool) -> Tensor:
    return torch.sum(x, axes, keepdim=keepdims, dtype=x.dtype)


def _log(x: Tensor) -> Tensor:
    return torch.log(x if x.is_floating_point() else x.double())


def _log_sum_exp(x: Tensor, axes: list[int], keepdims: bool) -> Tensor:
    return torch.logsumexp(x if x.is_floating_point() else x.double(), axes, keepdim=keepdims)


def _same(x: Tensor) -> Tensor:
    return x


for _op, _function, _each in (
    ("ReduceSum", _sum, _same),
    ("ReduceMean", _mean, _same),
    ("ReduceProd", _prod, _same),
    ("ReduceMax", _extreme(torch.amax, "lowest"), _same),
    ("ReduceMin", _extreme(torch.amin, "highest"), _same),
    ("ReduceL1", lambda x, axes, keep: _sum(x.abs(), axes, keep), torch.abs),
    ("ReduceL2", lambda x, axes, keep: _sum(x * x, axes, keep).double().sqrt(), torch.abs),
    ("ReduceLogSum", lambda x, axes, keep: _log(_sum(x, axes, keep)), _log),
    ("ReduceLogSumExp", _log_sum_exp, _same),
    ("ReduceSumSquare", lambda x, axes, keep: _sum(x * x, axes, keep), lambda x: x * x),
):
    implements(_op, numbers=("axes",))(_reduction(_function, _each))


def _arg(x: Tensor, axis: int, keepdims: int, last: int, largest: bool) -> Tensor:
    """torch leaves open which of equal elements it finds, so the first is looked for."""
    axis = axis % x.dim()
    extreme = x.amax(axis, keepdim=True) if largest else x.amin(axis, keepdim=True)
    hits = (x == extreme).to(torch.uint8)
    if last:
        hits = hits.flip(axis)
    place = torch.cumsum(hits, axis).eq(0).sum(axis, keepdim=True)
    if last:
        place = x.shape[axis] - 1 - place
    return place if keepdims else place.squeeze(axis)


@implements("ArgMax")
@widened
def argmax(x: Tensor, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Tensor:
    return _arg(x, axis, keepdims, select_last_index, True)


@implements("ArgMin")
@widened
def argmin(x: Tensor, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Tensor:
    return _arg(x, axis, keepdims, select_last_index, False)


@implements("TopK", numbers=("k",))
def top_k(x: Tensor, k: Any, *, axis: int = -1, largest: int = 1, sorted: int = 1) -> tuple[Tensor, Tensor]:
    """Of equal elements the one with the lower index comes first."""
    count = ints(k)[0]
    wide = x.to(torch.int64) if x.dtype in (torch.uint16, torch.uint32, torch.uint64) else x
    _, order = torch.sort(wide, dim=axis, descending=bool(largest), stable=True)
    order = order.narrow(axis, 0, count)
    return wide.gather(axis, order).to(x.dtype), order


@implements("Unique")
def unique(x: Tensor, *, axis: int | None = None, sorted: int = 1) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Values, where each was first, which of them each element is, how often each occurs."""
    rows = x.reshape(-1) if axis is None else x
    along = 0 if axis is None else axis
    values, inverse, counts = torch.unique(rows, sorted=True, return_inverse=True, return_counts=True, dim=along)
    inverse = inverse.reshape(-1)
    places = torch.arange(inverse.numel(), device=x.device)
    first = torch.full((counts.numel(),), inverse.numel(), device=x.device).scatter_reduce(0, inverse, places, "amin")
    if not sorted:
        order = torch.argsort(first)
        values, first, counts = values.index_select(along, order), first[order], counts[order]
        inverse = torch.empty_like(order).scatter_(0, order, torch.arange(order.numel()))[inverse]
    return values, first, inverse, counts
