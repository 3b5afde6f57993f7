"""Tables of functions, and softmaxes as they are."""

from __future__ import annotations

import torch

from ...lower import lowers
from ...lower.emitter import Emitter, Value
from ..ops.tables import FIRST

onward = torch.ops.onward


@lowers(onward.lookup.default)
def lookup(g: Emitter, q: Value, table: Value) -> Value:
    """lookup(Tensor q, Tensor table) -> Tensor

    By GatherElements: Gather copies piece by piece, and takes eight times as long for numbers (onnxruntime 1.31).
    """
    places, first = g.cast(q, torch.int32), FIRST[g.dtype(q)]
    if first:
        places = g.op.Sub(places, g.const(first, torch.int32))
    if g.rank(q) == 1:
        return g.op.GatherElements(table, places, axis=0)
    found = g.op.GatherElements(table, g.reshape(places, [-1]), axis=0)
    return g.reshape(found, [g.dim_size(q, axis) for axis in range(g.rank(q))])


@lowers(onward.softmax.default)
def softmax(g: Emitter, x: Value, dim: int) -> Value:
    """softmax(Tensor x, int dim) -> Tensor"""
    return g.softmax(x, dim)


@lowers(onward.log_softmax.default)
def log_softmax(g: Emitter, x: Value, dim: int) -> Value:
    """log_softmax(Tensor x, int dim) -> Tensor"""
    return g.log_softmax(x, dim)
