"""Triangles and diagonals of matrices, products of vectors in space, and of pairs of vectors with matrices."""

from __future__ import annotations

from typing import Any

import torch

from ..emitter import Emitter, SizeValue, Value
from ..registry import lowers
from .window import diagonal

aten = torch.ops.aten


@lowers(aten.tril.default)
def tril(g: Emitter, x: Value, diagonal: int | SizeValue = 0) -> Value:
    """tril(Tensor self, SymInt diagonal=0) -> Tensor"""
    return _triangle(g, x, diagonal, upper=False)


@lowers(aten.triu.default)
def triu(g: Emitter, x: Value, diagonal: int | SizeValue = 0) -> Value:
    """triu(Tensor self, SymInt diagonal=0) -> Tensor"""
    return _triangle(g, x, diagonal, upper=True)


def _triangle(g: Emitter, x: Value, diagonal: int | SizeValue, *, upper: bool) -> Value:
    """An operator from opset 14; before, rows and columns are numbered and compared."""
    if g.opset >= 14:
        offset = None if isinstance(diagonal, int) and diagonal == 0 else g.scalar(diagonal)
        return g.op.Trilu(x, offset, upper=int(upper))
    rows = g.unsqueeze(g.arange(0, g.dim_size(x, -2)), [1])
    columns = g.arange(0, g.dim_size(x, -1))
    shifted = g.op.Add(rows, g.scalar(diagonal))
    kept = g.less_or_equal(shifted, columns) if upper else g.less_or_equal(columns, shifted)
    return g.op.And(x, kept) if g.dtype(x) is torch.bool else g.where(kept, x, g.like(x, 0))


def _same(a: Any, b: Any) -> bool:
    """Whether two sizes agree in every probe."""
    return isinstance(a, SizeValue) and isinstance(b, SizeValue) and a.values == b.values


@lowers(aten.trace.default)
def trace(g: Emitter, x: Value) -> Value:
    """trace(Tensor self) -> Tensor"""
    return g.reduce("ReduceSum", g.cast(diagonal(g, x), g.out_dtype), [0])


@lowers(aten.linalg_cross.default)
def linalg_cross(g: Emitter, x: Value, y: Value, *, dim: int = -1) -> Value:
    """linalg_cross(Tensor self, Tensor other, *, int dim=-1) -> Tensor"""
    forwards, backwards = g.const([1, 2, 0]), g.const([2, 0, 1])

    def turned(value: Value, order: Value) -> Value:
        return g.op.Gather(value, order, axis=dim % g.rank(value))

    left = g.op.Mul(turned(x, forwards), turned(y, backwards))
    return g.op.Sub(left, g.op.Mul(turned(x, backwards), turned(y, forwards)))


@lowers(aten.bilinear.default)
def bilinear(g: Emitter, x: Value, y: Value, weight: Value, bias: Value | None = None) -> Value:
    """bilinear(Tensor input1, Tensor input2, Tensor weight, Tensor? bias=None) -> Tensor: x^T W y for every W"""
    count, width, height = g.known_dims(weight)
    left = g.reshape(g.op.Transpose(weight, perm=[1, 0, 2]), [width, -1])
    rows = g.reshape(g.op.MatMul(x, left), [*g.known_dims(x)[:-1], count, height])
    product = g.op.MatMul(rows, g.unsqueeze(y, [g.rank(y)]))
    result = g.squeeze(product, [g.rank(product) - 1])
    return result if bias is None else g.op.Add(result, bias)
