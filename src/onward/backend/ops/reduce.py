"""Places of extremes, the largest elements, and what is unique."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ...onnx_operators.python_numbers import ints
from ...onnx_operators.unsigned_integers import widened
from ..registry import implements


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
