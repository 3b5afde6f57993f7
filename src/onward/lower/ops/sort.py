"""Order along an axis: the largest, the smallest, all in order."""

from __future__ import annotations

import torch

from ..emitter import Emitter, SizeValue, Value
from ..registry import lowers

aten = torch.ops.aten


@lowers(aten.topk.default)
def topk(
    g: Emitter, x: Value, k: int | SizeValue, dim: int = -1, largest: bool = True, sorted: bool = True
) -> tuple[Value, Value]:
    """topk(Tensor self, SymInt k, int dim=-1, bool largest=True, bool sorted=True)
    -> (Tensor values, Tensor indices)"""
    return g.topk(x, k, dim, largest, sorted)


@lowers(aten.sort.default)
def sort(g: Emitter, x: Value, dim: int = -1, descending: bool = False) -> tuple[Value, Value]:
    """sort(Tensor self, int dim=-1, bool descending=False) -> (Tensor values, Tensor indices)

    TopK puts the lower index first among equals, so this is a stable sort, too.
    """
    size = g.dim_size(x, dim) if g.rank(x) else 1
    return g.topk(x, size, dim, largest=descending)


@lowers(aten.sort.stable)
def sort_stable(
    g: Emitter, x: Value, *, stable: bool | None, dim: int = -1, descending: bool = False
) -> tuple[Value, Value]:
    """sort.stable(Tensor self, *, bool? stable, int dim=-1, bool descending=False)
    -> (Tensor values, Tensor indices)"""
    return sort(g, x, dim, descending)


@lowers(aten.argsort.default)
def argsort(g: Emitter, x: Value, dim: int = -1, descending: bool = False) -> Value:
    """argsort(Tensor self, int dim=-1, bool descending=False) -> Tensor"""
    return sort(g, x, dim, descending)[1]


@lowers(aten.argsort.stable)
def argsort_stable(g: Emitter, x: Value, *, stable: bool, dim: int = -1, descending: bool = False) -> Value:
    """argsort.stable(Tensor self, *, bool stable, int dim=-1, bool descending=False) -> Tensor"""
    return sort(g, x, dim, descending)[1]


@lowers(aten.kthvalue.default)
def kthvalue(g: Emitter, x: Value, k: int | SizeValue, dim: int = -1, keepdim: bool = False) -> tuple[Value, Value]:
    """kthvalue(Tensor self, SymInt k, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor indices)"""
    values, indices = g.topk(x, k, dim, largest=False)
    if g.rank(x) == 0:
        return values, indices
    last = g.scalar(k - 1)
    picked = [g.op.Gather(each, last, axis=dim) for each in (values, indices)]
    if keepdim:
        picked = [g.unsqueeze(each, [dim]) for each in picked]
    return picked[0], picked[1]
