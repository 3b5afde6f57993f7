"""Lengths of vectors and distances between them."""

from __future__ import annotations

import math

import torch

from ..emitter import Emitter, Number, Value
from ..registry import lowers
from .reduce import Axes, reduced

aten = torch.ops.aten


@lowers(aten.linalg_vector_norm.default)
def linalg_vector_norm(
    g: Emitter,
    x: Value,
    order: Number = 2,
    dim: Axes = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> Value:
    """linalg_vector_norm(Tensor self, Scalar ord=2, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None)
    -> Tensor"""
    return _length(g, g.cast(x, g.out_dtype), order, dim, keepdim)


@lowers(aten.norm.Scalar, aten.norm.ScalarOpt_dim)
def norm(g: Emitter, x: Value, p: Number | None = 2, dim: Axes = None, keepdim: bool = False) -> Value:
    """norm.ScalarOpt_dim(Tensor self, Scalar? p, int[1] dim, bool keepdim=False) -> Tensor"""
    return _length(g, x, 2 if p is None else p, dim, keepdim)


@lowers(aten.norm.ScalarOpt_dtype)
def norm_dtype(g: Emitter, x: Value, p: Number | None, *, dtype: torch.dtype) -> Value:
    """norm.ScalarOpt_dtype(Tensor self, Scalar? p, *, ScalarType dtype) -> Tensor"""
    return _length(g, g.cast(x, dtype), 2 if p is None else p, None, False)


@lowers(aten.norm.ScalarOpt_dim_dtype)
def norm_dim_dtype(
    g: Emitter, x: Value, p: Number | None, dim: Axes, keepdim: bool = False, *, dtype: torch.dtype
) -> Value:
    """norm.ScalarOpt_dim_dtype(Tensor self, Scalar? p, int[1] dim, bool keepdim, *, ScalarType dtype) -> Tensor"""
    return _length(g, g.cast(x, dtype), 2 if p is None else p, dim, keepdim)


def _length(g: Emitter, x: Value, order: Number, dim: Axes, keepdim: bool) -> Value:
    """The p-norm over some axes, computed in float32 where the type is half as wide, as PyTorch does."""
    dtype = g.dtype(x)
    x = g.cast(x, torch.float32) if dtype in (torch.float16, torch.bfloat16) else x
    return g.cast(_length_of(g, x, order, dim, keepdim), dtype)


def _length_of(g: Emitter, x: Value, order: Number, dim: Axes, keepdim: bool) -> Value:
    if order == 0:
        counted = g.cast(g.cast(x, torch.bool), g.dtype(x))
        return reduced(g, "ReduceSum", counted, dim, keepdim)
    if g.rank(x) == 0:
        return g.op.Abs(x)
    if order in (1, 2):
        return reduced(g, f"ReduceL{int(order)}", x, dim, keepdim)
    if math.isinf(order):
        return reduced(g, "ReduceMax" if order > 0 else "ReduceMin", g.op.Abs(x), dim, keepdim)
    powers = g.pow(g.op.Abs(x), order)
    return g.pow(reduced(g, "ReduceSum", powers, dim, keepdim), 1 / order)


@lowers(aten.dist.default)
def dist(g: Emitter, x: Value, y: Value, p: Number = 2) -> Value:
    """dist(Tensor self, Tensor other, Scalar p=2) -> Tensor"""
    x, y = g.promote(x, y)
    return _length(g, g.op.Sub(x, y), p, None, False)


@lowers(aten.pdist.default, aten._pdist_forward.default)
def pdist(g: Emitter, x: Value, p: float = 2) -> Value:
    """pdist(Tensor self, float p=2) -> Tensor: between every row and those after it"""
    size = g.dim_size(x, 0)
    if isinstance(size, int):
        pairs = [g.const_tensor(places) for places in torch.triu_indices(size, size, 1)]
    else:
        numbers = g.arange(0, size)
        later = g.op.Less(g.unsqueeze(numbers, [1]), g.unsqueeze(numbers, [0]))
        table = g.annotate(g.op.NonZero(later), (2, *g.out.shape))
        pairs = [g.op.Gather(table, g.const(side), axis=0) for side in (0, 1)]
    first, second = (g.op.Gather(x, places, axis=0) for places in pairs)
    return _length(g, g.op.Sub(first, second), p, -1, False)


@lowers(aten.cdist.default, aten._cdist_forward.default)
def cdist(g: Emitter, x: Value, y: Value, p: float = 2.0, compute_mode: int | None = None) -> Value:
    """cdist(Tensor x1, Tensor x2, float p=2., int? compute_mode=None) -> Tensor"""
    difference = g.op.Sub(g.unsqueeze(x, [-2]), g.unsqueeze(y, [-3]))
    return _length(g, difference, p, -1, False)
