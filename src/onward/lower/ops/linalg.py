"""Matrix products."""

from __future__ import annotations

import torch

from ..emitter import Emitter, Value
from ..registry import lowers

aten = torch.ops.aten


@lowers(aten.linear.default)
def linear(g: Emitter, x: Value, weight: Value, bias: Value | None = None) -> Value:
    """linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor"""
    if g.rank(x) == 2 and g.rank(weight) == 2:
        return g.op.Gemm(x, weight, bias, transB=1)
    product = g.op.MatMul(x, g.op.Transpose(weight, perm=[1, 0]))
    return product if bias is None else g.op.Add(product, bias)
