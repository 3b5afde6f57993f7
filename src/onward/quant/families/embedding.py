"""Tables looked up by number: the table lies on a grid, and what is gathered are its integers."""

from __future__ import annotations

import functools
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from .. import native
from ..config.settings import Activations, Resolved
from ..exact.integers import dequantize, quantize
from ..grids.fake_quantize import fake_quantize
from ..grids.grid import grid_from_range
from ..grids.observers import RangeError
from ..run.handlers import WEIGHT_ONLY, handles
from ..run.session import Phase, QuantSession
from ..run.states import OnGrid
from ..run.study import is_rounded, show_weight


@handles(F.embedding)
@handles(F.embedding, table=WEIGHT_ONLY)
def embedding(
    session: QuantSession,
    func: Any,
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Any:
    """One scale serves the whole table, because the values of all rows meet in one tensor. `max_norm` writes to the
    table as it reads, and stays in float."""
    if max_norm is not None or weight.dtype is not torch.float32 or weight.numel() == 0:
        return NotImplemented
    call = session.call("embedding")
    settings = call.settings
    spec = table_settings(settings)

    def looked_up(table: Tensor) -> Tensor:
        result: Tensor = F.embedding(input, table, padding_idx, None, norm_type, scale_grad_by_freq, sparse)
        return result

    if session.study is not None and not session.study.exact and not is_rounded(session.study, call.path):
        y = looked_up(weight)
        return y if settings.weight_only else session.put(y, OnGrid())
    if session.phase is not Phase.EXACT:
        y = looked_up(fake_quantize(weight, *_ends(weight), spec, rounding=settings.rounding))
        return y if settings.weight_only else session.put(y, OnGrid())
    grid = grid_from_range(*_ends(weight), spec, settings.rounding)
    table = quantize(weight.detach(), grid, settings.rounding)
    show_weight(session.study, call.path, call.name, weight, functools.partial(dequantize, table, grid))
    q = looked_up(table)
    return dequantize(q, grid) if settings.weight_only else session.on_grid(q, grid)


@handles(F.embedding_bag)
def embedding_bag(
    session: QuantSession,
    func: Any,
    input: Tensor,
    weight: Tensor,
    offsets: Tensor | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Any:
    """Bags of one size are rows that are looked up, and then added up. Those of other sizes stay in float."""
    if input.dim() != 2 or weight.dtype is not torch.float32 or (per_sample_weights is not None and mode != "sum"):
        return NotImplemented
    if offsets is not None or max_norm is not None or padding_idx is not None:
        return NotImplemented

    def combined() -> Tensor:
        rows = F.embedding(input, weight, None, None, norm_type, scale_grad_by_freq, sparse)
        if per_sample_weights is not None:
            return torch.matmul(per_sample_weights.unsqueeze(1), rows).squeeze(1)
        return rows.amax(1) if mode == "max" else rows.sum(1) if mode == "sum" else rows.mean(1)

    return session.composed(combined)


def _ends(table: Tensor) -> tuple[float, float]:
    table = table.detach()
    found = native.ends(table) if native.reads(table) else None
    if found is None:
        low, high = torch.aminmax(table)
        if not bool((high - low).isfinite()):
            raise RangeError("values of the table are NaN or infinite")
        found = low.item(), high.item()
    return found


@functools.cache
def table_settings(settings: Resolved) -> Activations:
    """A table is a weight that is read as an activation: the bits of the one, the scheme of the other."""
    return Activations(
        bits=settings.weights.bits if settings.weights.block_size is None else 8,
        symmetric=settings.activations.symmetric,
        power_of_two=settings.weights.power_of_two,
    )
