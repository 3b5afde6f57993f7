"""Elements picked and placed by index."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ...onnx_operators.unsigned_integers import widened
from ..registry import implements


def _positive(index: Tensor, size: int, natural: bool) -> Tensor:
    index = index.to(torch.int64)
    return index if natural else torch.where(index < 0, index + size, index)


@implements("GatherElements")
@widened
def gather_elements(x: Tensor, indices: Tensor, *, axis: int = 0, natural: tuple[bool, ...]) -> Tensor:
    return torch.gather(x, axis, _positive(indices, x.shape[axis], natural[1]))


def _places(indices: Tensor, batch: int, shape: Any) -> tuple[Tensor, ...]:
    """What torch indexes with, for indices whose last axis runs over axes."""
    depth = indices.shape[-1]
    columns = [indices[..., place].to(torch.int64) for place in range(depth)]  # torch counts from the end itself
    lead = [
        torch.arange(shape[axis]).reshape([-1 if each == axis else 1 for each in range(indices.dim() - 1)])
        for axis in range(batch)
    ]
    return (*lead, *columns)


@implements("GatherND")
@widened
def gather_nd(x: Tensor, indices: Tensor, *, batch_dims: int = 0) -> Tensor:
    return x[_places(indices, batch_dims, x.shape)]


_REDUCE = {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}


@implements("ScatterElements", "Scatter")
@widened
def scatter_elements(
    x: Tensor,
    indices: Tensor,
    updates: Tensor,
    *,
    axis: int = 0,
    reduction: str = "none",
    natural: tuple[bool, ...],
) -> Tensor:
    index = _positive(indices, x.shape[axis], natural[1])
    if reduction == "none":
        return x.scatter(axis, index, updates)
    return x.scatter_reduce(axis, index, updates, _REDUCE[reduction], include_self=True)


@implements("ScatterND")
@widened
def scatter_nd(x: Tensor, indices: Tensor, updates: Tensor, *, reduction: str = "none") -> Tensor:
    places = _places(indices, 0, x.shape)
    if reduction == "none":
        return x.index_put(places, updates)
    if reduction == "add":
        return x.index_put(places, updates, accumulate=True)
    depth = indices.shape[-1]
    inner = x.shape[depth:]
    flat = torch.arange(x.numel()).reshape(x.shape)[places].reshape(-1)
    values = updates.expand(*indices.shape[:-1], *inner).reshape(-1)
    return x.reshape(-1).scatter_reduce(0, flat, values, _REDUCE[reduction], include_self=True).reshape(x.shape)


@implements("TensorScatter")
def tensor_scatter(
    past: Tensor, update: Tensor, write_indices: Tensor | None = None, *, axis: int = -2, mode: str = "linear"
) -> Tensor:
    """Each sequence of a cache gets new entries from its own place on."""
    axis = axis % past.dim()
    count, size = update.shape[axis], past.shape[axis]
    start = torch.zeros(past.shape[0], dtype=torch.int64) if write_indices is None else write_indices.to(torch.int64)
    places = start.unsqueeze(1) + torch.arange(count)
    if mode == "circular":
        places = places % size
    shape = [1] * past.dim()
    shape[0], shape[axis] = past.shape[0], count
    return past.scatter(axis, places.reshape(shape).expand(update.shape), update)
