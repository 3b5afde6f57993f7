"""Tensors made from sizes and numbers."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from ..bridge import as_dim
from ..emitter import Emitter, Number, Size, SizeValue, Value
from ..registry import lowers

aten = torch.ops.aten

Scalar = Value | Number | SizeValue
Count = int | SizeValue


def filled(g: Emitter, sizes: Sequence[Size], value: Scalar, dtype: torch.dtype) -> Value:
    """A tensor of the given sizes with one value everywhere."""
    if not isinstance(value, (int, float)):
        return g.expand(g.as_value(value, dtype), sizes)
    dims = [as_dim(size) for size in sizes]
    one = torch.full((1,), value, dtype=dtype)
    if not sizes:
        return g.const_tensor(one.reshape(()))
    result = g.op.ConstantOfShape(g.shape(sizes), value=one)
    return result if None in dims else g.annotate(result, dims)  # type: ignore[arg-type]


def _as_result(g: Emitter, value: Scalar) -> Value:
    """One value everywhere in the shape and dtype that capture saw."""
    return filled(g, g.out.shape, value, g.out_dtype)


@lowers(aten.zeros.default, aten.empty.memory_format, aten.empty_strided.default, aten.empty_permuted.default)
def zeros(g: Emitter, size: Sequence[Size], *rest: object, dtype: object = None) -> Value:
    """zeros(SymInt[] size, *, ScalarType? dtype=None, ...) -> Tensor; what was never written is zero too"""
    return filled(g, size, 0, g.out_dtype)


@lowers(aten.ones.default)
def ones(g: Emitter, size: Sequence[Size], dtype: object = None) -> Value:
    """ones(SymInt[] size, *, ScalarType? dtype=None, ...) -> Tensor"""
    return filled(g, size, 1, g.out_dtype)


@lowers(aten.full.default)
def full(g: Emitter, size: Sequence[Size], value: Scalar, dtype: object = None) -> Value:
    """full(SymInt[] size, Scalar fill_value, *, ScalarType? dtype=None, ...) -> Tensor"""
    return filled(g, size, value, g.out_dtype)


@lowers(aten.new_zeros.default, aten.new_empty.default, aten.new_empty_strided.default)
def new_zeros(g: Emitter, x: Value, size: Sequence[Size], *rest: object, dtype: object = None) -> Value:
    """new_zeros(Tensor self, SymInt[] size, *, ScalarType? dtype=None, ...) -> Tensor"""
    return filled(g, size, 0, g.out_dtype)


@lowers(aten.new_ones.default)
def new_ones(g: Emitter, x: Value, size: Sequence[Size], dtype: object = None) -> Value:
    """new_ones(Tensor self, SymInt[] size, *, ScalarType? dtype=None, ...) -> Tensor"""
    return filled(g, size, 1, g.out_dtype)


@lowers(aten.new_full.default)
def new_full(g: Emitter, x: Value, size: Sequence[Size], value: Scalar, dtype: object = None) -> Value:
    """new_full(Tensor self, SymInt[] size, Scalar fill_value, *, ScalarType? dtype=None, ...) -> Tensor"""
    return filled(g, size, value, g.out_dtype)


@lowers(aten.zeros_like.default, aten.empty_like.default, aten.zero.default)
def zeros_like(g: Emitter, x: Value, dtype: object = None) -> Value:
    """zeros_like(Tensor self, *, ScalarType? dtype=None, ...) -> Tensor"""
    return _as_result(g, 0)


@lowers(aten.ones_like.default)
def ones_like(g: Emitter, x: Value, dtype: object = None) -> Value:
    """ones_like(Tensor self, *, ScalarType? dtype=None, ...) -> Tensor"""
    return _as_result(g, 1)


@lowers(aten.full_like.default, aten.fill.Scalar, aten.fill.Tensor)
def full_like(g: Emitter, x: Value, value: Scalar, dtype: object = None) -> Value:
    """full_like(Tensor self, Scalar fill_value, *, ScalarType? dtype=None, ...) -> Tensor"""
    return _as_result(g, value)


@lowers(aten.scalar_tensor.default)
def scalar_tensor(g: Emitter, value: Scalar, dtype: object = None) -> Value:
    """scalar_tensor(Scalar s, *, ScalarType? dtype=None, ...) -> Tensor"""
    return g.as_value(value, g.out_dtype)


# Sequences of numbers


@lowers(aten.arange.default)
def arange(g: Emitter, end: Scalar, dtype: object = None) -> Value:
    """arange(Scalar end, *, ScalarType? dtype=None, ...) -> Tensor"""
    return arange_start_step(g, 0, end)


@lowers(aten.arange.start, aten.arange.start_step)
def arange_start_step(g: Emitter, start: Scalar, end: Scalar, step: Scalar = 1, dtype: object = None) -> Value:
    """arange.start_step(Scalar start, Scalar end, Scalar step=1, *, ScalarType? dtype=None, ...) -> Tensor"""
    bounds = (start, end, step)
    if not g.out_dtype.is_floating_point and not all(_is_whole(g, bound) for bound in bounds):
        return _whole_arange(g, start, end, step)
    whole = all(isinstance(bound, int) or (isinstance(bound, SizeValue) and bound.kind is int) for bound in bounds)
    if whole or not _varies(*bounds) or any(isinstance(bound, Value) for bound in bounds):
        return g.arange(start, end, step, g.out_dtype)
    # Range adds up the step, and with it its rounding errors: count instead, then scale.
    places = g.arange(0, _count(start, end, step), 1, torch.int64)
    return _ramp(g, places, start, step)


def _is_whole(g: Emitter, bound: Scalar | Value) -> bool:
    if isinstance(bound, Value):
        return not g.dtype(bound).is_floating_point
    return isinstance(bound, int) or (isinstance(bound, SizeValue) and bound.kind is not float)


def _truncated(g: Emitter, bound: Any) -> Any:
    """A bound without its fraction."""
    if isinstance(bound, Value):
        return g.cast(bound, torch.int64)
    return SizeValue.of(int, bound) if isinstance(bound, SizeValue) else int(bound)


def _whole_arange(g: Emitter, start: Any, end: Any, step: Any) -> Value:
    """Integers between ends with fractions. PyTorch drops the fractions before it counts up; how many numbers there
    are it finds before that, except for int64."""
    first, last, each = (_truncated(g, bound) for bound in (start, end, step))
    if g.out_dtype is torch.int64:
        return g.arange(first, last, each, torch.int64)
    if any(isinstance(bound, Value) for bound in (start, end, step)):
        raise g.unsupported(f"arange with tensors of floating point as bounds of {g.out_dtype}")
    count = math.ceil((end - start) / step) if not _varies(start, end, step) else _count(start, end, step)
    places = g.arange(0, count, 1, torch.int64)
    return g.cast(g.op.Add(g.op.Mul(places, g.as_value(each)), g.as_value(first)), g.out_dtype)


def _count(start: Any, end: Any, step: Any) -> SizeValue:
    """How many numbers a range has, by its ends as they are; one of them depends on sizes."""
    span = SizeValue.of(operator.sub, end, start) if _varies(end, start) else end - start
    return SizeValue.of(math.ceil, SizeValue.of(operator.truediv, span, step))


def _varies(*bounds: object) -> bool:
    """Whether a number depends on sizes."""
    return any(isinstance(bound, SizeValue) for bound in bounds)


def _ramp(g: Emitter, places: Value, start: Scalar, step: Scalar) -> Value:
    """start + place * step, computed in the type PyTorch accumulates in."""
    wide = torch.float64 if g.out_dtype is torch.float64 else torch.float32
    result = g.op.Mul(g.cast(places, wide), g.as_value(step, wide))
    return g.cast(g.op.Add(result, g.as_value(start, wide)), g.out_dtype)


@lowers(aten.linspace.default, aten.linspace.Tensor_Tensor, aten.linspace.Tensor_Scalar, aten.linspace.Scalar_Tensor)
def linspace(g: Emitter, start: Scalar, end: Scalar, steps: int | SizeValue, dtype: object = None) -> Value:
    """linspace(Scalar start, Scalar end, int steps, *, ScalarType? dtype=None, ...) -> Tensor"""
    if all(isinstance(bound, (int, float)) for bound in (start, end)) and isinstance(steps, int):
        return g.const_tensor(torch.linspace(start, end, steps, dtype=g.out_dtype))  # type: ignore[arg-type]
    if not g.out_dtype.is_floating_point:
        return _whole_linspace(g, start, end, steps)
    wide = torch.float64 if g.out_dtype is torch.float64 else torch.float32
    gaps = max(steps - 1, 1) if isinstance(steps, int) else SizeValue.of(torch.sym_max, steps - 1, 1)
    first, last, count = g.promote(start, end, gaps, dtype=wide)
    step = g.op.Div(g.op.Sub(last, first), count)
    return g.annotate(_ramp(g, g.arange(0, steps), first, step), g.out.shape)


def _whole_linspace(g: Emitter, start: Scalar, end: Scalar, steps: int | SizeValue) -> Value:
    """Integers: PyTorch drops the fractions of the ends, and counts from both of them."""
    gaps = max(steps - 1, 1) if isinstance(steps, int) else SizeValue.of(torch.sym_max, steps - 1, 1)
    ends = [_truncated(g, bound) for bound in (start, end)]
    first, last, count = g.promote(*ends, gaps, dtype=torch.float64)
    step = g.op.Div(g.op.Sub(last, first), count)
    places = g.arange(0, steps)
    # A single number is the first.
    half = max(steps // 2, 1) if isinstance(steps, int) else SizeValue.of(torch.sym_max, steps // 2, 1)
    before = g.op.Add(first, g.op.Mul(g.cast(places, torch.float64), step))
    left = g.cast(g.op.Sub(g.as_value(steps - 1), places), torch.float64)
    after = g.op.Sub(last, g.op.Mul(left, step))
    return g.annotate(g.cast(g.where(g.op.Less(places, g.as_value(half)), before, after), g.out_dtype), g.out.shape)


@lowers(aten.eye.default)
def eye(g: Emitter, rows: int | SizeValue, dtype: object = None) -> Value:
    """eye(SymInt n, *, ScalarType? dtype=None, ...) -> Tensor"""
    return eye_m(g, rows, rows)


@lowers(aten.eye.m)
def eye_m(g: Emitter, rows: int | SizeValue, columns: int | SizeValue, dtype: object = None) -> Value:
    """eye.m(SymInt n, SymInt m, *, ScalarType? dtype=None, ...) -> Tensor"""
    blank = filled(g, [rows, columns], 0, torch.float32)
    return g.annotate(g.op.EyeLike(blank, dtype=torch.float32), g.out.shape)


@lowers(aten._dim_arange.default)
def dim_arange(g: Emitter, like: Value, dim: int) -> Value:
    """_dim_arange(Tensor like, int dim) -> Tensor"""
    return g.arange(0, g.dim_size(like, dim))


@lowers(aten.tril_indices.default)
def tril_indices(g: Emitter, rows: Count, columns: Count, offset: Count = 0, dtype: object = None) -> Value:
    """tril_indices(int row, int col, int offset=0, *, ScalarType? dtype=long, ...) -> Tensor"""
    return _triangle_indices(g, torch.tril_indices, rows, columns, offset)


@lowers(aten.triu_indices.default)
def triu_indices(g: Emitter, rows: Count, columns: Count, offset: Count = 0, dtype: object = None) -> Value:
    """triu_indices(int row, int col, int offset=0, *, ScalarType? dtype=long, ...) -> Tensor"""
    return _triangle_indices(g, torch.triu_indices, rows, columns, offset)


def _triangle_indices(g: Emitter, indices: Callable[..., Tensor], rows: Count, columns: Count, offset: Count) -> Value:
    """A constant; of unknown size, the places where rows and columns compare as they should."""
    if not _varies(rows, columns, offset):
        return g.const_tensor(indices(rows, columns, offset, dtype=g.out_dtype))
    across, along = g.unsqueeze(g.arange(0, rows), [1]), g.arange(0, columns)
    shifted = g.op.Add(across, g.scalar(offset))
    inside = g.less_or_equal(shifted, along) if indices is torch.triu_indices else g.less_or_equal(along, shifted)
    return g.annotate(g.cast(g.op.NonZero(inside), g.out_dtype), g.out.shape)
