"""Variance, standard deviation and median."""

from __future__ import annotations

from typing import Any

import torch

from ..emitter import Emitter, Number, Value
from ..registry import lowers
from .reduce import Axes, axes_of

aten = torch.ops.aten


@lowers(aten.var.correction)
def var(g: Emitter, x: Value, dim: Axes = None, *, correction: Number | None = None, keepdim: bool = False) -> Value:
    """var.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> Tensor"""
    return _moments(g, x, dim, correction, keepdim)[0]


@lowers(aten.var.default)
def var_default(g: Emitter, x: Value, unbiased: bool = True) -> Value:
    """var(Tensor self, bool unbiased=True) -> Tensor"""
    return _moments(g, x, None, int(unbiased), False)[0]


@lowers(aten.var.dim)
def var_dim(g: Emitter, x: Value, dim: Axes, unbiased: bool = True, keepdim: bool = False) -> Value:
    """var.dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False) -> Tensor"""
    return _moments(g, x, dim, int(unbiased), keepdim)[0]


@lowers(aten.var_mean.correction)
def var_mean(
    g: Emitter, x: Value, dim: Axes = None, *, correction: Number | None = None, keepdim: bool = False
) -> tuple[Value, Value]:
    """var_mean.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False)
    -> (Tensor, Tensor)"""
    return _moments(g, x, dim, correction, keepdim)


@lowers(aten.std.correction)
def std(g: Emitter, x: Value, dim: Axes = None, *, correction: Number | None = None, keepdim: bool = False) -> Value:
    """std.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> Tensor"""
    return g.op.Sqrt(_moments(g, x, dim, correction, keepdim)[0])


@lowers(aten.std.default)
def std_default(g: Emitter, x: Value, unbiased: bool = True) -> Value:
    """std(Tensor self, bool unbiased=True) -> Tensor"""
    return g.op.Sqrt(_moments(g, x, None, int(unbiased), False)[0])


@lowers(aten.std.dim)
def std_dim(g: Emitter, x: Value, dim: Axes, unbiased: bool = True, keepdim: bool = False) -> Value:
    """std.dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False) -> Tensor"""
    return g.op.Sqrt(_moments(g, x, dim, int(unbiased), keepdim)[0])


@lowers(aten.std_mean.correction)
def std_mean(
    g: Emitter, x: Value, dim: Axes = None, *, correction: Number | None = None, keepdim: bool = False
) -> tuple[Value, Value]:
    """std_mean.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False)
    -> (Tensor, Tensor)"""
    variance, mean = _moments(g, x, dim, correction, keepdim)
    return g.op.Sqrt(variance), mean


def _moments(g: Emitter, x: Value, dim: Axes, correction: Number | None, keepdim: bool) -> tuple[Value, Value]:
    """Variance, with the correction (1 unless said otherwise) taken from the count, and mean."""
    dtype = g.dtype(x)
    x = g.cast(x, torch.float32) if dtype in (torch.float16, torch.bfloat16) else x  # squares leave their range
    if g.rank(x) == 0:
        variance, mean = _moments(g, g.unsqueeze(x, [0]), 0, correction, False)
        return g.cast(variance, dtype), g.cast(mean, dtype)
    axes = axes_of(g, x, dim)
    mean = g.reduce("ReduceMean", x, axes, keepdims=True)
    total = g.reduce("ReduceSumSquare", g.op.Sub(x, mean), axes, keepdim)
    count = g.numel(x, axes) - (1 if correction is None else correction)
    if isinstance(count, (int, float)):
        divisor = g.like(x, max(count, 0))
    else:
        divisor = g.max(g.as_value(count, g.dtype(x)), g.like(x, 0))
    variance = g.op.Div(total, divisor)
    return g.cast(variance, dtype), g.cast(mean if keepdim else g.squeeze(mean, axes), dtype)


@lowers(aten.median.default)
def median(g: Emitter, x: Value) -> Value:
    """median(Tensor self) -> Tensor"""
    return x if g.rank(x) == 0 else _median(g, g.flatten(x), 0, False)[0]


@lowers(aten.median.dim)
def median_dim(g: Emitter, x: Value, dim: int, keepdim: bool = False) -> tuple[Value, Value]:
    """median.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)"""
    return (x, g.const(0)) if g.rank(x) == 0 else _median(g, x, dim % g.rank(x), keepdim)


def _median(g: Emitter, x: Value, axis: int, keepdim: bool) -> tuple[Value, Value]:
    """The lower of the two in the middle: the last of the smaller half."""
    half: Any = (g.dim_size(x, axis) + 1) // 2
    found = g.topk(x, half, axis, largest=False, sorted=True)
    last = [g.slice(value, [-1], [2**63 - 1], [axis]) for value in found]
    values, indices = last if keepdim else [g.squeeze(value, [axis]) for value in last]
    return values, indices
