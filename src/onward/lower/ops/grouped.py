"""Products of groups of rows, each with a matrix of its own, as mixtures of experts compute them."""

from __future__ import annotations

import torch

from ..emitter import Emitter, Value
from ..registry import lowers

aten = torch.ops.aten


@lowers(aten._grouped_mm.default)
def grouped_mm(
    g: Emitter,
    x: Value,
    matrices: Value,
    ends: Value | None = None,
    bias: Value | None = None,
    out_dtype: torch.dtype | None = None,
) -> Value:
    """_grouped_mm(Tensor self, Tensor mat2, Tensor? offs=None, Tensor? bias=None, ScalarType? out_dtype=None) -> Tensor

    Rows up to ends[0] belong to the first matrix, from there to ends[1] to the second, and so on.
    """
    if bias is not None:
        raise g.unsupported("a bias of grouped_mm")
    if g.rank(x) == 3 and g.rank(matrices) == 3 and ends is None:
        return g.cast(g.op.MatMul(x, matrices), g.out_dtype)
    if g.rank(x) != 2 or g.rank(matrices) != 3 or ends is None:
        raise g.unsupported("grouped_mm with groups along another axis than the rows of the first factor")
    if g.opset < 13:
        raise g.needs_opset(13)
    count = g.known_dims(matrices)[0]
    if not isinstance(count, int):
        raise g.unsupported("grouped_mm with an unknown number of groups")
    products = [
        g.op.MatMul(rows, g.op.Gather(matrices, g.const(place), axis=0))
        for place, rows in enumerate(_groups(g, x, ends, count))
    ]
    return g.cast(products[0] if count == 1 else g.op.Concat(*products, axis=0), g.out_dtype)


def _groups(g: Emitter, x: Value, ends: Value, count: int) -> list[Value]:
    """The rows of every group. Rows beyond the last end, whose results PyTorch leaves open, go with the last group."""
    if count == 1:
        return [x]
    inner = g.slice(g.cast(ends, torch.int64), [0], [count - 1], [0])
    last = g.op.Concat(inner, g.size(g.dim_size(x, 0)), axis=0)
    sizes = g.op.Sub(last, g.op.Concat(g.const([0]), inner, axis=0))
    return list(g.node("Split", [x, sizes], {"axis": 0}, outputs=count))
