"""Reductions: sums, products, means, extremes, and whether any or all elements hold.

ONNX does not say what the maximum of numbers and nan is; onnxruntime 1.31 may pass over the nan that PyTorch returns.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ..emitter import Emitter, Value
from ..registry import lowers

aten = torch.ops.aten

Axes = int | Sequence[int] | None


def axes_of(g: Emitter, x: Value, dim: Axes) -> list[int]:
    """The axes a `dim` argument means, counted from the front; none or an empty list means all."""
    rank = g.rank(x)
    given = [dim] if isinstance(dim, int) else list(dim or [])
    return sorted({axis % rank for axis in given}) if given and rank else list(range(rank))


def reduced(g: Emitter, op: str, x: Value, dim: Axes, keepdim: bool = False) -> Value:
    """Reduce over the axes `dim` means. A 0-d tensor has nothing to reduce."""
    if g.rank(x) == 0:
        return x
    axes = axes_of(g, x, dim)
    return g.reduce(op, x, None if len(axes) == g.rank(x) else axes, keepdim)


@lowers(aten.sum.default)
def sum_all(g: Emitter, x: Value, *, dtype: torch.dtype | None = None) -> Value:
    """sum(Tensor self, *, ScalarType? dtype=None) -> Tensor"""
    return reduced(g, "ReduceSum", g.cast(x, g.out_dtype), None)


@lowers(aten.sum.dim_IntList)
def sum_dim(g: Emitter, x: Value, dim: Axes, keepdim: bool = False, *, dtype: torch.dtype | None = None) -> Value:
    """sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor"""
    return reduced(g, "ReduceSum", g.cast(x, g.out_dtype), dim, keepdim)


@lowers(aten.nansum.default)
def nansum(g: Emitter, x: Value, dim: Axes = None, keepdim: bool = False, *, dtype: torch.dtype | None = None) -> Value:
    """nansum(Tensor self, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor"""
    if g.dtype(x).is_floating_point:
        x = g.where(g.op.IsNaN(x), g.like(x, 0), x)
    return reduced(g, "ReduceSum", g.cast(x, g.out_dtype), dim, keepdim)


@lowers(aten.mean.default)
def mean_all(g: Emitter, x: Value, *, dtype: torch.dtype | None = None) -> Value:
    """mean(Tensor self, *, ScalarType? dtype=None) -> Tensor"""
    return mean(g, g.cast(x, g.out_dtype), None)


@lowers(aten.mean.dim)
def mean_dim(g: Emitter, x: Value, dim: Axes, keepdim: bool = False, *, dtype: torch.dtype | None = None) -> Value:
    """mean.dim(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor"""
    return mean(g, g.cast(x, g.out_dtype), dim, keepdim)


def mean(g: Emitter, x: Value, dim: Axes, keepdim: bool = False) -> Value:
    """The mean, which is not a number for no elements."""
    return nan_for_nothing(g, reduced(g, "ReduceMean", x, dim, keepdim), x, dim)


def nan_for_nothing(g: Emitter, result: Value, x: Value, dim: Axes) -> Value:
    """A mean of x. onnxruntime 1.31 gives 0 for no elements, and ONNX leaves it open.

    Axes that may be empty while all inputs have elements add 0 divided by how many elements they have. An input that
    is empty itself is left to onnxruntime: a mean over a picture would otherwise take seven nodes in place of one.
    """
    axes = [axis for axis in axes_of(g, x, dim) if not isinstance(g.known_dims(x)[axis], int)]
    if not axes or not _may_lose_all(x):
        return result
    if g.rank(result) == 0:
        count = g.annotate(g.op.Size(x), (), torch.int64)
    else:
        count = g.size(g.numel(x, axes))
    return g.op.Add(result, g.op.Div(g.like(x, 0), g.cast(count, g.dtype(x))))


# What may leave nothing of a tensor that has elements, and what has none of its own that are empty.
_LEAVE_LESS = frozenset({"Slice", "Split", "Compress", "GatherND", "NonZero", "Range", "Unique", "SplitToSequence"})
_NEVER_EMPTY = frozenset({"Conv", "ConvTranspose", "MaxPool", "AveragePool", "GlobalAveragePool", "Shape"})
_FAR_ENOUGH = 64  # nodes that are looked at


def _may_lose_all(x: Value) -> bool:
    """Whether a tensor is made of parts of others, so that nothing may be left of it."""
    waiting, seen = [x], {x}
    while waiting and len(seen) < _FAR_ENOUGH:
        node = waiting.pop().producer()
        if node is None or node.op_type in _NEVER_EMPTY:
            continue
        if node.op_type in _LEAVE_LESS:
            return True
        given = node.inputs[:1] if node.op_type in ("Reshape", "Expand", "Tile") else node.inputs
        waiting += [each for each in given if each is not None and each not in seen]
        seen.update(each for each in given if each is not None)
    return False


@lowers(aten.prod.default)
def prod_all(g: Emitter, x: Value, *, dtype: torch.dtype | None = None) -> Value:
    """prod(Tensor self, *, ScalarType? dtype=None) -> Tensor"""
    return reduced(g, "ReduceProd", g.cast(x, g.out_dtype), None)


@lowers(aten.prod.dim_int)
def prod_dim(g: Emitter, x: Value, dim: int, keepdim: bool = False, *, dtype: torch.dtype | None = None) -> Value:
    """prod.dim_int(Tensor self, int dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor"""
    return reduced(g, "ReduceProd", g.cast(x, g.out_dtype), dim, keepdim)


@lowers(aten.amax.default)
def amax(g: Emitter, x: Value, dim: Axes = (), keepdim: bool = False) -> Value:
    """amax(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor"""
    return reduced(g, "ReduceMax", x, dim, keepdim)


@lowers(aten.amin.default)
def amin(g: Emitter, x: Value, dim: Axes = (), keepdim: bool = False) -> Value:
    """amin(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor"""
    return reduced(g, "ReduceMin", x, dim, keepdim)


@lowers(aten.aminmax.default)
def aminmax(g: Emitter, x: Value, *, dim: int | None = None, keepdim: bool = False) -> tuple[Value, Value]:
    """aminmax(Tensor self, *, int? dim=None, bool keepdim=False) -> (Tensor min, Tensor max)"""
    return reduced(g, "ReduceMin", x, dim, keepdim), reduced(g, "ReduceMax", x, dim, keepdim)


@lowers(aten.max.default)
def max_all(g: Emitter, x: Value) -> Value:
    """max(Tensor self) -> Tensor"""
    return reduced(g, "ReduceMax", x, None)


@lowers(aten.min.default)
def min_all(g: Emitter, x: Value) -> Value:
    """min(Tensor self) -> Tensor"""
    return reduced(g, "ReduceMin", x, None)


@lowers(aten.max.dim)
def max_dim(g: Emitter, x: Value, dim: int, keepdim: bool = False) -> tuple[Value, Value]:
    """max.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)"""
    return reduced(g, "ReduceMax", x, dim, keepdim), _index(g, "ArgMax", x, dim, keepdim)


@lowers(aten.min.dim)
def min_dim(g: Emitter, x: Value, dim: int, keepdim: bool = False) -> tuple[Value, Value]:
    """min.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)"""
    return reduced(g, "ReduceMin", x, dim, keepdim), _index(g, "ArgMin", x, dim, keepdim)


@lowers(aten.argmax.default)
def argmax(g: Emitter, x: Value, dim: int | None = None, keepdim: bool = False) -> Value:
    """argmax(Tensor self, int? dim=None, bool keepdim=False) -> Tensor"""
    return _index(g, "ArgMax", x, dim, keepdim)


@lowers(aten.argmin.default)
def argmin(g: Emitter, x: Value, dim: int | None = None, keepdim: bool = False) -> Value:
    """argmin(Tensor self, int? dim=None, bool keepdim=False) -> Tensor"""
    return _index(g, "ArgMin", x, dim, keepdim)


def _index(g: Emitter, op: str, x: Value, dim: int | None, keepdim: bool) -> Value:
    """Where the extreme is, the first one if there are several; counted over all elements if there is no dim."""
    rank = g.rank(x)
    if rank == 0:
        return g.const(0)
    if dim is not None:
        return g.node(op, [x], {"axis": dim % rank, "keepdims": keepdim})
    found = g.node(op, [g.flatten(x)], {"axis": 0, "keepdims": False})
    return g.unsqueeze(found, list(range(rank))) if keepdim else found


@lowers(aten.any.default)
def any_all(g: Emitter, x: Value) -> Value:
    """any(Tensor self) -> Tensor"""
    return _quantifier(g, "ReduceMax", x, None, False)


@lowers(aten.any.dim, aten.any.dims)
def any_dim(g: Emitter, x: Value, dim: Axes = None, keepdim: bool = False) -> Value:
    """any.dims(Tensor self, int[]? dim=None, bool keepdim=False) -> Tensor"""
    return _quantifier(g, "ReduceMax", x, dim, keepdim)


@lowers(aten.all.default)
def all_all(g: Emitter, x: Value) -> Value:
    """all(Tensor self) -> Tensor"""
    return _quantifier(g, "ReduceMin", x, None, False)


@lowers(aten.all.dim, aten.all.dims)
def all_dim(g: Emitter, x: Value, dim: Axes = None, keepdim: bool = False) -> Value:
    """all.dims(Tensor self, int[]? dim=None, bool keepdim=False) -> Tensor"""
    return _quantifier(g, "ReduceMin", x, dim, keepdim)


def _quantifier(g: Emitter, op: str, x: Value, dim: Axes, keepdim: bool) -> Value:
    """Any is the maximum of truth values, all is their minimum. An empty list of axes reduces nothing here.

    An axis that may have no elements is asked with integers: onnxruntime 1.31 finds the lowest one then, or the
    highest, but fails on truth values.
    """
    if g.rank(x) == 0 or (isinstance(dim, (list, tuple)) and not dim):
        return g.cast(x, torch.bool)
    sizes = [g.known_dims(x)[axis] for axis in axes_of(g, x, dim)]
    if all(isinstance(size, int) and size for size in sizes):
        return reduced(g, op, g.cast(x, torch.bool), dim, keepdim)
    truth = reduced(g, op, g.cast(g.cast(x, torch.bool), torch.int32), dim, keepdim)
    return g.op.Greater(truth, g.const(0, torch.int32))


def any_of(g: Emitter, condition: Value, axes: Sequence[int], *, keepdims: bool = False) -> Value:
    """Whether any of some truth values holds; of none, none does, where the lowest integer is the largest."""
    largest = g.reduce("ReduceMax", g.cast(condition, torch.int32), axes, keepdims=keepdims)
    return g.op.Greater(largest, g.const(0, torch.int32))


@lowers(aten.count_nonzero.default, aten.count_nonzero.dim_IntList)
def count_nonzero(g: Emitter, x: Value, dim: Axes = None) -> Value:
    """count_nonzero(Tensor self, int? dim=None) -> Tensor"""
    return reduced(g, "ReduceSum", g.cast(g.cast(x, torch.bool), torch.int64), dim)


@lowers(aten.logsumexp.default, aten.special_logsumexp.default)
def logsumexp(g: Emitter, x: Value, dim: Axes, keepdim: bool = False) -> Value:
    """logsumexp(Tensor self, int[1] dim, bool keepdim=False) -> Tensor"""
    return reduced(g, "ReduceLogSumExp", g.cast(x, g.out_dtype), dim, keepdim)
