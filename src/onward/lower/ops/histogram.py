"""Counting values: how often each occurs, and how many fall between edges."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ..emitter import Emitter, SizeValue, Value
from ..registry import lowers

aten = torch.ops.aten
_END = 2**63 - 1


@lowers(aten.bincount.default)
def bincount(g: Emitter, x: Value, weights: Value | None = None, minlength: int | SizeValue = 0) -> Value:
    """bincount(Tensor self, Tensor? weights=None, SymInt minlength=0) -> Tensor"""
    x = g.cast(x, torch.int64)
    largest = x if isinstance(g.known_dims(x)[0], int) else g.op.Concat(x, g.const([-1]), axis=0)  # there may be none
    bins = g.op.Add(g.reduce("ReduceMax", largest, [0], keepdims=True), g.const([1]))
    if minlength != 0:
        bins = g.max(bins, g.size(minlength))
    dtype = g.out_dtype
    numbers = g.arange(0, g.squeeze(bins, [0]), 1, torch.int64)
    hits = g.cast(g.equal(g.unsqueeze(x, [1]), g.unsqueeze(numbers, [0])), dtype)
    if weights is not None:
        hits = g.op.Mul(hits, g.unsqueeze(g.cast(weights, dtype), [1]))
    return g.reduce("ReduceSum", g.annotate(hits, (*g.known_dims(x), *g.out.shape)), [0])


@lowers(aten.histc.default)
def histc(g: Emitter, x: Value, bins: int = 100, low: float = 0, high: float = 0) -> Value:
    """histc(Tensor self, int bins=100, Scalar min=0, Scalar max=0) -> Tensor

    Bins of equal width between two ends, which are the data's own where they are given as equal. What lies outside is
    not counted, and the upper end belongs to the last bin.
    """
    x = g.reshape(x, [-1])
    if low == high:
        first, last = g.reduce("ReduceMin", x, [0], keepdims=True), g.reduce("ReduceMax", x, [0], keepdims=True)
        alone = g.equal(first, last)
        lower = g.where(alone, g.op.Sub(first, g.like(x, 1)), first)
        upper = g.where(alone, g.op.Add(last, g.like(x, 1)), last)
    else:
        lower, upper = g.like(x, low), g.like(x, high)
    place = g.op.Floor(g.op.Div(g.op.Mul(g.op.Sub(x, lower), g.like(x, bins)), g.op.Sub(upper, lower)))
    place = g.where(g.equal(x, upper), g.like(x, bins - 1), place)
    numbers = g.const_tensor(torch.arange(bins, dtype=g.dtype(x)))
    hits = g.cast(g.equal(g.unsqueeze(place, [1]), numbers), g.out_dtype)
    return g.reduce("ReduceSum", hits, [0])


@lowers(aten.histogram.bins_tensor)
def histogram(
    g: Emitter, x: Value, bins: Value, *, weight: Value | None = None, density: bool = False
) -> tuple[Value, Value]:
    """histogram.bins_tensor(Tensor self, Tensor bins, *, Tensor? weight=None, bool density=False)
    -> (Tensor hist, Tensor bin_edges)"""
    return _histogram(g, g.reshape(x, [-1, 1]), [bins], weight, density), bins


@lowers(aten.histogram.bin_ct)
def histogram_count(
    g: Emitter,
    x: Value,
    bins: int = 100,
    *,
    range: Sequence[float] | None = None,
    weight: Value | None = None,
    density: bool = False,
) -> tuple[Value, Value]:
    """histogram.bin_ct(Tensor self, int bins=100, *, float[]? range=None, Tensor? weight=None, bool density=False)
    -> (Tensor hist, Tensor bin_edges)"""
    points = g.reshape(x, [-1, 1])
    edges = _even_edges(g, points, 0, bins, range)
    return _histogram(g, points, [edges], weight, density), edges


@lowers(aten._histogramdd_bin_edges.default)
def _histogramdd_bin_edges(
    g: Emitter,
    x: Value,
    bins: Sequence[int],
    *,
    range: Sequence[float] | None = None,
    weight: Value | None = None,
    density: bool = False,
) -> list[Value]:
    """_histogramdd_bin_edges(Tensor self, int[] bins, *, float[]? range=None, Tensor? weight=None, bool density=False)
    -> Tensor[]"""
    points, limits = _points(g, x), range or []
    return [_even_edges(g, points, axis, count, limits[2 * axis : 2 * axis + 2]) for axis, count in enumerate(bins)]


@lowers(aten._histogramdd_from_bin_cts.default)
def _histogramdd_from_bin_cts(
    g: Emitter,
    x: Value,
    bins: Sequence[int],
    *,
    range: Sequence[float] | None = None,
    weight: Value | None = None,
    density: bool = False,
) -> Value:
    """_histogramdd_from_bin_cts(Tensor self, int[] bins, *, float[]? range=None, Tensor? weight=None,
    bool density=False) -> Tensor"""
    return _histogram(g, _points(g, x), _histogramdd_bin_edges(g, x, bins, range=range), weight, density)


@lowers(aten._histogramdd_from_bin_tensors.default)
def _histogramdd_from_bin_tensors(
    g: Emitter, x: Value, bins: Sequence[Value], *, weight: Value | None = None, density: bool = False
) -> Value:
    """_histogramdd_from_bin_tensors(Tensor self, Tensor[] bins, *, Tensor? weight=None, bool density=False)
    -> Tensor"""
    return _histogram(g, _points(g, x), bins, weight, density)


def _points(g: Emitter, x: Value) -> Value:
    """The points of a histogram as rows."""
    return g.reshape(x, [-1, g.known_dims(x)[-1]])


def _even_edges(g: Emitter, points: Value, axis: int, count: int, limits: Sequence[float] | None) -> Value:
    """The edges of bins of equal width, between limits or the data's own; counted from both ends, as linspace does."""
    column = g.op.Gather(points, g.const(axis), axis=1)
    if limits:
        low, high = (g.like(points, limit) for limit in limits)
    elif g.known_dims(points)[0] == 0:
        low, high = g.like(points, 0), g.like(points, 1)
    else:
        low, high = g.reduce("ReduceMin", column), g.reduce("ReduceMax", column)
    apart = g.cast(g.equal(low, high), g.dtype(points))
    half = g.op.Mul(apart, g.like(points, 0.5))  # no width at all becomes one
    low, high = g.op.Sub(low, half), g.op.Add(high, half)
    step = g.op.Div(g.op.Sub(high, low), g.like(points, count))
    numbers = torch.arange(count + 1, dtype=g.dtype(points))
    middle = (count + 1) // 2
    before = g.op.Add(low, g.op.Mul(step, g.const_tensor(numbers[:middle])))
    after = g.op.Sub(high, g.op.Mul(step, g.const_tensor(count - numbers[middle:])))
    return g.op.Concat(before, after, axis=0)


