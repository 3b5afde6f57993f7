"""Tensors side by side: each is brought to the grid of the result, where their grids differ."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from ..grids.grid import Grid
from ..run.handlers import handles
from ..run.session import Phase, Session
from ..run.tags import OnGrid


@handles(torch.cat, torch.concat, torch.concatenate)
def cat(session: Session, func: Any, tensors: Any, dim: int = 0, axis: int | None = None) -> Any:
    return join(session, "cat", list(tensors), dim if axis is None else axis)


@handles(torch.stack)
def stack(session: Session, func: Any, tensors: Any, dim: int = 0) -> Any:
    return join(session, "stack", list(tensors), dim, lambda x: x.unsqueeze(dim))


@handles(torch.hstack, torch.vstack, torch.dstack, torch.column_stack, torch.row_stack)
def stack_along(session: Session, func: Any, tensors: Any) -> Any:
    tensors = list(tensors)
    if func is torch.hstack:
        return join(session, "hstack", tensors, 0 if tensors[0].dim() <= 1 else 1, torch.atleast_1d)
    if func is torch.dstack:
        return join(session, "dstack", tensors, 2, torch.atleast_3d)
    if func is torch.column_stack:
        return join(session, "column_stack", tensors, 1, lambda x: x if x.dim() > 1 else x.reshape(-1, 1))
    return join(session, "vstack", tensors, 0, torch.atleast_2d)


def join(
    session: Session, name: str, tensors: Sequence[Tensor], dim: int, shaped: Callable[[Tensor], Tensor] | None = None
) -> Any:
    """torch.cat of tensors that are first brought into shape, on one grid.

    Concat between DequantizeLinear and QuantizeLinear is QLinearConcat to onnxruntime; where all have one grid, the
    integers are joined as they are."""
    if any(each.dtype is not torch.float32 for each in tensors) or not any(map(session.has_grid, tensors)):
        return NotImplemented
    call = session.call(name)
    settled = [session.settle(each, call.site(f"input{number}")) for number, each in enumerate(tensors)]
    y = torch.cat([shaped(each) if shaped else each for each in settled], dim)
    if not all(map(session.is_on_grid, settled)):  # a mask, which no grid can hold
        return y
    found = [session.integers(each) for each in settled]
    if session.phase is not Phase.EXACT or any(each is None for each in found):
        return session.wait(y, call)
    grids = [grid for _, grid in found]  # type: ignore[misc]
    if not all(each.same_as(grids[0]) for each in grids):
        return session.wait(y, call)
    q = torch.cat([shaped(q) if shaped else q for q, _ in found], dim)  # type: ignore[misc]
    return session.put(y, OnGrid(_hull(grids), q))


def _hull(grids: Sequence[Grid]) -> Grid:
    """One grid for the integers of several that are the same but for their bounds."""
    first = grids[0]
    low, high = min(each.low for each in grids), max(each.high for each in grids)
    return Grid(first.scale, first.zero_point, first.dtype, low, high, first.axis)
