"""Variance, standard deviation, medians and the most frequent value."""

from __future__ import annotations

from typing import Any

import torch

from onward.capture.program.facts import Dim

from ..emitter import Emitter, Number, Value
from ..registry import lowers
from .reduce import Axes, axes_of, nan_for_nothing

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
    mean = mean if keepdim else g.squeeze(mean, axes)
    return g.cast(variance, dtype), g.cast(nan_for_nothing(g, mean, x, dim), dtype)


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
    if g.known_dims(x)[axis] == 0:  # of nothing at all, PyTorch says nan
        return g.expand(g.like(x, float("nan")), _without(g, x, axis, keepdim)), g.const(0)
    half: Any = (g.dim_size(x, axis) + 1) // 2
    found = g.topk(x, half, axis, largest=False, sorted=True)
    last = [g.slice(value, [-1], [2**63 - 1], [axis]) for value in found]
    values, indices = last if keepdim else [g.squeeze(value, [axis]) for value in last]
    return values, indices


def _without(g: Emitter, x: Value, axis: int, keepdim: bool) -> list[Dim]:
    """The shape after an axis is reduced."""
    shape = g.known_dims(x)
    return [*shape[:axis], *([1] if keepdim else []), *shape[axis + 1 :]]


@lowers(aten.nanmedian.default)
def nanmedian(g: Emitter, x: Value) -> Value:
    """nanmedian(Tensor self) -> Tensor"""
    return x if g.rank(x) == 0 else _nanmedian(g, g.flatten(x), 0, False)[0]


@lowers(aten.nanmedian.dim)
def nanmedian_dim(g: Emitter, x: Value, dim: int, keepdim: bool = False) -> tuple[Value, Value]:
    """nanmedian.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)"""
    return (x, g.const(0)) if g.rank(x) == 0 else _nanmedian(g, x, dim % g.rank(x), keepdim)


def _nanmedian(g: Emitter, x: Value, axis: int, keepdim: bool) -> tuple[Value, Value]:
    """The middle one of those that are numbers, which come first in order; nan where none is."""
    if not g.dtype(x).is_floating_point or g.known_dims(x)[axis] == 0:
        return _median(g, x, axis, keepdim)
    missing = g.op.IsNaN(x)
    ordered, places = g.topk(g.where(missing, g.like(x, float("inf")), x), g.dim_size(x, axis), axis, largest=False)
    count = g.reduce("ReduceSum", g.cast(g.op.Not(missing), torch.int64), [axis], keepdims=True)
    middle = g.max(g.op.Div(g.op.Sub(count, g.const(1)), g.const(2)), g.const(0))
    value, index = (g.gather_elements(each, middle, axis) for each in (ordered, places))
    value = g.where(g.equal(count, g.const(0)), g.like(x, float("nan")), value)
    return (value, index) if keepdim else (g.squeeze(value, [axis]), g.squeeze(index, [axis]))


@lowers(aten.mode.default)
def mode(g: Emitter, x: Value, dim: int = -1, keepdim: bool = False) -> tuple[Value, Value]:
    """mode(Tensor self, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor indices)

    In order, equal elements are neighbours: the first of those with most equals has the smallest value, and as many
    places further comes the last of them, which is the one that PyTorch names.
    """
    if g.rank(x) == 0:
        return x, g.const(0)
    axis = dim % g.rank(x)
    ordered, places = g.topk(x, g.dim_size(x, axis), axis, largest=False)
    same = g.equal(g.unsqueeze(ordered, [axis]), g.unsqueeze(ordered, [axis + 1]))
    count = g.reduce("ReduceSum", g.cast(same, torch.int64), [axis])
    first = g.op.ArgMax(count, axis=axis, keepdims=1)
    last = g.op.Sub(g.op.Add(first, g.gather_elements(count, first, axis)), g.const(1))
    values, indices = (g.gather_elements(each, last, axis) for each in (ordered, places))
    return (values, indices) if keepdim else (g.squeeze(values, [axis]), g.squeeze(indices, [axis]))