def _histogram(g: Emitter, points: Value, edges: Sequence[Value], weight: Value | None, density: bool) -> Value:
    """How many points (or how much of their weight) each bin holds: a product of who is in which bin, by axis."""
    inside = [_inside(g, g.slice(points, [axis], [axis + 1], [1]), each) for axis, each in enumerate(edges)]
    owners = inside[0]
    if weight is not None:
        owners = g.op.Mul(owners, g.reshape(weight, [-1, 1]))
    for each in inside[1:-1]:
        pairs = g.op.Mul(g.unsqueeze(owners, [2]), g.unsqueeze(each, [1]))
        owners = g.reshape(pairs, [g.known_dims(points)[0], -1])
    if len(inside) == 1:
        held = g.reduce("ReduceSum", owners, [0])
    else:
        held = g.op.MatMul(g.op.Transpose(owners, perm=[1, 0]), inside[-1])
    sizes = [g.dim_size(each, 0) - 1 for each in edges]
    held = g.reshape(held, sizes)
    if not density:
        return held
    held = g.op.Div(held, g.reduce("ReduceSum", held))
    for axis, each in enumerate(edges):
        width = g.op.Sub(g.slice(each, [1], [_END], [0]), g.slice(each, [0], [-1], [0]))
        held = g.op.Div(held, g.unsqueeze(width, [place for place in range(len(edges)) if place != axis]))
    return held


def _inside(g: Emitter, column: Value, edges: Value) -> Value:
    """One where a point [n, 1] is in a bin [bins], which begins at its lower edge; the last one has its upper, too."""
    reached = g.cast(g.greater_or_equal(column, edges), torch.int32)
    beyond = g.cast(g.op.Greater(column, g.slice(edges, [-1], [_END], [0])), torch.int32)
    later = g.op.Concat(g.slice(reached, [1], [-1], [1]), beyond, axis=1)
    return g.cast(g.op.Sub(g.slice(reached, [0], [-1], [1]), later), g.dtype(column))
